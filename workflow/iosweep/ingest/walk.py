"""The files of a directory, and those inside archives, one at a time and with limits.

Directories and archives come from others: no link is followed, nothing but regular files is read, and what is too much
is skipped with the reason. An archive is recognized by its first bytes, and read from its beginning to its end: nothing
is unpacked onto a disk.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from iosweep.files.safe_paths import WRONG_KIND, Folder, folder
from iosweep.text import printable

#: Bytes of a file: no output of a tool is larger.
MOST_BYTES = 256 << 20
#: Of one archive: members, bytes of all of them expanded, and bytes of headers before one member. A zip's directory is
#: read at once.
MOST_MEMBERS, MOST_EXPANDED, MOST_HEADER, MOST_ZIP_DIRECTORY = 100_000, 8 << 30, 1 << 20, 8 << 20
#: Directories in directories, each of which takes a file handle.
MOST_DEEP = 64

_ENCRYPTED = 1  # a flag of a zip's member
_ZIP_END, _ZIP_LOCATOR = b"PK\x05\x06", b"PK\x06\x07"
_ZIP = (b"PK\x03\x04", _ZIP_END)
_GZIP = b"\x1f\x8b"
_OTHERS = {
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ\0": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
}
_BLOCK = 512  # of a tar
_CHUNK, _COMPRESSED = 1 << 20, 1 << 16  # bytes that are read at once, expanded and compressed


@dataclass(frozen=True)
class Found:
    """A file. `name`: its path for people, below the path that was given; `archive!member` inside an archive."""

    name: str
    data: bytes
    sha256: str


@dataclass(frozen=True)
class Skipped:
    """A file or directory that is not read. `reason` continues the sentence after its name: `is a symbolic link`.

    `special`: it is none that holds an output (a link, a pipe, a device); all others may.
    """

    name: str
    reason: str
    special: bool = False


class _TooMuchError(Exception):
    """A limit of an archive. The message continues the sentence after the archive's name."""


def shown(path: str | Path) -> str:
    """A path for people and for JSON, which cannot carry bytes that are not UTF-8."""
    return printable(os.fsencode(path).decode("utf-8", "backslashreplace"))


def files(path: Path) -> Iterator[Found | Skipped]:
    """The files of a path in the order of their names, depth first; each is read when it is its turn.

    The path itself may be a link. Raises nothing: a path that is not there is skipped with the system's words.
    """
    try:
        if path.is_dir():
            with folder(path) as top:
                yield from _below(top, MOST_DEEP)
            return
        with path.open("rb") as file:  # the user's own choice: a link or a pipe, too
            yield from stream(shown(path), file)
    except OSError as error:
        yield Skipped(shown(path), "is a socket, not a file") if path.is_socket() else _skipped(shown(path), error)


def stream(name: str, file: BinaryIO) -> Iterator[Found | Skipped]:
    """The same of an open file, which may be a pipe."""
    yield from _contents(name, file if file.seekable() else io.BytesIO(file.read(MOST_BYTES + 1)))


def _below(place: Folder, deep: int) -> Iterator[Found | Skipped]:
    for name in place.names():
        shown_name = shown(place.path / name)
        try:
            status = place.status(name)
            if status is None:
                continue  # it is gone
            if stat.S_ISDIR(status.st_mode):
                if not deep:
                    yield Skipped(shown_name, f"is below {MOST_DEEP} directories, and no more are opened")
                    continue
                with place.folder(name) as inner:
                    yield from _below(inner, deep - 1)
                continue
            with os.fdopen(place.open(name), "rb") as file:
                yield from _contents(shown_name, file)
        except OSError as error:
            yield _skipped(shown_name, error)


def _skipped(name: str, error: OSError) -> Skipped:
    text = error.strerror or str(error)
    if error.errno in (*WRONG_KIND, errno.EINVAL) and text.startswith("a "):
        return Skipped(name, f"is {text}", special=True)
    return Skipped(name, f"cannot be read: {text}")


def _contents(name: str, file: BinaryIO) -> Iterator[Found | Skipped]:
    """An open file, or what is inside of it."""
    start = file.read(_BLOCK)
    file.seek(0)
    if start.startswith(_ZIP):
        inside = _zip(name, file)
    elif start.startswith(_GZIP):
        inside = _gzip(name, file)
    elif _is_tar(start):
        inside = _tar(name, _Forward(file))
    else:
        yield _whole(name, start, file)
        return
    try:
        empty = True
        for one in inside:
            empty = False
            yield one
        if empty:
            yield Skipped(name, "is an archive without a file")
    except _TooMuchError as error:
        yield Skipped(name, str(error))
    except Exception as error:  # others made it: the readers of archives raise what they like where one is damaged
        yield Skipped(name, f"is a damaged archive: {printable(str(error)) or type(error).__name__}")


def _whole(name: str, start: bytes, file: BinaryIO) -> Found | Skipped:
    for sign, what in _OTHERS.items():
        if start.startswith(sign):
            return Skipped(name, f"is {what}: unpack it first")
    if file.seek(0, os.SEEK_END) > MOST_BYTES:  # known before it is read; of a device it is 0
        return Skipped(name, _large())
    file.seek(0)
    return _found(name, file.read(MOST_BYTES + 1))


def _found(name: str, data: bytes) -> Found | Skipped:
    if len(data) > MOST_BYTES:
        return Skipped(name, _large())
    return Found(name, data, hashlib.sha256(data).hexdigest())


def _large() -> str:
    return f"is larger than {MOST_BYTES >> 20} MiB, which no output of a tool is"


def _is_tar(start: bytes) -> bool:
    return start[257:262] == b"ustar"


class _Forward:
    """The bytes of a tar in their order: what tarfile asks of a file, with limits on what it may take.

    Headers are read whole into memory, and tell their own size: `budget` bounds what `read` gives until a member.
    """

    def __init__(self, file: BinaryIO, compressed: bool = False) -> None:
        self._file = file
        self._inflate = zlib.decompressobj(wbits=31) if compressed else None
        self._ready = b""
        self._at = 0
        self.budget = MOST_HEADER

    def tell(self) -> int:
        return self._at

    def seek(self, place: int, whence: int = 0) -> int:
        """Go on to a later place; tarfile never needs an earlier one."""
        if whence or place < self._at:
            raise OSError(errno.ESPIPE, "its members are not in order")
        while self._at < place:
            if not self.take(min(place - self._at, _CHUNK)):
                break
        return self._at

    def read(self, size: int) -> bytes:
        self.budget -= size
        if self.budget < 0:
            raise _TooMuchError(f"has a header of more than {MOST_HEADER >> 20} MiB")
        return self.take(size)

    def take(self, size: int) -> bytes:
        """The next bytes, fewer at the end. Raises where more was expanded than an archive may hold."""
        if size < 0:  # as a damaged header may say, of a member or of the next header
            raise ValueError("a size is below zero")
        parts = []
        while size and (self._ready or self._more()):
            part, self._ready = self._ready[:size], self._ready[size:]
            parts.append(part)
            size -= len(part)
            self._at += len(part)
        if self._at > MOST_EXPANDED:
            raise _TooMuchError(f"holds more than {MOST_EXPANDED >> 30} GiB")
        return b"".join(parts)

    def peek(self, size: int) -> bytes:
        """The next bytes, which stay."""
        while len(self._ready) < size and self._more():
            pass
        return self._ready[:size]

    def _more(self) -> bool:
        """Make more bytes ready, at most a chunk; False at the end."""
        new = self._inflated() if self._inflate else self._file.read(_CHUNK)
        self._ready += new
        return bool(new)

    def _inflated(self) -> bytes:
        new = b""
        while self._inflate and not new:
            if self._inflate.eof:  # a file of several parts, as `cat a.gz b.gz` makes
                rest = self._inflate.unused_data.lstrip(b"\0") or self._file.read(_COMPRESSED).lstrip(b"\0")
                if not rest:
                    break
                self._inflate = zlib.decompressobj(wbits=31)
            elif not (rest := self._inflate.unconsumed_tail or self._file.read(_COMPRESSED)):
                raise EOFError("it is cut")
            new = self._inflate.decompress(rest, _CHUNK)
        return new


def _gzip(name: str, file: BinaryIO) -> Iterator[Found | Skipped]:
    """A compressed tar, or one file that was compressed."""
    inside = _Forward(file, compressed=True)
    if _is_tar(inside.peek(_BLOCK)):
        yield from _tar(name, inside)
        return
    member = f"{name}!{Path(name).name.removesuffix('.gz')}"
    yield _found(member, inside.take(MOST_BYTES + 1))


class _Names:
    """Names of an archive's members for people. One that occurs again, as `tar -r` and `zip` of some programs write it,
    is `a.tar!member (2)`: each is read, and none takes the place of another."""

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._seen: Counter[str] = Counter()

    def of(self, member: str) -> str:
        self._seen[member] += 1
        again = f" ({self._seen[member]})" if self._seen[member] > 1 else ""
        return f"{self._archive}!{shown(member)}{again}"


def _tar(name: str, inside: _Forward) -> Iterator[Found | Skipped]:
    with tarfile.TarFile(fileobj=inside, mode="r", encoding="utf-8", errors="surrogateescape") as archive:  # type: ignore[arg-type]
        count, names = 0, _Names(name)
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # it keeps them all
            count += 1
            if count > MOST_MEMBERS:
                raise _TooMuchError(f"has more than {MOST_MEMBERS:,} members")
            inside.budget = MOST_HEADER
            if member.isdir():
                continue
            shown_name = names.of(member.name)
            if not member.isfile() or member.issparse():
                yield Skipped(shown_name, f"is {_tar_kind(member)}", special=not member.issparse())
            elif member.size > MOST_BYTES:
                yield Skipped(shown_name, _large())
            else:
                inside.seek(member.offset_data)
                data = inside.take(member.size)
                if len(data) < member.size:
                    raise EOFError("it is cut")
                yield _member(shown_name, data)
                del data  # two large members need not be in memory at once


def _tar_kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return "a link, which is not followed"
    return "a sparse file, which is not read" if member.issparse() else "a device or a pipe, not a file"


def _member(name: str, data: bytes) -> Found | Skipped:
    """A file of an archive. An archive in an archive may be one of many that expand to nothing but themselves."""
    if data.startswith((*_ZIP, _GZIP)) or _is_tar(data[:_BLOCK]):
        return Skipped(name, "is an archive inside an archive: unpack it first")
    return _whole(name, data[:_BLOCK], io.BytesIO(data))


def _zip(name: str, file: BinaryIO) -> Iterator[Found | Skipped]:
    _check_zip(file)
    with zipfile.ZipFile(file) as archive:
        expanded, names = 0, _Names(name)
        for member in sorted(archive.infolist(), key=lambda one: one.filename):
            if member.is_dir():
                continue
            shown_name = names.of(member.filename)
            if special := _special(stat.S_IFMT(member.external_attr >> 16)):
                yield Skipped(shown_name, f"is {special}", special=True)
                continue
            if member.flag_bits & _ENCRYPTED:
                yield Skipped(shown_name, "is encrypted: unpack it first, with its password")
                continue
            try:
                with archive.open(member) as opened:
                    data = opened.read(MOST_BYTES + 1)
            except NotImplementedError:
                yield Skipped(shown_name, "is compressed by a method that is not read: unpack it first")
                continue
            except Exception as error:  # a damaged member says nothing against the others; lzma has an error of its own
                yield Skipped(shown_name, f"is damaged: {printable(str(error)) or type(error).__name__}")
                continue
            expanded += len(data)
            if expanded > MOST_EXPANDED:
                raise _TooMuchError(f"holds more than {MOST_EXPANDED >> 30} GiB")
            yield _member(shown_name, data) if len(data) <= MOST_BYTES else Skipped(shown_name, _large())


def _special(kind: int) -> str:
    """What a member of a zip is instead of a file, as `a link, which is not followed`; empty for a file."""
    if kind == stat.S_IFLNK:
        return "a link, which is not followed"
    return "" if kind in (0, stat.S_IFREG) else "a device or a pipe, not a file"


def _check_zip(file: BinaryIO) -> None:
    """Raise where a zip's directory is too large, found as zipfile finds it: it is read at once."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 42))
    end = file.read()
    at = end.rfind(_ZIP_END)
    if end[-22:-18] == _ZIP_END and end[-2:] == b"\0\0":
        at = len(end) - 22
    if at < 0 or len(end) - at < 22:
        raise EOFError("it is cut")
    count, directory = struct.unpack_from("<HL", end, at + 10)
    if count > MOST_MEMBERS or directory > MOST_ZIP_DIRECTORY or end[max(at - 20, 0) : at].startswith(_ZIP_LOCATOR):
        raise _TooMuchError("has too many members: unpack it first")
    file.seek(0)
