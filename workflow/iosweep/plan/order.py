"""The order of a round: which points are measured one right after the other. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable

from iosweep.plan.model import Plan, Point


def draw_order(plan: Plan, points: Iterable[Point], session: int, number: int) -> list[list[str]]:
    """The order in which a round measures its points: groups in a drawn order, members of a group in a drawn order.

    A group consists of the points that are measured side by side: what disturbs one of them for a while disturbs the
    others too. Any other point is a group of its own. `session`, `number`: of the round. The order depends on them and
    the plan's seed alone.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for id in sorted(point.id for point in points):
        groups.setdefault(plan.side_by_side.get(id, (id,)), []).append(id)
    drawn = random.Random(f"{plan.seed}:{session}:{number}")
    order = list(groups.values())
    drawn.shuffle(order)
    for members in order:
        drawn.shuffle(members)
    return order
