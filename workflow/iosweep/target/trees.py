"""Directories and files below the campaign's directory: made, counted, removed; complete data sets; samples of data.

They run inside the agent. Each directory is opened from the one above it; no symbolic link is followed, no mount point
crossed. Few names are held at a time, and long operations report their progress (protocol.beat).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec

from iosweep.errors import Refused
from iosweep.files.documents import Count, Part
from iosweep.target.directory import FRESH, MARKER, PARTS, PROBE, UNFINISHED, Opened, Place, opened, shown
from iosweep.target.protocol import beat

A = TypeVar("A")
B = TypeVar("B")

#: Directories that are examined in parallel: each may take a few round trips to a metadata server.
_AT_ONCE = 16
#: The most sentences that are returned.
SENTENCES = 5
#: How a file is opened: a pipe in its place is not waited for.
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def side_by_side(act: Callable[[A], B], things: Sequence[A], pool: ThreadPoolExecutor | None = None) -> list[B]:
    """Apply a function to some things, in parallel where there are several."""
    if len(things) < 2:
        return [act(thing) for thing in things]
    with contextlib.nullcontext(pool) if pool else ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(act, things))


# Directories


def make_directories(place: Place, below: list[str]) -> list[str]:
    """Make directories below the campaign's; returns their absolute paths."""
    with Opened(place) as ours:
        for path in below:
            beat()
            with ours.below(path, create=True):
                pass
        return [str(Path(ours.directory) / path) for path in below]


def list_parts(place: Place) -> list[str]:
    """Names of the entries of the campaign's directory, without its marker."""
    with Opened(place) as ours:
        return sorted(name for name in os.listdir(ours.handle) if name != MARKER)


def measure_usage(place: Place, only: str | None = None) -> dict[str, int]:
    """Bytes and files of the campaign's directory, or of one part, without entries that vanish meanwhile."""
    total = files = 0
    with contextlib.suppress(FileNotFoundError), Opened(place) as ours:  # not made yet, or removed
        for handle, entry in _walk(ours, only or "", skip=True):
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(entry.name, dir_fd=handle, follow_symlinks=False).st_blocks * 512
                files += 1
    return {"bytes": total, "files": files}


def count_files(place: Place, below: str) -> int:
    """Regular files in a directory below the campaign's, and in the directories in it."""
    with Opened(place) as ours:
        with ours.below(below):
            pass
        return sum(entry.is_file(follow_symlinks=False) for _, entry in _walk(ours, below))


def _walk(ours: Opened, below: str, skip: bool = False) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """All entries of a tree except directories, with a handle of the directory that they are in.

    What vanishes meanwhile is left out, and so are mount points; `skip`: directories that cannot be read as well.
    """
    todo = [below]
    while todo:
        path = todo.pop()
        try:
            with ours.below(path) as handle, os.scandir(handle) as entries:
                for entry in entries:
                    beat()
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(f"{path}/{entry.name}")
                    else:
                        yield handle, entry
        except (OSError, Refused) as error:
            if not (skip or isinstance(error, FileNotFoundError | Refused)):
                raise


# Removing trees of any depth and width, by several threads

#: Names of a directory that are held at a time, and how many of them a thread removes at once.
_HELD, _TAKEN = 10_000, 32
#: Threads that wait for the file system in parallel, for each of the two kinds of work.
_REMOVING = 8
_FOREIGN = "iosweep did not make it; it is left alone"


class Removed(TypedDict):
    """The result of a removal. `wrong`: up to 5 sentences on entries that stay."""

    files: int
    directories: int
    bytes: int
    wrong: list[str]


def remove(place: Place, below: str) -> Removed:
    """Remove a tree below the campaign's directory."""
    if {"", ".", ".."} & set(below.split("/")):
        raise Refused(f"`{below}` names nothing below {place.directory}")
    return _removed(place, lambda removal: removal.tree(below))


def remove_all(place: Place) -> Removed:
    """Remove the campaign's directory with what iosweep made in it."""
    return _removed(place, _Removal.everything)


def _removed(place: Place, act: Callable[[_Removal], None]) -> Removed:
    gone: Removed = {"files": 0, "directories": 0, "bytes": 0, "wrong": []}
    pools = ThreadPoolExecutor(_REMOVING), ThreadPoolExecutor(_REMOVING)
    with contextlib.suppress(FileNotFoundError), Opened(place) as ours, pools[0], pools[1]:
        act(_Removal(ours, gone, *pools))
    return gone


class _Removal:
    """Removes trees level by level: first all files, then the directories, the deepest first.

    Several threads list directories, and several more remove the files of wide ones. `removed` has the counts.
    """

    def __init__(self, ours: Opened, removed: Removed, listing: ThreadPoolExecutor, unlinking: ThreadPoolExecutor):
        self._ours, self._removed = ours, removed
        self._listing, self._unlinking = listing, unlinking
        self._lock = threading.Lock()
        self._failed: set[str] = set()

    def everything(self) -> None:
        """Remove the campaign's directory. The marker goes last: after a kill the rest is still ours."""
        top, parent, name = self._ours.handle, self._ours.parent, self._ours.name
        for entry in sorted(os.listdir(top)):
            if entry in PARTS:
                self.tree(entry)
            elif entry not in (MARKER, UNFINISHED):
                self._stays(entry, _FOREIGN)
        if not self._removed["wrong"]:
            self._unlink(top, "", [UNFINISHED, MARKER])
            # another directory may have its name by now
            if os.path.samestat(os.fstat(top), os.stat(name, dir_fd=parent, follow_symlinks=False)):
                self._rmdir(parent, name, name)

    def tree(self, path: str) -> None:
        """Remove a directory with all that is below it."""
        levels = [[path]]
        while level := levels[-1]:
            levels.append([below for found in side_by_side(self._empty, level, self._listing) for below in found])
        for level in reversed(levels):
            side_by_side(self._close, level, self._listing)

    def _stays(self, path: str, why: str) -> None:
        with self._lock:
            self._failed.add(path)
            if len(self._removed["wrong"]) < SENTENCES:
                self._removed["wrong"].append(f"{shown(path)}: {why}")

    def _empty(self, path: str) -> list[str]:
        """Remove the files of a directory; returns the directories in it."""
        directories: dict[str, None] = {}
        try:
            with self._ours.below(path) as handle:
                while self._pass(handle, path, directories):
                    pass
        except FileNotFoundError:
            pass
        except (OSError, Refused) as error:
            self._stays(path, _why(error))
        return [f"{path}/{name}" for name in directories]

    def _pass(self, handle: int, path: str, directories: dict[str, None]) -> bool:
        """Read a directory once, and remove its files; returns whether it has to be read again: some file systems skip
        entries of a directory that changes while it is read."""
        with os.scandir(handle) as entries:
            some = gone = 0
            while batch := list(islice(entries, _HELD)):
                some += 1
                files = []
                for entry in batch:
                    beat()
                    if entry.is_dir(follow_symlinks=False):
                        directories[entry.name] = None
                    elif path in PARTS and entry.is_file(follow_symlinks=False) and not entry.name.startswith(PROBE):
                        self._stays(f"{path}/{entry.name}", _FOREIGN)  # tools write into directories of a part
                    else:
                        files.append(entry.name)
                parts = [files[first : first + _TAKEN] for first in range(0, len(files), _TAKEN)]
                gone += sum(side_by_side(lambda names: self._unlink(handle, path, names), parts, self._unlinking))
        return some > 1 and gone > 0

    def _unlink(self, handle: int, path: str, names: Sequence[str]) -> int:
        """Remove files of an open directory, or links themselves; returns how many."""
        files = size = 0
        for name in names:
            beat()
            with self._failure(f"{path}/{name}"):
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                os.unlink(name, dir_fd=handle)
                files += 1
                size += status.st_blocks * 512 if status.st_nlink == 1 else 0
        with self._lock:
            self._removed["files"] += files
            self._removed["bytes"] += size
        return files

    def _close(self, path: str) -> None:
        """Remove an empty directory below the campaign's."""
        above, _, name = path.rpartition("/")
        if path not in self._failed:
            with self._failure(path), self._ours.below(above) as outer:
                self._rmdir(outer, name, path)

    def _rmdir(self, parent: int, name: str, path: str) -> None:
        """Remove an empty directory."""
        beat()
        with self._failure(path):
            os.rmdir(name, dir_fd=parent)
            with self._lock:
                self._removed["directories"] += 1

    @contextlib.contextmanager
    def _failure(self, path: str) -> Iterator[None]:
        """Note an entry that stays; another process may have removed it."""
        try:
            yield
        except FileNotFoundError:
            pass
        except (OSError, Refused) as error:
            if not (self._failed and isinstance(error, OSError) and error.errno == errno.ENOTEMPTY):
                self._stays(path.lstrip("/"), _why(error))


def _why(error: OSError | Refused) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


# Whether files are as they were


class Stamps(TypedDict):
    """A checksum over the times of the last write of all files, the latest of these times in ns, and whose it is."""

    written: int
    last_ns: int
    last: str


class Examined(TypedDict):
    """`wrong`: up to 5 sentences. `holes`: "none", "found", or why that is unknown."""

    wrong: list[str]
    holes: str
    stamps: Stamps


class Look(msgspec.Struct, frozen=True):
    """Files of `size` bytes in a directory below the campaign's. holes: whether unwritten extents are looked for."""

    below: str
    files: list[str]
    size: int
    holes: bool = True


#: Time after a write in which a network file system may still show earlier attributes (NFS: acregmax).
LATE_NS = 120 * 10**9
#: Largest difference of its clock and ours.
_CLOCKS_NS = 2 * 10**9
_NOT_LOOKED = "not looked at"


def changed(before: Stamps, after: Stamps, since_ns: int, local: bool) -> str:
    """The change of files between two examinations, as a sentence; empty without one. Pure.

    since_ns: when the first look was, by our clock. local: times are right at once, and of our clock. Elsewhere the
    first look may have seen times of before the last write, so that a difference counts only where that write was long
    ago, or the new time is after the first look.
    """
    if before["written"] == after["written"]:
        return ""
    if local or since_ns - before["last_ns"] > LATE_NS or after["last_ns"] > since_ns + _CLOCKS_NS:
        return f"files were written to or truncated ({after['last']} was the last)"
    return ""


def examine_files(place: Place, looks: list[Look]) -> list[Examined]:
    """Whether files are there, regular, of full size and without unwritten extents: an answer for each look."""
    with Opened(place) as ours:
        holes = any(look.holes for look in looks) and _shows_holes(ours)
        return side_by_side(lambda look: _examine(ours, look, holes), looks)


def _examine(ours: Opened, look: Look, shows_holes: bool) -> Examined:
    seen = _NOT_LOOKED
    if look.holes:
        seen = "none" if shows_holes else "hidden: this file system shows no holes, not even in a sparse file"
    wrong: list[str] = []
    stamps: Stamps = {"written": 0, "last_ns": 0, "last": ""}
    try:
        with ours.below(look.below) as handle:
            for name in look.files:
                beat()
                try:
                    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                except FileNotFoundError:
                    wrong.append(f"{name} is missing")
                    continue
                stamps["written"] = zlib.crc32(b"%d" % status.st_mtime_ns, stamps["written"])
                if status.st_mtime_ns > stamps["last_ns"]:
                    stamps["last_ns"], stamps["last"] = status.st_mtime_ns, name
                if not stat.S_ISREG(status.st_mode):
                    wrong.append(f"{name} is not a regular file")
                elif status.st_nlink > 1:
                    wrong.append(f"{name} has another name as well (a hard link)")
                elif status.st_size != look.size:
                    wrong.append(f"{name} has {status.st_size} of {look.size} bytes")
                elif seen == "none":
                    with opened(name, os.O_RDONLY | _PLAIN, handle) as file:
                        if os.lseek(file, 0, os.SEEK_HOLE) < look.size:
                            wrong.append(f"{name} has unwritten extents")
                            seen = "found"
    except FileNotFoundError:
        return {"wrong": ["the directory is not there"], "holes": _NOT_LOOKED, "stamps": stamps}
    return {"wrong": wrong[:SENTENCES], "holes": seen, "stamps": stamps}


def _shows_holes(ours: Opened) -> bool:
    """SEEK_HOLE lies on some file systems: see whether it finds the hole of a sparse file made for the purpose."""
    name = f"{PROBE}.sparse"
    with ours.below(FRESH, create=True) as handle:
        with contextlib.suppress(FileNotFoundError):  # of an agent that was killed
            os.unlink(name, dir_fd=handle)
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle)
        try:
            os.pwrite(file, b"x", 4 << 20)
            os.fsync(file)
            return os.lseek(file, 0, os.SEEK_HOLE) == 0
        except OSError:
            return False
        finally:
            os.close(file)
            os.unlink(name, dir_fd=handle)


def truncate_files(place: Place, below: str, names: list[str], size: int) -> None:
    """Cut files of ours in a directory to `size` bytes."""
    with Opened(place) as ours, ours.below(below) as handle:
        for name in names:
            beat()
            with opened(name, os.O_WRONLY | _PLAIN, handle) as file:
                status = os.fstat(file)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size > size:
                    os.ftruncate(file, size)


# Contents of files: a few blocks, compressed and compared (judged in judge/checks/contents.py)

#: Files, blocks of all of them together, and bytes of a block: 4 ms of CPU in all.
FILES, BLOCKS, BLOCK_BYTES = 4, 32, 8 << 10
#: Names of a directory among which files are chosen.
_NAMES = 1024
#: Bytes of a page (unit of deduplication) and of a sector (smallest write).
_PAGE, _SECTOR = 4096, 512
_ZEROS = bytes(_SECTOR)


class Sample(Part, frozen=True, kw_only=True):
    """Blocks of some files, in bytes.

    zero_bytes: sectors that hold only zeros; the next two are of the other sectors. compressed_bytes: after zlib, all
    blocks of a file together, so that blocks that are nearly alike show, too. repeated_bytes: pages that were seen
    before.
    """

    files: Count = 0
    blocks: Count = 0
    bytes: Count = 0
    zero_bytes: Count = 0
    compressed_bytes: Count = 0
    repeated_bytes: Count = 0

    def __add__(self, other: Sample) -> Sample:
        return Sample(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


def sample_blocks(place: Place, groups: list[list[str]], transfer: int, from_begin: bool) -> list[Sample]:
    """Read blocks of the files in directories below the campaign's: a sample of each group of them. Regular files only;
    what was read is dropped from the page cache. A directory that is not there has none.

    `transfer`: bytes of one I/O; blocks begin where I/Os began: there a tool repeats its buffer.
    `from_begin`: the first I/Os of a file instead of some spread over it.
    """

    def read(ours: Opened, directories: Sequence[str]) -> Sample:
        contents: list[list[bytes]] = []
        chosen = spread(directories, FILES)
        for directory in chosen:
            with contextlib.suppress(FileNotFoundError), ours.below(directory) as handle:
                names = _files(handle, FILES // len(chosen))
                count = BLOCKS // (len(chosen) * max(1, len(names)))
                contents += [_blocks(handle, name, transfer, from_begin, count) for name in names]
        return sample_of([blocks for blocks in contents if blocks])

    with Opened(place) as ours:
        return side_by_side(lambda group: read(ours, group), groups)


def spread(things: Sequence[str], most: int) -> list[str]:
    """At most `most` of some things, evenly spread over all. Pure."""
    count = min(most, len(things))
    return [things[k * len(things) // count] for k in range(count)]


def first_bytes(transfer: int, files: int) -> int:
    """Bytes of the I/Os whose blocks a sample `from_begin` of so many files has, in all of them. Pure."""
    return max(transfer, BLOCK_BYTES) * BLOCKS // max(1, min(FILES, files)) * files


def block_offsets(size: int, transfer: int, from_begin: bool, count: int) -> list[int]:
    """Where the blocks of a file of `size` bytes begin, at most `count`. Pure."""
    # where a file has few I/Os, blocks begin within them as well
    step = min(transfer, max(size // count, BLOCK_BYTES))
    step = max(BLOCK_BYTES, step - step % _PAGE)
    slots = size // step or (size > 0)
    count = min(count, slots)
    return [(k if from_begin else k * slots // count) * step for k in range(count)]


def sample_of(contents: Sequence[Sequence[bytes]]) -> Sample:
    """The sample of the blocks of some files. Pure."""
    compressed = zeros = repeated = 0
    known = set[bytes]()
    for blocks in contents:
        packer = zlib.compressobj(1)
        for block in blocks:
            sectors = [block[at : at + _SECTOR] for at in range(0, len(block), _SECTOR)]
            kept = [sector for sector in sectors if sector != _ZEROS[: len(sector)]]
            written = b"".join(kept)
            zeros += len(block) - len(written)
            compressed += len(packer.compress(written))
            pages = [written[at : at + _PAGE] for at in range(0, len(written) - _PAGE + 1, _PAGE)]
            before = len(known)
            known.update(pages)
            repeated += (len(pages) - (len(known) - before)) * _PAGE
        compressed += len(packer.flush())
    return Sample(
        files=len(contents),
        blocks=sum(map(len, contents)),
        bytes=sum(len(block) for blocks in contents for block in blocks),
        zero_bytes=zeros,
        compressed_bytes=compressed,
        repeated_bytes=repeated,
    )


def _files(handle: int, most: int) -> list[str]:
    """Names of some regular files of a directory that hold anything."""

    def full() -> Iterator[str]:
        with os.scandir(handle) as entries:
            for entry in islice(entries, _NAMES):
                beat()
                if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size:
                    yield entry.name

    return spread(sorted(full()), most)


def _blocks(handle: int, name: str, transfer: int, from_begin: bool, count: int) -> list[bytes]:
    """Some blocks of a file, without holes where the file system tells them."""
    found, end = [], 0
    with opened(name, os.O_RDONLY | _PLAIN, handle) as file:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: it would fill the cache
        for offset in block_offsets(os.fstat(file).st_size, transfer, from_begin, count):
            beat()
            if (at := _data(file, offset)) is None or at < end:  # behind a large hole several find the same data
                continue
            end = at + BLOCK_BYTES
            found.append(os.pread(file, BLOCK_BYTES, at))
            os.posix_fadvise(file, at, BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
    return [block for block in found if block]


def _data(file: int, offset: int) -> int | None:
    """Where data begins from an offset on, on a page; None behind the last."""
    try:
        at = os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        return None if error.errno == errno.ENXIO else offset
    return at - at % _PAGE
