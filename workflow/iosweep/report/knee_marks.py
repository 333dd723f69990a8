"""Knees in figures of rates: which marks of a line are its knee, and what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from iosweep.analysis import knees
from iosweep.analysis.aggregate import Result
from iosweep.analysis.knees import Bend
from iosweep.analysis.slices import Slice
from iosweep.results.knee import SHARE
from iosweep.tools import parameters

NOTE = (
    f"Ringed: the knee, the first value that reaches {100 * SHARE:g} % of the plateau, of ramps always, of other axes"
    " where one can be shown; the rule is that of the highest line."
)


class KneeMark(NamedTuple):
    """text: for the tooltip; label: at the rule of the highest line of a panel, else None."""

    text: str
    label: str | None


def of(cut: Slice, results: Sequence[Result], ramp: str | None) -> dict[tuple[str, str], KneeMark]:
    """(point, phase) -> its mark, of those that are a knee. ramp: the axis that the sweep climbs; its knees are always
    marked, those of other axes only where they can be shown."""
    option = parameters()[cut.x]
    if option.role != "x":
        return {}
    panels: dict[tuple[object, ...], list[tuple[Bend, list[Result]]]] = {}
    for line in _lines(cut, results).values():
        bend = knees.of_line(cut.sweep, cut.x, line, line)
        if bend and (bend.shown or option.name == ramp):
            place = (line[0].phase, cut.facet and line[0].parameters[cut.facet])
            panels.setdefault(place, []).append((bend, line))
    found = {}
    for bends in panels.values():
        highest = max(bends, key=lambda one: max(r.headline.mean for r in one[1] if r.headline))[0]
        for bend, line in bends:
            value = bend.values[bend.knee.step]
            at = next(result for result in line if result.headline and (result.count(cut.x) or 1) == value)
            label = f"{100 * SHARE:g} % at {bend.range}" if bend is highest else None
            found[at.point, at.phase] = KneeMark(f"knee: {bend.where}", label)
    return found


def _lines(cut: Slice, results: Sequence[Result]) -> Mapping[tuple[object, ...], list[Result]]:
    found: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        line = (result.phase, *(result.parameters[axis] for axis in (cut.color, cut.facet) if axis))
        found.setdefault(line, []).append(result)
    return found
