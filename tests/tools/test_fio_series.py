"""fio's logs to series: late looks, gaps, damage; and what a real run leaves."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from iosweep.files import safe_paths
from iosweep.results.node_rates import slowest, workers
from iosweep.run.remote_agent import collected
from iosweep.tools import Evidence, Parsed, Step, tools
from iosweep.tools.fio import nodes, series_log

FIO = tools()["fio"]
MIB = 1 << 20


def logs(*entries: list[tuple[int, int, int]]) -> bytes:
    """One log for each worker, of (ms, KiB/s, direction)."""
    text = ""
    for worker, own in enumerate(entries, 1):
        text += f"==> series_bw.{worker}.log <==\n" + "".join(f"{t}, {v}, {d}, 4096, 0\n" for t, v, d in own)
    return text.encode()


def values(stream: bytes, moved_mib: float, time_s: float = 2.0, runtime_s: float = 2.0) -> list[float]:
    """MiB/s of the node in each interval."""
    found = series_log.read(stream, time_s, runtime_s, moved_mib * MIB)
    assert found
    return [round(value / MIB, 1) for value in found.node.values]


def test_a_worker_that_did_nothing_in_a_phase_of_one_interval() -> None:
    found = series_log.read(logs([], [(10, 1024, 0)]), 0.2, 0.01, 10 * MIB)
    assert found and [one.values for one in found.workers] == [(0.0,), (MIB,)]


@pytest.mark.parametrize(("time_s", "interval_s"), [(0.1, 0.01), (1, 0.05), (2, 0.1), (20, 1), (300, 1), (900, 3)])
def test_intervals(time_s: float, interval_s: float) -> None:
    assert series_log.interval_s(time_s) == interval_s
    assert 10 <= time_s / interval_s <= series_log.MOST


def test_each_direction_and_worker_counts() -> None:
    one = [(k * 100, 1024, direction) for k in range(1, 21) for direction in (0, 1)]
    assert values(logs(one, one), 8.0) == [4.0] * 20


def test_a_look_that_was_late_stands_for_its_time() -> None:
    assert values(logs([(150, 1024, 0)] + [(k * 100, 1024, 0) for k in range(2, 21)]), 2.0) == [1.0] * 20
    late = [(k * 100, 1024, 0) for k in range(1, 6)] + [(k * 100, 1024, 0) for k in range(15, 21)]
    assert values(logs(late), 2.0) == [1.0] * 20


def test_a_gap_is_a_standstill_where_the_bytes_say_so() -> None:
    gap = [(k * 100, 1024, 0) for k in range(1, 6)] + [(k * 100, 1024, 0) for k in range(15, 21)]
    assert values(logs(gap), 1.1) == [1.0] * 5 + [0.0] * 9 + [1.0] * 6
    assert values(logs([(k * 100, 1024, 0) for k in range(1, 12)]), 1.1) == [1.0] * 11 + [0.0] * 9


def test_a_worker_without_an_entry_did_nothing_while_others_did() -> None:
    steady = [(k * 100, 1024, 0) for k in range(1, 21)]
    found = series_log.read(logs(steady, [(1000, 1024, 0)], []), 2.0, 2.0, 2.1 * MIB)
    assert found
    assert [round(moved / MIB, 2) for moved in found.moved_bytes] == [2.0, 0.1, 0.0]


@pytest.mark.parametrize(
    "stream",
    [b"x", b"==> series_bw.1.log <==\n100, x, 0, 0, 0\n", b"==> series_bw.1.log <==\n100, 5, 0, 0, 0\n200, 5, 0, 0, 1",
     b"==> series_bw.1.log <==\n100, -5, 0, 0, 0\n", b"==> series_bw.1.log <==\n100, 5, 0, 0, 0\n100, 5\n",
     b"==> series_bw.1.log <==\n200, 5, 0, 0, 0\n100, 5, 0, 0, 0\n", b"==> series_bw.1.log <==\n1, 2\n",
     b"==> series_bw.1.log <==\n" + b"9" * 40 + b", 5, 0, 0, 0\n"],
)  # fmt: skip
def test_what_is_not_of_fio_gives_no_series(stream: bytes) -> None:
    with pytest.raises(series_log.Unreadable):
        series_log.read(stream, 2.0, 2.0, 1.0 * MIB)


@pytest.mark.parametrize("stream", [b"", b"==> series_bw.1.log <==\n"])
def test_nothing_was_logged(stream: bytes) -> None:
    assert series_log.read(stream, 2.0, 2.0, 1.0 * MIB) is None


def told(stream: bytes, moved_mib: float) -> str:
    """Why the logs of a node with two workers, which moved so much in 2 s, are not used."""
    step = Step({"threads_per_node": 2}, (FIO.phases["seq_write"],), 1, 2.0)
    evidence = Evidence(transferred_bytes=round(moved_mib * MIB))
    parsed = nodes._with_rates(Parsed(figures={"runtime_s": 2.0}, evidence=evidence), stream, step).evidence
    assert bool(parsed.lost) != bool(parsed.series)
    return parsed.lost


def test_logs_that_are_not_of_this_run() -> None:
    steady = [(t, 1024, 0) for t in range(100, 2001, 100)]
    whole = logs(steady, steady)
    assert told(whole, 4.0) == told(whole, 3.5) == told(whole, 4.5) == ""
    assert told(logs(steady), 4.0) == "fio's logs are damaged: 1 of 2 workers have one"
    assert told(whole, 8.0) == "fio's logs are damaged: they add up to 4.0 MiB, and fio moved 8.0 MiB"
    assert "and fio moved 2.0 MiB" in told(whole, 2.0)
    assert "moved 4.0 MiB" in told(logs(steady, [*steady[:-1], (2000, 1 << 53, 0)]), 4.0)
    assert "worker 2 is cut" in told(whole[:-1], 4.0)
    # what came after the last entry is not in a log
    assert told(logs([(600, 1024, 0)], [(600, 1024, 0)]), 4.0) == ""


def measured(directory: Path, time_s: float, stopped: int = 0, after_s: float = 0.0, for_s: float = 0.0) -> Any:
    """What fio reports of 4 workers that read at 2,000 I/Os/s, some of them stopped for a while."""
    options = {"threads_per_node": 4, "transfer_size": 4096, "queue_depth": 1, "file_size": MIB, "files_per_thread": 1,
               "o_direct": False, "ioengine": "psync"}  # fmt: skip
    step = Step(options, (FIO.phases["rand_read"],), 1, time_s)
    (directory / "data").mkdir()
    (directory / "logs").mkdir()
    for worker in range(4):
        (directory / "data" / f"{worker}.0").write_bytes(bytes(MIB))
    argv = [*FIO.argv(step, str(directory / "data"), 7), "--rate_iops=2000"]
    with subprocess.Popen(argv, cwd=directory / "logs", stdout=subprocess.PIPE, start_new_session=True) as run:
        assert run.stdout
        while len(pids := Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()) < 4:
            time.sleep(0.01)
        time.sleep(after_s)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids[:stopped]:
                os.kill(int(pid), number)
            time.sleep(for_s)
        stdout = run.stdout.read()
    with safe_paths.folder(directory / "logs") as place:
        streams = collected(place, FIO.outputs) | {"stdout": stdout}
    return FIO.parse(streams, step, step.phase)


@pytest.mark.local
def test_the_series_of_a_run_add_up(fio: Path, tmp_path: Path) -> None:
    parsed = measured(tmp_path, 1.0)
    whole, *each = parsed.evidence.series
    assert len(each) == len(workers(parsed.evidence.own_rates)) == 4
    assert 17 <= len(whole.values) <= 20
    mean = sum(whole.values) / len(whole.values)
    assert mean == pytest.approx(parsed.figures["bandwidth_bytes_per_s"], rel=0.1)
    assert sum(one.bandwidth_bytes_per_s for one in workers(parsed.evidence.own_rates)) == pytest.approx(mean)


@pytest.mark.local
def test_a_slow_worker(fio: Path, tmp_path: Path) -> None:
    """One that stands still until the end: fio lets it catch up otherwise."""
    parsed = measured(tmp_path, 2.0, 1, 0.2, 2.2)
    lowest = slowest(workers(parsed.evidence.own_rates))
    assert lowest and lowest.share < 0.4
