"""The campaign's directory on the target, `<target>/iosweep-<campaign>/`: its marker, claiming it, and the way into it.

The marker proves that the directory is ours: a UUID that the results know, too. It also holds the path and the inode of
its directory. Either may change: the path with another mount point, the inode on some FUSE and network file systems. If
both differ, the directory is a copy or was moved. Where directories keep their inodes (ext4, XFS ...), another inode is
enough; where snapshots have the same inodes (btrfs), another fsid, too.

A directory of this name may be another one by now: renamed, or covered by a mount. So every operation that reads,
writes or deletes below it takes a `Place` and goes through `Opened`: no symbolic link is followed, no mount point
crossed. All of this runs inside the agent.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from iosweep.errors import SERVER_ERRORS, Obstacle, Refused
from iosweep.node import fs_types, procfs
from iosweep.target import identify
from iosweep.target.identify import PERMIT, REMOUNT, cannot_write, live_mounts, mount_number, mount_of, without_password
from iosweep.text import printable, shortened

MARKER = "iosweep.json"
#: Its name until it is whole.
UNFINISHED = f"{MARKER}.tmp"
#: A marker is far smaller; what is larger was not written by us.
_MARKER_BYTES = 1 << 16
#: A file that is written to see whether the target takes data, and removed at once.
PROBE = ".iosweep-probe"
#: The size of a probe: file systems keep the data of smaller files with their metadata (Lustre: up to 1 MiB as a rule).
_PROBE_BYTES = 1 << 20
#: How a directory is opened.
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: The target itself may be a link, for the user named it, and need not be readable.
_TARGET = os.O_PATH | os.O_DIRECTORY
_DENIED = (errno.EACCES, errno.EPERM)


def name_of(campaign: str) -> str:
    """Name of the directory of a campaign."""
    return f"iosweep-{campaign}"


def directory_of(target: str, campaign: str) -> str:
    """Absolute path of the campaign's directory."""
    return str(Path(target).absolute() / name_of(campaign))


def shown(text: str) -> str:
    """A name, printable and not too long."""
    escaped = printable(text)
    return escaped if len(escaped) <= 300 else f"{escaped[:140]}...{escaped[-140:]}"


# The marker


def whose(marker: Mapping[str, object]) -> str:
    """The owner that a marker names, for a sentence."""
    user = f"{marker['user']}, " if marker.get("user") else ""
    return shown(f"results in {marker.get('results')} on {marker.get('host')}, user {user}id {marker.get('uid')}")


def read_marker(handle: int) -> dict[str, object] | None:
    """The marker in an open directory, or None if there is none. Raises Refused if it is not one of ours."""
    about = f"the marker {MARKER} in the campaign's directory"
    try:
        # a FIFO would wait for its other end
        file = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refused(f"{about} is not a regular file")
            found = json.loads(os.read(file, _MARKER_BYTES))
        finally:
            os.close(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno in SERVER_ERRORS:  # the file system's trouble, not the marker's
            raise
        raise Refused(f"{about} cannot be read: {getattr(error, 'strerror', error)}") from None
    if not isinstance(found, dict):
        raise Refused(f"{about} is not ours")
    return found


def _write_marker(handle: int, content: Mapping[str, object]) -> None:
    """Whole, or not at all."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(UNFINISHED, dir_fd=handle)
    with open(os.open(UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle), "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(UNFINISHED, MARKER, src_dir_fd=handle, dst_dir_fd=handle)
    os.fsync(handle)


def place_of(handle: int) -> dict[str, object]:
    """The place that a marker in this directory has, open as `handle`."""
    return {"path": _path(handle), "inode": os.fstat(handle).st_ino, "fsid": f"{os.fstatvfs(handle).f_fsid:016x}"}


def _path(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())


def _check_place(handle: int, directory: str, found: Mapping[str, object]) -> None:
    """Raise Refused if the marker in an open directory was written for another one."""
    place, here = found.get("place"), {"path": _path(handle), "inode": os.fstat(handle).st_ino}
    known = fs_types.of(mount_of(handle).fstype)  # after the look: refuses what was unmounted meanwhile
    same = isinstance(place, dict) and here.items() <= place.items() and not known.subvolumes
    seen = place if same and isinstance(place, dict) else place_of(handle)  # which asks the file system
    if why := wrong(found, Path(directory).name, seen, known.inodes, known.subvolumes):
        raise Refused(f"{directory} is not ours: {why}; it is left alone")


def wrong(
    marker: Mapping[str, object],
    name: str,
    seen: Mapping[str, object],
    keeps_inodes: bool = False,
    subvolumes: bool = False,
) -> str | None:
    """Why a directory of this name is not the one that its marker was written for, or None. Pure.

    seen: `place_of` the directory. keeps_inodes: a directory has the same inode always, so a copy has another one.
    subvolumes: a snapshot has another fsid than its original. An inode alone proves nothing: another file system, and
    another subvolume, has the same numbers.
    """
    campaign, place = marker.get("campaign"), marker.get("place")
    if not isinstance(campaign, str) or not campaign or name != name_of(campaign):
        called = printable(str(campaign))[:100]
        return f"its marker is of the campaign `{called}`, whose directory is called {name_of(called)}"
    if not isinstance(place, dict) or not {"path", "inode", "fsid"} <= place.keys():
        return "its marker does not say for which directory it was written"
    kept = ["path"] + ["inode"] * keeps_inodes + ["fsid"] * subvolumes
    if all(place[each] == seen[each] for each in kept):
        return None
    if (place["inode"], place["fsid"]) == (seen["inode"], seen["fsid"]):
        return None
    if place["path"] == seen["path"]:
        return "its marker was written for another directory of this path, so this is a copy of that, or was restored"
    return f"its marker was written for {printable(str(place['path']))[:300]}, so this is a copy of that, or was moved"


# Claiming it


def claim(directory: str, owner: dict[str, object]) -> None:
    """Make the campaign's directory, or see that it is ours.

    `owner`: {uuid, campaign, and more for people who read the marker}. Ours means: the marker's UUID is that of the
    results. Users, hosts and paths are the same on clones and in containers. Raises Refused otherwise.
    """
    parent, name = os.path.split(directory)
    for above in (Path(os.path.realpath(parent)), *Path(os.path.realpath(parent)).parents):
        if above.name.startswith(name_of("")) and os.path.lexists(above / MARKER):
            raise Refused(f"the target {parent} is inside {above}, which is a campaign's directory; name another one")
    outer = os.open(parent, _TARGET)
    try:
        made = _make(name, outer, parent)
        try:
            handle = _open_entry(outer, name, directory)
        except PermissionError:
            if made:
                os.rmdir(name, dir_fd=outer)
                why = f"{directory} would be closed to you, who makes it; set a umask that leaves you all rights"
                raise Refused(why) from None
            raise Refused(
                f"{directory} is closed to user {procfs.user_name(os.getuid())}, so it is another user's; it is left"
                " alone. Choose another campaign name."
            ) from None
        try:
            _claimed(directory, handle, outer, owner, made)
        finally:
            os.close(handle)
    finally:
        os.close(outer)


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
        if error.errno in _DENIED:
            raise Refused(f"{cannot_write(f'the target {parent}', os.fstat(outer))}; {PERMIT}") from None
        raise


def _claimed(directory: str, handle: int, outer: int, owner: dict[str, object], made: bool) -> None:
    """See that a directory that is open is ours, and shut it to others."""
    if mount_number(handle) != mount_number(outer):
        raise Refused(f"{directory} is a mount point, so not on the target; unmount it, or choose another name")
    found = read_marker(handle)
    ours = bool(found and found.get("uuid") == owner["uuid"])
    _check_owner(directory, handle, made or ours)
    if found is None:
        if set(os.listdir(handle)) - {UNFINISHED}:  # that one: we were killed while we wrote it
            raise Refused(
                f"{directory} exists, but has no marker {MARKER} of ours; it is left alone."
                " Choose another campaign name, or remove it yourself."
            )
        _write_marker(handle, owner | {"place": place_of(handle)})
    elif not ours:
        raise Refused(
            f"{directory} belongs to other results ({whose(found)}); it is left alone. Choose another campaign name, or"
            " remove it yourself if those results are gone"
        )
    else:
        _check_place(handle, directory, found)
    mode = os.fstat(handle).st_mode
    if mode & 0o022 and os.fstat(handle).st_uid == os.getuid():
        os.fchmod(handle, stat.S_IMODE(mode) & ~0o022)
    _clear_probes(handle)


def _check_owner(directory: str, handle: int, proven: bool) -> None:
    """Raise Refused if the directory is another user's, who could put links in the way of tools.

    proven: we made it, or its marker has the UUID of our results. Then another owner is how the server shows us (NFS),
    or a colleague whose results we go on with; root accepts neither.
    """
    uid = os.fstat(handle).st_uid
    if uid in (0, os.getuid()) or (proven and os.getuid() != 0):
        return
    user = procfs.user_name(uid)
    if os.getuid() != 0:
        raise Refused(f"{directory} belongs to user {user}; it is left alone. Choose another campaign name.")
    raise Refused(
        f"{directory} belongs to user {user}, and root measures only in what is root's; it is left alone. Run as that"
        " user, or choose another campaign name."
    )


def owner_of(directory: str) -> dict[str, object] | None:
    """The marker of the campaign's directory; None if there is no such directory. Makes nothing."""
    parent, name = os.path.split(directory)
    try:
        outer = os.open(parent, _TARGET)
        try:
            handle = _open_entry(outer, name, directory)
        finally:
            os.close(outer)
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
        return (owner_of(directory) or {}).get("uuid") == uuid != ""
    except Refused:
        return False
    except OSError as error:
        if error.errno in SERVER_ERRORS:
            raise
        return False


def _open_entry(parent: int, name: str, directory: str) -> int:
    """Open a directory by its name in another; `directory`: what it is called in sentences."""
    try:
        return os.open(name, DIRECTORY, dir_fd=parent)
    except OSError as error:
        try:
            os.readlink(name, dir_fd=parent)
        except OSError:
            raise OSError(error.errno, error.strerror, directory) from None
        raise Refused(f"{directory} is a symbolic link; it is not followed") from None


# The way into it


class Place(NamedTuple):
    """The campaign's directory, as every operation of the agent takes it (over the socket: a list).

    directory: its absolute path. uuid: of its marker. file_system: identify.identity of what it was claimed on; ""
    where that is not known.
    """

    directory: str
    uuid: str
    file_system: str = ""


#: What was seen of places: their device and mount, and how often the table of mounts had changed by then (the kernel
#: gives both numbers to another file system after an unmount).
_seen: dict[Place, tuple[int, int, int]] = {}


class Opened:
    """The campaign's directory, open: `handle`; `parent` is the directory that it is in. Use as a context manager.

    It is not a link or a mount point, has our marker, and is on the file system that it was claimed on. `tools`: they
    will follow paths into it, so nothing may be mounted below it; else everything is opened from the handle, and what
    is mounted below is in `mounts`, by its path from here.

    Raises Refused, and OSError where it is not there or the file system fails.
    """

    def __init__(self, place: Place, tools: bool = True):
        self.place = place
        self.directory = place.directory
        outer, self.name = os.path.split(self.directory)
        self.handle = -1
        self.parent = os.open(outer, _TARGET)
        try:
            self.handle = _open_entry(self.parent, self.name, self.directory)
            self._check()
            if tools and self.mounts:
                raise Refused(
                    f"`{shown(self.mounts[0])}` in {self.directory} is a mount point; it is left alone, and nothing is"
                    " measured beside it: unmount it"
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for handle in (self.handle, self.parent):
            if handle >= 0:
                os.close(handle)
        self.handle = self.parent = -1

    def _check(self) -> None:
        self.mount, table = mount_number(self.handle), live_mounts().now()
        if mount_number(self.parent) != self.mount:
            raise Refused(f"{self.directory} is a mount point; it is left alone")
        status = os.fstat(self.handle)
        now = status.st_dev, self.mount, live_mounts().changes
        if _seen.get(self.place) != now:  # at first, and when anything was mounted or unmounted
            here = _identity_of(self.handle)
            if self.place.file_system and here != self.place.file_system:
                raise Refused(
                    f"{self.directory} is on another file system than when it began ({shown(here)}, and it was"
                    f" {shown(self.place.file_system)}); is the target still mounted?"
                )
            _seen[self.place] = now
        self._check_marker()
        _check_owner(self.directory, self.handle, proven=True)
        self.owner = status.st_uid
        inside = f"{_path(self.handle)}/"
        below = (m.point for m in table.values() if m.parent == self.mount and m.point.startswith(inside))
        self.mounts = [point.removeprefix(inside) for point in below]

    def _check_marker(self) -> None:
        """Raise Refused if the marker has not our UUID, or was written for another directory."""
        found = read_marker(self.handle)
        if found is None:
            raise Refused(f"{self.directory} has no marker {MARKER} of ours any more; it is left alone")
        if not self.place.uuid or found.get("uuid") != self.place.uuid:
            raise Refused(f"{self.directory} belongs to another campaign ({whose(found)}); it is left alone")
        _check_place(self.handle, self.directory, found)

    def is_mine(self, uid: int) -> bool:
        """Whether what belongs to this user id is ours: servers may show another id than ours for what we make."""
        return uid in (self.owner, os.getuid())

    @contextmanager
    def below(self, path: str, create: bool = False) -> Iterator[int]:
        """A directory below, open; no component may be a symbolic link or a mount point."""
        handle = self._open_below(path, create)
        try:
            yield handle
        finally:
            os.close(handle)

    def _open_below(self, path: str, create: bool) -> int:
        parts = [part for part in path.split("/") if part]
        if {".", ".."} & set(parts):
            raise Refused(f"`{path}` names nothing below {self.directory}")
        handle = os.dup(self.handle)
        for part in parts:
            try:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=handle)
                inner = os.open(part, DIRECTORY, dir_fd=handle)
            except NotADirectoryError:
                what = "is a symbolic link or no directory, and is not followed"
                raise NotADirectoryError(errno.ENOTDIR, what, f"{self.directory}/{path}") from None
            finally:
                os.close(handle)
            handle = inner
            if mount_number(handle) != self.mount:
                os.close(handle)
                raise Refused(f"`{shown(part)}` in {self.directory} is a mount point; it is left alone")
        return handle


def check(place: Place) -> None:
    """See that tools may be started on paths in the campaign's directory. Raises Refused, and OSError."""
    Opened(place).close()


def _identity_of(handle: int) -> str:
    """identify.identity of what an open directory is on."""
    shows = mount_of(handle)
    facts = {"fstype": printable(shows.fstype), "source": without_password(printable(shows.source))}
    return identify.identity(facts | {"fsid": f"{os.fstatvfs(handle).f_fsid:016x}"})


# Whether it can be worked in


def state(place: Place, node: str = "", data: bool = True) -> str | None:
    """Why the campaign's directory cannot be worked in any more, or None. A lack of space, or a limit on
    the size of files, is not such a reason.

    A small file is written to stable storage and read back: an empty one needs no data server. `node`: goes into its
    name, because all nodes look at the same time. `data`: False makes an empty file instead. Raises OSError for other
    errors of the file system.
    """
    directory = place.directory
    denied = f"{directory} cannot be written to any more by user {procfs.user_name(os.getuid())}"
    try:
        ours = Opened(place)
    except (FileNotFoundError, NotADirectoryError):
        return _gone(place)
    except PermissionError:
        return denied
    except Refused as error:
        return str(error)
    with ours:
        try:
            _probe(ours.handle, f"{PROBE}.{node}" if node else PROBE, os.urandom(_PROBE_BYTES if data else 0))
            return None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # EFBIG: a limit on the size of files
                return None
            if error.errno == errno.EROFS:
                return f"the target is read-only now: nothing can be written to {directory}"
            if error.errno in _DENIED:
                return denied
            raise


def _gone(place: Place) -> str:
    """The sentence on a campaign's directory that is not there any more, and on which file system its path is now, if
    that is another one."""
    changed = ""
    above = next(path for path in Path(place.directory).parents if path.is_dir())
    here = identify.identity(identify.identify(str(above)))
    if place.file_system and here != place.file_system:
        changed = f": {above} is on {shown(here)} now, and the target was on {shown(place.file_system)}"
    return f"{place.directory} is no longer there{changed}; is the file system still mounted?"


def _probe(handle: int, name: str, content: bytes) -> None:
    """Write a file to stable storage, read it back past this node's cache as far as that can be had, remove it."""
    with contextlib.suppress(FileNotFoundError):  # left by a kill
        os.unlink(name, dir_fd=handle)
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=handle)
    try:
        try:
            done = 0
            while done < len(content):
                done += os.write(file, content[done:])
            if content:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            done = 0
            while part := os.pread(file, len(content), done):
                if part != content[done : done + len(part)]:
                    break
                done += len(part)
            if done != len(content):
                raise OSError(errno.EIO, f"of {len(content)} bytes, {done} are read back as they were written", name)
        finally:
            os.close(file)
    finally:
        os.unlink(name, dir_fd=handle)


def remove_probes(place: Place) -> None:
    """Remove probes that a kill has left in the campaign's directory."""
    with Opened(place, tools=False) as ours:
        _clear_probes(ours.handle)


def _clear_probes(handle: int) -> None:
    """Remove regular files of an open directory that are named as probes are; of any node."""
    with os.scandir(handle) as entries:
        left = [e.name for e in entries if is_probe(e.name) and e.is_file(follow_symlinks=False)]
    for name in left:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=handle)


def is_probe(name: str) -> bool:
    return name == PROBE or name.startswith(f"{PROBE}.")


# Its striping


#: A line of what a command says may be a column of a table.
_LONGEST = 300
#: Where GPFS has its commands, which is on few users' PATH.
_MORE_PATH = "/usr/lpp/mmfs/bin"


class _Failed(Exception):
    """A command is not there, or did not succeed; the message says which."""


def _run(argv: Sequence[str], place: Place) -> str:
    """Output of a command on the campaign's directory. Raises _Failed, and OSError where that is not there."""
    path = os.pathsep.join([*os.get_exec_path(), _MORE_PATH])
    program = shutil.which(argv[0], path=path)
    if program is None:
        raise _Failed(f"{argv[0]} is not on PATH")
    with Opened(place) as ours:
        done = subprocess.run(
            [program, *argv[1:], ours.directory],
            cwd=f"/proc/self/fd/{ours.handle}",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    output, errors = os.fsdecode(done.stdout), os.fsdecode(done.stderr)
    if done.returncode:
        first = next(iter((errors + output).strip().splitlines()), "it says nothing")
        raise _Failed(f"`{_one_line(' '.join(argv))}` ended with exit code {done.returncode}: {_one_line(first)}")
    return output


def _one_line(text: str) -> str:
    """Without line ends, gaps and what steers a terminal; cut."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


#: The layout if none could be read; a reason may follow.
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class _Commands:
    """Commands of a file system; the directory follows, after the arguments of `set`."""

    show: tuple[str, ...]
    set: tuple[str, ...] | None = None
    #: The layout follows this word.
    heading: str = ""


#: lfs-setstripe(1) and lfs-getstripe(1) of Lustre, the help of beegfs-ctl 7. GPFS has a layout per pool and policy,
#: not per directory: it can only be shown.
_COMMANDS = {
    "lustre": _Commands(("lfs", "getstripe", "-d"), ("lfs", "setstripe")),
    "beegfs": _Commands(
        ("beegfs-ctl", "--getentryinfo"), ("beegfs-ctl", "--setpattern"), heading="Stripe pattern details:"
    ),
    "gpfs": _Commands(("mmlsattr", "-L")),
}
#: Options that a value follows (or is attached to), and those that it can only be attached to. All others are refused:
#: some read or make files elsewhere (`--copy`, `--yaml`, `--unmounted`), and beegfs-ctl takes some for another task
#: than --setpattern (`--removenode`).
_FOLLOWED = frozenset(
    {"-c", "--stripe-count", "-C", "--overstripe-count", "-S", "--stripe-size", "-i", "--stripe-index", "-p", "--pool"}
    | {"-o", "--ost", "--ost-list", "-L", "--layout", "-E", "--component-end", "--comp-end"}
    | {"-z", "--extension-size", "--ext-size", "--component-flags", "--comp-flags"}
)
_ATTACHED = frozenset({"-N", "--mirror-count", "--numtargets", "--chunksize", "--storagepoolid", "--pattern"})


def layout_refused(arguments: Sequence[str]) -> str | None:
    """Why these arguments are not handed to the file system's command, or None. Pure.

    The command works on the campaign's directory only, so no argument may name another place.
    """
    if named := next((a for a in arguments if "/" in a or "\0" in a or "\n" in a), None):
        return f"`{shortened(named)}` names a place; the layout is set on the campaign's directory alone"
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith("--"):
            name, attached, _ = argument.partition("=")
        else:
            name, attached = argument[:2], argument[2:]
        if name in _FOLLOWED:
            if not attached and next(rest, None) is None:
                return f"`{shortened(argument)}` lacks its value"
        elif name not in _ATTACHED:
            return (
                f"`{shortened(argument)}` is no option that sets a layout; there are"
                f" {', '.join(sorted(_FOLLOWED | _ATTACHED))}"
                " (one text each for an option and its value, or both in one: --numtargets=4)"
            )
    return None


def unsettable(fstype: str) -> Obstacle | None:
    """Why target.layout cannot be set on a file system of this type, or None. Pure."""
    able = [name for name, commands in _COMMANDS.items() if commands.set]
    if fstype in able:
        return None
    return Obstacle(f"target.layout can be set on {' and '.join(able)}, and the target is {fstype}", "leave it out")


def set_layout(place: Place, fstype: str, arguments: list[str]) -> None:
    """Set the layout of what is written to the campaign's directory from now on. Raises Refused."""
    commands = _COMMANDS.get(fstype)
    if commands is None or commands.set is None or (wrong := layout_refused(arguments)):
        raise Refused(str(unsettable(fstype) or f"target.layout: {wrong}"))
    try:
        _run([*commands.set, *arguments], place)
    except _Failed as error:
        raise Refused(f"target.layout cannot be set: {error}") from None


def read_layout(place: Place, fstype: str) -> str:
    """The layout of the campaign's directory, in one line; NOT_RECORDED, and why, where it cannot be read."""
    commands = _COMMANDS.get(fstype)
    if commands is None:
        return NOT_RECORDED
    try:
        printed = _run(commands.show, place)
    except _Failed as error:
        return f"{NOT_RECORDED}: {error}"
    directory = place.directory
    details = printed.split(commands.heading)[-1] if commands.heading else printed
    lines = (line.strip("+ ") for line in details.splitlines() if directory not in line)  # which one it is, we know
    return _one_line("; ".join(filter(None, lines))) or f"{NOT_RECORDED}: {commands.show[0]} shows nothing"


#: Of MooseFS: sets for how many seconds files that are deleted are kept.
_TRASH = ("mfssettrashtime", "0")


def has_trash(volume: str) -> bool:
    """Whether a file system has a trash that we can turn off. `volume`: its name (filesystem.volume). Pure."""
    return re.match(r"fuse(\.\S+)? mfs#", volume) is not None


def keep_nothing(place: Place) -> str | None:
    """Have files that are made in the campaign's directory from now on free their space when they are deleted; why
    that was not possible, or None."""
    try:
        _run(_TRASH, place)
    except _Failed as error:
        return str(error)
    return None
