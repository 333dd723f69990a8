"""Requests to the agents of many nodes and their answers, over the input and output of one srun.

srun sends its input in pieces of a kilobyte, each to every node, so that what is sent grows with the square of the
nodes where each has a part of its own. So a request has what the nodes' arguments have in common once, for each node
only what differs, and is compressed where it is long.

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
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: Bytes of a line that is sent as it is.
_SHORT = 900

#: Where a value is in nested lists, and the value.
Change = tuple[list[int], object]


def line(request: object) -> bytes:
    """A request as a line."""
    text = json.dumps(request).encode()
    return (text if len(text) <= _SHORT else packed(text).encode()) + b"\n"


def request(line: bytes) -> object:
    """The request of a line. Raises ValueError and zlib.error."""
    return json.loads(line if line.startswith(b"{") else unpacked(line))


def changes(common: object, own: object, place: Sequence[int] = ()) -> list[Change]:
    """What makes `own` of `common`, both of JSON's types: lists of one length are compared item by item."""
    if isinstance(common, list) and isinstance(own, list) and len(common) == len(own):
        return [
            one for k, (a, b) in enumerate(zip(common, own, strict=True)) for one in changes(a, b, [*place, k])
        ]  # fmt: skip
    # 1, 1.0 and true are equal in Python
    return [] if type(common) is type(own) and json.dumps(common) == json.dumps(own) else [(list(place), own)]


def changed(common: object, found: Sequence[Change]) -> object:
    """`common` with some changes."""
    for place, value in found:
        common = _put(common, place, value)
    return common


def _put(into: object, place: Sequence[int], value: object) -> object:
    if not place:
        return value
    assert isinstance(into, list)
    first, *rest = place
    return [*into[:first], _put(into[first], rest, value), *into[first + 1 :]]


def split(each: Mapping[str, list[object]]) -> tuple[list[object], dict[str, list[Change]]]:
    """host -> arguments, as what the first host has, and host -> its changes to that."""
    common = next(iter(each.values()))
    return common, {host: changes(common, own) for host, own in each.items()}


#: Characters of a piece.
_PIECE = 700
_LINE = re.compile(rb"(\d+) (\S+) (\d+)/(\d+) (\S*)")


class Message(NamedTuple):
    number: int
    who: str
    value: object


class Messages:
    """Puts messages together from lines, in whatever order these come."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[bytes, bytes], dict[int, bytes]] = {}

    def add(self, line: bytes) -> Message | None:
        """The message that this line completes; None if there is none, or if it is damaged."""
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


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()


def unpacked(text: str | bytes) -> bytes:
    """Raises ValueError and zlib.error."""
    return zlib.decompress(base64.b64decode(text))
