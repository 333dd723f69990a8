"""The CPU time of this node while a command runs: of the file system's client, and of all that is not ours.

One definition for every node, on one machine and in a Slurm job: the busy time of all CPUs that are not reserved, as
/proc/stat has it, less the time of our own processes (the tool, its launcher, the runner, the agents), of the kernel's
threads, which work for everybody, and of the target's client. What is left belongs to others. Adding up the processes
of others would miss what ends between two looks, and all that /proc hides (hidepid, PID namespaces).

CPUs that ranks or workers are bound to are judged by themselves as well, each by what it was busy with while these
lived: of 128 CPUs another process uses 0.8 %, and halves the worker whose CPU that is.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from iosweep.files.documents import Count, Number, Part, Seconds
from iosweep.node import fs_types, procfs
from iosweep.node.cpus import NO_CPUS, CpuSet, listed, parsed
from iosweep.node.facts import NodeFacts


class Other(Part, frozen=True):
    """Processes of others: their name, the user of that which used most, and their share of the same CPU time."""

    name: str
    user: str
    share: Number


class Throttled(Part, frozen=True):
    """What the CPU quota of a control group did: periods in which something ran, those in which it stopped that, and
    for how long on all CPUs together."""

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
    """Shares of the CPU time of all CPUs that are not reserved, the largest of any node.

    other: neither the tool, iosweep, the kernel's threads nor the target's client; client: None where its processes
    were not found; steal: withheld by the hypervisor; user_only: the kernel's threads could not be seen, and others
    count in user mode only; unknown: what may then be the kernel's threads or others in kernel mode; window_s: the time
    that was covered; host: where others used most; top: those of others that used most there; bound: the CPUs with a
    rank or worker of which others used most, None where that is not known; throttled: by the CPU
    quota that stopped longest on any node, None where control groups could not be read; unread: hosts without a load.
    """

    other: Number
    steal: Number
    client: Number | None = 0.0
    user_only: bool = False
    unknown: Number = 0.0
    window_s: Seconds = 0.0
    host: str = ""
    top: tuple[Other, ...] = ()
    bound: Bound | None = None
    throttled: Throttled | None = None
    unread: tuple[str, ...] = ()


class MachineCounters(Part, frozen=True):
    """Identifies a machine: when it was booted (in seconds since the epoch), and counts since then."""

    booted_s: int
    switches: int
    forks: int


class NodeLoad(Part, frozen=True, kw_only=True):
    """One node's shares of the CPU time of its CPUs that are not reserved, of which `Load` keeps the largest.

    busy: less the kernel's threads, where they can be seen; in user mode only where they cannot, and `system` in kernel
    mode. ours: of the tool, the runner and the agents; ours_system: in kernel mode, with the client's, beside `system`.
    machine: its counters at the first and the last look. top, bound, throttled: as for `Load`.
    """

    busy: float
    ours: float
    client: float | None
    steal: float
    user_only: bool
    window_s: float
    machine: tuple[MachineCounters, MachineCounters]
    system: float = 0.0
    ours_system: float = 0.0
    top: tuple[Other, ...] = ()
    bound: Bound | None = None
    throttled: Throttled | None = None


#: The flag of the kernel's threads (PF_KTHREAD in `flags` of /proc/<pid>/stat).
_KERNEL = 0x200000
#: Starts the ranks of a job as root, and waits for them.
_STEP = b"slurmstepd"


@dataclass(frozen=True)
class Job:
    """Which processes of a Slurm job are ours on this node, with all that is below them: the runner, if it is here, and
    what steps have started since we began to look. The job's others, such as what its batch script runs beside us, use
    the node as anybody else's would.

    began: in the kernel's ticks since the node was started.
    """

    runner: str
    began: int

    @classmethod
    def from_now(cls, runner: int | None) -> Job:
        return cls(str(runner), int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")))

    def is_new(self, key: Key) -> bool:
        """Whether a process was started since."""
        return int(key[1]) >= self.began

    def owns(self, key: Key) -> bool:
        return key[0] == self.runner or (self.is_new(key) and procfs.is_of_step(key[0]))


#: Shorter windows are too few ticks of 10 ms; those of one CPU are more easily too few.
_LEAST_S, _LEAST_TICKS = 0.2, 50
#: Processes of others that are named, and the share that one must have used to be named.
_NAMED, _NAMED_SHARE = 2, 0.01


@dataclass(frozen=True)
class Around:
    """What is known of the node beforehand. `mount`: where the target is mounted; `reserved`: CPUs that the file system
    keeps for itself; `bound`: the CPU list of each rank or worker, none where they may use all CPUs."""

    fstype: str = ""
    mount: str = ""
    reserved: str = ""
    bound: tuple[str, ...] = ()

    @classmethod
    def of_node(cls, facts: NodeFacts | None, bound: tuple[str, ...] = ()) -> Around:
        if facts is None:
            return cls(bound=bound)
        fstype = facts.fstype or ""
        match = re.fullmatch(rf".* on (.*) type {re.escape(fstype)} \(.*", facts.mount or "", re.DOTALL)
        return cls(fstype, match[1] if match else "", facts.reserved_cpus or "", bound)


class Ticks(NamedTuple):
    """CPU time: in user mode, and in the kernel."""

    user: int = 0
    system: int = 0

    def plus(self, other: Ticks, sign: int = 1) -> Ticks:
        return Ticks(self.user + sign * other.user, self.system + sign * other.system)


class Cpu(NamedTuple):
    """Of one CPU: busy, and all its time."""

    busy: Ticks
    total: int


class Cpus(NamedTuple):
    """Of the CPUs that are not reserved: busy, all their time, and what the hypervisor withheld; and of each."""

    busy: Ticks
    total: int
    steal: int
    machine: MachineCounters = MachineCounters(0, 0, 0)
    each: Mapping[int, Cpu] = {}


Key = tuple[str, bytes]  # process id, and start: ids are used again


class OnCpu(NamedTuple):
    """A thread, or a process as a whole: what it used, and the CPU that it was on last."""

    cpu: int
    ticks: Ticks
    name: str = ""


@dataclass
class Look:
    """What one reading of /proc showed. `ours`: with the time of children that ended and were waited for.

    on_ours, on_known: threads of ours, and of the kernel and the client, where ranks or workers are bound; on_others:
    processes of others.
    """

    at_s: float
    cpus: Cpus
    kernel: dict[Key, Ticks] = field(default_factory=dict)
    client: dict[Key, Ticks] = field(default_factory=dict)
    ours: dict[Key, Ticks] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)  # of ours
    rest: dict[Key, Ticks] = field(default_factory=dict)  # as `ours`: some of these may turn out to be ours
    on_ours: dict[Key, OnCpu] = field(default_factory=dict)
    on_known: dict[Key, OnCpu] = field(default_factory=dict)
    on_others: dict[Key, OnCpu] = field(default_factory=dict)


def _whole(a: Look, b: Look) -> bool:
    """Whether the time of all of ours is known from a look to the next: what ended was waited for by one of ours."""
    there = {pid for pid, _ in b.ours}
    for key in a.ours.keys() - b.ours.keys():
        parent, known = a.parents.get(key[0], ""), 0
        while parent and parent not in there and known < len(a.parents):
            parent, known = a.parents.get(parent, ""), known + 1
        if parent not in there:
            return False
    return True


def _used(before: Mapping[Key, Ticks], after: Mapping[Key, Ticks], ended: Collection[Key] = ()) -> Ticks:
    """What processes that are still there have used since. `ended`: their time is part of that of a parent now."""
    had = total_of(ticks for key, ticks in before.items() if key in after or key in ended)
    return total_of(after.values()).plus(had, -1)


def total_of(ticks: Iterable[Ticks]) -> Ticks:
    """Their sum."""
    return Ticks(*map(sum, zip(Ticks(), *ticks, strict=True)))


def _nobody(_: str) -> str:
    return ""


def shares(
    looks: list[Look],
    client_is_process: bool,
    bound: Collection[CpuSet] = (),
    user: Callable[[str], str | None] = _nobody,
) -> NodeLoad | None:
    """A node's shares by all looks at a command, in order; None where they tell nothing. Pure.

    Where the kernel's threads cannot be seen (`user_only`), all are shares of time in user mode, in which these spend
    none. `bound`: the CPUs of ranks or workers; `user`: process id -> its user.
    """
    busy, ours, kernel, client = (Ticks() for _ in range(4))
    total = steal = 0
    window_s = 0.0
    # Between other looks it is not known what ours used, and that must not count as others'.
    known_pairs = [(a, b) for a, b in pairwise(looks) if _whole(a, b)]
    for a, b in known_pairs:
        window_s += b.at_s - a.at_s
        busy = busy.plus(b.cpus.busy).plus(a.cpus.busy, -1)
        total, steal = total + b.cpus.total - a.cpus.total, steal + b.cpus.steal - a.cpus.steal
        ours = ours.plus(_used({**a.rest, **a.ours}, b.ours, a.ours))
        kernel, client = kernel.plus(_used(a.kernel, b.kernel)), client.plus(_used(a.client, b.client))
    if window_s < _LEAST_S or total <= 0:
        return None
    user_only = not any(look.kernel for look in looks)
    found = any(look.client for look in looks)

    def share(ticks: Ticks) -> float:
        return round(_counted(ticks, user_only) / total, 4)

    known = ours.plus(client)
    return NodeLoad(
        busy=share(busy.plus(kernel, -1)),
        ours=share(ours),
        client=share(client) if found or not client_is_process else None,
        steal=round(max(0, steal) / total, 4),
        user_only=user_only,
        window_s=round(window_s, 2),
        machine=(looks[0].cpus.machine, looks[-1].cpus.machine),
        system=round(busy.system / total, 4) if user_only else 0.0,
        ours_system=round(known.system / total, 4) if user_only else 0.0,
        top=_top(known_pairs, total, user, user_only),
        bound=_bound(looks, bound, user_only, user),
    )


def _gained(before: Mapping[Key, OnCpu], after: Mapping[Key, OnCpu]) -> Iterable[tuple[Key, OnCpu]]:
    """What each thread or process that is still there used since."""
    for key, one in after.items():
        had = before[key].ticks if key in before else Ticks()
        if one.ticks != had:
            yield key, one._replace(ticks=one.ticks.plus(had, -1))


def _top(
    pairs: Iterable[tuple[Look, Look]],
    total: int,
    user: Callable[[str], str | None],
    user_only: bool,
    cpus: CpuSet | None = None,
) -> tuple[Other, ...]:
    """The processes of others that used most of `total` ticks between pairs of looks, on some CPUs or on all; those of
    one name together."""
    used: dict[str, Counter[str]] = {}  # by name, of each process
    for a, b in pairs:
        for (pid, _), one in _gained(a.on_others, b.on_others):
            if cpus is None or one.cpu in cpus:
                used.setdefault(one.name, Counter())[pid] += _counted(one.ticks, user_only)
    most = sorted(((each.total() / total, name, each) for name, each in used.items()), key=lambda one: -one[0])
    return tuple(
        Other(name, user(each.most_common(1)[0][0]) or "", round(share, 3))
        for share, name, each in most[:_NAMED]
        if share >= _NAMED_SHARE
    )


def _bound(
    looks: list[Look], bound: Collection[CpuSet], user_only: bool, user: Callable[[str], str | None]
) -> Bound | None:
    """Of the CPUs of a rank or worker those of which others used most; None where none was seen long enough.

    From one look to the next a CPU counts while all of ours that were on it live: the time of those that ended is with
    their parents, which were elsewhere.
    """
    of_cpu = {cpu: own for own in bound for cpu in own}
    others: Counter[CpuSet] = Counter()
    totals: Counter[CpuSet] = Counter()
    for a, b in pairwise(looks):
        left = {of_cpu.get(one.cpu) for key, one in a.on_ours.items() if key not in b.on_ours}
        for own in bound:
            if own in left:
                continue
            for cpu in own & a.cpus.each.keys() & b.cpus.each.keys():
                (busy, until), (before, since) = b.cpus.each[cpu], a.cpus.each[cpu]
                others[own] += _counted(busy.plus(before, -1), user_only)
                totals[own] += until - since
        for kind in ("on_ours", "on_known"):
            for _, one in _gained(getattr(a, kind), getattr(b, kind)):
                if (where := of_cpu.get(one.cpu)) and where not in left:
                    others[where] -= _counted(one.ticks, user_only)
    shares_of = {own: others[own] / total for own, total in totals.items() if total >= _LEAST_TICKS * len(own)}
    if not shares_of:
        return None
    worst = max(shares_of, key=shares_of.__getitem__)
    share = round(min(1.0, max(0.0, shares_of[worst])), 3)
    return Bound(listed(worst), share, top=_top(pairwise(looks), totals[worst], user, user_only, worst))


def _counted(ticks: Ticks, user_only: bool) -> int:
    return ticks.user if user_only else sum(ticks)


def _is_same_machine(one: NodeLoad, other: NodeLoad) -> bool:
    """Whether two nodes that looked at the same time were one machine.

    Nodes that were booted together for a job share the second of their boot, and no range of both counts. The boot_id
    does not tell: test clusters give each node on a machine one of its own.
    """
    (a, b), (c, d) = one.machine, other.machine
    overlap = a.switches <= d.switches and c.switches <= b.switches and a.forks <= d.forks and c.forks <= b.forks
    return a.booted_s == c.booted_s and overlap


def of_nodes(loads: Mapping[str, NodeLoad | None]) -> Load | None:
    """The record's load: the largest of each share that any node has; None where no load is known.

    Nodes that are one machine (containers, several slurmd) share its CPUs: what any of them used is ours, and no CPU is
    a rank's own. Pure.
    """
    known = {host: load for host, load in loads.items() if load}
    if not known:
        return None
    other, unknown, bound, throttled = {}, 0.0, [], []
    for host, load in known.items():
        same = [one for one in known.values() if _is_same_machine(one, load)]
        client = max(one.client or 0.0 for one in same)
        other[host] = max(0.0, load.busy - sum(one.ours for one in same) - client)
        unknown = max(unknown, load.system - sum(one.ours_system for one in same))
        if load.bound and len(same) == 1:
            bound.append(structs.replace(load.bound, host=host))
        if load.throttled:
            throttled.append(structs.replace(load.throttled, host=host))
    clients = [load.client for load in known.values() if load.client is not None]
    longest = max(throttled, key=lambda one: one.stopped_s, default=None)
    host = max(other, key=other.__getitem__)
    return Load(
        other=round(min(1.0, max(other.values())), 3),
        steal=round(max(load.steal for load in known.values()), 3),
        client=round(max(clients), 3) if len(clients) == len(known) else None,
        user_only=any(load.user_only for load in known.values()),
        unknown=round(min(1.0, unknown), 3),
        window_s=min(load.window_s for load in known.values()),
        host=host,
        top=known[host].top,
        bound=max(bound, key=lambda one: one.other, default=None),
        throttled=longest if len(throttled) == len(known) else None,
        unread=tuple(sorted(set(loads) - set(known))),
    )


def cpus(stat: bytes, reserved: CpuSet = NO_CPUS) -> Cpus:
    """By the text of /proc/stat."""
    user = system = total = steal = 0
    each = {}
    machine = {b"btime": 0, b"ctxt": 0, b"processes": 0}
    for line in stat.splitlines():
        name, _, value = line.partition(b" ")
        if name in machine:
            machine[name] = int(value)
        if not (match := re.match(rb"cpu(\d+) (.*)", line)) or int(match[1]) in reserved:
            continue
        values = [*map(int, match[2].split()[:8]), *[0] * 8][:8]  # user nice system idle iowait irq softirq steal
        user, system = user + values[0] + values[1], system + values[2]
        total, steal = total + sum(values), steal + values[7]
        each[int(match[1])] = Cpu(Ticks(values[0] + values[1], values[2]), sum(values))
    return Cpus(Ticks(user, system), total, steal, MachineCounters(*machine.values()), each)


#: Where control groups are mounted: version 2, alone and beside version 1; the controllers of version 1.
_MOUNTS = {"": ("", "unified"), "cpu": ("cpu,cpuacct", "cpu"), "blkio": ("blkio",)}
_LIMITS = ("io.max", *(f"blkio.throttle.{way}_{unit}_device" for way in ("read", "write") for unit in ("bps", "iops")))
_ROOT = Path("/sys/fs/cgroup")


def quotas(membership: str | None = None, root: Path = _ROOT) -> dict[Path, Throttled]:
    """What each control group of this process has counted since it was made, by its cpu.stat. `membership`: the text of
    /proc/self/cgroup."""
    files = (folder / "cpu.stat" for folder in _groups("cpu", membership, root))
    return {file: _counts(text) for file in files if (text := procfs.text(file)) is not None}


def _groups(controller: str, membership: str | None, root: Path) -> Iterator[Path]:
    """Where the groups of this process are, by both versions, and those above them: schedulers and container engines
    set their limits there, and a group shows its own only."""
    if membership is None:
        membership = procfs.read("self", "cgroup").decode("utf-8", "replace")
    for controllers, path in re.findall(rf"^\d+:(|[^:]*\b{controller}\b[^:]*):(/.*)$", membership, re.MULTILINE):
        inner = Path("/" if ".." in Path(path).parts else path)  # `..`: above what this container sees
        for mount in _MOUNTS[controller if controllers else ""]:
            for group in (inner, *inner.parents):
                yield root / mount / str(group).lstrip("/")


def _counts(stat: str) -> Throttled:
    """Zeros where no quota can hold. Version 1 counts in nanoseconds, version 2 in microseconds."""
    of = {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)$", stat, re.MULTILINE)}
    stopped_s = of.get("throttled_usec", 0) / 1e6 + of.get("throttled_time", 0) / 1e9
    return Throttled(of.get("nr_periods", 0), of.get("nr_throttled", 0), stopped_s)


def throttled(before: Mapping[Path, Throttled], after: Mapping[Path, Throttled]) -> Throttled | None:
    """Of the group that was stopped longest between two readings; None where none could be read. Pure."""
    since = (
        Throttled(b.periods - a.periods, b.stopped - a.stopped, round(b.stopped_s - a.stopped_s, 3))
        for a, b in ((before[file], after[file]) for file in before.keys() & after.keys())
    )
    return max(since, key=lambda one: one.stopped_s, default=None)


def io_limits(devices: Collection[str], membership: str | None = None, root: Path = _ROOT) -> str:
    """The limits of I/O that control groups of this process set on block devices (`8:0`); empty without."""
    found = []
    for folder in _groups("blkio", membership, root) if devices else ():
        for name in _LIMITS:
            lines = (procfs.text(folder / name) or "").splitlines()
            found += [f"{name} {line}" for line in lines if line.partition(" ")[0] in devices]
    return ", ".join(dict.fromkeys(found))


#: Processes that are known not to be a job's, or the client: to ask again takes longer than all else.
_strangers: set[Key] = set()
_clients: dict[Key, str] = {}


class Reader:
    """Reads /proc. `job` as for Watch."""

    def __init__(self, around: Around, job: Job | None = None):
        self._around, self._job = around, job
        self._reserved: CpuSet = parsed(around.reserved)
        self._type = fs_types.of(around.fstype)
        self._bound = bool(around.bound)
        self.client_is_process = bool(self._type.clients) or self._type is fs_types.FUSE

    def look(self) -> Look:
        look = Look(time.monotonic(), cpus(procfs.read("", "stat"), self._reserved))
        there: dict[str, tuple[Key, list[bytes], bytes]] = {}
        for pid in procfs.pids():
            text = procfs.read(pid, "stat")
            fields = text.rpartition(b")")[2].split()
            if len(fields) < 37:  # it is gone
                continue
            key = pid, fields[19]
            if int(fields[6]) & _KERNEL:
                look.kernel[key] = _ticks(fields)
                if self._bound:
                    look.on_known[key] = _on(fields)
            else:
                there[pid] = key, fields, text.partition(b"(")[2].rpartition(b")")[0]
        ours = self._ours({pid: (key, fields[1].decode(), name) for pid, (key, fields, name) in there.items()})
        clients = self._of_client({key: name for pid, (key, _, name) in there.items() if pid not in ours})
        for pid, (key, fields, name) in there.items():
            user, system, below_user, below_system = map(int, fields[11:15])
            if pid in ours:
                whole = ours[pid]
                look.ours[key] = Ticks(user + below_user * whole, system + below_system * whole)
                look.parents[pid] = fields[1].decode()
                if self._bound:
                    look.on_ours |= _threads(key, fields)
            elif key in clients:
                look.client[key] = self._beside_reserved(pid) if self._reserved else _ticks(fields)
                if self._bound:
                    look.on_known |= _threads(key, fields)
            else:
                look.rest[key] = Ticks(user + below_user, system + below_system)
                look.on_others[key] = _on(fields, name.decode("utf-8", "replace"))
        return look

    def _ours(self, there: Mapping[str, tuple[Key, str, bytes]]) -> dict[str, bool]:
        """Ours -> whether the children that they waited for are, too."""
        me = str(os.getpid())
        roots = {me: True}
        if not self._job:
            roots[str(os.getppid())] = False  # the runner, which may have waited for anything before
        else:
            _strangers.intersection_update({key for key, _, _ in there.values()})
            for pid, (key, parent, name) in there.items():
                if key in _strangers:
                    continue
                if self._job.owns(key):
                    roots[pid] = True
                    if parent in there and there[parent][2] == _STEP and self._job.is_new(there[parent][0]):
                        roots[parent] = True
                elif name != _STEP:  # it becomes a rank when it executes its program
                    _strangers.add(key)
        parents = {pid: parent for pid, (_, parent, _) in there.items()}
        below = procfs.with_descendants((pid for pid, whole in roots.items() if whole), parents)
        roots |= dict.fromkeys(below, True)
        return {pid: whole for pid, whole in roots.items() if pid in there}

    def _of_client(self, there: Mapping[Key, bytes]) -> set[Key]:
        if self._type.clients:
            return {key for key, name in there.items() if name.decode(errors="replace").startswith(self._type.clients)}
        if self._type is not fs_types.FUSE:
            return set()
        for key in _clients.keys() - there.keys():
            del _clients[key]
        for key in there.keys() - _clients.keys():
            _clients[key] = _fuse_role(key[0], there[key], self._around)
        named = {key for key, role in _clients.items() if role == "named"}
        return named or {key for key, role in _clients.items() if role == "open"}

    def _beside_reserved(self, pid: str) -> Ticks:
        """What a process has used, without its threads on reserved CPUs: their time is not in that of all CPUs."""
        stats = (procfs.stat(f"{pid}/task/{thread}") for thread in procfs.threads(pid))
        return total_of(
            _ticks(fields) for fields in stats if len(fields) > 36 and int(fields[36]) not in self._reserved
        )


def _ticks(fields: list[bytes]) -> Ticks:
    return Ticks(int(fields[11]), int(fields[12]))


def _on(fields: list[bytes], name: str = "") -> OnCpu:
    return OnCpu(int(fields[36]), _ticks(fields), name)


def _threads(key: Key, fields: list[bytes]) -> dict[Key, OnCpu]:
    """The threads of a process, each with the CPU that it was on last."""
    if int(fields[17]) == 1:
        return {key: _on(fields)}
    found = {}
    for thread in procfs.threads(key[0]):
        own = procfs.stat(f"{key[0]}/task/{thread}")
        if len(own) > 36:
            found[thread, own[19]] = _on(own)
    return found


def _fuse_role(pid: str, name: bytes, around: Around) -> str:
    """`named`: the target's mount point is among its arguments; `open`: it serves some FUSE mount; or neither.

    Open files can be seen of our own user's processes only. Arguments are read of few, because that waits for a process
    which hangs.
    """
    kind = around.fstype.partition(".")[2].encode()
    serves = _has_open(pid, "/dev/fuse")
    if serves is False or (serves is None and kind[:15] not in name):
        return ""
    mount, command = os.fsencode(around.mount.rstrip("/")), procfs.read(pid, "cmdline")
    # MooseFS writes "mfsmount (mounted on: /mnt)" over its arguments
    if mount in (one.rstrip(b"/") for one in command.split(b"\0")[1:]) or b" on: %b)" % mount in command:
        return "named"
    return "open" if serves else ""


def _has_open(pid: str, path: str) -> bool | None:
    """Whether a process has a file open; None where that cannot be seen."""
    try:
        files = list(Path(procfs.PROC, pid, "fd").iterdir())
    except PermissionError:
        return None
    except OSError:
        return False
    for file in files:
        with contextlib.suppress(OSError):
            if str(file.readlink()) == path:
                return True
    return False
