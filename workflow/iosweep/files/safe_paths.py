"""Files below a directory that others may have prepared: no symbolic link is followed, nothing but files is read.

A results directory may come from somebody else, or others may write there: a link, a pipe or a mount point can have the
name of a file or a folder. The directory itself (`root`) may be reached through links; below it each folder is opened
from the one above it. Errors are OSErrors whose text says what is in the way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: The temporary name of a file in `Folder.replaced`.
TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<writer>[1-9][0-9]*)\.tmp", re.DOTALL)
_KINDS = {
    stat.S_IFLNK: "a symbolic link, which is not followed",
    stat.S_IFDIR: "a directory, not a file",
    stat.S_IFREG: "a file, not a directory",
}
_OTHER_KIND = "a pipe, socket or device, not a file"


@dataclass(frozen=True, slots=True)
class Folder:
    """An open directory. `name` is always the name of an entry in it, without a slash. Raises OSError."""

    handle: int
    path: Path  # for messages

    def names(self) -> list[str]:
        """The names of its entries, sorted."""
        with os.scandir(self.handle) as entries:
            return sorted(entry.name for entry in entries)

    def status(self, name: str) -> os.stat_result | None:
        """The status of an entry; links are not followed. None where there is no entry."""
        try:
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def obstacle(self, name: str) -> str | None:
        """The kind of an entry that is no directory, as `a symbolic link`; None for a directory, or no entry."""
        status = self.status(name)
        if status is None or stat.S_ISDIR(status.st_mode):
            return None
        return _KINDS.get(stat.S_IFMT(status.st_mode), _OTHER_KIND).partition(",")[0]

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """A handle of a regular file. Never waits for the other end of a pipe."""
        path = str(self.path / name)
        try:
            # O_NONBLOCK has no effect on a regular file
            handle = os.open(
                name,
                flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY,
                0o664,
                dir_fd=self.handle,
            )
        except OSError as error:
            raise self._in_the_way(name, error) from None
        if (kind := stat.S_IFMT(os.fstat(handle).st_mode)) != stat.S_IFREG:
            os.close(handle)
            raise OSError(errno.EINVAL, _KINDS.get(kind, _OTHER_KIND), path)
        return handle

    def read(self, name: str, most: int | None = None) -> bytes:
        """A whole file. With `most`, a larger one raises OSError (EFBIG) before it is read."""
        with os.fdopen(self.open(name), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if most is not None and size > most:
                raise OSError(errno.EFBIG, f"{size:,} bytes, and at most {most:,} are read", str(self.path / name))
            return file.read()

    def write(self, name: str, data: bytes, sync_name: bool = True) -> None:
        """Write a file whole: temporary name, sync, rename, sync of the directory."""
        with self.replaced(name, sync_name) as file:
            file.write(data)

    @contextmanager
    def replaced(self, name: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        """A new file that is synced and takes its name at the end of the block, or disappears if that raises.

        A link of this name is replaced and not followed. sync_name: False where another file follows in the directory,
        whose write syncs both names.
        """
        temporary = f".{name}.{os.getpid()}.tmp"
        self.remove(temporary)  # of a killed process with our number
        try:
            with (
                named(self.path / name),
                os.fdopen(self.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL), "w+b") as file,
            ):
                yield file
                file.flush()
                os.fsync(file.fileno())
            try:
                os.replace(temporary, name, src_dir_fd=self.handle, dst_dir_fd=self.handle)
            except OSError as error:
                raise self._in_the_way(name, error) from None
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self.handle)
            raise
        if sync_name:
            os.fsync(self.handle)

    def rename(self, name: str, to: str) -> None:
        """Give an entry another name."""
        os.rename(name, to, src_dir_fd=self.handle, dst_dir_fd=self.handle)
        os.fsync(self.handle)

    def remove(self, name: str) -> None:
        """Remove an entry that is not a directory, if it is there. A link is removed itself."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.handle)

    def remove_tree(self, name: str) -> None:
        """Remove an entry with all that is below it, if it is there. Links are removed themselves. With a mount in
        it all is left alone, which raises OSError (EBUSY)."""
        status = self.status(name)
        if status is None or not stat.S_ISDIR(status.st_mode):
            self.remove(name)
            return
        for path, _, _, handle in os.fwalk(name, dir_fd=self.handle):
            if mount_number(handle) != mount_number(self.handle):
                raise OSError(errno.EBUSY, "a mount point, which is left alone", str(self.path / path))
        shutil.rmtree(name, dir_fd=self.handle)

    @contextmanager
    def folder(self, name: str, make: bool = False) -> Iterator[Folder]:
        """A directory in it. make: if it is not there."""
        found = self._folder(name, make)
        try:
            yield found
        finally:
            os.close(found.handle)

    def _folder(self, name: str, make: bool) -> Folder:
        path = self.path / name
        try:
            return Folder(os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.handle), path)
        except FileNotFoundError:
            if not make:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        except OSError as error:
            raise self._in_the_way(name, error, folder=True) from None
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o775, dir_fd=self.handle)
            os.fsync(self.handle)  # the name of a new one must survive a power failure, as its files do
        return self._folder(name, make=False)

    def _in_the_way(self, name: str, error: OSError, folder: bool = False) -> OSError:
        """The error with its path, and with the kind of the entry where that is the reason."""
        why = error.strerror or str(error)
        status = self.status(name) if error.errno in WRONG_KIND else None
        kind = stat.S_IFMT(status.st_mode) if status else None
        if kind is not None and kind != (stat.S_IFDIR if folder else stat.S_IFREG):
            why = _KINDS.get(kind, _OTHER_KIND)
        return type(error)(error.errno, why, str(self.path / name))


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Give an OSError of the block the path, if it has none: to write to a full disk fails without."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


#: Errors of opening or replacing an entry of another kind than expected.
WRONG_KIND = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENOTEMPTY)


def remedy(error: OSError) -> str:
    """What to do so that a file can be read or written, as `make room`; empty if that is not known."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room"
    return "move it away" if error.errno in (*WRONG_KIND, errno.EINVAL) else ""


@contextmanager
def folder(root: Path, below: str | Path = "", make: bool = False) -> Iterator[Folder]:
    """A directory below `root`. make: with those above it."""
    parts = Path(below).parts
    if ".." in parts or Path(below).is_absolute():
        raise ValueError(f"`{below}` is not below {root}")
    if make:
        _make(root)
    found = Folder(os.open(root, _DIRECTORY), root)
    try:
        for name in parts:
            above = found
            try:
                found = above._folder(name, make)
            finally:
                if found is not above:
                    os.close(above.handle)
        yield found
    finally:
        os.close(found.handle)


def names(root: Path, below: str) -> list[str]:
    """The names in a directory below `root`, sorted; none where there is no directory, or a link in its place."""
    try:
        with folder(root, below) as place:
            return place.names()
    except OSError as error:
        if error.errno in (errno.ENOENT, *WRONG_KIND):
            return []
        raise


def read(root: Path, name: str | Path, most: int | None = None) -> bytes:
    """A whole file below `root`, see Folder.read."""
    with folder(root, Path(name).parent) as place:
        return place.read(Path(name).name, most)


def write(root: Path, name: str | Path, data: bytes) -> None:
    """Write a file below `root` whole, with the folders above it; see Folder.write."""
    with folder(root, Path(name).parent, make=True) as place:
        place.write(Path(name).name, data)


def remove(root: Path, name: str | Path) -> None:
    """Remove a file below `root`, if it is there."""
    with contextlib.suppress(FileNotFoundError), folder(root, Path(name).parent) as place:
        place.remove(Path(name).name)


def mount_number(handle: int) -> int:
    """The number of the mount of an open file. A bind mount has the device number of its source."""
    info = os.open(f"/proc/self/fdinfo/{handle}", os.O_RDONLY)
    try:
        return int(os.read(info, 4096).partition(b"mnt_id:")[2].split()[0])
    finally:
        os.close(info)


def _make(directory: Path) -> None:
    """Make a directory with those above it, each synced."""
    if not directory.is_dir():
        _make(directory.parent)
        directory.mkdir(0o775, exist_ok=True)
        handle = os.open(directory.parent, _DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Logs of commands


def open_log(log: Path, results: Path) -> TextIO:
    """A log to add to. Below the results no symbolic link is followed. Raises OSError."""
    root = results if log.is_relative_to(results) else log.parent
    with folder(root, log.relative_to(root).parent, make=True) as place:
        return os.fdopen(place.open(log.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a", encoding="utf-8")


@contextmanager
def logged(log: Path, results: Path) -> Iterator[None]:
    """Copy standard output and errors to a new log. A link or a pipe in its place is replaced."""
    if log.is_relative_to(results):
        remove(results, log.relative_to(results))
    file = open_log(log, results)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Both(stream, file) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        with contextlib.suppress(OSError):  # a full disk
            file.close()


class _Both:
    """A stream whose text also goes to a file."""

    def __init__(self, stream: TextIO, file: TextIO):
        self._stream, self._file = stream, file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):  # a full disk must not hide messages
            self._file.write(text)
            self._file.flush()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
