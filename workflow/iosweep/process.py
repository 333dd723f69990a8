"""Running one command: a time limit, no orphan, and what else the node did meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


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


def run(argv: Sequence[str], timeout_s: float, spare: Sequence[int] = ()) -> Completed:
    """Run a command to its end, at most `timeout_s` seconds; then it and all its descendants are killed.

    `spare` are children of ours that have nothing to do with it. Raises OSError if it cannot be started. Whatever is
    raised meanwhile (a signal of ours), no process of the command stays.
    """
    before, ours, started = _cpu_ticks(), _cpu_seconds(), time.monotonic()
    process = None
    timed_out = False
    left_behind = 0
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            left_behind = _end(process, spare)
            stdout, stderr = _rest(process)
        wall_s = time.monotonic() - started
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
        stdout,
        stderr,
        _load(before, _cpu_ticks(), _cpu_seconds() - ours),
        left_behind,
    )


def _rest(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    try:
        return process.communicate(timeout=5)
    except subprocess.TimeoutExpired as late:  # a process in the file system holds the pipe
        return late.stdout or b"", late.stderr or b""


def _end(process: subprocess.Popen[bytes], spare: Sequence[int]) -> int:
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


def _children() -> list[int]:
    try:
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        import psutil

        return [child.pid for child in psutil.Process().children()]


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
