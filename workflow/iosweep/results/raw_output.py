"""The archive of a repetition's raw output: a zip with one member per step and stream."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

from iosweep.files.documents import Damaged
from iosweep.node import process


def unpack(archive: bytes) -> dict[str, dict[str, bytes]]:
    """step -> stream -> what it printed, without stderr, from an archive that `Store.raw` vouched for.

    Any unzip reads these archives. They have the members one after the other, as we write them: a third of what merge
    takes would else be zipfile's look-ups. Somebody else may have made both the archive and its hash, so no member is
    larger than what a tool may print, and all of them together have a limit. A stream in BESIDE that cannot
    be unpacked is UNREADABLE instead: no figure needs it. Raises Damaged.
    """
    found: dict[str, dict[str, bytes]] = {}
    position, rooms = 0, {False: MOST_UNPACKED, True: MOST_UNPACKED}
    while archive.startswith(b"PK\3\4", position):
        try:
            method, size, name_length, extra_length = _MEMBER.unpack_from(archive, position)
            position += _MEMBER.size
            step, _, stream = archive[position : position + name_length].decode().rpartition(".")
        except (struct.error, UnicodeDecodeError):
            raise Damaged("the archive", "a member's header is not whole") from None
        position += name_length + extra_length
        if position + size > len(archive):
            raise Damaged("the archive", "a member ends behind it")
        if not stream.startswith("stderr"):  # its first lines are in the JSON, and nothing is parsed from it
            beside = stream.partition("@")[0] in BESIDE
            try:
                data = _inflated(archive[position : position + size], method, min(process.MOST_BYTES, rooms[beside]))
            except Damaged:
                if not beside:
                    raise
                data = UNREADABLE
            rooms[beside] -= len(data)
            found.setdefault(step, {})[stream] = data
        position += size
    return found


def _inflated(data: bytes, method: int, most: int) -> bytes:
    """A member's content of `most` bytes at most. Raises Damaged."""
    if method == zipfile.ZIP_DEFLATED:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = unpacker.decompress(data, most + 1)
        except zlib.error as error:
            raise Damaged("the archive", f"a member cannot be unpacked: {error}") from None
        if len(data) <= most and not unpacker.eof:
            raise Damaged("the archive", "a member has no end")
    elif method != zipfile.ZIP_STORED:
        raise Damaged("the archive", f"a member is compressed by method {method}")
    if len(data) > most:
        raise Damaged("the archive", "it unpacks to more than a tool may print")
    return data


#: Streams beside a tool's output, of which there are many on many nodes; and what no reader of them takes.
BESIDE, UNREADABLE = ("series", "monitor", "progress", "ranks"), b"\0"
#: Bytes of all members of an archive: of these streams, and of the others.
MOST_UNPACKED = 8 * process.MOST_BYTES


#: A member's header: its method, packed size, and the lengths of its name and extra field.
_MEMBER = struct.Struct("<4x2x2xH4x4xL4xHH")


def pack(members: Mapping[str, bytes]) -> bytes:
    """A zip with a fixed time stamp, so that equal output gives equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return buffer.getvalue()
