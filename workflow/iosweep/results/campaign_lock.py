"""The lock of a campaign's results: one process at a time measures them, cleans the target, or opens them again.

The kernel's lock (flock) ends with its owner, however that ends. It does not reach everywhere: some file systems have
none, and some mounts keep it from the other nodes. So the file also names its owner, exactly enough to see whether that
process has ended: by the kernel's boot id, the process id and its start time, or by its Slurm job.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iosweep.errors import Held, Unanswered
from iosweep.node import node_facts, procfs
from iosweep.text import printable

NAME = "lock"
#: For a process that starts at the same moment to have written its text, where the kernel does not decide.
_SETTLE_S = 0.3
#: Times that the file is opened anew because somebody removed it meanwhile.
_TRIES = 5
#: More than we write.
_MOST_BYTES = 4096
_OWNER = re.compile(
    r"(?P<text>process (?P<pid>\d{1,10}) on (?P<host>\S+)(?: \(job (?P<job>\d{1,12})\))?)"
    r"(?:\nboot (?P<boot>\S+) namespace (?P<namespace>\d+) started (?P<started>\d+))?"
)


@dataclass(frozen=True)
class Owner:
    """Who wrote a lock's text. `boot`, `namespace` (of process ids), `started` (clock ticks): empty if unknown."""

    text: str
    pid: int
    host: str
    job: str | None
    boot: str = ""
    namespace: str = ""
    started: str = ""


@dataclass(frozen=True)
class Here:
    """What is seen from this process. `started`: of the process that has the owner's id; empty: there is none, None:
    there is one, and /proc does not show when it started."""

    host: str
    boot: str
    namespace: str
    started: str | None


def owner(text: str) -> Owner | None:
    """Who a lock's text names; None where it names no process. Pure."""
    match = _OWNER.fullmatch(text.strip())
    if not match:
        return None
    found = match.groupdict(default="")
    return Owner(
        printable(found["text"]),
        int(found["pid"]),
        printable(found["host"]),
        found["job"] or None,
        found["boot"],
        found["namespace"],
        found["started"],
    )


def ended(owner: Owner, here: Here) -> bool | None:
    """Whether the process that a lock names has ended; None where that cannot be seen from here. Pure."""
    if not owner.boot:
        return None
    if owner.boot != here.boot:
        return True if owner.host == here.host else None  # this machine has been restarted since
    if owner.namespace != here.namespace or here.started is None:
        return None
    return owner.started != here.started


def here(pid: int) -> Here:
    """What is seen from here of the process with this id."""
    return Here(node_facts.host(), _boot(), _namespace(), _started(pid))


def kernel_holders(status: os.stat_result, named: Owner | None, locks: Path = Path("/proc/locks")) -> list[str]:
    """Process ids that hold a flock of a file, as far as they are on this machine and in our namespace.

    `named`: who its text names. A file may be shown with another device than it has (btrfs, overlay).
    """
    try:
        lines = [line.split() for line in locks.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError):
        return []
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    found = []
    for line in lines:  # 1: FLOCK  ADVISORY  WRITE 4242 fe:01:1835021 0 EOF
        if line[1:2] != ["FLOCK"] or line[5].rpartition(":")[2] != str(status.st_ino):
            continue
        if line[5].rpartition(":")[0] == device or (named and line[4] == str(named.pid)):
            found.append(line[4])
    return found


class Lock:
    """A campaign's lock, held. `note`: what others should know of how far it reaches, or None."""

    def __init__(self, file: Path, handle: int, note: str | None):
        self._file, self._handle, self.note = file, handle, note

    def in_place(self) -> bool:
        """Whether the file is still the one that was locked. A link to it does not count."""
        return _same(self._handle, self._file)


@contextmanager
def hold(file: Path, job: str | None, lives: Callable[[str], bool], certain: bool = False) -> Iterator[Lock]:
    """Hold a campaign. Raises Held if another process has it, OSError where `file` cannot be its lock.

    `job`: the Slurm job that we are in. `lives` says of another one whether it does; it may raise Unanswered,
    which is passed on unless the lock itself shows that its owner has ended. `certain`: an owner whose end cannot be
    seen counts as alive, whatever the kernel's lock says.
    """
    handle, without = _take(file)
    mine = b""
    try:
        text = _text(handle)
        unseen = _unseen(file, text, job, lives)
        if unseen and (certain or without):
            raise Held(
                f"may still be measured by {unseen}, whose end cannot be seen from here; see that it has ended,"
                f" then remove {file}"
            )
        note = f"{file} names {unseen}, whose end cannot be seen from here; nothing else holds it" if unseen else None
        mine = _mine(job)
        os.ftruncate(handle, 0)
        os.pwrite(handle, mine, 0)
        if without:
            note = (
                f"the file system of the results has no locks ({without}): other runs of this campaign are seen by what"
                f" they write into {file}, and on other nodes not at once"
            )
            _settle(file, mine)
        yield Lock(file, handle, note)
    finally:
        with contextlib.suppress(OSError):  # a disk that is lost: why we end is worth more
            if mine and os.pread(handle, _MOST_BYTES, 0) == mine:
                os.ftruncate(handle, 0)
        os.close(handle)


def _unseen(file: Path, text: str, job: str | None, lives: Callable[[str], bool]) -> str | None:
    """Who may hold a lock by its text, without it being seen from here. Raises Held if that process lives."""
    if not text:
        return None
    named = owner(text)
    if named is None:
        return f"an unknown process ({file} holds {shown(text)})"
    over = ended(named, here(named.pid))
    if over is False:
        raise Held(_measured_by(named.text), named.job)
    if named.job and named.job != job:  # not every mount takes its locks to the other nodes
        try:
            alive = lives(named.job)
        except Unanswered:
            if not over:
                raise
            alive = False
        if alive:
            raise Held(_measured_by(named.text), named.job)
        return None
    return None if over or named.job else named.text


def shown(text: str) -> str:
    """A lock's text for a sentence: one line, not too long."""
    return f"`{printable(text[:60])}`"


def _measured_by(text: str) -> str:
    return f"is being measured by {text}; wait for it, or stop it"


def _take(file: Path) -> tuple[int, str]:
    """A handle of the file, locked; and why there are no locks there, if there are none."""
    for _ in range(_TRIES):
        handle = _open(file)
        without = ""
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _held(file, handle) from None
            except OSError as error:  # Lustre without `-o flock`
                without = error.strerror or str(error)
            if _same(handle, file):
                return handle, without
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise OSError(errno.ESTALE, "is removed again and again while it is locked", str(file))


def _open(file: Path) -> int:
    """Open the lock, make it if need be: a regular file with one name. What a link leads to is never touched."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        status = file.lstat()
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            return os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o666)
        status = file.lstat()
    _check(file, status)
    try:
        handle = os.open(file, flags)
    except FileNotFoundError:
        return _open(file)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):  # replaced since
            _check(file, file.lstat())
        raise
    try:
        _check(file, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check(file: Path, status: os.stat_result) -> None:
    """Raise OSError if this cannot be a lock of ours."""
    if wrong := unfit(status):
        raise OSError(
            errno.EINVAL, f"the lock {wrong} and is left alone; remove it, and the next run makes another", str(file)
        )


def unfit(status: os.stat_result) -> str | None:
    """Why something cannot be a lock of ours, or None. Pure."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        is_a = {stat.S_IFLNK: "is a symbolic link", stat.S_IFDIR: "is a directory", stat.S_IFIFO: "is a FIFO"}
        return f"{is_a.get(kind, 'is not a regular file')} (of user {_user(status.st_uid)})"
    if status.st_nlink > 1:
        return f"has another name as well (a hard link; it belongs to user {_user(status.st_uid)})"
    return None


def _held(file: Path, handle: int) -> Held:
    """Who has the kernel's lock. The text counts if its process is among those that do, or none is seen."""
    named = owner(_text(handle))
    pids = kernel_holders(os.fstat(handle), named)
    if not pids or (named and str(named.pid) in pids):
        return Held(_measured_by(named.text if named else "another process"), named.job if named else None)
    whom = f"process {pids[0]} of user {_user_of(pids[0])}"
    return Held(
        f"cannot be locked: {whom} holds {file}, and has not written into it as a run of iosweep does; end it, or"
        " remove the file, and the next run makes another"
    )


def _settle(file: Path, mine: bytes) -> None:
    """Where the kernel does not decide: see that nobody else took it at the same moment. Raises Held."""
    time.sleep(_SETTLE_S)
    text = read(file)
    if text.encode() != mine.strip():
        other = owner(text)
        raise Held(_measured_by(other.text if other else "another process"), other.job if other else None)


def read(file: Path) -> str:
    """A lock's text; empty where nothing holds it, or where it is not a file of ours."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return "" if unfit(os.fstat(handle)) else _text(handle)
    except OSError:
        return ""
    finally:
        os.close(handle)


def _text(handle: int) -> str:
    return os.pread(handle, _MOST_BYTES, 0).decode("utf-8", "replace").strip("\0 \n")


def _mine(job: str | None) -> bytes:
    pid = os.getpid()
    who = f"process {pid} on {node_facts.host()}" + (f" (job {job})" if job else "")
    seen = here(pid)
    exactly = f"boot {seen.boot} namespace {seen.namespace} started {seen.started}\n"
    return f"{who}\n{exactly if seen.boot and seen.started else ''}".encode()


def _same(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.lstat())
    except OSError:
        return False


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return "0"


def _started(pid: int) -> str | None:
    """When a process started; empty where there is none, None where /proc hides it (hidepid)."""
    fields = procfs.stat(str(pid))
    if len(fields) > 19:
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except (PermissionError, OverflowError):
        pass
    return None


def _user_of(pid: str) -> str:
    try:
        return _user(Path(f"/proc/{pid}").stat().st_uid)
    except OSError:
        return "unknown"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
