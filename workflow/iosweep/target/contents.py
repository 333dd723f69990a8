"""What files that a tool wrote hold: a few blocks of them, compressed and compared.

`sample` runs inside the agent. It opens regular files only, from the campaign's directory, and drops what it read from
the page cache. How a sample is judged: results/checks/contents.py.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from iosweep.files.fields import Count, Part
from iosweep.target.directory import Opened, Place
from iosweep.target.protocol import beat

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
