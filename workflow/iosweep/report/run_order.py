"""Each repetition's deviation from its point over the time of measurement, which shows a drift of the system. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import Result
from iosweep.analysis.data import Campaign, Row
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.results.precision import COUNTED
from iosweep.text import percent_change

#: A strip in pixels of its SVG. Deviations beyond `MOST` lie on its edge.
WIDTH, HEIGHT = 1000, 110
_LEAST, MOST = 0.05, 1.0
#: Most dots of a strip: of more, evenly chosen ones are drawn.
_DOTS = 2000


@dataclass(frozen=True)
class Dot:
    """A phase of a repetition, in pixels from the upper left."""

    x: float
    y: float
    session: bool  # whether it is of every other session
    text: str


@dataclass(frozen=True)
class Strip:
    """A sweep. ends: the deviation at the lower and the upper edge, in words."""

    sweep: str
    when: str
    ends: tuple[str, str]
    dots: tuple[Dot, ...]


def strips(campaign: Campaign, results: Sequence[Result], most: int = _DOTS) -> list[Strip]:
    """A strip for each sweep that has repeated points. most: dots of all of them."""
    dots = max(1, min(_DOTS, most // max(1, len(campaign.about.sweeps))))
    found = (_strip(sweep, results, dots) for sweep in campaign.about.sweeps)
    return [strip for strip in found if strip]


def _strip(sweep: SweepFacts, results: Sequence[Result], most: int) -> Strip | None:
    points = set(sweep.points)
    runs: list[tuple[Row, float, float]] = []  # row, when (s since 1970), log of its ratio to the median
    for result in results:
        middle = result.headline
        if result.point in points and middle and middle.n > 1 and middle.median > 0:
            for row in result.rows:
                value = row.figures.get(result.metric, 0.0)
                if row.verdict in COUNTED and row.started and value > 0:
                    runs.append((row, row.started.timestamp(), math.log(value / middle.median)))
    if not runs:
        return None
    times = [when for _, when, _ in runs]
    first, length = min(times), max(times) - min(times)
    edge = max(_LEAST, min(MOST, max(abs(by) for *_, by in runs)))
    sessions = list(dict.fromkeys(row.session for row, *_ in sorted(runs, key=lambda run: run[1])))
    dots = [
        Dot(
            round(WIDTH * (0.01 + 0.98 * (when - first) / length if length else 0.5), 1),
            round(HEIGHT * (0.5 - 0.46 * max(-1.0, min(1.0, by / edge))), 1),
            sessions.index(row.session) % 2 == 1,
            f"{titles.phase(row.phase)}, {row.point}, repetition {row.repetition}: {_percent(by)}",
        )
        for row, when, by in sorted(runs, key=lambda run: run[1])[:: math.ceil(len(runs) / most)]
    ]
    return Strip(
        sweep.name, formats.span(row.started for row, *_ in runs if row.started), (_percent(-edge), _percent(edge)),
        tuple(dots),
    )  # fmt: skip


def _percent(by: float) -> str:
    """A logarithm of a ratio in words: `+2.1 %`."""
    return f"{percent_change(math.expm1(by))} %"
