"""Intervals over repetitions, their grades, and what points of a phase say about each other."""

from __future__ import annotations

import math
import random

import pytest

from iosweep.results import statistics
from iosweep.results.statistics import Noise, grade, interval, pooled, ratio

pytestmark = pytest.mark.unit


def lognormal(seed: int, points: int, sd: float, n: int = 5) -> list[list[float]]:
    draw = random.Random(seed)
    return [[100 * draw.lognormvariate(0, sd) for _ in range(n)] for _ in range(points)]


def test_the_interval_of_a_lone_point_is_students_with_the_upper_bound_of_the_deviation() -> None:
    found = interval([math.exp(x) for x in (0.0, 0.01, 0.02, 0.03, 0.04)])
    assert found is not None
    sd = math.sqrt(0.00025)
    student = 2.776445 * sd / math.sqrt(5)  # tables: t of 4 degrees of freedom, chi-squared of them at 5 %: 0.710723
    assert found.center == pytest.approx(math.exp(0.02))
    assert found.student_share == pytest.approx(math.expm1(student), rel=1e-5)
    assert found.half_width_share == pytest.approx(math.expm1(student * math.sqrt(4 / 0.710723)), rel=1e-5)
    assert (found.low * found.high) == pytest.approx(found.center**2)
    assert found.high / found.center - 1 == pytest.approx(found.half_width_share)


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 1.0, 2.0], [-1.0, 1.0, 2.0]])
def test_without_two_values_above_zero_there_is_none(values: list[float]) -> None:
    assert interval(values) is None
    assert ratio(values, [1.0, 2.0]) is None
    assert grade(interval(values)) is None


@pytest.mark.parametrize(("step", "expected"), [(0.0, "A"), (0.02, "A"), (0.03, "B"), (0.06, "C"), (0.12, None)])
def test_the_grade_is_how_far_the_interval_reaches(step: float, expected: str | None) -> None:
    values = [math.exp(step * x) for x in (-1, -0.5, 0, 0.5, 1)]
    assert grade(interval(values)) == expected


def test_two_repetitions_have_no_grade() -> None:
    assert grade(interval([100.0, 100.0])) is None


def test_a_point_that_looks_quiet_by_luck_is_not_believed_among_noisy_ones() -> None:
    lucky = [99.0, 100.0, 101.0, 100.0, 100.0]
    points = [lucky, *lognormal(1, 23, 0.10)]
    alone, among = interval(lucky), interval(lucky, pooled(points))
    assert alone and among
    assert grade(alone) == "A"
    assert 0.07 < among.half_width_share < 0.15


def test_quiet_points_confirm_each_other() -> None:
    points = lognormal(2, 24, 0.02)
    noise = pooled(points)
    assert noise and math.sqrt(noise.variance) == pytest.approx(0.02, rel=0.2)
    widths = [(interval(p, noise), interval(p)) for p in points]
    assert all(a and b and a.half_width_share < b.half_width_share for a, b in widths)
    assert {grade(a) for a, _ in widths} == {"A"}


def test_an_interval_is_never_narrower_than_students() -> None:
    points = [*lognormal(3, 23, 0.01), [60.0, 100.0, 140.0, 90.0, 120.0]]
    noise = pooled(points)
    for point in points:
        found = interval(point, noise)
        assert found and found.half_width_share >= found.student_share
    assert grade(interval(points[-1], noise)) is None


def test_unlike_points_say_little_about_each_other() -> None:
    alike, unlike = pooled(lognormal(4, 24, 0.05)), pooled([*lognormal(4, 12, 0.01), *lognormal(5, 12, 0.2)])
    assert alike and unlike
    assert unlike.freedom < 3 < 20 < alike.freedom


@pytest.mark.parametrize(
    "points", [[], [[1.0, 2.0]], [[1.0], [2.0]], [[1.0, 1.0], [2.0, 2.0]], [[0.0, 1.0], [1.0, 2.0]]]
)
def test_noise_needs_two_points_that_scatter(points: list[list[float]]) -> None:
    assert pooled(points) is None


def test_identical_repetitions_are_as_good_as_the_others_allow() -> None:
    noise = pooled([[5.0] * 5, *lognormal(6, 10, 0.05)])
    assert noise is not None
    found = interval([5.0] * 5, noise)
    assert found and found.student_share == 0.0 < found.half_width_share
    exact = interval([5.0] * 5)
    assert exact and exact.half_width_share == 0.0


def test_a_ratio_tells_two_points_apart_or_does_not() -> None:
    slow, fast = lognormal(7, 2, 0.02)
    noise = Noise(0.0004, math.inf, 100)
    same, twice = ratio(fast, slow, noise), ratio([2 * x for x in fast], slow, noise)
    assert same and not same.excludes(1)
    assert twice and twice.excludes(1) and twice.low < 2 < twice.high
    assert ratio([1.0, 1.0], [2.0, 2.0]) == statistics.Interval(2, 0.5, 0.5, 0.5, 0.0, 0.0)


def test_figures_that_are_further_apart_than_floats_reach() -> None:
    """As a hostile table may have them: the report is made all the same."""
    found = ratio([9e18, 8e18, 9e18], [5e-324, 1e-300, 5e-324])
    assert found is not None and math.isfinite(found.high) and found.low > 0
    assert interval([5e-324, 1e-300, 5e-324]) is not None
