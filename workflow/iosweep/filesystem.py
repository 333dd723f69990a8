"""Which file system a mount is of, without what differs from node to node. Pure.

One file system may be mounted by the name of any of its servers: GlusterFS as `s1:/dfs` on one node and `s2:/dfs` on
another, WEKA by any backend, CephFS by any monitor, Lustre by any NID of its MGS.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

#: File systems of a network. Their fsid may differ from mount to mount (NFS), or is 0 (FUSE).
_NETWORK = re.compile(
    "fuse([.].*)?|nfs4?|cifs|smb3|lustre|ceph|wekafs|beegfs|gpfs|mmfs|pvfs2|glusterfs|afs|9p|virtiofs|panfs"
)


def volume(facts: Mapping[str, Any]) -> str:
    """The file system's type and name, the same on all nodes: `fuse.glusterfs /dfs`.

    `facts`: source and fstype, and fsid if it is known, as target.identify has them. `volume` among them, the name that
    was stored when the nodes proved it, goes before. The server stays where another server is another file system
    (NFS, SMB, MooseFS).
    """
    if stored := facts.get("volume"):
        return str(stored)
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


def identity(facts: Mapping[str, Any]) -> str:
    """As `volume`, with the fsid of what has no name of its own on this machine: tmpfs, overlay."""
    named = volume({"source": facts["source"], "fstype": facts["fstype"], "fsid": facts["fsid"]})
    if _NETWORK.fullmatch(facts["fstype"]) or re.search("[/:]", facts["source"]):
        return named
    return f"{named} {facts['fsid']}"


def may_be_one(here: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    """Whether two nodes may see one file system; the marker in the campaign's directory then proves it or not.

    Of NFS the server is not compared: one server has several addresses.
    """
    if here["fstype"] == there["fstype"] and here["fstype"].startswith("nfs"):
        return _export(here["source"]) == _export(there["source"])
    return volume(here) == volume(there)


def _export(source: str) -> str:
    return source.partition(":")[2] if ":/" in source else source


def known_as(facts: Mapping[str, Any], names: Collection[str], proven: bool) -> str:
    """The name that results of this file system are stored with: the first of `names` if it is that one, else its own.

    `names`: volumes that nodes saw the campaign's marker on, the first one first. `proven`: the marker is there now.
    """
    now = volume(facts)
    return next(iter(names)) if names and (proven or now in names) else now
