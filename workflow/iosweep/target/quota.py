"""Quotas that bind the running user on the target, where they show.

Of users and groups: from the kernel for file systems that leave quotas to it (ext4, XFS), from `lfs` on Lustre. Of
subvolumes: on btrfs. Not asked for: those of projects, whose directories df shows as full as they are (and so does
target.space); of servers behind NFS; of qgroups above a subvolume's own. Other quotas show as EDQUOT only.

`room` runs in the agent, before every step: it starts no process but on Lustre.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import stat
import struct
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from iosweep.target import identify

_LIBC = ctypes.CDLL(None, use_errno=True)

#: linux/quota.h: Q_GETQUOTA, the kinds of quota, and the unit of the limits in bytes (what is used is in bytes).
_GETQUOTA, _USER, _GROUP, _UNIT = 0x800007, 0, 1, 1024
#: struct if_dqblk: hard and soft limit, use; the same of files; two times; what is valid.
_DQBLK = struct.Struct("=8QI4x")
#: System call of Linux 5.14, of the same number on all architectures but Alpha.
_QUOTACTL_FD = 443

#: linux/btrfs.h: ioctls for the file system's UUID, and for the subvolume of a directory; its first object.
_FS_INFO, _INO_LOOKUP, _FIRST_OBJECT = 0x8400941F, 0xD0009412, 256
#: Flags of a qgroup, with the names of its limit and of its use in sysfs.
_QGROUP = ((1, "max_referenced", "referenced"), (2, "max_exclusive", "exclusive"))

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
        if facts["fstype"] == "btrfs":
            found = _btrfs(handle)
        elif facts["fstype"] == "lustre":
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


def _btrfs(handle: int) -> list[Quota]:
    """Limits of the subvolume, of sysfs (Linux 5.9), where every user may read them.

    What is reserved counts as used, as it does when the kernel refuses a write. Without quotas there is no directory.
    """
    asked = bytearray(struct.pack("=2Q", 0, _FIRST_OBJECT).ljust(4096, b"\0"))
    about = bytearray(1024)
    try:
        fcntl.ioctl(handle, _INO_LOOKUP, asked)
        fcntl.ioctl(handle, _FS_INFO, about)
        (subvolume,) = struct.unpack_from("=Q", asked)
        qgroup = Path(f"/sys/fs/btrfs/{uuid.UUID(bytes=bytes(about[16:32]))}/qgroups/0_{subvolume}")
        value = {file.name: int(file.read_text()) for file in qgroup.iterdir()}
    except OSError:
        return []
    reserved = sum(size for name, size in value.items() if name.startswith("rsv_"))
    return [
        _quota(f"subvolume {subvolume}", value[used] + reserved, [value[limit]], 0, [])
        for flag, limit, used in _QGROUP
        if value["limit_flags"] & flag
    ]


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
