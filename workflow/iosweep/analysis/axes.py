"""What the axes of a sweep do to a figure: slices that share a figure, lines along one axis, scaling, knees. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from zlib import crc32

from iosweep.analysis import formats
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.formats import Conditions
from iosweep.analysis.headline import Rivals
from iosweep.analysis.summary import PointSummary, distinct, known_or_not, of_points
from iosweep.judge.ramps import SHARE, Knee, knee, reached
from iosweep.judge.statistics import Interval
from iosweep.plan.model import SweepFacts
from iosweep.tools import parameters


@dataclass(frozen=True)
class Slice:
    """Results that can share a figure, and the roles of the axes (columns) that vary among them."""

    sweep: str
    kind: str  # data or metadata
    condition: Conditions
    suffix: str  # what tells it from the sweep's other slices, for a name; "" if there are none
    results: tuple[PointSummary, ...]
    x: str
    color: str | None
    facet: str | None
    without: tuple[
        PointSummary, ...
    ] = ()  # the others of it, with a figure, whose place on the horizontal axis is not known


def slices(campaign: Campaign, results: Sequence[PointSummary]) -> Iterator[Slice]:
    """All slices of a campaign, sweep by sweep."""
    conditions = formats.conditions(results)
    points: dict[str, list[PointSummary]] = {}
    for result in of_points(results):
        points.setdefault(result.point, []).append(result)
    for sweep in campaign.about.sweeps:
        axes = axes_of(sweep)
        mine = [result for point in sweep.points for result in points.get(point, [])]
        for kind in ("data", "metadata"):
            of_kind = [result for result in mine if result.kind == kind]
            known = dict.fromkeys(conditions[result.point] for result in of_kind)
            homes = {one: formats.home(one, known) for one in known}
            groups = list(dict.fromkeys(homes.values()))
            for group in groups:
                own = [result for result in of_kind if homes[conditions[result.point]] == group]
                suffix = _suffix(group, groups)
                for x, color, facet, rest in _roles(own, axes):
                    for fixed, chosen in split(own, rest):
                        placed = tuple(result for result in chosen if result.parameters[x] is not None)
                        without = tuple(r for r in chosen if r.parameters[x] is None and r.headline)
                        if placed:
                            part = "".join(f".{axis}-{_told(value)}" for axis, value in fixed.items())
                            yield Slice(sweep.name, kind, group, suffix + part, placed, x, color, facet, without)


def axes_of(sweep: SweepFacts) -> set[str]:
    """Columns of a sweep's axes."""
    return {column for column, option in parameters().items() if option.name in sweep.axes}


def _roles(results: Sequence[PointSummary], axes: set[str]) -> Iterator[tuple[str, str | None, str | None, list[str]]]:
    """(horizontal axis, color, panels, axes that are left)."""
    known = parameters()
    varying = [axis for axis in known if axis in axes and len(distinct(results, axis)) > 1]
    alone = [axis for axis in varying if known[axis].role == "x_alone"]
    for x in [axis for axis in varying if known[axis].role == "x"] or alone[:1]:
        others = [axis for axis in varying if axis != x and known[axis].role != "condition"]
        others.sort(key=lambda axis: known[axis].color_order)
        color, facet = (*others, None, None)[:2]
        yield x, color, facet, others[2:]


def split(
    results: Sequence[PointSummary], axes: Sequence[str]
) -> Iterator[tuple[dict[str, Value | None], tuple[PointSummary, ...]]]:
    """Each combination of the axes' values that there is, with its results; None is a value that is not known."""
    for combination in product(*(known_or_not(results, axis) for axis in axes)):
        fixed = dict(zip(axes, combination, strict=True))
        chosen = tuple(r for r in results if all(r.parameters[a] == v for a, v in fixed.items()))
        if chosen:
            yield fixed, chosen


def _told(value: Value | None) -> Value:
    return "unknown" if value is None else value


def _suffix(own: Conditions, groups: Sequence[Conditions]) -> str:
    """What tells these conditions from the sweep's others."""
    own = own._replace(other_options=f"{crc32(str(own.other_options).encode()):x}")  # a name has to stay short
    differing = [i for i in range(len(own)) if len({group[i] for group in groups}) > 1]
    return "".join(f".{Conditions._fields[i]}-{own[i]}".lower() for i in differing)


#: Share of the best figure that counts as nearly all of it.
MOST = 0.9


@dataclass(frozen=True)
class Place:
    """A value of the axis, its point, and its figure as a share of the best one; interval: 95 % of that share, None
    with too few repetitions."""

    value: Value
    result: PointSummary
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


def lines_through(best: PointSummary, results: Sequence[PointSummary], compared: Rivals) -> list[Line]:
    """The lines through a point, one for each axis that varies among the results and along them: those of load (role
    `x`) before others, and of these what matters most first.

    Results: of one phase, with the parameters that other phases of their points have.
    """
    found = [line for column in _varying(results) if (line := _line(column, best, results, compared))]
    return sorted(found, key=lambda line: (parameters()[line.column].role != "x", line.effect))


def _varying(results: Sequence[PointSummary]) -> Iterator[str]:
    for column, option in parameters().items():
        if option.role != "condition" and len(distinct(results, column)) > 1:
            yield column


def along(column: str, best: PointSummary, results: Sequence[PointSummary]) -> list[tuple[Value, PointSummary]]:
    """The results that differ from one in a column alone, itself among them, in the order of its values."""
    found: dict[Value, PointSummary] = {}
    for result in [best, *results]:
        value = result.parameters[column]
        if value is not None and all(result.parameters[c] == best.parameters[c] for c in parameters() if c != column):
            found.setdefault(value, result)
    return sorted(found.items(), key=lambda one: one[0])


def _line(column: str, best: PointSummary, results: Sequence[PointSummary], compared: Rivals) -> Line | None:
    if best.parameters[column] is None:  # an output of others may not tell it: then it is on no line
        return None
    own = along(column, best, results)
    measured = [(value, result) for value, result in own if result.point in compared.candidates]
    if len(measured) < 2:
        return None
    places = tuple(Place(v, r, compared.share(r, best), compared.ratio(r, best)) for v, r in measured)
    return Line(column, places, next(i for i, (_, r) in enumerate(measured) if r.point == best.point))


#: Columns whose values are workers, so that the double of it could do the double.
WORKERS = ("nodes", "threads_per_node")


@dataclass(frozen=True)
class Step:
    """A count beside the smallest one. speedup: its rate as a multiple of the smallest count's; interval: 95 % of that,
    None with too few repetitions; linear: the speedup of linear growth; strangers: nodes of the smallest count that it
    did not have."""

    result: PointSummary
    count: int
    linear: float
    speedup: float
    interval: Interval | None
    strangers: frozenset[str]

    @property
    def efficiency(self) -> float:
        """Share of linear growth."""
        return self.speedup / self.linear

    @property
    def range(self) -> tuple[float, float] | None:
        """The 95 % interval of the efficiency."""
        return (self.interval.low / self.linear, self.interval.high / self.linear) if self.interval else None


@dataclass(frozen=True)
class Scaling:
    """A line of points that differ in nodes or threads alone (column), from the smallest count (`base`) upward."""

    column: str
    base: PointSummary
    smallest: int
    steps: tuple[Step, ...]

    @property
    def same_nodes(self) -> bool:
        """Whether the nodes of the smallest count took part in all others."""
        return not any(step.strangers for step in self.steps)


def scale(column: str, line: Sequence[tuple[int, PointSummary]], compared: Rivals) -> Scaling | None:
    """The scaling of points in ascending order of the column; None with fewer than two, or where the smallest count has
    a rate of zero."""
    if len(line) < 2 or line[0][0] < 1:
        return None
    smallest, base = line[0]
    if not base.headline or base.headline.mean <= 0:
        return None
    steps = tuple(
        Step(
            result,
            count,
            count / smallest,
            compared.share(result, base),
            compared.ratio(result, base),
            frozenset(strangers(base, result)),
        )
        for count, result in line[1:]
    )
    return Scaling(column, base, smallest, steps)


def strangers(result: PointSummary, other: PointSummary) -> set[str]:
    """Its nodes that another result did not have."""
    return set(result.hosts) - set(other.hosts)


@dataclass(frozen=True)
class Bend:
    """A climb with its knee. column: of the axis; values: those of the climbed points, in ascending order; top: the
    last step that gained something, where the rule that ends a climb ended it; whole: no value above has no figure."""

    sweep: str
    phase: str
    column: str
    values: tuple[int, ...]
    knee: Knee
    top: int | None
    whole: bool
    place: str  # the other parameters that differ between climbs, in words; else ""

    @property
    def saturated(self) -> bool:
        """Whether the last steps gained nothing."""
        return self.top is not None

    @property
    def shown(self) -> bool:
        """Whether there is a knee beyond doubt, on an axis that need not climb to one: its whole interval is after the
        first and before the last value."""
        found = self.knee
        return found.low is not None and found.high is not None and found.low > 0 and found.high < len(self.values) - 1

    @property
    def range(self) -> str:
        """`16`, or with the interval `16 to 32`."""
        found, values = self.knee, self.values
        if found.low is None or found.high is None:
            return str(values[found.step])
        low, high = values[found.low], values[found.high]
        return str(low) if low == high else f"{low} to {high}"

    @property
    def sentence(self) -> str:
        """`Random read: 95 % of the peak at queue depth 16 to 32`"""
        label = ", ".join(filter(None, (formats.phase(self.phase), self.place)))
        return f"{label}: {self.where}"

    @property
    def where(self) -> str:
        """`95 % of the peak at queue depth 16 to 32`"""
        sure = "" if self.knee.low is not None else " (one repetition of each point: no interval)"
        doubt = f"; {self._doubt}" if self._doubt else ""
        return f"{100 * SHARE:g} % of the peak at {self._at(self.range)}{sure}{doubt}"

    @property
    def _doubt(self) -> str:
        """Why the peak may be elsewhere; "" where nothing says so."""
        if self.top is None and self.whole:
            return "the axis ends before a plateau is certain, so the peak may be beyond it"
        if self.top is None:
            return "no plateau is certain yet, and higher values have no figure, so the peak may be there"
        low = self.knee.step if self.knee.low is None else self.knee.low
        if low > self.top:
            at = self._at(str(self.values[self.top]))
            return f"the climb ended because noise hides what is gained above {at}, so the peak may be higher"
        return ""

    def _at(self, value: str) -> str:
        option = parameters()[self.column]
        if option.singular:
            return f"{value} {option.singular if value == '1' else option.shown}"
        return f"{option.shown} {value}"


def bends(results: Sequence[PointSummary], sweeps: Iterable[SweepFacts]) -> list[Bend]:
    """The knees of all sweeps with a ramp, of their measured points."""
    columns = {option.name: column for column, option in parameters().items()}
    found: list[Bend] = []
    for sweep in sweeps:
        if sweep.ramp:
            members = set(sweep.points)
            own = [result for result in results if result.point in members]
            found += _of_sweep(sweep.name, columns[sweep.ramp], own)
    return found


def _of_sweep(sweep: str, column: str, results: Sequence[PointSummary]) -> Iterator[Bend]:
    groups: dict[tuple[object, ...], list[PointSummary]] = {}
    for result in results:
        others = tuple((name, value) for name, value in result.parameters.items() if name not in (column, "tasks"))
        groups.setdefault((result.phase, others), []).append(result)
    for climb in groups.values():
        if bend := bend_of(sweep, column, climb, results):
            yield bend


def bend_of(sweep: str, column: str, line: Iterable[PointSummary], results: Sequence[PointSummary]) -> Bend | None:
    """The knee of one phase of points that differ in this column alone; None with fewer than two figures.

    results: all others, which show by what the line differs from them.
    """
    climb = sorted(((result.count(column) or 1, result) for result in line), key=lambda one: one[0])
    members = [(value, result) for value, result in climb if result.headline]
    figures = [result.values(result.metric) for _, result in members]
    bend = knee(figures)
    if bend is None:
        return None
    values, first = tuple(value for value, _ in members), members[0][1]
    top, whole = reached([{"": own} for own in figures]).top, climb[-1][0] == values[-1]
    return Bend(sweep, first.phase, column, values, bend, top, whole, _place(first, results, column))


def _place(result: PointSummary, results: Sequence[PointSummary], column: str) -> str:
    alike = [other for other in results if other.phase == result.phase]
    vary = [name for name in parameters() if name != column and len({other.parameters[name] for other in alike}) > 1]
    return ", ".join(formats.named(name, result.parameters[name]) for name in vary)
