"""Whether files changed between two looks at them: what a look keeps, and how two are compared. Pure."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import TypedDict

#: So long after a write a network file system may still show the attributes of before (NFS: acregmax).
LATE_NS = 120 * 10**9
#: By how much its clock may differ from ours.
_CLOCKS_NS = 2 * 10**9


class Stamps(TypedDict):
    """Sums over all files of their inode numbers, times of the last write (mtime) and of the last change (ctime); the
    latest of these times in ns, and whose it is."""

    inodes: int
    written: int
    changed: int
    last_ns: int
    last: str


def none() -> Stamps:
    """Of no file."""
    return {"inodes": 0, "written": 0, "changed": 0, "last_ns": 0, "last": ""}


def add(stamps: Stamps, name: str, status: os.stat_result) -> None:
    """Add a file. The order matters."""
    stamps["inodes"] = zlib.crc32(b"%d" % status.st_ino, stamps["inodes"])
    stamps["written"] = zlib.crc32(b"%d" % status.st_mtime_ns, stamps["written"])
    stamps["changed"] = zlib.crc32(b"%d" % status.st_ctime_ns, stamps["changed"])
    if (last := max(status.st_mtime_ns, status.st_ctime_ns)) > stamps["last_ns"]:
        stamps["last_ns"], stamps["last"] = last, name


@dataclass(frozen=True)
class Difference:
    """What happened between two looks: `changed`, or why that cannot be told; empty where nothing did."""

    changed: str = ""
    unclear: str = ""


def difference(before: Stamps, after: Stamps, since_ns: int, local: bool, inodes: bool) -> Difference:
    """What two looks tell. `since_ns`: when the first was made, by our clock.

    `local`: times are right at once, and of our clock. Elsewhere the first look may have seen attributes of before the
    last write, so that a difference counts only where that write was long ago, or the new time is after the first look;
    and a change of ctime alone may be the storage's own (tiers, archives). `inodes`: a file keeps its number.
    """
    if inodes and before["inodes"] != after["inodes"]:
        return Difference("files were replaced by others")
    written = before["written"] != after["written"]
    if not written and before["changed"] == after["changed"]:
        return Difference()
    whose = f"{after['last']} was the last"
    what = f"files were written to or truncated ({whose})" if written else f"files changed (ctime; {whose})"
    if local:
        return Difference(what)
    if not written:
        return Difference(unclear=f"the ctime of files changed, and not their mtime ({whose})")
    if since_ns - before["last_ns"] > LATE_NS or after["last_ns"] > since_ns + _CLOCKS_NS:
        return Difference(what)
    return Difference(unclear="times of files changed, which may be those of their preparation, seen late")
