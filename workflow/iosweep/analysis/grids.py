"""Results of a sweep as grids of two of its axes: of a phase for heat maps, of its points for what they cover. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from iosweep.analysis import caveats, slices, titles
from iosweep.analysis.aggregate import Result, distinct, of_points, phase_order
from iosweep.analysis.data import Campaign, Value
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.tools import parameters

#: Values that both axes of a heat map have at least: two lines of a figure say as much as a grid with two rows.
LEAST = 3
#: Outcomes of a point, those that need attention last.
_OUTCOMES = ("valid", "unneeded", "left", "missing", "suspect", "invalid")
#: A combination of the axes that `exclude` or `when` leaves out.
NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Grid:
    """Results by the values of two axes (columns). `fixed`: the other axes that vary, in words, else "".

    rows: for each value of `y` a result, or None, for each value of `x`. A sweep with one axis has a single row, and
    `y` is None.
    """

    phase: str
    fixed: str
    x: str
    y: str | None
    x_values: tuple[Value, ...]
    y_values: tuple[Value | None, ...]
    rows: tuple[tuple[Result | None, ...], ...]


@dataclass(frozen=True)
class Place:
    """A point of a sweep. `why`: its outcome with the reasons, phase by phase where these differ."""

    outcome: str  # of _OUTCOMES, or NOT_ASKED
    point: str
    what: str
    why: str


@dataclass(frozen=True)
class Cover:
    """What of a sweep's axes is measured. `grids`: each with a place for each of its rows and columns.

    `reasons`: outcome -> (number of points, why), for those that are not valid.
    """

    sweep: str
    counts: Mapping[str, int]
    reasons: Mapping[str, tuple[int, str]]
    grids: tuple[tuple[Grid, tuple[tuple[Place, ...], ...]], ...]


def heat(sweep: SweepFacts, results: Sequence[Result]) -> list[Grid]:
    """A grid for each phase of a sweep, and each combination of further axes, of the two axes with LEAST values that
    come first; none where fewer have as many. `results`: those of the campaign."""
    own = _own(sweep, results)
    wide = [axis for axis in _varying(sweep, own) if len(distinct(own, axis)) >= LEAST and _is_number(axis)]
    if len(wide) < 2:
        return []
    y, x = wide[:2]
    found = []
    for phase in sorted({result.phase for result in own}, key=phase_order):
        of_phase = [result for result in own if result.phase == phase]
        found += [grid for grid in _grids(of_phase, x, y, _varying(sweep, own)) if _is_wide(grid)]
    return found


def cover(campaign: Campaign, results: Sequence[Result]) -> list[Cover]:
    """Which points of each sweep are measured, and why the others are not."""
    return [_cover(sweep, results) for sweep in campaign.about.sweeps]


def _cover(sweep: SweepFacts, results: Sequence[Result]) -> Cover:
    own = _own(sweep, results)
    by_point: dict[str, list[Result]] = {}
    for result in own:
        by_point.setdefault(result.point, []).append(result)
    states = {point: _outcome(phases) for point, phases in by_point.items()}
    counts = {one: list(states.values()).count(one) for one in _OUTCOMES}
    reasons = {}
    for one in _OUTCOMES[:0:-1]:
        bad = [_reasons(by_point[point], one) for point, state in states.items() if state == one]
        if bad:
            reasons[one] = (len(bad), caveats.summed(bad, most=8))
    varying = _varying(sweep, own)
    first = [phases[0] for phases in by_point.values()]
    ordered = sorted(varying, key=lambda axis: -len(distinct(own, axis)))[:2]
    axes = [axis for axis in varying if axis in ordered]
    found = _grids(first, axes[-1], axes[0] if len(axes) > 1 else None, varying) if axes else []
    grids = tuple((grid, _places(grid, by_point, states)) for grid in found)
    counts[NOT_ASKED] = sum(place.outcome == NOT_ASKED for _, rows in grids for row in rows for place in row)
    return Cover(sweep.name, counts, reasons, grids)


def _places(
    grid: Grid, by_point: Mapping[str, list[Result]], states: Mapping[str, str]
) -> tuple[tuple[Place, ...], ...]:
    found = []
    for y, row in zip(grid.y_values, grid.rows, strict=True):
        places = []
        for x, result in zip(grid.x_values, row, strict=True):
            what = ", ".join(titles.named(axis, value) for axis, value in ((grid.y, y), (grid.x, x)) if axis)
            if result is None:
                places.append(Place(NOT_ASKED, "", what, "left out by exclude or when"))
            else:
                state = states[result.point]
                why = "" if state == "valid" else _told(by_point[result.point], state)
                places.append(Place(state, result.point, what, why))
        found.append(tuple(places))
    return tuple(found)


def _told(phases: Sequence[Result], state: str) -> str:
    """`seq_read: too short`, or the reasons alone where all phases have them."""
    bad = [result for result in phases if result.state == state]
    reasons = dict.fromkeys("; ".join(result.reasons) for result in bad)
    if len(bad) == len(phases) and len(reasons) == 1:
        return next(iter(reasons)) or "no reason given"
    return "; ".join(
        f"{titles.phase(result.phase)}: {', '.join(result.reasons) or 'no reason given'}" for result in bad
    )


def _reasons(phases: Sequence[Result], state: str) -> list[str]:
    found = dict.fromkeys(reason for result in phases if result.state == state for reason in result.reasons)
    return list(found) or ["no reason given"]


def _outcome(phases: Sequence[Result]) -> str:
    return max((result.state for result in phases), key=_OUTCOMES.index)


def _own(sweep: SweepFacts, results: Sequence[Result]) -> list[Result]:
    """The sweep's results, with the parameters that other phases of their point have."""
    members = set(sweep.points)
    own = [result for result in results if result.point in members]
    return [replace(result, parameters=filled.parameters) for result, filled in zip(own, of_points(own), strict=True)]


def _varying(sweep: SweepFacts, results: Sequence[Result]) -> list[str]:
    axes = slices.axes_of(sweep)
    return [axis for axis in parameters() if axis in axes and len(distinct(results, axis)) > 1]


def _is_number(axis: str) -> bool:
    return parameters()[axis].kind not in ("flag", "choice")


def _grids(results: Sequence[Result], x: str, y: str | None, varying: Sequence[str]) -> Iterator[Grid]:
    rest = [axis for axis in varying if axis not in (x, y)]
    x_values = tuple(distinct(results, x))
    y_values: tuple[Value | None, ...] = tuple(distinct(results, y)) if y else (None,)
    for fixed, own in slices.split(results, rest):
        at = {(r.parameters[y] if y else None, r.parameters[x]): r for r in own}
        rows = tuple(tuple(at.get((row, column)) for column in x_values) for row in y_values)
        words = ", ".join(titles.named(axis, value) for axis, value in fixed.items())
        yield Grid(results[0].phase, words, x, y, x_values, y_values, rows)


def _is_wide(grid: Grid) -> bool:
    known = [(i, j) for (i, row), j in product(enumerate(grid.rows), range(len(grid.x_values))) if row[j]]
    return all(len({place[k] for place in known}) >= LEAST for k in (0, 1))
