"""Running one command: a time limit, no orphan, and what else the node did meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class Completed:
    """What a command did. `exit_code` is negative for a signal, as in subprocess.

    load: shares of the CPU time of all CPUs, {"other": used by processes that are not ours, "steal": withheld by the
    hypervisor}, or None where /proc/stat is not there or the run was too short to tell.
    """

    argv: tuple[str, ...]
    exit_code: int
    timed_out: bool
    wall_s: float
    stdout: bytes
    stderr: bytes
    load: Mapping[str, float] | None
    left_behind: int  # processes of it that could not be killed


def adopt_orphans() -> None:
    """Make orphaned grandchildren ours (PR_SET_CHILD_SUBREAPER), so that `run` can find and end them.

    fio's workers call setsid: they leave the process group, and outlive a parent that is killed.
    """
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def run(
    argv: Sequence[str],
    timeout_s: float,
    spare: Sequence[int] = (),
    started: Callable[[int], None] | None = None,
    directory: Path | None = None,
) -> Completed:
    """Run a command to its end, at most `timeout_s` seconds; then it and all its descendants are killed.

    It is started in `directory`, ours if there is none given. `spare` are children of ours that have nothing to do with
    it; `started` is told its process id. Raises OSError if it cannot be started. Whatever is raised meanwhile (a signal
    of ours), no process of the command stays.
    """
    before, ours, began = _cpu_ticks(), _cpu_seconds(), time.monotonic()
    process = None
    timed_out = False
    left_behind = 0
    # Files in memory and not pipes: a descendant that survives its parent would hold a pipe open.
    with _memory("stdout") as stdout, _memory("stderr") as stderr:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                cwd=directory,
            )
            if started:
                started(process.pid)
            timed_out = not _wait(process, timeout_s)
            if timed_out:
                left_behind = _end(process, spare)
            wall_s = time.monotonic() - began
            left_behind += _end_descendants(spare)
        except BaseException:
            if process:
                _end(process, spare)
            else:  # a signal of ours may have come when it was started, but not known yet
                _end_descendants(spare)
            raise
        return Completed(
            tuple(argv),
            process.returncode if process.returncode is not None else -signal.SIGKILL,
            timed_out,
            wall_s,
            _content(stdout),
            _content(stderr),
            _load(before, _cpu_ticks(), _cpu_seconds() - ours),
            left_behind,
        )


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Whether it ended in time. On a pidfd, because Popen.wait with a timeout looks every 50 ms only."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # Linux before 5.3
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
        return process.returncode is not None
    try:
        ready, _, _ = select.select([handle], [], [], timeout_s)
    finally:
        os.close(handle)
    if ready:
        process.wait()
    return bool(ready)


def _memory(name: str) -> BinaryIO:
    """A file in memory that is appended to: a script's `> /dev/stdout` must not write over what others wrote."""
    handle = os.memfd_create(name)
    fcntl.fcntl(handle, fcntl.F_SETFL, os.O_APPEND)
    return open(handle, "w+b")


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


#: So long may a command tidy up after SIGTERM (mpiexec removes files from /tmp) before it is killed.
_TIDY_S = 1.0


def _end(process: subprocess.Popen[bytes], spare: Sequence[int]) -> int:
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_TIDY_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    return _end_descendants(spare)


def _end_descendants(spare: Sequence[int], patience_s: float = 5.0) -> int:
    """Kill what the command left as our children; returns how many would not die."""
    end = time.monotonic() + patience_s
    while remaining := [pid for pid in _children() if pid not in spare]:
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > end:
            return len(remaining)
        time.sleep(0.001)
    return 0


def kill_tree(pid: int) -> None:
    """Kill a process and all its descendants, also those that have left its session."""
    found: set[int] = set()
    new = {pid}
    while new:
        _signal_all(new, signal.SIGSTOP)  # or they might start others meanwhile
        found |= new
        new = {child for parent in found for child in _children(parent)} - found
    _signal_all(found, signal.SIGKILL)


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _children(pid: int | None = None) -> list[int]:
    """Children of a process, or ours."""
    parent = os.getpid() if pid is None else pid
    try:
        tasks = [task / "children" for task in Path(f"/proc/{parent}/task").iterdir()]
        return [int(child) for children in tasks for child in children.read_text().split()]
    except OSError:  # it is gone, or a kernel without CONFIG_PROC_CHILDREN
        import psutil

        try:
            return [child.pid for child in psutil.Process(parent).children()]
        except psutil.NoSuchProcess:
            return []


def _cpu_seconds() -> float:
    """CPU time of this process and of all its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usages)


def _cpu_ticks() -> list[int] | None:
    try:
        with Path("/proc/stat").open(encoding="ascii") as file:
            return [int(value) for value in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None


def _load(before: list[int] | None, after: list[int] | None, ours_s: float) -> dict[str, float] | None:
    """user, nice and system time that is not ours, and steal, as shares of all CPU time. Interrupts are nobody's."""
    if before is None or after is None:
        return None
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = (b - a for a, b in zip(before, after, strict=True))
    total = sum(after) - sum(before)
    if total < 20:  # ticks of 10 ms: shorter runs tell nothing
        return None
    other = (user + nice + system) - ours_s * os.sysconf("SC_CLK_TCK")
    return {"other": round(max(0.0, other / total), 3), "steal": round(max(0, steal) / total, 3)}
