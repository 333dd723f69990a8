"""Whether the repetitions of a point's phase agree. Pure."""

from __future__ import annotations

from iosweep.judge import statistics
from iosweep.judge.checks.finding import NOT_APPLICABLE, Finding, failed, passed, unchecked
from iosweep.judge.precision import Sample
from iosweep.judge.statistics import Interval
from iosweep.tools import phases
from iosweep.units import human_rate


def precise(sample: Sample, interval: Interval | None) -> Finding:
    """Three or more repetitions agree: their 95 % interval is within 5 % (grade A), 10 % (B) or 20 % (C). No two have
    the same figures to the last digit."""
    number = len(sample.values)
    if not number:
        return NOT_APPLICABLE
    if sample.copies:
        return failed(
            f"{sample.copies + 1} of its {number} repetitions have the same figures: one report, counted again"
        )
    if number < statistics.ENOUGH:
        return unchecked("one repetition" if number == 1 else f"{number} repetitions: at least 3 have an interval")
    if not sample.alike:
        return unchecked("the repetitions ran on different nodes: they are not repetitions of one thing")
    if interval is None:
        return unchecked("a repetition has a figure of zero")
    width = f"{_percent(interval.half_width_share)} (n = {number})"
    if grade := statistics.grade(interval):
        return passed(f"{grade}: {width}")
    if statistics.scattered(sample.values):
        known = phases().get(sample.phase)
        of_bytes = known is not None and known.metric == "bandwidth_bytes_per_s"
        least, most = (human_rate(end(sample.values), of_bytes) for end in (min, max))
        return failed(f"not repeatable: {number}{' fresh' * sample.confirms} repetitions gave {least} to {most}")
    return unchecked(f"too few repetitions to tell how much they scatter: {width}")


def _percent(share: float) -> str:
    return f"± {100 * share:.1f} %" if share < 1 else "more than ± 100 %"
