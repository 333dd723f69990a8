"""The table of mounts, from /proc/<pid>/mountinfo; whether the rest of this machine sees the same; the counters of a
mount."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from iosweep.errors import Refused
from iosweep.node import procfs
from iosweep.node.counters import IoCounters, Mounted
from iosweep.text import printable


class Mount(NamedTuple):
    """A line of mountinfo. number, parent: of this mount and the one that it is on. root: the path on the device that
    is mounted at `point`."""

    number: int
    parent: int
    device: str
    root: str
    point: str
    fstype: str
    source: str
    options: str


_PROC = Path("/proc")
#: In place of a mount that the table does not have.
UNLISTED = Mount(0, 0, "", "", "", "unknown", "unknown", "")


def parsed(table: bytes) -> list[Mount]:
    """The lines of a mountinfo. As bytes: the kernel escapes fewer characters than Python takes for a line's end."""
    found = []
    for line in table.split(b"\n")[:-1]:
        before, _, after = os.fsdecode(line).partition(" - ")
        number, parent, device, root, point, *_ = before.split(" ")
        fstype, source, options = after.split(" ", 2)
        found.append(
            Mount(
                *(int(number), int(parent), device, _unescaped(root), _unescaped(point), fstype),
                *(_unescaped(source), options),
            )
        )
    return found


def at(real: str, mounts: Iterable[Mount]) -> Mount:
    """The mount that shows an absolute path without links."""
    best = UNLISTED
    for mount in mounts:  # the last of equal mount points is the one on top
        inside = real == mount.point or real.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(best.point):
            best = mount
    return best


def table() -> list[Mount]:
    """The mounts that this process sees."""
    return parsed((_PROC / "self/mountinfo").read_bytes())


def private(directory: str) -> bool | None:
    """Whether process 1 of this machine sees another directory there; None where that cannot be seen (containers)."""
    try:
        if not procfs.shows_machine(_PROC):
            return None
        ours, theirs = (parsed((_PROC / pid / "mountinfo").read_bytes()) for pid in ("self", "1"))
    except OSError:
        return None
    real = str(Path(directory).resolve())
    return leads_to(real, ours) != leads_to(real, theirs)


def leads_to(real: str, mounts: Iterable[Mount]) -> tuple[str, str]:
    """Device, and path on that device, of an absolute path without links."""
    mount = at(real, mounts)
    return mount.device, mount.root.rstrip("/") + real[len(mount.point.rstrip("/")) :]


def mount_of(handle: int) -> int:
    """The number of the mount that a handle is on. Two mounts of one file system have the same device number."""
    info = os.open(f"/proc/self/fdinfo/{handle}", os.O_RDONLY)
    try:
        return int(os.read(info, 4096).partition(b"mnt_id:")[2].split()[0])
    finally:
        os.close(info)


def without_password(text: str) -> str:
    """Mount sources such as curlftpfs' hold one: `ftp://user:password@host/`."""
    return re.sub(r"(://[^/@\s:]*):[^@/\s]*@", r"\1:***@", text)


class Table:
    """The mounts by their numbers; read again when the kernel reports a change."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/mountinfo", os.O_RDONLY)
        self._changed = select.poll()
        self._changed.register(self._file, select.POLLERR | select.POLLPRI)
        self.mounts: dict[int, Mount] = {}
        self.changes = 0

    def now(self) -> dict[int, Mount]:
        if not self.mounts or self._changed.poll(0):  # asked before it is read: a change meanwhile is seen next time
            self.mounts = {mount.number: mount for mount in parsed(self._read())}
            self.changes += 1
        return self.mounts

    def _read(self) -> bytes:
        os.lseek(self._file, 0, os.SEEK_SET)
        parts = []
        while part := os.read(self._file, 1 << 16):
            parts.append(part)
        return b"".join(parts)


@cache
def live() -> Table:
    """One for all that this process does."""
    return Table()


def of(handle: int) -> Mount:
    """The mount that a handle is on. Raises Refused if it was unmounted since it was opened: then nothing tells what it
    shows, and nothing is found there by path any more."""
    number = mount_of(handle)
    if found := live().now().get(number):
        return found
    path = printable(str(Path(f"/proc/self/fd/{handle}").readlink()))
    raise Refused(f"the file system of {path} was unmounted meanwhile")


def _unescaped(text: str) -> str:
    if "\\" not in text:  # nearly always, and ten times as fast
        return text
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


@lru_cache(maxsize=1)
def of_mount(point: str, fstype: str) -> IoCounters:
    """The counters for the file system of this type that is mounted at `point`; where it is not mounted (any more) only
    those of the network. Nothing of the target itself is touched, so this does not wait for it."""
    known = table()

    def mount_of(path: str) -> Mounted | None:
        found = at(path, known)
        return _mounted(found) if found.point else None

    there = [mount for mount in known if (mount.point, mount.fstype) == (point, fstype)]
    return IoCounters(_mounted(there[-1] if there else UNLISTED), mount_of)


def _mounted(mount: Mount) -> Mounted:
    return Mounted(mount.point, mount.device or "0:0", mount.fstype, mount.source, mount.options)
