"""The CPU time of this node while a command runs: of the file system's client, and of all that is not ours.

One definition for every node, on one machine and in a Slurm job: the busy time of all CPUs that are not reserved, as
/proc/stat has it, less the time of our own processes (the tool, its launcher, the runner, the agents), of the kernel's
threads, which work for everybody, and of the target's client. What is left belongs to others. Adding up the processes
of others would miss what ends between two looks, and all that /proc hides (hidepid, PID namespaces).
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from iosweep.node import fs_types, procfs
from iosweep.node.cpu_record import Load, MachineCounters, NodeLoad
from iosweep.node.cpus import NO_CPUS, CpuSet, parsed
from iosweep.node.node_facts import NodeFacts

#: The first look comes after this time: shorter commands are too few ticks, and need not wait for a look.
_BEGIN_S = 0.2
#: Looks are apart by this factor of the time since the start, at most by this time; and take this share of one CPU.
_APART, _LONGEST_S, _COST = 0.5, 10.0, 1 / 150
#: Shorter windows are too few ticks of 10 ms.
_LEAST_S = 0.2
#: The flag of the kernel's threads (PF_KTHREAD in `flags` of /proc/<pid>/stat).
_KERNEL = 0x200000
#: Starts the ranks of a job as root, and waits for them.
_STEP = b"slurmstepd"


@dataclass(frozen=True)
class Around:
    """What is known of the node beforehand. `mount`: where the target is mounted; `reserved`: CPUs that the file system
    keeps for itself."""

    fstype: str = ""
    mount: str = ""
    reserved: str = ""

    @classmethod
    def of_node(cls, facts: NodeFacts | None) -> Around:
        if facts is None:
            return cls()
        fstype = facts.fstype or ""
        match = re.fullmatch(rf".* on (.*) type {re.escape(fstype)} \(.*", facts.mount or "", re.DOTALL)
        return cls(fstype, match[1] if match else "", facts.reserved_cpus or "")


class Ticks(NamedTuple):
    """CPU time: in user mode, and in the kernel."""

    user: int = 0
    system: int = 0

    def plus(self, other: Ticks, sign: int = 1) -> Ticks:
        return Ticks(self.user + sign * other.user, self.system + sign * other.system)


class Cpus(NamedTuple):
    """Of the CPUs that are not reserved: busy, all their time, and what the hypervisor withheld."""

    busy: Ticks
    total: int
    steal: int
    machine: MachineCounters = MachineCounters(0, 0, 0)


Key = tuple[str, bytes]  # process id, and start: ids are used again


@dataclass
class Look:
    """What one reading of /proc showed. `ours`: with the time of children that ended and were waited for."""

    at_s: float
    cpus: Cpus
    kernel: dict[Key, Ticks] = field(default_factory=dict)
    client: dict[Key, Ticks] = field(default_factory=dict)
    ours: dict[Key, Ticks] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)  # of ours
    rest: dict[Key, Ticks] = field(default_factory=dict)  # as `ours`: some of these may turn out to be ours


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
    had = _total(ticks for key, ticks in before.items() if key in after or key in ended)
    return _total(after.values()).plus(had, -1)


def _total(ticks: Iterable[Ticks]) -> Ticks:
    return Ticks(*map(sum, zip(Ticks(), *ticks, strict=True)))


def shares(looks: list[Look], client_is_process: bool) -> NodeLoad | None:
    """A node's shares by all looks at a command, in order; None where they tell nothing. Pure.

    Where the kernel's threads cannot be seen (`user_only`), all are shares of time in user mode, in which these spend
    none.
    """
    busy, ours, kernel, client = (Ticks() for _ in range(4))
    total = steal = 0
    window_s = 0.0
    for a, b in pairwise(looks):
        if not _whole(a, b):  # what ours used is not known then, and must not count as others'
            continue
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
        return round((ticks.user if user_only else sum(ticks)) / total, 4)

    return NodeLoad(
        busy=share(busy.plus(kernel, -1)),
        ours=share(ours),
        client=share(client) if found or not client_is_process else None,
        steal=round(max(0, steal) / total, 4),
        user_only=user_only,
        window_s=round(window_s, 2),
        machine=(looks[0].cpus.machine, looks[-1].cpus.machine),
    )


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

    Nodes that are one machine (containers, several slurmd) share its CPUs: what any of them used is ours. Pure.
    """
    known = {host: load for host, load in loads.items() if load}
    if not known:
        return None
    other = {}
    for host, load in known.items():
        same = [one for one in known.values() if _is_same_machine(one, load)]
        client = max(one.client or 0.0 for one in same)
        other[host] = max(0.0, load.busy - sum(one.ours for one in same) - client)
    clients = [load.client for load in known.values() if load.client is not None]
    return Load(
        other=round(min(1.0, max(other.values())), 3),
        steal=round(max(load.steal for load in known.values()), 3),
        client=round(max(clients), 3) if len(clients) == len(known) else None,
        user_only=any(load.user_only for load in known.values()),
        window_s=min(load.window_s for load in known.values()),
        host=max(other, key=other.__getitem__),
        unread=tuple(sorted(set(loads) - set(known))),
    )


class Watch:
    """Looks on while a command runs.

    `mine`: whether a process is one of ours, as is all that is below it then; None: this process is.
    """

    def __init__(self, around: Around, mine: Callable[[str], bool] | None = None):
        self._reader, self._between = Reader(around, mine), mine is not None
        self._looks: list[Look] = []
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> NodeLoad | None:
        """Stop looking; the node's shares."""
        self._stop.set()
        self._thread.join()
        if self._looks:
            self._looks.append(self._reader.look())
        return shares(self._looks, self._reader.client_is_process)

    def _run(self) -> None:
        wait_s: float | None = _BEGIN_S
        while not self._stop.wait(wait_s):
            used_s = time.thread_time()
            self._looks.append(self._reader.look())
            if not self._between:  # all that ends is waited for by us, so that two looks tell everything
                wait_s = None
                continue
            cost_s = time.thread_time() - used_s
            wait_s = max(min(_APART * (time.monotonic() - self._began), _LONGEST_S), cost_s / _COST)


#: Processes that are known not to be a job's, or the client: to ask again takes longer than all else.
_strangers: set[Key] = set()
_clients: dict[Key, str] = {}


class Reader:
    """Reads /proc. `mine` as for Watch."""

    def __init__(self, around: Around, mine: Callable[[str], bool] | None):
        self._around, self._mine = around, mine
        self._reserved: CpuSet = parsed(around.reserved)
        self._type = fs_types.of(around.fstype)
        self.client_is_process = bool(self._type.clients) or self._type is fs_types.FUSE

    def look(self) -> Look:
        look = Look(time.monotonic(), cpus(procfs.read("", "stat"), self._reserved))
        there: dict[str, tuple[Key, list[bytes], bytes]] = {}
        for pid in procfs.pids():
            text = procfs.read(pid, "stat")
            fields = text.rpartition(b")")[2].split()
            if len(fields) < 20:  # it is gone
                continue
            key = pid, fields[19]
            if int(fields[6]) & _KERNEL:
                look.kernel[key] = Ticks(int(fields[11]), int(fields[12]))
            else:
                there[pid] = key, fields, text.partition(b"(")[2].rpartition(b")")[0]
        ours = self._ours({pid: (key, fields[1].decode(), name) for pid, (key, fields, name) in there.items()})
        clients = self._of_client({key: name for pid, (key, _, name) in there.items() if pid not in ours})
        for pid, (key, fields, _) in there.items():
            user, system, below_user, below_system = map(int, fields[11:15])
            if pid in ours:
                whole = ours[pid]
                look.ours[key] = Ticks(user + below_user * whole, system + below_system * whole)
                look.parents[pid] = fields[1].decode()
            elif key in clients:
                look.client[key] = self._beside_reserved(pid) if self._reserved else Ticks(user, system)
            else:
                look.rest[key] = Ticks(user + below_user, system + below_system)
        return look

    def _ours(self, there: Mapping[str, tuple[Key, str, bytes]]) -> dict[str, bool]:
        """Ours -> whether the children that they waited for are, too."""
        me = str(os.getpid())
        roots = {me: True}
        if self._mine is None:
            roots[str(os.getppid())] = False  # the runner, which may have waited for anything before
        else:
            _strangers.intersection_update({key for key, _, _ in there.values()})
            for pid, (key, parent, name) in there.items():
                if key in _strangers:
                    continue
                if self._mine(pid):
                    roots[pid] = True
                    if parent in there and there[parent][2] == _STEP:
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
        return _total(
            Ticks(int(fields[11]), int(fields[12]))
            for fields in stats
            if len(fields) > 36 and int(fields[36]) not in self._reserved
        )


def _fuse_role(pid: str, name: bytes, around: Around) -> str:
    """`named`: the target's mount point is among its arguments; `open`: it serves some FUSE mount; or neither.

    Open files can be seen of our own user's processes only. Arguments are read of few, because that waits for a process
    which hangs.
    """
    kind = around.fstype.partition(".")[2].encode()
    serves = _has_open(pid, "/dev/fuse")
    if serves is False or (serves is None and kind[:15] not in name):
        return ""
    arguments = procfs.read(pid, "cmdline").split(b"\0")[1:]
    if os.fsencode(around.mount.rstrip("/")) in (one.rstrip(b"/") for one in arguments):
        return "named"
    return "open" if serves else ""


def _has_open(pid: str, path: str) -> bool | None:
    """Whether a process has a file open; None where that cannot be seen."""
    try:
        files = list(Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:
        return None
    except OSError:
        return False
    for file in files:
        with contextlib.suppress(OSError):
            if str(file.readlink()) == path:
                return True
    return False


def cpus(stat: bytes, reserved: CpuSet = NO_CPUS) -> Cpus:
    """By the text of /proc/stat."""
    user = system = total = steal = 0
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
    return Cpus(Ticks(user, system), total, steal, MachineCounters(*machine.values()))
