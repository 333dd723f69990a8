"""Space on the target: quotas that bind the running user, and whether a campaign fits.

Of users and groups: from the kernel for file systems that leave quotas to it (ext4, XFS), from `lfs` on Lustre. Not
asked for: those of projects, whose directories df shows as full as they are (and so does identify.read_space); those
of servers behind NFS. Other quotas show as EDQUOT only.

`read_room` runs in the agent, before every step: it starts no process but on Lustre. The rest is pure.
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from iosweep.errors import Obstacle
from iosweep.target import identify
from iosweep.text import human_count
from iosweep.units import human_size

_LIBC = ctypes.CDLL(None, use_errno=True)

#: linux/quota.h: Q_GETQUOTA, and the unit of the limits in bytes (what is used is in bytes).
_GETQUOTA, _UNIT = 0x800007, 1024
#: struct if_dqblk: hard and soft limit, use; the same of files; two times; what is valid.
_DQBLK = struct.Struct("=8QI4x")
#: Kinds of quota: their number for the kernel, and their option of `lfs quota`.
_KINDS = {"user": (0, "-u"), "group": (1, "-g")}
#: `lfs quota -q`: used KiB, soft and hard limit, grace; the same of files. `*` is over its quota, `[]` inexact.
_LFS = re.compile(r"\s\[?(\d+)\]?\*?\s+(\d+)\s+(\d+)\s+\S+\s+\[?(\d+)\]?\*?\s+(\d+)\s+(\d+)\s+\S+\s")
#: Directories on Lustre where our users have no quotas: they are not asked again, which takes two processes.
_silent: set[str] = set()

#: Used bytes, soft and hard limit; the same of files. A limit of 0 is none.
_Use = tuple[int, int, int, int, int, int]


class Quota(TypedDict):
    """`scope`: `user 1000`. A limit is None if there is none."""

    scope: str
    used_bytes: int
    limit_bytes: int | None
    used_files: int
    limit_files: int | None


class Room(TypedDict):
    """The file system, its free space (identify.read_space) and the quotas."""

    file_system: identify.FileSystem
    space: dict[str, int]
    quotas: list[Quota]


def read_room(directory: str) -> Room:
    """The facts that decide whether something may be written, in one request, which takes up to 1 ms of CPU time.

    Raises OSError and Refused where the directory cannot be looked at.
    """
    facts = identify.identify(directory)
    return {"file_system": facts, "space": identify.read_space(directory), "quotas": _quotas(directory, facts)}


def _quotas(directory: str, facts: identify.FileSystem) -> list[Quota]:
    """Quotas with a limit, the smaller of the soft and the hard one."""
    status = Path(directory).stat()
    group = status.st_gid if status.st_mode & stat.S_ISGID else os.getegid()  # of new files
    found: list[Quota] = []
    if directory in _silent:
        return found
    for kind, owner in (("user", os.geteuid()), ("group", group)):
        lustre = facts["fstype"] == "lustre"
        use = _lustre(directory, kind, owner) if lustre else _kernel(facts["source"], kind, owner)
        if use and any((*use[1:3], *use[4:])):
            limits = [min(filter(None, soft_and_hard), default=None) for soft_and_hard in (use[1:3], use[4:])]
            quota: Quota = {
                "scope": f"{kind} {owner}",
                "used_bytes": use[0],
                "limit_bytes": limits[0],
                "used_files": use[3],
                "limit_files": limits[1],
            }
            found.append(quota)
    if facts["fstype"] == "lustre" and not found:
        _silent.add(directory)
    return found


def _kernel(device: str, kind: str, owner: int) -> _Use | None:
    """A quota that the kernel keeps; None if there is none, or it cannot be read."""
    answer = ctypes.create_string_buffer(_DQBLK.size)
    command = ctypes.c_int(_GETQUOTA << 8 | _KINDS[kind][0])
    if not device.startswith("/") or _LIBC.quotactl(command, os.fsencode(device), owner, answer):
        return None
    hard, soft, used, hard_files, soft_files, used_files, *_ = _DQBLK.unpack(answer.raw)
    return used, soft * _UNIT, hard * _UNIT, used_files, soft_files, hard_files


def _lustre(directory: str, kind: str, owner: int) -> _Use | None:
    argv = ["lfs", "quota", "-q", _KINDS[kind][1], str(owner), directory]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no lfs; no quotas
        return None
    # the name of the file system comes first, and may have any characters
    match = _LFS.search(os.fsdecode(done.stdout).replace(directory, "", 1) + "\n")
    if not match:
        return None
    used, soft, hard, files, soft_files, hard_files = map(int, match.groups())
    return used * _UNIT, soft * _UNIT, hard * _UNIT, files, soft_files, hard_files


_LESS = "measure less, or raise limits.share_of_free"


def too_much(
    now: Mapping[str, int],
    ours_bytes: int,
    needed_bytes: int,
    needed_inodes: int,
    limits: Mapping[str, float],
) -> Obstacle | None:
    """Why a campaign may not have `needed_bytes` there at once, or None.

    `now`: identify.read_space. `ours_bytes` of them are there already. Inodes are those that are still to come.
    """
    more = needed_bytes - ours_bytes
    free, total = now["free_bytes"], now["used_bytes"] + now["free_bytes"]
    if more > 0 and not total:
        why = "its file system does not say how much is free: it reports 0 bytes in all"
        return Obstacle(why, "are its data servers up?")
    if more > free:
        return Obstacle(
            f"{human_size(more)} more are needed, and {human_size(free)} are free", "make room, or measure less"
        )
    without_us = free + ours_bytes
    if more > 0 and needed_bytes > limits["share_of_free"] * without_us:
        why = (
            f"up to {human_size(needed_bytes)} are needed, more than {limits['share_of_free']:.0%} of the"
            f" {human_size(without_us)} that are free"
        )
        return Obstacle(why, _LESS)
    if more > 0 and now["used_bytes"] + more > limits["fill"] * total:
        why = (
            f"{human_size(more)} more would make it {(now['used_bytes'] + more) / total:.0%} full, above"
            f" limits.fill {limits['fill']:.0%}"
        )
        return Obstacle(why, "free space, or raise limits.fill")
    inodes = now["used_inodes"] + now["free_inodes"]  # 0 where the file system does not count them
    if inodes and needed_inodes > limits["share_of_free"] * now["free_inodes"]:
        why = (
            f"up to {human_count(needed_inodes, 'file is', 'files are')} needed, more than"
            f" {limits['share_of_free']:.0%} of the {now['free_inodes']:,} free inodes"
        )
        return Obstacle(why, _LESS)
    if inodes and needed_inodes and now["used_inodes"] + needed_inodes > limits["fill"] * inodes:
        more_files = human_count(needed_inodes, "more file")
        return Obstacle(f"{more_files} would use more than {limits['fill']:.0%} of its inodes (limits.fill)")
    return None


def over_quota(quotas: Sequence[Quota], needed_bytes: int, needed_inodes: int) -> Obstacle | None:
    """Why a quota has no room for so many bytes and files more, or None."""
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
    """For the end of a sentence, where we have deleted files and there is still no space."""
    return (
        f". This run has deleted {human_size(deleted_bytes)}: the file system may keep deleted files for a time (trash,"
        " snapshots). Empty its trash, or wait until it has; the next run goes on from there"
    )
