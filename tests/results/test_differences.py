"""How sure a difference is: of one pair of samples, of many, and among many comparisons."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from iosweep.results.statistics import Change, change, common_change, holm, pooled

A, B = [98.0, 101.0, 103.0, 99.0], [90.0, 93.0, 91.0, 95.0, 92.0]


def test_without_others_it_is_welchs_test_on_logarithms() -> None:
    found = change(B, A, (None, None))
    assert found is not None
    expected = stats.ttest_ind([math.log(x) for x in B], [math.log(x) for x in A], equal_var=False)
    assert found.p == pytest.approx(float(expected.pvalue))
    low, high = expected.confidence_interval()
    assert found.within() == pytest.approx((math.expm1(low), math.expm1(high)))
    assert found.share < 0


def test_three_alike_values_are_not_quieter_than_their_phase() -> None:
    draw = random.Random(1)
    others = [[draw.lognormvariate(0, 0.05) for _ in range(3)] for _ in range(10)]
    lucky = [1.0, 1.0001, 1.0002]
    noise = pooled([*others, lucky])
    assert noise is not None
    found = change(lucky, [0.95, 0.9501, 0.9502], (noise, noise))
    assert found is not None
    assert found.error >= math.sqrt(2 * noise.variance / 3) * 0.999
    assert found.p > 0.05


@pytest.mark.parametrize(("values", "to"), [([], [1.0]), ([0.0, 1.0], [1.0, 2.0]), ([1.0], [1.0, 2.0])])
def test_without_figures_or_noise_there_is_none(values: list[float], to: list[float]) -> None:
    assert change(values, to, (None, None)) is None


def test_equal_values_do_not_differ_and_others_do() -> None:
    same, other = (change([1.0, 1.0], to, (None, None)) for to in ([1.0, 1.0], [2.0, 2.0]))
    assert same is not None and other is not None
    assert (same.p, other.p) == (1.0, 0.0)
    assert same.within() == (0.0, 0.0)


def test_what_disturbs_rounds_is_not_taken_for_the_noise_of_points() -> None:
    draw = random.Random(3)

    def side(by: float) -> list[dict[object, float]]:
        shocks = [draw.gauss(by, 0.05) for _ in range(4)]
        return [{r: math.exp(shock + draw.gauss(0, 0.001)) for r, shock in enumerate(shocks)} for _ in range(50)]

    found = common_change(list(zip(side(0.0), side(0.0), strict=True)))
    assert found is not None
    assert found.error == pytest.approx(0.05 * math.sqrt(2 / 4), rel=0.6)  # 50 points do not make it smaller
    assert found.freedom <= 6


def test_with_equal_numbers_it_is_welchs_test_of_the_rounds_means() -> None:
    draw = random.Random(4)
    sides = [[[draw.lognormvariate(0, 0.1) for _ in range(5)] for _ in range(3)] for _ in "ab"]
    means = [[sum(math.log(point[r]) for point in side) / 3 for r in range(5)] for side in sides]
    expected = stats.ttest_ind(*means, equal_var=False)
    found = common_change([(dict(enumerate(a)), dict(enumerate(b))) for a, b in zip(*sides, strict=True)])
    assert found is not None
    assert found.p == pytest.approx(float(expected.pvalue))


def test_fewer_than_two_points_have_no_common_change() -> None:
    assert common_change([({1: 1.0, 2: 2.0}, {1: 1.0, 2: 2.0})]) is None
    assert common_change([({1: 1.0}, {1: 1.0, 2: 2.0})] * 3) is None


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize("half", [0.05, 0.02, 0.015])
def test_so_many_more_repetitions_make_the_interval_narrow(half: float) -> None:
    found = Change((5, 5), -0.04, 0.03, 8.0)
    more = found.repetitions(half)
    assert more is not None
    for extra, wide in ((more, False), (more - 1, True)):
        n = 5 + extra
        width = float(stats.t.ppf(0.975, 8 * n / 5)) * 0.03 * math.sqrt(5 / n)
        assert (width > half) == wide or extra < 0


def test_a_difference_at_the_edge_is_not_decided_by_repetitions() -> None:
    assert Change((5, 5), 0.0, 0.03, 8.0).repetitions(0.0) is None
    assert Change((5, 5), 0.0, 0.03, 8.0).repetitions(0.0001) is None
