"""What the real fio does that the scripted one only plays: its exit codes, files, masks and workers. Never how fast it
is, and whether that is worth anything: this machine has other work to do."""

import os
import signal
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import mounts
from campaign import MANY_FILES, SWEEP, Allocation
from iosweep.node.cpus import Topology, listed
from records import plain_records_of
from waiting import over, wait_for

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]

NEW: dict[str, Any] = SWEEP | {
    "phases": ["seq_write"], "axes": {}, "phase_time": "one_pass",
    "options": {"file_size": "2m", "transfer_size": "64k", "write_mode": "new", "o_direct": False},
}  # fmt: skip
READ: dict[str, Any] = SWEEP | {
    "phases": ["rand_read"], "axes": {}, "options": SWEEP["options"] | {"threads_per_node": 2},
}  # fmt: skip
#: Lets a phase go on until it is ended, and limits for that.
ENDLESS = 'set -- "$@" --runtime=100000'
LIMITS = {"retried": "0%", "fill": "100%", "share_of_free": "100%", "grace": "1h"}


def before(allocation: Allocation, call: str, act: str) -> None:
    """Run these words of shell before each fio that has this argument."""
    allocation.fake(f'case "$*" in *{call}*) {act};; esac\nexec "$fio" "$@"')


def phases(allocation: Allocation) -> list[dict[str, Any]]:
    """What is recorded of each phase of each repetition."""
    points, store = allocation.plan.points, allocation.store
    return [run for point in points for record in plain_records_of(store, point.id) for run in record["phases"]]


def working(allocation: Allocation) -> dict[int, int]:
    """Each fio that measures on the target, and its workers: process ids, with those of their parents."""
    found = {}
    for one in allocation.processes("fio"):
        with suppress(psutil.Error):
            if "--runtime" in " ".join(one.cmdline()) and Path(one.exe()).name == "fio":
                found[one.pid] = one.ppid()
    return found


def workers(allocation: Allocation) -> list[int]:
    every = working(allocation)
    return [pid for pid, parent in every.items() if parent in every]


@contextmanager
def started(allocation: Allocation) -> Iterator["subprocess.Popen[bytes]"]:
    """The runner, as a process; in the end nothing of it is left."""
    with subprocess.Popen(allocation.command(), env=allocation.environment, stderr=subprocess.DEVNULL) as runner:
        try:
            yield runner
        finally:
            runner.kill()
    wait_for(lambda: not working(allocation))


def test_one_pass_moves_each_byte_once_and_what_is_created_is_deleted(allocation: Allocation) -> None:
    options = {"file_size": "256k", "transfer_size": "4k", "threads_per_node": 2, "files_per_thread": 3}
    files = MANY_FILES | {"name": "m", "phases": ["create", "delete"], "options": {"files_per_thread": 50}}
    allocation.configure(sweeps=[NEW | {"phases": ["seq_write", "seq_read"], "options": options}, files])
    allocation.measure()
    moved = {row["phase"]: row["ops"] for row in allocation.rows()}
    assert moved == {"seq_write": 2 * 3 * 64, "seq_read": 2 * 3 * 64, "create": 50, "delete": 50}
    left = {run["phase"]: (run["leftover_expected"], run["leftover"]) for run in phases(allocation)}
    assert (left["create"], left["delete"]) == ((50, 50), (0, 0))
    for run in phases(allocation):  # the counters of the kernel were read; what they saw is a fact of this machine
        [counters] = run["moved"].values()
        assert None not in map(counters.get, ("tool_read_bytes", "tool_written_bytes", "dirty_bytes"))


def test_a_kept_data_set_is_whole_and_random_and_is_read_again_as_it_is(allocation: Allocation) -> None:
    allocation.keep = "data_sets"
    seen = []
    for repetitions in (1, 2):
        allocation.configure(READ | {"repetitions": repetitions})
        allocation.measure()
        files = sorted(allocation.ours.glob("sets/*/*"))
        seen.append([(file, file.stat().st_ino, file.stat().st_mtime_ns) for file in files])
    assert seen[0] == seen[1]
    one, two = (file.read_bytes() for file in files)
    assert len(one) == len(two) == 256 << 10 and one != two
    assert len(zlib.compress(one + two)) > 0.9 * (512 << 10)  # some seeds of fio repeat a few per cent
    assert [run["exit_code"] for run in phases(allocation)] == [0, 0]
    assert all(row["ops_per_s"] > 0 for row in allocation.rows())


# What goes wrong


@pytest.mark.skipif(bool(mounts.missing()), reason=mounts.missing() or "")
def test_a_full_disk_fails_the_phase_and_leaves_nothing(tmp_path: Path) -> None:
    with mounts.tmpfs(tmp_path / "target"):
        full = Allocation(tmp_path, NEW, limits=LIMITS)
        before(full, "--name=seq_write", f"cat /dev/zero > '{full.target}/filler' 2> /dev/null")
        full.measure()
        [run] = phases(full)
        assert run["exit_code"] != 0
        assert "exit_status" in full.failed()
        assert [file.name for file in full.target.iterdir()] == ["filler"]


def test_a_file_of_a_set_that_has_gone_is_not_made_by_fio(allocation: Allocation) -> None:
    """It would read what it has made itself."""
    allocation.configure(READ)
    before(allocation, "--runtime", f"rm '{allocation.ours}'/sets/*/0.0")
    allocation.measure()
    [run] = phases(allocation)
    assert run["exit_code"] != 0
    assert "exit_status" in allocation.failed()


def test_no_worker_of_a_killed_fio_lives_on(allocation: Allocation) -> None:
    allocation.configure(READ, limits=LIMITS)
    before(allocation, "--runtime", ENDLESS)
    with started(allocation) as runner:
        wait_for(lambda: len(workers(allocation)) == 2, over=over(runner))
        [first] = set(working(allocation)) - set(workers(allocation))
        os.kill(first, signal.SIGKILL)
        assert runner.wait() == 0
    [run] = phases(allocation)
    assert (run["exit_code"], run["timed_out"]) == (-signal.SIGKILL, False)
    assert "exit_status" in allocation.failed()


def test_a_fio_that_does_not_end_is_ended_with_its_workers(allocation: Allocation) -> None:
    allocation.configure(READ, limits=LIMITS | {"grace": "1s"})
    before(allocation, "--runtime", ENDLESS)
    allocation.measure()
    assert not working(allocation)
    [run] = phases(allocation)
    assert run["timed_out"] and run["exit_code"] != 0
    assert "exit_status" in allocation.failed()
    assert not allocation.ours.exists()


@pytest.mark.parametrize("keeps", [False, True], ids=["nothing is reserved", "a CPU is reserved"])
def test_each_worker_has_a_cpu_and_none_has_a_reserved_one(allocation: Allocation, keeps: bool) -> None:
    ours = frozenset(os.sched_getaffinity(0))
    reserved = Topology.read().with_siblings({max(ours)})
    if not ours - reserved:
        pytest.skip("cpus: this needs two cores")
    cpus, usable = ({"reserved": listed(reserved)}, ours - reserved) if keeps else ({}, ours)
    allocation.configure(READ, pinning="enforce", cpus=cpus, limits=LIMITS)
    before(allocation, "--runtime", ENDLESS)

    def bound() -> bool:
        masks = [os.sched_getaffinity(pid) for pid in workers(allocation)]
        return len(masks) == 2 and masks[0] | masks[1] <= usable and (keeps or masks[0].isdisjoint(masks[1]))

    with started(allocation) as runner:
        wait_for(bound, over=over(runner))
