"""Stored JSON: the one way in which it is written and read back.

A document's first key is the format of the store, its last one the SHA-256 of all bytes before that key, so that a
single changed bit is noticed:

    head --bytes=-83 FILE | sha256sum     prints what the last line of FILE says

A stored document is a `Document`: its fields say what the file has to hold. Keys that the type does not have are
ignored, so a later version may add some without a new format.

Reading follows no symbolic link, waits for no pipe and is bounded in size: results may come from others.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from iosweep.files.fields import Part
from iosweep.text import human_count, printable, shortened

#: Largest document. A result of 1,000 nodes has some MiB.
MOST_BYTES = 64 << 20

#: The format that is written, and the only one that is read.
FORMAT = 1
_FORMAT = re.compile(rb'\{\s*"format": (\d{1,6}),')

_HEAD, _END = b',\n  "sha256": "', b'"\n}\n'
_TAIL = len(_HEAD) + 64 + len(_END)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


#: Damaged files that are named where there are many.
_NAMED = 5
#: Most characters of a reason, which may quote the file.
_LONGEST = 300


class Damaged(Exception):
    """A stored file cannot be used. `path`: the file. `reason`: why, in a few words."""

    def __init__(self, path: str | os.PathLike[str], reason: str):
        self.path, self.reason = os.fspath(path), printable(shortened(reason, _LONGEST))
        super().__init__(f"{printable(self.path)} is damaged ({self.reason})")


class Document(Part, frozen=True, kw_only=True):
    """A stored document."""


Kind = TypeVar("Kind")


def dump(document: Document | Mapping[str, object], indent: bool = False) -> bytes:
    """A document as it is stored. `indent`: with sorted keys, one a line."""
    text = msgspec.json.encode(document, order="sorted" if indent else None)
    return seal(msgspec.json.format(text, indent=2) if indent else text)


def seal(text: bytes) -> bytes:
    """A JSON object that is not empty, with the format and its digest."""
    inner = text.strip()[1:-1].rstrip()
    if not inner:
        raise ValueError("an empty document cannot be stored")
    body = b'{"format": %d,%b' % (FORMAT, inner)
    return body + _HEAD + hashlib.sha256(body).hexdigest().encode() + _END


def decode(data: bytes, kind: type[Kind], path: str | os.PathLike[str] = "") -> Kind:
    """The document that `dump` made. `path`: for the error. Raises Damaged."""
    text = _opened(data, path)
    try:
        return _decoder(kind).decode(text)
    except RecursionError:
        raise Damaged(path, "it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise Damaged(path, misfit(error)) from None
    except ValueError as error:
        raise Damaged(path, f"it is not JSON: {error}") from None


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def _decoder(kind: type[Kind]) -> msgspec.json.Decoder[Kind]:
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    return _decoders[kind]


def misfit(error: msgspec.ValidationError) -> str:
    """What does not fit: `phases[0].argv: expected an array, got str`; of a key, `key in figures: ...`."""
    said, _, place = str(error).partition(" - at `")
    where = re.sub(r"`|\$\.?", "", place)
    said = said[:1].lower() + said[1:]
    return f"{where}: {said}" if where else said


def _opened(data: bytes, path: str | os.PathLike[str]) -> bytes:
    """The JSON of a document without its digest. Raises Damaged."""
    body, end = data[:-_TAIL], data[-_TAIL:]
    if end != _HEAD + hashlib.sha256(body).hexdigest().encode() + _END:
        raise Damaged(path, _unsealed(data))
    found = _FORMAT.match(body)
    if found is None or int(found[1]) != FORMAT:
        raise Damaged(path, f"it has not the format {FORMAT}: another version of iosweep wrote it")
    return body + b"}"


def load(data: bytes, path: str | os.PathLike[str] = "") -> dict[str, object]:
    """The document that `seal` made, without its format and digest. `path`: for the error. Raises Damaged."""
    body = _opened(data, path)
    try:
        document: dict[str, object] = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise Damaged(path, f"it is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Damaged(path, "it is not a JSON object")
    document.pop("format")
    return document


def fits(document: Mapping[str, object], kind: type[Kind], path: str | os.PathLike[str]) -> Kind:
    """A document as a type. Raises Damaged."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise Damaged(path, misfit(error)) from None


def read(path: str | os.PathLike[str], kind: type[Part] | None = None) -> dict[str, object]:
    """A stored document with all its keys; those of a type are checked. Raises FileNotFoundError, Damaged."""
    document = load(content(path, MOST_BYTES), path)
    if kind:
        fits(document, kind, path)
    return document


def read_as(path: str | os.PathLike[str], kind: type[Kind]) -> Kind:
    """A stored document of a type. Raises FileNotFoundError, Damaged."""
    return decode(content(path, MOST_BYTES), kind, path)


def content(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file that has at most so many. Raises FileNotFoundError, Damaged."""
    try:
        handle = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(path, _unopened(error)) from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise Damaged(path, "it is not a regular file")
        if about.st_size > most:
            raise Damaged(path, f"it has {about.st_size:,} bytes, and at most {most:,} are read")
        data = os.read(handle, about.st_size + 1)
        while len(data) < about.st_size and (more := os.read(handle, about.st_size - len(data))):
            data += more
        return data
    except OSError as error:
        raise Damaged(path, _unopened(error)) from None
    finally:
        os.close(handle)


def see(path: str) -> None:
    """See that a directory below the results is one, and no symbolic link. Raises FileNotFoundError, Damaged."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(path, _unopened(error)) from None
    if stat.S_ISLNK(mode):
        raise Damaged(path, "it is a symbolic link, and is not followed")
    if not stat.S_ISDIR(mode):
        raise Damaged(path, "it is not a directory")


def cure(path: str) -> str:
    """What follows from a damaged file, and what to do, to be put behind the sentence; empty where others say it."""
    folder, _, name = path.rpartition("/")
    if name == "target.json":
        return (
            ". If the campaign's directory is still on the target: its marker iosweep.json names the results that it"
            f" belongs to. If they are these, remove the directory by hand; then remove {path}"
        )
    if name == "campaign.json":
        return f"; `iosweep report {shlex.quote(folder)}` makes it again"
    if re.match(r"r\d+-\d+\.(json|zip)$", name):
        return "; the next run measures it again, where it is still asked for, and keeps the file"
    if name.endswith((".spack.yaml", ".spack.lock")):
        return "; the next run that measures with this build writes it again"
    return _CURES.get(name) or _CURES.get(f"{folder.rpartition('/')[2]}/", "")


#: File, or folder -> what follows from damage there, and what to do.
_CURES: Mapping[str, str] = {
    "plans/": "; the next run of snakemake with its configuration writes it again. Of received results, ask the sender"
    " for it: without it their tables cannot be made again",
    "nodes/": "; new tables lack what it says of the node: put a copy of it back, or remove it",
    "builds/": "; new tables lack what it says of the tools: put a copy of it back, or remove it",
    "sets/": "; how the data set was prepared is not known: put a copy of it back, or remove it",
    "refusals/": "; the allocation's last reason is not known: run again, or remove it",
    "missing.json": "; the next run tries the point again",
    "ingested.json": "; `iosweep ingest --replace` with the same outputs makes it again",
    "ingested.zip": "; `iosweep ingest --replace` with the same outputs makes it again",
    "spent.json": "; with limits.time or limits.bytes_written nothing is measured: remove it to count from 0 again",
}


def few(damaged: Sequence[str]) -> list[str]:
    """The first of many sentences on damaged files, and how many more there are."""
    more = len(damaged) - _NAMED
    rest = [f"{human_count(more, 'more file is', 'more files are')} damaged"] if more > 0 else []
    return [*damaged[:_NAMED], *rest]


def sentence(path: str, reason: str) -> str:
    """As `Damaged` says it."""
    return str(Damaged(path, reason))


def _unopened(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link, and is not followed"
    return f"it cannot be read: {error.strerror or error}"


def _unsealed(data: bytes) -> str:
    """Why bytes are not a document with its digest."""
    if not data:
        return "it is empty"
    if not data.strip(b"\0"):
        return "it holds nothing but zeros"
    if data[-_TAIL:].startswith(_HEAD):
        return "its content is not what its digest says"
    try:
        document = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return "it is cut short or overwritten"
    if isinstance(document, dict) and "sha256" in document:
        return "its content is not what its digest says"
    return "it has no digest: another version of iosweep wrote it"
