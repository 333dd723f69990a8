"""IOR's warnings on the bytes that it moved: three lines each, and in later versions a fourth on the reason."""

from __future__ import annotations

import re
from dataclasses import replace

from iosweep.tools.ior.command_line import number
from iosweep.tools.ior.records import LARGEST, Moved

_WARNING = re.compile(
    r"WARNING: (Expected aggregate file size|Stat\(\) of aggregate file size|Using actual aggregate bytes moved)"
    r"\s*= (-?\d+)\.?"
)
_WARNED = ("Expected", "Stat()", "Using")  # in this order
_REASON = re.compile(r"WARNING: maybe caused by deadlineForStonewalling\.?", re.IGNORECASE)
NOT_WHOLE = "ERROR: IOR's warning on the bytes moved is not whole"


class Warned:
    """Takes the lines in order. `moved`: the warnings, and `broken`: sets that are not whole, each with its line."""

    def __init__(self) -> None:
        self.moved: list[tuple[int, Moved]] = []
        self.broken: list[tuple[int, str]] = []
        self._warning: dict[str, int] = {}

    def take(self, at: int, text: str) -> bool:
        match = _WARNING.fullmatch(text)
        if not match:
            if self.moved and _REASON.fullmatch(text):
                place, moved = self.moved[-1]
                self.moved[-1] = (place, replace(moved, stonewalled=True))
                return True
            return False
        name = match[1].split()[0]
        figure = number(match[2]) or 0
        wanted = _WARNED[len(self._warning)]
        if name != wanted or abs(figure) > LARGEST:
            self.broken.append((at, NOT_WHOLE))
            self._warning = {} if name != "Expected" else {name: figure}
            return True
        self._warning[name] = figure
        if len(self._warning) == 3:
            expected, stat, bytes_moved = (self._warning[key] for key in _WARNED)
            self.moved.append((at, Moved(expected, stat, bytes_moved)))
            self._warning = {}
        return True

    def end(self, at: int) -> None:
        if self._warning:
            self.broken.append((at, NOT_WHOLE))
