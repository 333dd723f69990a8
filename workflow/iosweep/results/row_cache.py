"""judged/: the rows of points as an earlier merge judged them, in files of many points each (row_blocks).

What is there is used if `unchanged` says so. Nothing depends on it: a file that is damaged, or cannot be written, means
that its points are judged again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from iosweep.files import safe_paths
from iosweep.files.safe_paths import Folder
from iosweep.plan.model import Plan, Point
from iosweep.results import merged_tables, row_blocks, unchanged
from iosweep.results.merged_tables import JUDGED as FOLDER
from iosweep.results.row_blocks import Block, Companions, Main, PointState, Span, Unreadable

FILE = merged_tables.JUDGED_FILE
#: A file that is written to know the time.
_CLOCK = "clock"
#: The largest file that is read, and the tables of so many files are in memory at a time.
_MOST_BYTES, _OPEN = 1 << 30, 4
#: Points below which a file is a small one; so many of these are put together.
_SMALL, _MANY = 50, 16


class Kept(NamedTuple):
    """A point that is in a file, and where its rows begin in its tables."""

    file: str
    state: PointState
    begin: Span


class RowCache:
    """Rows of an earlier merge, and a place for those of this one. Raises nothing for what may be in the folder.

    memory: key of a node's facts -> bytes of its memory.
    """

    def __init__(self, plan: Plan, results: Path, memory: Mapping[str, int | None], anew: bool = False):
        self._results, self._memory, self._asked = results, memory, unchanged.Asked(plan)
        self._kept: dict[str, list[Kept]] = {}
        self._current: dict[str, str] = {}  # point -> the file that has its rows now
        self._tables: OrderedDict[str, tuple[Main, Companions]] = OrderedDict()
        self._files: dict[str, bytes] = {}  # point -> hash of its files, before they were read
        self._code = unchanged.code()
        self.clock_ns = 0  # 0: nothing is kept
        with contextlib.suppress(OSError), safe_paths.folder(results, FOLDER, make=True) as place:
            self.clock_ns = _clock_ns(place)
            if not anew:
                self._read(place)

    def _read(self, place: Folder) -> None:
        for name in place.names():
            match = FILE.fullmatch(name)
            if match and match[1] == self._code:
                with contextlib.suppress(OSError, Unreadable):
                    for state, begin in row_blocks.spans(_states(place, name)):
                        if state.files:
                            self._kept.setdefault(state.id, []).append(Kept(name, state, begin))

    def find(self, point: Point) -> Kept | None:
        """A point that has not changed since it was judged."""
        if not self.clock_ns:
            return None
        files = self._files[point.id] = unchanged.files(self._results / "points", point.id, self.clock_ns)
        asked = self._asked.hash(point) if files else b""
        for kept in self._kept.get(point.id, ()):
            state = kept.state
            if (state.files, state.asked) == (files, asked) and unchanged.same_memory(state.memory, self._memory):
                return kept
        return None

    def tables(self, kept: Kept) -> tuple[Main, Companions] | None:
        """The tables of the file of a point; None where they are damaged."""
        if kept.file not in self._tables:
            try:
                self._tables[kept.file] = row_blocks.decoded_tables(self._tables_of(kept.file))
            except (OSError, Unreadable):
                return None
            if len(self._tables) > _OPEN:
                self._tables.popitem(last=False)
        self._current[kept.state.id] = kept.file
        return self._tables[kept.file]

    def _tables_of(self, name: str) -> memoryview:
        data = safe_paths.read(self._results, f"{FOLDER}/{name}", _MOST_BYTES)
        return memoryview(data)[row_blocks.states_end(data) :]

    def keep(self, points: Sequence[Point], block: Block) -> None:
        """Keep what was judged for the next merge, as far as that is possible."""
        if not self.clock_ns:
            return
        states = [
            replace(state, asked=self._asked.hash(point), files=self._files.get(point.id, b"") if state.clean else b"")
            for point, state in zip(points, block.points, strict=True)
        ]
        if any(state.files for state in states):
            try:
                self._write(Block(states, block.main, block.companions))
            except OSError as error:
                self.clock_ns = 0
                if error.errno in (errno.ENOSPC, errno.EDQUOT):  # the tables need the room
                    remove(self._results)

    def _write(self, block: Block) -> None:
        data = row_blocks.encoded(block)
        name = f"{self._code}-{hashlib.sha256(data).hexdigest()[:16]}.rows"
        safe_paths.write(self._results, f"{FOLDER}/{name}", data)
        self._current.update({state.id: name for state in block.points if state.files})

    def finish(self) -> None:
        """Remove files that have nothing that is current, and put small ones together."""
        with contextlib.suppress(OSError, Unreadable), safe_paths.folder(self._results, FOLDER) as place:
            small = [name for name, points in Counter(self._current.values()).items() if points < _SMALL]
            if self.clock_ns and len(small) >= _MANY:
                self._join(place, small)
            current = set(self._current.values())
            for name in place.names():
                if FILE.fullmatch(name) and name not in current:
                    place.remove(name)

    def _join(self, place: Folder, names: Sequence[str]) -> None:
        """Put what is current of some files into one."""
        parts = []
        for name in names:
            main, companions = row_blocks.decoded_tables(self._tables_of(name))
            for state, begin in row_blocks.spans(_states(place, name)):
                if self._current.get(state.id) == name:
                    end = begin.after(state.sizes)
                    part = row_blocks.main_part(main, begin, end), row_blocks.companions_part(companions, begin, end)
                    parts.append(([state], *part))
        self._write(row_blocks.joined(parts))


def remove(results: Path) -> bool:
    """Remove all that is kept; returns whether there was something."""
    found = False
    with contextlib.suppress(OSError), safe_paths.folder(results, FOLDER) as place:
        for name in place.names():
            if FILE.fullmatch(name):
                place.remove(name)
                found = True
    return found


def _clock_ns(place: Folder) -> int:
    """The time now by the clock of the file system, which may be another machine's."""
    place.write(_CLOCK, b"")
    status = place.status(_CLOCK)
    place.remove(_CLOCK)
    return status.st_mtime_ns if status else 0


def _states(place: Folder, name: str) -> Sequence[PointState]:
    """The states of a file. Raises OSError, Unreadable."""
    with os.fdopen(place.open(name), "rb") as file:
        head = file.read(row_blocks.HEAD_BYTES)
        end = row_blocks.states_end(head)
        if end > _MOST_BYTES:
            raise Unreadable("it is too long")
        return row_blocks.decoded_states(head + file.read(end - len(head)))
