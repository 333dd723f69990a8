"""What bytes say to somebody who looks for a name in them: as they are, unpacked, and with escapes read. Pure."""

from __future__ import annotations

import binascii
import bz2
import html
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from urllib.parse import unquote

import pyarrow

#: How any bytes become text, and again the same bytes.
BYTES = ("utf-8", "surrogateescape")
#: How deep what is packed is unpacked, and the most bytes of one part.
_DEEPEST, _MOST = 3, 512 << 20
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
#: What counts as text in decoded base64: any words decode to a few such bytes. And the share from which on all is text.
_WORDS, _TEXT = re.compile(rb"[\x09-\x0d\x20-\x7e]{6,}"), 0.7
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([0-7]{3})|[abfnrtv/])")
_SHELL = re.compile(r"\\(?=[^\w\s])|(?<!\\)''|\"\"|'\\''")
#: NUL bytes among all of UTF-16 of European text.
_WIDE = (0.3, 0.6)


def texts(data: bytes, depth: int = _DEEPEST) -> Iterator[tuple[str, str]]:
    """(how it was unpacked, text) of bytes and of all that is packed in them; "": the bytes themselves."""
    yield "", data.decode(*BYTES)
    if depth == 0:
        return
    for how, inner in _unpacked(data):
        for more, text in texts(inner, depth - 1):
            yield f"{how}: {more}".removesuffix(": "), text


def spellings(text: str) -> Iterator[str]:
    """A text, and what it says once escapes of HTML, URLs, JSON, shells and UTF-16 are read."""
    yield text
    for _ in range(_DEEPEST):
        before = text
        for mark, read in _READERS:
            if mark in text and (new := read(text)) != text:
                text = new
                yield text
        if text == before:
            break
    if (plain := _SHELL.sub("", text)) != text:
        yield plain
    if text and _WIDE[0] < text.count("\0") / len(text) < _WIDE[1]:
        yield text.replace("\0", "")


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        if code := match[1] or match[2]:
            return chr(int(code, 16))
        return chr(int(match[3], 8)) if match[3] else "/" if match[0] == "\\/" else "\n"

    return _ESCAPE.sub(character, text)


#: The character that escapes begin with -> what reads them.
_READERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("&", html.unescape),
    ("%", lambda text: unquote(text, *BYTES)),
    ("\\", _unescaped),
)


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(how, content) of what is packed in bytes, by how they begin; and of base64 anywhere in them."""
    if data.startswith(b"PK\x03\x04"):
        yield from _members(data)
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        yield from _png(data)
    elif (packed := _decompressed(data)) is not None:
        yield packed
    elif not data.startswith(b"PAR1"):  # its columns are read
        yield from _base64(data)


def _decompressed(data: bytes) -> tuple[str, bytes] | None:
    try:
        if data.startswith(b"\x1f\x8b"):
            return "gzip", zlib.decompressobj(31).decompress(data, _MOST)
        if data[:1] == b"\x78" and len(data) > 2 and int.from_bytes(data[:2], "big") % 31 == 0:
            return "zlib", zlib.decompressobj().decompress(data, _MOST)
        if data.startswith(b"\x28\xb5\x2f\xfd"):
            with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd") as stream:
                return "zstd", bytes(stream.read(_MOST))
        if data.startswith(b"BZh"):
            return "bzip2", bz2.BZ2Decompressor().decompress(data, _MOST)
        if data.startswith(b"\xfd7zXZ\0"):
            return "xz", lzma.LZMADecompressor().decompress(data, _MOST)
    except (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError, pyarrow.ArrowException):
        pass  # it only begins so
    return None


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(BytesIO(data)) as file:
            yield "comment", file.comment
            for member in file.infolist():
                if member.file_size <= _MOST:
                    yield "name of a member", member.filename.encode(*BYTES) + b"\n" + member.comment
                    yield member.filename, file.read(member)
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, EOFError):
        return  # the bytes themselves are searched


def _png(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The texts of a PNG."""
    at = 8
    while at + 12 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        content = data[at + 8 : at + 8 + size]
        if kind in (b"tEXt", b"iTXt", b"zTXt", b"eXIf"):
            yield kind.decode(), content
        start = content.find(b"\x78") if kind in (b"zTXt", b"iTXt") else -1
        if start >= 0 and (found := _decompressed(content[start:])):
            yield found
        at += size + 12


def _base64(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What runs of base64 say, wherever they begin, if that is text or packed."""
    found: list[bytes] = []
    for match in _BASE64.finditer(data):
        run = match[0].translate(_URL_SAFE)
        for first in range(4):
            whole = run[first : first + (len(run) - first) // 4 * 4]
            if len(whole) < 8:
                continue
            content = binascii.a2b_base64(whole + _rest(run[first + len(whole) :]))
            if _decompressed(content):
                yield "base64", content
            else:
                words = _WORDS.findall(content)
                found += [content] if sum(map(len, words)) >= _TEXT * len(content) else words
    if found:
        yield "base64", b"\n".join(found)


def _rest(run: bytes) -> bytes:
    """The last characters of base64, filled to a multiple of four."""
    return run + b"=" * (4 - len(run)) if len(run) > 1 else b""
