"""How certain a figure is (its interval over repetitions, and grade), and how certain a difference is. Pure.

The runner uses it to decide how often a point is measured, the report to show intervals, `compare` to find changes.

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
#: Least repetitions for an interval that is shown and graded: that of two is far too wide.
LEAST_FOR_INTERVAL = 3
#: Most repetitions that advice may ask for: nobody would wait for more.
MOST_REPETITIONS = 1000
#: Half width of the widest interval, on logarithms: no figures differ by more, and its share still fits a table.
_WIDEST = 40.0
#: Logarithms are limited to this, in either direction: exp(710) is not a float.
_MOST_LOG = 700.0
#: Probability that an interval misses the true figure, or that a comparison has any false alarm.
ALPHA = 0.05
#: The scatter of other points widens intervals of up to this many repetitions: more show their own scatter well enough.
_MOST_WIDENED = 10
#: Least points from which the usual scatter of a phase is estimated: a median of fewer is chance.
_LEAST_POOLED = 4


@dataclass(frozen=True)
class Noise:
    """How the logarithms of repetitions usually scatter: their variance, and its degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class Interval:
    """Where the true figure is with 95 % confidence or more, in the unit of the values (of a ratio: none)."""

    n: int  # repetitions
    center: float  # geometric mean
    low: float
    high: float
    half_width_share: float  # high / center - 1

    def excludes(self, value: float) -> bool:
        """Whether a value is outside."""
        return not self.low <= value <= self.high


def interval(values: Sequence[float], noise: Noise | None = None) -> Interval | None:
    """The 95 % interval of the geometric mean of repetitions; None with a value that is not above zero, or a single
    value and no noise.

    noise: usual scatter of points of the same phase (`pooled`); None if unknown.
    """
    if not values or min(values) <= 0:
        return None
    logs = [math.log(value) for value in values]
    if (scatter := _scatter(logs, noise)) is None:
        return None
    half = student_t(scatter.freedom) * math.sqrt(scatter.variance / len(logs))
    return _interval(len(logs), fmean(logs), half)


def _scatter(logs: Sequence[float], noise: Noise | None) -> Noise | None:
    """The scatter of values; for few values the usual scatter of the phase, if that gives a wider interval."""
    scatter = Noise(variance(logs), len(logs) - 1) if len(logs) > 1 else None
    if noise is None or len(logs) > _MOST_WIDENED:
        return scatter
    return max((scatter or noise, noise), key=lambda n: student_t(n.freedom) ** 2 * n.variance)


def ratio_interval(a: Interval, b: Interval) -> Interval:
    """The 95 % interval of the ratio of two geometric means, from their intervals; its `n` is the smaller of theirs.
    The two can be told apart if it excludes 1."""
    half = math.hypot(math.log1p(a.half_width_share), math.log1p(b.half_width_share))
    return _interval(min(a.n, b.n), math.log(a.center) - math.log(b.center), half)


def widen_for_best(interval: Interval, candidates: int) -> Interval:
    """The interval of the best of `candidates` figures that cannot be told apart: the highest is partly luck. With 95 %
    confidence all candidates are inside their intervals (Bonferroni)."""
    half = _widening(interval.n - 1, candidates) * math.log1p(interval.half_width_share)
    return _interval(interval.n, math.log(interval.center), half)


def repetitions_to_exclude(value: float, interval: Interval, candidates: int = 1) -> int | None:
    """The number of repetitions after which an interval with this center and scatter is expected to exclude a value;
    None if it is above MOST_REPETITIONS. candidates: as in `widen_for_best`."""
    distance = abs(math.log(interval.center / value))
    error = math.log1p(interval.half_width_share) * math.sqrt(interval.n) / student_t(interval.n - 1)
    for n in range(interval.n + 1, MOST_REPETITIONS + 1):
        if error * student_t(n - 1) * _widening(n - 1, candidates) / math.sqrt(n) < distance:
            return n
    return None


def _widening(freedom: float, candidates: int) -> float:
    """Factor that widens each of several intervals, so that all hold at once."""
    return student_t(freedom, ALPHA / 2 / candidates) / student_t(freedom)


@dataclass(frozen=True)
class Change:
    """By how much one mean differs from another."""

    n: tuple[int, int]  # repetitions of the first and of the other; of several points the smallest numbers
    log: float  # logarithm of their ratio
    error: float  # standard error of `log`
    freedom: float  # degrees of freedom of `error`

    @property
    def share(self) -> float:
        """-0.061: the first is 6.1 % lower than the other."""
        return math.expm1(min(self.log, _MOST_LOG))

    @property
    def p(self) -> float:
        """Probability of a difference at least as large, in either direction, by chance."""
        if not self.error:
            return float(self.log == 0)
        from scipy.special import stdtr

        return 2 * float(stdtr(self.freedom, -abs(self.log) / self.error))

    def within(self, alpha: float = ALPHA) -> tuple[float, float]:
        """The interval of `share` at the confidence 1 - alpha."""
        half = min(student_t(self.freedom, alpha / 2) * self.error, _WIDEST)
        return _exp(self.log - half) - 1, _exp(self.log + half) - 1


def change(values: Sequence[float], to: Sequence[float], noises: tuple[Noise | None, Noise | None]) -> Change | None:
    """By how much the geometric mean of repetitions differs from that of others (`to`); None if their scatter is
    unknown, or with a figure not above zero.

    Welch's test on logarithms. noises: `noise` of `interval` for each side.
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


#: Round of a campaign -> value that a point had in it.
Rounds = Mapping[object, float]


def common_change(pairs: Sequence[tuple[Rounds, Rounds]]) -> Change | None:
    """By how much points differ on average (geometric mean) from the same points of another campaign; None for fewer
    than two points that were repeated on both sides.

    A disturbance of a round affects all its points, so the rounds, and not the repetitions, are independent samples:
    the variance is that of rounds (cluster-robust: C. R. Hansen, "Econometrics", section 4.21), with their number less
    one as degrees of freedom.
    """
    pairs = [pair for pair in pairs if all(len(side) > 1 and min(side.values()) > 0 for side in pair)]
    if len(pairs) < 2:
        return None
    means: list[float] = []
    parts: list[tuple[float, float]] = []
    for side in ([a for a, _ in pairs], [b for _, b in pairs]):
        by_round: dict[object, float] = {}
        mean = 0.0
        for rounds_of_point in side:
            logs = {key: math.log(value) for key, value in rounds_of_point.items()}
            middle = fmean(logs.values())
            mean += middle / len(side)
            for key, log in logs.items():
                by_round[key] = by_round.get(key, 0.0) + (log - middle) / len(logs) / len(side)
        rounds = len(by_round)
        means.append(mean)
        parts.append((sum(part**2 for part in by_round.values()) * rounds / (rounds - 1), rounds - 1))
    n = (min(len(a) for a, _ in pairs), min(len(b) for _, b in pairs))
    return _welch(n, means[0] - means[1], parts)


def _welch(n: tuple[int, int], log: float, parts: Sequence[tuple[float, float]]) -> Change:
    """parts: squared standard error of each side's mean, and its degrees of freedom."""
    total = sum(part for part, _ in parts)
    weights = sum(part**2 / freedom for part, freedom in parts)
    return Change(n, log, math.sqrt(total), total**2 / weights if weights else 1.0)


def holm(probabilities: Iterable[float]) -> list[float]:
    """Adjust p-values for their number: with 95 % probability none of the results below 0.05 is a false alarm (S. Holm,
    "A simple sequentially rejective multiple test procedure", 1979)."""
    values = list(probabilities)
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[i]))
        adjusted[i] = highest
    return adjusted


def grade(interval: Interval | None) -> Grade | None:
    """A, B or C if the interval of at least three repetitions is within 5, 10 or 20 %; else None."""
    if interval is None or interval.n < LEAST_FOR_INTERVAL:
        return None
    return next((name for name, share in GRADES if interval.half_width_share <= share), None)


def scattered(values: Sequence[float]) -> bool:
    """Whether a figure is not repeatable: enough repetitions for a grade, but their own scatter is too wide for one."""
    return len(values) >= LEAST_FOR_INTERVAL and (alone := interval(values)) is not None and grade(alone) is None


def pooled(samples: Iterable[Sequence[float]]) -> Noise | None:
    """The usual scatter of points of one phase, from their repetitions; None with too few points. The median over
    points, so that a single noisy point has no weight."""
    logs = [[math.log(value) for value in sample] for sample in samples if len(sample) > 1 and min(sample) > 0]
    if len(logs) < _LEAST_POOLED:
        return None
    usual = median(variance(sample) / _median_of_variance(len(sample) - 1) for sample in logs)
    return Noise(usual, sum(len(sample) - 1 for sample in logs)) if usual else None


def variance(logs: Sequence[float]) -> float:
    """The variance of logarithms or other values; 0 with a single value. 20 times as fast as the standard
    library's function."""
    if len(logs) < 2:
        return 0.0
    middle = fmean(logs)
    return math.fsum((log - middle) ** 2 for log in logs) / (len(logs) - 1)


def _interval(n: int, center: float, half: float) -> Interval:
    half = min(half, _WIDEST)
    low, middle, high = (_exp(log) for log in (center - half, center, center + half))
    return Interval(n, middle, low, high, math.expm1(half))


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_MOST_LOG), _MOST_LOG))


@lru_cache(10_000)
def student_t(freedom: float, above: float = ALPHA / 2) -> float:
    """The quantile of Student's t distribution with the share `above` on its upper side (dimensionless)."""
    from scipy.special import ndtri, stdtrit  # imported late: it takes a third of a second

    return -float(ndtri(above) if math.isinf(freedom) else stdtrit(freedom, above))


@lru_cache(10_000)
def _median_of_variance(freedom: float) -> float:
    """The median of sample variances, as a multiple of the true variance (dimensionless)."""
    from scipy.special import chdtri

    return float(chdtri(freedom, 0.5)) / freedom


# The nights in which a figure changed for good
#
# Binary segmentation (A. J. Scott and M. Knott, 1974; E. S. Vostrikova, 1981) of the logarithms of nightly figures: the
# split of a row at which two levels differ most is tested by Student's t with the scatter from night to night, times
# the number of possible splits (Bonferroni). The parts on both sides of a change are split in the same way.


#: Least nights of a level: a single outlier is no change.
LEAST_NIGHTS = 3
#: Least scatter that is assumed, on logarithms: figures are rounded.
_LEAST_SCATTER = 1e-6


@dataclass(frozen=True)
class Split:
    """A change of level. at: index of the first night of the new level; change: from the level before."""

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
    freedom = len(before) + len(after) - 2
    squares = sum((value - fmean(side)) ** 2 for side in (before, after) for value in side)
    scatter = max(squares / freedom, _LEAST_SCATTER**2)
    error = math.sqrt(scatter * (1 / len(before) + 1 / len(after)))
    return Change((len(before), len(after)), fmean(after) - fmean(before), error, freedom)
