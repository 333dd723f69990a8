"""The mounts of this machine; which file system a directory is on, whether it is there, and who may write to it.

What asks the target itself (`identify`, `check_target`, `find_open_directory`, `read_space`) runs inside the agent.
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
from typing import NamedTuple, TypedDict

from iosweep.errors import Refused
from iosweep.node import fs_types, procfs
from iosweep.node.counters import IoCounters, Mounted
from iosweep.text import printable

#: Remedies for a target that cannot be written to.
PERMIT = "give that user write permission, or name another directory"
REMOUNT = "mount it writable, or name another one"
#: Names of a directory that are searched for a similar one.
_MOST_NAMES = 10_000
_PROC = Path("/proc")

# Mounts


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


#: In place of a mount that the table does not have.
UNLISTED = Mount(0, 0, "", "", "", "unknown", "unknown", "")


def parse_mounts(table: bytes) -> list[Mount]:
    """The lines of a mountinfo. As bytes: the kernel escapes fewer characters than Python takes for a line's end."""
    found = []
    for line in table.split(b"\n")[:-1]:
        before, _, after = os.fsdecode(line).partition(" - ")
        number, parent, device, root, point, *_ = before.split(" ")
        fstype, source, options = after.split(" ", 2)
        paths = (_unescaped(root), _unescaped(point))
        found.append(Mount(int(number), int(parent), device, *paths, fstype, _unescaped(source), options))
    return found


def _unescaped(text: str) -> str:
    if "\\" not in text:  # nearly always, and ten times as fast
        return text
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def read_mounts(pid: str = "self") -> list[Mount]:
    """The mounts that a process sees."""
    return parse_mounts((_PROC / pid / "mountinfo").read_bytes())


def mount_at(real: str, mounts: Iterable[Mount]) -> Mount:
    """The mount that shows an absolute path without links."""
    best = UNLISTED
    for mount in mounts:  # the last of equal mount points is the one on top
        inside = real == mount.point or real.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(best.point):
            best = mount
    return best


def leads_to(real: str, mounts: Iterable[Mount]) -> tuple[str, str]:
    """Device, and path on that device, of an absolute path without links."""
    mount = mount_at(real, mounts)
    return mount.device, mount.root.rstrip("/") + real[len(mount.point.rstrip("/")) :]


def is_private(directory: str) -> bool | None:
    """Whether process 1 of this machine sees another directory there; None where that cannot be seen (containers)."""
    try:
        if not procfs.shows_machine(_PROC):
            return None
        real = str(Path(directory).resolve())
        return leads_to(real, read_mounts()) != leads_to(real, read_mounts("1"))
    except OSError:
        return None


@lru_cache(maxsize=1)
def counters_of(point: str, fstype: str) -> IoCounters:
    """The counters for the file system of this type that is mounted at `point`; where it is not mounted (any more) only
    those of the network. Nothing of the target itself is touched, so this does not wait for it."""
    known = read_mounts()

    def mounted(mount: Mount) -> Mounted:
        return Mounted(mount.point, mount.device or "0:0", mount.fstype, mount.source, mount.options)

    def mounted_at(path: str) -> Mounted | None:
        found = mount_at(path, known)
        return mounted(found) if found.point else None

    there = [mount for mount in known if (mount.point, mount.fstype) == (point, fstype)]
    return IoCounters(mounted(there[-1] if there else UNLISTED), mounted_at)


# The file system of a directory


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
    mount = mount_at(real, read_mounts())
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
    """The identity of a file system on any node and at any time: its type and the name of its volume.

    Without servers: GlusterFS may be mounted as `s1:/dfs` on one node and as `s2:/dfs` on another, and so may NFS,
    WEKA, CephFS and Lustre. Without the directory below the volume's root that is mounted. With the fsid where the
    name tells nothing: tmpfs, overlay, BeeGFS; and of ext2 to ext4, whose fsid is made of the UUID.
    """
    return _servers_and_identity(facts)[1]


def volume(facts: Mapping[str, object]) -> str:
    """The name of a file system that separates its results from others: its identity and its servers.

    Two storage systems may have volumes of one name. Other servers of the same system are recognized by the campaign's
    marker (`same_source`).
    """
    servers, name = _servers_and_identity(facts)
    return f"{name} by {servers}" if servers else name


def same_source(claimed: str, facts: FileSystem, marked: bool) -> str:
    """The source by which results name a file system: `claimed`, that of when the campaign's directory was made, if it
    is this one. `marked`: our marker is there now. Without it they must have a server in common, if both name any.
    """
    then, identity_then = _servers_and_identity({**facts, "source": claimed})
    now, identity_now = _servers_and_identity(facts)
    known = marked or not (then and now) or not {*then.split(",")}.isdisjoint(now.split(","))
    return claimed if known and identity_then == identity_now else facts["source"]


def _servers_and_identity(facts: Mapping[str, object]) -> tuple[str, str]:
    kind, source, fsid = (str(facts.get(key) or "") for key in ("fstype", "source", "fsid"))
    servers, _, path = source.rpartition(":/")
    if kind in ("nfs", "nfs4"):
        return servers, f"nfs /{path}"
    if kind == "lustre":  # 10.0.0.1@o2ib,10.0.0.2@o2ib:10.0.0.3@o2ib:/scratch/below
        return servers, f"lustre /{path.partition('/')[0]}"
    if kind in ("fuse.glusterfs", "glusterfs"):  # s1:/dfs, s1,s2:/dfs, s1:dfs
        servers, _, path = source.rpartition(":")
        return servers, f"{kind} /{path.strip('/').partition('/')[0]}"
    if kind == "wekafs":  # backend1,backend2/fs, or fs alone
        servers, _, path = source.rpartition("/")
        return servers, f"wekafs {path or source}"
    if kind == "ceph":  # user@cluster.name=/path, or mon1:6789,mon2:6789:/path
        named = re.fullmatch(r"[^@/]*@([^=/]+)=/.*", source, re.DOTALL)
        return "", f"ceph {named[1] if named else fsid}"
    known = fs_types.of(kind)
    has_name = kind != "beegfs" and (fs_types.of_network(kind) or bool(re.search("[/:]", source)))
    if has_name and not known.nameless and not kind.startswith("ext"):
        return "", f"{kind} {source}"
    return "", f"{kind} {source} {fsid}"


def lock_name(facts: Mapping[str, object]) -> str:
    """The name of the lock of a file system.

    A local one is what the kernel says, whatever its source is called (`/dev/root` and `/dev/vda1`, a device node of a
    container); others are named alike on all nodes. Two clusters may have a volume of the same name: one lock too many
    is better than two campaigns at once.
    """
    if fs_types.of(str(facts["fstype"])).local:
        return f"{facts['fstype']} {facts['mounted']}"
    return identity(facts)


def same_now(here: Mapping[str, object], there: Mapping[str, object]) -> bool:
    """Whether two directories of this machine are on one file system."""
    if here["device"] == there["device"]:
        return True
    # subvolumes of btrfs have devices of their own; two NFS servers may have volumes of the same name
    return here["source"] == there["source"] and lock_name(here) == lock_name(there)


def on_root(mount: str | None) -> bool:
    """Whether a mount line, as `identify` writes it, is of the root file system."""
    return mount is not None and mount.rpartition(" type ")[0].endswith(" on /")


def wrong_type(directory: str, fstype: str, mount: str, wanted: str | None) -> str | None:
    """A sentence on a target whose file system is not of the type that the configuration names, or None. Pure.

    `nfs` is nfs4, too; `x` is fuse.x, too.
    """
    if not wanted or fstype in (wanted, f"fuse.{wanted}") or (wanted, fstype) == ("nfs", "nfs4"):
        return None
    return f"`{wanted}` is expected, and {directory} is on `{fstype}` ({mount}); is the file system mounted?"


def read_space(directory: str) -> dict[str, int]:
    """Bytes and inodes of the file system as df counts: used, and free to an ordinary user."""
    s = os.statvfs(directory)
    return {
        "used_bytes": (s.f_blocks - s.f_bfree) * s.f_frsize,
        "free_bytes": s.f_bavail * s.f_frsize,
        "used_inodes": s.f_files - s.f_ffree,
        "free_inodes": s.f_favail,  # both 0 where the file system does not count inodes
    }


def contains_results(facts: FileSystem, directory: str, results: Path) -> bool:
    """Whether results lie in the campaign's directory, links resolved. `facts`: of its parent (identify)."""
    real = Path(facts["real"]) / Path(directory).name
    return real in (results.resolve(), *results.resolve().parents)


# Whether the target can be used


def check_target(target: str, campaign: str, wanted: str | None) -> tuple[str, str] | None:
    """The error in a target: a key of its configuration and a sentence; None without one.

    campaign: name of the campaign's directory there. wanted: target.type.
    """
    path, name = Path(target).absolute(), json.dumps(target, ensure_ascii=False)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            return "directory", f"{name} is not a directory; name a directory on the file system under test"
    except (FileNotFoundError, NotADirectoryError):
        return "directory", _absent(name, path)
    facts = identify(target)
    if is_root() and (way := find_open_directory(target)):
        return "directory", f"{name} cannot be measured on by root: {way}"
    if wrong := wrong_type(target, facts["fstype"], facts["mount"], wanted):
        return "type", wrong
    if not facts["writable"]:
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return "directory", f"{name} cannot be measured on: it is read-only; {REMOUNT}"
        if not os.path.lexists(path / campaign):
            return "directory", f"{name} cannot be measured on: {cannot_write(str(path), path.stat())}; {PERMIT}"
    return None


def _absent(name: str, path: Path) -> str:
    """Why there is no directory of a path, and what would be right. `name`: as the user wrote it."""
    parent, lacks = path.parent, path.name
    while not parent.is_dir():
        parent, lacks = parent.parent, parent.name
    if os.path.lexists(parent / lacks):
        return f"{name} does not exist: {parent / lacks} is a symbolic link that leads nowhere, or is not a directory"
    try:
        with os.scandir(parent) as entries:
            first = itertools.islice(entries, _MOST_NAMES)
            # by the type that the listing gives: to follow a link or a mount may hang
            names = [e.name for e in first if e.is_symlink() or e.is_dir(follow_symlinks=False)]
    except PermissionError:
        names = []
    text = f"{name} does not exist: {parent} is there, and has no `{lacks}`"
    if near := difflib.get_close_matches(lacks, names, 1, 0.6):
        return f"{text}; did you mean {parent / near[0] / path.relative_to(parent / lacks)}?"
    return f"{text}; is the file system mounted? If it is, make the directory"


def find_open_directory(target: str) -> str | None:
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
