"""Knees of ramps: where most of the peak is reached, per phase and combination of the other axes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis import titles
from iosweep.analysis.aggregate import Result
from iosweep.judge.knee import SHARE, Knee, knee
from iosweep.judge.ramps import reached
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.tools import parameters


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
        label = ", ".join(filter(None, (titles.phase(self.phase), self.place)))
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


def of(results: Sequence[Result], sweeps: Iterable[SweepFacts]) -> list[Bend]:
    """The knees of all sweeps with a ramp, of their measured points."""
    columns = {option.name: column for column, option in parameters().items()}
    found: list[Bend] = []
    for sweep in sweeps:
        if sweep.ramp:
            members = set(sweep.points)
            own = [result for result in results if result.point in members]
            found += _of_sweep(sweep.name, columns[sweep.ramp], own)
    return found


def _of_sweep(sweep: str, column: str, results: Sequence[Result]) -> Iterator[Bend]:
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        others = tuple((name, value) for name, value in result.parameters.items() if name not in (column, "tasks"))
        groups.setdefault((result.phase, others), []).append(result)
    for climb in groups.values():
        if bend := of_line(sweep, column, climb, results):
            yield bend


def of_line(sweep: str, column: str, line: Iterable[Result], results: Sequence[Result]) -> Bend | None:
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


def _place(result: Result, results: Sequence[Result], column: str) -> str:
    alike = [other for other in results if other.phase == result.phase]
    vary = [name for name in parameters() if name != column and len({other.parameters[name] for other in alike}) > 1]
    return ", ".join(titles.named(name, result.parameters[name]) for name in vary)
