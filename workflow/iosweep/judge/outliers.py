"""Finds outliers among nodes that measured the same thing alone. Pure.

Each node counts once, with the median of its values, compared with the median of all nodes. The scale is the median
absolute deviation (MAD), which a few outliers cannot change. An outlier differs from the median by more than 10 % and
by more than three robust standard deviations.

Limits: with few, scattered nodes the rule misses slow ones and names good ones (docs/suites.md says how often). If half
of the nodes are slow it names none; if most are, it names the good ones. Nodes measured at different times also differ
by the load of the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

#: A node within this share of the median is never an outlier.
LEAST = 0.10
#: Robust standard deviations that are allowed; factor from a MAD to one, for normally distributed values.
DEVIATIONS, OF_MAD = 3.0, 1.4826
#: Minimum number of nodes for an outlier.
ENOUGH = 3

#: point, phase, host, value
Measured = tuple[str, str, str, float]


@dataclass(frozen=True)
class Standing:
    """A node compared with the others."""

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
