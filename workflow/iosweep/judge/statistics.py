"""The certainty of figures and of their ratios: one model, which the runner, the report and all commands use. Pure.

Noise is multiplicative, so all estimates are means of logarithms with Student's t: log(figure) = point + round + error.
A round measures each point once, in a drawn order, and disturbs all of them alike. Therefore two points of one campaign
are compared round by round, where the round cancels; the means of two campaigns only by the scatter of their sessions.
A point's own scatter is the floor of its interval. The usual scatter of other points (`Noise`) may widen an interval of
a few repetitions, which may lie close together by luck. The significance level is 5 % everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean, median
from typing import Literal

Grade = Literal["A", "B", "C"]
#: The session (a run of an allocation) and the number of the repetition, which all points of the round share.
Round = tuple[str | None, int]
#: Round -> logarithm of a point's figure, or of a ratio of two figures.
Sample = Mapping[Round, float]

#: Maximum half width of the interval for each grade, as a share.
GRADES: tuple[tuple[Grade, float], ...] = (("A", 0.05), ("B", 0.10), ("C", 0.20))
#: Minimum repetitions for an interval that is shown and graded: that of two is far too wide.
MIN_REPETITIONS = 3
#: Maximum repetitions that a recommendation asks for: users would not run more.
MAX_REPETITIONS = 1000
#: Probability that an interval misses the true figure, or that a comparison has a false positive.
ALPHA = 0.05
#: An interval that reaches further than by this factor either way tells nothing, and is not shown.
MAX_FACTOR = 1.5
#: Maximum half width of an interval, on logarithms: no figures differ by more.
_MAX_LOG_HALF_WIDTH = 40.0
#: Logarithms are clamped to this magnitude: exp(710) overflows.
_MAX_LOG = 700.0
#: Minimum standard deviation of repetitions, on logarithms: rounded figures may be equal.
_MIN_SCATTER = 1e-3
#: The scatter of other points widens intervals of at most this many repetitions: more show their own scatter.
_MAX_WIDENED = 10
#: Minimum points from which the usual scatter of a phase, or the effect of a round, is estimated.
MIN_POOLED = 4
#: Probability of finding the smallest change that could have been found.
_POWER = 0.8


@dataclass(frozen=True)
class Estimate:
    """A figure, or a ratio of two figures, with its uncertainty.

    n: repetitions, or pairs of them; of two sides the smaller number; log: the logarithm; error: its standard error;
    freedom: degrees of freedom of the error; alpha: probability that the interval misses the true value.
    """

    n: int
    log: float
    error: float
    freedom: float
    alpha: float = ALPHA

    @property
    def center(self) -> float:
        """The figure (a geometric mean), in its unit; a ratio is dimensionless."""
        return _exp(self.log)

    @property
    def low(self) -> float:
        return _exp(self.log - self._half())

    @property
    def high(self) -> float:
        return _exp(self.log + self._half())

    @property
    def half_width_share(self) -> float:
        """high / center - 1"""
        return math.expm1(self._half())

    @property
    def share(self) -> float:
        """Of a ratio: -0.061 if the first figure is 6.1 % lower than the other."""
        return math.expm1(min(self.log, _MAX_LOG))

    @property
    def tells(self) -> bool:
        """Whether the interval is narrow enough to be shown."""
        return self.half_width_share <= MAX_FACTOR - 1

    def p(self, value: float = 1.0) -> float:
        """Two-sided p-value of the hypothesis that this is the true value."""
        distance = abs(self.log - math.log(value))
        if not self.error:
            return float(distance == 0)
        from scipy.special import stdtr  # imported late: it takes a third of a second

        return 2 * float(stdtr(self.freedom, -distance / self.error))

    def excludes(self, value: float) -> bool:
        """Whether a value is outside of the interval."""
        return not self.low <= value <= self.high

    def at(self, alpha: float) -> Estimate:
        """The same with another probability of a miss: for one of several comparisons, or of several looks."""
        return replace(self, alpha=alpha)

    def smallest(self, alpha: float = ALPHA) -> float:
        """The smallest change of a ratio, as a share, that a test at `alpha` finds with a probability of 80 %."""
        return math.expm1(
            min(_MAX_LOG, self.error * (student_t(self.freedom, alpha / 2) + student_t(self.freedom, 1 - _POWER)))
        )

    def _half(self) -> float:
        return min(self.error * student_t(self.freedom, self.alpha / 2), _MAX_LOG_HALF_WIDTH)


# Figures


@dataclass(frozen=True)
class Noise:
    """The usual scatter of the points of a phase: the variance of logarithms, and its degrees of freedom."""

    variance: float
    freedom: float


def make_sample(values: Mapping[Round, float]) -> Sample | None:
    """The logarithms of figures; None without any, or if one is not positive."""
    if not values or min(values.values()) <= 0:
        return None
    return {key: math.log(value) for key, value in values.items()}


def jackknife(figure: float, each: Mapping[Round, float], without: Mapping[Round, float]) -> Sample:
    """A sample whose mean is the logarithm of a figure of all repetitions together, such as a percentile.

    Its scatter is that of the figures `without` each repetition (pseudo-values, J. W. Tukey, 1958), or that of the
    figures of `each` alone if it is wider: a percentile between two modes may not change without any repetition.
    """
    alone = {key: math.log(value) for key, value in each.items()}
    pseudo_values = {key: (1 - len(without)) * math.log(value) for key, value in without.items()}
    logs = max(pseudo_values, alone, key=lambda sample: variance([*sample.values()]))
    shift = math.log(figure) - fmean(logs.values())
    return {key: log + shift for key, log in logs.items()}


def estimate(samples: Sequence[Sample], noise: Noise | None = None) -> Estimate | None:
    """The mean of a point, or of several points with equal weights; None with fewer than two rounds and no noise.

    The rounds, not the repetitions, are independent, because a disturbance of a round affects all of its points
    (cluster-robust: B. E. Hansen, "Econometrics", section 4.21). If sessions differ by more than rounds explain, the
    error is that of sessions. noise: of the phase, for a single point.
    """
    residuals: dict[Round, float] = {}
    means = []
    for sample in samples:
        means.append(mean := fmean(sample.values()))
        for key, log in sample.items():
            residuals[key] = residuals.get(key, 0.0) + (log - mean) / len(sample) / len(samples)
    if not residuals:
        return None
    n, rounds, freedom = min(map(len, samples)), len(residuals), len(residuals) - 1.0
    squared_error = max(_sum_squares(residuals.values()), _MIN_SCATTER**2 / rounds) if rounds > 1 else None
    sessions: dict[str | None, float] = {}
    for (session, _), residual in residuals.items():
        sessions[session] = sessions.get(session, 0.0) + residual
    if squared_error is not None and len(sessions) > 1:
        squared_error = max(squared_error, _sum_squares(sessions.values()))
    if noise and n <= _MAX_WIDENED:
        widths = [(noise.variance / n, noise.freedom), *([(squared_error, freedom)] if squared_error else [])]
        squared_error, freedom = max(widths, key=lambda width: student_t(width[1], ALPHA / 2) ** 2 * width[0])
    return None if squared_error is None else Estimate(n, fmean(means), math.sqrt(squared_error), freedom)


def _sum_squares(residuals: Iterable[float]) -> float:
    """The squared standard error of a sum of independent residuals whose mean is 0."""
    squares = [residual**2 for residual in residuals]
    return math.fsum(squares) * len(squares) / (len(squares) - 1)


def pool(samples: Iterable[Sample]) -> Noise | None:
    """The usual scatter of points of a phase; None with too few points. It is a median over points, which a single
    noisy point does not affect."""
    repeated = [[*sample.values()] for sample in samples if len(sample) > 1]
    if len(repeated) < MIN_POOLED:
        return None
    usual = median(variance(logs) / _median_of_variance(len(logs) - 1) for logs in repeated)
    return Noise(usual, sum(len(logs) - 1 for logs in repeated)) if usual else None


def grade(figure: Estimate | None) -> Grade | None:
    """A, B or C if the interval of at least three repetitions is within 5 %, 10 % or 20 %; else None."""
    if figure is None or figure.n < MIN_REPETITIONS:
        return None
    return next((name for name, share in GRADES if figure.half_width_share <= share), None)


def is_scattered(sample: Sample) -> bool:
    """Whether a figure is not repeatable: its repetitions suffice for a grade, but their own scatter is too wide."""
    return len(sample) >= MIN_REPETITIONS and grade(estimate([sample])) is None


def variance(values: Sequence[float]) -> float:
    """The sample variance; 0 with a single value. 20 times as fast as the standard library's function."""
    if len(values) < 2:
        return 0.0
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


# Ratios


def ratio(pairs: Sequence[tuple[Sample, Sample]]) -> Estimate | None:
    """The ratio of two points of a campaign (first / second), or the mean ratio of several such pairs; None with fewer
    than two repetitions on a side.

    Pairs that share rounds are compared round by round. Others (allocations of their own) by Welch's test.
    """
    paired = [{key: a[key] - b[key] for key in a if key in b} for a, b in pairs]
    if all(len(differences) > 1 for differences in paired):
        return estimate(paired)
    return ratio_of_rounds(pairs)


def ratio_of_rounds(pairs: Sequence[tuple[Sample, Sample]]) -> Estimate | None:
    """The same of points of two campaigns, by the scatter of the rounds within each: what differs between days is not
    in it."""
    a, b = (estimate([pair[side] for pair in pairs]) for side in (0, 1))
    return _subtract(a, b) if a and b else None


def ratio_of_sessions(pairs: Sequence[tuple[Sample, Sample]]) -> Estimate | None:
    """The same by the scatter of their sessions; None if a campaign has fewer than two.

    Sessions of both scatter alike, so their variances are pooled: a few sessions alone estimate theirs too poorly.
    """
    a, b = (estimate([_means_of_sessions(pair[side]) for pair in pairs]) for side in (0, 1))
    if a is None or b is None:
        return None
    freedom = a.freedom + b.freedom
    pooled = sum(side.error**2 * (side.freedom + 1) * side.freedom for side in (a, b)) / freedom
    error = math.sqrt(pooled * sum(1 / (side.freedom + 1) for side in (a, b)))
    return Estimate(min(a.n, b.n), a.log - b.log, error, freedom)


def remove_rounds(samples: Sequence[Sample]) -> list[Sample]:
    """The samples without what disturbed a round for all points: then each point has its own scatter alone, and the
    ratio of two has more degrees of freedom than their pairs have. Rounds of fewer than four points stay as they are.
    """
    means = [fmean(sample.values()) for sample in samples]
    residuals: dict[Round, list[float]] = {}
    for sample, mean in zip(samples, means, strict=True):
        for key, log in sample.items():
            residuals.setdefault(key, []).append(log - mean)
    effects = {key: fmean(of) for key, of in residuals.items() if len(of) >= MIN_POOLED}
    # a point has a part in the effect, which takes 1 / number of points from its variance
    lost = {key: math.sqrt(len(residuals[key]) / (len(residuals[key]) - 1)) for key in effects}
    return [
        {k: mean + (log - mean - effects[k]) * lost[k] if k in effects else log for k, log in sample.items()}
        for sample, mean in zip(samples, means, strict=True)
    ]


def _means_of_sessions(sample: Sample) -> Sample:
    logs: dict[str | None, list[float]] = {}
    for (session, _), log in sample.items():
        logs.setdefault(session, []).append(log)
    return {(session, 0): fmean(values) for session, values in logs.items()}


def _subtract(a: Estimate, b: Estimate) -> Estimate:
    """The ratio of two independent estimates, by Welch's test."""
    squares = [(side.error**2, side.freedom) for side in (a, b)]
    total = sum(square for square, _ in squares)
    freedom = total**2 / sum(square**2 / of for square, of in squares)
    return Estimate(min(a.n, b.n), a.log - b.log, math.sqrt(total), freedom)


# Many comparisons, several looks


def holm(probabilities: Iterable[float]) -> list[float]:
    """Adjust p-values for multiple tests: with 95 % probability no result below 0.05 is a false positive (S. Holm, "A
    simple sequentially rejective multiple test procedure", 1979)."""
    values = list(probabilities)
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[i]))
        adjusted[i] = highest
    return adjusted


def alpha_of_look(look: int) -> float:
    """The two-sided level of a decision that was undecided in `look - 1` looks before: 5 % at first, then half as much
    each time. Thus the risk of a wrong decision is at most 5 % over all looks, instead of in each of them."""
    return ALPHA / 2.0 ** (look - 1)


def repetitions_to_exclude(value: float, figure: Estimate) -> int | None:
    """The number of repetitions after which an interval with this center and scatter should exclude a value; None if it
    is above MAX_REPETITIONS."""
    distance, error = abs(figure.log - math.log(value)), figure.error * math.sqrt(figure.n)
    for n in range(figure.n + 1, MAX_REPETITIONS + 1):
        if error * student_t(n - 1, figure.alpha / 2) / math.sqrt(n) < distance:
            return n
    return None


@lru_cache(10_000)
def student_t(freedom: float, above: float = ALPHA / 2) -> float:
    """The quantile of Student's t distribution with the upper tail probability `above` (dimensionless)."""
    from scipy.special import ndtri, stdtrit  # imported late: it takes a third of a second

    return -float(ndtri(above) if math.isinf(freedom) else stdtrit(freedom, above))


@lru_cache(10_000)
def _median_of_variance(freedom: float) -> float:
    """The median of sample variances, as a multiple of the true variance (dimensionless)."""
    from scipy.special import chdtri

    return float(chdtri(freedom, 0.5)) / freedom


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_MAX_LOG), _MAX_LOG))


# Change points: the nights in which the level of a figure shifted
#
# Binary segmentation (A. J. Scott and M. Knott, 1974; E. S. Vostrikova, 1981) of the logarithms of nightly figures: the
# split of a row at which two levels differ most is tested by Student's t with the scatter from night to night; its p is
# multiplied by the number of possible splits (Bonferroni). The parts on both sides are then split in the same way.


#: Minimum nights of a level: a single outlier is not a level shift.
LEAST_NIGHTS = 3


@dataclass(frozen=True)
class Split:
    """A level shift. at: index of the first night of the new level; change: from the previous level."""

    at: int
    change: Estimate


def level_changes(rows: Mapping[str, Sequence[float]]) -> dict[str, list[Split]]:
    """Name -> its level shifts, in order. rows: name -> positive figures, night by night.

    Rows are tested together (Holm); the parts of a row that changed are tested at ALPHA / number of rows (Bonferroni).
    """
    logs = {name: [math.log(value) for value in row] for name, row in rows.items()}
    first = {name: split for name, row in logs.items() if (split := _find_split(row))}
    adjusted = dict(zip(first, holm([p for _, p in first.values()]), strict=True))
    limit = ALPHA / max(1, len(rows))
    changes: dict[str, list[Split]] = {}
    for name, row in logs.items():
        changed = adjusted.get(name, 1.0) <= ALPHA
        edges = [0, *(_find_splits(row, 0, limit, first[name][0]) if changed else []), len(row)]
        changes[name] = [
            Split(at, _estimate_shift(row[before:at], row[at:after]))
            for before, at, after in zip(edges, edges[1:], edges[2:], strict=False)
        ]
    return changes


def _find_splits(row: Sequence[float], start: int, limit: float, at: int | None = None) -> list[int]:
    """The indices of the level shifts in a part of a row that begins at `start`. at: a shift that is known already."""
    if at is None:
        split = _find_split(row)
        if split is None or split[1] > limit:
            return []
        at = split[0]
    return [*_find_splits(row[:at], start, limit), start + at, *_find_splits(row[at:], start + at, limit)]


def _find_split(row: Sequence[float]) -> tuple[int, float] | None:
    """(the split at which two levels differ most; its p-value, adjusted for all splits of the row); None if the row has
    too few nights."""
    nights, mean = len(row), fmean(row) if row else 0.0
    best_at, highest = 0, -1.0
    partial_sum = math.fsum(row[: LEAST_NIGHTS - 1]) - (LEAST_NIGHTS - 1) * mean
    splits = range(LEAST_NIGHTS, nights - LEAST_NIGHTS + 1)
    for split in splits:
        partial_sum += row[split - 1] - mean
        between = partial_sum * partial_sum / (split * (nights - split))  # the sum of squares between the levels
        if between > highest:
            best_at, highest = split, between
    if not best_at:
        return None
    return best_at, min(1.0, _estimate_shift(row[:best_at], row[best_at:]).p() * len(splits))


def _estimate_shift(before: Sequence[float], after: Sequence[float]) -> Estimate:
    freedom = len(before) + len(after) - 2
    sum_of_squares = sum((value - fmean(side)) ** 2 for side in (before, after) for value in side)
    pooled_variance = max(sum_of_squares / freedom, _MIN_SCATTER**2)
    error = math.sqrt(pooled_variance * (1 / len(before) + 1 / len(after)))
    return Estimate(min(len(before), len(after)), fmean(after) - fmean(before), error, freedom)
