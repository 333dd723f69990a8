"""The axes of a sweep: which results share a figure, lines along one axis, scaling with nodes or threads. Pure.

Axes belong to points. A phase that ignores an axis (a read phase ignores fsync) is still drawn at its point's value:
otherwise two points would coincide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from zlib import crc32

from iosweep.analysis import formats
from iosweep.analysis.formats import Conditions
from iosweep.analysis.headline import Rivals
from iosweep.analysis.summary import PointSummary, distinct, distinct_or_unknown
from iosweep.judge.statistics import Estimate
from iosweep.plan.model import SweepFacts
from iosweep.tables.reader import Campaign, Value
from iosweep.tools import parameters

#: A figure with at least this share of the best one is nearly the best.
MOST = 0.9

# which results share a figure


@dataclass(frozen=True)
class Slice:
    """Results of a sweep that share a figure: the same kind (data or metadata) and the same conditions.

    x: the horizontal axis; color: the axis with a line for each value (each combination of further axes has its own
    slice); fixed: values of those; suffix: distinguishes the slices of a sweep; without: results
    with a figure whose value of x is unknown.
    """

    sweep: str
    kind: str
    condition: Conditions
    suffix: str
    results: tuple[PointSummary, ...]
    x: str
    color: str | None
    fixed: Mapping[str, Value | None]
    without: tuple[PointSummary, ...] = ()


def make_slices(campaign: Campaign, results: Sequence[PointSummary]) -> Iterator[Slice]:
    """Yield all slices of a campaign, sweep by sweep."""
    conditions = formats.conditions(results)
    points: dict[str, list[PointSummary]] = {}
    for result in results:
        points.setdefault(result.point, []).append(result)
    for sweep, kind in product(campaign.about.sweeps, ("data", "metadata")):
        of_kind = [result for point in sweep.points for result in points.get(point, []) if result.kind == kind]
        known = dict.fromkeys(conditions[result.point] for result in of_kind)
        homes = {condition: formats.home_conditions(condition, known) for condition in known}
        groups = list(dict.fromkeys(homes.values()))
        for group in groups:
            members = [result for result in of_kind if homes[conditions[result.point]] == group]
            for x, color, rest in _assign_roles(members, axes_of(sweep)):
                for fixed, chosen in split(members, rest):
                    placed = tuple(result for result in chosen if result.parameters[x] is not None)
                    without = tuple(r for r in chosen if r.parameters[x] is None and r.headline)
                    if placed:
                        part = "".join(f".{axis}-{'unknown' if v is None else v}" for axis, v in fixed.items())
                        suffix = _make_suffix(group, groups) + part
                        yield Slice(sweep.name, kind, group, suffix, placed, x, color, fixed, without)


def axes_of(sweep: SweepFacts) -> set[str]:
    """The columns of a sweep's axes."""
    return {column for column, option in parameters().items() if option.name in sweep.axes}


def _assign_roles(results: Sequence[PointSummary], columns: set[str]) -> Iterator[tuple[str, str | None, list[str]]]:
    """Assign axes to roles: (x, color, the other axes)."""
    known = parameters()
    varying = [axis for axis in known if axis in columns and len(distinct(r.parameters[axis] for r in results)) > 1]
    alone_only = [axis for axis in varying if known[axis].role == "x_alone"]
    for x in [axis for axis in varying if known[axis].role == "x"] or alone_only[:1]:
        others = [axis for axis in varying if axis != x and known[axis].role != "condition"]
        others.sort(key=lambda axis: known[axis].color_order)
        yield x, others[0] if others else None, others[1:]


def split(
    results: Sequence[PointSummary], columns: Sequence[str]
) -> Iterator[tuple[dict[str, Value | None], tuple[PointSummary, ...]]]:
    """Yield each existing combination of values with its results; None is an unknown value."""
    for combination in product(*(distinct_or_unknown(results, column) for column in columns)):
        fixed = dict(zip(columns, combination, strict=True))
        if chosen := tuple(r for r in results if all(r.parameters[c] == v for c, v in fixed.items())):
            yield fixed, chosen


def _make_suffix(condition: Conditions, groups: Sequence[Conditions]) -> str:
    """Make a suffix that distinguishes these conditions from the others of the sweep."""
    digest = f"{crc32(str(condition.other_options).encode()):x}"  # file names stay short
    condition = condition._replace(other_options=digest)
    differing = [i for i in range(len(condition)) if len({group[i] for group in groups}) > 1]
    return "".join(f".{Conditions._fields[i]}-{condition[i]}".lower() for i in differing)


# lines through the best point


@dataclass(frozen=True)
class Place:
    """A value of the axis with its point. ratio: of its figure to the best, with interval, None with too few
    repetitions; share: the same without interval; alike: there are enough repetitions, but they do not distinguish the
    point from the best."""

    value: Value
    result: PointSummary
    share: float
    ratio: Estimate | None
    alike: bool

    @property
    def tells(self) -> bool:
        """Whether the ratio has an interval to show."""
        return self.ratio is not None and self.ratio.tells


@dataclass(frozen=True)
class Line:
    """The points that differ from the best point in `column` only, by ascending value. at: index of the best point."""

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
    def known(self) -> bool:
        """Whether any of the other points has enough repetitions to be compared with the best."""
        return any(place.ratio for place in self.others)

    @property
    def run(self) -> tuple[int, int]:
        """First and last index of the places around the best point that cannot be distinguished from it."""
        first = last = self.at
        while first and self.places[first - 1].alike:
            first -= 1
        while last + 1 < len(self.places) and self.places[last + 1].alike:
            last += 1
        return first, last

    @property
    def reaching(self) -> Place | None:
        """The first place before `run` with at least MOST of the best figure, else the last place before it."""
        before = self.places[: self.run[0]]
        return next((place for place in before if place.share >= MOST), before[-1] if before else None)


def find_lines(best: PointSummary, results: Sequence[PointSummary], rivals: Rivals) -> list[Line]:
    """Lines through a point, one for each axis that varies: axes of load (role `x`) first, then the axes with the
    largest effect. results: of one phase."""
    lines = []
    for column, option in parameters().items():
        values = distinct(result.own_parameters[column] for result in results)
        if option.role != "condition" and len(values) > 1 and best.own_parameters[column] is not None:
            measured = [(v, r) for v, r in find_along(column, best, results) if r.point in rivals.candidates]
            if len(measured) > 1:
                places = tuple(_place(value, result, best, rivals) for value, result in measured)
                at = next(i for i, (_, result) in enumerate(measured) if result.point == best.point)
                lines.append(Line(column, places, at))
    return sorted(
        lines, key=lambda line: (parameters()[line.column].role != "x", min(place.share for place in line.places))
    )


def _place(value: Value, result: PointSummary, best: PointSummary, rivals: Rivals) -> Place:
    ratio = rivals.ratio(result, best)
    return Place(value, result, rivals.share(result, best), ratio, bool(ratio) and rivals.is_alike(result, best))


def find_along(column: str, best: PointSummary, results: Sequence[PointSummary]) -> list[tuple[Value, PointSummary]]:
    """Points that differ from `best` in one column only, and `best` itself, by ascending value."""
    by_value: dict[Value, PointSummary] = {}
    for result in [best, *results]:
        place, value = result.own_parameters, result.own_parameters[column]
        if value is not None and all(place[c] == best.own_parameters[c] for c in parameters() if c != column):
            by_value.setdefault(value, result)
    return sorted(by_value.items(), key=lambda entry: entry[0])


# scaling with nodes or threads


@dataclass(frozen=True)
class Step:
    """The result at a count above the smallest."""

    result: PointSummary
    count: int
    speedup: float  # its rate divided by the rate of the smallest count
    efficiency: float  # speedup as a share of linear growth
    range: tuple[float, float] | None  # 95 % interval of the efficiency, None if there is none to show
    strangers: frozenset[str]  # nodes of the smallest count that did not take part here


@dataclass(frozen=True)
class Scaling:
    """Points that differ in nodes or threads only, from the smallest count (`base`) upward."""

    column: str
    base: PointSummary
    smallest: int
    steps: tuple[Step, ...]


def measure_scaling(column: str, line: Sequence[tuple[int, PointSummary]], rivals: Rivals) -> Scaling | None:
    """The scaling of a line of points in ascending order of the column; None with fewer than two points, or if the
    first rate is zero."""
    if len(line) < 2 or line[0][0] < 1:
        return None
    smallest, base = line[0]
    if not base.headline or base.headline.figure <= 0:
        return None
    steps = []
    for count, result in line[1:]:
        linear, speedup, ratio = count / smallest, rivals.share(result, base), rivals.ratio(result, base)
        ends = (ratio.low / linear, ratio.high / linear) if ratio and ratio.tells else None
        strangers = frozenset(base.hosts) - frozenset(result.hosts)
        steps.append(Step(result, count, speedup, speedup / linear, ends, strangers))
    return Scaling(column, base, smallest, tuple(steps))
