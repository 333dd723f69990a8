"""What is summarized of repetitions, which point is the best, and what is said of verdicts and quantities."""

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from campaign import document, make
from iosweep.analysis import caveats, formats, headline
from iosweep.analysis.summary import (
    VERDICTS,
    summarize,
    summarize_values,
)
from iosweep.judge import remaining
from iosweep.judge.best import fresh_numbers
from iosweep.judge.findings import FOLLOWS, join_reasons, split_reasons
from iosweep.judge.statistics import Estimate, estimate, make_sample
from iosweep.plan.headline_groups import headline_groups
from iosweep.plan.model import Point
from iosweep.store.record import MeasuredTarget, PhaseVerdict, RecordHead, SlurmJob, ToolBuild
from iosweep.tables.reader import CheckRow, ResultRow, mark_imprecise
from iosweep.tools import tools
from results_factory import G, check, row

#: Threads -> the figures that chose.
RATES = {1: [100.0, 102.0, 98.0], 2: [200.0, 204.0, 196.0], 4: [201.0, 207.0, 198.0]}


def estimated(values: list[float]) -> Estimate | None:
    sample = make_sample({(None, number): value for number, value in enumerate(values)})
    return sample and estimate(sample)


class TestSummary:
    def test_the_statistics_of_known_values(self) -> None:
        found = summarize_values([10.0, 12.0, 14.0], estimated([10.0, 12.0, 14.0]))
        assert (found.n, found.low, found.high, found.sd) == (3, 10, 14, 2)
        assert found.figure == pytest.approx((10 * 12 * 14) ** (1 / 3))
        assert found.estimate and found.estimate.low < 10 < 14 < found.estimate.high
        assert (found.interval, found.ci95_share, found.grade) == (None, None, None)  # too wide to be shown
        narrow = summarize_values([10.0, 11.0, 12.0], estimated([10.0, 11.0, 12.0]))
        assert narrow.ci95_share == pytest.approx(0.25, abs=0.01)
        alone = summarize_values([10.0])
        assert (alone.n, alone.sd, alone.interval, alone.ci95_share) == (1, None, None, None)

    def test_iterations_of_a_tool_are_not_one_repetition(self) -> None:
        own = {"kind": "metadata", "phase": "stat", "iterations": 5, "ops_per_s": 100.0, "min_ops_per_s": 20.0}
        own |= {"metric": "ops_per_s", "max_ops_per_s": 400.0, "stddev_ops_per_s": 165.0}
        (alone,) = summarize([row(**own)])
        assert (found := alone.headline) and (found.n, found.iterations, found.low, found.high, found.sd) == (
            1, 5, 20, 400, 165,
        )  # fmt: skip
        assert formats.spread(found, formats.OPS) != formats.spread(summarize_values([100.0]), formats.OPS)
        (several,) = summarize([row(**own), row(repetition=2, **own)])
        assert several.headline and (several.headline.low, several.headline.high) == (100, 100)

    def test_a_repetition_that_was_not_measured_is_counted_and_hides_no_figure(self) -> None:
        stopped = {"repetition": 2, "verdict": "missing", "reasons": "limits.time is spent", "ops_per_s": None}
        [half] = summarize([row(), row(**stopped)])
        assert (half.verdict, half.used, half.lacking, half.measured) == ("valid", 1, 1, 1)
        assert half.outcomes == ("valid", "missing")
        [none] = summarize([row(**stopped | {"repetition": None})])
        assert (none.verdict, none.used, none.lacking, none.state, none.headline) == ("missing", 0, 0, "missing", None)
        [left] = summarize([row(), row(**stopped | {"left": True})])
        assert (left.state, left.verdict, left.used) == ("left", "valid", 1)
        [again] = summarize([row(verdict="suspect", reasons="busy", left=True)])
        assert (again.state, again.verdict, again.lacking) == ("left", "suspect", 0)
        [unneeded] = summarize([row(**stopped | {"repetition": None, "left": False, "unneeded": True})])
        assert (unneeded.state, unneeded.verdict) == ("unneeded", "missing")

    def test_only_valid_and_suspect_repetitions_are_in_the_mean(self) -> None:
        rows = [row(repetition=i, verdict=v, ops_per_s=10.0**i) for i, v in enumerate(VERDICTS[:3])]
        [result] = summarize(rows)
        assert (result.verdict, result.used, result.measured) == ("invalid", 2, 3)
        assert result.headline and result.headline.figure == pytest.approx(10**0.5)

    def test_a_figure_is_the_geometric_mean_and_exact_where_all_are_equal(self) -> None:
        for values, figure in (([1.0, 2.0, 4.0], 2.0), ([1e6] * 3, 1e6), ([0.3], 0.3), ([0.0, 5.0], 0.0)):
            (result,) = summarize([row(repetition=i, latency_mean_s=value) for i, value in enumerate(values, 1)])
            found = result.figure("latency_mean_s")
            assert found == (pytest.approx(figure) if len(set(values)) > 1 else figure), values
        assert result.figure("bandwidth_bytes_per_s") is None

    def test_phases_have_titles_and_stand_in_the_order_in_which_they_run(self) -> None:
        for tool in tools().values():
            assert all(formats.phase(phase) != phase for phase in tool.phases)
            found = summarize([row(phase=phase) for phase in ("zeta", *reversed(tool.phases))])
            assert [result.phase for result in found] == [*tool.phases, "zeta"]


def reasons(*rows: ResultRow, most: int = 3) -> str:
    return caveats.tell((result.reasons for result in summarize(rows)), most=most)


def suspect(point: str, reason: str, **more: Any) -> ResultRow:
    return row(point=point, verdict="suspect", reasons=reason, **more)


class TestReasons:
    def test_a_cause_comes_before_what_follows_from_it(self) -> None:
        cause = "the target reports an I/O error: the tool ended with exit code 1"
        rows = [row(point=str(i), verdict="invalid", reasons="fio printed nothing") for i in range(4)]
        caused = [
            row(point="x", verdict="invalid", reasons=f"{cause}: a{FOLLOWS}fio printed nothing"),
            row(point="y", verdict="invalid", reasons=f"{cause}: b{FOLLOWS}no read was done"),
        ]
        assert reasons(*rows, *caused, most=1) == f"1 × {cause}: a → fio printed nothing; and 2 other reasons"
        assert reasons(*rows, *caused).index(cause) < reasons(*rows, *caused).index("4 ×")

    def test_numbers_and_units_do_not_make_another_reason(self) -> None:
        rows = [suspect("x", "2.7 GiB were written after 2 ms"), suspect("y", "71 MiB were written after 3 s")]
        assert reasons(*rows) == "71 MiB to 2.7 GiB were written after 2 ms to 3 s"

    @pytest.mark.parametrize("given", [["a | | b", "c"], ["a |", "b"], ["a", "| b"], ["|"]])
    def test_a_message_with_the_separator_stays_one_reason(self, given: list[str]) -> None:
        assert [text.replace("/", "|") for text in split_reasons(join_reasons(given))] == given


class TestQuantities:
    def test_a_figure_has_the_unit_that_it_is_read_in(self) -> None:
        for value, units, text in (
            (1.5 * G, formats.THROUGHPUT, "1.50 GiB/s"),
            (123_456, formats.IOPS, "123 k IOPS"),
            (1.234e-3, formats.LATENCY, "1.23 ms"),
            (0, formats.IOPS, "0 IOPS"),
        ):
            assert formats.quantity(value, units) == text

    def test_the_range_is_shown_where_repetitions_do_not_agree(self) -> None:
        """Their interval is that of their phase, and not theirs."""
        values = [10.0, 10.0, 100.0], [10.0, 10.1, 10.2], [32e3, 53.3e3, 45e3]
        wide, narrow, apart = (summarize_values(v, estimated(v)) for v in values)
        assert formats.spread(apart, formats.IOPS) == "32.0 to 53.3 k IOPS (n = 3)"
        assert formats.spread(wide, formats.IOPS) == "10.0 to 100 IOPS (n = 3)"
        assert formats.spread(narrow, formats.IOPS) == "± 2.5 % (n = 3)"


def rows(rates: dict[int, list[float]] = RATES, confirms: bool = False, **more: Any) -> list[ResultRow]:
    first = 11 if confirms else 1
    return [
        row(point=f"p{threads}", phase="rand_read", threads_per_node=threads, repetition=first + i, confirms=confirms,
            metric="ops_per_s", ops_per_s=value, bandwidth_bytes_per_s=None, latency_mean_s=None, **more)
        for threads, values in rates.items() for i, value in enumerate(values)
    ]  # fmt: skip


def best(found: list[ResultRow], checks: list[CheckRow] | None = None) -> headline.Best:
    made = headline.find_highest(summarize(mark_imprecise(found, checks or [])))
    assert made is not None
    return made


def doubted(found: list[ResultRow], point: str, *repetitions: int, verdict: str = "suspect") -> list[ResultRow]:
    return [
        structs.replace(one, verdict=verdict) if one.point == point and one.repetition in repetitions else one
        for one in found
    ]


class TestChoice:
    def test_points_that_cannot_be_told_apart_from_the_best_are_named(self) -> None:
        found = best(rows())
        assert (found.result.point, found.confirmed, found.of) == ("p4", False, 3)
        assert [result.point for result in found.alike] == ["p2"]
        # three repetitions alone say too little of their noise; those of all points together say enough
        assert best(rows({1: [18.2, 13.7, 12.4], 4: [31.0, 38.7, 45.5], 16: [86.2, 108.5, 102.4]})).alike == ()

    def test_points_that_lie_apart_by_the_luck_of_their_repetitions_are_alike(self) -> None:
        """Repetitions of two modes: those of the best point and of another all met the same one."""
        modes = {1: [90.0, 110.0, 90.1], 2: [110.0, 90.0, 110.1], 4: [110.0, 110.1, 109.9], 8: [90.0, 89.9, 90.1]}
        more = {points << 4: values for points, values in modes.items() if points < 4}
        found = best(rows({**modes, **more}))
        assert (found.result.point, len(found.alike)) == ("p4", 5)

    def test_a_disturbed_repetition_does_not_choose(self) -> None:
        disturbed = rows({2: RATES[2], 4: [260.0, 90.0, 250.0]})
        assert best(disturbed).result.point == "p2"
        found = best(doubted(disturbed, "p4", 2))
        assert (found.result.point, found.verdict) == ("p4", "suspect")
        assert found.metric.figure == pytest.approx(
            (260 * 90 * 250) ** (1 / 3)
        )  # as in the tables, where the suspect repetition counts
        # a point that is mostly disturbed or failed cannot be chosen
        assert best(doubted(disturbed, "p4", 1, 2)).result.point == "p2"

    def test_fresh_repetitions_in_doubt_count_and_invalid_ones_confirm_nothing(self) -> None:
        assert not best([*rows(), *rows({4: [150.0]}, confirms=True, verdict="invalid")]).confirmed
        fresh = [*rows(), *rows({4: [150.0] * 4}, confirms=True)]
        found = best(doubted(fresh, "p4", 12, 13))
        assert (found.verdict, found.metric.n) == ("suspect", 4)

    def test_a_confirmed_figure_has_the_verdict_of_its_fresh_repetitions(self) -> None:
        chose = doubted(rows(), "p4", 1, 2, 3)
        unsure = {"check": "precise", "outcome": "fail", "severity": "suspect"}
        fails = [check(point="p4", repetition=n, **unsure) for n in (1, 2, 3)]
        found = best(chose, fails)
        assert (found.result.point, found.verdict, found.confirmed) == ("p4", "suspect", False)
        found = best([*chose, *rows({4: [150.0, 151.0, 149.0]}, confirms=True)], fails)
        assert (found.result.point, found.verdict, found.confirmed) == ("p4", "valid", True)


def test_the_runner_and_the_report_agree_on_the_best_point_and_on_when_to_stop(tmp_path: Path) -> None:
    often = {"min": 3, "max": 6, "until_ci95_half_width": "20%"}
    axes = {"queue_depth": [1, 4], "transfer_size": ["4k", "64k", "1m"]}
    plan = make(tmp_path, document(axes=axes, confirm=1, repetitions=often))
    (allocation,), draw, seen = plan.allocations, random.Random(5), Counter[str]()
    for _ in range(100):
        known = {point.id: _repetitions_of(draw, point) for point in plan.points}
        chose = {id: {n: own for n, own in results.items() if n < 1001} for id, (results, _) in known.items()}
        summary = summarize([one for _, rows in known.values() for one in rows])
        for contest, members in headline_groups(plan.points).items():
            best = headline.find_lowest_latency(summary) if contest.latency else headline.find_highest(summary)
            fresh = fresh_numbers(plan, allocation, {contest: members}, chose, ())
            assert best and {best.result.point: [1001]} == fresh
            seen["suspect"] += any(one.verdict == "suspect" and not one.confirms for one in best.result.rows)
        wanted = remaining.open_before_confirming(allocation, chose, plan.points)
        for one in summary:
            if one.headline and one.headline.n >= 3:
                interval = one.headline.estimate
                assert (one.point in wanted) == (interval is not None and interval.half_width_share > 0.20)
                assert one.point in wanted or interval is None or one.headline.grade
                seen["wanted" if one.point in wanted else "enough" if interval else "no interval"] += 1
    assert min(seen[kind] for kind in ("suspect", "wanted", "enough", "no interval")) > 10


def _repetitions_of(draw: random.Random, point: Point) -> tuple[dict[int, RecordHead], list[ResultRow]]:
    """What the runner and what the report know of the same repetitions of a point, of which some are fresh: some are
    suspect or invalid, have no latency or a rate of zero, or ran on another node."""
    count, elsewhere = draw.randint(3, 5), draw.random() < 0.2
    level, noise = draw.uniform(90, 110), draw.choice([0.01, 0.3])
    target = MeasuredTarget(directory="/x", source="", fstype="", layout_is="")
    results, rows = {}, []
    for number in [*range(1, count + 1), *([1001] if draw.random() < 0.5 else [])]:
        verdict = draw.choices(["valid", "suspect", "invalid"], [6, 3, 1])[0]
        rate = 0.0 if draw.random() < 0.01 else draw.lognormvariate(math.log(level), noise)
        latency = None if draw.random() < 0.1 else draw.uniform(1, 2)
        host, job = ("n2", "2") if elsewhere and number == 2 else ("n1", "1")
        counts = verdict != "invalid"
        figures = {"headline": rate, "latency_mean_s": latency} if counts else {}
        results[number] = RecordHead(
            point=point.id, repetition=number, tool=ToolBuild("build", ""), target=target, host=host,
            slurm=SlurmJob(job), rows=(PhaseVerdict(phase="rand_read", verdict=verdict, **figures),),
        )  # fmt: skip
        rows.append(
            row(point=point.id, phase="rand_read", repetition=number, confirms=number == 1001, verdict=verdict, nodes=1,
                ops_per_s=rate, latency_mean_s=latency, queue_depth=point.options["queue_depth"], hosts=host,
                slurm_job=job, transfer_size_bytes=point.options["transfer_size"])
        )  # fmt: skip
    return results, rows
