"""Identity of the target's file system: mounts, volume and lock names; whether the target exists and is writable.

Functions that touch the target (`identify`, `check_target`, `find_open_directory`, `read_space`) run inside the agent.
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

from iosweep.errors import Refused
from iosweep.node import fs_types, procfs
from iosweep.node.counters import IoCounters
from iosweep.text import printable

#: Remedies for a target that cannot be written to.
PERMIT = "give that user write permission, or name another directory"
REMOUNT = "mount it writable, or name another one"
#: Maximum number of directory entries that are searched for a similar name.
_MAX_NAMES = 10_000

# Mounts


def leads_to(real: str, mounts: Iterable[procfs.Mount]) -> tuple[str, str]:
    """The device of an absolute path without links, and the path on that device."""
    mount = procfs.mount_at(real, mounts)
    return mount.device, mount.root.rstrip("/") + real[len(mount.point.rstrip("/")) :]


def is_private(directory: str) -> bool | None:
    """Whether process 1 of this machine sees another directory at this path; None if unknown (in containers)."""
    try:
        if not procfs.shows_machine():
            return None
        real = str(Path(directory).resolve())
        return leads_to(real, procfs.read_mounts()) != leads_to(real, procfs.read_mounts("1"))
    except OSError:
        return None


@lru_cache(maxsize=8)  # targets that are measured in turn
def counters_of(point: str, fstype: str) -> IoCounters:
    """The counters for the file system of this type that is mounted at `point`; only network counters if it is not
    mounted. The target itself is not accessed, so this never waits for it."""
    mounts = procfs.read_mounts()
    matching = [mount for mount in mounts if (mount.point, mount.fstype) == (point, fstype)]
    return IoCounters(matching[-1] if matching else procfs.UNLISTED, mounts)


# The file system of a directory


class FileSystem(TypedDict):
    """The file system of a directory."""

    real: str  # path of the directory without links
    source: str
    fstype: str
    mount: str  # the mount as a line of mount(8)
    fsid: str
    mounted: str  # number of the mounted device (`8:1`), equal in all subvolumes of btrfs
    device: int  # st_dev, which differs between subvolumes
    writable: bool


def identify(target: str, name: str = "the target") -> FileSystem:
    """Determine which file system a directory is on. `name`: what errors call the directory."""
    path = Path(target)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise Refused(f"{name} {target} is not a directory")
    except FileNotFoundError:
        raise Refused(f"{name} {target} does not exist; is the file system mounted?") from None
    real = str(path.resolve())
    fsid = os.statvfs(real).f_fsid  # before read_mounts: unlike stat, it triggers an automounter
    mount = procfs.mount_at(real, procfs.read_mounts())
    line = f"{mount.source} on {mount.point} type {mount.fstype} ({mount.options})" if mount.point else ""
    return {
        "real": printable(real),
        "source": printable(mount.source),
        "fstype": printable(mount.fstype),
        "mount": printable(line),
        "fsid": f"{fsid:016x}",
        "mounted": mount.device,
        "device": path.stat().st_dev,
        "writable": os.access(path, os.W_OK | os.X_OK),
    }


def identity(facts: Mapping[str, object]) -> str:
    """The identity of a file system, the same on all nodes and over time: its type and volume name.

    It omits servers: nodes may mount GlusterFS, NFS, WEKA, CephFS and Lustre from different ones (`s1:/fs`, `s2:/fs`).
    It omits a mounted subdirectory. It includes the fsid if the name is arbitrary (tmpfs, overlay, BeeGFS). That
    of ext2 to ext4 derives from the UUID, and is their identity.
    """
    return _split_source(facts)[1]


def volume(facts: Mapping[str, object]) -> str:
    """The name that distinguishes file systems in results: identity and servers.

    Two storage systems may have volumes of the same name. Other servers of a system are recognized by the campaign's
    marker (`same_source`).
    """
    servers, name = _split_source(facts)
    return f"{name} by {servers}" if servers else name


def same_source(claimed: str, facts: FileSystem, marked: bool) -> str:
    """The mount source by which results name a file system: `claimed`, the source when the campaign's directory was
    created, if that was this file system; otherwise the current source.

    `marked`: our marker is there now. Without it the sources must have a server in common, if both name servers.
    """
    old_servers, old_identity = _split_source({**facts, "source": claimed})
    servers, current_identity = _split_source(facts)
    is_same = marked or not (old_servers and servers) or not {*old_servers.split(",")}.isdisjoint(servers.split(","))
    return claimed if is_same and old_identity == current_identity else facts["source"]


def _split_source(facts: Mapping[str, object]) -> tuple[str, str]:
    kind, source, fsid = (str(facts.get(key) or "") for key in ("fstype", "source", "fsid"))
    servers, _, path = source.rpartition(":/")
    if kind in ("nfs", "nfs4"):
        return servers, f"nfs /{path}"
    if kind == "lustre":  # 10.0.0.1@o2ib,10.0.0.2@o2ib:10.0.0.3@o2ib:/scratch/below
        return servers, f"lustre /{path.partition('/')[0]}"
    if kind in ("fuse.glusterfs", "glusterfs"):  # s1:/dfs, s1,s2:/dfs, s1:dfs
        servers, _, path = source.rpartition(":")
        return servers, f"{kind} /{path.strip('/').partition('/')[0]}"
    if kind == "wekafs":  # backend1,backend2/fs, or just fs
        servers, _, path = source.rpartition("/")
        return servers, f"wekafs {path or source}"
    if kind == "ceph":  # user@cluster.name=/path, or mon1:6789,mon2:6789:/path
        match = re.fullmatch(r"[^@/]*@([^=/]+)=/.*", source, re.DOTALL)
        return "", f"ceph {match[1] if match else fsid}"
    if kind.startswith("ext") and fsid:  # disks may have other names after a boot
        return "", f"{kind} {fsid}"
    has_name = kind != "beegfs" and (fs_types.is_network(kind) or bool(re.search("[/:]", source)))
    if has_name and not fs_types.lookup(kind).nameless:
        return "", f"{kind} {source}"
    return "", f"{kind} {source} {fsid}"


def lock_name(facts: Mapping[str, object]) -> str:
    """The name of the lock of a file system.

    A local file system is named by its device number, because one device may have several names (`/dev/root` and
    `/dev/vda1`, a device node of a container). Others have the same name on all nodes. Volumes of two clusters may
    share a name: a needless lock is better than two campaigns at once.
    """
    if fs_types.lookup(str(facts["fstype"])).local:
        return f"{facts['fstype']} {facts['mounted']}"
    return identity(facts)


def is_same_file_system(here: Mapping[str, object], there: Mapping[str, object]) -> bool:
    """Whether two directories of this machine are on one file system."""
    if here["device"] == there["device"]:
        return True
    # each subvolume of btrfs has its own st_dev; two NFS servers may have volumes of the same name
    return here["source"] == there["source"] and lock_name(here) == lock_name(there)


def is_root_mount(mount: str | None) -> bool:
    """Whether a mount line, as `identify` writes it, is the root file system."""
    return mount is not None and mount.rpartition(" type ")[0].endswith(" on /")


def wrong_type(directory: str, fstype: str, mount: str, expected: str | None) -> str | None:
    """A message if the target's file system is not of the type that the configuration names, or None. Pure.

    `nfs` stands for nfs4 as well, and `x` for fuse.x.
    """
    if not expected or fstype in (expected, f"fuse.{expected}") or (expected, fstype) == ("nfs", "nfs4"):
        return None
    return f"`{expected}` is expected, and {directory} is on `{fstype}` ({mount}); is the file system mounted?"


def read_space(directory: str) -> dict[str, int]:
    """Bytes and inodes of the file system, used and free to an ordinary user, as df counts them."""
    s = os.statvfs(directory)
    return {
        "used_bytes": (s.f_blocks - s.f_bfree) * s.f_frsize,
        "free_bytes": s.f_bavail * s.f_frsize,
        "used_inodes": s.f_files - s.f_ffree,
        "free_inodes": s.f_favail,  # both 0 if the file system does not count inodes
    }


def contains_results(facts: FileSystem, directory: str, results: Path) -> bool:
    """Whether results are in the campaign's directory, with links resolved. `facts`: `identify` of its parent."""
    real = Path(facts["real"]) / Path(directory).name
    return real in (results.resolve(), *results.resolve().parents)


# Whether the target can be used


def check_target(target: str, campaign: str, fstype: str | None) -> tuple[str, str] | None:
    """The problem with a target: a key below `target` of the configuration, and a message; or None.

    `campaign`: name of the campaign's directory there. `fstype`: target.type.
    """
    path, name = Path(target).absolute(), json.dumps(target, ensure_ascii=False)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            return "directory", f"{name} is not a directory; name a directory on the file system under test"
    except (FileNotFoundError, NotADirectoryError):
        return "directory", _explain_absence(name, path)
    facts = identify(target)
    if is_root() and (danger := find_open_directory(target)):
        return "directory", f"{name} cannot be measured on by root: {danger}"
    if mismatch := wrong_type(target, facts["fstype"], facts["mount"], fstype):
        return "type", mismatch
    if not facts["writable"]:
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return "directory", f"{name} cannot be measured on: it is read-only; {REMOUNT}"
        if not os.path.lexists(path / campaign):
            return "directory", f"{name} cannot be measured on: {cannot_write(str(path), path.stat())}; {PERMIT}"
    return None


def _explain_absence(name: str, path: Path) -> str:
    """Why a path is not a directory, and the likely remedy. `name`: the path as the user wrote it."""
    parent, missing = path.parent, path.name
    while not parent.is_dir():
        parent, missing = parent.parent, parent.name
    if os.path.lexists(parent / missing):
        return f"{name} does not exist: {parent / missing} is a symbolic link that leads nowhere, or is not a directory"
    try:
        with os.scandir(parent) as entries:
            first = itertools.islice(entries, _MAX_NAMES)
            # the type from the listing only: following a link or a mount may hang
            names = [e.name for e in first if e.is_symlink() or e.is_dir(follow_symlinks=False)]
    except PermissionError:
        names = []
    text = f"{name} does not exist: {parent} is there, and has no `{missing}`"
    if similar := difflib.get_close_matches(missing, names, 1, 0.6):
        return f"{text}; did you mean {parent / similar[0] / path.relative_to(parent / missing)}?"
    return f"{text}; is the file system mounted? If it is, make the directory"


def find_open_directory(target: str) -> str | None:
    """A message about a directory in the target's path in which others could replace the campaign's directory, or None.

    Tools open files by path, so whoever replaces a directory in the path chooses the files that they overwrite. In a
    sticky directory only owners can. Others are everybody, and for root also the group: users trust their groups.
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
    """`mode 0755, owner root`"""
    return f"mode {stat.S_IMODE(status.st_mode):04o}, owner {procfs.user_name(status.st_uid)}"


def cannot_write(directory: str, status: os.stat_result) -> str:
    """`user anna cannot write to /x (mode 0755, owner root)`. `status`: of the directory."""
    user = printable(procfs.user_name(os.getuid()))
    return f"user {user} cannot write to {printable(directory)} ({rights(status)})"
