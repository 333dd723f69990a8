"""Whether a marker belongs to the directory that it is in: a copied marker must not make another directory ours.

The marker holds the path and the inode of its directory. Either may change: the path with another mount point, the
inode on some FUSE file systems. Where neither is the same, it is a copy, or was moved. Only the standard library is
imported: this runs inside the agent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iosweep.text import printable


def name_of(campaign: str) -> str:
    """What the directory of a campaign is called. Pure."""
    return f"iosweep-{campaign}"


def facts(handle: int) -> dict[str, Any]:
    """What a marker holds of the directory that it is in, open as `handle`."""
    return {"path": _path(handle), "inode": os.fstat(handle).st_ino, "fsid": f"{os.fstatvfs(handle).f_fsid:016x}"}


def wrong(marker: Mapping[str, Any], name: str, seen: Mapping[str, Any]) -> str | None:
    """Why a directory of this name is not the one that its marker was written for, or None. Pure.

    seen: `facts` of the directory. An inode alone proves nothing: another file system, and another subvolume or
    snapshot of btrfs, has the same numbers.
    """
    campaign, place = marker.get("campaign"), marker.get("place")
    if not isinstance(campaign, str) or not campaign or name != name_of(campaign):
        called = printable(str(campaign))[:100]
        return f"its marker is of the campaign `{called}`, whose directory is called {name_of(called)}"
    if not isinstance(place, dict) or not {"path", "inode", "fsid"} <= place.keys():
        return "its marker does not say for which directory it was written"
    if place["path"] == seen["path"] or (place["inode"], place["fsid"]) == (seen["inode"], seen["fsid"]):
        return None
    return f"its marker was written for {printable(str(place['path']))[:300]}, so this is a copy of that, or was moved"


def look(marker: Mapping[str, Any], directory: str, handle: int) -> str | None:
    """The same as `wrong` of an open directory, without asking the file system where its path is enough."""
    place, path = marker.get("place"), _path(handle)
    known = isinstance(place, dict) and place.get("path") == path
    seen = place if known and isinstance(place, dict) else facts(handle)
    return wrong(marker, Path(directory).name, seen)


def _path(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())
