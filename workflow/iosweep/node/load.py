"""CPU load of this node while a command runs: shares of the tool, the file system's client and other processes.

The time of others has one definition, in a Slurm job or not: the busy time of all CPUs that are not
reserved, from /proc/stat, minus the time of our processes (the tool, its launcher, the runner, the agents), of the
kernel's threads, which work for everybody, and of the target's client. The sum over the processes of others would miss
processes that end between two snapshots, and processes that /proc hides (hidepid, PID namespaces).

CPUs that ranks or workers are bound to are also judged one by one: a foreign process that uses 1 of 128 CPUs (0.8 %)
takes half the time of the worker on that CPU.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import structs

from iosweep.files.documents import Count, Number, Part, Seconds
from iosweep.node import fs_types, procfs
from iosweep.node.cpus import NO_CPUS, CpuSet, listed, parsed
from iosweep.node.facts import NodeFacts

#: The shortest window that is judged, as the kernel counts in ticks of 10 ms; and the fewest ticks for a single CPU.
_LEAST_S, _LEAST_TICKS = 0.2, 50
#: Processes of others that are named at most, and the least share of CPU time of each.
_NAMED, _NAMED_SHARE = 2, 0.01
#: The flag of kernel threads (PF_KTHREAD in `flags` of /proc/<pid>/stat).
_KERNEL = 0x200000
#: Slurm's process that starts the ranks of a job as root, and waits for them.
_STEP = b"slurmstepd"

# Parts of a record (docs/store.md)


class Other(Part, frozen=True):
    """Processes of others that share a name: the user of the busiest, and the CPU time of all, as a share."""

    name: str
    user: str
    share: Number


class Throttled(Part, frozen=True):
    """Effect of the CPU quota of a control group: periods in which a process ran, periods in which the quota stopped
    it, and the time for which it was stopped, summed over all CPUs."""

    periods: Count
    stopped: Count
    stopped_s: Seconds
    host: str = ""


class Bound(Part, frozen=True):
    """CPUs that ranks or workers were bound to, as a list, and the share of their time that others used."""

    cpus: str
    other: Number
    host: str = ""
    top: tuple[Other, ...] = ()


class Load(Part, frozen=True, kw_only=True):
    """Shares of the CPU time of all CPUs that are not reserved: of each share the largest of any node."""

    #: Used by others: not the tool, iosweep, the client or kernel threads; None if a node hides kernel threads.
    other: Number | None
    #: Withheld by the hypervisor.
    steal: Number
    #: None if processes of the client were not found.
    client: Number | None = 0.0
    #: The time that the shares cover.
    window_s: Seconds = 0.0
    #: The host with the largest share `other`, and its busiest processes of others.
    host: str = ""
    top: tuple[Other, ...] = ()
    #: The bound CPUs of which others used most; None if unknown.
    bound: Bound | None = None
    #: The CPU quota that stopped longest on any node; None if control groups could not be read.
    throttled: Throttled | None = None
    #: Hosts without a load.
    unread: tuple[str, ...] = ()


class MachineCounters(Part, frozen=True):
    """Identifies a machine: the time of its boot (seconds since the epoch), and counts since then."""

    booted_s: int
    switches: int
    forks: int


class NodeLoad(Part, frozen=True, kw_only=True):
    """Shares of the CPU time of one node, without reserved CPUs; fields as for `Load`."""

    #: Without kernel threads; None if these are hidden (in a container).
    busy: float | None
    #: Used by the tool, the runner and the agents.
    ours: float
    client: float | None
    steal: float
    window_s: float
    #: At the first and the last snapshot.
    machine: tuple[MachineCounters, MachineCounters]
    top: tuple[Other, ...] = ()
    bound: Bound | None = None
    throttled: Throttled | None = None


# Snapshots of /proc


@dataclass(frozen=True)
class Surroundings:
    """Facts of a node that a watch needs."""

    fstype: str = ""
    #: Mount point of the target.
    mount: str = ""
    #: List of reserved CPUs.
    reserved: str = ""
    #: CPU list of each rank or worker; empty if they may use all CPUs.
    bound: tuple[str, ...] = ()
    #: Name of the node in series.
    host: str = ""

    @classmethod
    def of_node(cls, facts: NodeFacts | None, bound: tuple[str, ...] = ()) -> Surroundings:
        if facts is None:
            return cls(bound=bound)
        fstype = facts.fstype or ""
        match = re.fullmatch(rf".* on (.*) type {re.escape(fstype)} \(.*", facts.mount or "", re.DOTALL)
        return cls(fstype, match[1] if match else "", facts.reserved_cpus or "", bound, facts.host)


class Cpu(NamedTuple):
    """Busy and total time of one CPU, in ticks."""

    busy: int
    total: int


class Cpus(NamedTuple):
    """Busy, total and stolen ticks of all CPUs that are not reserved, and the ticks of each."""

    busy: int
    total: int
    steal: int
    machine: MachineCounters = MachineCounters(0, 0, 0)
    each: Mapping[int, Cpu] = {}


#: Owner of a process: iosweep and the tool; the kernel; the target's client; anybody else. An "other" process may turn
#: out to be a rank later.
Kind = Literal["ours", "kernel", "client", "other"]
Key = tuple[str, bytes]  # process or thread id, and start time, because ids are reused


class Process(NamedTuple):
    """A process or thread."""

    kind: Kind
    #: CPU time; for "ours" and "other" with the time of children that the process has waited for.
    ticks: int
    #: CPU time without children.
    alone: int = 0
    #: The CPU that it ran on last.
    cpu: int = 0
    name: str = ""
    parent: str = ""


@dataclass
class Snapshot:
    """One reading of /proc. threads: of all kinds except "other"; read only if ranks or workers are bound."""

    at_s: float
    cpus: Cpus
    processes: dict[Key, Process] = field(default_factory=dict)
    threads: dict[Key, Process] = field(default_factory=dict)

    def of_kind(self, kind: Kind) -> dict[Key, Process]:
        return {key: process for key, process in self.processes.items() if process.kind == kind}


@dataclass(frozen=True)
class Job:
    """The processes of a Slurm job that are "ours" on this node, with their descendants: the runner, if it is here, and
    all processes that steps have started since the watch began. Other processes of the job, such as those that its
    batch script runs beside us, are "other".

    began: in the kernel's ticks since boot.
    """

    runner: str
    began: int

    @classmethod
    def from_now(cls, runner: int | None) -> Job:
        return cls(str(runner), int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")))

    def is_new(self, key: Key) -> bool:
        """Whether a process was started after `began`."""
        return int(key[1]) >= self.began


class Reader:
    """Takes snapshots. "ours": this process and its descendants, and in a job the processes of `job`."""

    def __init__(self, around: Surroundings, job: Job | None = None):
        self._job, self._reserved = job, parsed(around.reserved)
        self.bound = tuple(dict.fromkeys(map(parsed, around.bound)))
        kind = fs_types.lookup(around.fstype)
        self.client_is_process = bool(kind.clients) or kind is fs_types.FUSE
        self._clients = kind.clients
        if kind is fs_types.FUSE and (subtype := around.fstype.partition(".")[2]):
            self._clients = (subtype[:15],)  # a prefix: mfsmount serves fuse.mfs

    def snapshot(self) -> Snapshot:
        result = Snapshot(time.monotonic(), cpu_times(procfs.read("", "stat"), self._reserved))
        stats: dict[str, tuple[Key, list[bytes], str]] = {}
        for pid in procfs.pids():
            text = procfs.read(pid, "stat")
            fields = text.rpartition(b")")[2].split()
            if len(fields) < 37:  # it is gone
                continue
            key = pid, fields[19]
            if int(fields[6]) & _KERNEL:
                result.processes[key] = Process("kernel", _ticks(fields))
                if self.bound:
                    result.threads[key] = Process("kernel", _ticks(fields), cpu=int(fields[36]))
            else:
                stats[pid] = key, fields, text.partition(b"(")[2].rpartition(b")")[0].decode("utf-8", "replace")
        ours = self._ours({pid: (key, fields[1].decode(), name) for pid, (key, fields, name) in stats.items()})
        for pid, (key, fields, name) in stats.items():
            alone = _ticks(fields)
            is_client = bool(self._clients) and name.startswith(self._clients)
            kind: Kind = "ours" if pid in ours else "client" if is_client else "other"
            ticks = alone + _ticks(fields[2:]) if ours.get(pid, kind == "other") else alone
            if kind == "client" and self._reserved:  # the time on reserved CPUs is not in the total
                ticks = sum(t.ticks for t in _threads(kind, key, fields).values() if t.cpu not in self._reserved)
            result.processes[key] = Process(kind, ticks, alone, int(fields[36]), name, fields[1].decode())
            if self.bound and kind != "other":
                result.threads |= _threads(kind, key, fields)
        return result

    def _ours(self, stats: Mapping[str, tuple[Key, str, str]]) -> dict[str, bool]:
        """Ids of our processes -> whether the children that the process has waited for were ours, too.

        `stats`: process id -> key, parent, name.
        """
        roots = {str(os.getpid()): True}
        if not self._job:
            roots[str(os.getppid())] = False  # the runner, which may have waited for anything before
        else:
            for pid, (key, parent, _) in stats.items():
                of_step = self._job.is_new(key) and procfs.is_of_job(pid) and procfs.variable(pid, "SLURM_STEP_ID")
                if pid == self._job.runner or of_step:
                    roots[pid] = True
                    starter = stats.get(parent)
                    if starter and starter[2] == _STEP.decode() and self._job.is_new(starter[0]):
                        roots[parent] = True
        parents = {pid: parent for pid, (_, parent, _) in stats.items()}
        below = procfs.with_descendants((pid for pid, whole in roots.items() if whole), parents)
        roots |= dict.fromkeys(below, True)
        return {pid: whole for pid, whole in roots.items() if pid in stats}


def _ticks(fields: list[bytes]) -> int:
    """Ticks in user mode and in the kernel, from the fields of procfs.stat."""
    return int(fields[11]) + int(fields[12])


def _threads(kind: Kind, key: Key, fields: list[bytes]) -> dict[Key, Process]:
    """The threads of a process, each with the CPU that it ran on last. `fields`: procfs.stat of the process."""
    if int(fields[17]) == 1:
        return {key: Process(kind, _ticks(fields), cpu=int(fields[36]))}
    stats = {thread: procfs.stat(f"{key[0]}/task/{thread}") for thread in procfs.threads(key[0])}
    return {
        (t, stat[19]): Process(kind, _ticks(stat), cpu=int(stat[36])) for t, stat in stats.items() if len(stat) > 36
    }


def cpu_times(stat: bytes, reserved: CpuSet = NO_CPUS) -> Cpus:
    """Busy, total and stolen ticks of the CPUs from the text of /proc/stat. Pure."""
    lines = re.findall(rb"^cpu(\d+) (.*)$", stat.partition(b"\nintr")[0], re.MULTILINE)
    # user, nice, system, idle, iowait, irq, softirq and steal
    each_cpu = {int(cpu): [*map(int, values.split()[:8]), *[0] * 8][:8] for cpu, values in lines}
    ticks = {cpu: values for cpu, values in each_cpu.items() if cpu not in reserved}
    each = {cpu: Cpu(sum(values[:3]), sum(values)) for cpu, values in ticks.items()}
    counts = dict(re.findall(rb"^(btime|ctxt|processes) (\d+)$", stat, re.MULTILINE))
    machine = MachineCounters(*(int(counts.get(name, 0)) for name in (b"btime", b"ctxt", b"processes")))
    busy, total = sum(cpu.busy for cpu in each.values()), sum(cpu.total for cpu in each.values())
    return Cpus(busy, total, sum(values[7] for values in ticks.values()), machine, each)


# From snapshots to shares


def shares(
    snapshots: Sequence[Snapshot],
    client_is_process: bool,
    bound: Collection[CpuSet] = (),
    user: Callable[[str], str | None] = lambda _: "",
) -> NodeLoad | None:
    """Shares of a node, from all snapshots taken during a command, in order; None if the window is too short. Pure.

    `bound`: the CPUs of ranks or workers. `user`: process id -> name of its user.
    """
    used = dict.fromkeys(("ours", "kernel", "client"), 0)
    busy = total = steal = 0
    window_s = 0.0
    # in other pairs the time of our processes is incomplete, and the rest would count as time of others
    pairs = [(a, b) for a, b in pairwise(snapshots) if _is_whole(a, b)]
    for a, b in pairs:
        window_s += b.at_s - a.at_s
        busy, total = busy + b.cpus.busy - a.cpus.busy, total + b.cpus.total - a.cpus.total
        steal += b.cpus.steal - a.cpus.steal
        for kind in used:  # the time of an ended process of ours is now part of its parent's time
            now = {key: process.ticks for key, process in b.processes.items() if process.kind == kind}
            had = (p.ticks for key, p in a.processes.items() if key in now or (p.kind == kind == "ours"))
            used[kind] += sum(now.values()) - sum(had)
    if window_s < _LEAST_S or total <= 0:
        return None
    kinds = {process.kind for snapshot in snapshots for process in snapshot.processes.values()}
    shows_kernel = "kernel" in kinds
    return NodeLoad(
        busy=round((busy - used["kernel"]) / total, 4) if shows_kernel else None,
        ours=round(used["ours"] / total, 4),
        client=round(used["client"] / total, 4) if "client" in kinds or not client_is_process else None,
        steal=round(max(0, steal) / total, 4),
        window_s=round(window_s, 2),
        machine=(snapshots[0].cpus.machine, snapshots[-1].cpus.machine),
        top=_top(pairs, total, user),
        bound=_bound(snapshots, bound, user) if shows_kernel else None,
    )


def _is_whole(a: Snapshot, b: Snapshot) -> bool:
    """Whether the time of all our processes between two snapshots is known: the topmost of our processes live on, so
    that every process that ended was waited for by one of our processes."""
    before = a.of_kind("ours")
    pids = {pid for pid, _ in before}
    roots = {key for key, process in before.items() if process.parent not in pids}
    return roots <= b.of_kind("ours").keys()


def _top(
    pairs: Iterable[tuple[Snapshot, Snapshot]],
    total: int,
    user: Callable[[str], str | None],
    cpus: CpuSet | None = None,
) -> tuple[Other, ...]:
    """The processes of others that used most of `total` ticks between pairs of snapshots, on all CPUs or on `cpus`;
    processes with equal names are summed."""
    used: dict[str, Counter[str]] = {}  # name -> process id -> ticks
    for a, b in pairs:
        for key, process in b.of_kind("other").items():
            since = process.alone - (a.processes[key].alone if key in a.processes else 0)
            if since and (cpus is None or process.cpu in cpus):
                used.setdefault(process.name, Counter())[key[0]] += since
    most = sorted(used.items(), key=lambda named: -named[1].total())
    return tuple(
        Other(name, user(each.most_common(1)[0][0]) or "", round(each.total() / total, 3))
        for name, each in most[:_NAMED]
        if each.total() / total >= _NAMED_SHARE
    )


def _bound(snapshots: Sequence[Snapshot], bound: Collection[CpuSet], user: Callable[[str], str | None]) -> Bound | None:
    """The CPUs of the rank or worker that others disturbed most; None if no CPU was watched long enough.

    Between two snapshots a CPU counts only if all our threads on it still live: the time of a thread that ended is
    credited to its parent, which ran elsewhere.
    """
    set_of = {cpu: cpus for cpus in bound for cpu in cpus}
    others: Counter[CpuSet] = Counter()
    totals: Counter[CpuSet] = Counter()
    for a, b in pairwise(snapshots):
        incomplete = {set_of.get(t.cpu) for key, t in a.threads.items() if t.kind == "ours" and key not in b.threads}
        for cpus in bound:
            for cpu in (cpus & a.cpus.each.keys() & b.cpus.each.keys()) if cpus not in incomplete else ():
                (busy, until), (before, since) = b.cpus.each[cpu], a.cpus.each[cpu]
                others[cpus] += busy - before
                totals[cpus] += until - since
        for key, thread in b.threads.items():
            if (where := set_of.get(thread.cpu)) and where not in incomplete:
                others[where] -= thread.ticks - (a.threads[key].ticks if key in a.threads else 0)
    other_shares = {cpus: others[cpus] / total for cpus, total in totals.items() if total >= _LEAST_TICKS * len(cpus)}
    if not other_shares:
        return None
    worst = max(other_shares, key=other_shares.__getitem__)
    share = round(min(1.0, max(0.0, other_shares[worst])), 3)
    return Bound(listed(worst), share, top=_top(pairwise(snapshots), totals[worst], user, worst))


def combine(loads: Mapping[str, NodeLoad | None]) -> Load | None:
    """The load that a record keeps: of each share the largest of any node; None if no load is known. Pure.

    Nodes that are one machine (containers, several slurmd) share its CPUs: the time that any of them calls `ours` is
    ours on all, and no CPU belongs to one rank alone.
    """
    read_loads = {host: load for host, load in loads.items() if load}
    if not read_loads:
        return None
    other, bound, stopped = dict[str, float](), [], []
    for host, load in read_loads.items():
        on_machine = [each for each in read_loads.values() if _is_same_machine(each, load)]
        client = max(each.client or 0.0 for each in on_machine)
        if load.busy is not None:
            other[host] = max(0.0, load.busy - sum(each.ours for each in on_machine) - client)
        if load.bound and len(on_machine) == 1:
            bound.append(structs.replace(load.bound, host=host))
        if load.throttled:
            stopped.append(structs.replace(load.throttled, host=host))
    clients = [load.client for load in read_loads.values() if load.client is not None]
    host = max(other, key=other.__getitem__, default="")
    return Load(
        other=round(min(1.0, other[host]), 3) if len(other) == len(read_loads) else None,
        steal=round(max(load.steal for load in read_loads.values()), 3),
        client=round(max(clients), 3) if len(clients) == len(read_loads) else None,
        window_s=min(load.window_s for load in read_loads.values()),
        host=host,
        top=read_loads[host].top if host else (),
        bound=max(bound, key=lambda cpus: cpus.other, default=None),
        throttled=max(stopped, key=lambda quota: quota.stopped_s) if len(stopped) == len(read_loads) else None,
        unread=tuple(sorted(set(loads) - set(read_loads))),
    )


def _is_same_machine(first: NodeLoad, second: NodeLoad) -> bool:
    """Whether two nodes that were watched simultaneously are one machine: booted in the same second, with overlapping
    counts. Not by boot_id: test clusters give each node on a machine a different boot_id."""
    (a, b), (c, d) = first.machine, second.machine
    overlap = a.switches <= d.switches and c.switches <= b.switches and a.forks <= d.forks and c.forks <= b.forks
    return a.booted_s == c.booted_s and overlap


# Control groups

#: Mount points: version 2 alone, and beside version 1; controllers of version 1.
_VERSION_2, _VERSION_1 = ("", "unified"), ("cpu,cpuacct", "cpu")


def quotas(membership: str | None = None, root: Path = Path("/sys/fs/cgroup")) -> dict[Path, Throttled]:
    """Throttling counts of each control group of this process since the group was made, from cpu.stat; zeros without a
    quota. Outer groups matter: schedulers and container engines set limits there, which the inner group does not show.

    `membership`: the text of /proc/self/cgroup.
    """
    counts_of = {}
    for group in _groups(membership or procfs.text("/proc/self/cgroup") or "", root):
        text = procfs.text(group / "cpu.stat") or ""
        counts = {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
        # version 2 counts in microseconds, version 1 in nanoseconds
        stopped_s = counts.get("throttled_usec", 0) / 1e6 + counts.get("throttled_time", 0) / 1e9
        counts_of[group] = Throttled(counts.get("nr_periods", 0), counts.get("nr_throttled", 0), stopped_s)
    return counts_of


def io_limits(
    devices: Collection[str], membership: str | None = None, root: Path = Path("/sys/fs/cgroup")
) -> dict[str, int]:
    """The lowest limits that the control groups of this process set on I/O of block devices (`8:0`), from io.max of
    version 2: `rbps`, `wbps` in bytes/s; `riops`, `wiops` in operations/s. Limits that are not set are left out."""
    lowest: dict[str, int] = {}
    for group in _groups(membership or procfs.text("/proc/self/cgroup") or "", root) if devices else ():
        for line in (procfs.text(group / "io.max") or "").splitlines():
            device, _, limits = line.partition(" ")
            for name, value in re.findall(r"(\w+)=(\d+)", limits) if device in devices else ():
                lowest[name] = min(lowest.get(name, int(value)), int(value))
    return lowest


@lru_cache(maxsize=4)  # they are read before and after each command
def _groups(membership: str, root: Path) -> list[Path]:
    """The control groups of a process and all groups above them that have a cpu.stat."""
    groups = []
    for controllers, path in re.findall(r"^\d+:(|[^:]*\bcpu\b[^:]*):(/.*)$", membership, re.MULTILINE):
        inner = Path("/" if ".." in Path(path).parts else path)  # `..`: outside of this container's view
        for mount in _VERSION_1 if controllers else _VERSION_2:
            candidates = [root / mount / str(group).lstrip("/") for group in (inner, *inner.parents)]
            groups += [group for group in candidates if (group / "cpu.stat").exists()]
    return groups


def throttled(before: Mapping[Path, Throttled], after: Mapping[Path, Throttled]) -> Throttled | None:
    """Counts of the control group that was stopped longest between two readings; None if none could be read. Pure."""
    since = (
        Throttled(b.periods - a.periods, b.stopped - a.stopped, round(b.stopped_s - a.stopped_s, 3))
        for a, b in ((before[group], after[group]) for group in before.keys() & after.keys())
    )
    return max(since, key=lambda counts: counts.stopped_s, default=None)
