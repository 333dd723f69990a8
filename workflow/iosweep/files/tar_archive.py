"""A directory as one compressed archive with checksums inside, made whole or not at all; and back, unpacked safely.

    tar -xf FILE && cd NAME && sha256sum -c SHA256SUMS     does the same by hand

An archive may come from somebody else. Only files and directories are unpacked, only below the directory that was asked
for, within limits of number and bytes; and every file must have the checksum that the archive says.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from iosweep.errors import Unusable
from iosweep.files import safe_paths
from iosweep.text import human_count, printable, shortened
from iosweep.units import human_size

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Buffer

#: End of a file's name -> its compression.
COMPRESSIONS = {".tar.zst": "zstd", ".tar.gz": "gzip"}
#: The file with the checksums, in the format of sha256sum.
CHECKSUMS = "SHA256SUMS"
#: Largest file that is packed or unpacked: a table has at most so much (merged_tables).
MOST_FILE_BYTES = 1 << 30
#: What is unpacked at most: files of a campaign with a million repetitions, and bytes of all together.
MOST_FILES, MOST_BYTES = 2_100_000, 64 << 30
#: Share of the free space that unpacking may use.
_SHARE_OF_FREE = 0.9
_CHUNK = 1 << 20
#: Deepest folder, and bytes of a header with a long name.
_DEEPEST, _LONGEST_HEADER = 20, 1 << 16
#: Headers that precede a member: its long name.
_OF_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE)
_KINDS = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a link", tarfile.CHRTYPE: "a device"}
_KINDS |= {tarfile.BLKTYPE: "a device", tarfile.FIFOTYPE: "a pipe"}
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def compression(name: str) -> str | None:
    """How a file of this name is compressed, as pyarrow calls it; None: it is no archive."""
    return next((how for end, how in COMPRESSIONS.items() if name.endswith(end)), None)


def pack(root: Path, names: Iterable[str], top: str, archive: Path) -> int:
    """Write an archive of files below `root`, in the order of `names`, as `top`/name; returns its bytes.

    Owners are left out, times are kept. Raises Unusable for another ending of the name, OSError.
    """
    if (how := compression(archive.name)) is None:
        raise Unusable(f"{printable(archive.name)} does not end with {' or '.join(COMPRESSIONS)}")
    import pyarrow  # late: every command knows of archives

    sums: list[str] = []
    with safe_paths.folder(archive.parent) as place:
        with (
            place.replaced(archive.name) as file,
            pyarrow.CompressedOutputStream(_Writer(file), how) as stream,
            # GNU's format: names of any length, without the large headers of pax
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as tar,
        ):
            newest = 0.0
            for name in names:
                with safe_paths.folder(root, Path(name).parent) as folder:
                    data = folder.read(Path(name).name, MOST_FILE_BYTES)
                    about = folder.status(Path(name).name)
                newest = max(newest, about.st_mtime if about else 0.0)
                sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
                _add(tar, f"{top}/{name}", data, about.st_mtime if about else newest)
            _add(tar, f"{top}/{CHECKSUMS}", "".join(sums).encode(), newest)
        return place.size(archive.name) or 0


def _add(tar: tarfile.TarFile, name: str, data: bytes, time_s: float) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(data), int(time_s), 0o644
    tar.addfile(member, io.BytesIO(data))


def unpack(archive: Path, into: Path) -> Path:
    """Unpack what `pack` made below an empty directory of ours; returns the directory of its content.

    Raises Unusable where the archive is not what `pack` makes, OSError.
    """
    import pyarrow

    room = min(MOST_BYTES, int(shutil.disk_usage(into).free * _SHARE_OF_FREE))
    sums: dict[str, str] = {}
    files = total = 0
    try:
        with _opened(archive) as tar:
            for member in tar:
                name = _name(archive, member)
                files, total = files + 1, total + member.size
                _bound(archive, name, member.size, files, total, room)
                if member.isdir():
                    continue
                content = tar.extractfile(member)
                if content is None:
                    raise Unusable(f"{archive}: {printable(name)} is not a file")
                sums[name] = _write(into / name, content, member)
    except (tarfile.TarError, pyarrow.ArrowException, EOFError, ValueError) as error:
        raise Unusable(f"{archive} is damaged: {printable(str(error))}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise Unusable(f"{archive} is damaged: {printable(str(error))}") from None  # of a decompressor
    tops = {PurePosixPath(name).parts[0] for name in sums}
    if not tops:
        raise Unusable(f"{archive} has no files: it is empty, or cut short")
    if len(tops) != 1:
        raise Unusable(f"{archive} has {human_count(len(tops), 'directory', 'directories')}, not that of a campaign")
    top = tops.pop()
    _keep_times(into / top)
    _compare(archive, into / top, {name.removeprefix(f"{top}/"): found for name, found in sums.items()})
    return into / top


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    import pyarrow

    how = compression(archive.name)
    if how is None:
        raise Unusable(f"{archive} does not end with {' or '.join(COMPRESSIONS)}")
    with (
        archive.open("rb") as file,
        pyarrow.CompressedInputStream(file, how) as stream,
        tarfile.open(fileobj=_Reader(stream), mode="r|", tarinfo=_Member) as tar,
    ):
        yield tar


class _Writer(io.RawIOBase):
    """A file that pyarrow writes to, and does not close: it is synced after that."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        return self._file.write(data)


class _Reader(io.RawIOBase):
    """What tarfile needs of a stream of pyarrow."""

    def __init__(self, stream: pyarrow.NativeFile):
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        return bytes(self._stream.read(size))


class _Member(tarfile.TarInfo):
    """A member that has nothing but a name and content: others are refused before anything of them is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _OF_NAMES and found.size <= _LONGEST_HEADER:
            return found
        if found.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
            kind = _KINDS.get(found.type, "not a file")
            raise Unusable(f"`{printable(shortened(found.name))}` in the archive is {kind}, and nothing of it is used")
        return found


def _name(archive: Path, member: tarfile.TarInfo) -> str:
    """A member's name, which is below the directory of a campaign. Raises Unusable."""
    path = PurePosixPath(member.name)
    wrong = path.is_absolute() or ".." in path.parts or not path.parts or "\0" in member.name
    if wrong or len(path.parts) > _DEEPEST or (len(path.parts) < 2 and not member.isdir()):
        raise Unusable(f"{archive}: `{printable(shortened(member.name))}` is not a name below one directory")
    return str(path)


def _bound(archive: Path, name: str, size: int, files: int, total: int, room: int) -> None:
    if size > MOST_FILE_BYTES:
        most = human_size(MOST_FILE_BYTES)
        raise Unusable(f"{archive}: {printable(name)} has {human_size(size)}, and at most {most} are read")
    if files > MOST_FILES:
        raise Unusable(f"{archive} has more than {MOST_FILES:,} files and directories")
    if total > room:
        raise Unusable(f"{archive} unpacks to more than {human_size(room)}, for which there is no room")


def _write(file: Path, content: IO[bytes], member: tarfile.TarInfo) -> str:
    """Write a file that is not there yet; returns its SHA-256."""
    file.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with safe_paths.named(file), os.fdopen(handle, "wb") as out:
        while data := content.read(_CHUNK):
            found.update(data)
            out.write(data)
    os.utime(file, (member.mtime, member.mtime))
    return found.hexdigest()


def _keep_times(top: Path) -> None:
    """Make a folder as old as the newest file in it: tables are out of date where a point's folder is newer."""
    for folder, _, names in os.walk(top, topdown=False):
        times = [(Path(folder) / name).lstat().st_mtime for name in names]
        if times:
            os.utime(folder, (max(times), max(times)))


def _compare(archive: Path, top: Path, found: dict[str, str]) -> None:
    """Compare the content with the archive's own checksums. Raises Unusable."""
    if found.pop(CHECKSUMS, None) is None:
        raise Unusable(f"{archive} has no {CHECKSUMS}: `iosweep export` did not make it, or it is cut short")
    text = safe_paths.read(top, CHECKSUMS).decode("utf-8", "replace")
    said = {match[2]: match[1] for match in map(_LINE.fullmatch, text.splitlines()) if match}
    for name in {**said, **found}:
        if found.get(name) != said.get(name):
            why = "is gone" if name not in found else "has no checksum" if name not in said else "has another checksum"
            raise Unusable(f"{archive} is damaged: {printable(name)} {why}")


def files_below(root: Path, leave_out: Iterable[str] = ()) -> Iterator[str]:
    """The regular files below a directory, sorted; without hidden ones and entries of `root` that are left out.

    Raises OSError for a link or anything else that is neither a file nor a directory.
    """
    yield from _below(root, "", frozenset(leave_out))


def _below(root: Path, below: str, leave_out: frozenset[str]) -> Iterator[str]:
    with safe_paths.folder(root, below) as place:
        names = [name for name in place.names() if not name.startswith(".") and name not in leave_out]
        folders = [name for name in names if place.size(name) is None]
        for name in folders:
            if (wrong := place.obstacle(name)) is not None:
                raise OSError(errno.EINVAL, f"{wrong}, which is not packed", str(root / below / name))
    if below.count("/") > _DEEPEST:
        raise OSError(errno.ELOOP, "folders are nested too deep", str(root / below))
    for name in names:
        path = f"{below}/{name}".lstrip("/")
        if name in folders:
            yield from _below(root, path, frozenset())
        else:
            yield path
