"""Headlines that are confirmed or not, what they cannot be told apart from, and knees of ramps."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from campaign import document, make
from iosweep.report import choice, headline, knees
from iosweep.report.aggregate import Result, count_repetitions, repetitions, summarize
from iosweep.report.data import CheckRow, Row
from results_factory import check, row

#: Threads -> the figures that chose.
RATES = {1: [100.0, 102.0, 98.0], 2: [200.0, 204.0, 196.0], 4: [201.0, 207.0, 198.0]}


def rows(rates: dict[int, list[float]] = RATES, confirms: bool = False, **more: Any) -> list[Row]:
    first = 11 if confirms else 1
    return [
        row(point=f"p{threads}", phase="rand_read", threads_per_node=threads, repetition=first + i, confirms=confirms,
            metric="ops_per_s", ops_per_s=value, bandwidth_bytes_per_s=None, latency_mean_s=None, **more)
        for threads, values in rates.items() for i, value in enumerate(values)
    ]  # fmt: skip


def best(found: list[Row], checks: list[CheckRow] | None = None) -> choice.Choice:
    results: list[Result] = summarize(found)
    made = choice.highest(results, choice.failed(checks or []))
    assert made is not None
    return made


def test_not_confirmed() -> None:
    found = best(rows())
    assert (found.result.point, found.confirmed, found.of) == ("p4", False, 3)
    assert found.chosen == "best of 3 points, not confirmed, so likely too high"
    assert found.doubt == "cannot be told apart from 2 threads per node"


def test_suspect_points_that_are_higher_are_named() -> None:
    """A valid point is chosen before them; without a word it would look like the peak."""
    found = best([*rows({1: RATES[1]}), *rows({2: RATES[2], 4: RATES[4]}, verdict="suspect")])
    assert (found.result.point, found.passed_over) == ("p1", "2 suspect points are higher")
    assert found.not_chosen.endswith("and not chosen: 4 threads per node; 2 threads per node")
    assert best(rows()).passed_over == best(rows()).not_chosen == ""


def test_noisy_points_far_apart_are_told_apart() -> None:
    """Three repetitions alone say too little of their noise; those of all points together say enough."""
    assert best(rows({1: [18.2, 13.7, 12.4], 4: [31.0, 38.7, 45.5], 16: [86.2, 108.5, 102.4]})).doubt == ""


def test_the_headline_is_of_the_fresh_repetitions_alone() -> None:
    found = best([*rows(), *rows({4: [150.0, 151.0, 149.0]}, confirms=True)])
    assert (found.result.point, found.confirmed, found.figure.mean, found.figure.n) == ("p4", True, 150.0, 3)
    assert found.chosen == "best of 3 points, confirmed by 3 fresh repetitions"
    assert found.result.statistics["ops_per_s"].mean == pytest.approx(202.0)  # points stay comparable
    assert found.result.used == 3
    (entry,) = headline.groups(summarize([*rows(), *rows({4: [150.0, 151.0, 149.0]}, confirms=True)]))[0].entries
    assert entry.value.startswith("150")


def test_fresh_repetitions_have_no_part_in_the_choice() -> None:
    found = best([*rows(), *rows({2: [900.0] * 3}, confirms=True)])
    assert (found.result.point, found.confirmed) == ("p4", False)


def test_fresh_repetitions_that_are_invalid_confirm_nothing() -> None:
    assert not best([*rows(), *rows({4: [150.0]}, confirms=True, verdict="invalid")]).confirmed
    assert best([*rows(), *rows({4: [150.0]}, confirms=True, verdict="suspect")]).verdict == "suspect"


def test_imprecise_is_no_reason_against_a_choice() -> None:
    """The runner has chosen before that could be judged."""
    doubted = [*rows({1: RATES[1], 2: RATES[2]}), *rows({4: RATES[4]}, verdict="suspect")]
    own = {"point": "p4", "outcome": "fail", "severity": "suspect"}
    fails = [check(**own, check="precise", repetition=number) for number in (1, 2, 3)]
    assert best(doubted).result.point == "p2"
    assert best(doubted, fails).result.point == "p4"
    other = [*fails, check(**own, check="client_cache", repetition=1)]
    assert best(doubted, other).result.point == "p2"


def test_a_single_point_is_the_best_of_nothing() -> None:
    found = best(rows({1: RATES[1]}))
    assert (found.chosen, found.doubt) == ("", "")


def test_what_a_ramp_does_not_need_is_counted_apart() -> None:
    late = row(point="p8", repetition=None, verdict="missing", left=False, unneeded=True, ops_per_s=None,
               reasons="not needed: saturated at 2 threads per node")  # fmt: skip
    counts = count_repetitions(repetitions([*rows(), late], []))
    assert (counts["valid"], counts["missing"], counts["left"], counts["unneeded"]) == (9, 0, 0, 1)
    (result,) = summarize([late])
    assert (result.state, result.verdict) == ("unneeded", "missing")


def test_knees(tmp_path: Path) -> None:
    made = make(tmp_path, document(axes={"threads_per_node": [1, 2, 4]}, ramp={"axis": "threads_per_node",
                                   "stop_when": "saturated"}))  # fmt: skip
    facts = structs.replace(made.sweeps[0], points=("p1", "p2", "p4"))
    (bend,) = knees.of(summarize(rows()), [facts])
    peak = "; the last step is the highest, so the peak may be beyond it"
    assert bend.sentence == f"Random read: 95 % of the peak at 2 threads per node{peak}"
    (bend,) = knees.of(summarize(rows({1: [10.0], 2: [20.0], 4: [19.0]})), [facts])
    assert bend.sentence.endswith("at 2 threads per node (one repetition of each point: no interval)")
    assert knees.of(summarize(rows()), [structs.replace(facts, ramp=None)]) == []
