"""Directories and files below the campaign's directory (directory.py): making, counting, examining and keeping them.

They run inside the agent. Directories are opened one from the other, no symbolic link is followed, no mount point
crossed. A tree may be as deep and as wide as it likes: few directories are open at a time, few names are held. Long
operations report their progress (protocol.beat). `Stamps` tell whether files changed between two looks at them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypedDict

import msgspec

from iosweep.errors import Refused
from iosweep.files.documents import Count, Part
from iosweep.target.directory import DIRECTORY, MARKER, PROBE, Opened, Place
from iosweep.target.identify import mount_number
from iosweep.target.protocol import beat

#: So long after a write a network file system may still show the attributes of before (NFS: acregmax).
LATE_NS = 120 * 10**9
#: By how much its clock may differ from ours.
_CLOCKS_NS = 2 * 10**9


class Stamps(TypedDict):
    """Sums over all files of their inode numbers, times of the last write (mtime) and of the last change (ctime); the
    latest of these times in ns, and whose it is."""

    inodes: int
    written: int
    changed: int
    last_ns: int
    last: str


def no_stamps() -> Stamps:
    """Of no file."""
    return {"inodes": 0, "written": 0, "changed": 0, "last_ns": 0, "last": ""}


def add_stamps(stamps: Stamps, name: str, status: os.stat_result) -> None:
    """Add a file. The order matters."""
    stamps["inodes"] = zlib.crc32(b"%d" % status.st_ino, stamps["inodes"])
    stamps["written"] = zlib.crc32(b"%d" % status.st_mtime_ns, stamps["written"])
    stamps["changed"] = zlib.crc32(b"%d" % status.st_ctime_ns, stamps["changed"])
    if (last := max(status.st_mtime_ns, status.st_ctime_ns)) > stamps["last_ns"]:
        stamps["last_ns"], stamps["last"] = last, name


@dataclass(frozen=True)
class Difference:
    """What happened between two looks: `changed`, or why that cannot be told; empty where nothing did."""

    changed: str = ""
    unclear: str = ""


def difference(before: Stamps, after: Stamps, since_ns: int, local: bool, inodes: bool) -> Difference:
    """What two looks tell. `since_ns`: when the first was made, by our clock.

    `local`: times are right at once, and of our clock. Elsewhere the first look may have seen attributes of before the
    last write, so that a difference counts only where that write was long ago, or the new time is after the first look;
    and a change of ctime alone may be the storage's own (tiers, archives). `inodes`: a file keeps its number.
    """
    if inodes and before["inodes"] != after["inodes"]:
        return Difference("files were replaced by others")
    written = before["written"] != after["written"]
    if not written and before["changed"] == after["changed"]:
        return Difference()
    whose = f"{after['last']} was the last"
    what = f"files were written to or truncated ({whose})" if written else f"files changed (ctime; {whose})"
    if local:
        return Difference(what)
    if not written:
        return Difference(unclear=f"the ctime of files changed, and not their mtime ({whose})")
    if since_ns - before["last_ns"] > LATE_NS or after["last_ns"] > since_ns + _CLOCKS_NS:
        return Difference(what)
    return Difference(unclear="times of files changed, which may be those of their preparation, seen late")


#: Where `keep` puts things.
KEPT = "kept"
#: Directories of a tree that are kept open to go on from.
_OPEN = 64
#: Files that are asked for holes when they are looked at again: each has to be opened for that.
_HOLES_AGAIN = 4096
#: Directories that are examined at a time.
_AT_ONCE = 16
#: Sentences that are returned; more would not help.
SENTENCES = 5
_NOT_LOOKED = "not looked at"


def ensure(place: Place, below: str) -> str:
    """Make a directory below the campaign's; returns its absolute path."""
    return ensure_each(place, [below])[0]


def ensure_each(place: Place, below: list[str]) -> list[str]:
    """Make directories below the campaign's; returns their absolute paths."""
    with Opened(place) as ours:
        for each in below:
            beat()
            with ours.below(each, create=True):
                pass
        return [str(Path(ours.directory) / each) for each in below]


def keep(place: Place, below: str, name: str) -> str | None:
    """Put a directory below the campaign's aside, as `kept/<name>`; returns where it is now, None if it is not there.

    What is there already stays: `kept/<name>-2` then.
    """
    above, _, last = below.rpartition("/")
    if "/" in name or {"", ".", ".."} & {name, last}:
        raise Refused(f"`{below}` or `{name}` names nothing below {place.directory}")
    with Opened(place) as ours:
        try:
            with ours.below(above) as source, ours.below(KEPT, create=True) as aim:
                free, number = name, 1
                while _is_there(free, aim):
                    number += 1
                    free = f"{name}-{number}"
                os.rename(last, free, src_dir_fd=source, dst_dir_fd=aim)
                return f"{KEPT}/{free}"
        except FileNotFoundError:
            return None


def parts(place: Place) -> list[str]:
    """Names of what is in the campaign's directory besides its marker."""
    with Opened(place, tools=False) as ours, os.scandir(ours.handle) as entries:
        return sorted(entry.name for entry in entries if entry.name != MARKER)


def usage(place: Place, only: str | None = None) -> dict[str, int]:
    """Bytes and files of the campaign's directory, or of one part, without entries that vanish meanwhile."""
    total = files = 0
    try:
        ours = Opened(place, tools=False)
    except FileNotFoundError:  # not made yet, or removed
        return {"bytes": 0, "files": 0}
    with ours:
        for handle, entry in _walk(ours.handle, skip=True, only=only):
            try:
                total += os.stat(entry.name, dir_fd=handle, follow_symlinks=False).st_blocks * 512
            except FileNotFoundError:
                continue
            files += 1
    return {"bytes": total, "files": files}


def count(place: Place, below: str) -> int:
    """Regular files in a directory below the campaign's, and in the directories in it."""
    with Opened(place, tools=False) as ours, ours.below(below) as top:
        return sum(entry.is_file(follow_symlinks=False) for _, entry in _walk(top, skip=False))


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


def cut(place: Place, below: str, names: list[str], size: int) -> None:
    """Cut what files of ours in a directory have behind `size` bytes."""
    with Opened(place) as ours, ours.below(below) as handle:
        for name in names:
            beat()
            file = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
            try:
                status = os.fstat(file)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size > size:
                    os.ftruncate(file, size)
            finally:
                os.close(file)


def examine(place: Place, looks: list[Look], again: bool = False) -> list[Examined]:
    """Whether files are there, regular, of full size and without unwritten extents: an answer for each look.

    `again`: the file system has shown before that it reports holes; of many files some are asked for theirs. Some
    directories at a time, because each may take a few round trips to a metadata server.
    """
    with Opened(place) as ours:
        shown = again or (any(look.holes for look in looks) and _shows_holes(ours.handle))
        if len(looks) == 1:
            return [_look(ours, looks[0], again, shown)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda look: _look(ours, look, again, shown), looks))


def _look(ours: Opened, look: Look, again: bool, shown: bool) -> Examined:
    try:
        with ours.below(look.below) as handle:
            return _examined(handle, look, again, shown)
    except FileNotFoundError:
        return {"wrong": ["the directory is not there"], "holes": _NOT_LOOKED, "stamps": no_stamps()}


def _examined(handle: int, look: Look, again: bool, shown: bool) -> Examined:
    wrong: list[str] = []
    found = no_stamps()
    seen = _NOT_LOOKED
    every = -(-len(look.files) // _HOLES_AGAIN) if again else 1
    if look.holes:
        seen = "none" if shown else "hidden: this file system shows no holes, not even in a sparse file"
    for number, name in enumerate(look.files):
        beat()
        try:
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        except FileNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        add_stamps(found, name, status)
        if not stat.S_ISREG(status.st_mode):
            wrong.append(f"{name} is not a regular file")
        elif status.st_nlink > 1:
            wrong.append(f"{name} has another name as well (a hard link)")
        elif status.st_size != look.size:
            wrong.append(f"{name} has {status.st_size} of {look.size} bytes")
        elif seen == "none" and number % every == 0 and _first_hole(handle, name) < look.size:
            wrong.append(f"{name} has unwritten extents")
            seen = "found"
    return {"wrong": wrong[:SENTENCES], "holes": seen, "stamps": found}


class Handle:
    """An open directory, closed when it is not used any more."""

    def __init__(self, number: int):
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class Directory:
    """A directory of a tree, known by the way to it. For a removal also what is still to be done there."""

    __slots__ = ("failed", "more", "name", "parent", "tasks")

    def __init__(self, parent: Directory | None = None, name: str = "", failed: Collection[str] = ()):
        self.parent = parent
        self.name = name
        self.tasks = 0  # not yet done
        self.more = True  # there may be entries that were not listed
        self.failed = set(failed)  # entries that stay

    def path(self, last: str = "") -> str:
        names = [last] if last else []
        step: Directory | None = self
        while step and step.parent:
            names.append(step.name)
            step = step.parent
        return "/".join(reversed(names))


class Tree:
    """Opens the directories of a tree. The last ones used stay open; the way to any other begins at the nearest."""

    def __init__(self, top: int):
        self._top = Handle(os.dup(top))
        self._mount = mount_number(top)
        self._open: OrderedDict[Directory, Handle] = OrderedDict()
        self._lock = threading.Lock()

    def handle(self, directory: Directory) -> Handle:
        """Raises OSError, with EXDEV for a mount point."""
        way = []
        with self._lock:
            step = directory
            while step.parent and step not in self._open:
                way.append(step)
                step = step.parent
            handle = self._top
            if step.parent:
                handle = self._open[step]
                self._open.move_to_end(step)
        for step in reversed(way):
            handle = Handle(os.open(step.name, DIRECTORY, dir_fd=handle.number))
            if mount_number(handle.number) != self._mount:
                raise OSError(errno.EXDEV, "a mount point, it is left alone")
            with self._lock:
                self._open[step] = handle
                if len(self._open) > _OPEN:
                    self._open.popitem(last=False)
        return handle

    def forget(self, directory: Directory) -> None:
        with self._lock:
            self._open.pop(directory, None)


def _walk(top: int, skip: bool, only: str | None = None) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """All entries of a tree except directories, with a handle of the directory that they are in.

    What vanishes meanwhile is left out, and so are mount points; `skip`: directories that cannot be read as well;
    `only`: all but this entry of the top.
    """
    tree = Tree(top)
    todo = [Directory()]
    while todo:
        directory = todo.pop()
        try:
            handle = tree.handle(directory)
            with os.scandir(handle.number) as entries:
                for entry in entries:
                    beat()
                    if only not in (None, entry.name) and not directory.parent:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(Directory(directory, entry.name))
                    else:
                        yield handle.number, entry
        except OSError as error:
            if not skip and error.errno not in (errno.ENOENT, errno.EXDEV):
                raise


def _is_there(name: str, handle: int) -> bool:
    try:
        os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _shows_holes(handle: int) -> bool:
    """SEEK_HOLE lies on some file systems: see whether it finds the hole of a sparse file made for the purpose."""
    name = f"{PROBE}.sparse"
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


def _first_hole(handle: int, name: str) -> int:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=handle)
    try:
        return os.lseek(file, 0, os.SEEK_HOLE)
    finally:
        os.close(file)


# Blocks of files


#: Files, blocks of all of them together, and bytes of a block: 4 ms of CPU in all.
FILES, BLOCKS, BLOCK_BYTES = 4, 32, 8 << 10
#: Groups of directories that are read at a time.
_AT_ONCE = 16
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


def sample(place: Place, groups: list[list[str]], transfer: int, from_begin: bool) -> list[Sample]:
    """Read blocks of the files in directories below the campaign's: a sample of each group of them. A directory that is
    not there has none.

    `transfer`: bytes of one I/O; blocks begin where I/Os began: there a tool repeats its buffer.
    `from_begin`: the first I/Os of a file instead of some spread over it.
    """
    with Opened(place, tools=False) as ours:
        if len(groups) == 1:
            return [_sample(ours, groups[0], transfer, from_begin)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda group: _sample(ours, group, transfer, from_begin), groups))


def _sample(ours: Opened, directories: Sequence[str], transfer: int, from_begin: bool) -> Sample:
    contents: list[list[bytes]] = []
    chosen = spread(directories, FILES)
    for directory in chosen:
        try:
            with ours.below(directory) as handle:
                names = _files(handle, FILES // len(chosen))
                count = BLOCKS // (len(chosen) * max(1, len(names)))
                contents += [_blocks(handle, name, transfer, from_begin, count) for name in names]
        except FileNotFoundError:
            continue
    return measured([blocks for blocks in contents if blocks])


def spread(things: Sequence[str], most: int) -> list[str]:
    """At most so many of some things, evenly over all of them. Pure."""
    count = min(most, len(things))
    return [things[k * len(things) // count] for k in range(count)]


def first_bytes(transfer: int, files: int) -> int:
    """Bytes of the I/Os whose blocks a sample `from_begin` of so many files has, in all of them. Pure."""
    return max(transfer, BLOCK_BYTES) * BLOCKS // max(1, min(FILES, files)) * files


def offsets(size: int, transfer: int, from_begin: bool, count: int) -> list[int]:
    """Where the blocks of a file of `size` bytes begin, at most `count`. Pure."""
    # where a file has few I/Os, blocks begin within them as well
    step = min(transfer, max(size // count, BLOCK_BYTES))
    step = max(BLOCK_BYTES, step - step % _PAGE)
    slots = size // step or (size > 0)
    count = min(count, slots)
    return [(k if from_begin else k * slots // count) * step for k in range(count)]


def measured(contents: Sequence[Sequence[bytes]]) -> Sample:
    """The sample that some files' blocks are. Pure."""
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
    try:
        # O_NONBLOCK has no effect on a regular file; if a pipe took its place, it does not wait
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):  # removed, or replaced by something else
            return []
        raise
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return []
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: it would fill the cache
        found, end = [], 0
        for offset in offsets(status.st_size, transfer, from_begin, count):
            beat()
            if (at := _data(file, offset)) is None or at < end:  # behind a large hole several find the same data
                continue
            end = at + BLOCK_BYTES
            found.append(os.pread(file, BLOCK_BYTES, at))
            os.posix_fadvise(file, at, BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
        return [block for block in found if block]
    finally:
        os.close(file)


def _data(file: int, offset: int) -> int | None:
    """Where data begins from an offset on, on a page; None behind the last."""
    try:
        at = os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        return None if error.errno == errno.ENXIO else offset
    return at - at % _PAGE
