"""File operations below the campaign's directory: create, count and remove trees; check and sample data sets.

They run inside the agent. Each directory is opened by its name in the parent directory; no symbolic link is followed,
no mount point crossed. Only a bounded number of names is held in memory, and long operations report progress
(protocol.beat).
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
from iosweep.target.directory import FRESH, MARKER, PARTS, PROBE, UNFINISHED, Opened, Place, opened
from iosweep.target.protocol import beat
from iosweep.text import printable, shortened

A = TypeVar("A")
B = TypeVar("B")

#: Threads that examine directories: each directory may take a few round trips to a metadata server.
_THREADS = 16
#: Maximum number of messages that an operation returns.
SENTENCES = 5
#: Flags to open a file. O_NONBLOCK: a pipe in place of the file does not block.
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def side_by_side(function: Callable[[A], B], items: Sequence[A], pool: ThreadPoolExecutor | None = None) -> list[B]:
    """Apply a function to several arguments in parallel; returns the results."""
    if len(items) < 2:
        return [function(item) for item in items]
    with contextlib.nullcontext(pool) if pool else ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(function, items))


# Directories


def make_directories(place: Place, below: list[str]) -> list[str]:
    """Create directories below the campaign's directory; returns their absolute paths."""
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
    """Count bytes and files of the campaign's directory, or of the part `only`, except entries that vanish."""
    total = files = 0
    with contextlib.suppress(FileNotFoundError), Opened(place) as ours:  # it may not exist, or vanish
        for handle, entry in _walk(ours, only or "", skip=True):
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(entry.name, dir_fd=handle, follow_symlinks=False).st_blocks * 512
                files += 1
    return {"bytes": total, "files": files}


def count_files(place: Place, below: str) -> int:
    """Number of regular files in a directory below the campaign's directory, and in its subdirectories."""
    with Opened(place) as ours:
        with ours.below(below):
            pass
        return sum(entry.is_file(follow_symlinks=False) for _, entry in _walk(ours, below))


def _walk(ours: Opened, below: str, skip: bool = False) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """Yield all entries of a tree except directories, each with a handle of its directory.

    Entries that vanish meanwhile and mount points are skipped; with `skip` also directories that cannot be read.
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

#: Names of a directory that are held in memory, and names that a thread removes per task.
_BATCH, _CHUNK = 10_000, 32
#: Threads for listing directories, and as many for removing files.
_REMOVING = 8
_FOREIGN = "iosweep did not make it; it is left alone"


class Removed(TypedDict):
    """The result of a removal. `wrong`: messages about entries that remain, at most SENTENCES."""

    files: int
    directories: int
    bytes: int
    wrong: list[str]


def remove(place: Place, below: str) -> Removed:
    """Remove a tree below the campaign's directory."""
    if {"", ".", ".."} & set(below.split("/")):
        raise Refused(f"`{below}` names nothing below {place.directory}")
    return _run_removal(place, lambda removal: removal.remove_tree(below))


def remove_all(place: Place) -> Removed:
    """Remove the campaign's directory with all entries that iosweep made in it."""
    return _run_removal(place, _Removal.remove_all)


def _run_removal(place: Place, action: Callable[[_Removal], None]) -> Removed:
    counts: Removed = {"files": 0, "directories": 0, "bytes": 0, "wrong": []}
    pools = ThreadPoolExecutor(_REMOVING), ThreadPoolExecutor(_REMOVING)
    with contextlib.suppress(FileNotFoundError), Opened(place) as ours, pools[0], pools[1]:
        action(_Removal(ours, counts, *pools))
    return counts


class _Removal:
    """Removes trees level by level: first all files, then the directories, the deepest first.

    Threads of one pool list directories; threads of another remove files of large directories. Updates `counts`.
    """

    def __init__(self, ours: Opened, counts: Removed, listing: ThreadPoolExecutor, unlinking: ThreadPoolExecutor):
        self._ours, self._counts = ours, counts
        self._listing, self._unlinking = listing, unlinking
        self._lock = threading.Lock()
        self._failed: set[str] = set()

    def remove_all(self) -> None:
        """Remove the campaign's directory. The marker goes last: after a kill it still shows that the rest is ours."""
        top, parent, name = self._ours.handle, self._ours.parent, self._ours.name
        for entry in sorted(os.listdir(top)):
            if entry in PARTS:
                self.remove_tree(entry)
            elif entry not in (MARKER, UNFINISHED):
                self._record(entry, _FOREIGN)
        if not self._counts["wrong"]:
            self._unlink(top, "", [UNFINISHED, MARKER])
            # the name may lead to another directory by now
            if os.path.samestat(os.fstat(top), os.stat(name, dir_fd=parent, follow_symlinks=False)):
                self._rmdir(parent, name, name)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its whole tree."""
        levels = [[path]]
        while level := levels[-1]:
            subdirectories = side_by_side(self._remove_files, level, self._listing)
            levels.append([below for paths in subdirectories for below in paths])
        for level in reversed(levels):
            side_by_side(self._remove_empty, level, self._listing)

    def _record(self, path: str, why: str) -> None:
        with self._lock:
            self._failed.add(path)
            if len(self._counts["wrong"]) < SENTENCES:
                self._counts["wrong"].append(f"{shortened(printable(path), 300)}: {why}")

    def _remove_files(self, path: str) -> list[str]:
        """Remove the files of a directory; returns its subdirectories."""
        directories: dict[str, None] = {}
        try:
            with self._ours.below(path) as handle:
                while self._scan(handle, path, directories):
                    pass
        except FileNotFoundError:
            pass
        except (OSError, Refused) as error:
            self._record(path, _reason(error))
        return [f"{path}/{name}" for name in directories]

    def _scan(self, handle: int, path: str, directories: dict[str, None]) -> bool:
        """Read a directory once, and remove its files; returns whether it has to be read again, because some file
        systems skip entries of a directory that changes while it is read."""
        with os.scandir(handle) as entries:
            batches = removed = 0
            while batch := list(islice(entries, _BATCH)):
                batches += 1
                files = []
                for entry in batch:
                    beat()
                    if entry.is_dir(follow_symlinks=False):
                        directories[entry.name] = None
                    elif path in PARTS and entry.is_file(follow_symlinks=False) and not entry.name.startswith(PROBE):
                        self._record(f"{path}/{entry.name}", _FOREIGN)  # tools write only into subdirectories of a part
                    else:
                        files.append(entry.name)
                chunks = [files[first : first + _CHUNK] for first in range(0, len(files), _CHUNK)]
                removed += sum(side_by_side(lambda names: self._unlink(handle, path, names), chunks, self._unlinking))
        return batches > 1 and removed > 0

    def _unlink(self, handle: int, path: str, names: Sequence[str]) -> int:
        """Remove files and links from an open directory; returns how many."""
        files = size = 0
        for name in names:
            beat()
            with self._catch_failure(f"{path}/{name}"):
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                os.unlink(name, dir_fd=handle)
                files += 1
                size += status.st_blocks * 512 if status.st_nlink == 1 else 0
        with self._lock:
            self._counts["files"] += files
            self._counts["bytes"] += size
        return files

    def _remove_empty(self, path: str) -> None:
        """Remove an empty directory below the campaign's directory, unless an entry in it remains."""
        parent, _, name = path.rpartition("/")
        if path not in self._failed:
            with self._catch_failure(path), self._ours.below(parent) as handle:
                self._rmdir(handle, name, path)

    def _rmdir(self, parent: int, name: str, path: str) -> None:
        beat()
        with self._catch_failure(path):
            os.rmdir(name, dir_fd=parent)
            with self._lock:
                self._counts["directories"] += 1

    @contextlib.contextmanager
    def _catch_failure(self, path: str) -> Iterator[None]:
        """Record an entry that cannot be removed; an entry that another process has removed is no failure."""
        try:
            yield
        except FileNotFoundError:
            pass
        except (OSError, Refused) as error:
            if not (self._failed and isinstance(error, OSError) and error.errno == errno.ENOTEMPTY):
                self._record(path.lstrip("/"), _reason(error))


def _reason(error: OSError | Refused) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


# Whether files are complete and unchanged


class Stamps(TypedDict):
    """Modification times of some files."""

    written: int  # checksum over the times of all files
    last_ns: int  # the latest time
    last: str  # name of the file with the latest time


class Examined(TypedDict):
    """The result of examining files."""

    wrong: list[str]  # at most SENTENCES
    holes: str  # "none", "found", or why that is unknown
    stamps: Stamps


class Look(msgspec.Struct, frozen=True):
    """Files of `size` bytes to examine in the directory `below`. holes: also look for unwritten extents."""

    below: str
    files: list[str]
    size: int
    holes: bool = True


#: Time after a write in which a network file system may still show stale attributes (NFS: acregmax).
LATE_NS = 120 * 10**9
#: Maximum clock difference between its server and this node.
_CLOCKS_NS = 2 * 10**9
_NOT_EXAMINED = "not looked at"


def changed(before: Stamps, after: Stamps, since_ns: int, local: bool) -> str:
    """A message if files changed between two examinations; otherwise empty. Pure.

    `since_ns`: time of the first one, by our clock. `local`: times are up to date, and by our clock. Otherwise the
    first examination may have seen stale times, so a difference counts only if the last write was long before it, or
    the new time is after it.
    """
    if before["written"] == after["written"]:
        return ""
    if local or since_ns - before["last_ns"] > LATE_NS or after["last_ns"] > since_ns + _CLOCKS_NS:
        return f"files were written to or truncated ({after['last']} was the last)"
    return ""


def examine_files(place: Place, looks: list[Look]) -> list[Examined]:
    """Check that files exist, are regular, of full size and without unwritten extents; a result for each look."""
    with Opened(place) as ours:
        holes = any(look.holes for look in looks) and _detects_holes(ours)
        return side_by_side(lambda look: _examine(ours, look, holes), looks)


def _examine(ours: Opened, look: Look, shows_holes: bool) -> Examined:
    holes = _NOT_EXAMINED
    if look.holes:
        holes = "none" if shows_holes else "hidden: this file system shows no holes, not even in a sparse file"
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
                elif holes == "none":
                    with opened(name, os.O_RDONLY | _PLAIN, handle) as file:
                        if os.lseek(file, 0, os.SEEK_HOLE) < look.size:
                            wrong.append(f"{name} has unwritten extents")
                            holes = "found"
    except FileNotFoundError:
        return {"wrong": ["the directory is not there"], "holes": _NOT_EXAMINED, "stamps": stamps}
    return {"wrong": wrong[:SENTENCES], "holes": holes, "stamps": stamps}


def _detects_holes(ours: Opened) -> bool:
    """Test with a sparse file whether SEEK_HOLE finds holes here: on some file systems it reports none."""
    name = f"{PROBE}.sparse"
    with ours.below(FRESH, create=True) as handle:
        with contextlib.suppress(FileNotFoundError):  # left by an agent that was killed
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
    """Truncate our files in a directory to `size` bytes."""
    with Opened(place) as ours, ours.below(below) as handle:
        for name in names:
            beat()
            with opened(name, os.O_WRONLY | _PLAIN, handle) as file:
                status = os.fstat(file)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size > size:
                    os.ftruncate(file, size)


# Contents of files: sample blocks, compressed and compared (judged in judge/checks/files.py)

#: Files per sample, blocks per sample, and bytes per block: a sample takes 4 ms of CPU time.
FILES, BLOCKS, BLOCK_BYTES = 4, 32, 8 << 10
#: Maximum number of directory entries among which files are chosen.
_MAX_NAMES = 1024
#: Bytes of a page (unit of deduplication) and of a sector (smallest write).
_PAGE, _SECTOR = 4096, 512
_ZEROS = bytes(_SECTOR)


class Sample(Part, frozen=True, kw_only=True):
    """Statistics on blocks of some files."""

    files: Count = 0
    blocks: Count = 0
    bytes: Count = 0
    #: Sectors that hold only zeros; the next two fields are about the other sectors.
    zero_bytes: Count = 0
    #: Size after zlib, with the blocks of a file as one stream: this also reveals nearly identical blocks.
    compressed_bytes: Count = 0
    #: Duplicate pages.
    repeated_bytes: Count = 0

    def __add__(self, other: Sample) -> Sample:
        return Sample(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


def sample_blocks(place: Place, groups: list[list[str]], transfer: int, from_begin: bool) -> list[Sample]:
    """A sample of each group of directories below the campaign's directory: blocks of regular files, dropped from the
    page cache afterwards. Directories that are not there are skipped.

    `transfer`: bytes of one I/O; blocks begin where I/Os began, because there a tool repeats its buffer.
    `from_begin`: blocks of the first I/Os of a file instead of blocks spread over the file.
    """

    def read(ours: Opened, directories: Sequence[str]) -> Sample:
        contents: list[list[bytes]] = []
        chosen = spread(directories, FILES)
        for directory in chosen:
            with contextlib.suppress(FileNotFoundError), ours.below(directory) as handle:
                names = _choose_files(handle, FILES // len(chosen))
                count = BLOCKS // (len(chosen) * max(1, len(names)))
                contents += [_read_blocks(handle, name, transfer, from_begin, count) for name in names]
        return sample_of([blocks for blocks in contents if blocks])

    with Opened(place) as ours:
        return side_by_side(lambda group: read(ours, group), groups)


def spread(items: Sequence[str], most: int) -> list[str]:
    """At most `most` items, evenly spread over all. Pure."""
    count = min(most, len(items))
    return [items[k * len(items) // count] for k in range(count)]


def first_bytes(transfer: int, files: int) -> int:
    """Bytes that a sample `from_begin` covers at the beginning of `files` files, in total. Pure."""
    return max(transfer, BLOCK_BYTES) * BLOCKS // max(1, min(FILES, files)) * files


def block_offsets(size: int, transfer: int, from_begin: bool, count: int) -> list[int]:
    """Offsets of the sample blocks of a file of `size` bytes, at most `count`. Pure."""
    # in a file of few I/Os, blocks also begin within I/Os
    step = min(transfer, max(size // count, BLOCK_BYTES))
    step = max(BLOCK_BYTES, step - step % _PAGE)
    slots = size // step or (size > 0)
    count = min(count, slots)
    return [(k if from_begin else k * slots // count) * step for k in range(count)]


def sample_of(contents: Sequence[Sequence[bytes]]) -> Sample:
    """Compute the sample of some files from their blocks. Pure."""
    compressed = zeros = repeated = 0
    seen_pages = set[bytes]()
    for blocks in contents:
        packer = zlib.compressobj(1)
        for block in blocks:
            sectors = [block[at : at + _SECTOR] for at in range(0, len(block), _SECTOR)]
            nonzero = [sector for sector in sectors if sector != _ZEROS[: len(sector)]]
            written = b"".join(nonzero)
            zeros += len(block) - len(written)
            compressed += len(packer.compress(written))
            pages = [written[at : at + _PAGE] for at in range(0, len(written) - _PAGE + 1, _PAGE)]
            known = len(seen_pages)
            seen_pages.update(pages)
            repeated += (len(pages) - (len(seen_pages) - known)) * _PAGE
        compressed += len(packer.flush())
    return Sample(
        files=len(contents),
        blocks=sum(map(len, contents)),
        bytes=sum(len(block) for blocks in contents for block in blocks),
        zero_bytes=zeros,
        compressed_bytes=compressed,
        repeated_bytes=repeated,
    )


def _choose_files(handle: int, most: int) -> list[str]:
    """Choose some regular files of a directory that are not empty; returns their names."""

    def nonempty() -> Iterator[str]:
        with os.scandir(handle) as entries:
            for entry in islice(entries, _MAX_NAMES):
                beat()
                if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size:
                    yield entry.name

    return spread(sorted(nonempty()), most)


def _read_blocks(handle: int, name: str, transfer: int, from_begin: bool, count: int) -> list[bytes]:
    """Read some blocks of a file, without holes if the file system reports them."""
    blocks, end = [], 0
    with opened(name, os.O_RDONLY | _PLAIN, handle) as file:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: it would fill the cache
        for offset in block_offsets(os.fstat(file).st_size, transfer, from_begin, count):
            beat()
            if (at := _find_data(file, offset)) is None or at < end:  # offsets in one hole lead to the same data
                continue
            end = at + BLOCK_BYTES
            blocks.append(os.pread(file, BLOCK_BYTES, at))
            os.posix_fadvise(file, at, BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
    return [block for block in blocks if block]


def _find_data(file: int, offset: int) -> int | None:
    """Find the first page with data at or after an offset; returns its offset, or None."""
    try:
        at = os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        return None if error.errno == errno.ENXIO else offset
    return at - at % _PAGE
