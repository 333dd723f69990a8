"""Ranks or workers on this node while a command runs: how many run at once, the CPUs that each of their threads may
use, read back from the kernel whatever was asked for, and the bytes that each MPI rank had moved.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import msgspec

from iosweep.details import LARGEST_RATE
from iosweep.files.documents import Count, Part, Seconds
from iosweep.node import procfs
from iosweep.node.cpus import CpuSet, listed
from iosweep.node.procfs import with_descendants

#: Seconds between looks until every process was seen, because a short-lived one could be missed; after which the search
#: for the first one ends, because looking costs CPU time; and between looks after that.
_SOON_S, _SEARCHED_S, _SELDOM_S = 0.05, 3.0, 1.0
#: Looks at a phase of known length, and the longest time between two. In a phase of unknown length, or with several
#: phases in one command, each look comes after this share of the time since the first.
_LOOKS, _LONGEST_S, _SHARE, _LEAST_S = 6, 10.0, 1 / 40, 0.02
#: Maximum CPU time of a look, as a share of the interval to the next. It is exceeded if the phase would otherwise get
#: fewer than three looks.
_COST = 1 / 150
#: With so many looks after the first output of the command, those before it do not count.
_ENOUGH = 3
#: Masks before that do not count: fio's workers bind themselves after all of them were started. On a node that is
#: overloaded one, or who starts them, may still wait for a CPU by then, but hardly for so much longer.
_SETTLED_S, _STARVED_S = 0.2, 2.0
#: Programs that are not ranks: launchers, and commands that the runner calls meanwhile.
_NOT_RANKS = frozenset(
    (
        *("srun", "slurmstepd", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy"),
        *("mpirun", "orterun", "orted", "prterun", "prte", "prted"),
        *("scontrol", "squeue", "scancel", "sbatch", "sacct"),
    )
)
_PYTHON = os.path.realpath(sys.executable)


class Processes(Part, frozen=True):
    """Processes with the same role (rank, worker, helper, agent) and the same masks, each mask a CPU list.

    masks, thread_masks: those of the processes and of their threads at the looks."""

    role: str
    masks: tuple[str, ...]
    thread_masks: tuple[str, ...]
    count: Count = 0


class Looks(Part, frozen=True, kw_only=True):
    """The looks at one node. gap_s: the longest time between two; cost_s: CPU time that looking took of `wall_s`;
    expected, seen: ranks or workers, at once."""

    looks: Count
    processes: tuple[Processes, ...]
    expected: Count = 0
    seen: Count = 0
    gap_s: Seconds = 0.0
    cost_s: Seconds = 0.0
    wall_s: Seconds = 0.0


@dataclass(frozen=True)
class ExpectedProcesses:
    """The processes to look for. `program`: path of the tool; `processes`: expected ranks or workers of this node.

    `ranks`: a launcher starts them, and what they start are helpers; else the tool's first process starts them.
    `time_s`: how long the command's only phase runs, None where that is not known.
    """

    program: str
    processes: int
    ranks: bool
    time_s: float | None = None


@dataclass
class _Process:
    parent: str
    since: float
    own: bool = False  # of the program, and not only started by it
    masks: dict[CpuSet, float] = field(default_factory=dict)  # with the time when each was seen last
    thread_masks: dict[CpuSet, float] = field(default_factory=dict)

    def masked(self, role: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The role, and the masks of the process and of its threads."""
        return role, tuple(sorted(map(listed, self.masks))), tuple(sorted(map(listed, self.thread_masks)))

    def read(self, pid: str, at_s: float) -> bool:
        """Note the masks of its threads; whether there are any."""
        masks = {}
        for thread in procfs.threads(pid):
            with contextlib.suppress(OSError):
                masks[thread] = frozenset(os.sched_getaffinity(int(thread)))
        self.masks |= {mask: at_s for thread, mask in masks.items() if thread == pid}
        self.thread_masks |= dict.fromkeys(masks.values(), at_s)
        return bool(masks)


class Sampler:
    """Looks at a command's ranks or workers. `among`: process ids that may belong to it, beside others."""

    def __init__(self, wanted: ExpectedProcesses, among: Callable[[], Iterable[str]], host: str = ""):
        self._wanted, self._among = wanted, among
        self._program = os.path.realpath(wanted.program)
        self._own_command = procfs.read("self", "cmdline")
        self._found: dict[str, _Process] = {}
        self._parents: set[str] = set()
        self.most = 0  # of the program's own ranks, at once
        # of a single timed phase: a rank's bytes are those of all phases
        self.progress = Progress(host) if wanted.ranks and wanted.time_s is not None else None
        self._seen, self._cost_s, self._wait_s = 0, 0.0, _SOON_S
        self._looks: list[float] = []
        self._real = False  # the program itself was seen
        self._unsettled_s = 0.0  # until all have settled, where all are there
        self._began = time.monotonic()

    def look(self) -> float:
        """Look once; returns the seconds until the next look."""
        used_s = time.thread_time()
        complete = self._sample()
        cost_s = time.thread_time() - used_s
        self._cost_s += cost_s
        if complete:
            return self._pause_s(cost_s)
        if self._unsettled_s:
            return self._unsettled_s
        if time.monotonic() - self._began > _SEARCHED_S or self._looks:
            self._wait_s = min(2 * self._wait_s, _SELDOM_S)
        return self._wait_s

    def end(self, silent_s: float = 0.0) -> Looks:
        """The looks. `silent_s`: for how long the command had printed nothing.

        IOR and mdtest print after MPI_Init, where libraries bind a rank to other CPUs for a while (psm2: to CPU 0 for
        0.2 s), and before they measure. If they print at the end only, too few looks are left, and all count.
        """
        now, looks = time.monotonic(), self._looks
        begun_s = self._began + silent_s
        since = [at_s for at_s in looks if at_s > begun_s]
        if self._wanted.ranks and len(since) >= _ENOUGH:
            looks = since
            for process in self._found.values():
                for seen in (process.masks, process.thread_masks):
                    if later := {cpus: last_s for cpus, last_s in seen.items() if last_s > begun_s}:
                        seen.clear()
                        seen.update(later)
        kinds = Counter(
            process.masked(self._role(pid, process)) for pid, process in self._found.items() if process.masks
        )
        ourselves = _Process("", 0.0)
        ourselves.read(str(os.getpid()), 0.0)
        agent = ourselves.masked("agent")
        return Looks(
            expected=self._wanted.processes,
            seen=self._seen,
            looks=len(looks),
            gap_s=round(max((b - a for a, b in pairwise([*looks, now])), default=0.0), 3),
            cost_s=round(self._cost_s, 4),
            wall_s=round(now - self._began, 3),
            processes=tuple(Processes(*kind, count) for kind, count in [*sorted(kinds.items()), (agent, 1)]),
        )

    def _pause_s(self, cost_s: float) -> float:
        dear_s = max(_LEAST_S, cost_s / _COST)
        if (time_s := self._wanted.time_s) is None:
            return max(dear_s, (time.monotonic() - self._looks[0]) * _SHARE)
        often_s = time_s / _LOOKS
        three_s = max(often_s, (time_s - _SETTLED_S - 2 * _SOON_S) / 3)
        drawn_s = min(often_s, _LONGEST_S) * random.uniform(0.6, 1.0)  # processes may come and go evenly
        return min(three_s, max(dear_s, drawn_s))

    def _sample(self) -> bool:
        """Whether all that are to be there are, with masks that have settled."""
        now, self._unsettled_s = time.monotonic(), 0.0
        # the stat of a first thread: that of a process is added up over all threads
        there = {
            pid: (path, stat)
            for pid in self._among()
            if (path := self._path(pid)) and (stat := procfs.stat(f"{pid}/task/{pid}"))
        }
        parents = {pid: stat[1].decode() for pid, (_, stat) in there.items()}
        own = {pid for pid, (path, _) in there.items() if path == self._program}
        if own and not self._real:  # the processes so far only start the program, and are not part of it
            self._real = True
            self._found.clear()
            self._parents.clear()
            self._seen, self._looks = 0, []
        ours = own if self._real else set(there)  # a script that starts the program, or stands for it
        self._parents |= {parents[pid] for pid in ours}
        if self._wanted.ranks:
            chosen = {pid for pid in ours if parents[pid] not in ours}  # not one that a rank has just forked
        else:
            chosen = {pid for pid in ours if parents[pid] in ours and pid not in self._parents}
        self.most = max(self.most, len(chosen & own))
        settled, youngest = 0, now - _SETTLED_S
        newest = max((self._found[pid].since if pid in self._found else now for pid in chosen), default=now)
        for pid in with_descendants(ours, parents):
            process = self._found.setdefault(pid, _Process(parents[pid], now))
            process.own |= pid in ours  # it may have been taskset before
            age = now - process.since
            settling = now - newest < _SETTLED_S and pid in chosen
            # it has not had a tick (10 ms) of CPU time, and it or its parent waits for a CPU
            stat, starter = there[pid][1], there.get(parents[pid], ("", []))[1]
            starved = settling or (stat[11] == stat[12] == b"0" and b"R" in (*stat[:1], *starter[:1]))
            counts = age >= _STARVED_S or (age >= _SETTLED_S and not starved)
            if counts and stat[0] != b"Z" and process.read(pid, now):
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

    def _path(self, pid: str) -> str | None:
        """The executable of a process; None if it is not part of the tool, or not yet."""
        path = procfs.program(pid)
        if path is None or path.rpartition("/")[2] in _NOT_RANKS:
            return None
        if path == _PYTHON and procfs.read(pid, "cmdline") == self._own_command:
            return None
        return path

    def _role(self, pid: str, process: _Process) -> str:
        within = process.parent in self._found
        if self._wanted.ranks:
            return "rank" if process.own and not within else "helper"
        return "worker" if within and process.own and pid not in self._parents else "helper"


# Bytes of each MPI rank

#: Looks that are kept; of more, every other one is dropped.
_KEPT = 24
#: Variables with a rank's number. Slurm's comes last: ranks of hydra have the number of their proxy there.
_NUMBERS = ("PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
#: Ranks are at work once they move data, together, at this share of their usual rate.
_MOVING = 0.1
#: Intervals between looks that a rate needs.
_INTERVALS = 3
_COUNTS = re.compile(rb"^[rw]char: (\d+)$", re.MULTILINE)


class _Progress(msgspec.Struct):
    """The line of one node in a stream. moved_bytes: of each rank at each look, as many as at_s."""

    host: str
    at_s: list[float]
    moved_bytes: dict[str, list[int]]


class Progress:
    """The bytes of each rank of this node at each look, by the kernel's account of a process.

    IOR tells no rank's own bytes in a timed phase. The kernel does (`rchar`, `wchar` of /proc/<pid>/io): what a process
    read and wrote by system calls, in whatever file system.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._numbers: dict[str, str] = {}
        self._looks: list[tuple[float, dict[str, int]]] = []

    def look(self, at_s: float, pids: Iterable[str]) -> None:
        """Read what ranks have moved; a look without one of them does not count."""
        found: dict[str, int] = {}
        for pid in pids:
            counts = _COUNTS.findall(procfs.read(pid, "io"))
            if pid not in self._numbers:
                known = (procfs.variable(pid, name) for name in _NUMBERS)
                self._numbers[pid] = next((number for number in known if number.isdecimal()), "")
            if len(counts) != 2 or not self._numbers[pid]:
                return
            found[self._numbers[pid]] = sum(map(int, counts))
        self._looks.append((at_s, found))
        if len(self._looks) > _KEPT:
            del self._looks[1::2]

    def stream(self) -> bytes:
        """The looks at all ranks, a line of JSON; empty with fewer than two."""
        ranks = self._looks[-1][1].keys() if self._looks else set()
        whole = [(at_s, found) for at_s, found in self._looks if found.keys() == ranks]
        if len(whole) < 2:
            return b""
        moved = {rank: [found[rank] for _, found in whole] for rank in sorted(ranks, key=int)}
        times = [round(at_s - whole[0][0], 3) for at_s, _ in whole]
        return msgspec.json.encode(_Progress(self._host, times, moved)) + b"\n"


_decoder = msgspec.json.Decoder(_Progress)


def rates(stream: bytes) -> dict[str, dict[int, float]]:
    """host -> rank -> its bytes per second while all ranks of the node moved data; none of a node with too few looks.

    Pure. The first and the last interval in which they moved are left out, because the phase began and ended there.
    """
    nodes = map(_decoder.decode, stream.splitlines())
    return {node.host: ranks for node in nodes if (ranks := _rank_rates(node.at_s, node.moved_bytes))}


def _rank_rates(at_s: Sequence[float], moved_bytes: Mapping[str, Sequence[int]]) -> dict[int, float]:
    together = [sum(counts) for counts in zip(*moved_bytes.values(), strict=True)]
    if any(after <= before for before, after in pairwise(at_s)):
        return {}
    each = [
        (b - a) / (until - since) for (a, b), (since, until) in zip(pairwise(together), pairwise(at_s), strict=False)
    ]
    usual = median(each) if each else 0.0
    moving = [k for k, rate in enumerate(each) if rate > _MOVING * usual and rate > 0]
    if not moving or moving[-1] - moving[0] - 1 < _INTERVALS:
        return {}
    begin, end = moving[0] + 1, moving[-1]  # looks
    lasted_s = at_s[end] - at_s[begin]
    found = {int(rank): (counts[end] - counts[begin]) / lasted_s for rank, counts in moved_bytes.items()}
    return found if all(0 <= rate <= LARGEST_RATE for rate in found.values()) else {}
