"""How sure a figure is: its interval over repetitions, and the grade of that. Pure.

The runner decides by it how often a point is measured, and the report shows it.
docs/statistics.md says what holds, with simulated figures.

Repetitions are compared as ratios: the interval is Student's t on logarithms. A few values may lie close together by
luck, most of all where repeating stops once they do. So the deviation behind an interval is at least the upper bound of
the one that the values and other points of the same phase (`Noise`) make likely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median, variance
from typing import Literal

Grade = Literal["A", "B", "C"]

#: Half width, as a share, that an interval of a grade has at most.
GRADES: tuple[tuple[Grade, float], ...] = (("A", 0.05), ("B", 0.10), ("C", 0.20))
#: Least number of repetitions for a grade.
ENOUGH = 3
#: Half width of the widest interval, on logarithms: figures differ by less than that, and a table holds its share.
_WIDEST = 40.0
#: Logarithms further from 0 are those of no float.
_FARTHEST = 700.0
#: A variance is never taken for less than this share of the usual one: an accident of rounding is not precision.
_LEAST = 1e-5


@dataclass(frozen=True)
class Noise:
    """How the logarithms of repetitions scatter at several points of a phase.

    Variances are spread over the points as a scaled inverse chi-squared distribution with these degrees of freedom
    (infinite: all points scatter alike). most: degrees of freedom that the points have together.
    """

    variance: float
    freedom: float
    most: int


@dataclass(frozen=True)
class Interval:
    """Where the true figure is with 95 % confidence or more, in the unit of the values (of a ratio: none).

    center: geometric mean. half_width_share: `high / center - 1`. student_share: the same of Student's t for these
    values alone.
    """

    n: int
    center: float
    low: float
    high: float
    half_width_share: float
    student_share: float

    def excludes(self, value: float) -> bool:
        """Whether a value is outside."""
        return not self.low <= value <= self.high


def interval(values: Sequence[float], noise: Noise | None = None) -> Interval | None:
    """The 95 % interval of the geometric mean of repetitions, or None with fewer than two or with one not above zero.

    noise: that of points of the same phase, these values among them (`pooled`); None: nothing but the values is known.
    """
    return _of_mean(values, noise) if len(values) > 1 else None


def ratio(values: Sequence[float], to: Sequence[float], noise: Noise | None = None) -> Interval | None:
    """The 95 % interval of the ratio of two geometric means, or None where one of them has no interval.

    noise: as of `interval`; with it, a single repetition (of a step that a ramp has passed) has an interval here, too.
    `n` is the smaller number of repetitions. An interval that excludes 1 tells the two apart.
    """
    a, b = _of_mean(values, noise), _of_mean(to, noise)
    if a is None or b is None:
        return None
    logs = [[math.log(value) for value in sample] for sample in (values, to)]
    parts = [_variance(sample) / len(sample) for sample in logs]
    weights = sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, logs, strict=True) if part)
    student = student_t(sum(parts) ** 2 / weights) * math.sqrt(sum(parts)) if weights else 0.0  # Welch
    half = max(student, math.hypot(math.log1p(a.half_width_share), math.log1p(b.half_width_share)))
    return _interval(min(a.n, b.n), fmean(logs[0]) - fmean(logs[1]), half, student)


def grade(found: Interval | None) -> Grade | None:
    """A, B or C: the interval of at least three repetitions is within 5, 10 or 20 %; else None."""
    if found is None or found.n < ENOUGH:
        return None
    return next((name for name, share in GRADES if found.half_width_share <= share), None)


def scattered(found: Interval) -> bool:
    """Whether repetitions are not repeatable: without a grade, and even Student's t of these values alone is wider than
    the widest one."""
    return grade(found) is None and found.n >= ENOUGH and found.student_share > GRADES[-1][1]


def pooled(samples: Sequence[Sequence[float]]) -> Noise | None:
    """The noise of points of one phase, each with its repetitions; None with fewer than two points that have some.

    Empirical Bayes, after G. K. Smyth, "Linear models and empirical Bayes methods" (2004), section 6.2.
    """
    logs = [[math.log(value) for value in sample] for sample in samples if len(sample) > 1 and min(sample) > 0]
    found = [(variance(sample), len(sample) - 1) for sample in logs]
    usual = median(own for own, _ in found) if found else 0.0
    if len(found) < 2 or not usual:
        return None
    from scipy.special import digamma, polygamma  # late: a third of a second

    most = sum(freedom for _, freedom in found)
    centered = [
        math.log(max(own, _LEAST * usual)) - digamma(freedom / 2) + math.log(freedom / 2) for own, freedom in found
    ]
    excess = float(variance(centered) - fmean(polygamma(1, freedom / 2) for _, freedom in found))
    if excess <= 0:
        return Noise(sum(own * freedom for own, freedom in found) / most, math.inf, most)
    freedom = 2 * _inverse_trigamma(excess)
    return Noise(math.exp(fmean(centered) + digamma(freedom / 2) - math.log(freedom / 2)), freedom, most)


def _of_mean(values: Sequence[float], noise: Noise | None) -> Interval | None:
    if not values or min(values) <= 0 or (len(values) == 1 and noise is None):
        return None
    logs = [math.log(value) for value in values]
    own, freedom = _variance(logs), len(logs) - 1
    student = student_t(freedom) * math.sqrt(own / len(logs)) if freedom else 0.0
    half = max(student, _bounded(own, freedom, noise) / math.sqrt(len(logs)))
    return _interval(len(logs), fmean(logs), half, student)


def _variance(logs: Sequence[float]) -> float:
    return variance(logs) if len(logs) > 1 else 0.0


def _interval(n: int, center: float, half: float, student: float) -> Interval:
    half, student = min(half, _WIDEST), min(student, _WIDEST)
    low, middle, high = (_exp(log) for log in (center - half, center, center + half))
    return Interval(n, middle, low, high, math.expm1(half), math.expm1(student))


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_FARTHEST), _FARTHEST))


def _bounded(own: float, freedom: float, noise: Noise | None) -> float:
    """Student's t times the upper bound of a deviation of logarithms. own: its variance as measured."""
    if noise is not None:
        if math.isinf(noise.freedom):
            own, freedom = noise.variance, noise.most
        else:
            own = (noise.freedom * noise.variance + freedom * own) / (noise.freedom + freedom)
            freedom = min(noise.freedom + freedom, noise.most)
    return student_t(freedom) * math.sqrt(own * _bound(freedom))


@lru_cache(10_000)
def student_t(freedom: float) -> float:
    """The 97.5 % quantile of Student's t distribution (dimensionless)."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


@lru_cache(10_000)
def _bound(freedom: float) -> float:
    """The upper 95 % bound of a variance, as a multiple of the measured one (dimensionless)."""
    from scipy.special import chdtri

    return freedom / float(chdtri(freedom, 0.95))


def _inverse_trigamma(value: float) -> float:
    """Where the trigamma function has a value above zero, by Newton's method on its reciprocal."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-8 * x:
            break
    return x
