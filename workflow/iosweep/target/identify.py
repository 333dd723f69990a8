"""Which file system a directory is on, how full it is, whether the target's directory exists, and who may write there.

This runs inside the agent.
"""

from __future__ import annotations

import itertools
import os
import stat
from pathlib import Path
from typing import Literal, Required, TypedDict

from iosweep.errors import Refused
from iosweep.node import procfs
from iosweep.target import mounts
from iosweep.target.mounts import without_password
from iosweep.text import printable

#: Names of a directory among which the one that was meant is looked for.
_MOST_NAMES = 10_000
#: What helps where a target cannot be written to.
PERMIT = "give that user write permission, or name another directory"
REMOUNT = "mount it writable, or name another one"


class FileSystem(TypedDict):
    """The file system of a directory. `real`: path of the directory without links. `mount`: line of its mount.
    `mounted`: number of what is mounted (`8:1`), the same in all subvolumes of btrfs, unlike `device`."""

    real: str
    source: str
    fstype: str
    mount: str
    fsid: str
    mounted: str
    device: int
    writable: bool


def identify(target: str, name: str = "the target") -> FileSystem:
    """Which file system a directory is on. `name`: of the directory, in errors."""
    path = Path(target)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise Refused(f"{name} {target} is not a directory")
    except FileNotFoundError:
        raise Refused(f"{name} {target} does not exist; is the file system mounted?") from None
    real = str(path.resolve())
    fsid = os.statvfs(real).f_fsid  # first: it has an automounter mount what stat does not
    mount = mounts.at(real, mounts.table())
    line = f"{mount.source} on {mount.point} type {mount.fstype} ({mount.options})" if mount.point else ""
    return {
        "real": printable(real),
        "source": without_password(printable(mount.source)),
        "fstype": printable(mount.fstype),
        "mount": without_password(printable(line)),
        "fsid": f"{fsid:016x}",
        "mounted": mount.device,
        "device": path.stat().st_dev,
        "writable": os.access(path, os.W_OK | os.X_OK),
    }


class Looked(TypedDict, total=False):
    """The directory that a target names, or why there is none.

    Of a directory: its `fstype` and `mount`; `open`: which directory on the way to it others may write to (`open_way`);
    `closed`: why the campaign's directory cannot be made there, None if it can, or is there.
    Of an absent one: `parent`, the nearest directory that exists, `lacks`, what it does not have, `names` of its
    directories.
    """

    kind: Required[Literal["directory", "other", "absent"]]
    fstype: str
    mount: str
    open: str | None
    closed: str | None
    parent: str
    lacks: str
    names: list[str]


def look(target: str, campaign: str = "") -> Looked:
    """Follow the name of a target. `campaign`: name of the campaign's directory there."""
    path = Path(target).absolute()
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            facts = identify(target)
            return {
                "kind": "directory",
                "open": open_way(target),
                "closed": _closed(path, facts, campaign),
                "fstype": facts["fstype"],
                "mount": facts["mount"],
            }
        return {"kind": "other"}
    except (FileNotFoundError, NotADirectoryError):
        pass
    parent, lacks = path.parent, path.name
    while not parent.is_dir():
        parent, lacks = parent.parent, parent.name
    try:
        with os.scandir(parent) as entries:
            first = itertools.islice(entries, _MOST_NAMES)
            # by the type that the listing gives: to follow a link or a mount may hang
            names = [e.name for e in first if e.name == lacks or e.is_symlink() or e.is_dir(follow_symlinks=False)]
    except PermissionError:
        names = []
    return {"kind": "absent", "parent": str(parent), "lacks": lacks, "names": names}


def _closed(path: Path, facts: FileSystem, campaign: str) -> str | None:
    """Why the campaign's directory cannot be made; where it is there, the target's own mode does not matter."""
    if facts["writable"]:
        return None
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"{printable(str(path))} is read-only; {REMOUNT}"
    if campaign and os.path.lexists(path / campaign):
        return None
    return f"{cannot_write(str(path), path.stat())}; {PERMIT}"


def open_way(target: str) -> str | None:
    """A sentence on a directory on the way to the target in which others could put another one in the place of the
    campaign's; None if there is none.

    Tools open their files by path, so who swaps a directory on the way chooses what they overwrite. In a sticky
    directory only owners may. For root, others are all but root and the directory's owner; a user trusts his groups.
    """
    real = Path(target).resolve()
    others = stat.S_IWOTH | (stat.S_IWGRP if is_root() else 0)
    for directory in (*reversed(real.parents), real):
        status = directory.stat()
        if status.st_mode & others and not status.st_mode & stat.S_ISVTX:
            who = "everybody" if status.st_mode & stat.S_IWOTH else "its group"
            return (
                f"{who} can write to {printable(str(directory))} ({rights(status)}), and could put another directory in"
                f" the place of the campaign's; `chmod +t` prevents that"
            )
    return None


def is_root() -> bool:
    return os.getuid() == 0


def rights(status: os.stat_result) -> str:
    """Who may do what with a file, as far as its mode shows it: `mode 0755, owner root`."""
    return f"mode {stat.S_IMODE(status.st_mode):04o}, owner {procfs.user_name(status.st_uid)}"


def cannot_write(directory: str, status: os.stat_result) -> str:
    """`user anna cannot write to /x (mode 0755, owner root)`. `status`: of the directory."""
    user = printable(procfs.user_name(os.getuid()))
    return f"user {user} cannot write to {printable(directory)} ({rights(status)})"


def wrong_type(directory: str, fstype: str, mount: str, wanted: str | None) -> str | None:
    """A sentence on a target whose file system is not of the type that the configuration names, or None. Pure.

    `nfs` is nfs4, too; `x` is fuse.x, too.
    """
    if not wanted or fstype in (wanted, f"fuse.{wanted}") or (wanted, fstype) == ("nfs", "nfs4"):
        return None
    return f"`{wanted}` is expected, and {directory} is on `{fstype}` ({mount}); is the file system mounted?"


def space(directory: str) -> dict[str, int]:
    """Bytes and inodes of the file system as df counts: used, and free to an ordinary user."""
    s = os.statvfs(directory)
    return {
        "used_bytes": (s.f_blocks - s.f_bfree) * s.f_frsize,
        "free_bytes": s.f_bavail * s.f_frsize,
        "used_inodes": s.f_files - s.f_ffree,
        "free_inodes": s.f_favail,  # both 0 where the file system does not count inodes
    }


def holds(facts: FileSystem, directory: str, results: Path) -> bool:
    """Whether results lie in the campaign's directory, links resolved. `facts`: of its parent (identify)."""
    real = Path(facts["real"]) / Path(directory).name
    return real in (results.resolve(), *results.resolve().parents)
