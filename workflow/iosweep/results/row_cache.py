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
#: The largest file that is read, and the bytes of the files whose tables are in memory at a time.
_MOST_BYTES, _OPEN_BYTES = 1 << 30, 256 << 20
#: Points and bytes below which a file is a small one; so many of these are put together, up to so many bytes.
_SMALL, _SMALL_BYTES, _MANY, _JOINED_BYTES = 50, 4 << 20, 16, 64 << 20


class Kept(NamedTuple):
    """A point that is in a file, and where its rows begin in its tables."""

    file: str
    state: PointState
    begin: Span


class _Open(NamedTuple):
    """The tables of a file that is read."""

    main: Main
    companions: Companions
    size: int


class RowCache:
    """Rows of an earlier merge, and a place for those of this one. Raises nothing for what may be in the folder.

    memory: key of a node's facts -> bytes of its memory; anew: use nothing; keep: False to keep nothing either.
    """

    def __init__(
        self, plan: Plan, results: Path, memory: Mapping[str, int | None], anew: bool = False, keep: bool = True
    ):
        self._results, self._memory, self._asked = results, memory, unchanged.Asked(plan)
        self._kept: dict[str, list[Kept]] = {}
        self._current: dict[str, str] = {}  # point -> the file that has its rows now
        self._open: OrderedDict[str, _Open] = OrderedDict()  # the one that was used last at the end
        self._coming: Counter[str] = Counter()  # file -> points that `tables` will be asked for
        self._mains: dict[str, Main] = {}  # of the points of `known`, which hold them all the same
        self._files: dict[str, bytes] = {}  # point -> hash of its files, before they were read
        self._code = unchanged.code()
        self.clock_ns = 0  # 0: nothing is kept
        if not keep:
            return
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

    def known(self, points: Sequence[Point]) -> dict[str, Kept]:
        """Those of some points that have not changed since they were judged. `tables` is for these, until the next
        call."""
        found = {point.id: kept for point in points if (kept := self._find(point))}
        self._coming = Counter(kept.file for kept in found.values())
        self._mains.clear()
        return found

    def _find(self, point: Point) -> Kept | None:
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
        """The tables of the file of a point; None where they are damaged.

        After many small merges the points of a plan alternate between many files. A file stays open while points of it
        are to come, as far as memory goes, and its rows are in memory once, however often it is read.
        """
        if (found := self._open.pop(kept.file, None)) is None:
            try:
                data = self._tables_of(kept.file)
                main, companions = row_blocks.decoded_tables(data)
            except (OSError, Unreadable):
                return None
            found = _Open(self._mains.setdefault(kept.file, main), companions, len(data))
        self._coming[kept.file] -= 1
        if self._coming[kept.file] > 0:
            self._open[kept.file] = found
            while len(self._open) > 1 and sum(one.size for one in self._open.values()) > _OPEN_BYTES:
                self._open.popitem(last=False)
        self._current[kept.state.id] = kept.file
        return found.main, found.companions

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
            small = [
                (name, size)
                for name, points in Counter(self._current.values()).items()
                if points < _SMALL and (size := place.size(name)) is not None and size < _SMALL_BYTES
            ]
            if self.clock_ns and len(small) >= _MANY:
                for names in _groups(small):
                    self._join(place, names)
            current = set(self._current.values())
            for name in place.names():
                if FILE.fullmatch(name) and name not in current and self.clock_ns:
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


def _groups(files: Sequence[tuple[str, int]]) -> list[list[str]]:
    """Names of files that become one file each, of (name, bytes): what is joined is in memory, and read as a whole."""
    groups: list[list[str]] = []
    room = 0
    for name, size in files:
        if size > room:
            groups.append([])
            room = _JOINED_BYTES
        groups[-1].append(name)
        room -= size
    return [group for group in groups if len(group) > 1]


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
    with place.replaced(_CLOCK, synced=False) as file:  # by its handle: another merge may remove what has this name
        now = os.fstat(file.fileno()).st_mtime_ns
    place.remove(_CLOCK)
    return now


def _states(place: Folder, name: str) -> Sequence[PointState]:
    """The states of a file. Raises OSError, Unreadable."""
    with os.fdopen(place.open(name), "rb") as file:
        head = file.read(row_blocks.HEAD_BYTES)
        end = row_blocks.states_end(head)
        if end > _MOST_BYTES:
            raise Unreadable("it is too long")
        return row_blocks.decoded_states(head + file.read(end - len(head)))
