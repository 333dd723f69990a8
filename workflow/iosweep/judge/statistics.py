"""The certainty of figures and of their ratios: one model, which the runner, the report and all commands use. Pure.

Noise is multiplicative, so all estimates are means of logarithms with Student's t: log(figure) = point + round + error.
A round measures each point once, in a drawn order, and disturbs all of them alike. Therefore two points of one campaign
are compared round by round, where the round cancels; the means of two campaigns only by the scatter of their sessions.
A point's own scatter is the floor of its interval. The usual scatter of other points (`Noise`) may widen an interval of
a few repetitions, which may lie close together by luck. The significance level is 5 % everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from statistics import fmean, median
from typing import Literal

from iosweep.config.sweeps import MIN_REPETITIONS as MIN_REPETITIONS

Grade = Literal["A", "B", "C"]
#: The session (a run of an allocation) and the number of the repetition, which all points of the round share.
Round = tuple[str | None, int]
#: Round -> logarithm of a point's figure, or of a ratio of two figures.
Sample = Mapping[Round, float]

#: Maximum half width of the interval for each grade, as a share.
GRADES: tuple[tuple[Grade, float], ...] = (("A", 0.05), ("B", 0.10), ("C", 0.20))
#: Minimum sessions that set the interval of a figure, and that are recommended.
MIN_SESSIONS = 3
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

    def p(self) -> float:
        """Two-sided p-value of the hypothesis that a ratio is 1."""
        from scipy.special import stdtr  # imported late: it takes a third of a second

        return 2 * float(stdtr(self.freedom, -abs(self.log) / self.error))

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


def estimate(sample: Sample, noise: Noise | None = None) -> Estimate | None:
    """The figure of a point; None with a single round.

    The widest interval counts: by the scatter of its rounds, of its sessions (of three or more: two alone, as after a
    run that went on, would leave no interval), or the usual one of the phase (`noise`, for a few repetitions).
    """
    found, means = mean([sample], noise), _means_of_sessions(sample)
    of_sessions = mean([means]) if len(means) >= MIN_SESSIONS else None
    if found is None or of_sessions is None:
        return found
    other = replace(found, error=of_sessions.error, freedom=of_sessions.freedom)
    return max(found, other, key=lambda one: one.half_width_share)


def mean(samples: Sequence[Sample], noise: Noise | None = None) -> Estimate | None:
    """The mean of a point, or of several points with equal weights; None with fewer than two rounds.

    The rounds, not the repetitions, are independent, because a disturbance of a round affects all of its points
    (cluster-robust: B. E. Hansen, "Econometrics", section 4.21). If sessions differ by more than rounds explain, the
    error is that of sessions, with the degrees of freedom of rounds: a few sessions would show no difference at all.
    The usual scatter of the phase (`noise`) may widen the interval of a few repetitions.
    """
    residuals: dict[Round, float] = {}
    means: list[float] = []
    for sample in samples:
        means.append(fmean(sample.values()))
        for key, log in sample.items():
            residuals[key] = residuals.get(key, 0.0) + (log - means[-1]) / len(sample) / len(samples)
    if (rounds := len(residuals)) < 2:
        return None
    sessions: dict[str | None, float] = {}
    for (session, _), residual in residuals.items():
        sessions[session] = sessions.get(session, 0.0) + residual
    squares = [_sum_squares(residuals.values()), _MIN_SCATTER**2 / rounds]
    squares += [_sum_squares(sessions.values())] if len(sessions) > 1 else []
    found = Estimate(min(map(len, samples)), fmean(means), math.sqrt(max(squares)), rounds - 1)
    if noise is None or found.n > _MAX_WIDENED:
        return found
    usual = replace(found, error=math.sqrt(noise.variance / found.n), freedom=noise.freedom)
    return max(found, usual, key=lambda one: one.half_width_share)


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
    return len(sample) >= MIN_REPETITIONS and grade(mean([sample])) is None


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

    Pairs that share most of their rounds are compared round by round. Others, such as of two allocations, by Welch's
    test.
    """
    if all(len(a.keys() & b.keys()) > max(1, min(len(a), len(b)) // 2) for a, b in pairs):
        return ratio_of_pairs(pairs)
    return ratio_of_rounds(pairs)


def ratio_of_pairs(pairs: Sequence[tuple[Sample, Sample]]) -> Estimate | None:
    """The same round by round. A round that a side lacks does not count: another time may have been slower."""
    return mean([{key: a[key] - b[key] for key in a if key in b} for a, b in pairs])


def ratio_of_rounds(pairs: Sequence[tuple[Sample, Sample]]) -> Estimate | None:
    """The same of points of two campaigns, by the scatter of the rounds within each: what differs between days is not
    in it."""
    a, b = (mean([pair[side] for pair in pairs]) for side in (0, 1))
    return subtract(a, b) if a and b else None


def ratio_of_sessions(pairs: Sequence[tuple[Sample, Sample]]) -> Estimate | None:
    """The same by the scatter of their sessions; None if a campaign has fewer than two.

    Sessions of both scatter alike, so their variances are pooled: a few sessions alone estimate theirs too poorly.
    """
    a, b = (mean([_means_of_sessions(pair[side]) for pair in pairs]) for side in (0, 1))
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


def subtract(a: Estimate, b: Estimate) -> Estimate:
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
    distance = abs(figure.log - math.log(value))
    samples = min(figure.n, round(figure.freedom) + 1)  # repetitions, or the sessions that set the interval
    each, error = figure.n / samples, figure.error * math.sqrt(samples)
    for more in range(samples + 1, MAX_REPETITIONS + 1):
        if error * student_t(more - 1, figure.alpha / 2) / math.sqrt(more) < distance:
            return math.ceil(more * each)
    return None


@lru_cache(10_000)
def student_t(freedom: float, above: float = ALPHA / 2) -> float:
    """The quantile of Student's t distribution with the upper tail probability `above` (dimensionless)."""
    from scipy.special import stdtrit  # imported late: it takes a third of a second

    return -float(stdtrit(freedom, above))


@lru_cache(10_000)
def _median_of_variance(freedom: float) -> float:
    """The median of sample variances, as a multiple of the true variance (dimensionless)."""
    from scipy.special import chdtri

    return float(chdtri(freedom, 0.5)) / freedom


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_MAX_LOG), _MAX_LOG))


# Level shifts: nights in which headlines of nightly campaigns changed
#
# log(figure) = level + night + error. A night affects all headlines alike, and nights in a row are alike. Therefore a
# headline is tested against the others, and what all have in common as correlated nights. The clearest shift of all is
# accepted if its p is low enough, times the number of possible shifts (Bonferroni); then the levels before and after it
# are tested in the same way (binary segmentation: A. J. Scott and M. Knott, 1974; for shifts that ended before the last
# night "circular binary segmentation": A. B. Olshen and others, 2004).

#: Minimum nights of a level (a single outlier is no shift), and minimum headlines that are tested against each other.
MIN_NIGHTS, MIN_HEADLINES = 3, 3
#: Assumed correlation of a night with the next one, which a few weeks cannot estimate. False changes stay below 5 %
#: over 30 looks while it is below 0.6 (simulated). That of the errors is estimated by all headlines.
_NIGHT_CORRELATION, _MAX_CORRELATION = 0.35, 0.9
#: Splits whose log-likelihood is this close to the maximum are in the range of a shift: 96 % of the ranges hold the
#: true night (simulated; 2.5 is more than half of the 95 % quantile of chi squared, because nights are discrete).
_LIKELIHOOD_RANGE = 2.5

#: Night -> logarithm of a figure, in order of time.
Nights = Mapping[int, float]


@dataclass(frozen=True)
class Shift:
    """A level shift. names: the headlines with it; before, latest: between these nights it happened (95 % confidence);
    at: most likely first night of the new level; ratio: of the new level to the old one, of a single headline against
    the others."""

    names: tuple[str, ...]
    before: int
    at: int
    latest: int
    ratio: Estimate


def level_shifts(headlines: Mapping[str, Nights]) -> list[Shift]:
    """The level shifts of headlines, in order of time. Higher figures are better in all of them, or lower ones."""
    limit = alpha_of_night(len(set().union(*headlines.values())))
    found: dict[tuple[str, int], tuple[str, ...]] = {}  # (name of a row, night) -> the headlines that shifted
    rows = {name: _Row(logs, ()) for name, logs in headlines.items()}
    while True:
        rows = _make_rows(headlines, found, rows)
        clearest: tuple[float, str, int, tuple[str, ...]] = (math.inf, "", 0, ())
        for name, row in rows.items():
            for level in row.levels():
                for p, at, nights in level.shifts():
                    if p < clearest[0] and (shifted := _find_shifted(headlines, name, at, nights)):
                        clearest = (p, name, at, shifted)
        p, name, at, shifted = clearest
        if p > limit / max(1, len(rows)):
            return sorted((_describe(rows[key[0]], key[1], names) for key, names in found.items()), key=lambda s: s.at)
        found[name, at] = shifted


def alpha_of_night(nights: int) -> float:
    """The level of a test after so many nights, if each night is tested.

    Looks mostly repeat each other until the nights have doubled. The k-th doubling has ALPHA / (k (k + 1)), whose sum
    is ALPHA however long a history gets.
    """
    doubling = 1 + int(math.log2(max(1.0, nights / (2 * MIN_NIGHTS))))
    return ALPHA / (doubling * (doubling + 1))


@dataclass(frozen=True)
class _Level:
    """Nights of a row, which may be two levels. correlation: of a night with the next one."""

    logs: Nights
    correlation: float

    @cached_property
    def _sums(self) -> list[float]:
        return [0.0, *accumulate(self.logs.values())]

    @cached_property
    def _squares(self) -> float:
        return math.fsum(log**2 for log in self.logs.values())

    def compare(self, start: int, end: int) -> tuple[Estimate, float]:
        """The nights from the index `start` to `end` against the rest: the ratio, by Student's t for an autoregressive
        process of first order, and the sum of squares within both."""
        n, total = len(self.logs), self._sums[-1]
        inside, part = end - start, self._sums[end] - self._sums[start]
        outside, rest = n - inside, total - part
        squares = max(0.0, self._squares - part**2 / inside - rest**2 / outside)
        variances = _variance_of_mean(inside, self.correlation), _variance_of_mean(outside, self.correlation)
        freedom = n - inside * variances[0] - outside * variances[1]
        error = math.sqrt(max(squares / freedom, _MIN_SCATTER**2) * sum(variances))
        freedom *= (1 - self.correlation**2) / (1 + self.correlation**2)
        return Estimate(min(inside, outside), part / inside - rest / outside, error, freedom), squares

    def shifts(self) -> Iterator[tuple[float, int, Nights]]:
        """The clearest shift until the last night, and the clearest that ended before, of which the edge that has more
        nights beside it is the shift: (p, times the number of shifts; first night of the new level; nights around)."""
        order = [*self.logs]
        n = len(order)
        starts = range(MIN_NIGHTS, n - MIN_NIGHTS + 1)
        ended = [(start, end) for start in starts for end in starts if end - start >= MIN_NIGHTS]
        for shifts in ([(start, n) for start in starts], ended):
            if shifts:
                compared = ((self.compare(*shift)[0], *shift) for shift in shifts)
                ratio, start, end = max(compared, key=lambda shift: abs(shift[0].log) / shift[0].error)
                at, around = (start, order[:end]) if start >= n - end else (end, order[start:])
                yield 2 * len(shifts) * ratio.p(), order[at], {night: self.logs[night] for night in around}


@dataclass(frozen=True)
class _Row:
    """A row to test. cuts: first nights of new levels."""

    logs: Nights
    cuts: Sequence[int]
    correlation: float = _NIGHT_CORRELATION

    def levels(self) -> list[_Level]:
        return [
            _Level({night: log for night, log in self.logs.items() if start <= night < end}, self.correlation)
            for start, end in pairwise((-math.inf, *self.cuts, math.inf))
        ]

    def remove_levels(self, logs: Nights) -> Nights:
        """Other logarithms of the same nights without the mean levels of the row."""
        means = [(level.logs, fmean(level.logs.values())) for level in self.levels() if level.logs]
        return {night: logs[night] - mean for nights, mean in means for night in nights}

    def neighbors(self) -> float:
        """The correlation of nights in a row, by the mean squared differences of neighbors and of every other night,
        without those of the largest step of each level, which may be a shift that is not known yet."""
        squares = [[0.0], [0.0]]
        for level in self.levels():
            logs = [*level.logs.values()]
            steps = [abs(a - b) for a, b in pairwise(logs)]
            largest = steps.index(max(steps)) if steps else 0
            for lag, of in enumerate(squares, 1):
                apart = enumerate(zip(logs, logs[lag:], strict=False))
                of += [(a - b) ** 2 for start, (a, b) in apart if not start <= largest < start + lag]
        return max(0.0, min(_MAX_CORRELATION, fmean(squares[1]) / (fmean(squares[0]) or math.inf) - 1))


def _make_rows(
    headlines: Mapping[str, Nights], found: Mapping[tuple[str, int], Sequence[str]], before: Mapping[str, _Row]
) -> dict[str, _Row]:
    """Each headline against the median of the others, and under the name "" the median of all; one or two headlines
    alone. Known shifts do not count in the medians. before: the rows without the last shift that was found."""
    cuts = {name: sorted({at for (_, at), names in found.items() if name in names}) for name in headlines}
    rows = {name: _Row(before[name].logs, cuts[name]) for name in headlines}
    if len(rows) < MIN_HEADLINES:
        return rows
    rest = {name: row.remove_levels(headlines[name]) for name, row in rows.items()}
    own = {name: [at for at in cuts[name] if (name, at) in found] for name in headlines}
    nights = [replace(row, cuts=own[name]).remove_levels(headlines[name]) for name, row in rows.items()]
    common = {n: median(of[n] for of in nights if n in of) for n in sorted(set().union(*nights))}
    for name, logs in headlines.items():
        others = [of for other, of in rest.items() if other != name]
        relative = {n: log - median([of[n] for of in others if n in of] or [0.0]) for n, log in logs.items()}
        rows[name] = replace(rows[name], logs=relative)
    correlation = median(row.neighbors() for row in rows.values())
    rows = {name: replace(row, correlation=correlation) for name, row in rows.items()}
    return {**rows, "": _Row(common, sorted(at for name, at in found if not name))}


def _find_shifted(headlines: Mapping[str, Nights], name: str, at: int, row: Nights) -> tuple[str, ...]:
    """The headlines with the shift of a row: those that changed by at least half as much themselves. A headline did not
    if only the others did."""

    def change(logs: Nights) -> float:
        sides = [[logs[n] for n in row if n in logs and (n < at) == before] for before in (True, False)]
        return fmean(sides[1]) - fmean(sides[0]) if all(sides) else 0.0

    return tuple(
        one for one in ([name] if name else headlines) if change(headlines[one]) / (change(row) or math.inf) >= 0.5
    )


def _describe(row: _Row, at: int, names: tuple[str, ...]) -> Shift:
    """A shift with the final levels before and after it."""
    before = row.cuts.index(at)
    levels = row.levels()[before : before + 2]
    both = _Level({**levels[0].logs, **levels[1].logs}, row.correlation)
    nights, n = [*both.logs], len(both.logs)
    ratio, least = both.compare(nights.index(at), n)
    # the likelihood is that of Student's t, with the number of uncorrelated nights
    scatter, scale = n * _MIN_SCATTER**2, (n - 2) / 2 * (1 - row.correlation) / (1 + row.correlation)
    squares = [both.compare(start, n)[1] for start in range(1, n)]
    near = [
        start
        for start, within in enumerate(squares, 1)
        if scale * math.log((within + scatter) / (least + scatter)) <= _LIKELIHOOD_RANGE
    ]
    return Shift(names, nights[near[0] - 1], at, nights[near[-1]], ratio)


@lru_cache(10_000)
def _variance_of_mean(n: int, correlation: float) -> float:
    """The variance of the mean of n nights, as a multiple of that of a night (dimensionless)."""
    rest = 1 - correlation
    return ((1 + correlation) / rest - 2 * correlation * (1 - correlation**n) / (n * rest**2)) / n
