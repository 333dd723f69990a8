"""How sure a figure is: its interval over repetitions, and the grade of that; how sure a difference is. Pure.

The runner decides by it how often a point is measured, the report shows it, and campaigns are compared by it.
docs/statistics.md and docs/comparing.md say what holds, with simulated figures.

Repetitions are compared as ratios: the interval is Student's t on logarithms. A few values may lie close together by
luck, most of all where repeating stops once they do. So the deviation behind an interval is at least the upper bound of
the one that the values and other points of the same phase (`Noise`) make likely.
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
#: Least number of repetitions for a grade.
ENOUGH = 3
#: Share of what is beyond one end of an interval.
ONE_SIDE = 0.025
#: Repetitions that are worth naming.
MOST_REPETITIONS = 1000
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
    (infinite: all points scatter alike). most: degrees of freedom that the points have together; average: their mean
    variance.
    """

    variance: float
    freedom: float
    most: int
    average: float = 0.0


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
    return of_mean(values, noise) if len(values) > 1 else None


def ratio(values: Sequence[float], to: Sequence[float], noise: Noise | None = None) -> Interval | None:
    """The 95 % interval of the ratio of two geometric means, or None where one of them has no interval.

    noise: as of `interval`; with it, a single repetition (of a step that a ramp has passed) has an interval here, too.
    `n` is the smaller number of repetitions. An interval that excludes 1 tells the two apart.
    """
    a, b = of_mean(values, noise), of_mean(to, noise)
    return None if a is None or b is None else between(values, to, a, b)


def between(values: Sequence[float], to: Sequence[float], a: Interval, b: Interval) -> Interval:
    """The 95 % interval of the ratio of two geometric means, whose own intervals are `a` and `b`."""
    logs = [[math.log(value) for value in sample] for sample in (values, to)]
    parts = [variance(sample) / len(sample) for sample in logs]
    weights = sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, logs, strict=True) if part)
    student = student_t(sum(parts) ** 2 / weights) * math.sqrt(sum(parts)) if weights else 0.0  # Welch
    half = max(student, math.hypot(math.log1p(a.half_width_share), math.log1p(b.half_width_share)))
    return _interval(min(a.n, b.n), fmean(logs[0]) - fmean(logs[1]), half, student)


def of_best(found: Interval, alike: int) -> Interval:
    """The interval of a figure that was chosen because it is the best of this many that are alike: one of them is high
    by luck. All of them together are inside with 95 % confidence (Bonferroni)."""
    wider = _wider(found.n - 1, alike)
    half, student = (wider * math.log1p(share) for share in (found.half_width_share, found.student_share))
    return _interval(found.n, math.log(found.center), half, student)


def enough(found: Interval, alone: Interval, value: float, alike: int = 1) -> int | None:
    """The smallest number of repetitions, more than there are, of which an interval with this center and deviation is
    expected to exclude a value. None: there is none up to MOST_REPETITIONS.

    alone: the interval of the same values without the noise of other points, from which the deviation of so many more
    becomes known; where that noise has narrowed `found`, it is as well known as it will be. alike: as of `of_best`.
    """
    distance = abs(math.log(found.center / value))
    half = math.log1p(found.half_width_share)
    learns = half >= 0.999 * math.log1p(alone.half_width_share)
    now = _known(found.n - 1) if learns else 1.0
    for n in range(found.n + 1, MOST_REPETITIONS + 1):
        then = _known(n - 1) if learns else 1.0
        if half * then / now * math.sqrt(found.n / n) * _wider(n - 1, alike) < distance:
            return n
    return None


def _wider(freedom: float, alike: int) -> float:
    """By how much an interval has to be wider that is one of several."""
    return student_t(freedom, ONE_SIDE / alike) / student_t(freedom)


def _known(freedom: float) -> float:
    return student_t(freedom) * math.sqrt(_bound(freedom))


@dataclass(frozen=True)
class Change:
    """By how much one mean differs from another. n: repetitions of the first and of the other (of several points: the
    smallest number); log: logarithm of their ratio; error: its standard error; freedom: degrees of freedom of that;
    parts: squared standard errors of both means, where they are known."""

    n: tuple[int, int]
    log: float
    error: float
    freedom: float
    parts: tuple[float, float] = (0.0, 0.0)

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

    def within(self, alpha: float = 0.05) -> tuple[float, float]:
        """The interval of `share` at the confidence 1 - alpha."""
        half = min(student_t(self.freedom, alpha / 2) * self.error, _WIDEST)
        return _exp(self.log - half) - 1, _exp(self.log + half) - 1

    def repetitions(self, half_width: float, alpha: float = 0.05, most: int = 100) -> int | None:
        """How many more repetitions of each make the interval at the confidence 1 - alpha no wider than this half width
        on logarithms, where they scatter as these do; None for more than `most`."""
        least = min(self.n)
        scale = self.error * math.sqrt(least)
        if half_width <= 0:
            return None
        more = max(0, math.ceil((student_t(math.inf, alpha / 2) * scale / half_width) ** 2) - least)
        while more <= most:
            n = least + more
            if student_t(self.freedom * n / least, alpha / 2) * scale / math.sqrt(n) <= half_width:
                return more
            more += 1 + more // 50
        return None


def change(values: Sequence[float], to: Sequence[float], noises: tuple[Noise | None, Noise | None]) -> Change | None:
    """By how much the geometric mean of repetitions differs from that of others; None where nothing says how they
    scatter, or with a figure not above zero.

    Welch's test on logarithms, with the deviation of each side that its values and the other points of the phase make
    likely together (the moderated t of Smyth 2004), and no less than the mean one of the phase: three repetitions of
    one mode of two look quiet, and are not. noises: of each side's points.
    """
    if not values or not to or min(*values, *to) <= 0:
        return None
    sides = [[math.log(value) for value in sample] for sample in (values, to)]
    parts: list[tuple[float, float]] = []
    for logs, noise in zip(sides, noises, strict=True):
        likely, freedom = _moderated(variance(logs), len(logs) - 1, noise)
        if not freedom:
            return None
        parts.append((max(likely, noise.average if noise else 0.0) / len(logs), freedom))
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
    pairs = [pair for pair in pairs if all(len(one) > 1 and min(one.values()) > 0 for one in pair)]
    if len(pairs) < 2:
        return None
    means: list[float] = []
    parts: list[tuple[float, float]] = []
    for side in ([a for a, _ in pairs], [b for _, b in pairs]):
        drawn: dict[object, float] = {}
        mean = 0.0
        for one in side:
            logs = {key: math.log(value) for key, value in one.items()}
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
    (first, _), (other, _) = parts
    return Change(n, log, math.sqrt(total), total**2 / weights if weights else 1.0, (first, other))


def holm(probabilities: Iterable[float]) -> list[float]:
    """Each p-value as it is among so many comparisons: below 0.05, none of those that are is a false alarm with at
    least 95 % (S. Holm, "A simple sequentially rejective multiple test procedure", 1979)."""
    found = list(probabilities)
    adjusted, highest = [0.0] * len(found), 0.0
    for rank, i in enumerate(sorted(range(len(found)), key=found.__getitem__)):
        highest = max(highest, min(1.0, (len(found) - rank) * found[i]))
        adjusted[i] = highest
    return adjusted


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
    # Of few distinct degrees of freedom, each asked once: SciPy takes longer for one than all the rest here.
    shift = {freedom: math.log(freedom / 2) - float(digamma(freedom / 2)) for freedom in {own for _, own in found}}
    trigamma = {freedom: float(polygamma(1, freedom / 2)) for freedom in shift}
    centered = [math.log(max(own, _LEAST * usual)) + shift[freedom] for own, freedom in found]
    average = sum(own * freedom for own, freedom in found) / most
    excess = variance(centered) - fmean(trigamma[freedom] for _, freedom in found)
    if excess <= 0:
        return Noise(average, math.inf, most, average)
    freedom = 2 * _inverse_trigamma(excess)
    return Noise(math.exp(fmean(centered) + digamma(freedom / 2) - math.log(freedom / 2)), freedom, most, average)


def of_mean(values: Sequence[float], noise: Noise | None) -> Interval | None:
    """The same, also of a single value where the noise is known: what `between` needs."""
    if not values or min(values) <= 0 or (len(values) == 1 and noise is None):
        return None
    logs = [math.log(value) for value in values]
    own, freedom = variance(logs), len(logs) - 1
    student = student_t(freedom) * math.sqrt(own / len(logs)) if freedom else 0.0
    half = max(student, _bounded(own, freedom, noise) / math.sqrt(len(logs)))
    return _interval(len(logs), fmean(logs), half, student)


def variance(logs: Sequence[float]) -> float:
    """Of a sample of logarithms or other values; 0 of a single one. The two passes take a twentieth of the time of the
    standard library's, and lose nothing here."""
    if len(logs) < 2:
        return 0.0
    middle = fmean(logs)
    return math.fsum((log - middle) ** 2 for log in logs) / (len(logs) - 1)


def _interval(n: int, center: float, half: float, student: float) -> Interval:
    half, student = min(half, _WIDEST), min(student, _WIDEST)
    low, middle, high = (_exp(log) for log in (center - half, center, center + half))
    return Interval(n, middle, low, high, math.expm1(half), math.expm1(student))


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_FARTHEST), _FARTHEST))


def _bounded(own: float, freedom: float, noise: Noise | None) -> float:
    """Student's t times the upper bound of a deviation of logarithms. own: its variance as measured."""
    own, freedom = _moderated(own, freedom, noise)
    return _known(freedom) * math.sqrt(own)


def _moderated(own: float, freedom: float, noise: Noise | None) -> tuple[float, float]:
    """The variance of logarithms that values and noise make likely together, and its degrees of freedom. own: the
    variance of the values, with its degrees of freedom."""
    if noise is None:
        return own, freedom
    if math.isinf(noise.freedom):
        return noise.variance, noise.most
    likely = (noise.freedom * noise.variance + freedom * own) / (noise.freedom + freedom)
    return likely, min(noise.freedom + freedom, noise.most)


@lru_cache(10_000)
def student_t(freedom: float, above: float = ONE_SIDE) -> float:
    """The quantile of Student's t distribution that this share is above (dimensionless)."""
    from scipy.special import ndtri, stdtrit

    return -float(ndtri(above) if math.isinf(freedom) else stdtrit(freedom, above))


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
