"""How latencies are distributed: a figure of the headline's points, and what the small figure behind a row is made of.

All repetitions that count are one distribution. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import Result
from iosweep.histogram import Histogram
from iosweep.report.headline import Group
from iosweep.results.precision import COUNTED

#: Percents whose latencies are drawn.
PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999)
#: Of these, the ticks.
_TICKS = (50, 90, 99, 99.9, 99.99, 99.999)
#: I/Os that must be slower than a percentile, as in the columns of percentiles.
_BEYOND = 10
_LINES = 8
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720.0, 260.0, 64.0, 30.0


@dataclass(frozen=True)
class Line:
    """path: of its SVG element; ends: percentiles in words, for its tooltip."""

    name: str
    path: str
    told: str


@dataclass(frozen=True)
class Picture:
    """A figure of several distributions. Ticks: (place, text)."""

    title: str
    lines: tuple[Line, ...]
    left: int
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    width: float = _WIDTH
    height: float = _HEIGHT


def counted(results: Sequence[Result]) -> set[tuple[str, str, int]]:
    """(point, phase, repetition) of the repetitions whose latencies are in the report."""
    rows = (row for result in results for row in result.rows if "latency_mean_s" in row.figures)
    return {(r.point, r.phase, r.repetition) for r in rows if r.verdict in COUNTED and r.repetition and not r.confirms}


def payload(results: Sequence[Result], known: Mapping[tuple[str, str], Histogram]) -> dict[str, object]:
    """For the page's script: the percents, and for each result its latencies in seconds there (none: an empty list)."""
    found = [known.get((result.point, result.phase)) for result in results]
    return {
        "percents": PERCENTS,
        "of": [[float(f"{own:.3g}") for own in one.percentiles(PERCENTS, _BEYOND)] if one else [] for one in found],
    }


def pictures(groups: Sequence[Group], known: Mapping[tuple[str, str], Histogram]) -> list[Picture]:
    """A figure for each group of the headline: the points of its cards."""
    found = []
    for group in groups:
        chosen: dict[tuple[str, str], tuple[str, list[float]]] = {}
        for entry in group.entries:
            result = entry.choice.result if entry.choice else None
            own = known.get((result.point, result.phase)) if result else None
            if result and own and len(curve := own.percentiles(PERCENTS, _BEYOND)) > 1:
                name = f"{titles.phase(result.phase)}: {entry.place}"
                chosen.setdefault((result.point, result.phase), (name, curve))
        if chosen:
            found.append(_picture(group.title, [*chosen.values()]))
    return found


def _picture(title: str, curves: Sequence[tuple[str, list[float]]]) -> Picture:
    shown = curves[:_LINES]
    longest = PERCENTS[max(len(curve) for _, curve in shown) - 1]
    low = math.floor(math.log10(min(curve[0] for _, curve in shown)))
    high = math.ceil(math.log10(max(curve[-1] for _, curve in shown)))

    def x(percent: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 20) * _nines(percent) / _nines(longest), 1)

    def y(latency_s: float) -> float:
        share = (math.log10(latency_s) - low) / max(high - low, 1)
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - 10) * share, 1)

    lines = [
        Line(
            name,
            "M" + "L".join(f"{x(percent)} {y(own)}" for percent, own in zip(PERCENTS, curve, strict=False)),
            ", ".join(_told(curve)),
        )
        for name, curve in shown
    ]
    return Picture(
        title,
        tuple(lines),
        len(curves) - len(shown),
        tuple((x(percent), f"{percent:g} %") for percent in _TICKS if percent <= longest),
        tuple((y(10.0**power), _tick(10.0**power)) for power in range(low, high + 1)),
    )


def _tick(latency_s: float) -> str:
    """`100 µs`"""
    unit = formats.pick(formats.LATENCY, latency_s * 1.0001)
    return f"{latency_s / unit.size:.0f} {unit.name}"


def _nines(percent: float) -> float:
    """Place of a percent: each nine more is as far as the one before."""
    return -math.log10(1 - percent / 100)


def _told(curve: Sequence[float]) -> Iterator[str]:
    for percent, own in zip(PERCENTS, curve, strict=False):
        if percent in _TICKS:
            yield f"p{percent:g} {formats.quantity(own, formats.LATENCY)}"
