"""Locks that keep two runs of a campaign apart, and two campaigns on one file system.

A lock is the flock of a file whose text, as JSON, names its owner. The kernel gives a flock to one process and releases
it when that process ends, however that happens; so a free lock is taken, whoever its text names. A flock does not reach
everywhere: some file systems have none, and some mounts keep it from the other nodes. There the Slurm job that the text
names may still work, and Slurm is asked, if there is one; beyond that the exclusion is "not checked".

The results of a campaign have one (`take`), and each file system that is measured (`exclude`), unless the job holds all
there is of a Slurm license (`by_license`).
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
from contextlib import contextmanager
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
#: Where campaigns on this machine lock a file system without target.lock.
MACHINE = "/tmp"  # noqa: S108 - opened without following links, and never made where something else is
#: Time after which a lock is tried again: `holder` has released it, and its owner has written into it.
_AGAIN_S = 0.05
#: Bytes that are read of a lock.
_MOST_BYTES = 1 << 14
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO would wait for its other end


class Owner(msgspec.Struct, frozen=True):
    """The process that holds a lock, by the lock's text; `take` fills in the last four. Without a `pid`: not known."""

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
    """The owner that a text names; None if there is no text. Anybody may have written it."""
    if not content.strip(b"\0 \n"):
        return None
    try:
        owner = msgspec.json.decode(content, type=Owner)
    except (ValueError, RecursionError):
        return Owner()
    plain = {name: shortened(printable(getattr(owner, name)), 200) for name in Owner.__struct_fields__}
    return Owner(**plain | ({} if re.fullmatch("[0-9]{0,12}", owner.job) else {"job": ""}))


def _text(handle: int) -> Owner | None:
    return read(os.pread(handle, _MOST_BYTES, 0))


@dataclass
class Lock:
    """A lock, held. `without`: why its file system has no flock, empty where it has. `note`: how far it reaches, if
    others should know, or None."""

    file: Path
    handle: int
    without: str = ""

    @property
    def note(self) -> str | None:
        why = f"exclusion not checked: the file system of {self.file} has no locks ({self.without})"
        return printable(why) if self.without else None

    def in_place(self) -> bool:
        """Whether the file is still the one that was locked. A link to it does not count."""
        try:
            return os.path.samestat(os.fstat(self.handle), self.file.lstat())
        except OSError:
            return False

    def write(self, text: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk: it is held all the same
            os.ftruncate(self.handle, 0)
            os.pwrite(self.handle, text, 0)

    def close(self) -> None:
        self.write(b"")  # so a text that remains is of an owner that was killed
        with contextlib.suppress(OSError):
            fcntl.flock(self.handle, fcntl.LOCK_UN)  # closing is not enough if a forked child has it, too
        os.close(self.handle)


def take(file: Path, mine: Owner, what: str, shared: bool = False) -> Lock:
    """Lock a file, which is made if need be. `what`: for a sentence, what it protects. `shared`: all users may
    take it, whatever the umask.

    Raises Busy where another process has it, and OSError where `file` cannot be a lock.
    """
    lock = Lock(file, _open(file, shared))
    try:
        try:
            lock.without = _flock(lock.handle)
        except BlockingIOError:
            raise _busy(what, _text(lock.handle) or Owner()) from None
        left = _text(lock.handle)
        if left and left.job not in ("", mine.job):
            _see_ended(left, file, what)
    except BaseException:
        os.close(lock.handle)
        raise
    user, now = procfs.user_name(os.getuid()), local_time().isoformat(timespec="seconds")
    mine = structs.replace(mine, user=user, host=socket.gethostname(), pid=str(os.getpid()), since=now)
    lock.write(json.dumps(structs.asdict(mine)).encode())  # not by msgspec: a path may not be UTF-8
    return lock


def holder(file: Path) -> Owner | None:
    """The present owner of a lock; None without one. The lock is taken, shared, for a moment; `take` tries twice."""
    try:
        handle = os.open(file, os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _text(handle) or Owner()
    except OSError:  # the file system has no locks
        return None
    finally:
        os.close(handle)
    return None


def _open(file: Path, shared: bool) -> int:
    """A handle of the file. O_CREAT only where there is none: in a sticky directory it is refused for a file of another
    user (fs.protected_regular)."""
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
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # with another name it may be anybody's file
        os.close(handle)
        raise OSError(errno.EINVAL, "is no plain file with one name, and is left alone; remove it", str(file))
    return handle


def _flock(handle: int) -> str:
    """Lock it; returns why its file system has no locks, or "". Raises BlockingIOError where another process has it."""
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_AGAIN_S)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:  # Lustre without `-o flock`, NFS without lockd
        return error.strerror or str(error)
    return ""


def _see_ended(left: Owner, file: Path, what: str) -> None:
    """Raise Busy if the job that a free lock names lives, or may: its node may not show its flock here."""
    try:
        alive = query.lives(left.job)
    except Unanswered as error:
        if query.has_no_cluster(error.said) or shutil.which("scontrol") is None:  # here no job holds it
            return
        why = f"{what} may still be measured by {left}: {error}; see that it has ended, then remove {file}"
        raise Busy(printable(why), left.job) from None
    if alive:
        raise _busy(what, left)


def _busy(what: str, owner: Owner) -> Busy:
    return Busy(printable(f"{what} is being measured by {owner}; wait for it, or stop it"), owner.job or None)


# One campaign at a time on a file system


@dataclass(frozen=True)
class Exclusion:
    """Whether other campaigns are kept off, with the evidence."""

    enforced: bool
    evidence: str


@contextmanager
def exclude(directory: str | None, facts: Mapping[str, object], mine: Owner) -> Iterator[Exclusion]:
    """Keep other campaigns off a file system, and say how far that reaches.

    `directory`: target.lock. `facts`: of the file system (identify.identify). Raises Busy if another campaign has it,
    Unusable if target.lock is not a directory.
    """
    place = Path(directory or MACHINE).absolute()
    if not place.is_dir():
        raise Unusable(f"target.lock {place} is not a directory", "make it where all campaigns see it, or leave it out")
    name = hashlib.sha256(os.fsencode(identify.lock_name(facts))).hexdigest()[:16]
    file = place / f"iosweep-{name}.lock"
    try:
        lock = take(file, mine, f"the file system {identify.identity(facts)}", shared=True)
    except OSError as error:
        yield Exclusion(False, printable(f"exclusion not checked: the lock {file} cannot be taken: {error.strerror}"))
        return
    with contextlib.closing(lock):
        why = lock.note or _unreached(place, directory is None, fs_types.of(str(facts["fstype"])).local)
        yield Exclusion(not why, why or f"no other campaign that locks {printable(str(file))}")


def _unreached(place: Path, machine: bool, local: bool) -> str | None:
    """Why campaigns may not see a lock in a directory, of a file system that only this machine has (`local`) or others
    as well; None if they do. `machine`: it is the one that is taken without target.lock."""
    there = identify.identify(str(place))
    shown = printable(str(place))
    apart = fs_types.apart(there["fstype"], there["mount"])
    # not every mount of a network file system takes its locks to the other nodes (`localflock`, `local_lock`)
    if apart and not local:
        remedy = "; set target.lock to a directory that all nodes see" if machine else ""
        return f"exclusion not checked: only campaigns on this machine are kept off, {shown} is on {apart}{remedy}"
    if apart and identify.is_private(str(place)) is not False:
        return f"exclusion not checked: others on this machine may see another directory at {shown} (a container)"
    return None


def by_license(asked: str, without: Exclusion) -> Exclusion:
    """Exclusion by the licenses of our job: `asked`, as `pfs:1,other:2`. `without`: what is enforced without them."""
    with contextlib.suppress(Unanswered):
        if asked:
            return judge_licenses(asked, query.ask(["scontrol", "--oneliner", "show", "licenses"]), without)
    return without


def judge_licenses(asked: str, printed: str, without: Exclusion) -> Exclusion:
    """The exclusion by licenses, from the output of `scontrol --oneliner show licenses`. Pure."""
    known = [query.fields(line) for line in printed.splitlines()]
    totals = {one["LicenseName"]: one["Total"] for one in known if "LicenseName" in one and "Total" in one}
    for license in asked.split(",") if "|" not in asked else ():  # one or the other: who knows which
        name, _, count = license.partition(":")
        if totals.get(name) == (count or "1"):
            return Exclusion(True, f"no other job has the license {name}: all there are ({count or 1}) are ours")
    evidence = f"{without.evidence}; of the license {asked} there are more, which other jobs may have"
    return replace(without, evidence=evidence)
