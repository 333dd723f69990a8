"""One campaign at a time per file system: a lock that the kernel frees with its owner.

One file per file system, for ever, in a directory that all campaigns see. Who holds its flock measures; what stands in
it says who that is. A lock that is a file's existence (O_EXCL) would have to be taken over from owners that died: it
takes a dead process for a living one that got its number, and two heirs may come at once. A flock ends with its owner,
however that ends, and has one heir.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pwd
import re
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from iosweep import filesystem, fs_types, slurm

#: Where the locks are if the configuration names no directory.
DEFAULT = "/tmp"  # noqa: S108 - everybody's on purpose: what somebody plants there is refused

#: What the system says where something else than a file is.
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
#: A file that is removed again and again before it is locked is nobody's lock.
_TRIES = 5


class Busy(Exception):
    """Another campaign measures this file system; the message is for the user. `job`: its Slurm job, if it has one."""

    def __init__(self, message: str, job: str | None = None):
        self.job = job
        super().__init__(message)


class Unusable(Exception):
    """The lock cannot be where it has to be. The message is for the user."""


@dataclass(frozen=True)
class Exclusion:
    """What keeps others off. `note`: from whom the lock was taken over, or None."""

    enforced: bool
    evidence: str
    note: str | None = None


def identity(facts: Mapping[str, Any]) -> str:
    """Which file system it is, of target.identify's facts (filesystem.identity).

    Not always the fsid: each mount of NFS may have another one, and each subvolume of btrfs has. Pure.
    """
    return filesystem.identity(facts)


@contextmanager
def hold(directory: str | None, identity: str, owner: Mapping[str, Any]) -> Iterator[Exclusion]:
    """Keep other campaigns off a file system, and say how far that reaches.

    `directory`: target.lock. `owner`: {campaign, results, and in Slurm job}; process, user, host and time are added.
    Raises Busy if another campaign holds the lock, Unusable where there can be none.
    """
    place = Path(directory or DEFAULT).absolute()
    if directory is not None and not place.is_dir():
        raise Unusable(f"target.lock {place} is not a directory; make it where all campaigns see it, or leave it out")
    file = place / f"iosweep-{hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]}.lock"
    handle = None
    try:
        handle = _take(file, identity)
    except OSError as error:  # no locks there, no permission, read-only, full
        why = error.strerror
    if handle is None:
        yield Exclusion(False, f"the lock {file} cannot be taken: {why}")
        return
    try:
        left = _content(handle)
        job = (_owner(left) or {}).get("job")
        lives = None if job is None else _lives(job) and job != owner.get("job")
        if lives:  # not every mount takes its locks to the other nodes
            raise Busy(
                f"the file system {identity} is being measured by {_describe(left)}; two at once would falsify each"
                f" other: wait for it, or stop it with `scancel {job}` (its lock is {file})",
                job,
            )
        _write(handle, json.dumps(_self(identity) | dict(owner)).encode())
        try:
            yield _exclusion(file, directory is not None, identity.partition(" ")[0], left, ended=lives is False)
        finally:
            _write(handle, b"")  # so what is left was left by an owner that was killed
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough if a forked child has it, too
        os.close(handle)


def _lives(job: str) -> bool | None:
    """Whether a Slurm job lives; None where that cannot be seen, which does not mean that it is dead."""
    try:
        return slurm.lives(job)
    except slurm.Unanswered:
        return None


def _take(file: Path, identity: str) -> int:
    """Handle of the lock file, locked. Raises OSError where there are no locks."""
    for _ in range(_TRIES):
        handle = _open(file)
        try:
            if _lock(handle, file, identity):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


def _lock(handle: int, file: Path, identity: str) -> bool:
    """Lock it; whether it is the lock still, or somebody tidied up since it was opened."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # with another name it may be anybody's file
        raise _no_file(file)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        content = _content(handle)
        raise Busy(
            f"the file system {identity} is being measured by {_describe(content)}; two at once would falsify"
            f" each other: wait for it, or stop it (its lock is {file})",
            (_owner(content) or {}).get("job"),
        ) from None
    try:
        return os.path.samestat(status, file.lstat())
    except FileNotFoundError:
        return False


def _open(file: Path) -> int:
    """Open the lock file, make it if need be, for all users whatever the umask.

    O_CREAT only where there is none: in a sticky directory it is refused for a file of another user
    (fs.protected_regular).
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO would wait for its other end
    try:
        try:
            return os.open(file, os.O_RDWR | flags)
        except PermissionError:  # another user's, with a mode that was changed: enough for a lock
            return os.open(file, os.O_RDONLY | flags)
        except FileNotFoundError:
            mask = os.umask(0)
            try:
                return os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o666)
            finally:
                os.umask(mask)
    except FileExistsError:  # another one was faster
        return _open(file)
    except OSError as error:
        raise _no_file(file) if error.errno in _NO_FILE else error from None


def _no_file(file: Path) -> Unusable:
    return Unusable(
        f"{file} is no plain file, and is left alone; remove it, or name another directory for the lock: target.lock"
    )


def _content(handle: int) -> bytes:
    return os.pread(handle, 1 << 16, 0)


def _write(handle: int, content: bytes) -> None:
    with contextlib.suppress(OSError):  # a full disk, a file that we may only read: it is held all the same
        os.ftruncate(handle, 0)
        os.pwrite(handle, content, 0)


def _self(identity: str) -> dict[str, Any]:
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return {
        "user": user,
        "uid": uid,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "file system": identity,
    }


def _owner(content: bytes) -> dict[str, str] | None:
    """Who wrote that, or None: any user may have written anything."""
    try:
        found = json.loads(content)
        keys: tuple[str, ...] = ("pid", "user", "host", "campaign", "results", "since")
        # for a terminal, so nothing that steers one
        keys = (*keys, "job") if "job" in found and re.fullmatch(r"\d{1,12}", str(found["job"])) else keys
        return {key: "".join(c if c.isprintable() else "?" for c in str(found[key])[:200]) for key in keys}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _describe(content: bytes) -> str:
    if not (owner := _owner(content)):  # or it is just being written
        return "another process"
    job = f"job {owner['job']}, " if "job" in owner else ""
    return (
        f"{job}process {owner['pid']} of user {owner['user']} on host {owner['host']} (campaign {owner['campaign']},"
        f" results in {owner['results']}, since {owner['since']})"
    )


def _exclusion(file: Path, configured: bool, fstype: str, left: bytes, ended: bool) -> Exclusion:
    """What a lock that was taken is worth. `left`: what the owner before left in it; `ended`: Slurm says it has."""
    if configured:
        enforced, evidence = True, f"no other campaign that locks in {file.parent} ({file.name})"
    elif fs_types.of(fstype).local:  # a lock on this machine keeps off all that could disturb
        enforced, evidence = True, f"no other campaign on this machine (lock {file})"
    else:
        enforced = False
        evidence = (
            f"only campaigns on this machine are kept off ({file}); set target.lock to a directory that all nodes see"
        )
    if not left:
        return Exclusion(enforced, evidence)
    note = f"the lock {file} was left by {_describe(left)}, which is gone; taken over"
    owner = _owner(left)
    if owner and owner["host"] != socket.gethostname() and not ended:
        # not every mount of a network file system takes its locks to the other nodes (`localflock`, `local_lock`)
        enforced, evidence = False, f"{file} names a campaign on host {owner['host']}; from here its end cannot be seen"
        note = f"the lock {file} was left by {_describe(left)}, and was free from here; taken over"
    return Exclusion(enforced, evidence, note)
