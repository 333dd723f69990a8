"""Where a climb bends: the first value of the axis that reaches most of the peak, with an interval; and which steps are
so far below it that they cannot be this value. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from iosweep.judge.statistics import student_t

#: Share of the peak that the knee reaches.
SHARE = 0.95
#: A step has less than this share of the peak where it is far below. Single repetitions say nothing of the noise; as
#: soon as it is known, it decides as well.
FAR_SHARE = 0.75
#: Draws behind an interval.
_DRAWS = 4000


@dataclass(frozen=True)
class Knee:
    """The knee as a step of a climb, from 0. low, high: its 95 % interval; None with a single repetition of each point.

    peak: the step with the highest figure.
    """

    step: int
    low: int | None
    high: int | None
    peak: int


def knee(steps: Sequence[Sequence[float]]) -> Knee | None:
    """The knee of the figures of a climb's points, in the order of the axis. None with fewer than two points, or where
    a figure is not above zero.

    The interval is fiducial: true means are drawn as Student's t on logarithms, with the deviation that all points have
    in common, and the knee of each draw is found. Draws are seeded, so the same figures give the same interval.
    """
    if len(steps) < 2 or any(not values or min(values) <= 0 for values in steps):
        return None
    logs = [[math.log(value) for value in values] for values in steps]
    means = [fmean(values) for values in logs]
    peak = max(range(len(means)), key=means.__getitem__)
    level, _ = _plateau(logs, means, peak)
    found = next(i for i, mean in enumerate(means) if mean >= level + math.log(SHARE))
    low, high = _interval(logs, means) or (None, None)
    return Knee(found, low, high, peak)


def far_below(steps: Sequence[Sequence[float]]) -> list[bool]:
    """Whether each step of a climb is below SHARE of the peak beyond doubt: its further repetitions decide nothing.

    It has less than FAR_SHARE of the peak, and what it lacks is more than the whole 95 % interval of the difference,
    which is twice what noise explains. Figures that are not above zero say nothing.
    """
    logs = [[math.log(value) for value in values if value > 0] for values in steps]
    known = [values for values in logs if values]
    if not known:
        return [False] * len(steps)
    means = [fmean(values) for values in known]
    level, number = _plateau(known, means, max(range(len(known)), key=means.__getitem__))
    sd, freedom = deviation(known) or (0.0, 1)
    width = 2 * student_t(freedom) * sd

    def below(values: Sequence[float]) -> bool:
        noise = width * math.sqrt(1 / len(values) + 1 / number)
        return fmean(values) - level < min(math.log(FAR_SHARE), math.log(SHARE) - noise)

    return [bool(values) and below(values) for values in logs]


def deviation(logs: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """(the standard deviation that several steps have in common, its degrees of freedom); None where no step has two
    repetitions."""
    if not (freedom := sum(len(values) - 1 for values in logs)):
        return None
    return math.sqrt(sum((value - fmean(values)) ** 2 for values in logs for value in values) / freedom), freedom


def _plateau(logs: Sequence[Sequence[float]], means: Sequence[float], peak: int) -> tuple[float, int]:
    """The mean of the points that the noise does not tell apart from the highest one, which alone would be too high;
    and the number of its repetitions."""
    found = deviation(logs)
    if found is None:
        return means[peak], len(logs[peak])
    sd, freedom = found
    half = student_t(freedom) * sd
    alike = [
        (mean, len(values))
        for values, mean in zip(logs, means, strict=True)
        if mean >= means[peak] - half * math.sqrt(1 / len(values) + 1 / len(logs[peak]))
    ]
    number = sum(n for _, n in alike)
    return sum(mean * n for mean, n in alike) / number, number


def _interval(logs: Sequence[Sequence[float]], means: Sequence[float]) -> tuple[int, int] | None:
    found = deviation(logs)
    if found is None:
        return None
    import numpy  # late: the runner does without

    sd, freedom = found
    draw = numpy.random.default_rng(0)
    deviations = sd * numpy.sqrt(freedom / draw.chisquare(freedom, _DRAWS))[:, None]
    errors = draw.standard_normal((_DRAWS, len(means))) / numpy.sqrt([len(values) for values in logs])
    drawn = numpy.array(means) + deviations * errors
    knees = numpy.argmax(drawn >= drawn.max(axis=1, keepdims=True) + math.log(SHARE), axis=1)
    low, high = numpy.quantile(knees, [0.025, 0.975], method="inverted_cdf")
    return int(low), int(high)
