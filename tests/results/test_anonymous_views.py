"""What a search for names sees in bytes: packed, encoded and escaped texts."""

import base64
import bz2
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from urllib.parse import quote

import pyarrow
import pytest

from iosweep.results.anonymous_names import Names
from iosweep.results.anonymous_views import spellings, texts

pytestmark = pytest.mark.unit


def found(data: bytes) -> set[str | None]:
    names = Names()
    names.add("host", "zebra-node07")
    names.add("user", "alice")
    names.close()
    left_in = names.left_in()
    return {left_in(spelled) for _, text in texts(data) for spelled in spellings(text)} - {None}


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.txt", data)
    return file.getvalue()


def named(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(data.decode().replace("/", "_"), b"x")
    return file.getvalue()


def png(data: bytes) -> bytes:
    content = b"Comment\0\0" + zlib.compress(data)
    chunk = struct.pack(">I", len(content)) + b"zTXt" + content + struct.pack(">I", zlib.crc32(b"zTXt" + content))
    return b"\x89PNG\r\n\x1a\n" + chunk


def zstd(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, "zstd", asbytes=True))


def escaped(form: str, data: bytes) -> bytes:
    return "".join(form.format(ord(c)) for c in data.decode()).encode()


def shell(data: bytes) -> bytes:
    return data.replace(b"-", b"\\-").replace(b"lic", b"l''ic")


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "upper case": bytes.upper,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd,
    "zip": zipped,
    "name in a zip": named,
    "base64 in gzip in zip": lambda data: zipped(gzip.compress(base64.b64encode(data))),
    "PNG": png,
    "base64": lambda data: b'"' + base64.b64encode(data) + b'"',
    "URL-safe base64": lambda data: b"key/" + base64.urlsafe_b64encode(data),
    "zlib in base64": lambda data: base64.b64encode(zlib.compress(data)),
    "JSON": lambda data: escaped("\\u{:04x}", data),
    "hexadecimal": lambda data: escaped("\\x{:02x}", data),
    "octal": lambda data: escaped("\\{:03o}", data),
    "URL": lambda data: escaped("%{:02x}", data),
    "URL in a URL": lambda data: quote(quote(data.decode(), safe=""), safe="").encode(),
    "HTML": lambda data: escaped("&#{};", data),
    "HTML, hexadecimal": lambda data: escaped("&#x{:x};", data),
    "shell": shell,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
}
DAMAGED = [b"", b"PK\x03\x04", b"\x1f\x8bxx", b"\x78\x9cxx", b"BZh9x", b"\x89PNG\r\n\x1a\nxx", b"\xfd7zXZ\0x"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["zebra-node07", "alice"])
def test_a_name_is_seen(form: str, name: str) -> None:
    seen = found(FORMS[form](f"it is of {name}, and of it".encode()))
    assert {str(one).lower().replace("\\", "") for one in seen} == {name}
    assert not found(FORMS[form](f"it is of x{name[1:]}, and of it".encode()))


@pytest.mark.parametrize("data", DAMAGED)
def test_what_is_damaged_is_only_text(data: bytes) -> None:
    assert not found(data)
    assert next(iter(texts(data)))[1].encode("utf-8", "surrogateescape") == data
