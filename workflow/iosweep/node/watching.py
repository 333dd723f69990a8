"""Looks at a node while a command runs: the masks of its ranks or workers (sampling.py), who uses its CPUs (load.py),
how often a CPU quota stopped it (cgroup.py), and what it moves and does each second (io_counters.py, monitor.py)."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import structs

from iosweep.node import cgroup, fs_types, procfs
from iosweep.node.cpu_record import Looks, NodeLoad
from iosweep.node.cpus import NO_CPUS, CpuSet, parsed
from iosweep.node.io_counters import IoCounters
from iosweep.node.io_record import Moved
from iosweep.node.load import Around, Key, Look, OnCpu, Ticks, cpus, shares, total_of
from iosweep.node.monitor import Monitor
from iosweep.node.sampling import Sampler, Wanted

#: The first look comes after this time: shorter commands are too few ticks, and need not wait for a look.
_BEGIN_S = 0.2
#: Looks are apart by this factor of the time since the start, at most by this time; and take this share of one CPU.
_APART, _LONGEST_S, _COST = 0.5, 10.0, 1 / 150
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


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What a node did while a command ran.

    moved: bytes by its counters; ranks: the most that were there at once; load: None where the command was too short;
    cpus: what Sampler.end saw; monitor, progress: streams of monitor.py and progress.py.
    """

    moved: Moved
    ranks: int = 0
    load: NodeLoad | None = None
    cpus: Looks | None = None
    monitor: bytes = b""
    progress: bytes = b""


class Watch:
    """Looks on while a command runs.

    This process is ours, with all that is below it, and in a job what `job` says. `counters`: those of the target.
    `wanted`: the ranks or workers to look at, `among` these processes; None to watch the node only.
    """

    def __init__(
        self,
        around: Around,
        counters: IoCounters,
        job: Job | None = None,
        wanted: Wanted | None = None,
        among: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._sampler = Sampler(wanted, among) if wanted else None
        self._counters, self._before = counters, counters.read()
        self._bound = tuple(dict.fromkeys(map(parsed, around.bound)))
        # outside of a job all that ends is waited for by us, so that two looks tell everything but who was on a CPU
        self._between = job is not None or bool(self._bound)
        self._reader = Reader(around, job)
        self._monitor = Monitor(NO_CPUS.union(*self._bound), counters)
        self._quotas = cgroup.quotas()
        self._looks: list[Look] = []
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self, silent_s: float = 0.0) -> Watched:
        """Stop looking; what was seen. `silent_s`: as for Sampler.end."""
        moved = self._counters.moved(self._before, self._counters.read())
        self._stop.set()
        self._thread.join()
        if self._looks:
            self._monitor.sample()
        moved = structs.replace(moved, dirty_bytes=self._monitor.dirty_bytes(), still_s=self._monitor.still_s())
        moved = structs.replace(moved, io_limit=cgroup.io_limits(self._counters.disks()))
        watched = Watched(moved=moved)
        if self._looks:
            self._looks.append(self._reader.look())
            found = shares(self._looks, self._reader.client_is_process, self._bound, procfs.user)
            if found:
                found = structs.replace(found, throttled=cgroup.throttled(self._quotas, cgroup.quotas()))
            watched = structs.replace(watched, load=found, monitor=self._monitor.stream())
        if self._sampler:
            cpus, progress = self._sampler.end(silent_s), self._sampler.progress
            ranks = progress.stream() if progress else b""
            watched = structs.replace(watched, ranks=self._sampler.most, cpus=cpus, progress=ranks)
        return watched

    def _run(self) -> None:
        self._monitor.sample()
        sampled_s, look_s = self._began, self._began + _BEGIN_S
        while not self._stop.wait(max(0.0, min(sampled_s + self._monitor.interval_s, look_s) - time.monotonic())):
            now = time.monotonic()
            if now >= sampled_s + self._monitor.interval_s:
                self._monitor.sample()
                sampled_s += (now - sampled_s) // self._monitor.interval_s * self._monitor.interval_s
            if now >= look_s:
                used_s = time.thread_time()
                self._looks.append(self._reader.look())
                cost_s = time.thread_time() - used_s
                pause_s = max(min(_APART * (now - self._began), _LONGEST_S), cost_s / _COST)
                look_s = now + pause_s if self._between else math.inf


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
