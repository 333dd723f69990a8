"""fio's logs to series: late looks, gaps, damage."""

import pytest

from iosweep.judge.checks.stragglers import slowest_share
from iosweep.tools import Evidence, Parsed, Step, tools
from iosweep.tools.fio import nodes, series

FIO = tools()["fio"]
MIB = 1 << 20
STEADY = [(ms, 1024, 0) for ms in range(100, 2001, 100)]
Entries = list[tuple[int, int, int]]


def logs(*entries: Entries) -> bytes:
    """One log for each worker, of (ms, KiB/s, direction)."""
    text = ""
    for worker, own in enumerate(entries, 1):
        text += f"==> series_bw.{worker}.log <==\n" + "".join(f"{t}, {v}, {d}, 4096, 0\n" for t, v, d in own)
    return text.encode()


def values(stream: bytes, moved_mib: float) -> list[float]:
    """MiB/s of the node in each interval of 2 s."""
    found = series.read(stream, 2.0, 2.0, moved_mib * MIB)
    assert found
    return [round(value / MIB, 3) for value in found.node.values]


def test_each_direction_and_worker_counts() -> None:
    one = [(ms, 1024, direction) for ms, _, _ in STEADY for direction in (0, 1)]
    assert values(logs(one, one), 8.0) == [4.0] * 20


def test_a_look_that_was_late_stands_for_its_time_and_a_gap_for_a_standstill_where_the_bytes_say_so() -> None:
    assert values(logs(STEADY), 2.0) == [1.0] * 20
    assert values(logs([(150, 1024, 0), *STEADY[1:]]), 2.0) == [1.0] * 20
    gap = logs(STEADY[:5] + STEADY[14:])
    assert values(gap, 2.0) == [1.0] * 20
    assert values(gap, 1.1) == [1.0] * 5 + [0.0] * 9 + [1.0] * 6
    assert values(logs(STEADY[:11]), 1.1) == [1.0] * 11 + [0.0] * 9


def test_a_worker_without_an_entry_did_nothing_while_others_did() -> None:
    found = series.read(logs(STEADY, [(1000, 1024, 0)], []), 2.0, 2.0, 2.1 * MIB)
    assert found
    assert [round(moved / MIB, 2) for moved in found.moved_bytes.values()] == [2.0, 0.1, 0.0]
    one = series.read(logs([], [(10, 1024, 0)]), 0.2, 0.01, 10 * MIB)  # a phase of one interval
    assert one and one.moved_bytes == {0: 0.0, 1: pytest.approx(0.01 * MIB)}
    assert series.read(b"", 2.0, 2.0, 1.0 * MIB) is series.read(logs([]), 2.0, 2.0, 1.0 * MIB) is None


def test_what_fio_does_not_write_gives_no_series() -> None:
    for text in (
        "100, x, 0, 0, 0\n", "100, 5, 0, 0, 0\n200, 5, 0, 0, 1", "100, -5, 0, 0, 0\n", "100, 5, 0, 0, 0\n100, 5\n",
        "200, 5, 0, 0, 0\n100, 5, 0, 0, 0\n", "1, 2\n", "9" * 40 + ", 5, 0, 0, 0\n",
    ):  # fmt: skip
        with pytest.raises(series.Unreadable):
            series.read(logs([]) + text.encode(), 2.0, 2.0, 1.0 * MIB)
    for stream in (b"x", b"x" + logs(STEADY)):
        with pytest.raises(series.Unreadable):
            series.read(stream, 2.0, 2.0, 1.0 * MIB)


def with_rates(stream: bytes, moved_mib: float, runtime_s: float = 2.0) -> Evidence:
    """What is told of a node with two workers, which moved so much."""
    step = Step({"threads_per_node": 2}, (FIO.phases["seq_write"],), 1, 2.0)
    figures = {"runtime_s": runtime_s, "bandwidth_bytes_per_s": moved_mib * MIB / runtime_s, "ops": moved_mib * 256}
    parsed = Parsed(figures=figures, evidence=Evidence(transferred_bytes=round(moved_mib * MIB)))
    found = nodes.with_logs(parsed.evidence, {"": parsed}, [stream], step)
    assert bool(found.lost) != bool(found.series)
    return found


def test_logs_that_are_not_of_this_run_are_not_used() -> None:
    whole = logs(STEADY, STEADY)
    for moved_mib in (3.5, 4.0, 4.5):
        assert with_rates(whole, moved_mib).series
    # what came after the last entry is not in a log
    assert with_rates(logs([(600, 1024, 0)], [(600, 1024, 0)]), 4.0).series
    for stream, moved_mib, word in (
        (logs(STEADY), 4.0, "1 of 2 workers"),
        (whole, 8.0, "8.0 MiB"),
        (whole, 2.0, "2.0 MiB"),
        (logs(STEADY, [*STEADY[:-1], (2000, 1 << 53, 0)]), 4.0, "4.0 MiB"),
        (whole[:-1], 4.0, "worker 2"),
    ):
        assert word in with_rates(stream, moved_mib).lost


def test_each_worker_has_its_rate_while_fio_logged_and_a_slow_one_is_seen() -> None:
    found = with_rates(logs(STEADY, STEADY[:4]), 2.4)
    assert [round(sum(one.values) / MIB) for one in found.series] == [24]
    rates = [one for one in found.node_rates if one.worker is not None]
    assert [(one.worker, one.bandwidth_bytes_per_s) for one in rates] == [
        (0, pytest.approx(MIB)), (1, pytest.approx(0.2 * MIB)),
    ]  # fmt: skip
    assert [one.ops_per_s for one in rates] == pytest.approx([256, 51.2])
    assert slowest_share(rates) == pytest.approx(1 / 3)
