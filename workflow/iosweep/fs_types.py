"""What is known of the types of file systems, in one table: a type that is not in it is a network file system."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileSystem:
    """A type, as the third column of /proc/mounts has it.

    local: only this machine uses it. direct: None where O_DIRECT keeps I/O out of this machine's memory, else why that
    is not proven. clients: how the names of its client's processes begin, where it has such outside the kernel.
    """

    types: tuple[str, ...]
    local: bool
    direct: str | None
    clients: tuple[str, ...] = ()


_OTHER = "whether its client keeps to O_DIRECT is not counted anywhere"
_FUSE = "a FUSE daemon may cache in spite of O_DIRECT"
#: FUSE mounts are `fuse`, `fuseblk`, or `fuse.` and the name of the program.
FUSE = FileSystem(("fuse", "fuse.*", "fuseblk"), local=False, direct=_FUSE)
UNKNOWN = FileSystem((), local=False, direct=_OTHER)
TABLE = (
    FileSystem(
        ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "overlay", "xfs"),
        local=True,
        direct=None,
    ),
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


def markdown() -> str:
    """The table for docs/verdicts.md."""
    rows = [
        (", ".join(f"`{name}`" for name in one.types) or "all others", one.direct or "evidence enough", _clients(one))
        for one in (*TABLE, UNKNOWN)
    ]
    head = ["| type | O_DIRECT that was accepted | processes of its client |", "|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _clients(one: FileSystem) -> str:
    if one is FUSE:
        return "that which has /dev/fuse open, or is named as the type and has the mount point as an argument"
    return ", ".join(f"`{name}*`" for name in one.clients) or "–"
