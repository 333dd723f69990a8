"""The points of a campaign with their rows: from what an earlier merge kept, or judged now, here or by other
processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iosweep.plan.model import Point
from iosweep.results import row_blocks
from iosweep.results.committed import Result
from iosweep.results.judging import Judge
from iosweep.results.row_blocks import Block, Companions, Main, PointState, Span
from iosweep.results.row_cache import RowCache

#: Repetitions of a block: what a process judges at a time. More is faster, and takes more memory. A repetition of many
#: ranks or workers, whose own rates are in memory as well, counts as one more for each so many of them.
BLOCK, _TASKS = 500, 8


@dataclass(frozen=True)
class Held:
    """A point, and where its rows are in those of its block."""

    point: Point
    state: PointState
    main: Main
    begin: Span

    @property
    def end(self) -> Span:
        return self.begin.after(self.state.sizes)


#: Points of each block -> the blocks.
Judging = Callable[[Sequence[Sequence[Point]]], Iterator[Block]]


class JudgedPoints:
    """cache: the rows of an earlier merge; judging: what judges the others, block by block."""

    def __init__(self, judge: Judge, cache: RowCache, judging: Judging):
        self._judge, self._cache, self._judging = judge, cache, judging

    def of(self, points: Sequence[Point]) -> Iterator[tuple[Held, Companions]]:
        """Points in their order."""
        kept = self._cache.known(points)
        fresh = self._fresh([point for point in points if point.id not in kept])
        damaged: dict[str, Iterator[tuple[Held, Companions]]] = {}  # file -> its points, judged again
        for number, point in enumerate(points):
            if (known := kept.get(point.id)) is None:
                yield next(fresh)
            elif known.file not in damaged and (tables := self._cache.tables(known)):
                yield Held(point, known.state, tables[0], known.begin), tables[1]
            else:
                if known.file not in damaged:  # once: each point would read all of it again
                    rest = [one for one in points[number:] if one.id in kept and kept[one.id].file == known.file]
                    damaged[known.file] = self._fresh(rest)
                yield next(damaged[known.file])

    def _fresh(self, points: Sequence[Point]) -> Iterator[tuple[Held, Companions]]:
        """Points that are judged now."""
        wanted = list(blocks(points))
        for some, block in zip(wanted, self._judging(wanted), strict=True):
            self._cache.keep(some, block)
            for point, (state, begin) in zip(some, row_blocks.spans(block.points), strict=True):
                yield Held(point, state, block.main, begin), block.companions

    def intact(self, point: Point) -> Mapping[int, Result]:
        """repetition -> result, of those of a point that decide what is left. Nothing is judged for it."""
        return {number: one for number, one in self._judge.counted(self._judge.found(point)).items() if one.intact}


def blocks(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Points that make a block each time."""
    some: list[Point] = []
    repetitions = 0
    for point in points:
        some.append(point)
        repetitions += point.repetitions.max * (1 + point.tasks // _TASKS)
        if repetitions >= BLOCK:
            yield some
            some, repetitions = [], 0
    if some:
        yield some


def intact(state: PointState) -> Mapping[int, Result]:
    """The repetitions that decide what is left; the others are measured again."""
    if state.clean:
        return _Results(state, [one.number for one in state.repetitions if one.counts])
    found = row_blocks.results(state)
    return {one.number: found[one.number] for one in state.repetitions if one.counts and found[one.number].intact}


class _Results(Mapping[int, Result]):
    """Results by their repetition, unpacked when one is asked for: most plans only ask for the numbers."""

    def __init__(self, state: PointState, numbers: Sequence[int]):
        self._state, self._numbers = state, dict.fromkeys(numbers)
        self._found: dict[int, Result] | None = None

    def __getitem__(self, number: int) -> Result:
        if number not in self._numbers:
            raise KeyError(number)
        if self._found is None:
            self._found = row_blocks.results(self._state)
        return self._found[number]

    def __contains__(self, number: object) -> bool:
        return number in self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)
