"""Intervals over repetitions, their grades, differences, and what the check `precise` makes of them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from scipy import stats
from syrupy.assertion import SnapshotAssertion

from iosweep.judge import statistics
from iosweep.judge.agreement import (
    Headlines,
    MeasuredOn,
    RepeatedFigure,
    agree,
    agreements,
    estimates,
    precise,
    verdict_columns,
)
from iosweep.judge.statistics import (
    ALPHA,
    MIN_NIGHTS,
    Estimate,
    Noise,
    Round,
    Sample,
    alpha_of_look,
    alpha_of_night,
    estimate,
    grade,
    holm,
    level_shifts,
    make_sample,
    pool,
    ratio,
    ratio_of_rounds,
    ratio_of_sessions,
    remove_rounds,
    repetitions_to_exclude,
)
from iosweep.store.record import Finding, Verdict

pytestmark = pytest.mark.unit

A, B = [98.0, 101.0, 103.0, 99.0], [90.0, 93.0, 91.0, 95.0, 92.0]


def rounds(values: Sequence[float], session: str | None = None) -> dict[Round, float]:
    return {(session, number): value for number, value in enumerate(values, 1)}


def sample(values: Sequence[float], session: str | None = None) -> Sample:
    made = make_sample(rounds(values, session))
    assert made
    return made


def alone(values: Sequence[float], noise: Noise | None = None) -> Estimate:
    found = estimate(sample(values), noise)
    assert found
    return found


def lognormal(seed: int, points: int, sd: float, n: int = 5) -> list[list[float]]:
    draw = random.Random(seed)
    return [[100 * draw.lognormvariate(0, sd) for _ in range(n)] for _ in range(points)]


# Figures


def test_without_two_values_above_zero_there_is_no_estimate() -> None:
    for values in ([], [0.0, 1.0, 2.0], [-1.0, 1.0, 2.0]):
        assert make_sample(rounds(values)) is None, values
    assert estimate(sample([1.0])) is None
    assert grade(None) is None
    assert grade(alone([100.0, 100.0])) is None  # two repetitions have no grade


def test_the_grade_is_how_far_the_interval_reaches() -> None:
    for step, expected in ((0.0, "A"), (0.04, "A"), (0.06, "B"), (0.12, "C"), (0.24, None)):
        assert grade(alone([math.exp(step * x) for x in (-1, -0.5, 0, 0.5, 1)])) == expected, step


def test_the_interval_is_students_on_logarithms() -> None:
    found = alone([math.exp(x) for x in (0.0, 0.01, 0.02, 0.03, 0.04)])
    student = 2.776445 * math.sqrt(0.00025) / math.sqrt(5)  # tables: t of 4 degrees of freedom
    assert found.center == pytest.approx(math.exp(0.02))
    assert found.half_width_share == pytest.approx(math.expm1(student), rel=1e-5)
    assert (found.low * found.high) == pytest.approx(found.center**2)


def test_an_interval_that_spans_more_than_a_factor_of_one_and_a_half_tells_nothing() -> None:
    assert [alone([100.0, 100 * factor, 100 / factor]).tells for factor in (1.1, 1.3)] == [True, False]


def test_a_point_that_looks_quiet_by_luck_is_not_believed_among_noisy_ones() -> None:
    lucky = [99.0, 100.0, 101.0, 100.0, 100.0]
    noise = pool(map(sample, [lucky, *lognormal(1, 23, 0.10)]))
    assert grade(alone(lucky)) == "A"
    assert 0.07 < alone(lucky, noise).half_width_share < 0.15
    # of more than ten, their own scatter is known; and no interval gets narrower
    for own in (lucky * 3, [60.0, 100.0, 140.0, 90.0, 120.0]):
        assert alone(own, noise) == alone(own)


def test_one_noisy_point_does_not_set_the_noise_of_its_phase() -> None:
    quiet = lognormal(4, 8, 0.001)
    with_one, without = (pool(map(sample, own)) for own in ([*quiet, [60.0, 100.0, 140.0, 90.0, 120.0]], quiet))
    assert with_one and without
    assert with_one.variance < 2 * without.variance


def test_sessions_that_differ_by_more_than_their_rounds_set_the_interval() -> None:
    quiet = [100.0, 101.0, 99.0]
    apart, together = ({**sample(quiet, "a"), **sample([by * x for x in quiet], "b")} for by in (1.3, 1.0))
    two, three = estimate(apart), estimate({**apart, **sample(quiet, "c")})
    alike = estimate(together)
    assert two and three and alike
    assert (two.error, two.freedom) == (pytest.approx(math.log(1.3) / 2), 5)
    assert (three.error, three.freedom) == (pytest.approx(math.log(1.3) / 3), 2)
    assert alike.error < 0.01
    # equal sessions of rounds that differ prove nothing
    wide = {key: log for session in "abc" for key, log in sample([80.0, 100.0, 125.0], session).items()}
    found, of_rounds = estimate(wide), estimate({(None, at): log for at, log in enumerate(wide.values())})
    assert found and of_rounds and found.half_width_share >= of_rounds.half_width_share


# Ratios


def test_points_of_a_campaign_are_compared_round_by_round() -> None:
    disturbed = [1.0, 0.8, 1.1, 0.9, 1.3]
    a, b = ([100 * by * r for by, r in zip(disturbed, own, strict=True)] for own in ([1.0] * 5, [0.9] * 5))
    found = ratio([(sample(b), sample(a))])
    assert found
    assert found.center == pytest.approx(0.9)
    assert found.half_width_share < 0.01
    expected = stats.ttest_rel([math.log(x) for x in A], [math.log(x) for x in B[:4]])
    paired = ratio([(sample(A), sample(B))])  # the fifth round has no partner
    assert paired and paired.p() == pytest.approx(float(expected.pvalue))


def test_without_common_rounds_it_is_welchs_test_on_logarithms() -> None:
    found = ratio([(sample(B, "job 2"), sample(A, "job 1"))])
    expected = stats.ttest_ind([math.log(x) for x in B], [math.log(x) for x in A], equal_var=False)
    assert found and found == ratio_of_rounds([(sample(B), sample(A))])
    few = {(None, number + 2): log for (_, number), log in sample(A).items()}  # two of four rounds
    assert ratio([(sample(B[:4]), few)]) == ratio_of_rounds([(sample(B[:4]), few)])
    assert found.p() == pytest.approx(float(expected.pvalue))
    low, high = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.share < 0


def test_what_disturbs_a_round_is_removed_and_the_scatter_of_each_point_stays() -> None:
    draw = random.Random(6)
    effects = [draw.gauss(0, 0.2) for _ in range(40)]
    own = [*([0.01] * 7), 0.05]
    points: list[Sample] = [
        {(None, r): k + effects[r] + draw.gauss(0, sd) for r in range(40)} for k, sd in enumerate(own)
    ]
    for before, after, sd in zip(points, remove_rounds(points), own, strict=True):
        logs = [*after.values()]
        assert sum(logs) == pytest.approx(sum(before.values()))
        assert math.sqrt(statistics.variance(logs)) == pytest.approx(sd, rel=0.4)
    assert remove_rounds(points[:3]) == [pytest.approx(point) for point in points[:3]]  # too few to know the effects


def test_a_group_is_compared_by_the_means_of_its_rounds() -> None:
    draw = random.Random(4)
    sides = [[[draw.lognormvariate(0, 0.1) for _ in range(5)] for _ in range(3)] for _ in "ab"]
    means = [[sum(math.log(point[r]) for point in side) / 3 for r in range(5)] for side in sides]
    pairs = [(sample(a), sample(b)) for a, b in zip(*sides, strict=True)]
    paired, apart = ratio(pairs), ratio_of_rounds(pairs)
    assert paired and apart
    assert paired.p() == pytest.approx(float(stats.ttest_rel(*means).pvalue))
    assert apart.p() == pytest.approx(float(stats.ttest_ind(*means, equal_var=False).pvalue))


def test_campaigns_are_compared_by_their_sessions() -> None:
    def campaign(*levels: float) -> Sample:
        return {
            key: log for k, level in enumerate(levels) for key, log in sample([level * x for x in A], f"{k}").items()
        }

    found = ratio_of_sessions([(campaign(0.9, 1.0, 1.1), campaign(1.2, 1.1))])
    expected = stats.ttest_ind([math.log(x) for x in (0.9, 1.0, 1.1)], [math.log(x) for x in (1.2, 1.1)])
    assert found and found.p() == pytest.approx(float(expected.pvalue))
    assert ratio_of_sessions([(campaign(1.0, 1.1), campaign(1.0))]) is None


# Many comparisons, several looks


def test_p_values_of_many_comparisons_are_raised_as_holm_does() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_looks_spend_their_risk() -> None:
    assert alpha_of_look(1) == ALPHA
    assert sum(alpha_of_look(look) / 2 for look in range(1, 50)) <= ALPHA  # a criterion is wrong on one side


def test_the_repetitions_that_decide_exclude_the_value() -> None:
    found = alone([100.0, 104.0, 96.0, 102.0])
    needed = repetitions_to_exclude(99.0, found)
    assert needed and needed > 4
    larger = repetitions_to_exclude(99.0, found.at(ALPHA / 20))
    assert larger and larger > needed
    assert repetitions_to_exclude(found.center * 1.00001, found) is None


def test_a_change_of_the_smallest_size_is_found_in_four_of_five_cases() -> None:
    own = alone(lognormal(5, 1, 0.02, 15)[0])
    changed = stats.nct(own.freedom, math.log1p(own.smallest()) / own.error)
    assert changed.sf(stats.t(own.freedom).isf(ALPHA / 2)) == pytest.approx(0.8, abs=0.02)


# Changes of level in rows of nights


def nightly(
    headlines: int, nights: int, seed: int = 0, session: float = 0.0, **losses: float
) -> dict[str, dict[int, float]]:
    """Headlines "0", "1" ... with noise of 1 %, and a noise that they share; losses: n18=0.05, of "0" from night 18 on;
    all18=0.05: of all."""
    draw = random.Random(seed)
    shared = [session * draw.gauss(0, 1) for _ in range(nights)]
    rows = {
        str(row): {night: shared[night] + 0.01 * draw.gauss(0, 1) for night in range(nights)}
        for row in range(headlines)
    }
    for key, loss in losses.items():
        for row in ["0"] if key.startswith("n") else rows:
            for night in range(int(key.lstrip("nal")), nights):
                rows[row][night] += math.log1p(-loss)
    return rows


def test_a_loss_is_found_in_the_noise_of_the_nights_with_its_range_and_size() -> None:
    for headlines, session in ((1, 0.0), (2, 0.0), (3, 0.05), (8, 0.05)):
        [shift] = level_shifts(nightly(headlines, 30, 1, session, n18=0.1))
        assert shift.names == ("0",), headlines
        assert shift.before < 18 <= shift.latest <= shift.before + 3, shift
        assert shift.ratio.low < 0.9 < shift.ratio.high < 0.95


def test_a_loss_of_all_headlines_is_one_shift() -> None:
    [shift] = level_shifts(nightly(8, 30, 2, 0.01, all20=0.1))
    assert (len(shift.names), abs(shift.at - 20) <= 1) == (8, True)
    [shift] = level_shifts({**nightly(3, 30, 2, 0.01), **{f"x{k}": v for k, v in nightly(5, 30, 3, all20=0.1).items()}})
    assert shift.names == ("x0", "x1", "x2", "x3", "x4")


def test_a_loss_of_half_of_the_headlines_does_not_hide_as_nights_that_are_alike() -> None:
    found = 0
    for seed in range(20):
        rows = nightly(6, 14, seed, 0.02)
        for name in "345":
            rows[name] |= {night: log - 0.2 for night, log in rows[name].items() if night >= 7}
        found += {name for shift in level_shifts(rows) for name in shift.names} >= {*"345"}
    assert found >= 16


def test_a_headline_that_lacks_nights_is_tested_by_the_others() -> None:
    rows = nightly(4, 30, 4, 0.05, n15=0.2)
    rows["0"] = {night: log for night, log in rows["0"].items() if night % 3}
    [shift] = level_shifts(rows)
    assert (shift.names, shift.before < 16 <= shift.latest) == (("0",), True)


def test_a_loss_that_was_repaired_is_still_found() -> None:
    shifts = level_shifts(nightly(8, 36, 6, 0.05, n20=0.1, n26=-1 / 9))
    assert [(shift.names, abs(shift.at - at) <= 1) for shift, at in zip(shifts, (20, 26), strict=True)] == [
        (("0",), True)
    ] * 2


def test_few_nights_and_a_night_alone_are_no_shift() -> None:
    for nights in range(2 * MIN_NIGHTS):
        assert level_shifts({"a": {night: -9.0 * (night == nights - 1) for night in range(nights)}}) == [], nights
    rows = nightly(4, 20, 5)
    rows["0"][19] -= 1
    assert level_shifts(rows) == []
    assert level_shifts({}) == []


def test_all_looks_together_have_the_level_of_one() -> None:
    spent = {alpha_of_night(nights) for nights in range(2 * MIN_NIGHTS, 100_000)}
    assert sum(spent) < ALPHA
    assert alpha_of_night(2 * MIN_NIGHTS) == ALPHA / 2


# Repetitions that agree, and those that do not


#: Two jobs on nodes of their own.
ELSEWHERE: list[MeasuredOn] = [("n1", "1", 1), ("n2", "2", 1)]


def found(values: list[float], measured_on: list[MeasuredOn] | None = None) -> Finding:
    return judge(figure(values, measured_on=measured_on or []))


def judge(of: RepeatedFigure) -> Finding:
    return precise(of, estimates([of])[0])


def figure(values: Sequence[float], **facts: Any) -> RepeatedFigure:
    return RepeatedFigure(("fio", 1), "rand_read", rounds(values), **facts)


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
    told.append(f"fresh: {judge(figure(fresh, confirms=True)).evidence}")
    assert "\n".join(told) == snapshot


def test_repetitions_of_the_same_nodes_or_of_one_job_are_alike() -> None:
    for measured_on, same in (
        ([("n1", None, 1), ("n1", None, 1)], True),
        ([("n1,n2", "1", 1), ("n2,n1", "2", 1)], True),
        (ELSEWHERE, False),
        ([("n1", "1", 1), ("n2", "1", 1), ("n1", "1", 1)], True),  # a job dealt them out
        ([("n1", "1", 1), ("n2", "2", 2)], True),  # what nodes differ by is part of the scatter of sessions
        ([("n1", "1", 1), ("n2", "2", 2), ("n3", "3", 2)], False),
        ([(None, None, None)], True),
    ):
        assert figure([], measured_on=measured_on).comparable == same, measured_on


def test_noisy_points_of_the_phase_make_few_repetitions_undecided_not_suspect() -> None:
    own = [100.0, 101.0, 100.0]
    assert precise(figure(own), alone(own, Noise(0.04, 30))).outcome == "not checked"


def test_neither_fresh_repetitions_nor_those_of_other_nodes_change_the_intervals_of_points() -> None:
    draw = random.Random(3)
    chose = [figure([draw.lognormvariate(0, 0.02) for _ in range(5)]) for _ in range(6)]
    for more in ({"confirms": True}, {"measured_on": ELSEWHERE}):
        wild = figure([1.0, 1.9, 0.6], **more)
        assert estimates([*chose, wild])[:-1] == estimates(chose), more


def judged(**points: list[float]) -> list[list[dict[str, Any]]]:
    """The verdict columns of each repetition of points with these figures, and of an invalid one."""
    headlines: Headlines = {}
    for point, values in points.items():
        for number, value in enumerate(values):
            headlines.setdefault((point, "rand_read", False), figure([])).add((None, number), value, ("n1", None))
    known, rows = agreements(headlines), []
    for point, values in points.items():
        verdicts: list[Verdict] = ["valid"] * len(values) + ["invalid"]
        rows.append([{"point": point, "phase": "rand_read", **verdict_columns(v, (), {})} for v in verdicts])
        for row in rows[-1]:
            agree(row, known)
    return rows


def test_the_verdict_of_every_repetition_that_counts_says_whether_they_agree() -> None:
    (*apart, invalid), agreeing = judged(p=[7.2, 63.5, 28.0], q=[100.0, 101.0, 100.0, 101.0, 100.0])
    assert [row["verdict"] for row in apart] == ["suspect"] * 3
    assert {row.get("precision_grade") for row in apart} == {None}
    assert {row["checks_failed"] for row in apart} == {1}
    assert (invalid["verdict"], invalid["checks_failed"]) == ("invalid", 0)
    assert [row["verdict"] for row in agreeing[:5]] == ["valid"] * 5
    assert {row["precision_grade"] for row in agreeing[:5]} == {"A"}
    assert len({row["ci95_half_width_share"] for row in agreeing[:5]}) == 1
