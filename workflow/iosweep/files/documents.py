"""Stored JSON: how it is written and read.

A document's first key is the format of the store, its last one the SHA-256 of all bytes before that key, so that a
single changed bit is noticed:

    head --bytes=-83 FILE | sha256sum     prints what the last line of FILE says

A stored document is a `Document`: its fields say what the file has to hold. Keys that the type does not have are
ignored, so a later version may add some without a new format. Reading follows no symbolic link, waits for no pipe and
is bounded in size: results may come from others.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from iosweep.text import human_count, printable, shortened
from iosweep.units import MOST_COUNT, MOST_SECONDS

# Types of fields. msgspec checks their bounds when a document is read.

#: Range of integers in a column of a table.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
#: The highest number of a repetition or a try: file names have 6 digits at most.
MOST_TRIES = 999_999

Integer = Annotated[int, Meta(ge=_LEAST, le=_MOST)]
Count = Annotated[int, Meta(ge=0, le=_MOST)]
#: Finite, and small enough that its square is finite.
Number = Annotated[float, Meta(ge=float(_LEAST), le=float(_MOST))]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=float(MOST_SECONDS))]
Deadline = Annotated[float, Meta(gt=0, le=float(MOST_SECONDS))]
#: Nodes, or repetitions of a point.
Some = Annotated[int, Meta(ge=1, le=MOST_COUNT)]
TryNumber = Annotated[int, Meta(ge=1, le=MOST_TRIES)]
#: A name that becomes part of a path: of a point, an allocation, a sweep or a campaign.
NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._+-]{0,199}\Z")
Name = Annotated[str, Meta(pattern=NAME.pattern)]
PathText = Annotated[str, Meta(min_length=1, max_length=1 << 16, pattern=r"\A[^\x00]*\Z")]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Moment = Annotated[datetime, Meta(tz=True)]


class Part(msgspec.Struct, frozen=True):
    """A part of a stored document."""


class Document(Part, frozen=True, kw_only=True):
    """A stored document."""


Kind = TypeVar("Kind")

#: Largest document. A result of 1,000 nodes has some MiB.
MOST_DOCUMENT_BYTES = 64 << 20
#: The format that is written and read.
FORMAT = 1
_FORMAT = re.compile(rb'\{\s*"format": (\d{1,6}),')

_HEAD, _END = b',\n  "sha256": "', b'"\n}\n'
_TAIL = len(_HEAD) + 64 + len(_END)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Damaged(Exception):
    """A stored file cannot be used. `path`: the file. `reason`: why, in a few words (it may quote the file)."""

    def __init__(self, path: str | os.PathLike[str], reason: str):
        self.path, self.reason = os.fspath(path), printable(shortened(reason, 300))
        super().__init__(f"{printable(self.path)} is damaged ({self.reason})")


# Writing


def dump(document: Document | Mapping[str, object], indent: bool = False) -> bytes:
    """A document as it is stored. `indent`: with sorted keys, each on its own line."""
    text = msgspec.json.encode(document, order="sorted" if indent else None)
    return seal(msgspec.json.format(text, indent=2) if indent else text)


def seal(text: bytes) -> bytes:
    """A JSON object that is not empty, with the format and its digest."""
    inner = text.strip()[1:-1].rstrip()
    if not inner:
        raise ValueError("an empty document cannot be stored")
    body = b'{"format": %d,%b' % (FORMAT, inner)
    return body + _HEAD + hashlib.sha256(body).hexdigest().encode() + _END


# Reading


def read(path: str | os.PathLike[str], kind: type[Part] | None = None) -> dict[str, object]:
    """A stored document with all its keys; those of a type are checked. Raises FileNotFoundError, Damaged."""
    document = load(content(path, MOST_DOCUMENT_BYTES), path)
    if kind:
        fits(document, kind, path)
    return document


def read_as(path: str | os.PathLike[str], kind: type[Kind]) -> Kind:
    """A stored document of a type. Raises FileNotFoundError, Damaged."""
    return decode(content(path, MOST_DOCUMENT_BYTES), kind, path)


def load(data: bytes, path: str | os.PathLike[str] = "") -> dict[str, object]:
    """The keys of a document without its format and digest. `path`: for the error. Raises Damaged."""
    document = decode(data, dict[str, object], path)
    document.pop("format")
    return document


def decode(data: bytes, kind: type[Kind], path: str | os.PathLike[str] = "") -> Kind:
    """The document that `dump` made. `path`: for the error. Raises Damaged."""
    body, end = data[:-_TAIL], data[-_TAIL:]
    if end != _HEAD + hashlib.sha256(body).hexdigest().encode() + _END:
        raise Damaged(path, "it is cut short or overwritten" if data.strip(b"\0") else "it is empty")
    found = _FORMAT.match(body)
    if found is None or int(found[1]) != FORMAT:
        raise Damaged(path, f"it has not the format {FORMAT}: another version of iosweep wrote it")
    try:
        return msgspec.json.decode(body + b"}", type=kind)
    except RecursionError:
        raise Damaged(path, "it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise Damaged(path, misfit(error)) from None
    except ValueError as error:
        raise Damaged(path, f"it is not JSON: {error}") from None


def fits(document: Mapping[str, object], kind: type[Kind], path: str | os.PathLike[str]) -> Kind:
    """A document as a type. Raises Damaged."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise Damaged(path, misfit(error)) from None


def misfit(error: msgspec.ValidationError) -> str:
    """Where a document does not fit its type: `phases[0].argv: expected an array, got str`."""
    said, _, place = str(error).partition(" - at `")
    where = re.sub(r"`|\$\.?", "", place)
    said = said[:1].lower() + said[1:]
    return f"{where}: {said}" if where else said


def content(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes. Raises FileNotFoundError, Damaged."""
    try:
        file = os.open(path, _FLAGS)  # not open(), which asks the kernel four times more
        try:
            about, data = os.fstat(file), b""
            if not stat.S_ISREG(about.st_mode):
                raise Damaged(path, "it is not a regular file")
            if about.st_size > most:
                raise Damaged(path, f"it has {about.st_size:,} bytes, and at most {most:,} are read")
            while part := os.read(file, about.st_size + 1):
                data += part
            return data
        finally:
            os.close(file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(path, _unread(error)) from None


def is_folder(path: str) -> bool:
    """True for a directory, which a symbolic link is not. Raises FileNotFoundError, Damaged."""
    try:
        os.close(os.open(path, _FLAGS | os.O_DIRECTORY))
        return True
    except FileNotFoundError:
        raise
    except NotADirectoryError:
        link = Path(path).is_symlink()
        raise Damaged(path, "it is a symbolic link, and is not followed" if link else "it is not a directory") from None
    except OSError as error:
        raise Damaged(path, _unread(error)) from None


def _unread(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link, and is not followed"
    return f"it cannot be read: {error.strerror or error}"


# Sentences on damaged files

#: Damaged files that are named where there are many.
_NAMED = 5
_COPY = "; put a copy of it back, or remove it"
#: End of the path of a damaged file -> what follows from the damage, and what to do.
_CURES = {
    r"/targets/[^/]*": ". If the campaign's directory is still on the target: its marker iosweep.json names the results"
    " that it belongs to. If they are these, remove the directory by hand; then remove this file",
    r"/campaign\.json": "; `iosweep report FOLDER` makes it again",
    r"/r\d+-\d+\.(json|zip)": "; the next run measures it again, where it is still asked for, and keeps the file",
    r"/plans/[^/]*": "; the next run of snakemake with its configuration writes it again",
    r"/missing\.json": "; the next run tries the point again",
    r"/ingested\.(json|zip)": "; `iosweep ingest --replace` with the same outputs makes it again",
    r"/spent\.json": "; with limits.time or limits.bytes_written nothing is measured: remove it to count from 0 again",
    r"/(nodes|builds)/[^/]*": f"; new tables lack what it says{_COPY}",
    r"/sets/[^/]*": f"; how the data set was prepared is not known{_COPY}",
    r"/refusals/[^/]*": "; the allocation's last reason is not known: run again, or remove it",
}


def cure(path: str) -> str:
    """What follows from a damaged file, and what to do, for the end of a sentence; empty where that is not known."""
    text = next((text for pattern, text in _CURES.items() if re.search(f"{pattern}$", path)), "")
    return text.replace("FOLDER", shlex.quote(path.rpartition("/")[0]))


def few(damaged: Sequence[str]) -> list[str]:
    """The first of many sentences on damaged files, and how many more there are."""
    more = len(damaged) - _NAMED
    rest = [f"{human_count(more, 'more file is', 'more files are')} damaged"] if more > 0 else []
    return [*damaged[:_NAMED], *rest]
