"""The campaign's directory on a target, `<target>/iosweep-<campaign>/`: marker, claiming, opening, probes, striping.

The marker proves that the directory is ours: it holds a UUID that the results also have. A rename or a mount may make
its path lead to another directory at any time. So every operation that reads, writes or deletes below it
takes a `Place` and goes through `Opened`, which follows no symbolic link and crosses no mount point. All operations run
inside the agent.
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
#: Name of the marker while it is written.
UNFINISHED = f"{MARKER}.tmp"
#: Upper limit for reading a marker. Ours are far smaller.
_MARKER_BYTES = 1 << 16
#: Subdirectories: new files of the current repetition, and data sets. We create only directories in them.
FRESH, SETS = PARTS = ("fresh", "sets")
#: A file in FRESH, written to test whether the target takes data, and removed at once.
PROBE = ".probe"
#: Size of a probe: file systems store smaller files with their metadata (Lustre: usually up to 1 MiB).
_PROBE_BYTES = 1 << 20
#: Flags to open a directory.
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: Flags to open the target. It may be a link, because the user named it, and need not be readable.
_TARGET = os.O_PATH | os.O_DIRECTORY
_DENIED = (errno.EACCES, errno.EPERM)


def name_of(campaign: str, target: str = "") -> str:
    """Name of the directory of a campaign. target: name of the target, where the campaign has several."""
    return f"iosweep-{campaign}" + (f"-{target}" if target else "")


def directory_of(directory: str, campaign: str, target: str = "") -> str:
    """Absolute path of the campaign's directory in the directory of a target."""
    return str(Path(directory).absolute() / name_of(campaign, target))


# The marker


def describe_owner(marker: Mapping[str, object]) -> str:
    """Describe the owner that a marker names, for a message."""
    user = f"{marker['user']}, " if marker.get("user") else ""
    where = f"results in {marker.get('results')} on {marker.get('host')}, user {user}id {marker.get('uid')}"
    return shortened(printable(where), 300)


def read_marker(handle: int) -> dict[str, object] | None:
    """Read the marker in an open directory; None if there is none. Raises Refused if it is not a marker of ours."""
    about = f"the marker {MARKER} in the campaign's directory"
    try:
        # O_NONBLOCK: opening a FIFO would block until its other end opens
        with opened(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, handle) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refused(f"{about} is not a regular file")
            marker = json.loads(os.read(file, _MARKER_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno in SERVER_ERRORS:  # the file system fails, not the marker
            raise
        raise Refused(f"{about} cannot be read: {getattr(error, 'strerror', error)}") from None
    if not isinstance(marker, dict):
        raise Refused(f"{about} is not ours")
    return marker


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
    """The marker of the campaign's directory; None if there is no such directory. Creates nothing."""
    parent, name = os.path.split(directory)
    try:
        with opened(parent, _TARGET) as parent_handle, _open_entry(parent_handle, name, directory) as handle:
            marker = read_marker(handle)
    except FileNotFoundError:
        return None
    if marker is None:
        raise Refused(f"{directory} has no marker {MARKER} of ours; it is left alone")
    return marker


def has_marker(directory: str, uuid: str) -> bool:
    """Whether the campaign's directory exists, with a marker that has this UUID. Creates nothing.

    Raises OSError if the file system's server fails: then it is unknown.
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
    """Create the campaign's directory, or check that it is ours. Raises Refused if it is not.

    `owner`: content of the marker: {uuid, campaign, and more for human readers}. A directory is ours if its
    marker has the UUID of the results. User, host and path prove nothing: clones and containers share them.
    """
    parent, name = os.path.split(directory)
    _check_above(parent)
    with opened(parent, _TARGET) as parent_handle:
        try:
            os.mkdir(name, mode=0o700, dir_fd=parent_handle)
        except FileExistsError:
            pass
        except OSError as error:
            raise _no_directory(error, parent, parent_handle) from None
        with _open_ours(parent_handle, directory, str(owner["uuid"])) as (handle, marked):
            if not marked:
                _write_marker(handle, owner)
            status = os.fstat(handle)
            if status.st_mode & 0o022 and status.st_uid == os.getuid():
                os.fchmod(handle, stat.S_IMODE(status.st_mode) & ~0o022)  # deny others write access


def check_claim(directory: str, uuid: str) -> None:
    """Check that the campaign's directory can be claimed with this UUID, without writing anything. Raises Refused."""
    parent, _ = os.path.split(directory)
    _check_above(parent)
    with opened(parent, _TARGET) as parent_handle:
        try:
            with _open_ours(parent_handle, directory, uuid):
                pass
        except FileNotFoundError:
            if not os.access(parent, os.W_OK | os.X_OK):
                code = errno.EROFS if os.statvfs(parent).f_flag & os.ST_RDONLY else errno.EACCES
                raise _no_directory(OSError(code, os.strerror(code)), parent, parent_handle) from None


def _check_above(parent: str) -> None:
    """Raise Refused if the target is inside a campaign's directory."""
    for above in (Path(os.path.realpath(parent)), *Path(os.path.realpath(parent)).parents):
        if above.name.startswith(name_of("")) and os.path.lexists(above / MARKER):
            raise Refused(f"the target {parent} is inside {above}, which is a campaign's directory; name another one")


def _no_directory(error: OSError, parent: str, handle: int) -> Exception:
    """The exception to raise where the campaign's directory cannot be created."""
    if error.errno == errno.EROFS:
        return Refused(f"the target {parent} is read-only; {REMOUNT}")
    if error.errno in _DENIED:
        return Refused(f"{cannot_write(f'the target {parent}', os.fstat(handle))}; {PERMIT}")
    return error


@contextmanager
def _open_ours(parent_handle: int, directory: str, uuid: str) -> Iterator[tuple[int, bool]]:
    """Open the campaign's directory if it is ours by its marker, or empty; yields its handle, and whether it has the
    marker. Raises Refused if it is not ours."""
    try:
        with _open_entry(parent_handle, Path(directory).name, directory) as handle:
            if mount_number(handle) != mount_number(parent_handle):
                reason = "is a mount point, so not on the target; unmount it, or choose another name"
                raise Refused(f"{directory} {reason}")
            _check_owner(directory, handle)
            marker = read_marker(handle)
            # UNFINISHED is left by a run that was killed while it wrote the marker
            if marker is None and set(os.listdir(handle)) - {UNFINISHED}:
                raise Refused(
                    f"{directory} exists, but has no marker {MARKER} of ours; it is left alone."
                    " Choose another campaign name, or remove it yourself."
                )
            if marker is not None and (not uuid or marker.get("uuid") != uuid):
                raise Refused(
                    f"{directory} belongs to another campaign ({describe_owner(marker)}); it is left alone. Choose"
                    " another name, or remove it yourself if those results are gone"
                )
            yield handle, marker is not None
    except PermissionError:
        user = procfs.user_name(os.getuid())
        message = f"{directory} is closed to user {user}, so it is another user's; it is left alone"
        raise Refused(f"{message}. Choose another campaign name.") from None


def _check_owner(directory: str, handle: int) -> None:
    """Raise Refused if we are root and another user owns the directory, who could plant links that tools follow."""
    if os.getuid() == 0 and (uid := os.fstat(handle).st_uid) != 0:
        raise Refused(
            f"{directory} belongs to user {procfs.user_name(uid)}, and root measures only in what is root's; it is left"
            " alone. Run as that user, or choose another campaign name."
        )


# Opening the directory


class Place(NamedTuple):
    """The campaign's directory, as an argument of the agent's operations (over the socket: a list)."""

    directory: str  # absolute path
    uuid: str  # of its marker


@contextmanager
def opened(path: str, flags: int, parent: int | None = None) -> Iterator[int]:
    """Open a file or directory; yields its handle. `parent`: handle of the directory that a relative path is in."""
    handle = os.open(path, flags, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _open_entry(parent: int, name: str, directory: str) -> Iterator[int]:
    """Open a directory by its name in `parent`; yields its handle. `directory`: its path, for messages."""
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
    """Handles of the campaign's directory (`handle`) and of its parent directory (`parent`). Use as a context manager.

    The directory is neither a link nor a mount point, and has our marker. Raises Refused otherwise, and OSError if it
    does not exist or the file system fails.
    """

    def __init__(self, place: Place):
        self.directory = place.directory
        self._uuid = place.uuid
        self._handles = contextlib.ExitStack()

    def __enter__(self) -> Opened:
        parent, self.name = os.path.split(self.directory)
        with contextlib.ExitStack() as handles:
            self.parent = handles.enter_context(opened(parent, _TARGET))
            self.handle, marked = handles.enter_context(_open_ours(self.parent, self.directory, self._uuid))
            if not marked:
                raise Refused(f"{self.directory} has no marker {MARKER} of ours any more; it is left alone")
            self.mount = mount_number(self.handle)
            self._handles = handles.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._handles.close()

    @contextmanager
    def below(self, path: str, create: bool = False) -> Iterator[int]:
        """Open a directory below; yields its handle. No path component may be a symbolic link or a mount point."""
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
                    subdirectory = os.open(part, DIRECTORY, dir_fd=handle)
                except NotADirectoryError:
                    reason = "is a symbolic link or no directory, and is not followed"
                    raise NotADirectoryError(errno.ENOTDIR, reason, f"{self.directory}/{path}") from None
                os.close(handle)
                handle = subdirectory
                if mount_number(handle) != self.mount:
                    raise Refused(f"`{printable(part)}` in {self.directory} is a mount point; it is left alone")
            yield handle
        finally:
            os.close(handle)


def check_marker(place: Place) -> None:
    """Check that tools may be started on paths in the campaign's directory. Raises Refused and OSError."""
    try:
        with Opened(place):
            pass
    except (FileNotFoundError, NotADirectoryError):
        raise Refused(_describe_absence(place)) from None


def _describe_absence(place: Place) -> str:
    return f"{place.directory} is no longer there; is the target mounted, and one file system on all nodes?"


# Probing the directory


def probe(place: Place, node: str = "", data: bool = True) -> str | None:
    """Why the campaign's directory cannot be used any more, or None. A lack of space or a limit on
    file sizes is no such reason.

    A small file is written to stable storage and read back. `node`: part of its name, because all nodes probe at once.
    `data`: False writes an empty file, which needs no data server. Raises OSError for other errors of the file system.
    """
    directory = place.directory
    try:
        with Opened(place) as ours, ours.below(FRESH, create=True) as handle:
            _probe(handle, f"{PROBE}.{node}" if node else PROBE, os.urandom(_PROBE_BYTES if data else 0))
    except (FileNotFoundError, NotADirectoryError):
        return _describe_absence(place)
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
    """Write a file to stable storage, drop it from this node's cache if possible, read it back, remove it."""
    with contextlib.suppress(FileNotFoundError):  # left by an agent that was killed
        os.unlink(name, dir_fd=handle)
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=handle)
    try:
        offset = 0
        while offset < len(content):
            offset += os.write(file, content[offset:])
        if content:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        offset = 0
        while part := os.pread(file, len(content), offset):
            if part != content[offset : offset + len(part)]:
                break
            offset += len(part)
        if offset != len(content):
            raise OSError(errno.EIO, f"of {len(content)} bytes, {offset} are read back as they were written", name)
    finally:
        os.close(file)
        os.unlink(name, dir_fd=handle)


# Striping, by commands of the file system

#: Placeholder for a layout that could not be read; a reason may follow.
NOT_RECORDED = "not recorded"
#: Directory of the GPFS commands, which few users have on PATH.
_MORE_PATH = "/usr/lpp/mmfs/bin"


@dataclass(frozen=True)
class _Commands:
    """Commands that show and set the layout of a directory: options and the directory are appended."""

    show: tuple[str, ...]
    set: tuple[str, ...] | None = None
    #: Text in the output after which the layout begins.
    heading: str = ""


#: From lfs-setstripe(1), lfs-getstripe(1), and the help of beegfs-ctl 7. The layout of GPFS belongs to a pool and
#: policy, not to a directory, so it can only be shown.
_COMMANDS = {
    "lustre": _Commands(("lfs", "getstripe", "-d"), ("lfs", "setstripe")),
    "beegfs": _Commands(
        ("beegfs-ctl", "--getentryinfo"), ("beegfs-ctl", "--setpattern"), heading="Stripe pattern details:"
    ),
    "gpfs": _Commands(("mmlsattr", "-L")),
}


class _Failed(Exception):
    """A command is not installed, or failed; the message says which."""


def layout_refused(arguments: Sequence[str]) -> str | None:
    """Why these arguments must not reach the file system's command, or None. Pure."""
    for argument in arguments:
        if argument == ".." or {"/", "\0", "\n"} & set(argument):
            return f"`{shortened(argument)}` names a place; the layout is set on the campaign's directory alone"
    return None


def unsettable(fstype: str) -> Obstacle | None:
    """Why target.layout cannot be set on a file system of this type, or None. Pure."""
    settable = [name for name, commands in _COMMANDS.items() if commands.set]
    if fstype in settable:
        return None
    what = f"target.layout can be set on {' and '.join(settable)}, and the target is {fstype}"
    return Obstacle(what, "leave it out", key="layout")


def set_layout(place: Place, fstype: str, arguments: list[str]) -> None:
    """Set the layout of new files in the campaign's directory. Raises Refused."""
    commands = _COMMANDS.get(fstype)
    if commands is None or commands.set is None or (problem := layout_refused(arguments)):
        raise Refused(str(unsettable(fstype) or f"target.layout: {problem}"))
    try:
        _run_command([*commands.set, *arguments], place)
    except _Failed as error:
        raise Refused(f"target.layout cannot be set: {error}") from None


def read_layout(place: Place, fstype: str) -> str:
    """The layout of the campaign's directory, in one line; NOT_RECORDED and the reason if it cannot be read."""
    commands = _COMMANDS.get(fstype)
    if commands is None:
        return NOT_RECORDED
    try:
        printed = _run_command(commands.show, place)
    except _Failed as error:
        return f"{NOT_RECORDED}: {error}"
    details = printed.split(commands.heading)[-1] if commands.heading else printed
    lines = (line.strip("+ ") for line in details.splitlines() if place.directory not in line)
    return _flatten("; ".join(filter(None, lines))) or f"{NOT_RECORDED}: {commands.show[0]} shows nothing"


def _run_command(argv: Sequence[str], place: Place) -> str:
    """Run a command on the campaign's directory; returns its output. Raises _Failed, OSError if that is missing."""
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
        raise _Failed(f"`{_flatten(' '.join(argv))}` ended with exit code {done.returncode}: {_flatten(first)}")
    return output


def _flatten(text: str) -> str:
    """Reduce a text to one line without control characters, short enough for a cell of a table."""
    return shortened(" ".join("".join(c if c.isprintable() else " " for c in text).split()), 300)
