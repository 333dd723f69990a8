"""Which file a thread of this process waits for in the kernel.

A thread that waits for a FUSE server counts as one that sleeps (state S), as one that waits for a pipe or a lock does.
So the system call tells: only those are known here that wait for nothing but a file system.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

#: Numbers of system calls by their arguments: a file descriptor; a path; a directory's descriptor and a path.
#: read, write, close, fstat, pread64, pwrite64, readv, writev, fsync, fdatasync, ftruncate, fchmod, fstatfs,
#: getdents64;
#: open, stat, lstat, access, chdir, rename, mkdir, rmdir, unlink, readlink, chmod, statfs;
#: openat, mkdirat, newfstatat, unlinkat, renameat, readlinkat, fchmodat, faccessat, renameat2, statx, faccessat2.
_CALLS: Mapping[str, tuple[frozenset[int], frozenset[int], frozenset[int]]] = {
    "x86_64": (
        frozenset({0, 1, 3, 5, 17, 18, 19, 20, 74, 75, 77, 91, 138, 217}),
        frozenset({2, 4, 6, 21, 80, 82, 83, 84, 87, 89, 90, 137}),
        frozenset({257, 258, 262, 263, 264, 267, 268, 269, 316, 332, 439}),
    ),
    "aarch64": (
        frozenset({63, 64, 57, 80, 67, 68, 65, 66, 82, 83, 46, 52, 44, 61}),
        frozenset({49, 43}),
        frozenset({56, 34, 79, 35, 38, 78, 53, 48, 276, 291, 439}),
    ),
}
_AT_CWD = (1 << 32) - 100
_LONGEST = 4096
Call = tuple[str, str]


def call(thread: int) -> Call | None:
    """What a thread waits for in a system call on files; equal as long as it has not woken up. None: it does not."""
    task = Path(f"/proc/self/task/{thread}")
    try:
        line = (task / "syscall").read_text()
        status = (task / "status").read_text()
    except OSError:
        return None
    # In state D it waits for a file system, whatever the call: a copy, or a page of a mapped file.
    if file(line) is None and "\nState:\tD" not in status:
        return None
    switches = next((one for one in status.splitlines() if one.startswith("voluntary_ctxt_switches")), "")
    return line, switches


def file(line: str) -> Path | None:
    """The file of a system call on files, given as a line of /proc/PID/syscall; `.` if it cannot be seen."""
    number, *arguments = line.split()
    if not number.isdigit() or len(arguments) < 2:
        return None
    by_handle, by_path, by_both = _CALLS.get(platform.machine(), (frozenset(), frozenset(), frozenset()))
    first, second = (int(one, 16) for one in arguments[:2])
    if int(number) in by_handle:
        return _opened(first)
    if int(number) in by_path:
        return _text(first)
    if int(number) in by_both:
        folder = Path() if first & 0xFFFFFFFF == _AT_CWD else _opened(first) or Path()
        return folder / _text(second)
    return None


def _opened(handle: int) -> Path | None:
    """The file behind a file descriptor; None for pipes, sockets and devices."""
    try:
        found = Path(f"/proc/self/fd/{handle & 0xFFFFFFFF}").readlink()
    except OSError:
        return None
    return found if found.is_absolute() and not found.is_relative_to("/dev") else None


def _text(address: int) -> Path:
    """The path at an address of this process. Read as a file, because it may be gone by now."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - no buffer: the next page may not exist
            memory.seek(address)
            data = memory.read(min(_LONGEST, 4096 - address % 4096))
    except (OSError, OverflowError, ValueError):
        return Path()
    return Path(os.fsdecode(data.partition(b"\0")[0]))
