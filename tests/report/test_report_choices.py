"""Headlines that are confirmed or not, what they cannot be told apart from, and knees of ramps."""

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from campaign import document, make
from iosweep.analysis import choice, knees
from iosweep.analysis.aggregate import Result, count_repetitions, repetitions, summarize
from iosweep.analysis.data import CheckRow, Row
from iosweep.plan.contests import contests
from iosweep.plan.model import Point
from iosweep.report import captions, headline, results_table
from iosweep.results import remaining
from iosweep.results.best import fresh_numbers
from iosweep.results.committed import Result as Committed
from iosweep.results.record import Archive, Target
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


def doubted(found: list[Row], point: str, *repetitions: int, verdict: str = "suspect") -> list[Row]:
    return [
        structs.replace(one, verdict=verdict) if one.point == point and one.repetition in repetitions else one
        for one in found
    ]


def test_suspect_points_that_are_higher_are_named() -> None:
    """A valid point is chosen before them; without a word it would look like the peak."""
    found = best([*rows({1: RATES[1]}), *rows({2: RATES[2], 4: RATES[4]}, verdict="suspect")])
    assert found.result.point == "p1"
    assert found.passed_over == "in the tables, where suspect repetitions count, 2 points are higher"
    assert found.not_chosen == f"{found.passed_over}: 4 threads per node; 2 threads per node"
    assert best(rows()).passed_over == best(rows()).not_chosen == ""


def test_a_disturbed_repetition_does_not_choose() -> None:
    """It made the better point lose: first because it is suspect, and also by its figure."""
    disturbed = rows({2: RATES[2], 4: [260.0, 90.0, 250.0]})
    assert best(disturbed).result.point == "p2"
    found = best(doubted(disturbed, "p4", 2))
    assert (found.result.point, found.verdict) == ("p4", "suspect")
    assert found.figure.mean == 200.0  # as in the tables, where the suspect repetition counts
    slow = best(doubted(rows({2: RATES[2], 4: [260.0, 30.0, 250.0]}), "p4", 2))
    assert (slow.result.point, slow.not_chosen) == (
        "p4", "in the tables, where suspect repetitions count, 1 point is higher: 2 threads per node",
    )  # fmt: skip
    # a point that is mostly disturbed is not one that can be chosen
    assert best(doubted(disturbed, "p4", 1, 2)).result.point == "p2"
    assert best(doubted(disturbed, "p4", 2, 3, verdict="invalid")).result.point == "p2"


def test_a_point_that_mostly_failed_is_no_suspect_one() -> None:
    """Its one valid repetition is the best figure of the tables, and no suspect repetition is the reason."""
    found = best(doubted(rows({2: RATES[2], 4: [300.0, 1.0, 1.0]}), "p4", 2, 3, verdict="invalid"))
    assert found.result.point == "p2"
    assert found.passed_over == "in the tables, where suspect repetitions count, 1 point is higher"


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


def test_fresh_repetitions_are_marked_behind_a_row() -> None:
    """Its n does not count them."""
    shown = results_table.payload(summarize([*rows({4: RATES[4]}), *rows({4: [150.0]}, confirms=True)]), [])
    place = [column.title for column in shown.repetition_columns].index("fresh")
    assert [values[place] for values in shown.details[0].repetitions] == [None, None, None, "yes"]


def test_fresh_repetitions_have_no_part_in_the_choice() -> None:
    found = best([*rows(), *rows({2: [900.0] * 3}, confirms=True)])
    assert (found.result.point, found.confirmed) == ("p4", False)


def test_fresh_repetitions_that_are_invalid_confirm_nothing() -> None:
    assert not best([*rows(), *rows({4: [150.0]}, confirms=True, verdict="invalid")]).confirmed
    found = best([*rows(), *rows({4: [150.0]}, confirms=True, verdict="suspect")])
    assert (found.verdict, found.in_brief) == (
        "suspect", "best of 3 points, confirmed by 1 fresh repetition, 1 of them suspect",
    )  # fmt: skip


def test_fresh_repetitions_that_are_in_doubt_are_counted() -> None:
    found = best(doubted([*rows(), *rows({4: [150.0] * 4}, confirms=True)], "p4", 12, 13))
    assert found.in_brief == "best of 3 points, confirmed by 4 fresh repetitions, 2 of them suspect"
    found = best(doubted([*rows(), *rows({4: [150.0] * 4}, confirms=True)], "p4", 12, verdict="invalid"))
    assert found.in_brief == "best of 3 points, confirmed by 3 fresh repetitions, 1 more invalid"
    assert (found.verdict, found.figure.n) == ("invalid", 3)


def judged(*reasons: tuple[str, str]) -> headline.Entry:
    """The headline of a point whose repetitions have these verdicts and reasons."""
    made = [
        structs.replace(one, verdict=verdict, reasons=reason)
        for one, (verdict, reason) in zip(rows({1: [100.0] * len(reasons)}), reasons, strict=True)
    ]
    ((entry,),) = [group.entries for group in headline.groups(summarize(made))]
    return entry


def test_an_invalid_repetition_is_not_in_the_figure_and_its_reason_is_why() -> None:
    entry = judged(("invalid", "over after 16 ms | memory"), ("suspect", "memory"), ("suspect", "memory | noisy"))
    assert (entry.incomplete, entry.verdict) == ("2 of 3 repetitions, 1 invalid", "invalid")
    assert entry.doubt == "Random read: 1 repetition is invalid, and not in the figure: over after 16 ms"
    entry = judged(*[("invalid", f"over after {ms} ms | memory") for ms in (16, 17)], ("valid", ""))
    assert (
        entry.doubt
        == "Random read: 2 repetitions are invalid, and not in the figure: over after 16 ms (numbers differ)"
    )


def test_a_suspect_figure_has_all_its_repetitions() -> None:
    entry = judged(("suspect", "memory"), ("suspect", "memory"), ("valid", ""))
    assert (entry.incomplete, entry.verdict) == ("", "suspect")
    assert entry.doubt == "Random read is suspect: memory"
    assert judged(*[("valid", "")] * 3).doubt == ""


def test_a_confirmed_headline_has_the_verdict_of_its_fresh_repetitions() -> None:
    """Also where those that chose do not agree: their figure is not in it. An unconfirmed one has theirs."""
    chose = doubted(rows(), "p4", 1, 2, 3)
    fails = [check(point="p4", check="precise", outcome="fail", severity="suspect", repetition=n) for n in (1, 2, 3)]
    found = best(chose, fails)
    assert (found.result.point, found.verdict, found.confirmed) == ("p4", "suspect", False)
    found = best([*chose, *rows({4: [150.0, 151.0, 149.0]}, confirms=True)], fails)
    assert (found.result.point, found.verdict, found.confirmed) == ("p4", "valid", True)


def test_what_a_ramp_does_not_need_is_counted_apart() -> None:
    late = row(point="p8", repetition=None, verdict="missing", left=False, unneeded=True, ops_per_s=None,
               reasons="not needed: no certain gain above 2 threads per node")  # fmt: skip
    counts = count_repetitions(repetitions([*rows(), late], []))
    assert (counts["valid"], counts["missing"], counts["left"], counts["unneeded"]) == (9, 0, 0, 1)
    (result,) = summarize([late])
    assert (result.state, result.verdict) == ("unneeded", "missing")
    assert result.reasons == (late.reasons,)


def test_knees(tmp_path: Path) -> None:
    made = make(tmp_path, document(axes={"threads_per_node": [1, 2, 4]}, ramp="threads_per_node"))
    facts = structs.replace(made.sweeps[0], points=("p1", "p2", "p4"))
    (bend,) = knees.of(summarize(rows()), [facts])
    beyond = "; the axis ends before a plateau is certain, so the peak may be beyond it"
    assert bend.sentence == f"Random read: 95 % of the peak at 2 threads per node{beyond}"
    (bend,) = knees.of(summarize(rows({1: [20.0], 2: [20.0], 4: [19.0]})), [facts])
    assert bend.sentence.endswith("at 1 thread per node (one repetition of each point: no interval)")
    saturated = {1: [20.0], 2: [19.8, 20.1], 4: [20.1, 20.0]}  # the last step is the highest, by chance
    (bend,) = knees.of(summarize(rows(saturated)), [facts])
    assert bend.sentence == "Random read: 95 % of the peak at 1 thread per node"
    assert knees.of(summarize(rows()), [structs.replace(facts, ramp=None)]) == []


def test_a_knee_says_why_the_peak_may_be_beyond_it(tmp_path: Path) -> None:
    made = make(tmp_path, document(axes={"threads_per_node": [1, 2, 4, 8]}, ramp="threads_per_node"))
    facts = structs.replace(made.sweeps[0], points=("p1", "p2", "p4", "p8"))
    unmeasured = rows({8: [1.0]}, verdict="missing")
    bare = [structs.replace(one, figures={}) for one in unmeasured]
    (bend,) = knees.of(summarize([*rows(), *bare]), [facts])  # the axis does not end there
    assert bend.sentence == (
        "Random read: 95 % of the peak at 2 threads per node; no plateau is certain yet, and higher values have no"
        " figure, so the peak may be there"
    )
    # each step gains a quarter, less than the noise explains, so the climb has ended at the first one
    noisy = {1: [86.0, 116.0, 100.0], 2: [107.0, 145.0, 125.0], 4: [134.0, 181.0, 156.0]}
    (bend,) = knees.of(summarize([*rows(noisy), *bare]), [facts])
    assert (bend.saturated, bend.top, bend.knee.low, bend.values[bend.knee.step]) == (True, 0, 1, 4)
    assert bend.sentence.endswith(
        "; the climb ended because noise hides what is gained above 1 thread per node, so the peak may be higher"
    )


TARGET = Target(directory="/x", source="", fstype="", layout_is="")


def repetitions_of(draw: random.Random, point: Point) -> tuple[dict[int, Committed], list[Row]]:
    """What the runner and what the report know of the same repetitions of a point, of which some are fresh: some are
    suspect or invalid, have no latency or a rate of zero, or ran on another node."""
    count, elsewhere = draw.randint(3, 5), draw.random() < 0.2
    level, noise = draw.uniform(90, 110), draw.choice([0.01, 0.3])
    results, rows = {}, []
    for number in [*range(1, count + 1), *([7] if draw.random() < 0.5 else [])]:
        verdict = draw.choices(["valid", "suspect", "invalid"], [6, 3, 1])[0]
        rate = 0.0 if draw.random() < 0.01 else draw.lognormvariate(math.log(level), noise)
        latency = None if draw.random() < 0.1 else draw.uniform(1, 2)
        host, job = ("n2", "2") if elsewhere and number == 2 else ("n1", "1")
        counts = verdict != "invalid"
        results[number] = Committed(
            point.id, number, 1, True, Archive("", "", 0), "build", TARGET, None, None, False,
            headlines=(("rand_read", rate if counts else None),), latencies=(latency if counts else None,),
            verdicts=(verdict,), ran=(host, job),
        )  # fmt: skip
        rows.append(
            row(point=point.id, phase="rand_read", repetition=number, confirms=number == 7, verdict=verdict, nodes=1,
                ops_per_s=rate, latency_mean_s=latency, queue_depth=point.options["queue_depth"], hosts=host,
                slurm_job=job, transfer_size_bytes=point.options["transfer_size"])
        )  # fmt: skip
    return results, rows


def test_the_runner_and_the_report_agree(tmp_path: Path) -> None:
    """On the point that is confirmed and shown, and on whether a point was repeated often enough."""
    often = {"min": 3, "max": 6, "until_ci95_half_width": "20%"}
    axes = {"queue_depth": [1, 4], "transfer_size": ["4k", "64k", "1m"]}
    plan = make(tmp_path, document(axes=axes, confirm=1, repetitions=often))
    (allocation,), draw, seen = plan.allocations, random.Random(5), Counter[str]()
    for _ in range(200):
        known = {point.id: repetitions_of(draw, point) for point in plan.points}
        chose = {id: {n: own for n, own in results.items() if n < 7} for id, (results, _) in known.items()}
        summary = summarize([one for _, rows in known.values() for one in rows])
        for contest, members in contests(plan.points).items():
            best = choice.lowest_latency(summary, {}) if contest.latency else choice.highest(summary, {})
            fresh = fresh_numbers(plan, allocation, {contest: members}, chose, ())
            assert best and {best.result.point: [7]} == fresh
            seen["suspect"] += any(one.verdict == "suspect" and not one.confirms for one in best.result.rows)
        wanted = remaining.still_wanted(allocation, chose, plan.points)
        for one in summary:
            if one.headline and one.headline.n >= 3:
                interval = one.headline.interval
                assert (one.point in wanted) == (interval is not None and interval.half_width_share > 0.20)
                assert one.point in wanted or interval is None or one.headline.grade
                seen["wanted" if one.point in wanted else "enough" if interval else "no interval"] += 1
    assert min(seen[kind] for kind in ("suspect", "wanted", "enough", "no interval")) > 20


def test_what_a_ramp_does_not_need_is_not_called_missing_below_a_figure() -> None:
    late = {"repetition": None, "verdict": "missing", "ops_per_s": None}
    reason = "not needed: no certain gain above 2 threads per node"
    found = summarize([row(point="p8", unneeded=True, left=False, reasons=reason, **late),
                       row(point="p9", left=True, reasons="not measured yet", **late),
                       row(point="p10", left=False, reasons="no fio", **late)])  # fmt: skip
    assert [*captions.notes(found, [], "none", "iops", None)] == [
        "Not drawn: 1 missing (no fio).",
        "Not drawn: 1 left (not measured yet).",
        f"Not drawn: 1 unneeded ({reason}).",
    ]
