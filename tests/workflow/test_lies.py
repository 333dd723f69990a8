"""Figures that are not those of the storage, provoked with the real fio: the check that exists for each fails, and its
reason is in words. The lies are in the tests only: a fio whose arguments or output are changed (lying_fio.py),
one whose workers are stopped and continued (disturbed.py), and what is done here to the target and to the machine.
Whether honest runs pass the same checks is counted by `make bench ARGS=honest`.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet
import pytest

import disturbed
import lying_fio
import mounts
from campaign import Allocation
from held_job import Held
from two_nodes import Job
from waiting import wait_for

READS: dict[str, Any] = {
    "name": "s", "tool": "fio", "phases": ["rand_read"], "phase_time": "1s", "repetitions": 1,
    "options": {"file_size": "8m", "transfer_size": "4k", "threads_per_node": 2, "queue_depth": 4},
}  # fmt: skip
WRITES = READS | {"phases": ["seq_write"], "options": READS["options"] | {"transfer_size": "64k"}}
NEW_FILES = WRITES | {"options": WRITES["options"] | {"write_mode": "new"}}
RANDOM_WRITES = WRITES | {"options": WRITES["options"] | {"data": "random"}}
LONGER = READS | {"phase_time": "2s"}
FOUR = LONGER | {"options": READS["options"] | {"threads_per_node": 4}}
#: A worker that waits for one I/O at a time leaves CPU time to others.
LONG = READS | {"phase_time": "10s", "options": READS["options"] | {"threads_per_node": 1, "queue_depth": 1}}
ONE = LONGER | {"options": READS["options"] | {"threads_per_node": 1}}
FIVE_TIMES = READS | {"phase_time": "500ms", "repetitions": 5}
#: One I/O at a time from the page cache: nothing but CPU time is needed.
BUFFERED = LONGER | {"options": READS["options"] | {"o_direct": False, "ioengine": "psync", "queue_depth": 1}}

SetUp = Callable[[Allocation], AbstractContextManager[None]]


class Lie(NamedTuple):
    """What is done, and which check finds it, with words of its reason."""

    set_up: SetUp
    check: str
    words: str  # regular expression
    sweep: dict[str, Any] = READS


# What is done


def told(lie: str) -> SetUp:
    """The arguments or the output of fio are changed."""

    @contextlib.contextmanager
    def set_up(made: Allocation) -> Iterator[None]:
        made.fake(lying_fio.through(lie))
        yield

    return set_up


def stopped(schedule: str, workers: str = "all", when: str = "true") -> SetUp:
    """fio's workers are stopped by a schedule."""

    @contextlib.contextmanager
    def set_up(made: Allocation) -> Iterator[None]:
        made.fake(disturbed.wrapper(schedule, workers, when.format(place=made.place)))
        yield

    return set_up


@contextlib.contextmanager
def in_memory(made: Allocation) -> Iterator[None]:
    """The target is a tmpfs."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made.target = Path(folder)
        made.lock = str(made.place)  # locks of tests are in memory, too
        made.configure(made.sweep)
        yield


@contextlib.contextmanager
def on_ext4(made: Allocation) -> Iterator[None]:
    """The target is an ext4 on a loop device."""
    if reason := mounts.missing():
        pytest.skip(reason)
    with mounts.ext4(made.target):
        yield


@contextlib.contextmanager
def on_ext4_in_memory(made: Allocation) -> Iterator[None]:
    """The file behind the loop device is in a tmpfs."""
    if reason := mounts.missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made.target = Path(folder, "target")
        made.target.mkdir()
        made.configure(made.sweep)
        with on_ext4(made):
            yield


@contextlib.contextmanager
def elsewhere(made: Allocation) -> Iterator[None]:
    """What fio writes gets to another directory, and so to any other file system."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        made.fake(f"""
case "$*" in *--name=prepare*) exec "$fio" "$@";; esac
for word; do
    shift
    case "$word" in --directory=*) word=--directory={folder};; esac
    set -- "$@" "$word"
done
exec "$fio" "$@" """)
        yield


@contextlib.contextmanager
def punched(made: Allocation) -> Iterator[None]:
    """While its files are read, they become holes: what has to be read no longer comes from the storage."""
    made.fake("""
for word; do case "$word" in --directory=*) directory=${word#--directory=};; esac; done
case "$*" in *--runtime=*)
    (sleep 0.4; for file in "$directory"/*; do fallocate --punch-hole --offset 0 --length 8m "$file"; done) &;;
esac
exec "$fio" "$@" """)
    yield


def zeros(command: str) -> SetUp:
    """What fio writes is zeros, and not the random data that was asked for."""

    @contextlib.contextmanager
    def set_up(made: Allocation) -> Iterator[None]:
        made.fake(f"""
case "$*" in *--name={command}*) exec "$fio" "$@" --zero_buffers --refill_buffers=0;; esac
exec "$fio" "$@" """)
        yield

    return set_up


@contextlib.contextmanager
def beside(*command: str) -> Iterator[None]:
    """A program runs all the while."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def dd_beside(made: Allocation) -> Iterator[None]:
    """dd writes to the same file system."""
    file, loop = (
        made.target / "others",
        'while :; do dd if=/dev/zero of="$0" bs=1M count=16 oflag=direct conv=notrunc; done',
    )
    with on_ext4(made), beside("sh", "-c", loop, str(file)):
        yield


@contextlib.contextmanager
def busy_cpu(made: Allocation) -> Iterator[None]:
    """Another process takes as much as it can of the CPU that the only worker is bound to."""
    cpu = str(min(os.sched_getaffinity(0)))
    made.configure(made.sweep, pinning="enforce")
    with beside("taskset", "-c", cpu, sys.executable, "-c", "while True: pass"):
        yield


#: Where control groups of either version are made: files of a weight that beats all others, and of half a CPU.
CPU_QUOTAS = (
    ("/sys/fs/cgroup/cpu", {"cpu.shares": "10240", "cpu.cfs_quota_us": "50000"}),
    ("/sys/fs/cgroup", {"cpu.weight": "1000", "cpu.max": "50000 100000"}),
)


def limited_group() -> Path:
    """A new control group that nothing stops but its quota. Skips where none can be made."""
    for folder, files in CPU_QUOTAS:
        group = Path(folder, f"iosweep-test-{os.getpid()}")
        with contextlib.suppress(OSError):
            group.mkdir()
            for name, value in files.items():
                (group / name).write_text(value)
            return group
    pytest.skip("root: no control group with a CPU quota can be made here")


@contextlib.contextmanager
def quota(made: Allocation) -> Iterator[None]:
    """The job may use half a CPU."""
    processes = limited_group() / "cgroup.procs"
    enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(processes)]
    made.command = lambda *words, command=made.command: [*enter, *command(*words)]
    try:
        yield
    finally:
        wait_for(lambda: not processes.read_text())
        processes.parent.rmdir()


EVERY_SECOND = "n=$(cat {place}/n 2> /dev/null || echo 0); echo $((n + 1)) > {place}/n; [ $((n % 2)) = 1 ]"
LATER = "n=$(cat {place}/n 2> /dev/null || echo 0); echo $((n + 1)) > {place}/n; [ $n -gt 2 ]"

LIES: dict[str, Lie] = {
    "rates x 10": Lie(told("rates-x10"), "in_flight", "in flight"),
    "a clock of double the speed": Lie(told("clock-double"), "clock", "its clock is fast", LONGER),
    "dropped O_DIRECT": Lie(told("drop-direct"), "as_asked", "direct"),
    "dropped flush": Lie(told("drop-fsync"), "as_asked", "fsync", WRITES),
    "sequential": Lie(told("sequential-instead-of-random"), "as_asked", "rand"),
    "another directory": Lie(elsewhere, "as_asked", "fio worked in /var/tmp/.*, which its command does not", NEW_FILES),
    "a tmpfs": Lie(in_memory, "reached", "is memory"),
    "a loop device in memory": Lie(on_ext4_in_memory, "reached", "is memory"),
    "punched holes": Lie(punched, "unchanged", "changed while they were read"),
    "a data set of zeros": Lie(zeros("prepare"), "incompressible", "compresses"),
    "random data that is none": Lie(zeros("seq_write"), "incompressible", "compresses", RANDOM_WRITES),
    "a stall": Lie(stopped("stall"), "steady", "stood still", LONGER),
    "two modes": Lie(stopped("half", when=EVERY_SECOND), "precise", "not repeatable", FIVE_TIMES),
    "a drift over repetitions": Lie(stopped("slow", when=LATER), "precise", "not repeatable", FIVE_TIMES),
    "a slow worker": Lie(stopped("slow", "1"), "even", "worker .* of the workers' median", FOUR),
    "dd beside it": Lie(dd_beside, "other_io", "other", LONGER),
    "a busy CPU": Lie(busy_cpu, "other_load", "of the CPU time", ONE),
    "a CPU quota": Lie(quota, "cpu_quota", "a CPU quota stopped", BUFFERED),
}
#: What cannot be told in a shorter phase. These run all at once.
LONG_LIES: dict[str, Lie] = {
    "a clock of half the speed": Lie(told("clock-half"), "clock", "its clock is slow", LONG | {"phase_time": "5s"}),
    "burst credit": Lie(stopped("burst"), "steady", "fell from", LONG),
    "a ramp": Lie(stopped("ramp"), "steady", "started slowly|rose", LONG),
    "a decline": Lie(stopped("decline"), "steady", "fell", LONG),
}


class Told(Allocation):
    """An allocation that knows its sweep."""

    def __init__(self, place: Path, sweep: dict[str, Any]):
        self.sweep = sweep
        super().__init__(place, sweep)

    def configure(self, sweep: dict[str, Any], **document: Any) -> None:
        super().configure(sweep, limits={"retried": "0%", "fill": "100%", "share_of_free": "100%"}, **document)


#: Their fails may be true of an honest run on a busy machine.
OF_THE_MACHINE = {"steady", "even", "precise", "other_io", "other_load", "cpu_quota"}


def judged(made: Allocation) -> list[dict[str, Any]]:
    """The outcomes of all checks."""
    made.rows()
    found: list[dict[str, Any]] = pyarrow.parquet.read_table(made.results / "checks.parquet").to_pylist()
    return found


def caught(made: Allocation, check: str) -> list[str]:
    """The reasons of a check that failed; every row that it failed for is suspect or invalid."""
    rows, found = made.rows(), judged(made)
    failed = [one for one in found if one["check"] == check and one["outcome"] == "fail"]
    verdicts = {(row["point"], row["repetition"]): row["verdict"] for row in rows}
    assert {verdicts[one["point"], one["repetition"]] for one in failed} <= {"suspect", "invalid"}
    shown = "; ".join(
        f"{one['check']}: {one['outcome']} {one['evidence']}" for one in found if one["outcome"] != "pass"
    )
    assert failed, f"{check} did not fail: {[row['verdict'] for row in rows]}; {shown}"
    return [one["evidence"] for one in failed]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, fio: Path) -> dict[str, Told]:
    """LONG_LIES. Those that a busy machine has hidden are measured once more, alone."""
    allocations = {name: Told(tmp_path_factory.mktemp("lie"), lie.sweep) for name, lie in LONG_LIES.items()}
    _measure(allocations)
    for name, made in allocations.items():
        failed = {one["check"] for one in judged(made) if one["outcome"] == "fail"}
        if LONG_LIES[name].check not in failed and failed & OF_THE_MACHINE:
            allocations[name] = Told(tmp_path_factory.mktemp("alone"), LONG_LIES[name].sweep)
            _measure({name: allocations[name]})
    return allocations


def _measure(allocations: dict[str, Told]) -> None:
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(allocations)) as together:
        for name, made in allocations.items():
            stack.enter_context(LONG_LIES[name].set_up(made))
        list(together.map(Told.measure, allocations.values()))


def held_against(lie: Lie, made: Told) -> None:
    reasons = caught(made, lie.check)
    assert any(re.search(lie.words, reason) for reason in reasons), reasons


@pytest.mark.local
@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("name", LIES)
def test_is_caught(name: str, tmp_path: Path) -> None:
    lie = LIES[name]
    made = Told(tmp_path, lie.sweep)
    with lie.set_up(made):
        made.measure()
    held_against(lie, made)


@pytest.mark.local
@pytest.mark.parametrize("name", LONG_LIES)
def test_is_caught_in_a_long_phase(name: str, measured: dict[str, Told]) -> None:
    held_against(LONG_LIES[name], measured[name])


@pytest.mark.local
@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("sweep", [READS, RANDOM_WRITES], ids=["reads", "writes"])
def test_the_truth_is_not(sweep: dict[str, Any], tmp_path: Path) -> None:
    made = Told(tmp_path, sweep)
    with told("none")(made):
        made.measure()
    checks = {lie.check for lie in (*LIES.values(), *LONG_LIES.values())} - OF_THE_MACHINE
    assert [one for one in judged(made) if one["check"] in checks and one["outcome"] == "fail"] == []


def test_a_slow_node_is_caught(held: Held, tmp_path: Path, fio: Path) -> None:
    job = Job(held, tmp_path, fio)
    wrapper = tmp_path / "bin/fio"
    real = tmp_path / "real/fio"
    real.parent.mkdir()
    wrapper.rename(real)
    slow = disturbed.wrapper("slow", when='[ "$(hostname)" = n2 ]')
    wrapper.write_text(f"#!/bin/sh\nfio='{real}'\n{slow}\n")
    wrapper.chmod(0o755)
    job.made.configure(LONGER | {"axes": {"nodes": [2]}})
    try:
        job.measure()
    finally:
        job.end()
    assert any("node n2 did" in reason for reason in caught(job.made, "even"))
