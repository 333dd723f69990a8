"""Properties of file system types: locality, O_DIRECT, locks. A type without an entry counts as a network type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class FileSystem:
    """Properties of some file system types."""

    #: As in the third column of /proc/mounts.
    types: tuple[str, ...]
    #: Only this machine uses it.
    local: bool
    #: None if O_DIRECT provably keeps I/O out of this machine's memory, else the reason why that is not proven.
    direct: str | None
    #: Pattern of mount options that void `direct`.
    unless: str = ""
    #: Prefixes of the names of its client's processes outside the kernel.
    clients: tuple[str, ...] = ()
    #: A flock is known to be seen on other nodes, except with a mount option that matches `unlocked`.
    locks: bool = False
    unlocked: str = ""
    #: Its files are in this machine's memory.
    memory: bool = False
    #: Its files are on block devices, and the kernel charges their I/O to the process that causes it.
    block: bool = False
    #: Its source is an arbitrary name, chosen by whoever mounts it.
    nameless: bool = False


_OTHER = "no counter shows whether its client honors O_DIRECT"
_LAYERS = "what becomes of O_DIRECT depends on the file system below an overlay"
#: With these options Linux 6 accepts O_DIRECT, and still leaves the data in the page cache.
_CACHED = "data=journal|compress(ion|-force)?(=(?!no).*)?"
_ON_DISK = ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "xfs")
_IN_MEMORY = ("devtmpfs", "hugetlbfs", "ramfs", "tmpfs")
_NETWORK = ("9p", "afs", "cifs", "glusterfs", "mmfs", "panfs", "pvfs2", "smb3", "virtiofs")
#: FUSE mounts are `fuse`, `fuseblk`, or `fuse.` and the name of the program.
FUSE = FileSystem(("fuse", "fuse.*", "fuseblk"), False, "a FUSE daemon may cache in spite of O_DIRECT")
UNKNOWN = FileSystem((), False, _OTHER)
TABLE = (
    FileSystem(_ON_DISK, True, None, unless=_CACHED, block=True),
    FileSystem(("overlay",), True, _LAYERS, block=True, nameless=True),
    FileSystem(_IN_MEMORY, True, None, memory=True, nameless=True),
    FileSystem(("zfs",), True, "ZFS before 2.3 accepts O_DIRECT and caches all the same"),
    FileSystem(("wekafs",), False, _OTHER, clients=("weka",), locks=True),
    FileSystem(("gpfs",), False, _OTHER, clients=("mmfsd",), locks=True),
    FileSystem(("nfs", "nfs4"), False, _OTHER, locks=True, unlocked="nolock|local_lock=(all|flock)"),
    FileSystem(("lustre",), False, _OTHER, locks=True, unlocked="localflock"),
    FileSystem(("ceph",), False, _OTHER, locks=True),
    # a flock stays on the node unless tuneUseGlobalFileLocks is set, which the mount does not show
    FileSystem(("beegfs",), False, _OTHER, clients=("beegfs-helper",)),
    FUSE,
    FileSystem(_NETWORK, False, _OTHER),
)
#: Local types that may write many more bytes than programs do, because they never overwrite a block in place.
COPY_ON_WRITE = ("bcachefs", "btrfs", "f2fs", "nilfs2", "zfs")
_BY_TYPE = {name: kind for kind in TABLE for name in kind.types}


def lookup(fstype: str | None) -> FileSystem:
    """The properties of a type. None: the type was not recorded."""
    if fstype and fstype.startswith("fuse."):
        return FUSE
    return _BY_TYPE.get(fstype or "", UNKNOWN)


def is_network(fstype: str) -> bool:
    """Whether a type is known to be a network file system, whose fsid may differ from mount to mount or be 0."""
    kind = lookup(fstype)
    return kind is not UNKNOWN and not kind.local


@lru_cache(1000)
def direct_doubt(fstype: str | None, mount: str | None) -> str | None:
    """Why O_DIRECT does not prove that the page cache was bypassed; None if it does. `mount`: as mount(8) prints it."""
    kind = lookup(fstype)
    if not kind.direct and (option := _option(kind.unless, mount)):
        return f"with the mount option {option} it accepts O_DIRECT and caches all the same"
    return kind.direct


def lock_doubt(fstype: str, mount: str) -> str | None:
    """Why a flock on a file system may not be seen on other nodes; None if it is. `mount`: as for `direct_doubt`."""
    kind = lookup(fstype)
    if kind.local:
        return f"{fstype}, which only this machine uses"
    if not kind.locks:
        return f"{fstype}, whose locks may not reach the other nodes"
    if option := _option(kind.unlocked, mount):
        return f"{fstype} with the mount option {option}, which keeps its locks from the other nodes"
    return None


def _option(pattern: str, mount: str | None) -> str | None:
    """The first mount option that matches a pattern."""
    options = (mount or "").rpartition("(")[2].rstrip(")").split(",")
    return next((option for option in options if pattern and re.fullmatch(pattern, option)), None)
