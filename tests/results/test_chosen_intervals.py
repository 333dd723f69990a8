"""Intervals of the best of several, and how many repetitions would exclude a value."""

import math

import pytest
from scipy.special import stdtrit

from iosweep.results import statistics

VALUES = [0.95, 1.0, 1.05, 1.02, 0.98]
ALONE = statistics.interval(VALUES)
assert ALONE is not None


def test_the_best_of_several_has_a_wider_interval() -> None:
    one, eight = (statistics.of_best(ALONE, alike) for alike in (1, 8))
    assert one.half_width_share == pytest.approx(ALONE.half_width_share)
    wider = math.log1p(eight.half_width_share) / math.log1p(one.half_width_share)
    assert wider == pytest.approx(stdtrit(4, 1 - 0.025 / 8) / stdtrit(4, 1 - 0.025))
    assert (eight.n, eight.center) == (one.n, pytest.approx(one.center))


def test_more_repetitions_exclude_what_is_nearer() -> None:
    numbers = [statistics.enough(ALONE, ALONE.center * share) for share in (0.9, 0.95, 0.97, 0.99)]
    known = [number for number in numbers if number is not None]
    assert len(known) == 4
    assert known == sorted(known)
    assert known[0] < known[-1]
    assert statistics.enough(ALONE, ALONE.center * 1.00001) is None
    assert statistics.enough(ALONE, ALONE.center * 0.95, alike=8) > known[1]  # type: ignore[operator]


def test_as_many_of_the_same_scatter_exclude_it() -> None:
    value = ALONE.center * 0.95
    needed = statistics.enough(ALONE, value)
    assert needed is not None
    scatter = [math.log(one / ALONE.center) for one in VALUES]
    logs = [scatter[i % len(scatter)] for i in range(needed)]
    mean = sum(logs) / needed
    # the same center and deviation of so many
    factor = math.sqrt((sum(x * x for x in scatter) / 4) / (sum((x - mean) ** 2 for x in logs) / (needed - 1)))
    found = statistics.interval([ALONE.center * math.exp((x - mean) * factor) for x in logs])
    assert found is not None
    assert found.excludes(value)
