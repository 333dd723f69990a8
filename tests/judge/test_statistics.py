"""Intervals over repetitions, their grades, differences, and what the check `precise` makes of them."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from scipy import stats
from syrupy.assertion import SnapshotAssertion

from iosweep.judge import statistics
from iosweep.judge.agreement import (
    COUNTED,
    Headlines,
    MeasuredOn,
    RepeatedFigure,
    agree,
    agreements,
    intervals,
    precise,
    verdict_columns,
)
from iosweep.judge.statistics import (
    ALPHA,
    LEAST_NIGHTS,
    Noise,
    change,
    common_change,
    grade,
    holm,
    interval,
    pooled,
)
from iosweep.store.record import Finding, Verdict

pytestmark = pytest.mark.unit

A, B = [98.0, 101.0, 103.0, 99.0], [90.0, 93.0, 91.0, 95.0, 92.0]


def lognormal(seed: int, points: int, sd: float, n: int = 5) -> list[list[float]]:
    draw = random.Random(seed)
    return [[100 * draw.lognormvariate(0, sd) for _ in range(n)] for _ in range(points)]


# Intervals


def test_without_two_values_above_zero_there_is_no_interval() -> None:
    for values in ([], [1.0], [0.0, 1.0, 2.0], [-1.0, 1.0, 2.0]):
        assert interval(values) is None, values
    assert grade(None) is None
    assert grade(interval([100.0, 100.0])) is None  # two repetitions have no grade


def test_the_grade_is_how_far_the_interval_reaches() -> None:
    for step, expected in ((0.0, "A"), (0.04, "A"), (0.06, "B"), (0.12, "C"), (0.24, None)):
        assert grade(interval([math.exp(step * x) for x in (-1, -0.5, 0, 0.5, 1)])) == expected, step


def test_the_interval_is_students_on_logarithms() -> None:
    found = interval([math.exp(x) for x in (0.0, 0.01, 0.02, 0.03, 0.04)])
    assert found is not None
    student = 2.776445 * math.sqrt(0.00025) / math.sqrt(5)  # tables: t of 4 degrees of freedom
    assert found.center == pytest.approx(math.exp(0.02))
    assert found.half_width_share == pytest.approx(math.expm1(student), rel=1e-5)
    assert (found.low * found.high) == pytest.approx(found.center**2)


def test_a_point_that_looks_quiet_by_luck_is_not_believed_among_noisy_ones() -> None:
    lucky = [99.0, 100.0, 101.0, 100.0, 100.0]
    points = [lucky, *lognormal(1, 23, 0.10)]
    alone, among = interval(lucky), interval(lucky, pooled(points))
    assert alone and among
    assert grade(alone) == "A"
    assert 0.07 < among.half_width_share < 0.15
    many = lucky * 3  # of more than ten, their own scatter is known
    assert interval(many, pooled(points)) == interval(many)


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


# Differences


def test_without_others_it_is_welchs_test_on_logarithms() -> None:
    found = change(B, A, (None, None))
    assert found is not None
    expected = stats.ttest_ind([math.log(x) for x in B], [math.log(x) for x in A], equal_var=False)
    assert found.p == pytest.approx(float(expected.pvalue))
    low, high = expected.confidence_interval()
    assert found.within() == pytest.approx((math.expm1(low), math.expm1(high)))
    assert found.share < 0


def test_with_equal_numbers_it_is_welchs_test_of_the_rounds_means() -> None:
    draw = random.Random(4)
    sides = [[[draw.lognormvariate(0, 0.1) for _ in range(5)] for _ in range(3)] for _ in "ab"]
    means = [[sum(math.log(point[r]) for point in side) / 3 for r in range(5)] for side in sides]
    expected = stats.ttest_ind(*means, equal_var=False)
    found = common_change([(dict(enumerate(a)), dict(enumerate(b))) for a, b in zip(*sides, strict=True)])
    assert found is not None
    assert found.p == pytest.approx(float(expected.pvalue))


def test_a_single_point_has_no_common_change() -> None:
    assert common_change([({1: 1.0, 2: 2.0}, {1: 1.0, 2: 2.0})]) is None


def test_p_values_of_many_comparisons_are_raised_as_holm_does() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


# Changes of level in rows of nights


def nightly(nights: int, noise: float, seed: int, **losses: float) -> list[float]:
    """Nightly figures around 100; losses: n18=0.05, from night 18 on."""
    draw, level, made = random.Random(seed), 100.0, []
    for night in range(nights):
        level *= 1 - losses.get(f"n{night}", 0.0)
        made.append(level * (1 + noise * draw.gauss(0, 1)))
    return made


def test_a_loss_is_found_with_its_night_and_size() -> None:
    [split] = statistics.level_changes({"a": nightly(30, 0.01, 1, n18=0.05)})["a"]
    assert abs(split.at - 18) <= 1
    low, high = split.change.within()
    assert low < -0.05 < high < 0
    assert split.change.p < ALPHA


def test_two_changes_have_their_nights() -> None:
    splits = statistics.level_changes({"a": nightly(60, 0.01, 2, n20=0.06, n40=-0.06), "b": nightly(60, 0.01, 3)})
    assert [abs(split.at - at) <= 1 for split, at in zip(splits["a"], (20, 40), strict=True)] == [True, True]
    assert [split.change.share > 0 for split in splits["a"]] == [False, True]
    assert splits["b"] == []


def test_few_nights_and_a_night_alone_are_no_change() -> None:
    for nights in range(1, 2 * LEAST_NIGHTS):
        assert statistics.level_changes({"a": [100.0] * (nights - 1) + [1.0]}) == {"a": []}, nights
    figures = nightly(20, 0.01, 4)
    figures[-1] *= 0.5
    assert statistics.level_changes({"a": figures})["a"] == []


# Repetitions that agree, and those that do not


#: Two jobs on nodes of their own.
ELSEWHERE: list[MeasuredOn] = [("n1", "1"), ("n2", "2")]


def found(values: list[float], measured_on: list[MeasuredOn] | None = None) -> Finding:
    return precise(RepeatedFigure(("fio", 1), "rand_read", values, measured_on=measured_on or []), interval(values))


def test_repetitions_that_do_not_repeat_are_found(snapshot: SnapshotAssertion) -> None:
    told = []
    for values, outcome in (
        ([100.0, 100.1, 100.2, 100.1, 100.0], "pass"),
        ([100.0, 105.0, 100.0, 105.0, 100.0], "pass"),
        ([7.2, 63.5, 28.0], "fail"),
        ([100.0, 160.0, 80.0], "fail"),
        ([100.0, 104.0, 98.0], "pass"),
        ([100.0], "not checked"),
        ([100.0, 101.0], "not checked"),
        ([100.0, 0.0, 101.0], "not checked"),
        ([], "not applicable"),
    ):
        assert found(values).outcome == outcome, values
        told.append(f"{values}: {found(values).evidence}")
    # a point may have both kinds, each with a width of its own
    fresh = [100.0, 160.0, 80.0]
    told.append(
        f"fresh: {precise(RepeatedFigure(('fio', 1), 'rand_read', fresh, confirms=True), interval(fresh)).evidence}"
    )
    assert "\n".join(told) == snapshot


def test_repetitions_on_different_nodes_are_not_of_one_thing() -> None:
    assert found([100.0, 101.0, 102.0], ELSEWHERE).outcome == "not checked"
    assert intervals([RepeatedFigure(("fio", 1), "rand_read", [100.0, 101.0, 102.0], measured_on=ELSEWHERE)]) == [None]


def test_repetitions_of_the_same_nodes_or_of_one_job_are_alike() -> None:
    for measured_on, same in (
        ([("n1", None), ("n1", None)], True),
        ([("n1,n2", "1"), ("n2,n1", "2")], True),
        ([("n1", "1"), ("n2", "2")], False),
        ([("n1", "1"), ("n2", "1"), ("n1", "1")], True),  # a job dealt them out
        ([(None, None)], True),
    ):
        assert RepeatedFigure(("fio", 1), "rand_read", measured_on=measured_on).comparable == same, measured_on


def test_noisy_points_of_the_phase_make_few_repetitions_undecided_not_suspect() -> None:
    own = [100.0, 101.0, 100.0]
    wide = interval(own, Noise(0.04, 30))
    assert precise(RepeatedFigure(("fio", 1), "rand_read", own), wide).outcome == "not checked"


def test_neither_fresh_repetitions_nor_those_of_other_nodes_change_the_intervals_of_points() -> None:
    draw = random.Random(3)
    chose = [
        RepeatedFigure(("fio", 1), "rand_read", [draw.lognormvariate(0, 0.02) for _ in range(5)]) for _ in range(6)
    ]
    for more in ({"confirms": True}, {"measured_on": ELSEWHERE}):
        wild = RepeatedFigure(("fio", 1), "rand_read", [1.0, 1.9, 0.6], **more)
        assert intervals([*chose, wild])[:-1] == intervals(chose), more


def judged(*points: tuple[str, list[float], Verdict]) -> dict[str, list[dict[str, Any]]]:
    """The verdict columns of each repetition of some points: (id, figures, verdict without the check)."""
    headlines: Headlines = {}
    for point, values, verdict in points:
        for value in values if verdict in COUNTED else ():
            figure = headlines.setdefault((point, "rand_read", False), RepeatedFigure(("fio", 1), "rand_read"))
            figure.add(value, ("n1", None))
    known = agreements(headlines)
    rows: dict[str, list[dict[str, Any]]] = {}
    for point, values, verdict in points:
        for _ in values:
            row: dict[str, Any] = {"point": point, "phase": "rand_read", **verdict_columns(verdict, (), {})}
            agree(row, known)
            rows.setdefault(f"{point} {verdict}", []).append(row)
    return rows


def test_the_verdict_of_every_repetition_that_counts_says_whether_they_agree() -> None:
    apart, agreeing = judged(
        ("p", [7.2, 63.5, 28.0], "valid"), ("q", [100.0, 101.0, 100.0, 101.0, 100.0], "valid")
    ).values()
    assert [row["verdict"] for row in apart] == ["suspect"] * 3
    assert {row.get("precision_grade") for row in apart} == {None}
    assert {row["checks_failed"] for row in apart} == {1}
    assert [row["verdict"] for row in agreeing] == ["valid"] * 5
    assert {row["precision_grade"] for row in agreeing} == {"A"}
    assert len({row["ci95_half_width_share"] for row in agreeing}) == 1


def test_an_invalid_repetition_has_no_part() -> None:
    good, [wrong] = judged(("p", [100.0, 101.0, 100.0, 101.0, 100.0], "valid"), ("p", [1e9], "invalid")).values()
    assert (wrong["verdict"], wrong["checks_passed"], "precision_grade" in wrong) == ("invalid", 0, False)
    assert {row["precision_grade"] for row in good} == {"A"}
