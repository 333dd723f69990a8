"""Locks: one run of a campaign at a time, and one campaign at a time on a file system.

A lock is a flock on a file whose text names its owner in JSON. The kernel gives the flock to one process, and
releases it when that process ends for any reason; so a free lock may be taken, regardless of the owner in its text. But
some file systems have no flock, and some mounts hide it from other nodes. There the Slurm job that the text names may
still be running, so Slurm is queried; without Slurm the exclusion is "not checked".

The results of a campaign have a lock (`take`), and so has each file system that is measured (`exclude`), unless the job
holds all instances of a Slurm license (`by_license`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from msgspec import structs

from iosweep.errors import Busy, Unanswered, Unusable
from iosweep.node import fs_types, procfs
from iosweep.slurm import query
from iosweep.target import identify
from iosweep.text import printable, shortened
from iosweep.units import local_time

#: Name of the lock in the results of a campaign.
NAME = "lock"
#: Directory of the locks of file systems without target.lock, for campaigns on this machine.
MACHINE = "/tmp"  # noqa: S108 - opened without following links, and never created over an existing file
#: Delay before the second attempt to lock: by then `holder` has released it, or its owner has written the text.
_RETRY_S = 0.05
#: Upper limit for reading a lock.
_MAX_BYTES = 1 << 14
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # nonblocking: opening a FIFO would block


class Owner(msgspec.Struct, frozen=True):
    """The process that holds a lock, as its text says; `take` sets the last four fields. Unknown if `pid` is empty."""

    campaign: str = ""
    results: str = ""
    job: str = ""
    allocation: str = ""
    user: str = ""
    host: str = ""
    pid: str = ""
    since: str = ""

    @property
    def short(self) -> str:
        return f"process {self.pid} on {self.host}" if self.pid else "another process"

    def __str__(self) -> str:
        if not self.pid:
            return self.short
        job = f"job {self.job}, " if self.job else ""
        return (
            f"process {self.pid} of user {self.user} on host {self.host} ({job}campaign {self.campaign}, results in"
            f" {self.results}, since {self.since})"
        )


def read(content: bytes) -> Owner | None:
    """Parse the owner from the text of a lock; None if it is empty. Not trusted: anybody may have written it."""
    if not content.strip(b"\0 \n"):
        return None
    try:
        owner = msgspec.json.decode(content, type=Owner)
    except (ValueError, RecursionError):
        return Owner()
    fields = {name: shortened(printable(getattr(owner, name)), 200) for name in Owner.__struct_fields__}
    return Owner(**fields | ({} if re.fullmatch("[0-9]{0,12}", owner.job) else {"job": ""}))


def _read_owner(handle: int) -> Owner | None:
    return read(os.pread(handle, _MAX_BYTES, 0))


@dataclass
class Lock:
    """A lock that this process holds."""

    file: Path
    handle: int
    no_flock: str = ""  # why its file system has no flock; empty if it has

    @property
    def note(self) -> str | None:
        """A message if the lock excludes nobody, or None."""
        message = f"exclusion not checked: the file system of {self.file} has no locks ({self.no_flock})"
        return printable(message) if self.no_flock else None

    def in_place(self) -> bool:
        """Whether the path still leads to the file that was locked, and not by a link."""
        try:
            return os.path.samestat(os.fstat(self.handle), self.file.lstat())
        except OSError:
            return False

    def write(self, text: bytes) -> None:
        with contextlib.suppress(OSError):  # on a full disk the lock is held without a text
            os.ftruncate(self.handle, 0)
            os.pwrite(self.handle, text, 0)

    def close(self) -> None:
        self.write(b"")  # so that only a killed owner leaves a text
        with contextlib.suppress(OSError):
            fcntl.flock(self.handle, fcntl.LOCK_UN)  # closing is not enough if a forked child has the handle as well
        os.close(self.handle)


def take(file: Path, owner: Owner, what: str, shared: bool = False) -> Lock:
    """Lock a file, creating it if needed. Raises Busy if another process has it, OSError if `file` cannot be a lock.

    `what`: what the lock protects, for messages. `shared`: all users may take it, regardless of the umask.
    """
    lock = Lock(file, _open(file, shared))
    try:
        try:
            lock.no_flock = _flock(lock.handle)
        except BlockingIOError:
            raise _busy_error(what, _read_owner(lock.handle) or Owner()) from None
        previous = _read_owner(lock.handle)
        if previous and previous.job not in ("", owner.job):
            _check_ended(previous, file, what)
    except BaseException:
        os.close(lock.handle)
        raise
    user, now = procfs.user_name(os.getuid()), local_time().isoformat(timespec="seconds")
    owner = structs.replace(owner, user=user, host=socket.gethostname(), pid=str(os.getpid()), since=now)
    lock.write(json.dumps(structs.asdict(owner)).encode())  # not by msgspec: a path may not be UTF-8
    return lock


def holder(file: Path) -> Owner | None:
    """The current owner of a lock, or None. Briefly takes a shared lock, which is why `take` tries twice."""
    try:
        handle = os.open(file, os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_owner(handle) or Owner()
    except OSError:  # the file system has no locks
        return None
    finally:
        os.close(handle)
    return None


def _open(file: Path, shared: bool) -> int:
    """Open a lock file. O_CREAT only if it does not exist: in a sticky directory the kernel refuses O_CREAT for an
    existing file of another user (fs.protected_regular)."""
    try:
        handle = os.open(file, os.O_RDWR | _FLAGS)
    except FileNotFoundError:
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666)
        except FileExistsError:  # another process was faster
            return _open(file, shared)
        if shared:
            os.fchmod(handle, 0o666)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # a hard link may be anybody's file
        os.close(handle)
        raise OSError(errno.EINVAL, "is no plain file with one name, and is left alone; remove it", str(file))
    return handle


def _flock(handle: int) -> str:
    """Lock a file; returns why its file system has no locks, or "". Raises BlockingIOError if it is locked."""
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_RETRY_S)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:  # Lustre without `-o flock`, NFS without lockd
        return error.strerror or str(error)
    return ""


def _check_ended(previous: Owner, file: Path, what: str) -> None:
    """Raise Busy if the job that a free lock names is running, or may be: its flock may not be visible on this node."""
    try:
        alive = query.lives(previous.job)
    except Unanswered as error:
        if query.has_no_cluster(error.said) or shutil.which("scontrol") is None:  # without Slurm no job can hold it
            return
        message = f"{what} may still be measured by {previous}: {error}; see that it has ended, then remove {file}"
        raise Busy(printable(message), previous.job) from None
    if alive:
        raise _busy_error(what, previous)


def _busy_error(what: str, owner: Owner) -> Busy:
    return Busy(printable(f"{what} is being measured by {owner}; wait for it, or stop it"), owner.job or None)


# One campaign at a time on a file system


@dataclass(frozen=True)
class Exclusion:
    """Whether other campaigns are kept off the file system, with the evidence."""

    enforced: bool
    evidence: str


@contextmanager
def exclude(directory: str | None, facts: Mapping[str, object], owner: Owner) -> Iterator[Exclusion]:
    """Keep other campaigns off a file system; yields whether that is enforced.

    `directory`: target.lock. `facts`: of the file system (identify.identify). Raises Busy if another campaign has the
    lock, Unusable if target.lock is not a directory.
    """
    file = file_of(directory, facts)
    place = file.parent
    if not place.is_dir():
        raise Unusable(f"target.lock {place} is not a directory", "make it where all campaigns see it, or leave it out")
    try:
        lock = take(file, owner, f"the file system {facts['fstype']} {facts['source']}", shared=True)
    except OSError as error:
        yield Exclusion(False, printable(f"exclusion not checked: the lock {file} cannot be taken: {error.strerror}"))
        return
    with contextlib.closing(lock):
        doubt = lock.note or _find_doubt(place, directory is None, fs_types.lookup(str(facts["fstype"])).local)
        yield Exclusion(not doubt, doubt or f"no other campaign that locks {printable(str(file))}")


def file_of(directory: str | None, facts: Mapping[str, object]) -> Path:
    """The lock of a file system. `directory`, `facts`: as in `exclude`."""
    name = hashlib.sha256(os.fsencode(identify.lock_name(facts))).hexdigest()[:16]
    return Path(directory or MACHINE).absolute() / f"iosweep-{name}.lock"


@contextmanager
def exclude_all(
    targets: Mapping[str, tuple[str | None, Mapping[str, object]]], owner: Owner
) -> Iterator[dict[str, Exclusion]]:
    """Keep other campaigns off the file systems of all targets; yields target -> whether that is enforced.

    `targets`: name -> the arguments of `exclude`. A lock that targets have in common is taken once. The order is that
    of the locks' paths, so that of two campaigns with the same targets one gets them all. Raises as `exclude`.
    """
    files = {name: file_of(*arguments) for name, arguments in targets.items()}
    with ExitStack() as held:
        taken: dict[Path, Exclusion] = {}
        for file, name in sorted((file, name) for name, file in files.items()):
            if file not in taken:
                taken[file] = held.enter_context(exclude(*targets[name], owner))
        yield {name: taken[file] for name, file in files.items()}


def _find_doubt(place: Path, is_default: bool, local: bool) -> str | None:
    """Why other campaigns may not see a lock in the directory `place`; None if they do.

    `local`: only this machine uses the measured file system. `is_default`: `place` is MACHINE.
    """
    facts = identify.identify(str(place))
    shown = printable(str(place))
    doubt = fs_types.lock_doubt(facts["fstype"], facts["mount"])
    # not every mount of a network file system shares its locks with other nodes (`localflock`, `local_lock`)
    if doubt and not local:
        remedy = "; set target.lock to a directory that all nodes see" if is_default else ""
        return f"exclusion not checked: only campaigns on this machine are kept off, {shown} is on {doubt}{remedy}"
    if doubt and identify.is_private(str(place)) is not False:
        return f"exclusion not checked: others on this machine may see another directory at {shown} (a container)"
    return None


def by_license(licenses: str, fallback: Exclusion) -> Exclusion:
    """Exclusion by the licenses of our job. `licenses`: such as `pfs:1,x:2`. `fallback`: the exclusion without them."""
    with contextlib.suppress(Unanswered):
        if licenses:
            return judge_licenses(licenses, query.ask(["scontrol", "--oneliner", "show", "licenses"]), fallback)
    return fallback


def judge_licenses(licenses: str, printed: str, fallback: Exclusion) -> Exclusion:
    """Judge the exclusion by licenses from the output of `scontrol --oneliner show licenses`. Pure."""
    rows = [query.fields(line) for line in printed.splitlines()]
    totals = {row["LicenseName"]: row["Total"] for row in rows if "LicenseName" in row and "Total" in row}
    for license in licenses.split(",") if "|" not in licenses else ():  # `a|b`: Slurm does not say which it granted
        name, _, count = license.partition(":")
        if totals.get(name) == (count or "1"):
            return Exclusion(True, f"no other job has the license {name}: all there are ({count or 1}) are ours")
    evidence = f"{fallback.evidence}; of the license {licenses} there are more, which other jobs may have"
    return replace(fallback, evidence=evidence)
