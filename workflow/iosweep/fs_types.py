"""What is known of the types of file systems, in one table: a type that is not in it is a network file system."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class FileSystem:
    """A type, as the third column of /proc/mounts has it.

    local: only this machine uses it. direct: None where O_DIRECT keeps I/O out of this machine's memory, else why that
    is not proven. unless: a pattern of mount options with which it is not proven either. clients: how the names of its
    client's processes begin, where it has such outside the kernel.
    """

    types: tuple[str, ...]
    local: bool
    direct: str | None
    unless: str = ""
    clients: tuple[str, ...] = ()


_OTHER = "whether its client keeps to O_DIRECT is not counted anywhere"
_FUSE = "a FUSE daemon may cache in spite of O_DIRECT"
#: FUSE mounts are `fuse`, `fuseblk`, or `fuse.` and the name of the program.
FUSE = FileSystem(("fuse", "fuse.*", "fuseblk"), local=False, direct=_FUSE)
UNKNOWN = FileSystem((), local=False, direct=_OTHER)
TABLE = (
    FileSystem(
        ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "xfs"),
        local=True,
        direct=None,
        # read on Linux 6: both accept O_DIRECT, and leave what was read in the page cache
        unless="data=journal|compress(ion|-force)?(=(?!no).*)?",
    ),
    FileSystem(("overlay",), local=True, direct="what becomes of O_DIRECT depends on the file system below an overlay"),
    FileSystem(("ramfs", "tmpfs"), local=True, direct=None),  # memory is the storage
    FileSystem(("zfs",), local=True, direct="ZFS before 2.3 accepts O_DIRECT and caches all the same"),
    FileSystem(("wekafs",), local=False, direct=_OTHER, clients=("weka",)),
    FileSystem(("gpfs",), local=False, direct=_OTHER, clients=("mmfsd",)),
    FileSystem(("beegfs",), local=False, direct=_OTHER, clients=("beegfs-helper",)),
    FUSE,
)
_BY_TYPE = {name: one for one in TABLE for name in one.types}


def of(fstype: str | None) -> FileSystem:
    """What is known of a type; None: the type was not recorded."""
    if fstype and fstype.startswith("fuse."):
        return FUSE
    return _BY_TYPE.get(fstype or "", UNKNOWN)


def direct(fstype: str | None, mount: str | None) -> str | None:
    """Why O_DIRECT is no proof on a file system; None where it is. `mount`: its line, as mount(8) prints it."""
    known = of(fstype)
    options = (mount or "").rpartition("(")[2].rstrip(")").split(",")
    if not known.direct and known.unless:
        for option in options:
            if re.fullmatch(known.unless, option):
                return f"with the mount option {option} it accepts O_DIRECT and caches all the same"
    return known.direct


def markdown() -> str:
    """The table for docs/verdicts.md."""
    rows = [
        (", ".join(f"`{name}`" for name in one.types) or "all others", _evidence(one), _clients(one))
        for one in (*TABLE, UNKNOWN)
    ]
    head = ["| type | O_DIRECT that was accepted | processes of its client |", "|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _evidence(one: FileSystem) -> str:
    return one.direct or "evidence enough" + (", but with `data=journal` or compression" if one.unless else "")


def _clients(one: FileSystem) -> str:
    if one is FUSE:
        return "that which has /dev/fuse open, or is named as the type and has the mount point as an argument"
    return ", ".join(f"`{name}*`" for name in one.clients) or "–"
