"""Which of several nodes that measured the same thing alone stands out. Pure.

Each node counts once, with the median of its values. The nodes' median is what they are compared with, and how much
they differ is their median absolute deviation (MAD), which a few odd nodes cannot move. A node stands out when it is
further off than 10 % and than three robust standard deviations.

What the rule cannot do: with few nodes that scatter much it misses slow ones and names good ones (docs/suites.md says
how often). Where half of them are slow it names none, and where most are, the good ones. Nodes that were measured at
different times differ by the load of the target, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

#: A node within this share of the median never stands out.
LEAST = 0.10
#: Robust standard deviations that are allowed, and what makes one of a MAD where values are normally distributed.
DEVIATIONS, OF_MAD = 3.0, 1.4826
#: Fewer nodes than these do not tell which one is odd.
ENOUGH = 3

#: point, phase, host, value
Measured = tuple[str, str, str, float]


@dataclass(frozen=True)
class Standing:
    """A node among the others."""

    host: str
    value: float  # median of its own
    ratio: float  # to the median of the nodes
    outlier: bool


@dataclass(frozen=True)
class Comparison:
    """One phase of a point on all nodes that measured it."""

    point: str
    phase: str
    median: float  # of the nodes' medians
    allowed: float | None  # how far a ratio may be from 1; None with fewer nodes than ENOUGH
    standings: tuple[Standing, ...]  # the lowest first


def compare(rows: Iterable[Measured]) -> list[Comparison]:
    """One comparison per point and phase, in order of appearance. Values are above zero."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for point, phase, host, value in rows:
        found.setdefault((point, phase), {}).setdefault(host, []).append(value)
    return [
        _comparison(point, phase, {host: median(values) for host, values in hosts.items()})
        for (point, phase), hosts in found.items()
    ]


def _comparison(point: str, phase: str, values: dict[str, float]) -> Comparison:
    middle = median(values.values())
    ratios = {host: value / middle for host, value in values.items()}
    allowed = _allowed(list(ratios.values()))
    standings = [
        Standing(host, values[host], ratio, allowed is not None and abs(ratio - 1) > allowed)
        for host, ratio in sorted(ratios.items(), key=lambda pair: (pair[1], pair[0]))
    ]
    return Comparison(point, phase, middle, allowed, tuple(standings))


def _allowed(ratios: Sequence[float]) -> float | None:
    if len(ratios) < ENOUGH:
        return None
    return max(LEAST, DEVIATIONS * OF_MAD * median(abs(ratio - 1) for ratio in ratios))
