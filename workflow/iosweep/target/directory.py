"""The campaign's directory on the target, `<target>/iosweep-<campaign>/`: its marker, how it is opened, its striping.

The marker proves that the directory is ours: a UUID that the results know, too. A directory of this name may be
another one by now: renamed, or covered by a mount. So every operation that reads, writes or deletes below it takes a
`Place` and goes through `Opened`: no symbolic link is followed, no mount point crossed. All of this runs inside the
agent.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from iosweep.errors import SERVER_ERRORS, Obstacle, Refused
from iosweep.files.safe_paths import mount_number
from iosweep.node import procfs
from iosweep.target.identify import PERMIT, REMOUNT, cannot_write
from iosweep.text import printable, shortened

MARKER = "iosweep.json"
#: Its name until it is whole.
UNFINISHED = f"{MARKER}.tmp"
#: A marker is far smaller; a larger file is not ours.
_MARKER_BYTES = 1 << 16
#: Directories below: new files of the current repetition, and data sets. In these we make directories only.
FRESH, SETS = PARTS = ("fresh", "sets")
#: A file in FRESH that is written to test whether the target takes data, and removed at once.
PROBE = ".probe"
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


def describe_owner(marker: Mapping[str, object]) -> str:
    """The owner that a marker names, for a sentence."""
    user = f"{marker['user']}, " if marker.get("user") else ""
    return shown(f"results in {marker.get('results')} on {marker.get('host')}, user {user}id {marker.get('uid')}")


def read_marker(handle: int) -> dict[str, object] | None:
    """The marker in an open directory, or None if there is none. Raises Refused if it is not one of ours."""
    about = f"the marker {MARKER} in the campaign's directory"
    try:
        # a FIFO would wait for its other end
        with opened(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, handle) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refused(f"{about} is not a regular file")
            found = json.loads(os.read(file, _MARKER_BYTES))
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
    """Write the marker atomically."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(UNFINISHED, dir_fd=handle)
    with open(os.open(UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle), "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(UNFINISHED, MARKER, src_dir_fd=handle, dst_dir_fd=handle)
    os.fsync(handle)


def read_owner(directory: str) -> dict[str, object] | None:
    """The marker of the campaign's directory; None if there is no such directory. Makes nothing."""
    parent, name = os.path.split(directory)
    try:
        with opened(parent, _TARGET) as outer, _entry(outer, name, directory) as handle:
            found = read_marker(handle)
    except FileNotFoundError:
        return None
    if found is None:
        raise Refused(f"{directory} has no marker {MARKER} of ours; it is left alone")
    return found


def has_marker(directory: str, uuid: str) -> bool:
    """Whether the campaign's directory is still there, with the marker of this UUID. Makes nothing.

    Raises OSError where the file system's server fails: then it is not known.
    """
    try:
        return (read_owner(directory) or {}).get("uuid") == uuid != ""
    except Refused:
        return False
    except OSError as error:
        if error.errno in SERVER_ERRORS:
            raise
        return False


def claim(directory: str, owner: dict[str, object]) -> None:
    """Make the campaign's directory, or see that it is ours.

    `owner`: {uuid, campaign, and more for people who read the marker}. Ours means: the marker's UUID is that of the
    results. Users, hosts and paths are the same on clones and in containers. Raises Refused otherwise.
    """
    parent, name = os.path.split(directory)
    for above in (Path(os.path.realpath(parent)), *Path(os.path.realpath(parent)).parents):
        if above.name.startswith(name_of("")) and os.path.lexists(above / MARKER):
            raise Refused(f"the target {parent} is inside {above}, which is a campaign's directory; name another one")
    with opened(parent, _TARGET) as outer:
        try:
            os.mkdir(name, mode=0o700, dir_fd=outer)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno == errno.EROFS:
                raise Refused(f"the target {parent} is read-only; {REMOUNT}") from None
            if error.errno in _DENIED:
                raise Refused(f"{cannot_write(f'the target {parent}', os.fstat(outer))}; {PERMIT}") from None
            raise
        try:
            with _entry(outer, name, directory) as handle:
                if mount_number(handle) != mount_number(outer):
                    why = "is a mount point, so not on the target; unmount it, or choose another name"
                    raise Refused(f"{directory} {why}")
                _check_owner(directory, handle)
                _claim_open(directory, handle, owner)
        except PermissionError:
            user = procfs.user_name(os.getuid())
            closed = f"{directory} is closed to user {user}, so it is another user's; it is left alone"
            raise Refused(f"{closed}. Choose another campaign name.") from None


def _claim_open(directory: str, handle: int, owner: dict[str, object]) -> None:
    """See that an open directory is ours by its marker, which an empty one gets, and shut it to others."""
    found = read_marker(handle)
    if found is None:
        if set(os.listdir(handle)) - {UNFINISHED}:  # the marker of a run that was killed while it wrote
            raise Refused(
                f"{directory} exists, but has no marker {MARKER} of ours; it is left alone."
                " Choose another campaign name, or remove it yourself."
            )
        _write_marker(handle, owner)
    elif found.get("uuid") != owner["uuid"]:
        raise Refused(
            f"{directory} belongs to other results ({describe_owner(found)}); it is left alone. Choose another campaign"
            " name, or remove it yourself if those results are gone"
        )
    status = os.fstat(handle)
    if status.st_mode & 0o022 and status.st_uid == os.getuid():
        os.fchmod(handle, stat.S_IMODE(status.st_mode) & ~0o022)


def _check_owner(directory: str, handle: int) -> None:
    """Raise Refused if we are root, and the directory is another user's, who could put links in the way of tools."""
    if os.getuid() == 0 and (uid := os.fstat(handle).st_uid) != 0:
        raise Refused(
            f"{directory} belongs to user {procfs.user_name(uid)}, and root measures only in what is root's; it is left"
            " alone. Run as that user, or choose another campaign name."
        )


# Opening it


class Place(NamedTuple):
    """The campaign's directory, as every operation of the agent takes it (over the socket: a list).

    directory: its absolute path. uuid: of its marker.
    """

    directory: str
    uuid: str


@contextmanager
def opened(path: str, flags: int, parent: int | None = None) -> Iterator[int]:
    """A handle. `parent`: of the directory that the path begins at."""
    handle = os.open(path, flags, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _entry(parent: int, name: str, directory: str) -> Iterator[int]:
    """A directory, open, by its name in another one; `directory`: its path for sentences."""
    try:
        handle = os.open(name, DIRECTORY, dir_fd=parent)
    except OSError as error:
        try:
            os.readlink(name, dir_fd=parent)
        except OSError:
            raise OSError(error.errno, error.strerror, directory) from None
        raise Refused(f"{directory} is a symbolic link; it is not followed") from None
    try:
        yield handle
    finally:
        os.close(handle)


class Opened:
    """The campaign's directory, open: `handle`; `parent` is the directory that it is in. Use as a context manager.

    It is not a link or a mount point, and has our marker. Raises Refused, and OSError where it is not there or the file
    system fails.
    """

    def __init__(self, place: Place):
        self.directory = place.directory
        self._uuid = place.uuid
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Opened:
        outer, self.name = os.path.split(self.directory)
        with contextlib.ExitStack() as held:
            self.parent = held.enter_context(opened(outer, _TARGET))
            self.handle = held.enter_context(_entry(self.parent, self.name, self.directory))
            self.mount = mount_number(self.handle)
            if mount_number(self.parent) != self.mount:
                raise Refused(f"{self.directory} is a mount point; it is left alone")
            found = read_marker(self.handle)
            if found is None:
                raise Refused(f"{self.directory} has no marker {MARKER} of ours any more; it is left alone")
            if not self._uuid or found.get("uuid") != self._uuid:
                whose = describe_owner(found)
                raise Refused(f"{self.directory} belongs to another campaign ({whose}); it is left alone")
            _check_owner(self.directory, self.handle)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @contextmanager
    def below(self, path: str, create: bool = False) -> Iterator[int]:
        """A directory below, open; no component may be a symbolic link or a mount point."""
        parts = [part for part in path.split("/") if part]
        if {".", ".."} & set(parts):
            raise Refused(f"`{path}` names nothing below {self.directory}")
        handle = os.dup(self.handle)
        try:
            for part in parts:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=handle)
                try:
                    inner = os.open(part, DIRECTORY, dir_fd=handle)
                except NotADirectoryError:
                    what = "is a symbolic link or no directory, and is not followed"
                    raise NotADirectoryError(errno.ENOTDIR, what, f"{self.directory}/{path}") from None
                os.close(handle)
                handle = inner
                if mount_number(handle) != self.mount:
                    raise Refused(f"`{shown(part)}` in {self.directory} is a mount point; it is left alone")
            yield handle
        finally:
            os.close(handle)


def check_marker(place: Place) -> None:
    """See that tools may be started on paths in the campaign's directory. Raises Refused, and OSError."""
    try:
        with Opened(place):
            pass
    except (FileNotFoundError, NotADirectoryError):
        raise Refused(_gone(place)) from None


def _gone(place: Place) -> str:
    return f"{place.directory} is no longer there; is the target mounted, and one file system on all nodes?"


# Probing it


def probe(place: Place, node: str = "", data: bool = True) -> str | None:
    """Why the campaign's directory cannot be used any more, or None. A lack of space, or a limit on the size of files,
    is not such a reason.

    A small file is written to stable storage and read back: an empty one needs no data server. `node`: goes into its
    name, because all nodes look at the same time. `data`: False makes an empty file instead. Raises OSError for other
    errors of the file system.
    """
    directory = place.directory
    try:
        with Opened(place) as ours, ours.below(FRESH, create=True) as handle:
            _probe(handle, f"{PROBE}.{node}" if node else PROBE, os.urandom(_PROBE_BYTES if data else 0))
    except (FileNotFoundError, NotADirectoryError):
        return _gone(place)
    except Refused as error:
        return str(error)
    except OSError as error:
        if error.errno == errno.EROFS:
            return f"the target is read-only now: nothing can be written to {directory}"
        if error.errno in _DENIED:
            return f"{directory} cannot be written to any more by user {procfs.user_name(os.getuid())}"
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # EFBIG: a limit on the size of files
            raise
    return None


def _probe(handle: int, name: str, content: bytes) -> None:
    """Write a file to stable storage, read it back past this node's cache as far as that can be had, remove it."""
    with contextlib.suppress(FileNotFoundError):  # left by a kill
        os.unlink(name, dir_fd=handle)
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=handle)
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
        os.unlink(name, dir_fd=handle)


# Its striping, by a command of the file system

#: The layout if none could be read; a reason may follow.
NOT_RECORDED = "not recorded"
#: Where GPFS has its commands, which is on few users' PATH.
_MORE_PATH = "/usr/lpp/mmfs/bin"


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


class _Failed(Exception):
    """A command is not there, or did not succeed; the message says which."""


def layout_refused(arguments: Sequence[str]) -> str | None:
    """Why these arguments are not handed to the file system's command, or None. Pure."""
    for argument in arguments:
        if argument == ".." or {"/", "\0", "\n"} & set(argument):
            return f"`{shortened(argument)}` names a place; the layout is set on the campaign's directory alone"
    return None


def unsettable(fstype: str) -> Obstacle | None:
    """Why target.layout cannot be set on a file system of this type, or None. Pure."""
    able = [name for name, commands in _COMMANDS.items() if commands.set]
    if fstype in able:
        return None
    return Obstacle(f"target.layout can be set on {' and '.join(able)}, and the target is {fstype}", "leave it out")


def set_layout(place: Place, fstype: str, arguments: list[str]) -> None:
    """Set the layout of new files in the campaign's directory. Raises Refused."""
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
    details = printed.split(commands.heading)[-1] if commands.heading else printed
    lines = (line.strip("+ ") for line in details.splitlines() if place.directory not in line)
    return _one_line("; ".join(filter(None, lines))) or f"{NOT_RECORDED}: {commands.show[0]} shows nothing"


def _run(argv: Sequence[str], place: Place) -> str:
    """Output of a command on the campaign's directory. Raises _Failed, and OSError where that is not there."""
    program = shutil.which(argv[0], path=os.pathsep.join([*os.get_exec_path(), _MORE_PATH]))
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
    """A text without line ends, gaps and terminal controls, cut to fit a cell of a table."""
    return shortened(" ".join("".join(c if c.isprintable() else " " for c in text).split()), 300)
