"""Processes of this node, from /proc, and the small text files of /proc, /sys and /etc.

Most of another user's process, and all of one that has ended, cannot be read. Process ids are text: there may be
thousands, so no Path is made of them.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from pathlib import Path

from iosweep.text import printable

#: The first PID namespace of a machine; the number is fixed in the kernel (PROC_PID_INIT_INO).
FIRST_PID_NAMESPACE = "pid:[4026531836]"
#: Where the kernel's files are.
PROC = "/proc"
#: A larger value is not a count of anything, and kilobytes must be an integer for JSON when they are bytes.
_LARGEST = 2.0**52


def shows_machine(proc: Path = Path("/proc")) -> bool:
    """Whether the processes of the whole machine are there, and not only those of a container (a PID namespace).
    Raises OSError where there is no /proc."""
    return str((proc / "self/ns/pid").readlink()) == FIRST_PID_NAMESPACE


def content(path: str | Path) -> bytes:
    """A file of the kernel's; empty if it cannot be read. Half the time of open()."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = b""
        while part := os.read(file, 1 << 16):
            found += part
        return found
    except OSError:
        return b""
    finally:
        os.close(file)


# Processes


def pids() -> list[str]:
    return [name for name in os.listdir(PROC) if name.isdigit()]


def read(pid: str, name: str) -> bytes:
    """A file of a process; empty if it cannot be read."""
    return content(f"{PROC}/{pid}/{name}")


def program(pid: str) -> str | None:
    try:
        return os.readlink(f"{PROC}/{pid}/exe")
    except OSError:
        return None


def named(pid: str) -> str:
    """`fio (pid 7)`"""
    return f"{printable(read(pid, 'comm').decode('utf-8', 'replace').strip()) or 'a process'} (pid {pid})"


def stat(pid: str) -> list[bytes]:
    """The fields of `stat` from the third on, its state; none if it cannot be read."""
    return read(pid, "stat").rpartition(b")")[2].split()


def variable(pid: str, name: str) -> str:
    """The value of a variable of its environment; empty if it has none."""
    for entry in read(pid, "environ").split(b"\0"):
        if entry.startswith(f"{name}=".encode()):
            return entry.partition(b"=")[2].decode("utf-8", "replace")
    return ""


def is_of_job(pid: str) -> bool:
    """Whether it belongs to the Slurm job that we are in."""
    return variable(pid, "SLURM_JOB_ID") == os.environ.get("SLURM_JOB_ID")


def user(pid: str) -> str | None:
    """The name of the user whose process it is; None if it cannot be seen."""
    try:
        return user_name(Path(PROC, pid).stat().st_uid)
    except OSError:
        return None


def user_name(uid: int) -> str:
    """The name of a user, or the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def threads(pid: str) -> list[str]:
    """Thread ids of a process; none if it cannot be seen."""
    try:
        return os.listdir(f"{PROC}/{pid}/task")
    except OSError:
        return []


def children(pid: str) -> list[str]:
    """The children of a process that live; none if it cannot be seen."""
    return [child.decode() for thread in threads(pid) for child in read(pid, f"task/{thread}/children").split()]


def below(pid: str) -> list[str]:
    """All descendants of a process that live."""
    found: list[str] = []
    new = children(pid)
    while new:
        found += new
        new = [child for parent in new for child in children(parent)]
    return found


def with_descendants(pids: Iterable[str], parents: Mapping[str, str]) -> set[str]:
    """Processes and what they have started. `parents`: process id -> its parent's. Pure."""
    found = new = set(pids)
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found = found | new
    return found


# Small text files


def text(path: str | Path) -> str | None:
    """The content without blanks at its ends; None if it cannot be read, or there is none."""
    return content(path).decode("utf-8", "replace").strip() or None


def field(path: Path, *names: str) -> str | None:
    """The value of the first line `name: value` with one of these names. No line beyond it is read: for each CPU in
    /proc/cpuinfo the kernel asks for its frequency, which takes milliseconds."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found, _, value = line.partition(":")
                if found.strip() in names:
                    return value.strip() or None
    except OSError:
        pass
    return None


def entries(path: Path) -> list[Path]:
    """The sorted entries of a directory; none if it cannot be read."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def number(text: str | None) -> float | None:
    """The number that a text is; None for another text, NaN and infinity."""
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if abs(found) < _LARGEST else None
