"""Identity of a file system that is mounted under several names. Pure.

One file system may be mounted by the name of any of its servers: GlusterFS as `s1:/dfs` on one node and `s2:/dfs` on
another, WEKA by any backend, CephFS by any monitor, Lustre by any NID of its MGS. And two clusters may have volumes of
the same name: without the servers a name only means that it may be one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from iosweep.node import fs_types

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
