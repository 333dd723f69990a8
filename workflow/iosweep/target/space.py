"""Space on the target: quotas of the running user, and whether a campaign fits.

Quotas of users and groups are read on Lustre only, by `lfs`. Project quotas need no reading: df and
identify.read_space already show them as the size of the directory. Any other quota shows only as EDQUOT.

`read_room` runs in the agent before every step; it starts a process only on Lustre. The rest is pure.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from iosweep.errors import Obstacle
from iosweep.target import identify
from iosweep.text import human_count
from iosweep.units import human_size

#: `lfs quota -q`: used KiB, soft and hard limit, grace; then these four for files. `*`: over quota; `[]`: inexact.
_LFS = re.compile(r"\s\[?(\d+)\]?\*?\s+(\d+)\s+(\d+)\s+\S+\s+\[?(\d+)\]?\*?\s+(\d+)\s+(\d+)\s+\S+\s")
#: Directories on Lustre without quotas for this user: another query would start two processes.
_without_quota: set[str] = set()


class Quota(TypedDict):
    """A quota and its use. A limit is 0 if there is none."""

    scope: str  # `user 1000`
    used_bytes: int
    limit_bytes: int
    used_files: int
    limit_files: int


class Room(TypedDict):
    """The file system, its free space (identify.read_space) and the quotas on it."""

    file_system: identify.FileSystem
    space: dict[str, int]
    quotas: list[Quota]


def read_room(directory: str) -> Room:
    """Read the facts that decide whether bytes may be written, in one request of up to 1 ms of CPU time.

    Raises OSError and Refused if the directory cannot be examined.
    """
    facts = identify.identify(directory)
    may_have_quota = facts["fstype"] == "lustre" and directory not in _without_quota
    quotas = _read_quotas(directory) if may_have_quota else []
    if may_have_quota and not quotas:
        _without_quota.add(directory)
    return {"file_system": facts, "space": identify.read_space(directory), "quotas": quotas}


def _read_quotas(directory: str) -> list[Quota]:
    """Read the quotas of this user and group that have a limit: the lower of the soft and hard limits."""
    status = Path(directory).stat()
    group = status.st_gid if status.st_mode & stat.S_ISGID else os.getegid()  # the group of new files
    quotas: list[Quota] = []
    for kind, option, owner in (("user", "-u", os.geteuid()), ("group", "-g", group)):
        argv = ["lfs", "quota", "-q", option, str(owner), directory]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):  # no lfs; no quotas
            continue
        # the output begins with the directory, which may have any characters
        if not (match := _LFS.search(os.fsdecode(done.stdout).replace(directory, "", 1) + "\n")):
            continue
        used, soft, hard, files, soft_files, hard_files = map(int, match.groups())
        if soft or hard or soft_files or hard_files:
            quota: Quota = {
                "scope": f"{kind} {owner}",
                "used_bytes": used * 1024,
                "limit_bytes": min(filter(None, (soft, hard)), default=0) * 1024,
                "used_files": files,
                "limit_files": min(filter(None, (soft_files, hard_files)), default=0),
            }
            quotas.append(quota)
    return quotas


_SHARE, _FILL = "limits.share_of_free", "limits.fill"
_REMEDY = f"measure less, or raise {_SHARE}"


def shortage(room: Room, ours_bytes: int, bytes_: int, inodes: int, limits: Mapping[str, float]) -> Obstacle | None:
    """Why a campaign does not fit, by space or quota; arguments as for `too_much`."""
    short = too_much(room["space"], ours_bytes, bytes_, inodes, limits)
    return short or over_quota(room["quotas"], max(0, bytes_ - ours_bytes), inodes)


def too_much(
    usage: Mapping[str, int],
    ours_bytes: int,
    needed_bytes: int,
    needed_inodes: int,
    limits: Mapping[str, float],
) -> Obstacle | None:
    """Why a campaign may not occupy `needed_bytes` on the target, or None.

    `usage`: identify.read_space. `ours_bytes`: the part of `needed_bytes` already there. `needed_inodes`: inodes
    still to be created.
    """
    more = needed_bytes - ours_bytes
    free, total = usage["free_bytes"], usage["used_bytes"] + usage["free_bytes"]
    if more > 0 and not total:
        shortage = "its file system does not say how much is free: it reports 0 bytes in all"
        return Obstacle(shortage, "are its data servers up?")
    if more > free:
        return Obstacle(
            f"{human_size(more)} more are needed, and {human_size(free)} are free", "make room, or measure less"
        )
    without_us = free + ours_bytes
    if more > 0 and needed_bytes > limits["share_of_free"] * without_us:
        shortage = (
            f"up to {human_size(needed_bytes)} are needed, more than {limits['share_of_free']:.0%} of the"
            f" {human_size(without_us)} that are free"
        )
        return Obstacle(shortage, _REMEDY, key=_SHARE)
    if more > 0 and usage["used_bytes"] + more > limits["fill"] * total:
        shortage = (
            f"{human_size(more)} more would make it {(usage['used_bytes'] + more) / total:.0%} full, above"
            f" limits.fill {limits['fill']:.0%}"
        )
        return Obstacle(shortage, f"free space, or raise {_FILL}", key=_FILL)
    inodes = usage["used_inodes"] + usage["free_inodes"]  # 0 if the file system does not count inodes
    if inodes and needed_inodes > usage["free_inodes"]:
        needed = human_count(needed_inodes, "more file is", "more files are")
        return Obstacle(f"{needed} needed, and {usage['free_inodes']:,} inodes are free", "make room, or measure less")
    if inodes and needed_inodes > limits["share_of_free"] * usage["free_inodes"]:
        shortage = (
            f"up to {human_count(needed_inodes, 'file is', 'files are')} needed, more than"
            f" {limits['share_of_free']:.0%} of the {usage['free_inodes']:,} free inodes"
        )
        return Obstacle(shortage, _REMEDY, key=_SHARE)
    if inodes and needed_inodes and usage["used_inodes"] + needed_inodes > limits["fill"] * inodes:
        more_files = human_count(needed_inodes, "more file")
        return Obstacle(f"{more_files} would use more than {limits['fill']:.0%} of its inodes ({_FILL})", key=_FILL)
    return None


def over_quota(quotas: Sequence[Quota], needed_bytes: int, needed_inodes: int) -> Obstacle | None:
    """Why a quota does not allow this many more bytes and files, or None."""
    for quota in quotas:
        rows = (
            (quota["limit_bytes"], quota["used_bytes"], needed_bytes, human_size, "more"),
            (quota["limit_files"], quota["used_files"], needed_inodes, "{:,}".format, "more files"),
        )
        for limit, used, needed, text, more in rows:
            if limit and needed and used + needed > limit:
                return Obstacle(
                    f"the quota of {quota['scope']} has no room for {text(needed)} {more}: {text(used)} of"
                    f" {text(limit)} are used",
                    "measure less, or have it raised",
                )
    return None


def not_freed(deleted_bytes: int) -> str:
    """The end of a message about a lack of space, if this run has deleted files."""
    return (
        f". This run has deleted {human_size(deleted_bytes)}: the file system may keep deleted files for a time (trash,"
        " snapshots). Empty its trash, or wait until it has; the next run goes on from there"
    )
