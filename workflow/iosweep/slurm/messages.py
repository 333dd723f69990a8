"""Requests to the agents of many nodes and their answers, over the input and output of one srun.

srun sends its input in pieces of a kilobyte, each to every node. So a long request is compressed: the arguments of a
thousand nodes are alike, and 300 kB of them become 18.

srun cuts lines of more than 1,024 bytes in its output, and may mix those of two nodes. So an answer, any JSON value, is
sent as short lines `<number> <who> <i>/<n> <piece>`: pieces of base64 of its compressed text. `number` is the
request's; `who` is the node that answers. Lines of another form, such as a site's greeting, are no answers.
"""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from typing import NamedTuple

#: Bytes of a line that is sent as it is.
_SHORT = 900


def line(request: object) -> bytes:
    """A request as a line."""
    text = json.dumps(request).encode()
    return (text if len(text) <= _SHORT else packed(text, 6).encode()) + b"\n"


def request(line: bytes) -> object:
    """The request of a line. Raises ValueError and zlib.error."""
    return json.loads(line if line.startswith(b"{") else unpacked(line))


#: Characters of a piece.
_PIECE = 700
_LINE = re.compile(rb"(\d+) (\S+) (\d+)/(\d+) (\S*)")


class Message(NamedTuple):
    number: int
    who: str
    value: object


class Messages:
    """Joins lines to messages, in any order of lines."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[bytes, bytes], dict[int, bytes]] = {}

    def add(self, line: bytes) -> Message | None:
        """The message that this line completes; None if it is not complete, or damaged."""
        if not (match := _LINE.fullmatch(line.strip())):
            return None
        number, who, index, count, piece = match.groups()
        pieces = self._pieces.setdefault((number, who), {})
        pieces[int(index)] = piece
        if len(pieces) < int(count):
            return None
        del self._pieces[number, who]
        try:
            value = json.loads(unpacked(b"".join(piece for _, piece in sorted(pieces.items()))))
        except (ValueError, zlib.error):
            return None
        return Message(int(number), who.decode("utf-8", "replace"), value)


def send(number: int, who: str, value: object, to: int = 1) -> None:
    """Write a message to a file descriptor."""
    text = packed(json.dumps(value).encode())
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    # from a new line: a site's words may stand before it without an end
    lines = "\n" + "".join(f"{number} {who} {i}/{len(pieces)} {piece}\n" for i, piece in enumerate(pieces))
    data = memoryview(lines.encode())
    while data:
        data = data[os.write(to, data) :]


def packed(data: bytes, level: int = 1) -> str:
    return base64.b64encode(zlib.compress(data, level)).decode()


def unpacked(text: str | bytes) -> bytes:
    """Raises ValueError and zlib.error."""
    return zlib.decompress(base64.b64decode(text))
