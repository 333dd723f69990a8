"""Subprocesses: running a command with a timeout, a limit on output and no orphans; stopping this process cleanly.

The agent calls `run` for the runner (agent.py). The agent is the parent of the tools and adopts their orphans
(`adopt_orphans`), so every process that a command starts stays a descendant of the agent and can be ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from msgspec import structs

from iosweep.node import load, procfs
from iosweep.node.counters import Moved
from iosweep.node.environment import TOKEN, without_token
from iosweep.node.load import Load
from iosweep.node.monitor import Watched
from iosweep.node.ranks import Looks

#: The limit on open files is not raised further: some programs close every descriptor up to the limit.
_MOST_FILES = 1 << 20
#: Bytes of a block in getrusage.
_BLOCK = 512
#: Whether the kernel counts blocks; without CONFIG_TASK_IO_ACCOUNTING getrusage says 0.
_COUNTS_BLOCKS = Path("/proc/self/io").exists()
#: Time between SIGTERM and SIGKILL, to tidy up (mpiexec removes files from /tmp).
_TIDY_S = 1.0
#: Limit on the output of a command, and on a file that it leaves to be read. More is a fault, and would fill memory.
MOST_PRINTED_BYTES = 64 << 20


@dataclass(frozen=True)
class Completed:
    """A command that has ended."""

    argv: tuple[str, ...]
    exit_code: int  # negative for a signal, as in subprocess
    timed_out: bool
    flooded: bool  # it was ended because it printed more than MOST_PRINTED_BYTES
    wall_s: float
    silent_s: float = 0.0  # time before its first output
    left_behind: tuple[str, ...] = ()  # processes that could not be killed, as `fio (pid 7)`
    ran_on: Mapping[str, int] | None = None  # node of a Slurm job -> ranks that were seen there at once
    stdout: bytes = b""
    stderr: bytes = b""
    argvs: tuple[tuple[str, ...], ...] = ()  # commands of all nodes, if several
    # I/O of the command and of all processes that it started here and waited for (getrusage)
    storage_read_bytes: int | None = None
    storage_written_bytes: int | None = None
    watched: Mapping[str, Watched] = field(default_factory=dict)  # host -> its activity meanwhile

    def watched_on(self, host: str, watched: Watched) -> Completed:
        """With the activity of the node that ran the command, to which the command's I/O is added."""
        tool = {"tool_read_bytes": self.storage_read_bytes, "tool_written_bytes": self.storage_written_bytes}
        with_tool = structs.replace(watched, moved=structs.replace(watched.moved, **tool))
        return replace(self, watched={host: with_tool})

    @property
    def load(self) -> Load | None:
        return load.combine({host: node.load for host, node in self.watched.items()})

    @property
    def cpus(self) -> dict[str, Looks]:
        return {host: node.cpus for host, node in self.watched.items() if node.cpus}

    @property
    def moved(self) -> dict[str, Moved]:
        return {host: node.moved for host, node in self.watched.items()}

    @property
    def series(self) -> dict[str, bytes]:
        """Streams of the nodes' samples (`monitor`) and of the ranks' bytes (`progress`), without empty ones."""
        monitor = b"".join(node.monitor for node in self.watched.values())
        progress = b"".join(node.progress for node in self.watched.values())
        return {name: stream for name, stream in (("monitor", monitor), ("progress", progress)) if stream}


class Abandoned(Exception):
    """The process that asked for a command has ended, so the command was ended as well."""


def adopt_orphans() -> None:
    """Make orphaned grandchildren ours (PR_SET_CHILD_SUBREAPER), so that `run` can find and end them.

    fio's workers call setsid: they leave the process group, and outlive a parent that is killed.
    """
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    # we may inherit an ignored SIGCHLD, which hides exit codes, and blocked signals
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def allow_files() -> None:
    """Raise the limit on open files, which tools inherit: the usual limit (1024) is for programs that use select."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _MOST_FILES)), hard))


def run(
    argv: Sequence[str],
    timeout_s: float,
    directory: str | None,
    stdout: int,
    stderr: int,
    asker: int,
    cpus: Collection[int] | None = None,
    token: bool = False,
) -> Completed:
    """Run a command, which is killed after `timeout_s` seconds; at the end all its descendants are killed.

    It starts in `directory` (default: the current directory) on `cpus`, which its children inherit, and prints to the
    descriptors `stdout` and `stderr`. Raises OSError if it cannot be started, and Abandoned once the descriptor `asker`
    is readable: the process at its other end is gone. Even then no process of the command stays. `token`: the command
    needs TOKEN, because it starts ranks by srun.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    mask = os.sched_getaffinity(0)
    try:
        try:
            if cpus is not None:
                os.sched_setaffinity(0, cpus)  # of this thread only, whose mask a new process inherits
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                cwd=directory,
                env=without_token() if TOKEN in os.environ and not token else None,
            )
        finally:
            os.sched_setaffinity(0, mask)
        why, silent_s = _wait(process, timeout_s, (stdout, stderr), asker)
        wall_s = time.monotonic() - began
        if why:
            with contextlib.suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(_TIDY_S)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # for its exit code
                process.wait(_TIDY_S)
        survivors = tuple(procfs.named(str(pid)) for pid in sorted(end_descendants()))
    except BaseException:
        end_descendants()
        raise
    if why == "abandoned":
        raise Abandoned
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # includes the processes that end_descendants waited for
    return Completed(
        tuple(argv),
        process.returncode if process.returncode is not None else -signal.SIGKILL,
        why == "timed out",
        why == "flooded",
        wall_s,
        silent_s,
        survivors,
        storage_read_bytes=_BLOCK * (after.ru_inblock - before.ru_inblock) if _COUNTS_BLOCKS else None,
        storage_written_bytes=_BLOCK * (after.ru_oublock - before.ru_oublock) if _COUNTS_BLOCKS else None,
    )


def keep_to(cpus: Collection[int]) -> None:
    """Bind this process, and so all that it starts from now on, to some CPUs. Raises OSError."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cpus)


#: Interval between looks at the size of the output, as a share of the time since the start; its minimum and maximum.
_SHARE, _SOON_S, _SELDOM_S = 1 / 40, 0.01, 0.1


def _wait(process: subprocess.Popen[bytes], timeout_s: float, printed: Sequence[int], asker: int) -> tuple[str, float]:
    """Wait for a process; returns the reason to wait no longer (empty: it has ended), and the time before the first of
    `printed` got output. By a pidfd, because Popen.wait polls every 50 ms."""
    began, silent_s = time.monotonic(), 0.0
    handle = _pidfd(process.pid)
    try:
        while True:
            passed_s = time.monotonic() - began
            sizes = [os.fstat(output).st_size for output in printed]
            if not sizes[0]:
                silent_s = passed_s
            if passed_s >= timeout_s:
                return "timed out", silent_s
            if max(sizes) > MOST_PRINTED_BYTES:
                return "flooded", silent_s
            pause_s = min(max(_SOON_S, passed_s * _SHARE), _SELDOM_S if handle is not None else 2 * _SOON_S)
            watched = [asker] if handle is None else [handle, asker]
            ready, _, _ = select.select(watched, [], [], min(timeout_s - passed_s, pause_s))
            if handle in ready or (handle is None and process.poll() is not None):
                process.wait()
                return "", silent_s
            if asker in ready:
                return "abandoned", silent_s
    finally:
        if handle is not None:
            os.close(handle)


def _pidfd(pid: int) -> int | None:
    """A descriptor that is readable once a process has ended; None before Linux 5.3. Raises ProcessLookupError."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None


@contextlib.contextmanager
def memory(name: str) -> Iterator[BinaryIO]:
    """A file in memory, in append mode: `> /dev/stdout` in a script must not overwrite the output of others.

    Not a pipe, which a descendant that survives its parent would hold open; nor a file on a disk, which may be full.
    """
    handle = os.memfd_create(name)
    fcntl.fcntl(handle, fcntl.F_SETFL, os.O_APPEND)
    with open(handle, "w+b") as file:
        yield file


def end_descendants(spare: Collection[int] = (), tidy: bool = False, patience_s: float = 5.0) -> set[int]:
    """Kill all descendants of this process except children to `spare`; returns the ids of those that would not die.

    `tidy`: SIGTERM comes first. Orphans become our children, so no descendant escapes, neither a daemon nor a process
    in another session.
    """
    end = time.monotonic() + _TIDY_S
    if tidy:
        _signal_all(_below(spare), signal.SIGTERM)
        while _below(spare) and time.monotonic() < end:
            time.sleep(0.01)
    end = time.monotonic() + patience_s
    while below := _below(spare):
        _signal_all(below, signal.SIGKILL)
        if time.monotonic() > end:
            return below
        time.sleep(0.001)
    return set()


def children() -> set[int]:
    """Our children, including zombies."""
    return set(map(int, procfs.children(str(os.getpid()))))


def _below(spare: Collection[int]) -> set[int]:
    """All living descendants of this process."""
    ended = True
    while ended:  # children of a process that has ended become ours
        ours, ended = children() - set(spare), False
        for child in ours:
            try:
                ended |= os.waitpid(child, os.WNOHANG)[0] == child
            except ChildProcessError:
                ended = True
    return ours | {int(pid) for child in ours for pid in procfs.below(str(child))}


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # a process of another user, by sudo
            os.kill(pid, number)


#: Sent by Ctrl-C; a scheduler that ends a job; a terminal that closes; a scheduler that warns, or a person.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Stopped(BaseException):
    """This process was asked to stop; the message says by what. A BaseException, so that no handler of errors on the
    way catches it."""


@contextlib.contextmanager
def stoppable(works_for: Sequence[int] = ()) -> Iterator[None]:
    """Turn the first signal of STOPPING into Stopped, and ignore all later ones, so that this process ends cleanly.

    `works_for`: processes that need the result; this process also stops when one of them ends.
    """
    why = [""]

    def stop(number: int, frame: FrameType | None) -> None:
        for each in STOPPING:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(why[0] or signal.Signals(number).name)

    def gone(pid: int) -> None:
        why[0] = f"the end of process {pid}, which had started it"
        signal.pthread_kill(main, signal.SIGUSR1)  # not os.kill: it has to interrupt the main thread

    # signals that are ignored stay ignored (nohup), except SIGUSR1, which we send
    before = {
        each: signal.signal(each, stop)
        for each in STOPPING
        if signal.getsignal(each) != signal.SIG_IGN or each == signal.SIGUSR1
    }
    main = threading.get_ident()
    ours, theirs = os.pipe()
    watch = threading.Thread(target=_watch, args=(works_for, ours, gone), daemon=True)
    watch.start()
    try:
        yield
    finally:
        os.close(theirs)
        watch.join()
        os.close(ours)
        for each, handler in before.items():
            signal.signal(each, handler)


def _watch(pids: Sequence[int], until: int, gone: Callable[[int], None]) -> None:
    """Call `gone` with the id of the first process that ends; return when the other end of `until` is closed."""
    handles: dict[int, int] = {}
    try:
        for pid in pids:
            try:
                handle = _pidfd(pid)
            except ProcessLookupError:  # it has ended already
                return gone(pid)
            if handle is not None:  # else only signals stop us
                handles[handle] = pid
        ready, _, _ = select.select([until, *handles], [], [])
        if until not in ready:
            gone(handles[ready[0]])
    finally:
        for handle in handles:
            os.close(handle)
