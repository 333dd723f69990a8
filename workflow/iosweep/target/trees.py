"""Directories and files below the campaign's directory: making, counting, examining and sampling them.

They run inside the agent. Directories are opened one from the other, no symbolic link is followed, no mount point
crossed. Few names are held, and long operations report their progress (protocol.beat).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec

from iosweep.errors import Refused
from iosweep.files.documents import Count, Part
from iosweep.target.directory import FRESH, MARKER, PROBE, Opened, Place, opened
from iosweep.target.protocol import beat

A = TypeVar("A")
B = TypeVar("B")

#: Directories that are looked at side by side: each may take a few round trips to a metadata server.
_AT_ONCE = 16
#: Sentences that are returned; more would not help.
SENTENCES = 5
#: How a file is opened: a pipe in its place is not waited for.
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def side_by_side(act: Callable[[A], B], things: Sequence[A], pool: ThreadPoolExecutor | None = None) -> list[B]:
    """Do the same to some things, side by side where there are several."""
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
    """Names of what is in the campaign's directory besides its marker."""
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


#: So long after a write a network file system may still show the attributes of before (NFS: acregmax).
LATE_NS = 120 * 10**9
#: By how much its clock may differ from ours.
_CLOCKS_NS = 2 * 10**9
_NOT_LOOKED = "not looked at"


def changed(before: Stamps, after: Stamps, since_ns: int, local: bool) -> str:
    """What happened to files between two looks; empty where nothing did. Pure.

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
        shown = any(look.holes for look in looks) and _shows_holes(ours)
        return side_by_side(lambda look: _examine(ours, look, shown), looks)


def _examine(ours: Opened, look: Look, shown: bool) -> Examined:
    seen = _NOT_LOOKED
    if look.holes:
        seen = "none" if shown else "hidden: this file system shows no holes, not even in a sparse file"
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
    """Cut what files of ours in a directory have behind `size` bytes."""
    with Opened(place) as ours, ours.below(below) as handle:
        for name in names:
            beat()
            with opened(name, os.O_WRONLY | _PLAIN, handle) as file:
                status = os.fstat(file)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size > size:
                    os.ftruncate(file, size)


# What files hold: a few blocks of them, compressed and compared (judged in judge/checks/contents.py)

#: Files, blocks of all of them together, and bytes of a block: 4 ms of CPU in all.
FILES, BLOCKS, BLOCK_BYTES = 4, 32, 8 << 10
#: Names of a directory that are read; files are chosen among them.
_NAMES = 1024
#: Bytes of what storage deduplicates, of what similar blocks have in common, and of the smallest write.
_PAGE, _PIECE, _SECTOR = 4096, 64, 512
_ZEROS = bytes(_SECTOR)


class Sample(Part, frozen=True, kw_only=True):
    """Blocks of some files, in bytes.

    zero_bytes: sectors of 512 bytes that hold only zeros; the rest is what the others are of. compressed_bytes: after
    zlib, all blocks of a file together; repeated_bytes: pages of 4 KiB that were seen before; similar_bytes: pieces of
    64 bytes that were.
    """

    files: Count = 0
    blocks: Count = 0
    bytes: Count = 0
    zero_bytes: Count = 0
    compressed_bytes: Count = 0
    repeated_bytes: Count = 0
    similar_bytes: Count = 0

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
    """At most so many of some things, evenly over all of them. Pure."""
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
    compressed = zeros = repeated = similar = 0
    pages, pieces = set[bytes](), set[bytes]()
    for blocks in contents:
        packer = zlib.compressobj(1)
        for block in blocks:
            sectors = [block[at : at + _SECTOR] for at in range(0, len(block), _SECTOR)]
            kept = [sector for sector in sectors if sector != _ZEROS[: len(sector)]]
            written = b"".join(kept)
            zeros += len(block) - len(written)
            compressed += len(packer.compress(written))
            for size, known in ((_PAGE, pages), (_PIECE, pieces)):
                every = [written[at : at + size] for at in range(0, len(written) - size + 1, size)]
                before = len(known)
                known.update(every)
                again = (len(every) - (len(known) - before)) * size
                repeated += again if size == _PAGE else 0
                similar += again if size == _PIECE else 0
        compressed += len(packer.flush())
    return Sample(
        files=len(contents),
        blocks=sum(map(len, contents)),
        bytes=sum(len(block) for blocks in contents for block in blocks),
        zero_bytes=zeros,
        compressed_bytes=compressed,
        repeated_bytes=repeated,
        similar_bytes=similar,
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
    """Some blocks of a file. What was never written is left out where the file system tells."""
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
