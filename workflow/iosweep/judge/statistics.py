"""How sure a figure is: its interval over repetitions, and the grade of that; how sure a difference is. Pure.

The runner decides by it how often a point is measured, the report shows it, and campaigns are compared by it.

There is one model. Repetitions are compared as ratios: the interval is Student's t on logarithms. A few values may lie
close together by luck, so the usual scatter of other points of the phase (`Noise`) may widen the interval of a few
repetitions; it never narrows one. Every error level is 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median
from typing import Literal

Grade = Literal["A", "B", "C"]

#: Half width, as a share, that an interval of a grade has at most.
GRADES: tuple[tuple[Grade, float], ...] = (("A", 0.05), ("B", 0.10), ("C", 0.20))
#: The least repetitions whose interval is shown and graded: two give one that is far too wide.
LEAST_FOR_INTERVAL = 3
#: Repetitions that are worth naming.
MOST_REPETITIONS = 1000
#: Half width of the widest interval, on logarithms: figures differ by less than that, and a table holds its share.
_WIDEST = 40.0
#: No float has a logarithm further from 0.
_FARTHEST = 700.0
#: Probability of an error: of an interval that does not hold the figure, of a false alarm anywhere in a comparison.
ALPHA = 0.05
#: Repetitions up to which the scatter of other points widens an interval, and the points that it takes.
_FEW, _POINTS = 10, 4


@dataclass(frozen=True)
class Noise:
    """How the logarithms of repetitions usually scatter: their variance, and its degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class Interval:
    """Where the true figure is with 95 % confidence or more, in the unit of the values (of a ratio: none).

    center: geometric mean. half_width_share: `high / center - 1`.
    """

    n: int
    center: float
    low: float
    high: float
    half_width_share: float

    def excludes(self, value: float) -> bool:
        """Whether a value is outside."""
        return not self.low <= value <= self.high


def interval(values: Sequence[float], noise: Noise | None = None) -> Interval | None:
    """The 95 % interval of the geometric mean of repetitions; None with a value that is not above zero, or a single
    value and no noise.

    noise: that of points of the same phase (`pooled`); None: nothing but the values is known.
    """
    if not values or min(values) <= 0:
        return None
    logs = [math.log(value) for value in values]
    if (scatter := _scatter(logs, noise)) is None:
        return None
    half = student_t(scatter.freedom) * math.sqrt(scatter.variance / len(logs))
    return _interval(len(logs), fmean(logs), half)


def _scatter(logs: Sequence[float], noise: Noise | None) -> Noise | None:
    """The scatter of values; of a few values the usual scatter of the phase, where that gives a wider interval."""
    scatter = Noise(variance(logs), len(logs) - 1) if len(logs) > 1 else None
    if noise is None or len(logs) > _FEW:
        return scatter
    return max((scatter or noise, noise), key=lambda known: student_t(known.freedom) ** 2 * known.variance)


def ratio_interval(a: Interval, b: Interval) -> Interval:
    """The 95 % interval of the ratio of two geometric means, by their intervals. `n` is the smaller number of
    repetitions. An interval that excludes 1 tells the two apart."""
    half = math.hypot(math.log1p(a.half_width_share), math.log1p(b.half_width_share))
    return _interval(min(a.n, b.n), math.log(a.center) - math.log(b.center), half)


def widen_for_best(interval: Interval, alike: int) -> Interval:
    """The interval of the best of `alike` figures that cannot be told apart: the highest of them is high by luck. With
    95 % confidence all of them are inside their intervals (Bonferroni)."""
    half = _wider(interval.n - 1, alike) * math.log1p(interval.half_width_share)
    return _interval(interval.n, math.log(interval.center), half)


def repetitions_to_exclude(value: float, interval: Interval, alike: int = 1) -> int | None:
    """The number of repetitions after which an interval with this center and scatter is expected to exclude a value;
    None if it is above MOST_REPETITIONS. alike: as in `widen_for_best`."""
    distance = abs(math.log(interval.center / value))
    error = math.log1p(interval.half_width_share) * math.sqrt(interval.n) / student_t(interval.n - 1)
    for n in range(interval.n + 1, MOST_REPETITIONS + 1):
        if error * student_t(n - 1) * _wider(n - 1, alike) / math.sqrt(n) < distance:
            return n
    return None


def _wider(freedom: float, alike: int) -> float:
    """Factor by which each of several intervals must be wider."""
    return student_t(freedom, ALPHA / 2 / alike) / student_t(freedom)


@dataclass(frozen=True)
class Change:
    """By how much one mean differs from another. n: repetitions of the first and of the other (of several points: the
    smallest number); log: logarithm of their ratio; error: its standard error; freedom: degrees of freedom of that."""

    n: tuple[int, int]
    log: float
    error: float
    freedom: float

    @property
    def share(self) -> float:
        """-0.061: the first is 6.1 % lower than the other."""
        return math.expm1(min(self.log, _FARTHEST))

    @property
    def p(self) -> float:
        """Probability of a difference at least as large, in either direction, where there is none."""
        if not self.error:
            return float(self.log == 0)
        from scipy.special import stdtr

        return 2 * float(stdtr(self.freedom, -abs(self.log) / self.error))

    def within(self, alpha: float = ALPHA) -> tuple[float, float]:
        """The interval of `share` at the confidence 1 - alpha."""
        half = min(student_t(self.freedom, alpha / 2) * self.error, _WIDEST)
        return _exp(self.log - half) - 1, _exp(self.log + half) - 1


def change(values: Sequence[float], to: Sequence[float], noises: tuple[Noise | None, Noise | None]) -> Change | None:
    """By how much the geometric mean of repetitions differs from that of others; None where nothing says how they
    scatter, or with a figure not above zero.

    Welch's test on logarithms. noises: of each side's points, as of `interval`.
    """
    if not values or not to or min(*values, *to) <= 0:
        return None
    sides = [[math.log(value) for value in sample] for sample in (values, to)]
    parts: list[tuple[float, float]] = []
    for logs, noise in zip(sides, noises, strict=True):
        if (scatter := _scatter(logs, noise)) is None:
            return None
        parts.append((scatter.variance / len(logs), scatter.freedom))
    return _welch((len(values), len(to)), fmean(sides[0]) - fmean(sides[1]), parts)


#: Repetitions of a point -> their values, by what all points share: the round of the campaign that measured them.
Rounds = Mapping[object, float]


def common_change(pairs: Sequence[tuple[Rounds, Rounds]]) -> Change | None:
    """By how much points differ in the (geometric) mean from the same points of another campaign; None for fewer than
    two points that were repeated on both sides.

    What disturbs a round of a campaign disturbs all its points alike, so that the round is what is drawn: the variance
    is that of rounds, as cluster-robust estimates have it (C. R. Hansen, "Econometrics", section 4.21), and their
    number less one is its degrees of freedom.
    """
    pairs = [pair for pair in pairs if all(len(side) > 1 and min(side.values()) > 0 for side in pair)]
    if len(pairs) < 2:
        return None
    means: list[float] = []
    parts: list[tuple[float, float]] = []
    for side in ([a for a, _ in pairs], [b for _, b in pairs]):
        drawn: dict[object, float] = {}
        mean = 0.0
        for rounds_of_point in side:
            logs = {key: math.log(value) for key, value in rounds_of_point.items()}
            middle = fmean(logs.values())
            mean += middle / len(side)
            for key, log in logs.items():
                drawn[key] = drawn.get(key, 0.0) + (log - middle) / len(logs) / len(side)
        rounds = len(drawn)
        means.append(mean)
        parts.append((sum(part**2 for part in drawn.values()) * rounds / (rounds - 1), rounds - 1))
    n = (min(len(a) for a, _ in pairs), min(len(b) for _, b in pairs))
    return _welch(n, means[0] - means[1], parts)


def _welch(n: tuple[int, int], log: float, parts: Sequence[tuple[float, float]]) -> Change:
    """parts: squared standard error of each side's mean, and its degrees of freedom."""
    total = sum(part for part, _ in parts)
    weights = sum(part**2 / freedom for part, freedom in parts)
    return Change(n, log, math.sqrt(total), total**2 / weights if weights else 1.0)


def holm(probabilities: Iterable[float]) -> list[float]:
    """Adjust p-values for their number: with a probability of 95 % none of those below 0.05 is a false alarm (S. Holm,
    "A simple sequentially rejective multiple test procedure", 1979)."""
    values = list(probabilities)
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[i]))
        adjusted[i] = highest
    return adjusted


def grade(interval: Interval | None) -> Grade | None:
    """A, B or C: the interval of at least three repetitions is within 5, 10 or 20 %; else None."""
    if interval is None or interval.n < LEAST_FOR_INTERVAL:
        return None
    return next((name for name, share in GRADES if interval.half_width_share <= share), None)


def scattered(values: Sequence[float]) -> bool:
    """Whether repetitions are not repeatable: they are enough for a grade, and alone they have none."""
    return len(values) >= LEAST_FOR_INTERVAL and (alone := interval(values)) is not None and grade(alone) is None


def pooled(samples: Iterable[Sequence[float]]) -> Noise | None:
    """The usual scatter of points of one phase, each with its repetitions; None with too few points. It is the median
    over the points: a point that scatters more does not speak for all."""
    logs = [[math.log(value) for value in sample] for sample in samples if len(sample) > 1 and min(sample) > 0]
    if len(logs) < _POINTS:
        return None
    usual = median(variance(sample) / _median_of_variance(len(sample) - 1) for sample in logs)
    return Noise(usual, sum(len(sample) - 1 for sample in logs)) if usual else None


def variance(logs: Sequence[float]) -> float:
    """The variance of logarithms or other values; 0 with a single value. It takes a twentieth of the time of the
    standard library's function."""
    if len(logs) < 2:
        return 0.0
    middle = fmean(logs)
    return math.fsum((log - middle) ** 2 for log in logs) / (len(logs) - 1)


def _interval(n: int, center: float, half: float) -> Interval:
    half = min(half, _WIDEST)
    low, middle, high = (_exp(log) for log in (center - half, center, center + half))
    return Interval(n, middle, low, high, math.expm1(half))


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_FARTHEST), _FARTHEST))


@lru_cache(10_000)
def student_t(freedom: float, above: float = ALPHA / 2) -> float:
    """The quantile of Student's t distribution that this share is above (dimensionless)."""
    from scipy.special import ndtri, stdtrit  # late: a third of a second

    return -float(ndtri(above) if math.isinf(freedom) else stdtrit(freedom, above))


@lru_cache(10_000)
def _median_of_variance(freedom: float) -> float:
    """The median of measured variances, as a multiple of the true one (dimensionless)."""
    from scipy.special import chdtri

    return float(chdtri(freedom, 0.5)) / freedom


# When a figure changed for good in a row of nights
#
# Binary segmentation (A. J. Scott and M. Knott, 1974; E. S. Vostrikova, 1981) of the logarithms of nightly figures: the
# split of a row at which two levels differ most is tested by Student's t with the scatter from night to night, times
# the number of possible splits (Bonferroni). The parts on both sides of a change are split in the same way.


#: Nights that a level has at least: a single night that is off is no change.
LEAST_NIGHTS = 3
#: A scatter is never taken for less than this, on logarithms: figures are rounded.
_LEAST_SCATTER = 1e-6


@dataclass(frozen=True)
class Split:
    """A change of level. at: index of the first night of the new level; change: of the new level against the one
    before."""

    at: int
    change: Change


def level_changes(rows: Mapping[str, Sequence[float]]) -> dict[str, list[Split]]:
    """Name -> its changes, in order. rows: name -> figures above zero, night by night.

    Rows are tested together (Holm); within a row that changed, each part as a part of all rows (Bonferroni).
    """
    logs = {name: [math.log(value) for value in row] for name, row in rows.items()}
    first = {name: split for name, row in logs.items() if (split := _clearest(row))}
    adjusted = dict(zip(first, holm([p for _, p in first.values()]), strict=True))
    limit = ALPHA / max(1, len(rows))
    changes: dict[str, list[Split]] = {}
    for name, row in logs.items():
        changed = adjusted.get(name, 1.0) <= ALPHA
        edges = [0, *(_splits(row, 0, limit, first[name][0]) if changed else []), len(row)]
        changes[name] = [
            Split(at, _change_of_level(row[before:at], row[at:after]))
            for before, at, after in zip(edges, edges[1:], edges[2:], strict=False)
        ]
    return changes


def _splits(row: Sequence[float], start: int, limit: float, at: int | None = None) -> list[int]:
    """Where a part of a row that begins at `start` changes. at: a split that is known to be a change."""
    if at is None:
        split = _clearest(row)
        if split is None or split[1] > limit:
            return []
        at = split[0]
    return [*_splits(row[:at], start, limit), start + at, *_splits(row[at:], start + at, limit)]


def _clearest(row: Sequence[float]) -> tuple[int, float] | None:
    """(the split at which two levels differ most; probability of a split so clear by chance, among all splits of the
    row); None where a row has too few nights."""
    number, middle = len(row), fmean(row) if row else 0.0
    best, highest = 0, -1.0
    running = math.fsum(row[: LEAST_NIGHTS - 1]) - (LEAST_NIGHTS - 1) * middle
    splits = range(LEAST_NIGHTS, number - LEAST_NIGHTS + 1)
    for at in splits:
        running += row[at - 1] - middle
        between = running * running / (at * (number - at))  # the sum of squares between the levels
        if between > highest:
            best, highest = at, between
    if not best:
        return None
    return best, min(1.0, _change_of_level(row[:best], row[best:]).p * len(splits))


def _change_of_level(before: Sequence[float], after: Sequence[float]) -> Change:
    nights = len(before) + len(after) - 2
    squares = sum((value - fmean(side)) ** 2 for side in (before, after) for value in side)
    scatter = max(squares / nights, _LEAST_SCATTER**2)
    error = math.sqrt(scatter * (1 / len(before) + 1 / len(after)))
    return Change((len(before), len(after)), fmean(after) - fmean(before), error, nights)
