"""Rates while a command runs: which counters they are from, and when there are none."""

import math

import pytest

from iosweep.node import meter
from iosweep.node.io_counters import Bytes
from iosweep.node.meter import Account, Look, Meter, Rates
from iosweep.node.monitor import QUANTITIES, Sample

NO, MB = Bytes(0, 0), 1_000_000
IO = b"""\
rchar: 2324234243
wchar: 12
syscr: 35466
syscw: 3
read_bytes: 57344
write_bytes: 4096
cancelled_write_bytes: 0
"""


def sample(at_s: float, **counts: float) -> Sample:
    """A reading with these counts, and none of others."""
    return Sample(at_s, tuple(counts.get(quantity.name, math.nan) for quantity in QUANTITIES))


def test_the_account_of_a_process() -> None:
    assert meter.account(IO) == Account(Bytes(2324234243, 12), Bytes(57344, 4096))
    assert meter.account(b"") == Account(NO, NO)


def test_counters_that_the_node_has() -> None:
    seen = sample(
        1.0, device_read_bytes_per_s=5.0, device_written_bytes_per_s=7.0, received_bytes_per_s=1.0,
        sent_bytes_per_s=2.0, client_read_bytes_per_s=3.0,
    )  # fmt: skip
    assert meter.counters(seen) == {"device": Bytes(5, 7), "network": Bytes(1, 2)}


def calls(read: int, written: int = 0) -> Account:
    return Account(Bytes(read, written), NO)


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        # system calls are what the tool moves, also where nothing crosses a device
        ({}, {"7": calls(4 * MB)}, ("tool", 2 * MB, 0)),
        ({"7": calls(MB), "8": calls(0, 5)}, {"7": calls(3 * MB), "8": calls(0, 5)}, ("tool", MB, 0)),
        # libaio makes no such calls: storage has them, of each process
        ({"7": Account(NO, NO)}, {"7": Account(Bytes(40, 0), Bytes(8 * MB, 0))}, ("tool", 4 * MB, 0)),
        # read-ahead is more than the tool reads
        ({"7": Account(NO, NO)}, {"7": Account(Bytes(6 * MB, 0), Bytes(8 * MB, 0))}, ("tool", 3 * MB, 0)),
    ],
)
def test_of_the_tool(before: dict[str, Account], now: dict[str, Account], found: tuple[str, float, float]) -> None:
    rates = meter.rates(Look(10.0, {}, before or None), Look(12.0, {}, now))
    assert rates == Rates(found[0], found[1], found[2], 2.0)  # type: ignore[arg-type]


def test_of_what_sees_more() -> None:
    """The client before the devices, and the network last."""
    counts = {"client": Bytes(8 * MB, 0), "device": Bytes(7 * MB, 0), "network": Bytes(9 * MB, 0)}
    own = {"7": calls(3 * MB)}  # a part: less than half
    for source in ("client", "device", "network"):
        seen = {name: count for name, count in counts.items() if [*counts].index(name) >= [*counts].index(source)}
        rates = meter.rates(Look(0.0, dict.fromkeys(seen, NO), {"7": calls(0)}), Look(2.0, seen, own))
        # the network is all that a node moves, so that it is no measure of the tool
        assert rates
        assert rates.source == (source if source != "network" else "tool")
    rates = meter.rates(Look(0.0, {"network": NO}, {}), Look(2.0, {"network": Bytes(0, MB)}, {}))
    assert rates == Rates("network", 0, MB / 2, 2.0)


def test_next_to_nothing_beside_the_network() -> None:
    """fio's libaio on a FUSE file system: its processes are seen to read a few counters of 8 bytes."""
    before = Look(0.0, {"network": NO}, {"7": calls(0)})
    rates = meter.rates(before, Look(2.0, {"network": Bytes(400 * MB, MB)}, {"7": calls(224)}))
    assert rates == Rates("network", 200 * MB, MB / 2, 2.0)
    # other traffic beside a slow tool is not the tool's
    rates = meter.rates(before, Look(2.0, {"network": Bytes(99 * MB, 0)}, {"7": calls(MB)}))
    assert rates == Rates("tool", MB / 2, 0, 2.0)


def test_a_process_that_was_not_seen_before() -> None:
    """What it moved since its start was not moved in this interval."""
    now = {"7": calls(4 * MB), "9": calls(100 * MB)}
    rates = meter.rates(Look(0.0, {}, {"7": calls(2 * MB)}), Look(2.0, {}, now))
    assert rates == Rates("tool", MB, 0, 2.0)
    assert meter.rates(Look(0.0, {}, {}), Look(2.0, {}, now)) is None


def test_counters_that_began_again() -> None:
    assert meter.rates(Look(0.0, {"client": Bytes(9, 9)}, {}), Look(2.0, {"client": Bytes(3, 9)}, {})) is None
    assert meter.rates(Look(2.0, {"client": NO}, {}), Look(2.0, {"client": Bytes(3, 9)}, {})) is None
    # a process number that was given again
    assert meter.rates(Look(0.0, {}, {"7": calls(9)}), Look(2.0, {}, {"7": calls(3)})) is None


def test_nothing_moves() -> None:
    """A hung file system: that is a rate, too."""
    same = {"device": Bytes(7, 7)}
    assert meter.rates(Look(0.0, same, {"7": calls(5)}), Look(2.0, same, {"7": calls(5)})) == Rates("device", 0, 0, 2.0)


def test_with_many_nodes_each_is_heard_less_often() -> None:
    assert [meter.every_s(nodes) for nodes in (1, 100, 128, 640)] == [2.0, 2.0, 2.0, 10.0]


def test_told_at_every_other_second(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Rates] = []
    monkeypatch.setattr(meter.procfs, "read", lambda pid, name: b"")
    watched = Meter(lambda: ["7"], told.append)
    for at_s in (0.0, 1.0, 2.01, 2.99, 4.0, 12.0):
        watched.sampled(sample(at_s, sent_bytes_per_s=at_s * MB, received_bytes_per_s=0.0))
    assert [(round(one.written_bytes_per_s / MB, 3), one.over_s) for one in told] == [
        (1.0, 2.01),
        (1.0, 1.99),
        (1.0, 8.0),
    ]


def test_processes_are_looked_for_when_one_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    moved, told, searches = {"7": 0, "8": 0}, list[Rates](), list[int]()

    def pids() -> list[str]:
        searches.append(1)
        return [*moved]

    monkeypatch.setattr(meter.procfs, "read", lambda pid, name: b"rchar: %d" % moved[pid] if pid in moved else b"")
    watched = Meter(pids, told.append)
    watched.sampled(sample(0.0))
    for k in range(1, 7):
        moved |= dict.fromkeys(moved, 2 * k * MB)
        if k == 4:
            del moved["8"]
            moved["9"] = 50 * MB  # found at the next look, and counted from the one after
        watched.sampled(sample(2.0 * k))
    assert [one.read_bytes_per_s for one in told] == [2 * MB, 2 * MB, 2 * MB, MB, MB, 2 * MB]
    assert len(searches) == 2
