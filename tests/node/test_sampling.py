"""Looking at masks: against real processes, whose masks are read here by other means, and how often it looks, in a
world whose clock the test winds."""

import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iosweep.node import procfs, sampling
from iosweep.node.cpus import CpuSet, listed, parse
from iosweep.node.sampling import Sampler, Wanted
from records import plain

#: Its arguments are what it does, one after the other; at the end it waits for the end of its stdin.
ACTOR = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void bind_to(const char *bits) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = 0; cpu < 62; cpu++)
        if (strtoul(bits, 0, 10) >> cpu & 1) CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) _exit(3);
}

static void *thread(void *bits) { bind_to(bits); pause(); return 0; }

int main(int count, char **words) {
    char byte;
    for (int k = 1; k < count; k++) {
        char *rest = words[k] + 1;
        pthread_t one;
        switch (*words[k]) {
        case 'm': bind_to(rest); break;                                     /* bind to these bits */
        case 't': if (pthread_create(&one, 0, thread, rest)) _exit(4); break;  /* a thread that binds itself */
        case 'f':                                                           /* so many children go on, we wait */
            for (int n = atoi(rest); n > 0; n--)
                if (!fork()) goto next;
            while (wait(0) > 0) ;
            return 0;
        case 'c':                                                           /* a child that goes on, and so do we */
            if (!fork()) { while (read(0, &byte, 1) > 0) ; return 0; }
            break;
        case 'b':                                                           /* children that come and go, forever */
            if (!fork()) for (;;) { if (!fork()) { usleep(atoi(rest)); _exit(0); } wait(0); }
            break;
        case 'x': if (!fork()) { execl(rest, rest, (char *)0); _exit(5); }  /* a child of another program */
        }
    next:;
    }
    while (read(0, &byte, 1) > 0) ;
    return 0;
}
"""
#: Two CPUs that we may use.
CPUS = sorted(os.sched_getaffinity(0))[:2]
ALL = listed(os.sched_getaffinity(0))


@pytest.fixture(scope="session")
def actor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if len(CPUS) < 2:
        pytest.skip("2 CPUs: this process may use one")
    directory = tmp_path_factory.mktemp("actor")
    (directory / "actor.c").write_text(ACTOR, encoding="ascii")
    command = ["cc", "-O1", "-Wall", "-Werror", "-pthread", "-o", directory / "actor", directory / "actor.c"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("cc: not on PATH (Debian package gcc)")
    assert done.returncode == 0, done.stderr
    return directory / "actor"


@dataclass
class Watched:
    """A command that is looked at. `there`: of how many processes it is in the end; `looks`: how often it was."""

    process: subprocess.Popen[bytes]
    sampler: Sampler
    there: int
    record: dict[str, Any] = field(default_factory=dict)
    looks: int = 0

    def look(self, times: int = 9) -> None:
        """Until all were there and it was looked at so many times more, the first to find them, one until they have
        settled."""
        wait_for(lambda: len(self.pids) >= self.there)
        until = self.looks + times
        wait_for(lambda: self.looks >= until)

    @property
    def pids(self) -> list[str]:
        return [str(self.process.pid), *procfs.below(str(self.process.pid))]

    def of(self, role: str) -> list[Mapping[str, Any]]:
        return [one for one in self.record["processes"] if one["role"] == role]

    def masks(self, role: str) -> Counter[tuple[str, ...]]:
        """Masks of the processes with a role."""
        found: Counter[tuple[str, ...]] = Counter()
        for one in self.of(role):
            found[tuple(one["masks"])] += one["count"]
        return found


def wait_for(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 600
    while not there():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.01)


@contextmanager
def watched(
    argv: list[str | Path], program: Path, count: int, ranks: bool, there: int = 1, **wanted: Any
) -> Iterator[Watched]:
    """Looked at from before it is there until the block ends; then `record` is there, and no thread of the sampler."""
    before = set(threading.enumerate())
    one: list[Watched] = []

    def among() -> list[str]:
        if not one:
            return []
        found = one[0].pids
        one[0].looks += 1
        return found

    sampler = Sampler(Wanted(str(program), count, ranks, **wanted), among)
    process = subprocess.Popen(argv, stdin=subprocess.PIPE)
    one.append(Watched(process, sampler, there))
    try:
        yield one[0]
    finally:
        one[0].record = plain(sampler.end())
        began = set(threading.enumerate()) - before
        left = one[0].pids
        assert process.stdin
        process.stdin.close()
        for pid in reversed(left):
            subprocess.run(["kill", "-KILL", pid], capture_output=True, check=False)
        process.wait()
    assert not began


def allowed(pid: str) -> list[str]:
    """The masks of all threads of a process, as the kernel prints them."""
    texts = [task.read_text(encoding="ascii") for task in Path(f"/proc/{pid}/task").glob("*/status")]
    return sorted(line.split()[1] for t in texts for line in t.splitlines() if line.startswith("Cpus_allowed_list"))


def bits(cpu: int) -> int:
    return 1 << cpu


A, B = (str(cpu) for cpu in (*CPUS, *CPUS)[:2])


# Real processes


@pytest.mark.local
def test_a_thread_that_binds_itself(actor: Path) -> None:
    with watched([actor, f"m{bits(CPUS[0])}", f"t{bits(CPUS[1])}", f"t{bits(CPUS[0])}"], actor, 1, ranks=True) as seen:
        wait_for(lambda: allowed(str(seen.process.pid)) == sorted([A, A, B]))
        seen.look()
    (rank,) = seen.of("rank")
    assert (rank["count"], rank["threads"], rank["masks"], rank["thread_masks"]) == (1, 3, [A], sorted([A, B]))
    assert parse(rank["ran_on"]) <= set(CPUS)
    assert parse(rank["ran_on"])
    assert seen.record["looks"] >= 3
    assert (seen.record["seen"], seen.record["expected"]) == (1, 1)


@pytest.mark.local
def test_workers_of_fio_split_over_two_cpus(fio: Path, actor: Path) -> None:
    # Without a named clock fio tests the CPUs' own clocks first, with a thread bound to each CPU.
    words = ["--name=a", "--numjobs=4", "--ioengine=null", "--size=1g", "--rw=randread", "--thinktime=50000"]
    words += ["--clocksource=clock_gettime"]
    words += ["--time_based", "--runtime=600", f"--cpus_allowed={A},{B}", "--cpus_allowed_policy=split"]
    with watched([fio, *words, "--output=/dev/null"], fio, 4, ranks=False, there=5) as seen:
        below = partial(procfs.below, str(seen.process.pid))
        wait_for(lambda: Counter(mask for pid in below() for mask in allowed(pid)) == {A: 2, B: 2})
        seen.look()
        main = allowed(str(seen.process.pid))
    assert seen.masks("worker") == {(A,): 2, (B,): 2}
    assert [one["thread_masks"] for one in seen.of("helper")] == [sorted(set(main))]
    assert seen.record["seen"] == 4
    assert seen.record["looks"] >= 3


@pytest.mark.local
def test_a_mask_that_changes_half_way(actor: Path) -> None:
    with watched([actor, f"m{bits(CPUS[0])}"], actor, 1, ranks=True) as seen:
        seen.look()
        os.sched_setaffinity(seen.process.pid, {CPUS[1]})
        seen.look(2)  # one of them may have been under way
        os.sched_setaffinity(seen.process.pid, CPUS)
        seen.look(2)
    (rank,) = seen.of("rank")
    assert rank["masks"] == sorted([A, B, listed(CPUS)])


@pytest.mark.local
def test_helpers_of_a_rank(actor: Path, tmp_path: Path) -> None:
    """One that it has forked, and one of another program, which has another mask: both are looked at."""
    other = tmp_path / "other"
    other.write_bytes(actor.read_bytes())
    other.chmod(0o755)
    argv = [actor, f"m{bits(CPUS[0])}", "c", f"m{bits(CPUS[1])}", f"x{other}", f"m{bits(CPUS[0])}"]
    with watched(argv, actor, 1, ranks=True, there=3) as seen:
        wait_for(lambda: sorted(mask for pid in seen.pids for mask in allowed(pid)) == sorted([A, A, B]))
        seen.look()
    assert seen.masks("helper") == {(A,): 1, (B,): 1}
    assert sum(seen.masks("rank").values()) == 1
    assert seen.record["seen"] == 1


@pytest.mark.local
def test_helpers_that_come_and_go(actor: Path) -> None:
    with watched([actor, "b100", "b1000"], actor, 1, ranks=True) as seen:
        seen.look(25)
    assert seen.masks("rank") == {(ALL,): 1}
    assert seen.record["looks"] >= 3
    assert {mask for masks in seen.masks("helper") for mask in masks} == {ALL}


@pytest.mark.local
def test_a_script_that_is_the_program(actor: Path, tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text(f"#!/bin/sh\n{actor} m{bits(CPUS[0])} f2\nexit\n", encoding="ascii")
    script.chmod(0o755)
    with watched([script], script, 2, ranks=False, there=4) as seen:
        seen.look()
    assert seen.masks("worker") == {(A,): 2}
    assert seen.masks("helper") == {(A,): 1, (ALL,): 1}, "the shell, and who forked the workers"
    assert seen.record["seen"] == 2
    assert seen.record["looks"] >= 3


@pytest.mark.local
def test_a_script_that_starts_the_program_later(actor: Path, tmp_path: Path) -> None:
    """A rank's wrapper (modules are loaded) was all that there is, long enough to be taken for the rank."""
    script, go = tmp_path / "wrapper", tmp_path / "go"
    script.write_text(
        f"#!/bin/sh\nwhile ! [ -e {go} ]; do sleep 0.01; done\n{actor} m{bits(CPUS[0])}\nexit\n", encoding="ascii"
    )
    script.chmod(0o755)
    with watched([script], actor, 1, ranks=True) as seen:
        seen.look()
        go.touch()
        wait_for(lambda: any(procfs.program(pid) == str(actor) for pid in seen.pids))
        seen.look()
    assert seen.masks("rank") == {(A,): 1}
    assert not seen.of("helper")
    assert seen.record["looks"] >= 3


@pytest.mark.local
def test_fewer_processes_than_expected_are_not_a_sample(actor: Path) -> None:
    with watched([actor, "f2"], actor, 3, ranks=False, there=3) as seen:
        seen.look()
    assert (seen.record["looks"], seen.record["seen"], seen.record["expected"]) == (0, 2, 3)


@pytest.mark.local
def test_only_counted(actor: Path) -> None:
    """Where there are no masks to look at, it ends once all were seen."""
    with watched([actor, "f2"], actor, 2, ranks=False, masks=False) as seen:
        wait_for(lambda: seen.sampler.most == 2)
        looks = seen.looks
        time.sleep(0.3)
    assert (seen.looks, seen.record["seen"], seen.record["looks"]) == (looks, 2, 0)
    assert seen.sampler.most == 2


def test_the_agent_is_in_the_record() -> None:
    record = plain(Sampler(Wanted("/nowhere", 1, ranks=True), lambda: ()).end())
    (agent,) = record["processes"]
    assert (agent["role"], agent["count"]) == ("agent", 1)
    assert agent["thread_masks"] == sorted(set(allowed("self")))
    assert agent["threads"] >= threading.active_count()  # its own thread may not be quite gone
    assert (record["seen"], record["looks"]) == (0, 0)


# How often, and what it costs: nothing is real


@dataclass
class Actor:
    """A process of the world. `masks`: of each of its threads, by the time. `starves`: until then it wants a CPU, and
    has had none."""

    pid: str
    parent: str
    path: str = "/opt/tool"
    begins: float = 0.0
    ends: float = 1e9
    masks: tuple[Callable[[float], CpuSet], ...] = (lambda _: frozenset({0}),)
    starves: float = 0.0

    def threads(self) -> list[str]:
        return [str(int(self.pid) + k) for k in range(len(self.masks))]


@dataclass
class World:
    """What `sampling` sees of time, threads and /proc. A thread runs when it is started, to its end, which comes when
    it waits for longer than the world lasts. `lasts_s` of it; `call_s`: CPU time, and time, that a question takes."""

    actors: list[Actor]
    lasts_s: float
    call_s: float = 0.0
    slow: Callable[[], float] = lambda: 0.0  # by how much more a wait takes
    gone_at: dict[str, int] = field(default_factory=dict)  # process -> the question before which it vanishes
    now: float = 0.0
    looks: list[float] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    questions: int = 0

    def __post_init__(self) -> None:
        self._of_thread = {thread: actor for actor in self.actors for thread in actor.threads()}

    def sampled(self, wanted: Wanted) -> dict[str, Any]:
        """What the Sampler says at the end."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampling, "procfs", self)
            patch.setattr(sampling, "time", SimpleNamespace(monotonic=self.clock, thread_time=self.clock))
            patch.setattr(sampling, "threading", SimpleNamespace(Event=lambda: self, Thread=Immediately))
            patch.setattr(sampling, "random", random.Random(1))
            patch.setattr(os, "sched_getaffinity", self.affinity)
            sampler = Sampler(wanted, self.among)
            self.now = max(self.now, self.lasts_s)
            return plain(sampler.end())

    def clock(self) -> float:
        return self.now

    def set(self) -> None: ...

    def wait(self, wait_s: float) -> bool:
        assert wait_s > 0
        self.now += wait_s + self.slow()
        return self.now >= self.lasts_s

    def _ask(self, kind: str, pid: str) -> Actor | None:
        """The process, or whose thread it is, if it is there."""
        self.asked[kind] += 1
        self.questions += 1
        self.now += self.call_s
        found = self._of_thread.get(pid)
        there = found and found.begins <= self.now < found.ends
        return found if there and self.gone_at.get(found.pid, self.questions + 1) > self.questions else None

    def among(self) -> list[str]:
        self.looks.append(self.now)
        return [a.pid for a in self.actors if self._ask("among", a.pid)]

    def program(self, pid: str) -> str | None:
        found = self._ask("program", pid)
        return found.path if found else None

    def read(self, pid: str, name: str) -> bytes:
        self._ask("read", pid)
        return b""

    def variable(self, pid: str, name: str) -> str:
        self._ask("environment", pid)
        return ""

    def threads(self, pid: str) -> list[str]:
        found = self._ask("threads", pid)
        return found.threads() if found else []

    def stat(self, pid: str) -> list[bytes]:
        found = self._ask("stat", pid.rpartition("/")[2])
        state = b"R" if found and self.now < found.starves else b"S"
        return [state, found.parent.encode(), *[b"0"] * 40] if found else []

    def affinity(self, pid: int) -> CpuSet:
        if str(pid) == str(os.getpid()) or not (found := self._ask("affinity", str(pid))):
            raise ProcessLookupError
        return found.masks[pid - int(found.pid)](self.now)


class Immediately:
    def __init__(self, target: Callable[[], None], daemon: bool):
        self.start = target

    def join(self) -> None: ...


#: The first of their ids; no process of this machine, such as the tests' own, has one so high (PID_MAX_LIMIT).
FIRST_PID = 5_000_000


def ranks_of(count: int, threads: int = 1, begins: float = 0.0, ends: float = 1e9) -> list[Actor]:
    masks = (lambda _: frozenset({0}),) * threads
    return [Actor(str(FIRST_PID + k * threads), "1", begins=begins, ends=ends, masks=masks) for k in range(count)]


@pytest.mark.parametrize("time_s", [0.5, 0.6, 1.0, 2.0, 5.0, 60.0, 300.0])
@settings(max_examples=30)
@given(begins=st.floats(0, 2.5), call_s=st.floats(0, 20e-6), processes=st.sampled_from([1, 2, 16]))
def test_three_looks_at_least_in_a_phase_of_known_length(
    time_s: float, begins: float, call_s: float, processes: int
) -> None:
    world = World(ranks_of(processes, 1, begins, begins + time_s), begins + time_s, call_s)
    record = world.sampled(Wanted("/opt/tool", processes, True, time_s))
    assert record["looks"] >= 3
    assert record["seen"] == processes
    assert record["gap_s"] <= max(time_s / 6, 10) + 0.3


@settings(max_examples=15)
@given(call_s=st.floats(1e-5, 1e-3), lasts_s=st.floats(60, 1000))
def test_the_cost_limit_holds(call_s: float, lasts_s: float) -> None:
    world = World(ranks_of(2, 10), lasts_s, call_s)
    record = world.sampled(Wanted("/opt/tool", 2, True))
    assert record["cost_s"] <= 0.01 * lasts_s
    assert record["looks"] >= 3


def test_waits_once_for_masks_to_settle() -> None:
    world = World(ranks_of(192), 10.0)
    record = world.sampled(Wanted("/opt/tool", 192, True, 10.0))
    assert len(world.looks) == record["looks"] + 1


def test_masks_before_a_process_has_settled_do_not_count() -> None:
    late = (lambda t: frozenset({0, 1}) if t < 1.15 else frozenset({1}),)
    record = World([Actor(str(FIRST_PID), "1", begins=1.0, masks=late)], 4.0).sampled(Wanted("/opt/tool", 1, True, 3.0))
    (rank, *_) = [one for one in record["processes"] if one["role"] == "rank"]
    assert (rank["masks"], rank["early"]) == (["1"], "0-1")


@pytest.mark.parametrize(("bound", "starves", "masks"), [(1.9, 2.0, ["1"]), (1.9, 1.0, ["0-1", "1"]), (9, 9, ["0-1"])])
def test_a_process_that_waits_for_a_cpu_has_not_settled(bound: float, starves: float, masks: list[str]) -> None:
    """A worker on a node that is overloaded had not bound itself 0.9 s after it was started; but one that spins with
    another mask is found for all that."""
    late = (lambda t: frozenset({0, 1}) if t < bound else frozenset({1}),)
    actor = Actor(str(FIRST_PID), "1", begins=1.0, masks=late, starves=starves)
    record = World([actor], 8.0).sampled(Wanted("/opt/tool", 1, True, 7.0))
    (rank, *_) = [one for one in record["processes"] if one["role"] == "rank"]
    assert rank["masks"] == masks


def test_a_worker_that_waits_for_those_who_start_the_others_has_not_settled() -> None:
    """fio's workers bind themselves when the last one was started."""
    at_last = (lambda t: frozenset({0, 1}) if t < 1.6 else frozenset({1}),)
    main = Actor("20", "1", starves=1.5)
    workers = [Actor(str(30 + k), "20", begins=1.0 + k / 4, masks=at_last) for k in range(3)]
    record = World([main, *workers], 8.0).sampled(Wanted("/opt/tool", 3, False, 6.0))
    assert {tuple(one["masks"]) for one in record["processes"] if one["role"] == "worker"} == {("1",)}


def roles(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """Role -> masks of all its processes; without the agent's."""
    found: dict[str, list[str]] = {}
    for one in record["processes"]:
        if one["role"] != "agent":
            found.setdefault(one["role"], []).extend(one["masks"] * one["count"])
    return found


def on(cpu: int) -> tuple[Callable[[float], CpuSet]]:
    return (lambda _: frozenset({cpu}),)


def test_a_wrapper_that_goes_on_after_the_program() -> None:
    """It is no part of what is measured, before or after."""
    wrapper = Actor("10", "1", "/bin/bash", ends=20.0, masks=on(9))
    record = World([wrapper, Actor("20", "10", begins=2.0, ends=10.0, masks=on(1))], 20.0).sampled(
        Wanted("/opt/tool", 1, True, 8.0)
    )
    assert roles(record) == {"rank": ["1"]}
    assert 3 <= record["looks"] <= 10


def test_another_program_that_a_worker_s_parent_starts() -> None:
    """And what that starts; neither is a worker."""
    workers = [Actor(str(20 + k), "10", masks=on(1)) for k in range(2)]
    others = [Actor("30", "10", "/bin/sh", masks=on(2)), Actor("31", "30", "/bin/iostat", masks=on(3))]
    record = World([Actor("10", "1", masks=on(0)), *workers, *others], 5.0).sampled(Wanted("/opt/tool", 2, False, 5.0))
    assert roles(record) == {"worker": ["1", "1"], "helper": ["0", "2", "3"]}
    assert record["seen"] == 2


def test_what_has_lost_its_parent() -> None:
    """A daemon that a rank has left belongs to it; as a stand-in's child it is a helper, and no rank."""
    record = World([*ranks_of(1), Actor("40", "1", "/opt/daemon", masks=on(5))], 5.0).sampled(
        Wanted("/opt/tool", 1, True, 5.0)
    )
    assert roles(record) == {"rank": ["0"], "helper": ["5"]}
    assert record["seen"] == 1


def test_who_has_started_workers_is_none_even_when_these_have_ended() -> None:
    chain = [Actor("10", "1", "/bin/sh", masks=on(0)), Actor("20", "10", masks=on(0))]
    workers = [Actor(str(30 + k), "20", ends=5.0, masks=on(1)) for k in range(2)]
    record = World([*chain, *workers], 20.0).sampled(Wanted("/opt/script", 2, False, 5.0))
    assert roles(record) == {"worker": ["1", "1"], "helper": ["0", "0"]}


@pytest.mark.parametrize("ranks", [True, False])
def test_nothing_is_raised_when_processes_vanish_between_questions(ranks: bool) -> None:
    whole = World([Actor("10", "1"), *(Actor(str(20 + k), "10") for k in range(3))], 2.0)
    whole.sampled(Wanted("/opt/tool", 1 if ranks else 3, ranks, 2.0))
    for question in range(1, whole.questions):
        for pid in ("10", "20"):
            world = World(list(whole.actors), 2.0, gone_at={pid: question})
            record = world.sampled(Wanted("/opt/tool", 1 if ranks else 3, ranks, 2.0))
            assert record["seen"] <= 3
            assert len(world.looks) > 3


def test_launchers_and_commands_of_the_runner_are_not_sampled() -> None:
    """srun's children are its tasks; a fork of ours that is about to become something is none."""
    others = [Actor(str(50 + k), "1", path=f"/usr/bin/{name}") for k, name in enumerate(("srun", "squeue", "mpiexec"))]
    record = World([*others, *ranks_of(1)], 5.0).sampled(Wanted("/opt/tool", 1, True, 5.0))
    assert [one["role"] for one in record["processes"]] == ["rank", "agent"]
    assert record["seen"] == 1
