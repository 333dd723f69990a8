"""The CPU time of this node while a command runs: of the file system's client, and of all that is not ours.

One definition for every node, on one machine and in a Slurm job: the busy time of all CPUs that are not reserved, as
/proc/stat has it, less the time of our own processes (the tool, its launcher, the runner, the agents), of the kernel's
threads, which work for everybody, and of the target's client. What is left belongs to others. Adding up the processes
of others would miss what ends between two looks, and all that /proc hides (hidepid, PID namespaces).

CPUs that ranks or workers are bound to are judged by themselves as well, each by what it was busy with while these
lived: of 128 CPUs another process uses 0.8 %, and halves the worker whose CPU that is. Pure; watching.py looks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from msgspec import structs

from iosweep.node.cpu_record import Bound, Load, MachineCounters, NodeLoad, Other
from iosweep.node.cpus import NO_CPUS, CpuSet, listed
from iosweep.node.node_facts import NodeFacts

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
