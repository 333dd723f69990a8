"""The campaign's directory on the target, `<target>/iosweep-<campaign>/`: whether it is ours, and claiming it.

The operations touch the target, and nothing of it but that directory. They run inside the agent (agent.py), because any
of them may hang forever on a sick file system. Paths below the campaign's directory are opened component by component:
no symbolic link is followed, no mount point crossed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Sequence

from iosweep.causes import SERVER_ERRORS
from iosweep.errors import Refused
from iosweep.target import parents
from iosweep.target.accounts import cannot_write, user
from iosweep.target.marker import MARKER, UNFINISHED, check_place, is_of, place_of, read_marker, whose, write_marker
from iosweep.target.mounts import mount_of

#: A file that is written to see whether the target takes data, and removed at once.
PROBE = ".iosweep-probe"
#: What helps where a target cannot be written to.
PERMIT = "give that user write permission, or name another directory"
REMOUNT = "mount it writable, or name another one"
#: How a directory is opened.
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: The target itself may be a link, for the user named it, and need not be readable.
TARGET = os.O_PATH | os.O_DIRECTORY


def claim(directory: str, owner: dict[str, object], trusting: bool = False) -> str:
    """Make the campaign's directory, or see that it is ours; returns the UUID of its marker.

    `owner`: {uuid or None, uid, host, results, campaign, and more for people who read the marker}. Ours means: it
    belongs to our user or to root, and the marker's UUID is the one that the results know, or the marker names the same
    user, host and results. `trusting`: other users may control the way to it (never where we are root). Raises Refused
    otherwise.
    """
    parent, name = os.path.split(directory)
    way = parents.walk(parent)
    outer = way.handle
    try:
        trusting = trusting and not parents.privileged()
        suspects = [] if trusting else way.suspects
        device = os.fstat(outer).st_dev
        # of owners on the target's file system we know after we have made something there
        if known := [suspect for suspect in suspects if suspect.uid is None or suspect.device != device]:
            raise Refused(parents.refusal(known))
        made = _make(name, outer, parent)
        try:
            handle = open_entry(outer, name, directory)
        except PermissionError:
            if made:
                raise _closed_to_us(directory, name, outer) from None
            raise Refused(
                f"{directory} is closed to {user(os.getuid())}, so it is another user's; it is left alone."
                " Choose another campaign name."
            ) from None
        try:
            if made:
                try:
                    _check_made_there(directory, handle, os.fstat(handle).st_uid, suspects, trusting)
                except Refused as error:
                    raise Refused(f"{error}{_unmake(name, outer, directory)}") from None
            return _claimed(directory, handle, outer, owner, made, suspects, trusting)
        finally:
            os.close(handle)
    finally:
        way.close()


def _make(name: str, outer: int, parent: str) -> bool:
    """Make the campaign's directory; returns whether it was not there."""
    try:
        os.mkdir(name, mode=0o700, dir_fd=outer)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno == errno.EROFS:
            raise Refused(f"the target {parent} is read-only; {REMOUNT}") from None
        if error.errno in DENIED:
            raise Refused(f"{cannot_write(f'the target {parent}', os.fstat(outer))}; {PERMIT}") from None
        raise


def _closed_to_us(directory: str, name: str, outer: int) -> Refused:
    """Why a directory that we have just made cannot be opened; it is removed."""
    owner = os.stat(name, dir_fd=outer, follow_symlinks=False).st_uid
    left = _unmake(name, outer, directory)
    if owner == os.getuid():  # by the umask
        return Refused(
            f"{directory} would be closed to you, who makes it; set a umask that leaves you all rights{left}"
        )
    return Refused(f"{parents.refusal([parents.gives_away(directory, outer, owner)], helps_to_trust=False)}{left}")


def _unmake(name: str, outer: int, directory: str) -> str:
    """Remove the directory that we have just made; returns what to add to a sentence where it stays."""
    try:
        os.rmdir(name, dir_fd=outer)
    except OSError as error:  # in a sticky directory only its owner may
        return f". The empty directory {directory} stays ({error.strerror}): have it removed"
    return ""


def _check_made_there(
    directory: str, handle: int, mine: int, suspects: Sequence[parents.Suspect], trusting: bool
) -> None:
    """Raise Refused if a directory on the way, or what we make, belongs to others. `mine`: our user id there."""
    others = [suspect for suspect in suspects if suspect.uid != mine]
    if not trusting and not parents.ours_alone(mine, handle):
        others.append(parents.gives_away(directory, handle, mine))
    if others:
        raise Refused(parents.refusal(others))


def _claimed(
    directory: str,
    handle: int,
    outer: int,
    owner: dict[str, object],
    made: bool,
    suspects: Sequence[parents.Suspect],
    trusting: bool,
) -> str:
    """See that a directory that is open is ours; returns the UUID of its marker."""
    if mount_of(handle) != mount_of(outer):
        raise Refused(f"{directory} is a mount point, so not on the target; unmount it, or choose another name")
    found = read_marker(handle)
    if found is None:
        if set(os.listdir(handle)) - {UNFINISHED}:  # that one: we were killed while we wrote it
            raise Refused(
                f"{directory} exists, but has no marker {MARKER} of ours; it is left alone."
                " Choose another campaign name, or remove it yourself."
            )
        if not made:
            _check_user(directory, os.fstat(handle).st_uid, os.getuid())
            _check_made_there(directory, handle, uid_there(handle), suspects, trusting)
            _shut(directory, handle, trusting)
        found = owner | {"uuid": owner["uuid"] or str(uuid.uuid4()), "place": place_of(handle)}
        write_marker(handle, found)
    elif not is_of(found, owner):
        raise Refused(
            f"{directory} belongs to another campaign ({whose(found)}); it is left alone. Choose another campaign name."
        )
    else:
        check_place(handle, directory, found)
        mine = uid_there(handle)
        _check_made_there(directory, handle, mine, suspects, trusting)
        if (uid := os.fstat(handle).st_uid) not in (0, os.getuid()):
            _check_user(directory, uid, mine)
        _shut(directory, handle, trusting)
    clear_probes(handle)
    return str(found["uuid"])


def owner_of(directory: str) -> dict[str, object] | None:
    """The marker of the campaign's directory; None if there is no such directory. Makes nothing."""
    try:
        handle = _open(directory)
    except FileNotFoundError:
        return None
    try:
        found = read_marker(handle)
    finally:
        os.close(handle)
    if found is None:
        raise Refused(f"{directory} has no marker {MARKER} of ours; it is left alone")
    return found


def ours(directory: str, uuid: str) -> bool:
    """Whether the campaign's directory is still there, with the marker of this UUID. Makes nothing.

    Raises OSError where the file system's server fails: then it is not known.
    """
    try:
        return (owner_of(directory) or {}).get("uuid") == uuid
    except Refused:
        return False
    except OSError as error:
        if error.errno in SERVER_ERRORS:
            raise
        return False


DENIED = (errno.EACCES, errno.EPERM)


def open_entry(parent: int, name: str, directory: str) -> int:
    """Open a directory by its name in another; `directory`: what it is called in sentences."""
    try:
        return os.open(name, DIRECTORY, dir_fd=parent)
    except OSError as error:
        try:
            os.readlink(name, dir_fd=parent)
        except OSError:
            raise OSError(error.errno, error.strerror, directory) from None
        raise Refused(f"{directory} is a symbolic link; it is not followed") from None


def _open(directory: str) -> int:
    parent, name = os.path.split(directory)
    outer = os.open(parent, TARGET)
    try:
        return open_entry(outer, name, directory)
    finally:
        os.close(outer)


def _check_user(directory: str, uid: int, mine: int) -> None:
    """Raise Refused if the directory is neither our user's nor root's: who owns it can put anything in our way."""
    if uid not in (0, mine):
        raise Refused(
            f"{directory} belongs to {user(uid)}, not to {user(mine)}; it is left alone."
            " Choose another campaign name, or have it removed."
        )


def _shut(directory: str, handle: int, trusting: bool) -> None:
    """Remove write permission of others: a link that they plant could lead tools, which follow links, elsewhere."""
    mode = os.fstat(handle).st_mode
    if mode & 0o022:
        try:
            os.fchmod(handle, stat.S_IMODE(mode) & ~0o022)
        except PermissionError:  # root's, made for us and perhaps our group
            if mode & 0o002:
                raise Refused(f"everybody can write to {directory}; take that permission away") from None
            if not trusting and not parents.only_ours(os.fstat(handle), handle):
                raise Refused(parents.refusal([parents.written(directory, os.fstat(handle))])) from None


def uid_there(handle: int) -> int:
    """Our user id as the file system has it: NFS may map root, or everybody, to another one."""
    name = f"{PROBE}.{uuid.uuid4()}"  # other nodes may do so at the same time
    try:
        probe = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=handle)
    except OSError:
        return os.getuid()
    try:
        return os.fstat(probe).st_uid
    finally:
        os.close(probe)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=handle)


def clear_probes(handle: int) -> None:
    """Remove regular files of an open directory that are named as probes are; of any node."""
    with os.scandir(handle) as entries:
        left = [e.name for e in entries if is_probe(e.name) and e.is_file(follow_symlinks=False)]
    for name in left:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=handle)


def is_probe(name: str) -> bool:
    return name == PROBE or name.startswith(f"{PROBE}.")
