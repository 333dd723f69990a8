"""Finds what is unsteady in a rate over time: a stall, a drop, a slow start, a rise, a drift, two modes. Pure.

The rule is in docs/report.md. A rate that stays within 20 % is steady; what scatters more is named only if the
scatter has a shape that chance does not make: a level that holds, a line, two groups far apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

#: Seconds of a phase from which its shape is judged; under it only whether it stood still.
JUDGED_S = 10.0
#: A rate under this share of its usual one is none.
STILL = 0.01
#: A standstill counts from this share of the phase, or from these seconds; never under these seconds and so many I/Os.
STALL_SHARE, STALL_S, LEAST_STALL_S, LEAST_STALL_OPS = 0.1, 5.0, 0.2, 20
#: The excursion that is steady, as a share of the mean (SNIA's test specification has the same), and its windows.
EXCURSION, WINDOWS = 0.2, 10
#: I/Os that a window has to have on average.
LEAST_OPS = 20
#: A level has to hold for this share of the windows, differ by so many deviations within the levels, and be on its side
#: of the middle in so many of them.
LEVEL_SHARE, LEVEL_STEPS, LEVEL_CLEAR = 0.15, 4.0, 0.9
#: A slow start is over after this share of the phase.
START_SHARE = 1 / 3
#: A drift explains so much of the variance.
DRIFT_FIT = 0.75
#: Two modes: so many deviations apart, one this much faster, each with this share of the windows.
MODE_STEPS, MODE_RATIO, MODE_SHARE = 6.0, 1.5, 0.2
#: Windows that shapes are looked for in, at most.
_MOST = 60

Words = Callable[[float], str]


class Shape(NamedTuple):
    """What is unsteady: `kind`, and a sentence with its figures. `ratio`: the lower level to the higher one."""

    kind: str
    text: str
    ratio: float


def stall(values: Sequence[float], interval_s: float, ops_per_s: float) -> Shape | None:
    """The standstills, if they count. `ops_per_s`: of the whole phase, or large I/Os look like stalls."""
    moving = [value for value in values if value > 0]
    if not moving or min(values) > STILL * median(moving):
        return None
    usual, whole_s = median(moving), len(values) * interval_s
    mean = math.fsum(values) / len(values)
    runs, length = [], 0
    for value in (*values, math.inf):
        if value <= STILL * usual:
            length += 1
        elif length:
            runs.append(length * interval_s)
            length = 0
    usual_ops = ops_per_s * (usual / mean)
    counted = [run for run in runs if run > LEAST_STALL_S - interval_s / 10 and run * usual_ops >= LEAST_STALL_OPS]
    if not counted:
        return None
    still_s, longest_s = sum(counted), max(counted)
    if still_s < STALL_SHARE * whole_s - interval_s / 10 and longest_s < STALL_S:
        return None
    times = f", the longest time for {_seconds(longest_s)}" if len(counted) > 1 else ""
    return Shape("stall", f"stood still for {_seconds(still_s)} of {_seconds(whole_s)}{times}", 0.0)


def shape(values: Sequence[float], interval_s: float, ops_per_s: float, words: Words) -> Shape | None:
    """The shape of an unsteady rate, None of a steady one or one that only scatters. `words`: a rate as text."""
    mean = math.fsum(values) / len(values)
    most = int(ops_per_s * interval_s * len(values) / LEAST_OPS)
    if mean <= 0 or most < WINDOWS:
        return None
    few, fine = windows(values, WINDOWS), windows(values, min(_MOST, most))
    modes = _modes(windows(values, most), words)  # in windows of a second, a change within one would be a third level
    if max(few) - min(few) <= EXCURSION * mean:
        return modes
    step_s = interval_s * len(values) / len(fine)
    return _drift(few, words) or _level(fine, step_s, words) or modes


def enough(values: Sequence[float], interval_s: float, ops_per_s: float) -> bool:
    """Whether there are I/Os enough to judge the shape."""
    return len(values) >= WINDOWS and ops_per_s * interval_s * len(values) >= LEAST_OPS * WINDOWS


def excursion(values: Sequence[float]) -> float:
    """By how much the means of WINDOWS windows differ, as a share of the mean."""
    few, mean = windows(values, WINDOWS), fmean(values)
    return (max(few) - min(few)) / mean if mean > 0 else 0.0


def windows(values: Sequence[float], number: int) -> list[float]:
    """The means of so many windows of about the same length; the values where there are no more of them."""
    if len(values) <= number:
        return [*values]
    edges = [len(values) * k // number for k in range(number + 1)]
    return [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def _level(values: Sequence[float], step_s: float, words: Words) -> Shape | None:
    """Another level from some moment on: the one that leaves the least distance to the two medians."""
    least = max(2, math.ceil(LEVEL_SHARE * len(values)))
    best: tuple[float, int, float, float] | None = None
    for k in range(least, len(values) - least + 1):
        before, after = median(values[:k]), median(values[k:])
        rest = math.fsum(abs(v - before) for v in values[:k]) + math.fsum(abs(v - after) for v in values[k:])
        if best is None or rest < best[0]:
            best = rest, k, before, after
    if best is None:
        return None
    _, k, before, after = best
    low, high = sorted((before, after))
    if low > (1 - EXCURSION) * high:
        return None
    middle, above = (low + high) / 2, before > after
    clear = min(
        sum((v > middle) == above for v in values[:k]) / k,
        sum((v < middle) == above for v in values[k:]) / (len(values) - k),
    )
    if high - low < LEVEL_STEPS * _within(values[:k], values[k:]) or clear < LEVEL_CLEAR:
        return None
    ratio, at = low / high if high else 1.0, _seconds(k * step_s)
    if above:
        return Shape("drop", f"fell from {words(before)} to {words(after)} after {at}", ratio)
    if k <= START_SHARE * len(values):
        return Shape("ramp", f"started slowly: {words(before)} for {at}, then {words(after)}", ratio)
    return Shape("rise", f"rose from {words(before)} to {words(after)} after {at}", ratio)


def _drift(values: Sequence[float], words: Words) -> Shape | None:
    """A line that explains most of what differs between windows, and changes by more than the steady excursion."""
    number, mean = len(values), fmean(values)
    center = (number - 1) / 2
    spread = math.fsum((k - center) ** 2 for k in range(number))
    slope = math.fsum((k - center) * v for k, v in enumerate(values)) / spread
    total = math.fsum((v - mean) ** 2 for v in values)
    change = slope * (number - 1) / mean
    residual = total - slope**2 * spread
    if abs(change) < EXCURSION or slope**2 * spread < DRIFT_FIT * total or _one_step(values, residual):
        return None
    start, end = mean - slope * center, mean + slope * center
    verb = "rose" if change > 0 else "fell"
    share = abs(end / start - 1) if start > 0 else math.inf
    by = f" by {share:.0%}" if share < 10 else ""
    low, high = sorted((max(0.0, start), end))
    return Shape(
        "drift", f"{verb} steadily{by} over the phase, from {words(max(0.0, start))} to {words(end)}", low / high
    )


def _one_step(values: Sequence[float], residual: float) -> bool:
    """Whether two levels fit better than a line does."""
    for k in range(1, len(values)):
        before, after = fmean(values[:k]), fmean(values[k:])
        if math.fsum((v - (before if n < k else after)) ** 2 for n, v in enumerate(values)) < residual:
            return True
    return False


def _modes(values: Sequence[float], words: Words) -> Shape | None:
    """Two groups of windows that lie far apart, however they follow each other."""
    ranked = sorted(values)
    least = max(2, math.ceil(MODE_SHARE * len(ranked)))
    found: tuple[float, int] | None = None
    for k in range(least, len(ranked) - least + 1):
        gap = ranked[k] - ranked[k - 1]
        if found is None or gap > found[0]:
            found = gap, k
    if found is None:
        return None
    slow, fast = ranked[: found[1]], ranked[found[1] :]
    low, high = fmean(slow), fmean(fast)
    if high < MODE_RATIO * low or high - low < MODE_STEPS * _within(slow, fast):
        return None
    share = len(slow) / len(ranked)
    return Shape(
        "two modes", f"two modes: {words(low)} for {share:.0%} of the time, {words(high)} otherwise", low / high
    )


def _within(*groups: Sequence[float]) -> float:
    """The standard deviation of values around the mean of their own group."""
    means = [(group, fmean(group)) for group in groups]
    return math.sqrt(math.fsum((v - mean) ** 2 for group, mean in means for v in group) / sum(map(len, groups)))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 20 else f"{seconds:.0f} s"
