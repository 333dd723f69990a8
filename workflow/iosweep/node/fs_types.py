"""What is known of the types of file systems, in one table: a type that is not in it is a network file system."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class FileSystem:
    """A type, as the third column of /proc/mounts has it.

    local: only this machine uses it. direct: None where O_DIRECT keeps I/O out of this machine's memory, else why that
    is not proven; unless: a pattern of mount options with which it is not proven either. clients: how the names of its
    client's processes begin, where it has such outside the kernel. locks: whether a flock on it is known to be seen on
    the other nodes, except with a mount option that matches `unlocked`. memory: its files are in this machine's memory.
    block: they are on block devices, and the kernel counts their I/O as that of the process which causes it. nameless:
    its source is what whoever mounts it calls it. layered: it shows the files of other file systems.
    """

    types: tuple[str, ...]
    local: bool
    direct: str | None
    unless: str = ""
    clients: tuple[str, ...] = ()
    locks: bool = False
    unlocked: str = ""
    memory: bool = False
    block: bool = False
    nameless: bool = False
    layered: bool = False


_OTHER = "no counter shows whether its client honors O_DIRECT"
_LAYERS = "what becomes of O_DIRECT depends on the file system below an overlay"
#: Read on Linux 6: with both O_DIRECT is accepted, and leaves what was read in the page cache.
_CACHED = "data=journal|compress(ion|-force)?(=(?!no).*)?"
_ON_DISK = ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "xfs")
_IN_MEMORY = ("devtmpfs", "hugetlbfs", "ramfs", "tmpfs")
_NETWORK = ("9p", "afs", "cifs", "glusterfs", "mmfs", "panfs", "pvfs2", "smb3", "virtiofs")
#: FUSE mounts are `fuse`, `fuseblk`, or `fuse.` and the name of the program.
FUSE = FileSystem(("fuse", "fuse.*", "fuseblk"), False, "a FUSE daemon may cache in spite of O_DIRECT")
UNKNOWN = FileSystem((), False, _OTHER)
TABLE = (
    FileSystem(_ON_DISK, True, None, unless=_CACHED, block=True),
    FileSystem(("overlay",), True, _LAYERS, block=True, nameless=True, layered=True),
    FileSystem(_IN_MEMORY, True, None, memory=True, nameless=True),
    FileSystem(("zfs",), True, "ZFS before 2.3 accepts O_DIRECT and caches all the same"),
    FileSystem(("wekafs",), False, _OTHER, clients=("weka",), locks=True),
    FileSystem(("gpfs",), False, _OTHER, clients=("mmfsd",), locks=True),
    FileSystem(("nfs", "nfs4"), False, _OTHER, locks=True, unlocked="nolock|local_lock=(all|flock)"),
    FileSystem(("lustre",), False, _OTHER, locks=True, unlocked="localflock"),
    FileSystem(("ceph",), False, _OTHER, locks=True),
    # its flock stays on the node without tuneUseGlobalFileLocks, which the mount does not show
    FileSystem(("beegfs",), False, _OTHER, clients=("beegfs-helper",)),
    FUSE,
    FileSystem(_NETWORK, False, _OTHER),
)
#: Local types that may write much more than programs do, because they write each block anew.
COPY_ON_WRITE = ("bcachefs", "btrfs", "f2fs", "nilfs2", "zfs")
_BY_TYPE = {name: kind for kind in TABLE for name in kind.types}


def of(fstype: str | None) -> FileSystem:
    """What is known of a type; None: the type was not recorded."""
    if fstype and fstype.startswith("fuse."):
        return FUSE
    return _BY_TYPE.get(fstype or "", UNKNOWN)


def of_network(fstype: str) -> bool:
    """Whether a type is known to be a network file system, whose fsid may differ from mount to mount or be 0."""
    known = of(fstype)
    return known is not UNKNOWN and not known.local


@lru_cache(1000)
def direct(fstype: str | None, mount: str | None) -> str | None:
    """Why O_DIRECT is not evidence on a file system; None where it is. `mount`: its line, as mount(8) prints it."""
    known = of(fstype)
    if not known.direct and (option := _option(known.unless, mount)):
        return f"with the mount option {option} it accepts O_DIRECT and caches all the same"
    return known.direct


def apart(fstype: str, mount: str) -> str | None:
    """Why a flock on a file system may not be seen on other nodes; None where it is. `mount` as for `direct`."""
    known = of(fstype)
    if known.local:
        return f"{fstype}, which only this machine uses"
    if not known.locks:
        return f"{fstype}, whose locks may not reach the other nodes"
    if option := _option(known.unlocked, mount):
        return f"{fstype} with the mount option {option}, which keeps its locks from the other nodes"
    return None


def _option(pattern: str, mount: str | None) -> str | None:
    """The first mount option that matches a pattern."""
    options = (mount or "").rpartition("(")[2].rstrip(")").split(",")
    return next((option for option in options if pattern and re.fullmatch(pattern, option)), None)
