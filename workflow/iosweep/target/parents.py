"""Which users could replace the campaign's directory: those who may write to a directory on the way to it.

fio, IOR and mdtest open their files by path and follow symbolic links. So a user who may rename the campaign's
directory can put one of theirs there, whose `sets/.../0.0` leads to any file of ours, and the tool overwrites that.
Whose process serves a FUSE file system can do the same, and show any owner and mode.

The way is walked from `/`, one component after the other, each opened from the one before; the directories of symbolic
links on the way count, too. This runs inside the agent.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from iosweep.target import mounts
from iosweep.target.accounts import group, rights, user
from iosweep.target.mounts import Mount, open_to_others, served_by
from iosweep.text import printable, some

#: How a directory on the way is opened: that needs no right to read it. (O_DIRECTORY lets an automounter mount it.)
_ON_THE_WAY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
#: Symbolic links on the way, at most; as many as the kernel follows.
_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: An access control list that names more users or groups than the mode shows.
_ACL = "system.posix_acl_access"
#: Programs in the place of a login shell: an account that has one is not a person's. (RHEL's `operator` has group 0.)
_NO_LOGIN = {"nologin", "false", "sync", "shutdown", "halt"}
#: Accounts that stand for no user; servers show what root makes as theirs (root_squash). Some have a shell.
_NOBODY = {"nobody", "nfsnobody"}
#: Their ids where they have no account; and the first id of people (UID_MIN): sites take others below it (Lustre: 99).
_SQUASHED, _PEOPLE = {65534, (1 << 32) - 2}, 1000
#: Which user ids of a user namespace are which outside.
_UID_MAP = Path("/proc/self/uid_map")
#: What the kernel shows of all that a user namespace does not map (kernel.overflowuid), and of how many ids all are.
_UNMAPPED, _ALL = 65534, (1 << 32) - 1
#: What who controls a directory could do.
_REPLACE = "put another directory in the place of the campaign's"
#: How many directories of others a refusal names.
_NAMED = 3


@dataclass(frozen=True)
class Suspect:
    """A directory or link on the way that other users control.

    uid: its owner, where that may be us by another id, as only what we make there shows; None where it is not. fact:
    who controls what; danger: what they could do. helps: what helps there, or empty; instead: which directory to take.
    """

    device: int
    uid: int | None
    fact: str
    danger: str
    helps: str
    instead: str


@dataclass
class Way:
    """The way to a directory: `handle`, an O_PATH handle of it, on `device`, and what others control on it.

    mine: user ids that are root's or ours for sure. nobodys: that of all users that our namespace does not map.
    """

    handle: int = -1
    device: int = -1
    mine: set[int] = field(default_factory=set)
    nobodys: int | None = None
    suspects: list[Suspect] = field(default_factory=list)

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def walk(directory: str) -> Way:
    """Open a directory (an absolute path) and see who controls the way to it.

    The handle is of the directory that was checked: nothing can be swapped between. Raises OSError as os.open does.
    """
    nobodys = _nobodys()
    way = Way(mine={0, os.getuid()} - {nobodys}, nobodys=nobodys)
    todo = directory.split("/")[::-1]
    links = 0
    try:
        way.handle = os.open("/", _ON_THE_WAY)
        here, shared = "", _look(way, "")  # shared: others may write there
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            try:
                inner = os.open(name, _ON_THE_WAY, dir_fd=way.handle)
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise OSError(error.errno, error.strerror, directory) from None
                status = os.stat(name, dir_fd=way.handle, follow_symlinks=False)
                links += 1
                if not stat.S_ISLNK(status.st_mode) or links > _LINKS:
                    raise OSError(error.errno, error.strerror, directory) from None
                if shared and status.st_uid not in way.mine:
                    link = f"the symbolic link {here}/{name}"
                    way.suspects.append(_owned(way, link, status, "make it lead elsewhere"))
                aim = os.readlink(name, dir_fd=way.handle)
                todo += aim.split("/")[::-1]
                if aim.startswith("/"):
                    _step(way, os.open("/", _ON_THE_WAY))
                    here = ""
                continue
            _step(way, inner)
            here = f"{here}/{name}" if name != ".." else here.rpartition("/")[0]
            shared = _look(way, here)
    except BaseException:
        way.close()
        raise
    return way


def _nobodys() -> int | None:
    """The user id that the kernel shows of all users that our namespace does not map; None if it maps all."""
    try:
        mapped = sum(int(line.split()[2]) for line in _UID_MAP.read_text().splitlines())
    except (OSError, ValueError, IndexError):
        return None  # a kernel without user namespaces
    return None if mapped >= _ALL else _UNMAPPED


def _step(way: Way, inner: int) -> None:
    os.close(way.handle)
    way.handle = inner


def _look(way: Way, where: str) -> bool:
    """Note what is wrong with the directory that the way has come to; returns whether others may add entries.

    `where`: its path, without the slash of the root.
    """
    status = os.fstat(way.handle)
    if status.st_dev != way.device:  # another file system
        way.device = status.st_dev
        if (server := served_by(mounts.of(way.handle))) is not None and server not in way.mine:
            way.suspects.append(_served(where or "/", status, server))
    if status.st_uid not in way.mine:
        way.suspects.append(_owned(way, where or "/", status, _REPLACE))
    if not status.st_mode & _OTHERS_WRITE:
        return False
    if status.st_mode & stat.S_ISVTX:
        return True
    if status.st_mode & stat.S_IWOTH or not only_ours(status, way.handle):
        way.suspects.append(written(where or "/", status))
    return True


def _owned(way: Way, what: str, status: os.stat_result, could: str) -> Suspect:
    may_be_us = status.st_uid != way.nobodys and _nobody_elses(status.st_uid, mounts.of(way.handle))
    return Suspect(
        status.st_dev,
        status.st_uid if may_be_us else None,
        f"{printable(what)} belongs to {user(status.st_uid)}",
        f"who could {could} while tools write there",
        "",
        "choose a directory whose whole path belongs to you or to root",
    )


def ours_alone(uid: int, handle: int) -> bool:
    """Whether what belongs to this user id, which may be ours on a file system, is no other user's (but root's)."""
    return uid in (0, os.getuid()) or _nobody_elses(uid, mounts.of(handle))


def gives_away(where: str, handle: int, uid: int) -> Suspect:
    """A file system that gives what we make to another user (all_squash)."""
    return Suspect(
        os.fstat(handle).st_dev,
        None,
        f"what you make in {printable(where)} belongs to {user(uid)}",
        f"who could {_REPLACE} while tools write there",
        "",
        "choose a directory where it belongs to you",
    )


def _nobody_elses(uid: int, mount: Mount) -> bool:
    """Whether what a file system shows as this user id may be ours, and no other user's: servers may give another id
    than here to what we make.

    An account's is its user's, who may swap what we make. Not that of nobody, which servers show instead of root, and
    of accounts to which nobody can log in, but on FUSE: there whoever mounts says which id is shown. A FUSE file system
    of our own that nobody else may enter is ours whatever it shows (sshfs: our id on the server). An id without an
    account may be ours on the server; not root's, if it could be a person's (whom a container does not list).
    """
    server = served_by(mount)
    if uid == os.getuid() or (server == os.getuid() and not privileged() and not open_to_others(mount)):
        return True
    try:
        account = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return not privileged() or uid < _PEOPLE or uid in _SQUASHED
    return account.pw_name in _NOBODY or (server is None and not _logs_in(account))


def _served(what: str, status: os.stat_result, server: int) -> Suspect:
    """A FUSE file system whose server is another user's: it may show any owner, mode, and link."""
    return Suspect(
        status.st_dev,
        None,
        f"the file system of {printable(what)} is served by a process of {user(server)} (FUSE)",
        "who could show links there that lead tools elsewhere",
        "",
        "choose a directory of one that root or you mounted",
    )


def written(where: str, status: os.stat_result) -> Suspect:
    """A directory that others may write to, so that they can rename and replace its entries."""
    if status.st_mode & stat.S_IWOTH:
        who, less = "everybody", "o-w" if not status.st_mode & stat.S_IWGRP else "go-w"
    else:
        who, less = group(status.st_gid), "g-w"
    place, owner = printable(where), user(status.st_uid)
    if os.getuid() in (0, status.st_uid):
        helps = f"`chmod +t {place}` or `chmod {less} {place}`"
    else:  # the user may write there only by the right that the command removes
        helps = f"ask its owner ({owner.removeprefix('user ').partition(' (')[0]}) for `chmod +t {place}`"
    return Suspect(
        status.st_dev,
        None,
        f"{who} can write to {place} ({rights(status)})",
        f"and could {_REPLACE} while tools write there",
        helps,
        "choose a directory on whose path only you and root can write",
    )


def refusal(suspects: Sequence[Suspect], helps_to_trust: bool = True) -> str:
    """A sentence on all that is wrong, with the remedies: else they would be met one after the other.

    `helps_to_trust`: whether target.trust_other_writers is one of them.
    """
    first, *others = {suspect.fact: suspect for suspect in suspects}.values()
    trust = (
        ""
        if privileged() or not helps_to_trust
        else ", or set target.trust_other_writers where all who could are trusted"
    )
    remedy = f"{first.helps}, or {first.instead}" if first.helps else first.instead
    sentence = f"{first.fact}, {first.danger}; {remedy}{trust}"
    besides = [f"{each.fact}{f' ({each.helps})' if each.helps else ''}" for each in others]
    return f"{sentence}; also: {some(besides, _NAMED - 1, separator='; ')}" if besides else sentence


def own_group(gid: int) -> bool:
    """Whether a group is our user's private one: our primary group, of our name, and that of no other account."""
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    if gid != user.pw_gid or group.gr_name != user.pw_name or set(group.gr_mem) - {user.pw_name}:
        return False
    # a group's members are not those whose primary group it is
    return not any(a.pw_gid == gid and a.pw_uid not in (0, os.getuid()) and _logs_in(a) for a in _accounts())


@cache
def _accounts() -> list[pwd.struct_passwd]:
    """All that can be listed; a directory service such as LDAP mostly answers for single names only."""
    return pwd.getpwall()


def _logs_in(account: pwd.struct_passwd) -> bool:
    """Whether a person can log in to this account. No shell at all means /bin/sh."""
    return account.pw_shell.rpartition("/")[2] not in _NO_LOGIN


def only_ours(status: os.stat_result, handle: int) -> bool:
    """Whether only we are in the group that may write: no list names others besides."""
    try:
        os.getxattr(f"/proc/self/fd/{handle}", _ACL)
        return False
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            return False
    return own_group(status.st_gid)


def privileged() -> bool:
    """Whether we are root; not the root of a user namespace, whose files are another user's outside."""
    if os.getuid() != 0:
        return False
    try:
        inside, outside, _ = _UID_MAP.read_text().splitlines()[0].split()
    except (OSError, ValueError, IndexError):
        return True
    return (inside, outside) == ("0", "0")
