"""Reading /proc: processes and mounts of this node; small text files of /proc, /sys and /etc.

Most files of another user's process, and all files of a process that has ended, cannot be read. Process ids are text:
there may be thousands, so no Path objects are made.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from iosweep.text import printable

#: The initial PID namespace of a machine; its number is fixed in the kernel (PROC_PID_INIT_INO).
FIRST_PID_NAMESPACE = "pid:[4026531836]"
PROC = "/proc"
#: No count is larger; and a number of kB below it is still an exact integer for JSON when converted to bytes.
_LARGEST = 2.0**52


def shows_machine() -> bool:
    """Whether /proc shows the processes of the whole machine, not only of a container (a PID namespace). Raises OSError
    without /proc."""
    return os.readlink(f"{PROC}/self/ns/pid") == FIRST_PID_NAMESPACE


def content(path: str | Path) -> bytes:
    """The content of a kernel file; empty if it cannot be read. Takes half the time of open()."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = b""
        while part := os.read(file, 1 << 16):
            data += part
        return data
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
    """The fields of `stat` from the third (the state) on; empty if it cannot be read."""
    return read(pid, "stat").rpartition(b")")[2].split()


def variable(pid: str, name: str) -> str:
    """The value of an environment variable of a process; empty if it is not set."""
    for entry in read(pid, "environ").split(b"\0"):
        if entry.startswith(f"{name}=".encode()):
            return entry.partition(b"=")[2].decode("utf-8", "replace")
    return ""


def is_of_job(pid: str) -> bool:
    """Whether a process belongs to the Slurm job of this process."""
    return variable(pid, "SLURM_JOB_ID") == os.environ.get("SLURM_JOB_ID")


def user(pid: str) -> str | None:
    """The name of the user of a process; None if the process cannot be seen."""
    try:
        return user_name(Path(PROC, pid).stat().st_uid)
    except OSError:
        return None


def user_name(uid: int) -> str:
    """The name of a user, or the number if there is no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def threads(pid: str) -> list[str]:
    """Thread ids of a process; empty if the process cannot be seen."""
    try:
        return os.listdir(f"{PROC}/{pid}/task")
    except OSError:
        return []


def children(pid: str) -> list[str]:
    """The living children of a process; empty if the process cannot be seen."""
    return [child.decode() for thread in threads(pid) for child in read(pid, f"task/{thread}/children").split()]


def below(pid: str) -> list[str]:
    """All living descendants of a process."""
    descendants: list[str] = []
    new = children(pid)
    while new:
        descendants += new
        new = [child for parent in new for child in children(parent)]
    return descendants


def with_descendants(pids: Iterable[str], parents: Mapping[str, str]) -> set[str]:
    """Processes and all their descendants. `parents`: process id -> id of its parent. Pure."""
    family = new = set(pids)
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - family
        family = family | new
    return family


# Mounts


class Mount(NamedTuple):
    """A line of mountinfo."""

    device: str  # `8:1`; `0:41` of a mount without a block device
    root: str  # the path on the device that is mounted at `point`
    point: str
    fstype: str
    source: str
    options: str


#: Placeholder for a mount that the table lacks.
UNLISTED = Mount("0:0", "", "", "unknown", "unknown", "")


def parse_mounts(table: bytes) -> list[Mount]:
    """Parse a mountinfo file. Split as bytes: str.splitlines also splits at characters that the kernel does
    not escape."""
    mounts = []
    for line in table.split(b"\n")[:-1]:
        before, _, after = os.fsdecode(line).partition(" - ")
        _, _, device, root, point, *_ = before.split(" ")
        fstype, source, options = after.split(" ", 2)
        mounts.append(Mount(device, _unescape(root), _unescape(point), fstype, _unescape(source), options))
    return mounts


def _unescape(text: str) -> str:
    if "\\" not in text:  # the usual case, ten times as fast as re.sub
        return text
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def read_mounts(pid: str = "self") -> list[Mount]:
    """Read the mounts that a process sees. Raises OSError."""
    return parse_mounts(Path(PROC, pid, "mountinfo").read_bytes())


def mount_at(real: str, mounts: Iterable[Mount]) -> Mount:
    """The mount that an absolute path without links is on."""
    best = UNLISTED
    for mount in mounts:  # of several mounts on one point, the last is on top
        inside = real == mount.point or real.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(best.point):
            best = mount
    return best


# Small text files


def text(path: str | Path) -> str | None:
    """The content without blanks at both ends; None if it is empty, or cannot be read."""
    return content(path).decode("utf-8", "replace").strip() or None


def field(path: Path, *names: str) -> str | None:
    """The value of the first line `name: value` with one of these names. No further line is read: for each CPU in
    /proc/cpuinfo the kernel looks up the frequency, which takes milliseconds."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() in names:
                    return value.strip() or None
    except OSError:
        pass
    return None


def entries(path: Path) -> list[Path]:
    """The sorted entries of a directory; empty if it cannot be read."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def number(text: str | None) -> float | None:
    """A text as a number; None for any other text, for NaN and infinity."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if abs(value) < _LARGEST else None


def size(text: str | None) -> int | None:
    """24684092 kB -> bytes"""
    kib = number((text or "").partition(" kB")[0])
    return None if kib is None else round(kib * 1024)
