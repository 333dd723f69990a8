"""The campaign's directory on the target, `<target>/iosweep-<campaign>/`: whose it is, and whether it can be worked in.

The functions listed in `OPERATIONS` touch the target, and nothing of it but that directory. They run inside the agent
(agent.py), because any of them may hang forever on a sick file system, and take and return plain JSON values. Paths
below the campaign's directory are opened component by component: no symbolic link is followed, no mount point crossed.
Only the standard library is imported: an agent starts on every node. What is in the directory is trees.py's matter.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import stat
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from iosweep.causes import SERVER_ERRORS
from iosweep.errors import Refused
from iosweep.target import filesystem, marker_place, parents
from iosweep.target.accounts import user
from iosweep.text import printable

MARKER = "iosweep.json"
#: A file that is written to see whether the target takes data, and removed at once.
PROBE = ".iosweep-probe"
#: How a directory is opened.
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: The target itself may be a link, for the user named it, and need not be readable.
TARGET = os.O_PATH | os.O_DIRECTORY
#: A marker is far smaller; what is larger was not written by us.
_MARKER_BYTES = 1 << 16
#: Names of a directory among which the one that was meant is looked for.
_MOST_NAMES = 10_000


def directory_of(target: str, campaign: str) -> str:
    """Absolute path of the campaign's directory."""
    return str(Path(target).absolute() / marker_place.name_of(campaign))


def identify(target: str) -> dict[str, Any]:
    """Which file system a directory is on: {real (path), source, fstype, mount (its whole line), fsid, device,
    writable}."""
    path = Path(target)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise Refused(f"the target {target} is not a directory")
    except FileNotFoundError:
        raise Refused(f"the target {target} does not exist; is the file system mounted?") from None
    real = str(path.resolve())
    fsid = os.statvfs(real).f_fsid  # first: it has an automounter mount what stat does not
    # as bytes: the kernel escapes fewer characters than Python takes for the end of a line
    mounts = Path("/proc/self/mountinfo").read_bytes().decode("utf-8", "surrogateescape")
    best = ("", "unknown", "unknown", "")
    for line in mounts.split("\n")[:-1]:
        before, _, after = line.partition(" - ")
        point = unescape(before.split(" ")[4])
        # the last of equal mount points is the one on top
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
            fstype, source, options = after.split(" ", 2)
            best = (
                point,
                unescape(source),
                fstype,
                f"{unescape(source)} on {point} type {fstype} ({options})",
            )
    return {
        "real": printable(real),
        "source": without_password(printable(best[1])),
        "fstype": printable(best[2]),
        "mount": without_password(printable(best[3])),
        "fsid": f"{fsid:016x}",
        "device": path.stat().st_dev,
        "writable": os.access(path, os.W_OK | os.X_OK),
    }


def look(target: str) -> dict[str, Any]:
    """What the name of a target leads to: {kind: directory, other or absent; fstype and mount of a directory; others:
    why it is refused, because users besides us could put another directory in the place of the campaign's, None if
    nobody could; trusted: who controls what there, if they are to be trusted}.

    Of an absent one also {parent: the nearest directory that exists; lacks: what it does not have; names: of its
    directories}.
    """
    path = Path(target).absolute()
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            facts = identify(target)
            others = _others(path, facts)
            return {
                "kind": "directory",
                "others": parents.refusal(others[0]) if others else None,
                "trusted": [suspect.fact for suspect in others],
                "fstype": facts["fstype"],
                "mount": facts["mount"],
            }
        return {"kind": "other"}
    except (FileNotFoundError, NotADirectoryError):
        pass
    parent, lacks = path.parent, path.name
    while not parent.is_dir():
        parent, lacks = parent.parent, parent.name
    try:
        with os.scandir(parent) as entries:
            first = itertools.islice(entries, _MOST_NAMES)
            # by the type that the listing gives: to follow a link or a mount may hang
            names = [e.name for e in first if e.name == lacks or e.is_symlink() or e.is_dir(follow_symlinks=False)]
    except PermissionError:
        names = []
    return {"kind": "absent", "parent": str(parent), "lacks": lacks, "names": names}


def _others(path: Path, facts: Mapping[str, Any]) -> list[parents.Suspect]:
    """Who could put another directory in the place of one on this path. Makes nothing.

    On a network file system our own user id may be another one than here: of owners there, `claim` finds out.
    """
    way = parents.walk(str(path))
    way.close()
    known = not filesystem.several_names(facts)
    return [s for s in way.suspects if s.uid is None or s.device != facts["device"] or known]


def is_type(fstype: str, wanted: str) -> bool:
    """Whether a mount's type is the one that a configuration names: `nfs` is nfs4, too; `x` is fuse.x, too. Pure."""
    return fstype in (wanted, f"fuse.{wanted}") or (wanted, fstype) == ("nfs", "nfs4")


def other_type(wanted: str, directory: str, seen: Mapping[str, Any]) -> str:
    """That a target is on a file system of another type than target.type. Pure.

    seen: what target.look or target.identify returned.
    """
    return (
        f"`{wanted}` is expected, and {directory} is on `{seen['fstype']}` ({seen['mount']});"
        " is the file system mounted?"
    )


def space(directory: str) -> dict[str, int]:
    """Bytes and inodes of the file system as df counts: used, and free to an ordinary user."""
    s = os.statvfs(directory)
    return {
        "used_bytes": (s.f_blocks - s.f_bfree) * s.f_frsize,
        "free_bytes": s.f_bavail * s.f_frsize,
        "used_inodes": s.f_files - s.f_ffree,
        "free_inodes": s.f_favail,  # both 0 where the file system does not count inodes
    }


def claim(directory: str, owner: dict[str, Any], trusting: bool = False) -> str:
    """Make the campaign's directory, or see that it is ours; returns the UUID of its marker.

    `owner`: {uuid or None, uid, host, results, campaign, and what else is to be told to others}. Ours means: it belongs
    to our user or to root, and the marker's UUID is the one that the results know, or the marker names the same user,
    host and results. `trusting`: other users may control the way to it (never where we are root). Raises Refused
    otherwise.
    """
    parent, name = os.path.split(directory)
    way = parents.walk(parent)
    outer = way.handle
    try:
        suspects = [] if trusting and not parents.privileged() else way.suspects
        device = os.fstat(outer).st_dev
        for suspect in suspects:  # of owners on the target's file system we know after we have made something there
            if suspect.uid is None or suspect.device != device:
                raise Refused(parents.refusal(suspect))
        made = _make(name, outer, parent)
        try:
            handle = open_entry(outer, name, directory)
        except PermissionError:
            raise Refused(
                f"{directory} is closed to {user(os.getuid())}, so it is another user's; it is left alone."
                " Choose another campaign name."
            ) from None
        try:
            if made and suspects:
                mine = os.fstat(handle).st_uid
                _check_way(suspects, mine, lambda: os.rmdir(name, dir_fd=outer))
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
            raise Refused(f"the target {parent} is read-only; mount it writable, or name another one") from None
        if error.errno in DENIED:
            raise Refused(
                f"the target {parent} cannot be written to by {user(os.getuid())};"
                " give it permission, or name another directory"
            ) from None
        raise


def _check_way(suspects: Sequence[parents.Suspect], mine: int, undo: Callable[[], None] = lambda: None) -> None:
    """Raise Refused if a directory on the way belongs to others. `mine`: our user id on the file system."""
    for suspect in suspects:
        if suspect.uid != mine:
            undo()
            raise Refused(parents.refusal(suspect))


def _claimed(
    directory: str,
    handle: int,
    outer: int,
    owner: dict[str, Any],
    made: bool,
    suspects: Sequence[parents.Suspect],
    trusting: bool,
) -> str:
    """See that a directory that is open is ours; returns the UUID of its marker."""
    if mount_of(handle) != mount_of(outer):
        raise Refused(f"{directory} is a mount point, so not on the target; unmount it, or choose another name")
    found = read_marker(handle)
    if found is None:
        if set(os.listdir(handle)) - {MARKER + ".tmp"}:  # that one: we were killed while we wrote it
            raise Refused(
                f"{directory} exists, but has no marker {MARKER} of ours; it is left alone."
                " Choose another campaign name, or remove it yourself."
            )
        if not made:
            _check_user(directory, os.fstat(handle).st_uid, os.getuid())
            if suspects:
                _check_way(suspects, uid_there(handle))
            _shut(directory, handle, trusting)
        found = owner | {"uuid": owner["uuid"] or str(uuid.uuid4()), "place": marker_place.facts(handle)}
        _write_marker(handle, found)
    elif not _same(found, owner):
        raise Refused(
            f"{directory} belongs to another campaign ({whose(found)}); it is left alone. Choose another campaign name."
        )
    else:
        _check_place(handle, directory, found)
        if suspects:
            _check_way(suspects, uid_there(handle))
        if (uid := os.fstat(handle).st_uid) not in (0, os.getuid()):
            _check_user(directory, uid, uid_there(handle))
        _shut(directory, handle, trusting)
    clear_probes(handle)
    return str(found["uuid"])


def owner_of(directory: str) -> dict[str, Any] | None:
    """What the marker says of whose the campaign's directory is; None if there is no such directory. Makes nothing."""
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


OPERATIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (identify, look, space, claim, owner_of, ours)}


def holds(facts: Mapping[str, Any], directory: str, results: Path) -> bool:
    """Whether results lie in the campaign's directory, links resolved. `facts`: of its parent (identify)."""
    real = Path(facts["real"]) / Path(directory).name
    return real in (results.resolve(), *results.resolve().parents)


def whose(marker: dict[str, Any]) -> str:
    """What a marker says, for a sentence."""
    user = f"{marker['user']}, " if marker.get("user") else ""
    return shown(f"results in {marker.get('results')} on {marker.get('host')}, user {user}id {marker.get('uid')}")


def shown(text: str) -> str:
    """A name as a sentence may carry it: nothing in it steers a terminal, and it is not too long."""
    escaped = printable(text)
    return escaped if len(escaped) <= 300 else f"{escaped[:140]}...{escaped[-140:]}"


def mount_of(handle: int) -> int:
    """Which mount a handle is on. A device number does not tell two mounts of one file system apart."""
    info = os.open(f"/proc/self/fdinfo/{handle}", os.O_RDONLY)
    try:
        return int(os.read(info, 4096).partition(b"mnt_id:")[2].split()[0])
    finally:
        os.close(info)


def read_marker(handle: int) -> dict[str, Any] | None:
    """The marker in an open directory, or None if there is none. Raises Refused if it is not one of ours."""
    try:
        # a FIFO would wait for its other end
        file = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in SERVER_ERRORS:  # the file system's trouble, not the marker's
            raise
        raise Refused(f"the marker {MARKER} in the campaign's directory cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Refused(f"the marker {MARKER} in the campaign's directory is not a regular file")
        found = json.loads(os.read(file, _MARKER_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno in SERVER_ERRORS:
            raise
        raise Refused(f"the marker {MARKER} in the campaign's directory cannot be read: {error}") from None
    finally:
        os.close(file)
    if not isinstance(found, dict):
        raise Refused(f"the marker {MARKER} in the campaign's directory is not ours")
    return found


def check_marker(handle: int, directory: str, uuid: str) -> None:
    """Raise Refused if the marker in an open directory has not this UUID, or was written for another directory."""
    found = read_marker(handle)
    if found is None:
        raise Refused(f"{directory} has no marker {MARKER} of ours any more; it is left alone")
    if not uuid or found.get("uuid") != uuid:
        raise Refused(f"{directory} belongs to another campaign ({whose(found)}); it is left alone")
    _check_place(handle, directory, found)


def _check_place(handle: int, directory: str, found: Mapping[str, Any]) -> None:
    """Raise Refused if the marker in an open directory was written for another one."""
    if wrong := marker_place.look(found, directory, handle):
        raise Refused(f"{directory} is not ours: {wrong}; it is left alone")


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


def _same(found: dict[str, Any], owner: dict[str, Any]) -> bool:
    """Whether a marker is of this owner."""
    same = all(found.get(key) == owner[key] for key in ("uid", "host", "results"))
    return bool(found.get("uuid")) and (found["uuid"] == owner["uuid"] or same)


def _check_user(directory: str, uid: int, mine: int) -> None:
    """Raise Refused if the directory is neither our user's nor root's: who owns it can put anything in our way."""
    if uid not in (0, mine):
        raise Refused(
            f"{directory} belongs to {user(uid)}, not to {user(mine)}; it is left alone."
            " Choose another campaign name, or have it removed."
        )


def _shut(directory: str, handle: int, trusting: bool) -> None:
    """Nobody else may write there: what is planted in it could lead tools, which follow links, elsewhere."""
    mode = os.fstat(handle).st_mode
    if mode & 0o022:
        try:
            os.fchmod(handle, stat.S_IMODE(mode) & ~0o022)
        except PermissionError:  # root's, made for us and perhaps our group
            if mode & 0o002:
                raise Refused(f"everybody can write to {directory}; take that permission away") from None
            if not trusting and not parents.only_ours(os.fstat(handle), handle):
                raise Refused(parents.refusal(parents.written(directory, os.fstat(handle)))) from None


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


def _write_marker(handle: int, content: dict[str, Any]) -> None:
    """Whole, or not at all."""
    try:
        os.unlink(MARKER + ".tmp", dir_fd=handle)
    except FileNotFoundError:
        pass
    with open(os.open(MARKER + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle), "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(MARKER + ".tmp", MARKER, src_dir_fd=handle, dst_dir_fd=handle)
    os.fsync(handle)


def without_password(text: str) -> str:
    """Mount sources such as curlftpfs' hold one: `ftp://user:password@host/`."""
    return re.sub(r"(://[^/@\s:]*):[^@/\s]*@", r"\1:***@", text)


def unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
