"""How often `iosweep compare` is wrong, and which losses it finds: simulated campaigns, compared by its own code.

A row is a kind of noise, its standard deviation and a number of repetitions. Both campaigns have the same points.
Shown are the share of comparisons of equal campaigns that report any change at all (a false alarm), and how often
losses of 3, 5 and 10 % are found: of one point, and of all points of the campaign. Promised is that at most 5 % of the
comparisons of equal campaigns raise an alarm; with 2,000 of them, up to 6 % are within chance.

    python benchmarks/comparing.py [--campaigns 2000] [--at-least 3%] [--only drift]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec

from iosweep.analysis.comparison import ALPHA, AT_LEAST, Comparison, compare, match
from iosweep.analysis.summary import Metric, PointSummary
from iosweep.judge import agreement
from iosweep.judge.agreement import RepeatedFigure
from iosweep.tables.reader import ResultRow
from iosweep.tools import parameters
from iosweep.units import parse_share
from measure import Row, Size

#: Losses that are looked for, and which points have them where one does.
LOSSES = {0.03: 0, 0.05: 1, 0.10: 2}
#: Campaigns with losses, per campaign without.
_WITH_LOSSES = 0.1
#: Repetitions of a point as campaigns have them by default: until the interval is narrow.
LEAST, MOST, UNTIL = 5, 10, 0.05
POINTS = 24

#: Random numbers, standard deviation, points, repetitions -> logarithms of each point's repetitions.
Noise = Callable[[Random, float, int, int], list[list[float]]]


def lognormal(draw: Random, sd: float, points: int, n: int) -> list[list[float]]:
    return [[draw.gauss(0, sd) for _ in range(n)] for _ in range(points)]


def unlike(draw: Random, sd: float, points: int, n: int) -> list[list[float]]:
    """Every other point scatters a fifth as much."""
    return [[draw.gauss(0, sd if i % 2 else sd / 5) for _ in range(n)] for i in range(points)]


def two_modes(draw: Random, sd: float, points: int, n: int) -> list[list[float]]:
    """A repetition is fast or slow, each half of the time; between them are two standard deviations."""
    return [[draw.choice((sd, -sd)) + draw.gauss(0, sd / 4) for _ in range(n)] for _ in range(points)]


def drift(draw: Random, sd: float, points: int, n: int) -> list[list[float]]:
    """From the first repetition to the last all points get faster or slower by two standard deviations."""
    up = draw.choice((sd, -sd))
    way = [up * (2 * number / (n - 1) - 1) for number in range(n)]
    return [[draw.gauss(by, sd) for by in way] for _ in range(points)]


def rounds(draw: Random, sd: float, points: int, n: int) -> list[list[float]]:
    """What disturbs a repetition disturbs all points alike; they scatter half as much beside that."""
    way = [draw.gauss(0, sd) for _ in range(n)]
    return [[draw.gauss(by, sd / 2) for by in way] for _ in range(points)]


def session(draw: Random, sd: float, points: int, n: int) -> list[list[float]]:
    """Campaigns differ by a fifth of what repetitions do, all points alike."""
    own = draw.gauss(0, sd / 5)
    return [[draw.gauss(own, sd) for _ in range(n)] for _ in range(points)]


@dataclass(frozen=True)
class Cell:
    """A row of the table. n: repetitions; None: 5 to 10, until the intervals are narrow."""

    noise: Noise
    sd: float
    n: int | None
    points: int = POINTS

    @property
    def promised(self) -> bool:
        """Whether the error level holds: not for sessions that differ, nor for campaigns that stop while the system
        still drifts another way."""
        return self.noise is not session and not (self.noise is drift and self.n is None)

    @property
    def size(self) -> str:
        points = "1 point" if self.points == 1 else f"{self.points} points"
        return f"{points}, n = {self.n or f'{LEAST} to {MOST}'}"


@dataclass
class Found:
    """Shares of comparisons: with a false alarm; that found a loss of one point, of all points."""

    alarms: float
    one: dict[float, float]
    all: dict[float, float]


def cells() -> Iterator[Cell]:
    """All rows."""
    for noise in (lognormal, two_modes, drift, unlike, rounds, session):
        for sd in (0.02, 0.05, 0.10) if noise in (lognormal, two_modes, drift) else (0.05,):
            yield from (Cell(noise, sd, n) for n in (3, 5, 10, None))
    for points in (1, 4):
        yield from (Cell(lognormal, 0.05, n, points) for n in (3, 5, 10))


def simulate(cell: Cell, campaigns: int, at_least: float = AT_LEAST) -> Found:
    """Compare so many pairs of campaigns. Seeded."""
    draw = Random(f"{cell.noise.__name__} {cell.sd} {cell.n} {cell.points}")
    alarms = sum(_changed(_compared(draw, cell, {}, at_least)) > 0 for _ in range(campaigns)) / campaigns
    fewer = max(1, round(_WITH_LOSSES * campaigns))
    one, every = dict.fromkeys(LOSSES, 0.0), dict.fromkeys(LOSSES, 0.0)
    places = {place % cell.points: loss for loss, place in LOSSES.items()}
    for _ in range(fewer):
        found = _compared(draw, cell, places, at_least)
        single = {one.pairs[0].a.point for one in found.singles if one.changed}
        for place, loss in places.items():
            one[loss] += (str(place) in single) / fewer
        for loss in LOSSES:
            shifted = dict.fromkeys(range(cell.points), loss)
            every[loss] += bool(_compared(draw, cell, shifted, at_least).explained) / fewer
    return Found(alarms, {loss: one[loss] for loss in places.values()}, every)


def _changed(found: Comparison) -> int:
    return len(found.explained)


def _compared(draw: Random, cell: Cell, losses: dict[int, float], at_least: float) -> Comparison:
    """A comparison of two campaigns. losses: point -> share that the second one lost."""
    return compare(match(_campaign(draw, cell, {}), _campaign(draw, cell, losses)), at_least=at_least)


def _campaign(draw: Random, cell: Cell, losses: dict[int, float]) -> list[PointSummary]:
    logs = cell.noise(draw, cell.sd, cell.points, cell.n or MOST)
    figures = [[math.exp(log) * (1 - losses.get(i, 0)) for log in own] for i, own in enumerate(logs)]
    if cell.n is None:
        figures = _until_narrow(figures)
    return [_result(str(i), own) for i, own in enumerate(figures)]


def _until_narrow(figures: Sequence[Sequence[float]]) -> list[list[float]]:
    """The repetitions that iosweep makes of these: in rounds, of the points whose interval is still wide."""
    numbers = [LEAST] * len(figures)
    while True:
        own = [list(values[:n]) for values, n in zip(figures, numbers, strict=True)]
        found = agreement.intervals([RepeatedFigure(("fio", 1), "rand_read", values) for values in own])
        wide = [i for i, one in enumerate(found) if one and one.half_width_share > UNTIL and numbers[i] < MOST]
        if not wide:
            return own
        for i in wide:
            numbers[i] += 1


def _result(point: str, values: Sequence[float]) -> PointSummary:
    rows = tuple(
        msgspec.structs.replace(_ROW, repetition=i, figures={"ops_per_s": own}) for i, own in enumerate(values)
    )
    mean = fmean(values)
    figures = {"ops_per_s": Metric(len(values), mean, mean, min(values), max(values), None, tuple(values))}
    return PointSummary(point, "rand_read", "data", "fio", "ops_per_s", _ROW.parameters, "valid", (), figures, rows)


_ROW = ResultRow(
    point="p", phase="rand_read", verdict="valid", kind="data", tool="fio", metric="ops_per_s", figures={},
    parameters={**dict.fromkeys(parameters()), "nodes": 1}, host="n1", hosts="n1", session="1",
)  # fmt: skip


def run(size: Size, work: Path) -> Iterator[Row]:
    yield from rows(size.compared_campaigns, AT_LEAST, size.judged)


def rows(campaigns: int, at_least: float, judged: bool = True, only: str = "") -> Iterator[Row]:
    """The table, with this number of comparisons behind each row. only: kinds of noise with this in their names."""
    luck = 2 * math.sqrt(ALPHA * (1 - ALPHA) / campaigns)
    wanted = [cell for cell in cells() if only in cell.noise.__name__]
    for cell in wanted if judged else [wanted[0], wanted[-1]]:
        found = simulate(cell, campaigns, at_least)
        yield Row(
            "comparing",
            f"{_NAMES.get(cell.noise, cell.noise.__name__.replace('_', ' '))}, {100 * cell.sd:g} %",
            cell.size,
            f"{found.alarms:.1%}",
            _losses(found.one),
            _losses(found.all),
            f"≤ {ALPHA:.0%}" if cell.promised else "",
            found.alarms <= ALPHA + luck if cell.promised else None,
        )


_NAMES: dict[Noise, str] = {
    lognormal: "log-normal",
    unlike: "log-normal, every other point a fifth",
    rounds: "whole rounds",
}


def _losses(found: dict[float, float]) -> str:
    return ", ".join(f"{loss:.0%}: {share:.0%}" for loss, share in sorted(found.items()))


def main() -> int:
    """Print the table as Markdown. Exit code 1 where a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=2000, help="comparisons of equal campaigns behind each row")
    parser.add_argument("--at-least", type=parse_share, default=AT_LEAST, help="smallest change that matters")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose kind of noise has this in its name")
    arguments = parser.parse_args()
    print("| noise | campaign | false alarms | loss of one point found | loss of all points found | promised | holds |")
    print("|---|---|---|---|---|---|---|")
    broken = False
    for row in rows(arguments.campaigns, arguments.at_least, only=arguments.only):
        holds = "" if row.met is None else "yes" if row.met else "NO"
        told = (row.what, row.size, row.measured, row.beside, row.ratio, row.budget, holds)
        print(f"| {' | '.join(told)} |", flush=True)
        broken |= row.met is False
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
