"""One campaign at a time per file system: a lock that the kernel frees with its owner, and its worth as evidence.

Without target.lock it is one for the machine (host_lock.py), with it a file in a directory that campaigns on several
machines see (lock_file.py). Only what the kernel or Slurm says has consequences. The text of a lock explains it: it may
be forged, so it is never a reason to refuse for longer than the job that it names lives, as Slurm says.

A pass needs evidence that another campaign would have been seen; else the check says "not checked". What another user
puts in the lock's place does not stop a campaign: it is named, and the exclusion is "not checked". A lock that another
user holds does stop it, since it looks like a campaign; target.lock is the way round.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

from iosweep.errors import Busy, Unanswered, Unusable
from iosweep.node import fs_types, procfs
from iosweep.slurm import query
from iosweep.target import filesystem, host_lock, identify, lock_file, lock_owner, mounts
from iosweep.target.accounts import cannot_write
from iosweep.text import printable

#: How names of locks begin.
PREFIX = "iosweep"
#: Seconds between two looks for campaigns in containers.
LOOK_S = 10.0
_ELSEWHERE = "set target.lock to a directory that only trusted users may write to"
_LET_THEM = "let all who measure write there, or set target.lock to a directory in which they can"


class Enforced(TypedDict):
    """The exclusion of other campaigns, as a result records it."""

    enforced: bool
    evidence: str


@dataclass(frozen=True)
class Exclusion:
    """Whether other campaigns are kept off, with the evidence. `note`: from whom the lock was taken over, or None.

    `doubt`: why it may not keep them off any more, or None: the owner of a file can remove it.
    """

    enforced: bool
    evidence: str
    note: str | None = None
    doubt: Callable[[], str | None] = field(default=lambda: None, compare=False)

    def now(self) -> Enforced:
        """For the record of what has just been measured."""
        if self.enforced and (why := self.doubt()):
            return {"enforced": False, "evidence": why}
        return {"enforced": self.enforced, "evidence": self.evidence}


@contextmanager
def hold(
    directory: str | None, facts: Mapping[str, object], owner: Mapping[str, str | None], make: bool = True
) -> Iterator[Exclusion]:
    """Keep other campaigns off a file system, and say how far that reaches.

    `directory`: target.lock. `facts`: of the file system (identify.identify); the lock is named after what it is now,
    sentences call it by its identity. `owner`: {campaign, results, and in Slurm job}; process, user, host and time are
    added.
    `make`: a lock's file is made where there is none; not where results that may be another's name the directory.
    Raises Busy if another campaign holds the lock, Unusable if target.lock is not a directory, or has no file.
    """
    identity, name = filesystem.identity(facts), _name(facts)
    mine = lock_owner.mine({"file system": identity, **owner})
    if directory is None:
        with _on_this_machine(name, identity, mine) as found:
            yield found
        return
    with _in_directory(_file(directory, name), identity, mine, owner.get("job"), make) as found:
        yield found


def look(directory: str | None, facts: Mapping[str, object]) -> None:
    """Raise what `hold` would without `make`. Nothing is taken or written."""
    identity, name = filesystem.identity(facts), _name(facts)
    if directory is None:
        try:
            host_lock.look(name)
        except host_lock.Taken as taken:
            raise _name_taken(taken, name, identity) from None
        _see_other_networks(name, identity)
        return
    file = _file(directory, name)
    with contextlib.suppress(OSError):  # it cannot be taken, which stops nothing
        with _explained(file, identity, make=False):
            content = lock_file.look(file, shared=True)
        _worth(content, file, identity, None)


def _name(facts: Mapping[str, object]) -> str:
    return f"{PREFIX}-{hashlib.sha256(os.fsencode(filesystem.lock_name(facts))).hexdigest()[:16]}"


def _file(directory: str, name: str) -> Path:
    place = Path(directory).absolute()
    if not place.is_dir():
        raise Unusable(f"target.lock {place} is not a directory", "make it where all campaigns see it, or leave it out")
    return place / f"{name}.lock"


# On this machine


@contextmanager
def _on_this_machine(name: str, identity: str, mine: bytes) -> Iterator[Exclusion]:
    with ExitStack() as stack:
        try:
            inode = stack.enter_context(host_lock.held(name, mine))
        except host_lock.Taken as taken:
            raise _name_taken(taken, name, identity) from None
        except OSError as error:
            why = f"the lock @{name} (an abstract Unix socket) cannot be taken: {error.strerror or error}"
            found = Exclusion(False, f"{why}; {_ELSEWHERE}")
        else:
            _see_other_networks(name, identity)
            found = _machine_wide(name, inode, identity.partition(" ")[0])
        yield found


def _see_other_networks(name: str, identity: str) -> None:
    if process := host_lock.in_another_network(name):
        who = f"a process in the network namespace of {_process(process)}"
        raise _busy(identity, who, f"the socket @{name} there", None)


def _machine_wide(name: str, inode: int, fstype: str) -> Exclusion:
    if not fs_types.of(fstype).local:
        kept = f"only campaigns on this machine are kept off (@{name})"
        return Exclusion(False, f"{kept}; set target.lock to a directory that all nodes see")
    if why := host_lock.unseen(name, inode):
        return Exclusion(False, f"a campaign elsewhere on this machine may not be seen: {why}; {_ELSEWHERE}")
    # a lock on this machine keeps off all that could disturb
    return Exclusion(True, f"no other campaign on this machine (lock @{name})", doubt=_InContainers(name))


@dataclass
class _InContainers:
    """Whether a campaign has started in a network namespace of its own, as a sentence; None if none is seen.

    A look takes 5 us for each process of the machine, so there is one every LOOK_S at most.
    """

    name: str
    looked_s: float = field(default_factory=time.monotonic)
    seen: str | None = None

    def __call__(self) -> str | None:
        if time.monotonic() - self.looked_s >= LOOK_S:
            process = host_lock.in_another_network(self.name)
            there = process and f"the network namespace of {_process(process)}"
            self.seen = f"another campaign holds the lock @{self.name} in {there}; {_ELSEWHERE}" if there else None
            self.looked_s = time.monotonic()
        return self.seen


def _name_taken(taken: host_lock.Taken, name: str, identity: str) -> Busy:
    """The error for a name that is taken: process and user from the kernel, the rest from that process."""
    user = None if taken.uid is None else procfs.user_name(taken.uid)
    owner = lock_owner.read(taken.text)
    if owner and user is not None:
        owner = replace(owner, pid=str(taken.pid or owner.pid), user=user)
    who = str(owner) if owner else f"{_process(taken.pid, user)}, which does not say who it is"
    if user is None:  # it has so many connections waiting that it takes none
        who += " (`ss -xlp` shows root which it is)"
    return _busy(identity, who, f"the socket @{name}", _live_job(owner))


def _process(pid: int | str | None, user: str | None = None) -> str:
    """`process 12 (python3) of user ann`, as the kernel has it. `user`: who took the lock, where the kernel tells that.

    A process that has taken a lock can pass it on and end; another one may have its number then.
    """
    now = procfs.user(str(pid)) if pid else None
    by = f" of user {user or now}" if user or now else ""
    if not pid:
        return f"another process{by}"
    if pid and procfs.has_ended(str(pid)):
        return f"process {pid}{by}, which has ended and has passed the lock on"
    command = printable(procfs.read(str(pid), "comm").decode("utf-8", "replace").strip())
    return f"process {pid}{f' ({command})' if command and user in (None, now) else ''}{by}"


# In a directory


@contextmanager
def _in_directory(file: Path, identity: str, mine: bytes, job: str | None, make: bool) -> Iterator[Exclusion]:
    try:
        with _explained(file, identity, make):
            taken = lock_file.take(file, make, shared=True)
    except OSError as error:
        yield _untaken(file, error)
        return
    try:
        if taken.without:
            yield _untaken(file, OSError(errno.ENOLCK, taken.without))
            return
        found = _worth(taken.content(), file, identity, job)
        _write(taken, mine)

        def doubt() -> str | None:
            why = lock_file.doubt(taken, file)
            return why and f"the lock {printable(str(file))} may not keep others off: {why}; {_ELSEWHERE}"

        try:
            yield replace(found, doubt=doubt)
        finally:
            _write(taken, b"")  # what is left in a lock was left by an owner that was killed
    finally:
        taken.close()


@contextmanager
def _explained(file: Path, identity: str, make: bool) -> Iterator[None]:
    """Errors of a lock's file as those of the target's lock."""
    try:
        yield
    except lock_file.Taken as error:
        raise _file_taken(error, file, identity) from None
    except FileNotFoundError:
        if make:
            raise
        why = f"target.lock {file.parent} has no lock of {identity} ({file.name}), and none is made"
        raise Unusable(why) from None


def _untaken(file: Path, error: OSError) -> Exclusion:
    it = "it " if isinstance(error, lock_file.Planted) or error.errno == errno.ESTALE else ""
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EAGAIN)  # the last: its owner has a lease on it
    if denied and not lock_file.whose(file):  # there is none, and it cannot be made
        with contextlib.suppress(OSError):
            closed = cannot_write(str(file.parent), file.parent.stat())
            return Exclusion(False, f"the lock {printable(str(file))} cannot be made: {closed}; {_LET_THEM}")
    why = f"{it}{error.strerror}{lock_file.whose(file) if denied else ''}"
    return Exclusion(False, f"the lock {printable(str(file))} cannot be taken: {why}; {_ELSEWHERE}")


def _write(taken: lock_file.LockFile, text: bytes) -> None:
    with contextlib.suppress(OSError):  # a full disk, a file that we may only read: it is held all the same
        taken.write(text)


def _file_taken(held: lock_file.Taken, file: Path, identity: str) -> Busy:
    """The error for a file that is locked. Its text counts if the kernel names no process, or the same one."""
    owner = lock_owner.read(held.content)
    who = str(owner) if owner else "another process"
    if owner and owner.here and owner.pid in held.pids:
        owner = replace(owner, user=procfs.user(owner.pid) or owner.user)
        who = str(owner)
    elif held.pids:
        who = _process(held.pids[0])
        if procfs.has_ended(held.pids[0]):
            who += f" (`fuser {printable(str(file))}` shows root to whom)"
        who += f" (the lock's text names another: {owner})" if owner else ""
        owner = None
    return _busy(identity, who, f"the lock {file}", _live_job(owner))


def _live_job(owner: lock_owner.Owner | None) -> str | None:
    """The job of a holder that lives: one that Slurm knows, of its user."""
    if not owner or not owner.job:
        return None
    try:
        job = query.job(owner.job)
    except Unanswered:
        return None
    return job.id if job and job.alive and job.user == owner.user else None


def _busy(identity: str, who: str, lock: str, job: str | None) -> Busy:
    return Busy(
        f"the file system {identity} is being measured by {who}; two at once would falsify each other: wait for it, or"
        f" stop it (it holds {printable(lock)}); if it is not a campaign, {_ELSEWHERE}",
        job,
    )


def _worth(left: bytes, file: Path, identity: str, own: str | None) -> Exclusion:
    """How far a lock reaches that we took, given the text of its last owner. `own`: our job. Raises Busy."""
    there = identify.identify(str(file.parent))
    fstype = identity.partition(" ")[0]
    place = printable(str(file.parent))
    # not every mount of a network file system takes its locks to the other nodes (`localflock`, `local_lock`)
    apart = fs_types.apart(there["fstype"], there["mount"])
    if apart and not fs_types.of(fstype).local:
        worth = Exclusion(False, f"only campaigns on this machine are kept off: {place} is on {apart}")
    elif private := mounts.private(str(file.parent)):
        worth = Exclusion(False, f"{place} is private to this process: others on this machine see another one there")
    elif private is None and apart:
        unseen = "this process runs in a container (a PID namespace), or may not look at process 1"
        worth = Exclusion(False, f"others on this machine may see another directory at {place}: {unseen}")
    else:
        worth = Exclusion(True, f"no other campaign that locks in {place} ({file.name})")
    if not left:
        return worth
    owner = lock_owner.read(left)
    left_by = f"the lock {printable(str(file))} was left by {owner or 'another process'}"
    gone = replace(worth, note=f"{left_by}, which is gone; taken over")
    if not owner or owner.here or fs_types.of(there["fstype"]).local:
        return gone  # what holds its flock would be on this machine
    if (own and owner.job == own) or not (why := _may_live(owner, file, identity)):
        return gone
    evidence = f"{printable(str(file))} names a campaign on host {owner.host}; {why}"
    return Exclusion(False, evidence, f"{left_by}, and was free from here; taken over")


def _may_live(owner: lock_owner.Owner, file: Path, identity: str) -> str:
    """Why an owner on another machine may live, though its lock is free from here; empty if it has ended.

    Raises Busy where Slurm confirms that it lives.
    """
    unseen = "from here its end cannot be seen"
    if not owner.job:
        return unseen
    try:
        job = query.job(owner.job)
    except Unanswered:
        return unseen
    if job is None:  # ended, and forgotten; but jobs of others may be hidden (PrivateData)
        return "" if owner.user == procfs.user_name(os.getuid()) else unseen
    if not job.alive:
        return ""
    if not lock_owner.is_its_job(job, owner):
        return f"job {job.id} is of user {printable(job.user)}, and Slurm does not show it as that campaign's"
    stop = f", or stop it with `scancel {job.id}`" if job.user == procfs.user_name(os.getuid()) else ""
    raise Busy(
        f"the file system {identity} is being measured by {owner}, a job that lives, as Slurm says; two at once would"
        f" falsify each other: wait for it{stop} (its lock is {printable(str(file))}); if it is not of this file"
        f" system, {_ELSEWHERE}",
        job.id,
    )
