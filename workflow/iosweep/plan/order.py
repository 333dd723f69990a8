"""The order of a round: which points are measured one right after the other. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable

from iosweep.plan.model import Plan, Point


def draw_order(plan: Plan, points: Iterable[Point], session: int, number: int) -> list[str]:
    """The order in which a round measures its points: groups in a drawn order, members of a group in a drawn order.

    A group consists of the points that differ only in the axis that their sweep compares side by side: what disturbs
    one of them for a while disturbs the others too. Any other point is a group of its own. `session`, `number`: of the
    round. The order depends on them and the plan's seed alone.
    """
    axis_of: dict[str, str] = {}
    for sweep in plan.sweeps:
        if sweep.side_by_side:
            axis_of = dict.fromkeys(sweep.points, sweep.side_by_side) | axis_of  # the first sweep of a point decides
    groups: dict[object, list[str]] = {}
    for point in sorted(points, key=lambda point: point.id):
        axis = axis_of.get(point.id)
        groups.setdefault(_without(point, axis) if axis else point.id, []).append(point.id)
    drawn = random.Random(f"{plan.seed}:{session}:{number}")
    order = list(groups.values())
    drawn.shuffle(order)
    for members in order:
        drawn.shuffle(members)
    return [point for members in order for point in members]


def _without(point: Point, axis: str) -> tuple[object, ...]:
    """All that determines a point, except an axis."""
    values = {"nodes": point.nodes, **point.options}
    return axis, point.tool, point.phases, point.phase_time_s, *sorted((n, v) for n, v in values.items() if n != axis)
