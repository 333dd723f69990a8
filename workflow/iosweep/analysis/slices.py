"""Which results belong in one figure, and which axis plays which role in it. Pure.

A slice is one sweep under one set of conditions (tool, write mode, data, O_DIRECT): nothing that does not compare is
drawn side by side. Its horizontal axis is an axis of the sweep that varies. A second axis becomes the color of the
lines, a third one makes panels, and each combination of further ones is a slice of its own.

Axes belong to the point: a phase without a use for one (a read phase for fsync) is drawn where its point is, or two
points would share a place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from zlib import crc32

from iosweep.analysis import titles
from iosweep.analysis.aggregate import Result, distinct, known_or_not, of_points
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.titles import Conditions
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.tools import parameters


@dataclass(frozen=True)
class Slice:
    """Results that can share a figure, and the roles of the axes (columns) that vary among them."""

    sweep: str
    kind: str  # data or metadata
    condition: Conditions
    suffix: str  # what tells it from the sweep's other slices, for a name; "" if there are none
    results: tuple[Result, ...]
    x: str
    color: str | None
    facet: str | None
    without: tuple[Result, ...] = ()  # the others of it, with a figure, whose place on the horizontal axis is not known


def slices(campaign: Campaign, results: Sequence[Result]) -> Iterator[Slice]:
    """All slices of a campaign, sweep by sweep."""
    conditions = titles.conditions(results)
    points: dict[str, list[Result]] = {}
    for result in of_points(results):
        points.setdefault(result.point, []).append(result)
    for sweep in campaign.about.sweeps:
        axes = axes_of(sweep)
        mine = [result for point in sweep.points for result in points.get(point, [])]
        for kind in ("data", "metadata"):
            of_kind = [result for result in mine if result.kind == kind]
            known = dict.fromkeys(conditions[result.point] for result in of_kind)
            homes = {one: titles.home(one, known) for one in known}
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


def _roles(results: Sequence[Result], axes: set[str]) -> Iterator[tuple[str, str | None, str | None, list[str]]]:
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
    results: Sequence[Result], axes: Sequence[str]
) -> Iterator[tuple[dict[str, Value | None], tuple[Result, ...]]]:
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
