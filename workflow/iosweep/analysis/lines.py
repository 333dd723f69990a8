"""Points that differ in one axis alone, and what that axis does to a figure. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis.aggregate import Result, distinct
from iosweep.analysis.choice import Compared
from iosweep.analysis.data import Value
from iosweep.judge.statistics import Interval
from iosweep.tools import parameters

#: Share of the best figure that counts as nearly all of it.
MOST = 0.9


@dataclass(frozen=True)
class Place:
    """A value of the axis, its point, and its figure as a share of the best one; interval: 95 % of that share, None
    with too few repetitions."""

    value: Value
    result: Result
    share: float
    interval: Interval | None

    @property
    def alike(self) -> bool:
        """Whether it cannot be told apart from the best one, although there are repetitions enough to try."""
        return self.interval is not None and not self.interval.excludes(1.0)


@dataclass(frozen=True)
class Line:
    """The points that differ from the best one in `column` alone, in the order of its values. at: place of the best
    one."""

    column: str
    places: tuple[Place, ...]
    at: int

    @property
    def ordered(self) -> bool:
        """Whether its values are numbers."""
        return all(type(place.value) is int for place in self.places)

    @property
    def best(self) -> Place:
        return self.places[self.at]

    @property
    def others(self) -> list[Place]:
        return [place for place in self.places if place is not self.best]

    @property
    def effect(self) -> float:
        """Smallest share on the line: the lower, the more the axis matters."""
        return min(place.share for place in self.places)

    @property
    def known(self) -> bool:
        """Whether anything is known of what can be told apart."""
        return any(place.interval for place in self.others)

    @property
    def run(self) -> tuple[int, int]:
        """First and last place around the best one, of those next to each other that cannot be told apart from it."""
        first = last = self.at
        while first and self.places[first - 1].alike:
            first -= 1
        while last + 1 < len(self.places) and self.places[last + 1].alike:
            last += 1
        return first, last

    @property
    def reaching(self) -> Place | None:
        """The first place before these that has MOST of the best figure; where none has, the last one before them."""
        before = self.places[: self.run[0]]
        return next((place for place in before if place.share >= MOST), before[-1] if before else None)


def through(best: Result, results: Sequence[Result], compared: Compared) -> list[Line]:
    """The lines through a point, one for each axis that varies among the results and along them: those of load (role
    `x`) before others, and of these what matters most first.

    Results: of one phase, with the parameters that other phases of their points have.
    """
    found = [line for column in _varying(results) if (line := _line(column, best, results, compared))]
    return sorted(found, key=lambda line: (parameters()[line.column].role != "x", line.effect))


def _varying(results: Sequence[Result]) -> Iterator[str]:
    for column, option in parameters().items():
        if option.role != "condition" and len(distinct(results, column)) > 1:
            yield column


def alone(column: str, best: Result, results: Sequence[Result]) -> list[tuple[Value, Result]]:
    """The results that differ from one in a column alone, itself among them, in the order of its values."""
    found: dict[Value, Result] = {}
    for result in [best, *results]:
        value = result.parameters[column]
        if value is not None and all(result.parameters[c] == best.parameters[c] for c in parameters() if c != column):
            found.setdefault(value, result)
    return sorted(found.items(), key=lambda one: one[0])


def _line(column: str, best: Result, results: Sequence[Result], compared: Compared) -> Line | None:
    if best.parameters[column] is None:  # an output of others may not tell it: then it is on no line
        return None
    own = alone(column, best, results)
    measured = [(value, result) for value, result in own if result.point in compared.candidates]
    if len(measured) < 2:
        return None
    places = tuple(Place(v, r, compared.share(r, best), compared.ratio(r, best)) for v, r in measured)
    return Line(column, places, next(i for i, (_, r) in enumerate(measured) if r.point == best.point))
