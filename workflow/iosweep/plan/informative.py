"""Which points tell most, where time is not enough for all of them. Pure.

Of each axis of numbers the ends come first, then the middle, then what halves the gaps: the first few points show the
whole range, and each later one how the figure gets from one to the next. A point is as late as its values together:
first the corners of a sweep, then what differs from them by one value, and so on. Choices and switches have no order:
each of their values is as early as any. A point of several sweeps is as early as in the one that needs it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iosweep.plan.model import Point
from iosweep.tools.axes import NODES


def lateness(points: Sequence[Point]) -> dict[str, int]:
    """Point -> 0 for those that are measured first, and more the later."""
    found: dict[str, int] = {}
    for sweep in dict.fromkeys(name for point in points for name in point.sweeps):
        own = [point for point in points if sweep in point.sweeps]
        axes = [levels(values) for values in zip(*map(_numbers, own), strict=True)]
        for point in own:
            late = sum(level.get(value, 0) for level, value in zip(axes, _numbers(point), strict=True))
            found[point.id] = min(late, found.get(point.id, late))
    return found


def _numbers(point: Point) -> list[int]:
    """Its values of axes of numbers; 0 for what is a choice or a switch, or has no effect."""
    own = ((name, value) for name, value in sorted(point.options.items()) if name != NODES.name)
    return [point.nodes, *(value if type(value) is int else 0 for _, value in own)]


def levels(values: Iterable[int]) -> dict[int, int]:
    """Value of an axis -> 0 at the ends, 1 in the middle, 2 in the middles of the halves, and so on."""
    distinct = sorted(set(values))
    found = {distinct[0]: 0, distinct[-1]: 0}
    gaps, level = [(0, len(distinct) - 1)], 1
    while gaps := [(a, b) for a, b in gaps if b - a > 1]:
        halves = []
        for a, b in gaps:
            middle = (a + b) // 2
            found[distinct[middle]] = level
            halves += [(a, middle), (middle, b)]
        gaps, level = halves, level + 1
    return found
