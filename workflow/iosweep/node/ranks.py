"""Ranks or workers on this node while a command runs: how many there are at once, the CPUs that each of their threads
may use and was on last, read back from the kernel, whatever was asked for; and what each MPI rank had moved.
"""

from __future__ import annotations

import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Annotated

import msgspec

from iosweep.details import LARGEST_RATE
from iosweep.files.documents import Count, Part, Seconds
from iosweep.node import procfs
from iosweep.node.cpus import NO_CPUS, CpuSet, listed
from iosweep.node.procfs import with_descendants


class Processes(Part, frozen=True, kw_only=True):
    """Processes with the same role (rank, worker, helper, agent) and the same masks, each mask a CPU list.

    masks, thread_masks: those of the processes and of their threads when they were looked at. early: the CPUs of their
    first moments, ran_on: those that they were on.
    """

    role: str
    masks: tuple[str, ...]
    thread_masks: tuple[str, ...]
    count: Count = 0
    early: str = ""
    ran_on: str = ""


class Looks(Part, frozen=True, kw_only=True):
    """What was seen on one node. gap_s: the longest time between two looks; cost_s: CPU time that looking took of
    `wall_s`; expected, seen: ranks or workers, at once."""

    looks: Count
    processes: tuple[Processes, ...]
    expected: Count = 0
    seen: Count = 0
    gap_s: Seconds = 0.0
    cost_s: Seconds = 0.0
    wall_s: Seconds = 0.0


#: Seconds between looks until every process was seen, because a short-lived one could be missed; after which the search
#: for the first one ends, because looking costs CPU time; and between looks after that.
_SOON_S, _SEARCHED_S, _SELDOM_S = 0.05, 3.0, 1.0
#: Looks at a phase of known length, and the longest time between two. In a phase of unknown length, or with several
#: phases in one command, each look comes after this share of the time since the first.
_LOOKS, _LONGEST_S, _SHARE, _LEAST_S = 6, 10.0, 1 / 40, 0.02
#: Maximum CPU time of a look, as a share of the interval to the next. It is exceeded if the phase would otherwise get
#: fewer than three looks.
_COST = 1 / 150
#: Looks since the command has printed something that make those before not count.
_ENOUGH = 3
#: Masks before that do not count: fio's workers bind themselves after all of them were started. On a node that is
#: overloaded one, or who starts them, may still wait for a CPU by then, but hardly for so much longer.
_SETTLED_S, _STARVED_S = 0.2, 2.0
#: Programs that start ranks, and are not ranks themselves.
_LAUNCHERS = (
    *("srun", "slurmstepd", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy"),
    *("mpirun", "orterun", "orted", "prterun", "prte", "prted"),
)
#: Commands that the runner starts in the meantime.
_ASKED = ("scontrol", "squeue", "scancel", "sbatch", "sacct")
_NOT_OURS = frozenset((*_LAUNCHERS, *_ASKED))


@dataclass(frozen=True)
class Wanted:
    """What to look for. `program`: path of the tool; `processes`: ranks or workers of this node that are to be there.

    `ranks`: they are started by a launcher, and what they start are helpers; else the tool's own first process starts
    them. `time_s`: how long the command's only phase runs, None where that is not known. `masks`: look at CPUs, too;
    without it there is nothing to be learned once all were seen.
    """

    program: str
    processes: int
    ranks: bool
    time_s: float | None = None
    masks: bool = True


@dataclass
class _Process:
    parent: str
    since: float
    own: bool = False  # of the program, and not only started by it
    masks: dict[CpuSet, float] = field(default_factory=dict)  # with the time when each was seen last
    thread_masks: dict[CpuSet, float] = field(default_factory=dict)
    ran_on: dict[CpuSet, float] = field(default_factory=dict)
    early: set[int] = field(default_factory=set)

    def began(self, at_s: float) -> None:
        """What it had before is of its first moments, unless it had nothing since."""
        for seen in (self.masks, self.thread_masks, self.ran_on):
            before = {cpus for cpus, last_s in seen.items() if last_s <= at_s}
            for cpus in before if len(before) < len(seen) else ():
                self.early |= cpus
                del seen[cpus]


class Sampler:
    """`among`: process ids that may belong to the command, beside others."""

    def __init__(self, wanted: Wanted, among: Callable[[], Iterable[str]]):
        self._wanted, self._among = wanted, among
        self._program = os.path.realpath(wanted.program)
        self._own = procfs.read("self", "cmdline")
        self._found: dict[str, _Process] = {}
        self._parents: set[str] = set()
        self._steps: dict[str, str] = {}
        self.most = 0  # of the program's own ranks, at once
        # of a single timed phase: a rank's bytes are those of all phases
        self.progress = Progress() if wanted.ranks and wanted.time_s is not None else None
        self._seen, self._cost_s = 0, 0.0
        self._looks: list[float] = []
        self._real = False  # the program itself was seen
        self._unsettled_s = 0.0  # until all have settled, where all are there
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self, silent_s: float = 0.0) -> Looks:
        """Stop looking; what was seen. `silent_s`: for how long the command had printed nothing.

        IOR and mdtest print after MPI_Init, where libraries bind a rank to other CPUs for a while (psm2: to CPU 0 for
        0.2 s), and before they measure. If they print at the end only, too few looks are left, and all count.
        """
        self._stop.set()
        self._thread.join()
        now, looks = time.monotonic(), self._looks
        begun_s = self._began + silent_s
        since = [at_s for at_s in looks if at_s > begun_s]
        if self._wanted.ranks and len(since) >= _ENOUGH:
            looks = since
            for process in self._found.values():
                process.began(begun_s)
        return Looks(
            expected=self._wanted.processes,
            seen=self._seen,
            looks=len(looks),
            gap_s=round(max((b - a for a, b in pairwise([*looks, now])), default=0.0), 3),
            cost_s=round(self._cost_s, 4),
            wall_s=round(now - self._began, 3),
            processes=(*self._grouped(), _ourselves()),
        )

    def _run(self) -> None:
        wait_s = _SOON_S
        while True:
            used = time.thread_time()
            complete = self._look()
            cost_s = time.thread_time() - used
            self._cost_s += cost_s
            if complete:
                if not self._wanted.masks:
                    return
                pause_s = self._pause_s(cost_s)
            elif self._unsettled_s:
                pause_s = self._unsettled_s
            else:
                if time.monotonic() - self._began > _SEARCHED_S or self._looks:
                    wait_s = min(2 * wait_s, _SELDOM_S)
                pause_s = wait_s
            if self._stop.wait(pause_s):
                return

    def _pause_s(self, cost_s: float) -> float:
        dear_s = max(_LEAST_S, cost_s / _COST)
        if (time_s := self._wanted.time_s) is not None:
            often_s = time_s / _LOOKS
            three_s = max(often_s, (time_s - _SETTLED_S - 2 * _SOON_S) / 3)
            evenly_s = min(often_s, _LONGEST_S)
            drawn_s = evenly_s * random.uniform(0.6, 1.0)  # what comes and goes evenly must not be missed evenly
            return min(three_s, max(dear_s, drawn_s))
        return max(dear_s, (time.monotonic() - self._looks[0]) * _SHARE)

    def _look(self) -> bool:
        """Whether all that are to be there are, with masks that have settled."""
        now, self._unsettled_s = time.monotonic(), 0.0
        there = {pid: (path, stat) for pid in self._among() if (path := self._path(pid)) and (stat := _leader(pid))}
        parents = {pid: stat[1].decode() for pid, (_, stat) in there.items()}
        own = {pid for pid, (path, _) in there.items() if path == self._program}
        if own and not self._real:
            self._start_over()
        ours = own if self._real else set(there)  # a script that starts the program, or stands for it
        self._parents |= {parents[pid] for pid in ours}
        if self._wanted.ranks:
            chosen = {pid for pid in ours if parents[pid] not in ours}  # not one that a rank has just forked
        else:
            chosen = {pid for pid in ours if parents[pid] in ours and pid not in self._parents}
        self.most = max(self.most, len(chosen & own))
        if not self._wanted.masks:
            self._seen = max(self._seen, len(chosen))
            return self.most >= self._wanted.processes
        settled, youngest = 0, now - _SETTLED_S
        newest = max((self._found[pid].since if pid in self._found else now for pid in chosen), default=now)
        for pid in self._all_of(ours, parents):
            process = self._found.setdefault(pid, _Process(parents[pid], now))
            process.own |= pid in ours  # it may have been taskset before
            age = now - process.since
            settling = now - newest < _SETTLED_S and pid in chosen
            starved = settling or _may_not_have_begun(there[pid][1], there.get(parents[pid], ("", []))[1])
            counts = age >= _STARVED_S or (age >= _SETTLED_S and not starved)
            if self._read(pid, there[pid][1], process, now if counts else None):
                settled += pid in chosen
            elif pid in chosen and not counts:
                youngest = max(youngest, process.since)
        if self._wanted.ranks and not self._real:  # what a script has started is the rank, whatever its own mask is
            for process in self._found.values():
                if script := self._found.get(process.parent):
                    script.thread_masks |= process.thread_masks
        self._seen = max(self._seen, settled)
        if not settled or settled < self._wanted.processes:
            if len(chosen) >= self._wanted.processes:
                self._unsettled_s = youngest + _SETTLED_S - now + 0.001  # not to be there a rounding too early
            return False
        self._looks.append(now)
        if self.progress and self._real:
            self.progress.look(now, chosen)
        return True

    def _all_of(self, ours: set[str], parents: Mapping[str, str]) -> set[str]:
        """Our ranks or workers, what they have started, and what of that has lost its parent, of some processes."""
        found = with_descendants(ours, parents)
        if not self._real:
            return found
        above = {parent for pid in ours for parent in _above(pid, parents)}  # scripts that start the program
        steps = {self._step(pid) for pid in ours}
        steps = steps - {""} or steps  # one that has just ended has no environment
        return found | {pid for pid in parents if pid not in above and self._step(pid) in steps}

    def _step(self, pid: str) -> str:
        """Of Slurm's; other processes of the job may be a user's."""
        if pid not in self._steps:
            self._steps[pid] = procfs.variable(pid, "SLURM_STEP_ID")
        return self._steps[pid]

    def _start_over(self) -> None:
        """The program has started: the processes seen so far only start it, and are not part of it."""
        self._real = True
        self._found.clear()
        self._parents.clear()
        self._seen, self._looks = 0, []

    def _path(self, pid: str) -> str | None:
        """The executable of a process; None if it is not part of the tool, or not yet."""
        path = procfs.program(pid)
        if path is None or path.rpartition("/")[2] in _NOT_OURS:
            return None
        if path == _PYTHON and procfs.read(pid, "cmdline") == self._own:
            return None
        return path

    @staticmethod
    def _read(pid: str, leader: list[bytes], process: _Process, at_s: float | None) -> bool:
        """Note the masks and last CPUs of a process's threads; whether they count, which they do if there is a time."""
        masks, last = {}, set()
        for thread in procfs.threads(pid):
            try:
                masks[thread] = frozenset(os.sched_getaffinity(int(thread)))
            except OSError:
                continue
            fields = leader if thread == pid else procfs.stat(f"{pid}/task/{thread}")
            if len(fields) > 36 and fields[0] != b"Z":
                last.add(frozenset([int(fields[36])]))
        if not last:
            return False
        if at_s is None:
            process.early.update(*masks.values())
            return False
        process.masks |= {mask: at_s for thread, mask in masks.items() if thread == pid}
        process.thread_masks |= dict.fromkeys(masks.values(), at_s)
        process.ran_on |= dict.fromkeys(last, at_s)
        return True

    def _grouped(self) -> list[Processes]:
        """Processes with the same role and masks together."""
        groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[_Process]] = {}
        for pid, process in self._found.items():
            if process.masks or process.early:
                kind = self._role(pid, process), _listed(process.masks), _listed(process.thread_masks)
                groups.setdefault(kind, []).append(process)
        return [_together(role, found) for (role, _, _), found in sorted(groups.items(), key=lambda group: group[0])]

    def _role(self, pid: str, process: _Process) -> str:
        within = process.parent in self._found
        if self._wanted.ranks:
            return "rank" if process.own and not within else "helper"
        return "worker" if within and process.own and pid not in self._parents else "helper"


def _leader(pid: str) -> list[bytes]:
    """The fields of a process's first thread (procfs.stat); of the process they would be added up over all threads."""
    return procfs.stat(f"{pid}/task/{pid}")


def _may_not_have_begun(own: list[bytes], parent: list[bytes]) -> bool:
    """Whether a process, by its stat and its parent's, has had next to nothing of a CPU (no tick of 10 ms), and it or
    its parent wants one."""
    return own[11] == own[12] == b"0" and b"R" in (*own[:1], *parent[:1])


def _above(pid: str, parents: Mapping[str, str]) -> Iterator[str]:
    """Its ancestors, of processes whose parents are given."""
    while (pid := parents.get(pid, "")) in parents:
        yield pid


_PYTHON = os.path.realpath(sys.executable)


def _ourselves() -> Processes:
    """This process, as one of the list."""
    process = _Process("", 0.0)
    pid = str(os.getpid())
    Sampler._read(pid, _leader(pid), process, 0.0)
    return _together("agent", [process])


def _together(role: str, found: Sequence[_Process]) -> Processes:
    """Processes with the same masks as one entry."""
    return Processes(
        role=role,
        count=len(found),
        masks=_listed(found[0].masks),
        thread_masks=_listed(found[0].thread_masks),
        early=listed({cpu for process in found for cpu in process.early}),
        ran_on=listed(NO_CPUS.union(*(cpus for process in found for cpus in process.ran_on))),
    )


def _listed(masks: Iterable[CpuSet]) -> tuple[str, ...]:
    return tuple(sorted(map(listed, masks)))


#: Looks that are kept; if there are more, every other one goes.
_MOST = 24
#: Who has started a rank, and numbered it. Slurm comes last: hydra's ranks have its number of their proxy.
_NUMBERS = ("PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
#: A look counts from when ranks move, together, at this share of their usual rate: before, they start.
_MOVING = 0.1
#: Whole intervals between looks that a rate takes.
_LEAST = 3
#: The largest stream that is read: one of 10,000 ranks.
_MOST_BYTES = 16 << 20
#: The kernel's counts have 64 bits, but no process moves as much.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Rank = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,9}\Z")]
_COUNTS = re.compile(rb"^[rw]char: (\d+)$", re.MULTILINE)


class _Looks(msgspec.Struct):
    """moved_bytes: of each rank at each look, as many as at_s."""

    host: str
    at_s: list[float]
    moved_bytes: dict[_Rank, list[_Count]]


class Progress:
    """The looks at the ranks of this node."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}
        self._looks: list[tuple[float, dict[str, int]]] = []

    def look(self, at_s: float, pids: Iterable[str]) -> None:
        """Read what ranks have moved; a look without one of them does not count."""
        found: dict[str, int] = {}
        for pid in pids:
            counts = _COUNTS.findall(procfs.read(pid, "io"))
            number = self._number(pid)
            if len(counts) != 2 or not number:
                return
            found[number] = sum(map(int, counts))
        self._looks.append((at_s, found))
        if len(self._looks) > _MOST:
            del self._looks[1::2]

    def _number(self, pid: str) -> str:
        if pid not in self._numbers:
            known = (procfs.variable(pid, name) for name in _NUMBERS)
            self._numbers[pid] = next((number for number in known if number.isdecimal()), "")
        return self._numbers[pid]

    def stream(self) -> bytes:
        """What was seen, for `of_nodes`; empty where that is nothing."""
        every = [found for _, found in self._looks]
        ranks = every[-1].keys() if every else set()
        whole = [(at_s, found) for at_s, found in self._looks if found.keys() == ranks]
        if len(whole) < 2:
            return b""
        moved = {rank: [found[rank] for _, found in whole] for rank in sorted(ranks, key=int)}
        return _line(_Looks("", [round(at_s - whole[0][0], 3) for at_s, _ in whole], moved))


def _line(looks: _Looks) -> bytes:
    return msgspec.json.encode(looks) + b"\n"


def of_nodes(streams: Mapping[str, bytes]) -> bytes:
    """One stream of those of several nodes, by their hosts. Pure."""
    made = []
    for host, stream in streams.items():
        for looks in _read(stream):
            looks.host = host
            made.append(_line(looks))
    return b"".join(made)


def _read(stream: bytes) -> Iterator[_Looks]:
    """The nodes of a stream, without what is not one."""
    for line in stream.splitlines() if len(stream) <= _MOST_BYTES else ():
        try:
            looks = msgspec.json.decode(line, type=_Looks)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if all(len(own) == len(looks.at_s) for own in looks.moved_bytes.values()):
            yield looks


def rates(stream: bytes) -> dict[str, dict[int, float]]:
    """host -> rank -> its bytes per second while all ranks of the node moved data; none of a node with too few looks.

    Pure. The first and the last interval in which they moved are left out, because the phase began and ended there.
    """
    return {looks.host: own for looks in _read(stream) if (own := _of_node(looks))}


def _of_node(looks: _Looks) -> dict[int, float]:
    at_s, ranks = looks.at_s, looks.moved_bytes
    together = [sum(own[k] for own in ranks.values()) for k in range(len(at_s))]
    if any(after <= before for before, after in pairwise(at_s)):
        return {}
    each = [(together[k + 1] - together[k]) / (at_s[k + 1] - at_s[k]) for k in range(len(at_s) - 1)]
    usual = median(each) if each else 0.0
    moving = [k for k, rate in enumerate(each) if rate > _MOVING * usual and rate > 0]
    if not moving:
        return {}
    begin, end = moving[0] + 1, moving[-1]  # looks
    if end - begin < _LEAST:
        return {}
    lasted_s = at_s[end] - at_s[begin]
    found = {int(rank): (own[end] - own[begin]) / lasted_s for rank, own in ranks.items()}
    return found if all(0 <= rate <= LARGEST_RATE for rate in found.values()) else {}
