"""`iosweep watch`: the rates of what runs now."""

import subprocess
import time
from pathlib import Path

import pytest
from msgspec import structs

from campaign import SWEEP, Allocation
from iosweep.commands.watch import rates
from iosweep.commands.watch.rates import Rates
from iosweep.commands.watch.seen import Seen, of_allocation
from iosweep.commands.watch.snapshot import Campaign
from iosweep.results import current_rates
from iosweep.results.current_rates import CurrentRates, NodeRates
from waiting import over, wait_for

MIB = 1 << 20


def found(*written: float, expected: int = 0, read: float = 0.0, source: str = "tool") -> CurrentRates:
    """Rates of as many nodes."""
    nodes = {f"n{k}": NodeRates(source, read, one, 2.0) for k, one in enumerate(written, 1)}  # type: ignore[arg-type]
    return CurrentRates(
        allocation="1-node", point="fio.seq_write+1.4t.1m.abc", repetition=2, phases="seq_write", began=1000.0,
        at=1040.0, expected=expected or max(1, len(nodes)), nodes=nodes,
    )  # fmt: skip


def text(of: CurrentRates) -> list[str]:
    running = rates.running(of)
    assert running
    return [*rates.lines(running, 1041.0)]


def test_of_one_node() -> None:
    assert text(found(512.0 * MIB)) == [
        "seq_write of fio.seq_write+1.4t.1m r2 for 41 s: writes 512 MiB/s",
        "preliminary, by the counters of the tool's processes",
    ]
    assert text(found(64.0 * MIB, read=192.0 * MIB))[0].endswith(": reads 192 MiB/s, writes 64.0 MiB/s")
    assert text(found(0.0))[0].endswith(": no bytes are moved")
    assert text(found(0.0, read=64.0))[0].endswith(": no bytes are moved")  # what waits for libaio reads 8 at a time
    preparing = structs.replace(found(1.0 * MIB), phases="")
    assert text(preparing)[0].startswith("preparing a data set of fio.seq_write")


def test_of_nodes_that_are_alike() -> None:
    first, second = text(found(*[100.0 * MIB] * 6, source="client"))
    assert first.endswith(": writes 600 MiB/s")
    assert second == ("preliminary, by the counters of the file system's client; n[1-6]: about 100 MiB/s each")


def test_of_nodes_that_differ() -> None:
    assert text(found(200.0 * MIB, 100.0 * MIB))[1].endswith("; n2 100 MiB/s, n1 200 MiB/s")
    many = [100.0 * MIB] * 128
    many[76] = 10.0 * MIB
    assert text(found(*many))[1].endswith("; slowest n77 10.0 MiB/s, fastest n128 100 MiB/s of 128 nodes")


def test_nodes_that_are_silent() -> None:
    assert text(found(1.0 * MIB, expected=2))[1].endswith("; nothing new from 1 node")
    assert rates.running(found(expected=2)) is None
    one = structs.replace(found(1.0 * MIB, expected=2), silent="n2\x1b")
    assert text(one)[1].endswith("; nothing new from n2\\x1b")
    many = structs.replace(found(1.0 * MIB, expected=7), silent="n[2-7]")
    assert text(many)[1].endswith("; nothing new from n[2-7]")


def test_sources() -> None:
    mixed = found(1.0 * MIB, 1.0 * MIB)
    mixed.nodes["n2"] = structs.replace(mixed.nodes["n2"], source="network")
    assert "by the counters of the tool's processes and the network;" in text(mixed)[1]


def test_names_do_not_reach_the_terminal_as_they_are() -> None:
    bad = structs.replace(found(1.0 * MIB), phases="\x1b[2J")
    bad.nodes["\x1b[1m"] = bad.nodes["n1"]
    assert not any("\x1b" in line for line in text(bad))


def test_old_rates_are_not_shown() -> None:
    one = found(1.0)
    assert rates.is_recent(one, 1045.0, None)
    assert not rates.is_recent(one, 1047.0, None)
    assert not rates.is_recent(one, 1033.0, None)
    # the clock of the other host is an hour off, but the file has changed 2 s ago
    assert rates.is_recent(one, 4640.0, 2.0)
    assert not rates.is_recent(one, 1041.0, 7.0)


def test_the_file_of_a_runner_that_was_killed(tmp_path: Path) -> None:
    seen = Rates(tmp_path)
    assert seen.look(1000.0) is None
    (tmp_path / current_rates.NAME).write_bytes(current_rates.encode(found(1.0)))
    assert seen.look(99_000.0) is None
    assert seen.look(99_002.0) is None
    # another clock: shown once it changes
    (tmp_path / current_rates.NAME).write_bytes(current_rates.encode(structs.replace(found(1.0), at=1042.0)))
    assert seen.look(99_004.0)


def test_only_of_the_allocation_that_is_measured() -> None:
    running = rates.running(found(1.0))
    seen = {state: Seen("1-node", 1, state=state) for state in ("measuring", "unseen", "stopped", "done")}  # type: ignore[arg-type]
    assert [state for state, one in seen.items() if of_allocation(running, one)] == ["measuring", "unseen"]
    assert not of_allocation(running, Seen("2-nodes", 2, state="measuring"))
    assert not of_allocation(None, seen["measuring"])


@pytest.mark.local
def test_a_campaign_that_runs(tmp_path: Path, fio: Path) -> None:
    allocation = Allocation(tmp_path, SWEEP | {"axes": {}, "phases": ["seq_write"], "phase_time": "500s"})
    with subprocess.Popen(
        allocation.command(), env=allocation.environment, cwd=tmp_path, stderr=subprocess.PIPE
    ) as process:  # fmt: skip
        try:
            wait_for(allocation.results.exists, over=over(process))
            campaign = Campaign(allocation.results)

            def writes() -> bool:
                running = [a.rates for a in campaign.look().allocations if a.rates and a.rates.phases]
                return any(one.written_bytes_per_s > 0 and one.nodes[0].source == "tool" for one in running)

            wait_for(writes, over=over(process), pause_s=0.2)
            assert time.time() - (current_rates.read(allocation.results) or found()).at < 600
        finally:
            process.terminate()
    assert not (allocation.results / current_rates.NAME).exists()
    assert campaign.look().wrong == ()
