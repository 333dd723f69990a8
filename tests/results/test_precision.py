"""Repetitions that agree, and those that do not: the check `precise`, and what merge writes of it."""

from __future__ import annotations

import random

import pytest

from iosweep.results.checks import CHECKS
from iosweep.results.checks.finding import NOT_APPLICABLE, Finding
from iosweep.results.checks.repetitions import precise
from iosweep.results.judging import Row, agreements, compare_row, headline
from iosweep.results.precision import Sample, alike, intervals
from iosweep.results.statistics import Noise, interval

pytestmark = pytest.mark.unit


def found(values: list[float], alike: bool = True) -> Finding:
    sample = Sample(("fio", 1), "rand_read", values, alike)
    return precise(sample, interval(values))


@pytest.mark.parametrize(
    ("values", "outcome", "evidence"),
    [
        ([100.0, 100.1, 100.2, 100.1, 100.0], "pass", "A: ± 0.1 % (n = 5)"),
        ([100.0, 103.0, 100.0, 103.0, 100.0], "pass", "A: ± 2.0 % (n = 5)"),
        ([100.0, 105.0, 100.0, 105.0, 100.0], "pass", "A: ± 3.4 % (n = 5)"),
        ([7.2, 63.5, 28.0], "fail", "not repeatable: more than ± 100 % over its 3 repetitions"),
        ([100.0, 160.0, 80.0], "fail", "not repeatable: more than ± 100 % over its 3 repetitions"),
        ([100.0, 104.0, 98.0], "pass", "B: ± 7.8 % (n = 3)"),
        ([100.0], "not checked", "one repetition"),
        ([100.0, 101.0], "not checked", "2 repetitions: at least 3 have an interval"),
        ([100.0, 0.0, 101.0], "not checked", "a repetition has a figure of zero"),
        ([], "not applicable", ""),
    ],
)
def test_what_repetitions_show(values: list[float], outcome: str, evidence: str) -> None:
    assert found(values)[:2] == (outcome, evidence)


def test_fresh_repetitions_are_named_in_the_reason() -> None:
    """A point has both, each with a width of its own: without a word they contradict each other."""
    values = [100.0, 160.0, 80.0]
    of_fresh = precise(Sample(("fio", 1), "rand_read", values, confirms=True), interval(values))
    assert of_fresh.evidence == "not repeatable: more than ± 100 % over its 3 fresh repetitions"


def test_repetitions_on_different_nodes_are_not_of_one_thing() -> None:
    assert found([100.0, 101.0, 102.0], alike=False).outcome == "not checked"
    assert intervals([Sample(("fio", 1), "rand_read", [100.0, 101.0, 102.0], alike=False)]) == [None]


@pytest.mark.parametrize(
    ("ran", "same"),
    [
        ([("n1", None), ("n1", None)], True),
        ([("n1,n2", "1"), ("n2,n1", "2")], True),
        ([("n1", "1"), ("n2", "2")], False),
        ([("n1", "1"), ("n2", "1"), ("n1", "1")], True),  # a job dealt them out
        ([(None, None)], True),
    ],
)
def test_draws_of_the_same_thing(ran: list[tuple[str | None, str | None]], same: bool) -> None:
    assert alike(ran) == same


def test_noisy_points_of_the_phase_make_few_repetitions_undecided_not_suspect() -> None:
    own = [100.0, 101.0, 100.0]
    wide = interval(own, Noise(0.04, 30))
    assert precise(Sample(("fio", 1), "rand_read", own), wide).outcome == "not checked"


def test_fresh_repetitions_do_not_change_the_intervals_of_those_that_chose() -> None:
    """Or a point that was repeated until it was narrow might be wide afterwards, and be repeated again."""
    draw = random.Random(3)
    chose = [Sample(("fio", 1), "rand_read", [draw.lognormvariate(0, 0.02) for _ in range(5)]) for _ in range(6)]
    fresh = Sample(("fio", 1), "rand_read", [1.0, 1.9, 0.6], confirms=True)
    found = intervals([*chose, fresh])
    assert found[:-1] == intervals(chose)


def rows(values: list[float], verdict: str = "valid", **more: object) -> list[Row]:
    shared: dict[str, object] = {
        "point": "p",
        "phase": "rand_read",
        "tool": "fio",
        "nodes": 1,
        "metric": "ops_per_s",
        "hosts": "n1",
        "confirms": False,
    }
    return [
        Row({**shared, "verdict": verdict, "ops_per_s": value, **more}, [NOT_APPLICABLE] * len(CHECKS))
        for value in values
    ]


def judged(found: list[Row]) -> None:
    together = agreements(map(headline, found))
    for row in found:
        compare_row(row, together)


def test_the_verdict_of_every_repetition_that_counts_says_whether_they_agree() -> None:
    apart, agreeing = rows([7.2, 63.5, 28.0]), rows([100.0, 101.0, 100.0, 101.0, 100.0], point="q")
    judged([*apart, *agreeing])
    assert [row.values["verdict"] for row in apart] == ["suspect"] * 3
    assert {row.values["reasons"] for row in apart} == {"not repeatable: more than ± 100 % over its 3 repetitions"}
    assert {row.values.get("precision_grade") for row in apart} == {None}
    assert {row.values["checks_failed"] for row in apart} == {1}
    assert [row.values["verdict"] for row in agreeing] == ["valid"] * 5
    assert {row.values["precision_grade"] for row in agreeing} == {"A"}
    assert len({row.values["ci95_half_width_share"] for row in agreeing}) == 1


def test_an_invalid_repetition_has_no_part() -> None:
    wrong = rows([1e9])
    wrong[0].findings[0] = Finding("fail", "x")
    wrong[0].values["verdict"] = "invalid"
    judged([*(good := rows([100.0, 101.0, 100.0, 101.0, 100.0])), *wrong])
    assert wrong[0].findings[-1] == NOT_APPLICABLE
    assert "precision_grade" not in wrong[0].values
    assert {row.values["precision_grade"] for row in good} == {"A"}


def test_honest_repetitions_are_not_called_unrepeatable() -> None:
    """Of 4,000 points that scatter by 5 %, at most 1 % with 5 repetitions; one that scatters by 40 % is, mostly."""
    draw = random.Random(2)

    def share(sd: float) -> float:
        fails = sum(found([draw.lognormvariate(0, sd) for _ in range(5)]).outcome == "fail" for _ in range(2000))
        return fails / 2000

    assert share(0.05) <= 0.01
    assert share(0.40) > 0.9
