"""Looking at masks: how often, and what is seen, in a world whose clock the test winds; and once of real processes."""

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iosweep.node import ranks
from iosweep.node.cpus import CpuSet, listed, parse
from iosweep.node.ranks import ExpectedProcesses, Sampler
from records import plain


@pytest.mark.local
def test_masks_are_read_of_the_kernel_and_a_change_is_seen() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    a, b = cpus[0], cpus[-1]
    program = str(Path("/bin/sleep").resolve())
    processes = [subprocess.Popen([program, "600"]) for _ in range(2)]
    for process, cpu in zip(processes, (a, b), strict=True):
        os.sched_setaffinity(process.pid, {cpu})
    looks = 0

    def among() -> list[str]:
        nonlocal looks
        looks += 1
        return [str(process.pid) for process in processes]

    sampler = Sampler(ExpectedProcesses(program, 2, ranks=True), among)
    while looks < 10:  # the first to find them, one until they have settled
        time.sleep(sampler.look())
    os.sched_setaffinity(processes[1].pid, cpus)
    sampler.look()
    record = plain(sampler.end())
    for process in processes:
        process.kill()
        process.wait()
    seen = {tuple(one["masks"]): one["count"] for one in record["processes"] if one["role"] == "rank"}
    assert seen == Counter([(str(a),), tuple(sorted({str(b), listed(cpus)}))])
    assert (record["seen"], record["expected"], record["looks"] >= 3) == (2, 2, True)


# From here on nothing is real


@dataclass
class Actor:
    """A process of the world. `masks`: of each of its threads, by the time. `starves`: until then it wants a CPU, and
    has had none. `binds`: until then it is taskset."""

    pid: str
    parent: str
    path: str = "/opt/tool"
    begins: float = 0.0
    ends: float = 1e9
    masks: tuple[Callable[[float], CpuSet], ...] = (lambda _: frozenset({0}),)
    starves: float = 0.0
    binds: float = 0.0

    def threads(self) -> list[str]:
        return [str(int(self.pid) + k) for k in range(len(self.masks))]


@dataclass
class World:
    """What `ranks` sees of time and /proc. `lasts_s`: of the command; `call_s`: CPU time, and time, that a question
    takes."""

    actors: list[Actor]
    lasts_s: float
    call_s: float = 0.0
    now: float = 0.0
    looks: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._of_thread = {thread: actor for actor in self.actors for thread in actor.threads()}

    def sampled(self, wanted: ExpectedProcesses, silent_s: float = 0.0) -> dict[str, Any]:
        """What the Sampler says at the end."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranks, "procfs", self)
            patch.setattr(ranks, "time", SimpleNamespace(monotonic=self.clock, thread_time=self.clock))
            patch.setattr(ranks, "random", random.Random(1))
            patch.setattr(os, "sched_getaffinity", self.affinity)
            sampler = Sampler(wanted, self.among)
            while self.now < self.lasts_s:
                pause_s = sampler.look()
                assert pause_s > 0
                self.now += pause_s
            self.now = max(self.now, self.lasts_s)
            return plain(sampler.end(silent_s))

    def clock(self) -> float:
        return self.now

    def _ask(self, pid: str) -> Actor | None:
        """The process, or whose thread it is, if it is there."""
        self.now += self.call_s
        found = self._of_thread.get(pid)
        return found if found and found.begins <= self.now < found.ends else None

    def among(self) -> list[str]:
        self.looks.append(self.now)
        return [a.pid for a in self.actors if self._ask(a.pid)]

    def program(self, pid: str) -> str | None:
        found = self._ask(pid)
        return ("/usr/bin/taskset" if self.now < found.binds else found.path) if found else None

    def read(self, pid: str, name: str) -> bytes:
        return b""

    def variable(self, pid: str, name: str) -> str:
        return ""

    def threads(self, pid: str) -> list[str]:
        found = self._ask(pid)
        return found.threads() if found else []

    def stat(self, pid: str) -> list[bytes]:
        found = self._ask(pid.rpartition("/")[2])
        state = b"R" if found and self.now < found.starves else b"S"
        return [state, found.parent.encode(), *[b"0"] * 40] if found else []

    def affinity(self, pid: int) -> CpuSet:
        if str(pid) == str(os.getpid()) or not (found := self._ask(str(pid))):
            raise ProcessLookupError
        return found.masks[pid - int(found.pid)](self.now)


#: The first of their ids; no process of this machine, such as the tests' own, has one so high (PID_MAX_LIMIT).
FIRST_PID = 5_000_000


def ranks_of(count: int, begins: float = 0.0, ends: float = 1e9) -> list[Actor]:
    return [Actor(str(FIRST_PID + k), "1", begins=begins, ends=ends) for k in range(count)]


def test_three_looks_at_least_in_a_phase_of_known_length_for_a_hundredth_of_a_cpu() -> None:
    for time_s in (0.5, 1.0, 2.0, 60.0, 300.0):
        for begins in (0.0, 0.3, 2.5):
            world = World(ranks_of(16, begins, begins + time_s), begins + time_s, 20e-6)
            record = world.sampled(ExpectedProcesses("/opt/tool", 16, True, time_s))
            assert (record["seen"], record["looks"] >= 3) == (16, True), (time_s, begins)
            assert record["gap_s"] <= max(time_s / 6, 10) + 0.3, (time_s, begins)
            assert record["cost_s"] <= 0.01 * time_s or time_s < 60, begins


def rank_of(*masks: Callable[[float], CpuSet], starves: float = 0.0, silent_s: float = 0.0) -> dict[str, Any]:
    """What is seen in 8 s of a rank whose threads have these masks, and which begins after a second."""
    actor = Actor(str(FIRST_PID), "1", begins=1.0, masks=masks, starves=starves)
    record = World([actor], 8.0).sampled(ExpectedProcesses("/opt/tool", 1, True, 7.0), silent_s)
    (rank, *_) = [one for one in record["processes"] if one["role"] == "rank"]
    return dict(rank)


def bound(at_s: float, before: str = "0-1", after: str = "1") -> Callable[[float], CpuSet]:
    """The mask of a thread that binds itself."""
    return lambda now_s: parse(before if now_s < at_s else after)


def test_each_thread_has_a_mask_of_its_own() -> None:
    rank = rank_of(bound(0, after="0"), bound(0, after="2"), bound(0, after="0"))
    assert (rank["count"], rank["masks"], rank["thread_masks"]) == (1, ["0"], ["0", "2"])


def test_a_mask_that_changes_half_way_is_seen_before_and_after() -> None:
    assert rank_of(bound(5, "0", "1"))["masks"] == ["0", "1"]


def test_masks_before_a_process_has_settled_do_not_count() -> None:
    """A worker on a node that is overloaded had not bound itself 0.9 s after it was started; but one that spins with
    another mask is found for all that."""
    rank = rank_of(bound(1.15))
    assert rank["masks"] == ["1"]
    for at_s, starves, masks in ((1.9, 2.0, ["1"]), (1.9, 1.0, ["0-1", "1"]), (9, 9, ["0-1"])):
        assert rank_of(bound(at_s), starves=starves)["masks"] == masks, (at_s, starves)


def test_what_a_rank_had_before_anything_was_printed_is_its_start() -> None:
    """Libraries bind it for a while in MPI_Init. But who prints at the end only has told nothing of its start."""
    for begins, ends, silent_s, masks in (
        (1.1, 1.5, 2.0, ["1"]),
        (1.1, 1.5, 0.0, ["0", "1"]),
        (1.1, 3.5, 2.0, ["0", "1"]),
        (4.0, 6.0, 2.0, ["0", "1"]),
        (1.1, 9.9, 2.0, ["0"]),
        (1.1, 1.5, 7.9, ["0", "1"]),
    ):
        on_0 = partial(lambda a, b, now_s: parse("0" if a <= now_s < b else "1"), begins, ends)
        rank = rank_of(on_0, bound(0), silent_s=silent_s)
        found = (rank["masks"], rank["thread_masks"])
        assert found == (masks, sorted({*masks, "1"})), (begins, ends, silent_s)
    looks = [
        World(ranks_of(2), 8.0).sampled(ExpectedProcesses("/opt/tool", 2, True, 8.0), at)["looks"]
        for at in (0.0, 4.0, 7.9)
    ]
    assert looks[0] == looks[2] > looks[1] >= 3


def roles(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """Role -> masks of all its processes; without the agent's."""
    found: dict[str, list[str]] = {}
    for one in record["processes"]:
        if one["role"] != "agent":
            found.setdefault(one["role"], []).extend(one["masks"] * one["count"])
    return found


def on(cpu: int) -> tuple[Callable[[float], CpuSet]]:
    return (lambda _: frozenset({cpu}),)


def test_what_a_rank_has_started_is_a_helper() -> None:
    """Also what it has forked of its own program."""
    others = [Actor("30", str(FIRST_PID), masks=on(2)), Actor("31", str(FIRST_PID), "/opt/other", masks=on(3))]
    record = World([*ranks_of(1), *others], 5.0).sampled(ExpectedProcesses("/opt/tool", 1, True, 5.0))
    assert roles(record) == {"rank": ["0"], "helper": ["2", "3"]}
    assert record["seen"] == 1
