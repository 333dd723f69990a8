"""Where a climb bends: the first value of the axis that reaches most of the peak, with an interval. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from iosweep.results.ramps import deviation
from iosweep.results.statistics import student_t

#: Share of the peak that the knee reaches.
SHARE = 0.95
#: Draws behind an interval.
_DRAWS = 4000


@dataclass(frozen=True)
class Knee:
    """The knee as a step of a climb, from 0. low, high: its 95 % interval; None with a single repetition of each point.

    peak: the step with the highest figure; last: it is the last one that was measured, so the true peak may be higher.
    """

    step: int
    low: int | None
    high: int | None
    peak: int
    last: bool


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
    found = next(i for i, mean in enumerate(means) if mean >= _plateau(logs, means, peak) + math.log(SHARE))
    low, high = _interval(logs, means) or (None, None)
    return Knee(found, low, high, peak, peak == len(means) - 1)


def _plateau(logs: Sequence[Sequence[float]], means: Sequence[float], peak: int) -> float:
    """The mean of the points that the noise does not tell apart from the highest one, which alone would be too high."""
    found = deviation(logs)
    if found is None:
        return means[peak]
    sd, freedom = found
    half = student_t(freedom) * sd
    alike = [
        (mean, len(values))
        for values, mean in zip(logs, means, strict=True)
        if mean >= means[peak] - half * math.sqrt(1 / len(values) + 1 / len(logs[peak]))
    ]
    return sum(mean * n for mean, n in alike) / sum(n for _, n in alike)


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
