"""Intervals over repetitions, their grades, and what points of a phase say about each other."""

from __future__ import annotations

import math
import random

import pytest

from iosweep.results.statistics import between, grade, interval, pooled

pytestmark = pytest.mark.unit


def lognormal(seed: int, points: int, sd: float, n: int = 5) -> list[list[float]]:
    draw = random.Random(seed)
    return [[100 * draw.lognormvariate(0, sd) for _ in range(n)] for _ in range(points)]


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 1.0, 2.0], [-1.0, 1.0, 2.0]])
def test_without_two_values_above_zero_there_is_none(values: list[float]) -> None:
    assert interval(values) is None
    assert grade(interval(values)) is None


@pytest.mark.parametrize(("step", "expected"), [(0.0, "A"), (0.04, "A"), (0.06, "B"), (0.12, "C"), (0.24, None)])
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
    many = lucky * 3  # of more than ten, their own scatter is known
    assert interval(many, pooled(points)) == interval(many)


@pytest.mark.parametrize(
    "points", [[], [[1.0, 2.0]], [[1.0], [2.0]], [[1.0, 1.0], [2.0, 2.0]], [[0.0, 1.0], [1.0, 2.0]]]
)
def test_noise_needs_two_points_that_scatter(points: list[list[float]]) -> None:
    assert pooled(points) is None


def test_the_interval_is_students_on_logarithms() -> None:
    found = interval([math.exp(x) for x in (0.0, 0.01, 0.02, 0.03, 0.04)])
    assert found is not None
    student = 2.776445 * math.sqrt(0.00025) / math.sqrt(5)  # tables: t of 4 degrees of freedom
    assert found.center == pytest.approx(math.exp(0.02))
    assert found.half_width_share == pytest.approx(math.expm1(student), rel=1e-5)
    assert (found.low * found.high) == pytest.approx(found.center**2)


def test_other_points_never_narrow_an_interval() -> None:
    points = [*lognormal(3, 23, 0.01), [60.0, 100.0, 140.0, 90.0, 120.0]]
    noise = pooled(points)
    for point in points:
        found, alone = interval(point, noise), interval(point)
        assert found and alone and found.half_width_share >= alone.half_width_share
    assert grade(interval(points[-1], noise)) is None


def test_one_noisy_point_does_not_set_the_noise_of_its_phase() -> None:
    quiet = lognormal(4, 8, 0.001)
    with_one, without = pooled([*quiet, [60.0, 100.0, 140.0, 90.0, 120.0]]), pooled(quiet)
    assert with_one and without
    assert with_one.variance < 2 * without.variance


def test_the_usual_scatter_is_that_of_the_points() -> None:
    noise = pooled(lognormal(2, 200, 0.02, n=3))
    assert noise and math.sqrt(noise.variance) == pytest.approx(0.02, rel=0.1)


def test_a_ratio_tells_two_points_apart_or_does_not() -> None:
    slow, fast = (interval(values) for values in lognormal(7, 2, 0.02))
    twice = interval([200.0, 202.0, 198.0, 201.0, 199.0])
    assert slow and fast and twice
    assert not between(fast, slow).excludes(1)
    apart = between(twice, slow)
    assert apart.excludes(1) and apart.low < 2 < apart.high


def test_figures_that_are_further_apart_than_floats_reach() -> None:
    """As a damaged table may have them: the report is made all the same."""
    high, low = interval([9e18, 8e18, 9e18]), interval([5e-324, 1e-300, 5e-324])
    assert high and low
    found = between(high, low)
    assert math.isfinite(found.high) and found.low > 0


def test_sure_intervals_hold_the_figure() -> None:
    """A small version of benchmarks/coverage.py: 95 % of the intervals of three to five repetitions."""
    draw, inside, count = random.Random(8), 0, 0
    for _ in range(300):
        points = [[draw.lognormvariate(0, 0.05) for _ in range(draw.choice((3, 5)))] for _ in range(6)]
        noise = pooled(points)
        for point in points:
            found = interval(point, noise)
            assert found
            inside, count = inside + (not found.excludes(1.0)), count + 1
    assert inside / count >= 0.95
