"""Which file system a directory is on, how full it is, whether the target's directory exists, and who may write there.

One file system may be mounted by the name of any of its servers: GlusterFS as `s1:/dfs` on one node and `s2:/dfs` on
another, WEKA by any backend, CephFS by any monitor, Lustre by any NID of its MGS. And two clusters may have volumes of
the same name: without the servers a name only means that it may be one. What asks the target runs inside the agent.
"""

from __future__ import annotations

import itertools
import os
import re
import select
import stat
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, Required, TypedDict

from iosweep.errors import Refused
from iosweep.node import fs_types, procfs
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


def parse_mounts(table: bytes) -> list[Mount]:
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


def mount_at(real: str, mounts: Iterable[Mount]) -> Mount:
    """The mount that shows an absolute path without links."""
    best = UNLISTED
    for mount in mounts:  # the last of equal mount points is the one on top
        inside = real == mount.point or real.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(best.point):
            best = mount
    return best


def read_mounts() -> list[Mount]:
    """The mounts that this process sees."""
    return parse_mounts((_PROC / "self/mountinfo").read_bytes())


def is_private(directory: str) -> bool | None:
    """Whether process 1 of this machine sees another directory there; None where that cannot be seen (containers)."""
    try:
        if not procfs.shows_machine(_PROC):
            return None
        ours, theirs = (parse_mounts((_PROC / pid / "mountinfo").read_bytes()) for pid in ("self", "1"))
    except OSError:
        return None
    real = str(Path(directory).resolve())
    return leads_to(real, ours) != leads_to(real, theirs)


def leads_to(real: str, mounts: Iterable[Mount]) -> tuple[str, str]:
    """Device, and path on that device, of an absolute path without links."""
    mount = mount_at(real, mounts)
    return mount.device, mount.root.rstrip("/") + real[len(mount.point.rstrip("/")) :]


def mount_number(handle: int) -> int:
    """The number of the mount that a handle is on. Two mounts of one file system have the same device number."""
    info = os.open(f"/proc/self/fdinfo/{handle}", os.O_RDONLY)
    try:
        return int(os.read(info, 4096).partition(b"mnt_id:")[2].split()[0])
    finally:
        os.close(info)


def without_password(text: str) -> str:
    """Mount sources such as curlftpfs' hold one: `ftp://user:password@host/`."""
    return re.sub(r"(://[^/@\s:]*):[^@/\s]*@", r"\1:***@", text)


class MountTable:
    """The mounts by their numbers; read again when the kernel reports a change."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/mountinfo", os.O_RDONLY)
        self._changed = select.poll()
        self._changed.register(self._file, select.POLLERR | select.POLLPRI)
        self.mounts: dict[int, Mount] = {}
        self.changes = 0

    def now(self) -> dict[int, Mount]:
        if not self.mounts or self._changed.poll(0):  # asked before it is read: a change meanwhile is seen next time
            self.mounts = {mount.number: mount for mount in parse_mounts(self._read())}
            self.changes += 1
        return self.mounts

    def _read(self) -> bytes:
        os.lseek(self._file, 0, os.SEEK_SET)
        parts = []
        while part := os.read(self._file, 1 << 16):
            parts.append(part)
        return b"".join(parts)


@cache
def live_mounts() -> MountTable:
    """One for all that this process does."""
    return MountTable()


def mount_of(handle: int) -> Mount:
    """The mount that a handle is on. Raises Refused if it was unmounted since it was opened: then nothing tells what it
    shows, and nothing is found there by path any more."""
    number = mount_number(handle)
    if found := live_mounts().now().get(number):
        return found
    path = printable(str(Path(f"/proc/self/fd/{handle}").readlink()))
    raise Refused(f"the file system of {path} was unmounted meanwhile")


def _unescaped(text: str) -> str:
    if "\\" not in text:  # nearly always, and ten times as fast
        return text
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


@lru_cache(maxsize=1)
def counters_of(point: str, fstype: str) -> IoCounters:
    """The counters for the file system of this type that is mounted at `point`; where it is not mounted (any more) only
    those of the network. Nothing of the target itself is touched, so this does not wait for it."""
    known = read_mounts()

    def mounted_at(path: str) -> Mounted | None:
        found = mount_at(path, known)
        return _mounted(found) if found.point else None

    there = [mount for mount in known if (mount.point, mount.fstype) == (point, fstype)]
    return IoCounters(_mounted(there[-1] if there else UNLISTED), mounted_at)


def _mounted(mount: Mount) -> Mounted:
    return Mounted(mount.point, mount.device or "0:0", mount.fstype, mount.source, mount.options)


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
    mount = mount_at(real, read_mounts())
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


#: Names by which every machine means itself: two of them are not one server.
_SELF = re.compile(r"localhost([.].*)?|127[.][0-9.]*|0@lo|\[?::1\]?|")


def volume(facts: Mapping[str, object]) -> str:
    """The file system's type and source, which results are stored with: `fuse.glusterfs s1:/dfs`.

    `facts`: source and fstype, and fsid if it is known, as identify.py has them. `volume` among them, the name that
    was stored when it was proven (known_as), goes before. The servers stay: another cluster may have a volume of the
    same name.
    """
    if stored := facts.get("volume"):
        return str(stored)
    kind, source = str(facts.get("fstype")), str(facts.get("source"))
    fsid = str(facts.get("fsid", ""))
    # the cluster's own name, which needs no server: its fsid, or what is between user and path
    cluster = kind == "ceph" and (fsid.strip("0") or "=" in source)
    return f"{kind} {_name(kind, source, fsid) if cluster else source}"


def other_disk(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two file systems of one device name are not one: of ext2 to ext4 the fsid is made of the UUID."""
    kinds, ids = ([facts.get(key) for facts in (one, other)] for key in ("fstype", "fsid"))
    return kinds[0] == kinds[1] and str(kinds[0]).startswith("ext") and all(ids) and ids[0] != ids[1]


def _serverless(facts: Mapping[str, object]) -> str:
    """Type and name without servers: `fuse.glusterfs /dfs`. Where these are equal, two mounts may be of one volume."""
    kind, source = str(facts.get("fstype")), str(facts.get("source"))
    return f"{kind} {_name(kind, source, str(facts.get('fsid', '')))}"


def _name(kind: str, source: str, fsid: str) -> str:
    _, colon, path = source.rpartition(":/")
    if kind == "lustre" and colon:  # 10.0.0.1@o2ib,10.0.0.2@o2ib:10.0.0.3@o2ib:/scratch
        return f"/{path}"
    if kind in ("fuse.glusterfs", "glusterfs") and ":" in source:  # s1:/dfs, s1,s2:/dfs, s1:dfs
        return f"/{source.rpartition(':')[2].lstrip('/')}"
    if kind == "wekafs":  # backend1,backend2/fs, or fs alone
        return source.rpartition("/")[2] or source
    if kind == "pvfs2" and "://" in source:  # tcp://server:3334/name
        return f"/{source.partition('://')[2].partition('/')[2]}"
    if kind == "ceph":
        if match := re.fullmatch(r"[^@/]*@([^=/]+=/.*)", source):  # user@cluster.name=/path
            return match[1]
        if colon:  # mon1:6789,mon2:6789:/path; the fsid is the cluster's
            return f"{fsid}:/{path}" if fsid.strip("0") else f"/{path}"
    return source


def identity(facts: Mapping[str, object]) -> str:
    """What a file system is recognized by later: type and name without servers and without the directory below the
    volume's root that is mounted, and the fsid of what has no name of its own: tmpfs, overlay, BeeGFS.
    """
    kind, source, fsid = (str(facts[key]) for key in ("fstype", "source", "fsid"))
    named = _serverless({"source": source, "fstype": kind, "fsid": fsid})
    if kind in ("lustre", "fuse.glusterfs", "glusterfs"):
        return re.sub(r"^(\S+ /[^/]*)/.*", r"\1", named, flags=re.DOTALL)
    if kind == "ceph":
        return re.sub(r"([ =:]/).*", r"\1", named, count=1, flags=re.DOTALL)
    if kind == "beegfs":  # the source is beegfs_nodev for each of them
        return f"{named} {fsid}" if fsid.strip("0") else named
    if fs_types.of_network(kind) or (re.search("[/:]", source) and not fs_types.of(kind).nameless):
        return named
    return f"{named} {fsid}"


def lock_name(facts: Mapping[str, object]) -> str:
    """What a file system is now, to all that is mounted now: what the lock is named after.

    `facts`: of `identity`, and mounted. A local one is what the kernel says, whatever its source is called
    (`/dev/root` and `/dev/vda1`, a device node of a container); that number is another one after the next boot. Others
    are named as they may be on other nodes. Two clusters may have a volume of the same name: one lock too many is
    better than two campaigns at once.
    """
    if fs_types.of(str(facts["fstype"])).local:
        return f"{facts['fstype']} {facts['mounted']}"
    return identity(facts)


def same_now(here: Mapping[str, object], there: Mapping[str, object]) -> bool:
    """Whether two directories of this machine are on one file system."""
    return here["device"] == there["device"] or lock_name(here) == lock_name(there)


def may_be_one(here: Mapping[str, object], there: Mapping[str, object]) -> bool:
    """Whether two nodes may see one file system; the marker in the campaign's directory then proves it or not.

    Of NFS the server is not compared: one server has several addresses.
    """
    if here["fstype"] == there["fstype"] and str(here["fstype"]).startswith("nfs"):
        return _export(str(here["source"])) == _export(str(there["source"]))
    return _serverless(here) == _serverless(there)


def _export(source: str) -> str:
    return source.rpartition(":/")[2]  # an IPv6 address has colons of its own


def on_root(mount: str | None) -> bool:
    """Whether a mount line, as identify.identify writes it, is of the root file system."""
    return mount is not None and mount.rpartition(" type ")[0].endswith(" on /")


def known_as(facts: Mapping[str, object], names: Collection[str], marked: bool) -> str:
    """The name that results of this file system are stored with: the first of `names` if it is that one, else its own.

    `names`: volumes that nodes saw the campaign's marker on, the first one first. `marked`: the marker is there now,
    which proves it only where one file system of that type may have several names: a copy on a disk has it, too.
    """
    now = volume(facts)
    kinds = {_family(name.partition(" ")[0]) for name in names}
    proven = marked and several_names(facts) and _family(str(facts["fstype"])) in kinds
    return next(iter(names)) if names and (proven or any(_same(facts, now, name) for name in names)) else now


def same_as_claimed(facts: Mapping[str, object], claimed: str) -> bool:
    """Whether the campaign's directory, whose marker is there now, is on the file system that it was claimed on.

    `claimed`: its identity then. The marker proves what it proves for `known_as`.
    """
    type_then = _family(claimed.partition(" ")[0])
    return identity(facts) == claimed or (several_names(facts) and _family(str(facts["fstype"])) == type_then)


def _family(kind: str) -> str:
    """A type without what does not matter: one volume may be mounted as nfs or nfs4, ceph or fuse.ceph-fuse."""
    return {"nfs4": "nfs", "smb3": "cifs"}.get(kind, kind.removeprefix("fuse.").removesuffix("-fuse"))


def several_names(facts: Mapping[str, object]) -> bool:
    """Whether a file system of this type may be mounted by several names."""
    kind, source = str(facts.get("fstype")), str(facts.get("source"))
    return fs_types.of_network(kind) and not (kind.startswith("fuse") and source.startswith("/dev/"))


def _same(facts: Mapping[str, object], now: str, name: str) -> bool:
    """Whether `name`, which volume has returned, is this file system's: by the same source, or by a common server.

    The fsid proves nothing here but of CephFS, whose name has it: Lustre makes it of the volume's name.
    """
    if now == name:
        return True
    kind, _, source = name.partition(" ")
    then = {"fstype": kind, "source": source}
    if _serverless({"fstype": facts["fstype"], "source": facts["source"]}) != _serverless(then):
        return False
    return bool(_servers(kind, source) & _servers(kind, str(facts["source"])))


def _servers(kind: str, source: str) -> set[str]:
    """Servers that a source names, of file systems that may be mounted by any of them."""
    found: list[str] = []
    if kind in ("fuse.glusterfs", "glusterfs"):
        found = source.rpartition(":")[0].split(",")
    elif kind in ("wekafs", "pvfs2"):
        found = source.rpartition("/")[0].split(",")
    elif kind == "ceph" and "=" not in source:
        found = source.rpartition(":/")[0].split(",")
    elif kind == "lustre":
        for part in source.rpartition(":/")[0].split(","):
            # failover nodes are divided by colons, which an IPv6 address has, too
            found += [n.removeprefix(":") for n in re.findall("[^@]+@[a-z0-9]+", part)] or part.split(":")
    return {server for server in found if not _SELF.fullmatch(server)}
