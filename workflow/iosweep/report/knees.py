"""Knees of ramps: where most of the peak is reached, per phase and combination of the other axes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iosweep.plan.sweep_facts import SweepFacts
from iosweep.report import titles
from iosweep.report.aggregate import Result
from iosweep.results.knee import SHARE, Knee, knee
from iosweep.results.ramps import reached
from iosweep.tools import parameters


@dataclass(frozen=True)
class Bend:
    """A climb with its knee. column: of the axis; values: those of the climbed points, in ascending order; saturated:
    the last steps gained nothing, by the rule that ends a climb."""

    sweep: str
    phase: str
    column: str
    values: tuple[int, ...]
    knee: Knee
    saturated: bool
    place: str  # the other parameters that differ between climbs, in words; else ""

    @property
    def sentence(self) -> str:
        """`Random read: 95 % of the peak at queue depth 16 to 32`"""
        found, values = self.knee, self.values
        label = ", ".join(filter(None, (titles.phase(self.phase), self.place)))
        if found.low is None or found.high is None:
            where, sure = str(values[found.step]), " (one repetition of each point: no interval)"
        else:
            low, high = values[found.low], values[found.high]
            where, sure = str(low) if low == high else f"{low} to {high}", ""
        option = parameters()[self.column]
        at = (
            f"{where} {option.singular if where == '1' else option.shown}"
            if option.singular
            else f"{option.shown} {where}"
        )
        open_ = "" if self.saturated else "; the axis ends before a plateau is certain, so the peak may be beyond it"
        return f"{label}: {100 * SHARE:g} % of the peak at {at}{sure}{open_}"


def of(results: Sequence[Result], sweeps: Iterable[SweepFacts]) -> list[Bend]:
    """The knees of all sweeps with a ramp, of their measured points."""
    columns = {option.name: column for column, option in parameters().items()}
    found: list[Bend] = []
    for sweep in sweeps:
        if sweep.ramp:
            members = set(sweep.points)
            own = [result for result in results if result.point in members and result.headline]
            found += _of_sweep(sweep.name, columns[sweep.ramp], own)
    return found


def _of_sweep(sweep: str, column: str, results: Sequence[Result]) -> Iterator[Bend]:
    groups: dict[tuple[object, ...], list[tuple[int, Result]]] = {}
    for result in results:
        others = tuple((name, value) for name, value in result.parameters.items() if name not in (column, "tasks"))
        groups.setdefault((result.phase, others), []).append((result.count(column) or 1, result))
    for (phase, _), members in groups.items():
        members.sort(key=lambda one: one[0])
        figures = [result.values(result.metric) for _, result in members]
        if bend := knee(figures):
            values, place = tuple(value for value, _ in members), _place(members[0][1], results, column)
            saturated = reached([{"": own} for own in figures]).top is not None
            yield Bend(sweep, str(phase), column, values, bend, saturated, place)


def _place(result: Result, results: Sequence[Result], column: str) -> str:
    alike = [other for other in results if other.phase == result.phase]
    vary = [name for name in parameters() if name != column and len({other.parameters[name] for other in alike}) > 1]
    return ", ".join(titles.named(name, result.parameters[name]) for name in vary)
