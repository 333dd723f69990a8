"""Ranks and workers on this node while a command runs: their number, CPU masks and bytes moved.

The masks of all their threads are read back from the kernel, whatever was asked for; bytes are counted per MPI rank.
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

from iosweep.files.documents import Count, Part, Seconds
from iosweep.histograms import LARGEST_RATE
from iosweep.node import procfs
from iosweep.node.cpus import CpuSet, listed
from iosweep.node.procfs import with_descendants

#: Seconds between looks until all expected processes were seen, short, so that no short-lived process is missed; the
#: time after which intervals grow if none was seen, because a look costs CPU time; and the longest such interval.
_SOON_S, _SEARCHED_S, _SELDOM_S = 0.05, 3.0, 1.0
#: Number of looks at a phase of known length, and the longest interval. If the length is unknown, or a command has
#: several phases: the interval as a share of the time since the first look, and the shortest interval.
_LOOKS, _LONGEST_S, _SHARE, _LEAST_S = 6, 10.0, 1 / 40, 0.02
#: Most CPU time of a look, as a share of the interval to the next look. Exceeded if the phase would otherwise get fewer
#: than three looks.
_COST = 1 / 150
#: With this many looks after the first output of the command, earlier looks do not count.
_ENOUGH = 3
#: Age from which the mask of a process counts: fio's workers bind themselves after all of them were started. And the
#: age on an overloaded node, where a worker or its parent may still wait for a CPU.
_SETTLED_S, _STARVED_S = 0.2, 2.0
#: Programs that are not ranks: launchers, and Slurm commands that the runner calls meanwhile.
_NOT_RANKS = frozenset(
    (
        *("srun", "slurmstepd", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy"),
        *("mpirun", "orterun", "orted", "prterun", "prte", "prted"),
        *("scontrol", "squeue", "scancel", "sbatch", "sacct"),
    )
)
_PYTHON = os.path.realpath(sys.executable)


class Processes(Part, frozen=True):
    """Processes with equal roles and equal masks."""

    #: rank, worker, helper or agent.
    role: str
    #: CPU lists of the processes, at all looks.
    masks: tuple[str, ...]
    #: CPU lists of their threads, at all looks.
    thread_masks: tuple[str, ...]
    count: Count = 0


class Looks(Part, frozen=True, kw_only=True):
    """The looks at the ranks or workers of one node."""

    #: Number of looks.
    looks: Count
    processes: tuple[Processes, ...]
    #: Ranks or workers that should run simultaneously.
    expected: Count = 0
    #: The most that were seen simultaneously.
    seen: Count = 0
    #: The longest time between two looks.
    gap_s: Seconds = 0.0
    #: CPU time of all looks.
    cost_s: Seconds = 0.0
    wall_s: Seconds = 0.0


@dataclass(frozen=True)
class ExpectedProcesses:
    """The processes to look for."""

    #: Path of the tool.
    program: str
    #: Number of ranks or workers on this node.
    processes: int
    #: Ranks, which a launcher starts and whose children are helpers; else workers of the tool's first process.
    ranks: bool
    #: Duration of the only phase of the command; None if unknown.
    time_s: float | None = None


@dataclass
class _Process:
    parent: str
    since: float
    runs_program: bool = False  # it executes the program itself
    masks: dict[CpuSet, float] = field(default_factory=dict)  # mask -> when it was seen last
    thread_masks: dict[CpuSet, float] = field(default_factory=dict)

    def masked(self, role: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The fields of Processes, without the count."""
        return role, tuple(sorted(map(listed, self.masks))), tuple(sorted(map(listed, self.thread_masks)))

    def read(self, pid: str, at_s: float) -> bool:
        """Note the masks of its threads; returns whether any could be read."""
        masks = {}
        for thread in procfs.threads(pid):
            with contextlib.suppress(OSError):
                masks[thread] = frozenset(os.sched_getaffinity(int(thread)))
        self.masks |= {mask: at_s for thread, mask in masks.items() if thread == pid}
        self.thread_masks |= dict.fromkeys(masks.values(), at_s)
        return bool(masks)


class Sampler:
    """Looks at the ranks or workers of a command. `among`: ids of processes that may belong to it."""

    def __init__(self, expected: ExpectedProcesses, among: Callable[[], Iterable[str]], host: str = ""):
        self._expected, self._among = expected, among
        self._program = os.path.realpath(expected.program)
        self._agent_command = procfs.read("self", "cmdline")
        self._processes: dict[str, _Process] = {}
        self._parents: set[str] = set()
        self.most = 0  # ranks or workers that ran the program simultaneously
        # only for a single timed phase: the kernel counts a rank's bytes over all phases
        self.progress = Progress(host) if expected.ranks and expected.time_s is not None else None
        self._seen, self._cost_s, self._wait_s = 0, 0.0, _SOON_S
        self._looks: list[float] = []
        self._real = False  # the program itself was seen, not only a script that starts it
        self._unsettled_s = 0.0  # time until all have settled, if all are there
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
        """The looks. `silent_s`: time before the first output of the command.

        MPI_Init may bind a rank to other CPUs for a while (psm2: to CPU 0 for 0.2 s), so looks before the first output,
        which IOR and mdtest print between MPI_Init and the measurement, do not count. If a tool prints only at the end,
        too few looks are left, and all count.
        """
        now, looks = time.monotonic(), self._looks
        output_s = self._began + silent_s
        after_output = [at_s for at_s in looks if at_s > output_s]
        if self._expected.ranks and len(after_output) >= _ENOUGH:
            looks = after_output
            for process in self._processes.values():
                for masks in (process.masks, process.thread_masks):
                    if later := {cpus: last_s for cpus, last_s in masks.items() if last_s > output_s}:
                        masks.clear()
                        masks.update(later)
        kinds = Counter(
            process.masked(self._role(pid, process)) for pid, process in self._processes.items() if process.masks
        )
        ourselves = _Process("", 0.0)
        ourselves.read(str(os.getpid()), 0.0)
        agent = ourselves.masked("agent")
        return Looks(
            expected=self._expected.processes,
            seen=self._seen,
            looks=len(looks),
            gap_s=round(max((b - a for a, b in pairwise([*looks, now])), default=0.0), 3),
            cost_s=round(self._cost_s, 4),
            wall_s=round(now - self._began, 3),
            processes=tuple(Processes(*kind, count) for kind, count in [*sorted(kinds.items()), (agent, 1)]),
        )

    def _pause_s(self, cost_s: float) -> float:
        dear_s = max(_LEAST_S, cost_s / _COST)
        if (time_s := self._expected.time_s) is None:
            return max(dear_s, (time.monotonic() - self._looks[0]) * _SHARE)
        often_s = time_s / _LOOKS
        three_s = max(often_s, (time_s - _SETTLED_S - 2 * _SOON_S) / 3)
        drawn_s = min(often_s, _LONGEST_S) * random.uniform(0.6, 1.0)  # not in step with processes that come and go
        return min(three_s, max(dear_s, drawn_s))

    def _sample(self) -> bool:
        """Read the masks once; returns whether all expected processes are there, with settled masks."""
        now, self._unsettled_s = time.monotonic(), 0.0
        # the stat of the first thread, because the stat of a process is a sum over all threads
        candidates = {
            pid: (path, stat)
            for pid in self._among()
            if (path := self._path(pid)) and (stat := procfs.stat(f"{pid}/task/{pid}"))
        }
        parents = {pid: stat[1].decode() for pid, (_, stat) in candidates.items()}
        programs = {pid for pid, (path, _) in candidates.items() if path == self._program}
        if programs and not self._real:  # the processes seen so far only started the program
            self._real = True
            self._processes.clear()
            self._parents.clear()
            self._seen, self._looks = 0, []
        ours = programs if self._real else set(candidates)  # these may be a script that starts the program
        self._parents |= {parents[pid] for pid in ours}
        if self._expected.ranks:
            members = {pid for pid in ours if parents[pid] not in ours}  # not a process that a rank has just forked
        else:
            members = {pid for pid in ours if parents[pid] in ours and pid not in self._parents}
        self.most = max(self.most, len(members & programs))
        settled, youngest = 0, now - _SETTLED_S
        newest = max((self._processes[pid].since if pid in self._processes else now for pid in members), default=now)
        for pid in with_descendants(ours, parents):
            process = self._processes.setdefault(pid, _Process(parents[pid], now))
            process.runs_program |= pid in ours  # it may have run taskset before
            age = now - process.since
            settling = now - newest < _SETTLED_S and pid in members
            # or: not a tick (10 ms) of CPU time so far, and it or its parent waits for a CPU
            stat, starter = candidates[pid][1], candidates.get(parents[pid], ("", []))[1]
            starved = settling or (stat[11] == stat[12] == b"0" and b"R" in (*stat[:1], *starter[:1]))
            counts = age >= _STARVED_S or (age >= _SETTLED_S and not starved)
            if counts and stat[0] != b"Z" and process.read(pid, now):
                settled += pid in members
            elif pid in members and not counts:
                youngest = max(youngest, process.since)
        if self._expected.ranks and not self._real:  # the child of a script is the rank, whatever the script's mask is
            for process in self._processes.values():
                if script := self._processes.get(process.parent):
                    script.thread_masks |= process.thread_masks
        self._seen = max(self._seen, settled)
        if not settled or settled < self._expected.processes:
            if len(members) >= self._expected.processes:
                self._unsettled_s = youngest + _SETTLED_S - now + 0.001  # so that rounding does not make it too early
            return False
        self._looks.append(now)
        if self.progress and self._real:
            self.progress.look(now, members)
        return True

    def _path(self, pid: str) -> str | None:
        """The executable of a process; None if it is no part of the tool (yet)."""
        path = procfs.program(pid)
        if path is None or path.rpartition("/")[2] in _NOT_RANKS:
            return None
        if path == _PYTHON and procfs.read(pid, "cmdline") == self._agent_command:
            return None
        return path

    def _role(self, pid: str, process: _Process) -> str:
        within = process.parent in self._processes
        if self._expected.ranks:
            return "rank" if process.runs_program and not within else "helper"
        return "worker" if within and process.runs_program and pid not in self._parents else "helper"


# Bytes of each MPI rank

#: The most looks that are kept; with more, every second look is dropped.
_KEPT = 24
#: Variables with the number of a rank. Slurm's comes last, because under hydra it is the number of the proxy.
_NUMBERS = ("PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
#: The ranks of a node work once their total rate reaches this share of the median.
_MOVING = 0.1
#: The fewest intervals between looks for a rate.
_INTERVALS = 3
_COUNTS = re.compile(rb"^[rw]char: (\d+)$", re.MULTILINE)


class _Progress(msgspec.Struct):
    """The line of a node in a stream. moved_bytes: rank -> its bytes at each time of at_s."""

    host: str
    at_s: list[float]
    moved_bytes: dict[str, list[int]]


class Progress:
    """The bytes of each rank of this node at each look, as the kernel counts them.

    IOR does not report the bytes of a rank in a timed phase. The kernel does (`rchar`, `wchar` of /proc/<pid>/io): all
    bytes that a process read and wrote by system calls, on any file system.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._numbers: dict[str, str] = {}
        self._looks: list[tuple[float, dict[str, int]]] = []

    def look(self, at_s: float, pids: Iterable[str]) -> None:
        """Read the bytes of ranks; the look does not count if a rank cannot be read."""
        moved: dict[str, int] = {}
        for pid in pids:
            counts = _COUNTS.findall(procfs.read(pid, "io"))
            if pid not in self._numbers:
                values = (procfs.variable(pid, name) for name in _NUMBERS)
                self._numbers[pid] = next((number for number in values if number.isdecimal()), "")
            if len(counts) != 2 or not self._numbers[pid]:
                return
            moved[self._numbers[pid]] = sum(map(int, counts))
        self._looks.append((at_s, moved))
        if len(self._looks) > _KEPT:
            del self._looks[1::2]

    def stream(self) -> bytes:
        """The looks that saw all ranks, as a line of JSON; empty with fewer than two."""
        ranks = self._looks[-1][1].keys() if self._looks else set()
        whole = [(at_s, counts) for at_s, counts in self._looks if counts.keys() == ranks]
        if len(whole) < 2:
            return b""
        moved = {rank: [counts[rank] for _, counts in whole] for rank in sorted(ranks, key=int)}
        times = [round(at_s - whole[0][0], 3) for at_s, _ in whole]
        return msgspec.json.encode(_Progress(self._host, times, moved)) + b"\n"


_decoder = msgspec.json.Decoder(_Progress)


def rates(stream: bytes) -> dict[str, dict[int, float]]:
    """host -> rank -> its bytes per second while the ranks of the node worked; without nodes with too few looks. Pure.

    The first and the last of these intervals are left out, because the phase began and ended in them.
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
    rates_of = {int(rank): (counts[end] - counts[begin]) / lasted_s for rank, counts in moved_bytes.items()}
    return rates_of if all(0 <= rate <= LARGEST_RATE for rate in rates_of.values()) else {}
