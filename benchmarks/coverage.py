"""How often intervals hold: simulated campaigns, measured by the code that decides how often a point is repeated.

A row is a kind of noise, with its standard deviation. Its points are repeated 5 to 10 times, until their interval is
within 5 %, or a fixed number of times. Shown are the repetitions per point, the share of intervals that hold the true
figure, and of each grade how many points have it and how many of their intervals hold. Beside it the same with
Student's t alone, repeated 3 to 10 times. Promised is that 94 % of all intervals of points among others hold.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from iosweep.judge import agreement, statistics
from iosweep.judge.agreement import RepeatedFigure
from iosweep.judge.statistics import GRADES
from measure import Row, Size

LEAST, MOST, UNTIL = 5, 10, 0.05
#: Share of holding intervals that is promised, and share of the points under which a grade is not counted.
PROMISED, SELDOM = 0.94, 0.01

#: Random numbers, standard deviation, points -> figures of each point's repetitions, and what is true of each point.
Noise = Callable[[Random, float, int], tuple[list[list[float]], list[float]]]


def normal(draw: Random, sd: float, points: int) -> tuple[list[list[float]], list[float]]:
    return [[max(1e-3, draw.gauss(1, sd)) for _ in range(MOST)] for _ in range(points)], [1.0] * points


def lognormal(draw: Random, sd: float, points: int) -> tuple[list[list[float]], list[float]]:
    return [[draw.lognormvariate(0, sd) for _ in range(MOST)] for _ in range(points)], [1.0] * points


def unlike(draw: Random, sd: float, points: int) -> tuple[list[list[float]], list[float]]:
    """Every other point scatters a fifth as much."""
    found = [[draw.lognormvariate(0, sd if i % 2 else sd / 5) for _ in range(MOST)] for i in range(points)]
    return found, [1.0] * points


def two_modes(draw: Random, sd: float, points: int) -> tuple[list[list[float]], list[float]]:
    """A repetition is fast or slow, each half of the time; between them are two standard deviations."""
    modes = [[sd if draw.random() < 0.5 else -sd for _ in range(MOST)] for _ in range(points)]
    return [[math.exp(draw.gauss(mode, sd / 4)) for mode in own] for own in modes], [1.0] * points


def outliers(draw: Random, sd: float, points: int) -> tuple[list[list[float]], list[float]]:
    """One repetition of ten is slow, by three standard deviations more."""
    slow = [[-3 * sd if draw.random() < 0.1 else 0.0 for _ in range(MOST)] for _ in range(points)]
    return [[math.exp(draw.gauss(by, sd)) for by in own] for own in slow], [math.exp(-0.3 * sd)] * points


def drift(draw: Random, sd: float, points: int) -> tuple[list[list[float]], list[float]]:
    """From the first to the tenth repetition all points get slower by two standard deviations. True is the middle."""
    way = [sd * (1 - 2 * number / (MOST - 1)) for number in range(MOST)]
    return [[math.exp(draw.gauss(by, sd)) for by in way] for _ in range(points)], [1.0] * points


def session(draw: Random, sd: float, points: int) -> tuple[list[list[float]], list[float]]:
    """A campaign is of one session, and sessions differ as much as repetitions do. True is the mean of all sessions."""
    own = draw.gauss(0, sd)
    return [[draw.lognormvariate(own, sd) for _ in range(MOST)] for _ in range(points)], [1.0] * points


@dataclass(frozen=True)
class Cell:
    """A row of the table. fixed: number of repetitions; None: until they are narrow. promised: by the documentation."""

    what: str
    noise: Noise
    sd: float
    points: int = 24
    fixed: int | None = None
    promised: bool = True


def cells(fixed: Sequence[int] = range(3, MOST + 1)) -> Iterator[Cell]:
    """All rows."""
    sizes = (0.02, 0.05, 0.10, 0.20)
    for noise, points in ((normal, 24), (lognormal, 24), (lognormal, 4), (lognormal, 1), (unlike, 24)):
        yield from (Cell(_named(noise), noise, sd, points) for sd in sizes)
    for noise in (two_modes, outliers, drift, session):
        yield from (Cell(_named(noise), noise, sd, promised=noise in (two_modes, outliers)) for sd in sizes)
    for points in (24, 1):
        yield from (Cell("log-normal", lognormal, 0.10, points, number) for number in fixed)


def _named(noise: Noise) -> str:
    return {"lognormal": "log-normal", "unlike": "log-normal, every other point a fifth"}.get(
        noise.__name__, noise.__name__.replace("_", " ")
    )


@dataclass
class Count:
    """Points with their intervals."""

    points: int = 0
    repetitions: int = 0
    held: int = 0

    @property
    def share(self) -> float:
        return self.held / self.points if self.points else math.nan


#: What an interval is judged by: its half width, as a share, and whether a value is inside.
Found = tuple[float, Callable[[float], bool]]


def ours(samples: Sequence[Sequence[float]]) -> list[Found]:
    found = agreement.intervals([RepeatedFigure(("fio", 1), "rand_read", values) for values in samples])
    return [(one.half_width_share, lambda value, one=one: not one.excludes(value)) for one in found if one]


def students(samples: Sequence[Sequence[float]]) -> list[Found]:
    found = [statistics.interval(values) for values in samples]
    return [(one.half_width_share, lambda value, one=one: not one.excludes(value)) for one in found if one]


def simulate(
    cell: Cell, number: int, intervals: Callable[[Sequence[Sequence[float]]], list[Found]], least: int
) -> dict[str, Count]:
    """Grade (`all`: whatever it is, `-`: none) -> its points, of at least this number in all. Seeded."""
    draw = Random(f"{cell.what} {cell.sd} {cell.points} {cell.fixed}")
    counts = {name: Count() for name in ("all", *(name for name, _ in GRADES), "-")}
    while counts["all"].points < number:
        figures, truth = cell.noise(draw, cell.sd, cell.points)
        numbers = [cell.fixed or least] * cell.points
        while True:
            found = intervals([own[:n] for own, n in zip(figures, numbers, strict=True)])
            wide = [i for i, (width, _) in enumerate(found) if width > UNTIL and numbers[i] < MOST]
            if cell.fixed or not wide:
                break
            for i in wide:
                numbers[i] += 1
        for (width, holds), n, value in zip(found, numbers, truth, strict=True):
            grade = next((name for name, share in GRADES if width <= share), "-")
            for count in (counts["all"], counts[grade]):
                count.points += 1
                count.repetitions += n
                count.held += holds(value)
    return counts


def run(size: Size, work: Path) -> Iterator[Row]:
    yield from rows(size.simulated_points, size.judged)


def rows(number: int, judged: bool = True) -> Iterator[Row]:
    """The table, with this number of points behind each row."""
    for cell in cells() if judged else list(cells((3,)))[:4]:
        found = simulate(cell, number, ours, LEAST)
        met = found["all"].share >= PROMISED if cell.promised and cell.points > 1 else None
        yield Row(
            "coverage",
            f"{cell.what}, {100 * cell.sd:g} %",
            ("1 point" if cell.points == 1 else f"{cell.points} points")
            + (f", n = {cell.fixed}" if cell.fixed else ""),
            _text(found),
            _text(simulate(cell, number, students, 3)),
            "",
            f"≥ {PROMISED}" if cell.promised and cell.points > 1 else "",
            met,
        )


def _text(counts: dict[str, Count]) -> str:
    every = counts["all"]
    parts = [f"n {every.repetitions / every.points:.1f}, all {every.share:.3f}"]
    for grade, count in counts.items():
        if grade != "all" and count.points:
            parts.append(f"{grade} {_percent(count.points / every.points)} {count.share:.3f}")
    return ", ".join(parts)


def _percent(share: float) -> str:
    return "<1 %" if share < SELDOM else f"{100 * share:.0f} %"


def main() -> int:
    """Print the table as Markdown. Exit code 1 where a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000, help="simulated points behind each row")
    broken = False
    print("| noise | points | iosweep | Student's t alone | promised | holds |\n|---|---|---|---|---|---|")
    for row in rows(parser.parse_args().points):
        holds = "" if row.met is None else "yes" if row.met else "NO"
        print(f"| {row.what} | {row.size} | {row.measured} | {row.beside} | {row.budget} | {holds} |", flush=True)
        broken |= row.met is False
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
