"""The lock of a campaign's results: one process at a time measures them or cleans the target.

The kernel's lock (flock) ends with its owner, however that ends. It does not reach everywhere: some file systems have
none, and some mounts keep it from the other nodes. So the file also names its owner (target/lock_owner.py), exactly
enough to see whether that process has ended: by its machine, process id and start time, or by its Slurm job.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iosweep.errors import Held, Unanswered
from iosweep.node import procfs
from iosweep.target import lock_file, lock_owner
from iosweep.target.lock_owner import Owner
from iosweep.text import printable

NAME = "lock"
#: Time for a process that starts at the same moment to have written its text, where the kernel does not decide.
_SETTLE_S = 0.3


@dataclass(frozen=True)
class Lock:
    """A campaign's lock, held. `note`: how far it reaches, if others should know, or None."""

    file: lock_file.LockFile
    note: str | None

    def in_place(self) -> bool:
        """Whether the file is still the one that was locked. A link to it does not count."""
        return self.file.in_place()


@contextmanager
def hold(file: Path, job: str | None, lives: Callable[[str], bool], certain: bool = False) -> Iterator[Lock]:
    """Hold a campaign. Raises Held if another process has it, OSError where `file` cannot be its lock.

    `job`: the Slurm job that we are in. `lives`: whether another job lives; it may raise Unanswered, which is passed on
    unless the lock itself shows that its owner has ended. `certain`: an owner whose end cannot be seen counts as alive,
    whatever the kernel's lock says.
    """
    with _explained(file):
        taken = lock_file.take(file)
    mine = b""
    try:
        unseen = _unseen(file, taken.content(), job, lives)
        if unseen and (certain or taken.without):
            raise _may_be_held(file, unseen)
        note = f"{file} names {unseen}, whose end cannot be seen from here; nothing else holds it" if unseen else None
        mine = lock_owner.mine({"campaign": file.parent.name, "results": str(file.parent), "job": job})
        taken.write(mine)
        if taken.without:
            note = (
                f"the file system of the results has no locks ({taken.without}): other runs of this campaign are seen"
                f" by what they write into {file}, and on other nodes not at once"
            )
            _settle(file, mine)
        yield Lock(taken, note)
    finally:
        with contextlib.suppress(OSError):  # a disk that is lost: the reason that we end is worth more
            if mine and taken.content() == mine:
                taken.write(b"")
        taken.close()


def look(file: Path, lives: Callable[[str], bool]) -> None:
    """Raise what `hold` would, where it is to be certain. Nothing is taken or written."""
    content = b""
    with _explained(file):
        try:
            content = lock_file.look(file)
        except FileNotFoundError:
            if not os.access(file.parent, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file)) from None
    if unseen := _unseen(file, content, None, lives):
        raise _may_be_held(file, unseen)


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Errors of a lock's file as those of the campaign."""
    try:
        yield
    except lock_file.Taken as error:
        raise _held(file, error) from None
    except lock_file.Planted as error:
        cure = "unmount it" if error.kind == lock_file.MOUNTED else "remove it, and the next run makes another"
        wrong = f"the lock is {error.kind} (of user {error.user}) and is left alone; {cure}"
        raise OSError(errno.EINVAL, wrong, str(file)) from None


def holder(file: Path) -> str:
    """Who holds the campaign, or held it when it was killed; empty if nothing does."""
    return says(lock_file.read(file))


def says(content: bytes) -> str:
    """Who the text of a lock names; the beginning of a text that is not ours, on one line."""
    named = lock_owner.read(content)
    return named.short if named else printable(content.decode("utf-8", "replace").strip("\0 \n")[:60])


def _unseen(file: Path, content: bytes, job: str | None, lives: Callable[[str], bool]) -> str | None:
    """Who may hold a lock by its text, without it being seen from here. Raises Held if that process lives."""
    if not content.strip(b"\0 \n"):
        return None
    named = lock_owner.read(content)
    if named is None:
        return f"an unknown process ({file} holds `{says(content)}`)"
    over = lock_owner.ended(named, lock_owner.observe(named.pid))
    if over is False:
        raise _measured_by(named)
    if named.job and named.job != job:  # not every mount takes its locks to the other nodes
        try:
            alive = lives(named.job)
        except Unanswered:
            if not over:
                raise
            alive = False
        if alive:
            raise _measured_by(named)
        return None
    return None if over or named.job else named.short


def _may_be_held(file: Path, unseen: str) -> Held:
    return Held(
        f"may still be measured by {unseen}, whose end cannot be seen from here; see that it has ended,"
        f" then remove {file}"
    )


def _measured_by(named: Owner | None) -> Held:
    who = named.short if named else "another process"
    return Held(f"is being measured by {who}; wait for it, or stop it", named.job if named else None)


def _held(file: Path, taken: lock_file.Taken) -> Held:
    """Who has the kernel's lock. The text counts if its process is among those that do, or none is seen."""
    named = lock_owner.read(taken.content)
    if not taken.pids or (named and named.pid in taken.pids):
        return _measured_by(named)
    whom = f"process {taken.pids[0]} of user {procfs.user(taken.pids[0]) or 'unknown'}"
    return Held(
        f"cannot be locked: {whom} holds {file}, and has not written into it as a run of iosweep does; end it, or"
        " remove the file, and the next run makes another"
    )


def _settle(file: Path, mine: bytes) -> None:
    """Where the kernel does not decide: see that no other process took it at the same moment. Raises Held."""
    time.sleep(_SETTLE_S)
    content = lock_file.read(file)
    if content != mine:
        raise _measured_by(lock_owner.read(content))
