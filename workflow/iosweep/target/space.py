"""Space on the target: quotas that bind the running user, and whether a campaign fits.

Of users and groups: from the kernel for file systems that leave quotas to it (ext4, XFS), from `lfs` on Lustre. Not
asked for: those of projects, whose directories df shows as full as they are (and so does identify.space); of servers
behind NFS. Other quotas show as EDQUOT only.

`room` runs in the agent, before every step: it starts no process but on Lustre. The rest is pure.
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
import struct
import subprocess
from collections.abc import Mapping, Sequence
from typing import TypedDict

from iosweep.errors import Obstacle
from iosweep.target import identify
from iosweep.text import human_count
from iosweep.units import human_size

_LIBC = ctypes.CDLL(None, use_errno=True)

#: linux/quota.h: Q_GETQUOTA, the kinds of quota, and the unit of the limits in bytes (what is used is in bytes).
_GETQUOTA, _USER, _GROUP, _UNIT = 0x800007, 0, 1, 1024
#: struct if_dqblk: hard and soft limit, use; the same of files; two times; what is valid.
_DQBLK = struct.Struct("=8QI4x")
#: System call of Linux 5.14, of the same number on all architectures but Alpha.
_QUOTACTL_FD = 443

#: `lfs quota -q`: used KiB, soft and hard limit, grace; the same of files. `*` is over its quota, `[]` inexact.
_LFS = re.compile(r"\s\[?(\d+)\]?\*?\s+(\d+)\s+(\d+)\s+(\S+)\s+\[?(\d+)\]?\*?\s+(\d+)\s+(\d+)\s+(\S+)\s")
#: Directories on Lustre without quotas of ours, as far as we know: two processes each time would ask in vain.
_silent: set[str] = set()


class Quota(TypedDict):
    """`scope`: `user 1000`, `subvolume 256`. A limit is None if there is none."""

    scope: str
    used_bytes: int
    limit_bytes: int | None
    used_files: int
    limit_files: int | None


class Room(TypedDict):
    """What there is room for: the file system, its free space (identify.space) and the quotas."""

    file_system: identify.FileSystem
    space: dict[str, int]
    quotas: list[Quota]


def room(directory: str) -> Room:
    """All that decides whether something may be written, in one question: each costs up to 1 ms of CPU time.

    Raises OSError and Refused where the directory cannot be looked at.
    """
    facts = identify.identify(directory)
    return {"file_system": facts, "space": identify.space(directory), "quotas": _quotas(directory, facts)}


def _quotas(directory: str, facts: identify.FileSystem) -> list[Quota]:
    """Quotas with a limit, the smaller of the soft and the hard one."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        status = os.fstat(handle)
        group = status.st_gid if status.st_mode & stat.S_ISGID else os.getegid()  # of new files
        owners = [(_USER, os.geteuid()), (_GROUP, group)]
        found: Sequence[Quota | None]
        if facts["fstype"] == "lustre":
            found = _lustre(directory, owners)
        else:
            found = [_kernel(handle, facts["source"], kind, owner) for kind, owner in owners]
    finally:
        os.close(handle)
    return [quota for quota in found if quota and (quota["limit_bytes"] or quota["limit_files"])]


def _quota(
    scope: str, used_bytes: int, limits_bytes: Sequence[int], used_files: int, limits_files: Sequence[int]
) -> Quota:
    return {
        "scope": scope,
        "used_bytes": used_bytes,
        "limit_bytes": min(filter(None, limits_bytes), default=None),
        "used_files": used_files,
        "limit_files": min(filter(None, limits_files), default=None),
    }


def _scope(kind: int, owner: int) -> str:
    return f"{'user' if kind == _USER else 'group'} {owner}"


def _kernel(handle: int, source: str, kind: int, owner: int) -> Quota | None:
    """A quota that the kernel keeps; None if there is none, or it cannot be read."""
    answer = ctypes.create_string_buffer(_DQBLK.size)
    command = ctypes.c_int(_GETQUOTA << 8 | kind)
    failed = _LIBC.syscall(ctypes.c_long(_QUOTACTL_FD), handle, command, owner, answer)
    if failed and source.startswith("/"):  # before Linux 5.14: by the device
        failed = _LIBC.quotactl(command, os.fsencode(source), owner, answer)
    if failed:
        return None
    hard, soft, used, hard_files, soft_files, used_files, *_ = _DQBLK.unpack(answer.raw)
    limits = [hard * _UNIT, soft * _UNIT]
    return _quota(_scope(kind, owner), used, limits, used_files, [hard_files, soft_files])


def _lustre(directory: str, owners: Sequence[tuple[int, int]]) -> list[Quota]:
    if directory in _silent:
        return []
    found = []
    for kind, owner in owners:
        argv = ["lfs", "quota", "-q", "-u" if kind == _USER else "-g", str(owner), directory]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):  # no lfs; no quotas
            continue
        # the name of the file system comes first, and may have any characters
        if match := _LFS.search(os.fsdecode(done.stdout).replace(directory, "", 1) + "\n"):
            used, soft, hard, _, files, soft_files, hard_files, _ = match.groups()
            limits = [int(soft) * _UNIT, int(hard) * _UNIT]
            found.append(
                _quota(_scope(kind, owner), int(used) * _UNIT, limits, int(files), [int(soft_files), int(hard_files)])
            )
    if not any(quota["limit_bytes"] or quota["limit_files"] for quota in found):
        _silent.add(directory)
    return found


_LESS = "measure less, or raise limits.share_of_free"


def too_much(
    now: Mapping[str, int],
    ours_bytes: int,
    needed_bytes: int,
    needed_inodes: int,
    limits: Mapping[str, float],
    kept_bytes: int = 0,
) -> Obstacle | None:
    """Why a campaign may not have `needed_bytes` there at once, or None.

    `now`: identify.space. `ours_bytes` of them are there already. Inodes are those that are still to come.
    `kept_bytes`: what we have deleted and is not free (`not_free`). Such space is our own, and makes the share of the
    others no smaller; but it can no more be written to than theirs.
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
    without_us = free + ours_bytes + kept_bytes
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


def says_nothing(now: Mapping[str, int]) -> bool:
    """Whether the file system reports 0 bytes in all, as some do while their data servers are down."""
    return not now["used_bytes"] + now["free_bytes"]


def not_free(deleted_bytes: int, expected_free_bytes: int, free_bytes: int) -> int:
    """How much of what we deleted did not become free; 0 if at least half of it did.

    `expected_free_bytes`: what would be free if all of it had, and nothing else had been written meanwhile.
    """
    lacking = min(deleted_bytes, expected_free_bytes - free_bytes)
    return lacking if deleted_bytes and 2 * lacking >= deleted_bytes else 0


def not_freed(deleted_bytes: int, kept_bytes: int) -> str:
    """A sentence on what we deleted and did not become free."""
    return (
        f"{human_size(kept_bytes)} of the {human_size(deleted_bytes)} that this run has deleted did not become free:"
        " the file system may keep deleted files for a time (trash, snapshots). Empty its trash, or wait until it has;"
        " the next run goes on from there"
    )
