"""Which tool wrote a file: told by what is in it, never by its name. Pure.

Each tool says itself what its output has (`Tool.signs`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from iosweep.tools import tools

#: Lines with a tool's sign that are looked at, and how much of each: a log may quote a sign on each of its lines.
_LOOKED_AT, _LONGEST = 1000, 4096
#: What an editor may write in front of UTF-8.
MARK = b"\xef\xbb\xbf"
#: Bytes of the beginning in which a file that is no text has a zero.
_BEGINNING = 8192
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Detected:
    """The tool whose output comes first in a file, and others whose output is in it, too: a job's log may have both."""

    tool: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotOurs:
    """No tool's output. `reason` continues the sentence after the file's name: `is empty`."""

    reason: str


def tool(data: bytes) -> Detected | NotOurs:
    """The tools whose output a file holds, or why it holds none."""
    text = data.removeprefix(MARK)
    if not text.strip():
        return NotOurs("is empty")
    if text.startswith(_UTF_16):
        return NotOurs("is UTF-16: save it as UTF-8")
    for one in tools().values():
        for beginning, what in one.signs.beginnings.items():
            if re.match(beginning, text):
                return NotOurs(f"has {what}")
    at = {name: place for name, one in tools().items() if (place := _first(text, one.signs.lines)) >= 0}
    if at:
        first, *others = sorted(at, key=at.__getitem__)
        return Detected(first, tuple(others))
    if b"\0" in text[:_BEGINNING]:
        return NotOurs("is not text")
    *others, last = tools()
    return NotOurs(f"has no output of {', '.join(others)} or {last}")


def _first(text: bytes, signs: Mapping[bytes, bytes]) -> int:
    """Where the first line is that is a tool's own; -1 without any."""
    found = -1
    for sign, pattern in signs.items():
        at = text.find(sign)
        for _ in range(_LOOKED_AT):
            if at < 0 or 0 <= found < at:
                break
            first = max(text.rfind(b"\n", 0, at) + 1, at - _LONGEST)
            end = text.find(b"\n", at, at + _LONGEST)
            if re.search(pattern, text[first : end if end >= 0 else at + _LONGEST]):
                found = at
                break
            at = text.find(sign, at + len(sign))
    return found
