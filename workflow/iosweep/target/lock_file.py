"""A lock that is the flock of a file, in a directory that all campaigns see.

A lock that is a file's existence (O_EXCL) would have to be taken over from owners that died: it takes a dead process
for a living one that got its number, and two heirs may come at once. A flock ends with its owner, however that ends,
and has one heir.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from iosweep.node import procfs
from iosweep.target.lock_text import user_name

#: What the system says where something else than a file is.
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
#: What stat says it is.
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}
#: A file that is removed again and again before it is locked is nobody's lock.
_TRIES = 5
#: For a lock a file must be open; for all users, since all of them may measure.
_READABLE = 0o444


class Held(Exception):
    """Another process has the lock. `pids`: from the kernel, none where it does not tell; `content`: of the file."""

    def __init__(self, content: bytes, pids: list[str]):
        self.content, self.pids = content, pids
        super().__init__(f"held by {pids}")


class Unavailable(Exception):
    """There can be no lock; the message says why, for the user."""


class Missing(Unavailable):
    """There is no file, and none was to be made."""


def take(file: Path, make: bool = True) -> int:
    """Handle of the lock file, locked. `make`: it is made where there is none. Raises Held, Unavailable."""
    try:
        for _ in range(_TRIES):
            handle = _open(file, make)
            try:
                if _lock(handle, file):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
    except OSError as error:
        raise Unavailable(f"{error.strerror}{_whose(file) if error.errno == errno.EACCES else ''}") from None
    raise Unavailable("it is removed again and again")


def unlock(handle: int) -> None:
    """Unlock and close it."""
    fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough if a forked child has it, too
    os.close(handle)


def content(handle: int) -> bytes:
    """The beginning of what a file has."""
    return os.pread(handle, 1 << 16, 0)


def write(handle: int, text: bytes) -> None:
    """Have a file say this, if it can be written."""
    with contextlib.suppress(OSError):  # a full disk, a file that we may only read: it is held all the same
        os.ftruncate(handle, 0)
        os.pwrite(handle, text, 0)


def doubt(ours: os.stat_result, file: Path) -> str | None:
    """Why another campaign may not see a lock that we have; None where it would."""
    try:
        status = file.lstat()
    except OSError as error:
        return f"it cannot be found any more ({error.strerror})"
    if not os.path.samestat(ours, status):
        return f"another file of user {user_name(status.st_uid)} is in its place"
    if status.st_mode & _READABLE != _READABLE:
        return f"other users cannot open it{_whose(file)}"
    return None


def _lock(handle: int, file: Path) -> bool:
    """Lock it; False if the file was removed or replaced since it was opened."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # with another name it may be anybody's file
        raise _planted(file)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Held(content(handle), procfs.flocks(status)) from None
    try:
        return os.path.samestat(status, file.lstat())
    except FileNotFoundError:
        return False


def _open(file: Path, make: bool) -> int:
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
            if not make:
                raise Missing("it is not there") from None
            mask = os.umask(0)
            try:
                return os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o666)
            finally:
                os.umask(mask)
    except FileExistsError:  # another one was faster
        return _open(file, make)
    except OSError as error:
        raise _planted(file) if error.errno in _NO_FILE else error from None


def _planted(file: Path) -> Unavailable:
    try:
        status = file.lstat()
    except OSError:
        return Unavailable("it was no plain file, and is gone")
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), f"a file with {status.st_nlink} names")
    return Unavailable(f"it is {kind} of user {user_name(status.st_uid)}, and is left alone")


def _whose(file: Path) -> str:
    """` (a file of user ann, mode 0600)`; empty where nothing is."""
    try:
        status = file.lstat()
    except OSError:
        return ""
    return f" (a file of user {user_name(status.st_uid)}, mode {stat.S_IMODE(status.st_mode):04o})"
