"""A lock that is the flock of a file: of the target (in a directory that all campaigns see), and of the results.

A lock that is a file's existence (O_EXCL) would have to be taken over from owners that died: a living process may have
the number of a dead one, and two processes may take it over at once. The kernel releases a flock when its owner ends,
however that happens, and gives it to one process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time
from pathlib import Path

from iosweep.node import procfs
from iosweep.target import lock_owner, mounts

#: The system's errors where something else than a file is.
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}
#: What a lock is called over which another file is mounted.
MOUNTED = "a mount point"
#: Attempts to open a file that is removed before it is locked.
_TRIES = 5
#: Time after which who only looks (`look`) has released a lock, in seconds.
_LOOK_S = 0.05
#: The mode that all users need to take the lock.
_READABLE = 0o444
#: Bytes that are read of a file.
_MOST_BYTES = 1 << 16


class Taken(Exception):
    """Another process has the lock. `pids`: from the kernel, none if it does not know; `content`: of the file."""

    def __init__(self, content: bytes, pids: list[str]):
        self.content, self.pids = content, pids
        super().__init__(f"held by {pids}")


class Planted(OSError):
    """Something else than a plain file with one name is there. `kind`: `a symbolic link`; `user`: its owner."""

    def __init__(self, file: Path, kind: str, user: str):
        self.kind, self.user = kind, user
        super().__init__(errno.EINVAL, f"is {kind} of user {user}, and is left alone", str(file))


class LockFile:
    """A lock file, open and locked. `without`: why its file system has no locks, empty where it has."""

    def __init__(self, file: Path, handle: int):
        self._file, self._handle, self.without = file, handle, ""
        self.status = os.fstat(handle)

    def lock(self) -> None:
        """Raises Taken; sets `without`."""
        try:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_S)
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = self.content()
            named = lock_owner.read(text)
            raise Taken(text, procfs.flocks(self.status, named.pid if named else None)) from None
        except OSError as error:  # Lustre without `-o flock`
            self.without = error.strerror or str(error)

    def content(self) -> bytes:
        return os.pread(self._handle, _MOST_BYTES, 0)

    def write(self, text: bytes) -> None:
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, text, 0)

    def in_place(self) -> bool:
        """Whether the file is still the one that was locked. A link to it does not count."""
        try:
            return os.path.samestat(self.status, self._file.lstat())
        except OSError:
            return False

    def close(self) -> None:
        """Unlock and close it."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_UN)  # closing is not enough if a forked child has it, too
        os.close(self._handle)


def take(file: Path, make: bool = True, shared: bool = False) -> LockFile:
    """Open and lock a file. `make`: if it does not exist. `shared`: for all users, whatever the umask; a file of
    another user that can only be read is enough.

    Raises Taken, Planted, FileNotFoundError and other OSErrors. Where the file system has no locks, `without` says so.
    """
    for _ in range(_TRIES):
        taken = LockFile(file, _open(file, make, shared))
        try:
            taken.lock()
            if taken.in_place():
                return taken
        except BaseException:
            taken.close()
            raise
        taken.close()
    raise OSError(errno.ESTALE, "is removed again and again while it is locked", str(file))


def look(file: Path, shared: bool = False) -> bytes:
    """The content of a lock that could be taken. Nothing is written.

    The kernel lists who holds it. It is not tried: a run that begins in that moment would find it taken. But in a
    container (a PID namespace) the list leaves out the holders outside. There the lock is taken, shared, and released
    at once; `LockFile.lock` tries twice, so that this refuses no run. Raises as `take` with `make=False` does; a
    holder that the kernel does not list, on another machine, is not seen outside a container.
    """
    handle = _open(file, make=False, shared=shared)
    try:
        content = os.pread(handle, _MOST_BYTES, 0)
        named = lock_owner.read(content)
        if pids := procfs.flocks(os.fstat(handle), named.pid if named else None):
            raise Taken(content, pids)
        if not procfs.shows_machine() and _is_held(handle):
            raise Taken(content, [])
        return content
    finally:
        os.close(handle)


def _is_held(handle: int) -> bool:
    """Whether a process has the lock exclusively; for a moment it is ours, shared, if none has."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the file system has no locks
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return False


def read(file: Path) -> bytes:
    """The content of a lock that is not taken; empty if there is none, or no plain file."""
    try:
        handle = _checked(file, os.open(file, os.O_RDONLY | _FLAGS))
    except OSError:
        return b""
    try:
        return os.pread(handle, _MOST_BYTES, 0)
    except OSError:
        return b""
    finally:
        os.close(handle)


def doubt(taken: LockFile, file: Path) -> str | None:
    """Why another campaign may not see a lock that we have; None where it would."""
    try:
        status = file.lstat()
    except OSError as error:
        return f"it cannot be found any more ({error.strerror})"
    if not os.path.samestat(taken.status, status):
        return f"another file of user {procfs.user_name(status.st_uid)} is in its place"
    if status.st_mode & _READABLE != _READABLE:
        return f"other users cannot open it{whose(file)}"
    if _keeps_out(file):
        return f"its access control list keeps users out{whose(file)}"
    return None


def _keeps_out(file: Path) -> bool:
    """Whether a POSIX access control list has an entry that may not read: the mode shows none of the named users."""
    try:
        found = os.getxattr(file, "system.posix_acl_access", follow_symlinks=False)
    except OSError:  # there is none
        return False
    return any(not rights & 4 for _, rights, _ in struct.iter_unpack("<HHI", found[4:]))  # tag, rights, id


def whose(file: Path) -> str:
    """` (a file of user ann, mode 0600)`; empty where nothing is."""
    try:
        status = file.lstat()
    except OSError:
        return ""
    return f" (a file of user {procfs.user_name(status.st_uid)}, mode {stat.S_IMODE(status.st_mode):04o})"


_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO would wait for its other end


def _open(file: Path, make: bool, shared: bool) -> int:
    """A handle of the file, which is made if need be.

    O_CREAT only where there is none: in a sticky directory it is refused for a file of another user
    (fs.protected_regular).
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            _check(file, file.lstat())
        try:
            return _checked(file, os.open(file, os.O_RDWR | _FLAGS))
        except PermissionError:
            if not shared:
                raise
            return _checked(file, os.open(file, os.O_RDONLY | _FLAGS))
        except FileNotFoundError:
            if not make:
                raise
            mask = os.umask(0) if shared else None
            try:
                return os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666)
            finally:
                if mask is not None:
                    os.umask(mask)
    except FileExistsError:  # another process was faster
        return _open(file, make, shared)
    except Planted:
        raise
    except OSError as error:
        raise _planted(file) if error.errno in _NO_FILE else error from None


def _checked(file: Path, handle: int) -> int:
    try:
        _check(file, os.fstat(handle))
        if _is_mounted(file, handle):
            raise Planted(file, MOUNTED, procfs.user_name(os.fstat(handle).st_uid))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_mounted(file: Path, handle: int) -> bool:
    """Whether another file is mounted over it, which would be emptied."""
    folder = os.open(file.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return mounts.mount_of(folder) != mounts.mount_of(handle)
    finally:
        os.close(folder)


def _check(file: Path, status: os.stat_result) -> None:
    """Raises Planted. With another name it may be anybody's file."""
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise _planted(file)


def _planted(file: Path) -> OSError:
    try:
        status = file.lstat()
    except OSError:
        return OSError(errno.ESTALE, "was no plain file, and is gone", str(file))
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), f"a file with {status.st_nlink} names")
    return Planted(file, kind, procfs.user_name(status.st_uid))
