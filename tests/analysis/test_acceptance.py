"""Decisions on criteria of acceptance: by the interval, and never a pass where there is doubt."""

import random
from typing import Any, ClassVar

import pytest
from msgspec import structs

from iosweep.analysis import acceptance
from iosweep.analysis.acceptance import Decision
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import PRECISE, Row
from iosweep.config import selectors
from iosweep.config.criteria import Criterion, Threshold
from results_factory import check, loaded, row, sweep_facts

pytestmark = pytest.mark.unit

FIVE = [0.99, 1.0, 1.01, 1.005, 0.995]


def rows(mean: float, point: str = "p", spread: Any = FIVE, first: int = 1, **more: Any) -> list[Row]:
    known = {"tool": "fio", "o_direct": True, "nodes": 1, "queue_depth": 1, "threads_per_node": 1}
    return [
        row(**known | {"point": point, "repetition": first + i, "ops_per_s": mean * by, "latency_mean_s": by / mean,
                       "latency_p99_s": 3 * by / mean} | more)
        for i, by in enumerate(spread)
    ]  # fmt: skip


def criterion(name: str, comparison: Any, amount: float, unit: str, of: str | None = None) -> Criterion:
    threshold = Threshold(comparison=comparison, amount=amount, unit=unit, of=of)
    return Criterion(name=name, selector=selectors.parse(name), threshold=threshold)


def decide(found: list[Row], *wanted: Any, checks: Any = (), **about: Any) -> Decision:
    """about: parts of campaign.json."""
    [one] = acceptance.decide([criterion(*wanted)], loaded(found, checks, **about), summarize(found))
    return one


@pytest.mark.parametrize(
    ("comparison", "amount", "outcome"),
    [
        (">=", 900, "pass"), (">", 900, "pass"), ("<=", 900, "fail"), ("<", 900, "fail"),
        (">=", 1100, "fail"), ("<=", 1100, "pass"), (">=", 1000, "undecided"), ("<=", 1001, "undecided"),
    ],
)  # fmt: skip
def test_the_whole_interval_decides(comparison: str, amount: float, outcome: str) -> None:
    found = decide(rows(1000), "read_iops", comparison, amount, "IOPS")
    assert found.outcome == outcome
    assert found.value == pytest.approx(1000)
    assert found.interval is not None
    assert found.limit == amount
    assert found.figure.startswith("1,000 IOPS (9")


@pytest.mark.parametrize(("unit", "figure"), [("GB/s", "21.5 GB/s ("), ("MiB/s", "20.0 GiB/s (")])
def test_a_figure_has_decimal_units_where_its_threshold_has(unit: str, figure: str) -> None:
    found = rows(1, phase="seq_read", metric="bandwidth_bytes_per_s")
    found = [structs.replace(one, figures={"bandwidth_bytes_per_s": one.figures["ops_per_s"] * 20 * 2**30})
             for one in found]  # fmt: skip
    assert decide(found, "read_bandwidth", ">=", 1, unit).figure.startswith(figure)


def test_undecided_says_how_many_repetitions_would_decide() -> None:
    found = decide(rows(1000), "read_iops", ">=", 994, "IOPS")
    assert found.outcome == "undecided"
    assert found.repetitions is not None
    assert 5 < found.repetitions < 15
    more = found.repetitions - 5
    would = f"about {found.repetitions} repetitions, {more} more, would decide if the figure stays"
    assert f"{would}: set `repetitions` to {found.repetitions} or more" in found.reason
    # with so many of the same scatter it is decided
    many = [FIVE[i % 5] for i in range(found.repetitions)]
    assert decide(rows(1000, spread=many), "read_iops", ">=", 990, "IOPS").outcome == "pass"


def test_a_figure_at_the_threshold_is_never_decided() -> None:
    found = decide(rows(1000, spread=[1.0, 1.0, 1.0]), "read_iops", ">=", 1000, "IOPS")
    assert found.outcome == "undecided"
    found = decide(rows(1000, spread=[0.5, 1.0, 2.0]), "read_iops", ">=", 1000, "IOPS")
    assert (found.outcome, found.repetitions) == ("undecided", None)
    assert "no number of repetitions would decide" in found.reason
    near = decide(rows(1000, spread=[0.5, 1.0, 2.0]), "read_iops", ">=", 1000.1, "IOPS")
    assert "more than 1,000 repetitions would be needed" in near.reason


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ([row(verdict="missing", repetition=None, ops_per_s=None, left=True)], "no figure: not measured yet"),
        ([row(verdict="missing", ops_per_s=None, reasons="fio is not installed")],
         "no figure: 1 point missing: fio is not installed"),
        (rows(1000, verdict="invalid", reasons="an error"), "no figure: 1 point invalid: an error"),
        (rows(1000, spread=[1.0]), "1 repetition that counts, and an interval needs 3: set `repetitions` to 3 or more"),
        (rows(1000, spread=[1.0, 1.01]), "2 repetitions that count, and an interval needs 3"),
        ([*rows(1000, spread=[1.0, 1.01]), row(repetition=3, verdict="missing", left=True, nodes=1, ops_per_s=None)],
         "the next run measures more"),
        ([structs.replace(one, hosts=f"n{i}", slurm_job=str(i)) for i, one in enumerate(rows(1000))],
         "its repetitions ran on different nodes, so they have no interval"),
    ],
)  # fmt: skip
def test_without_an_interval_nothing_is_decided(found: list[Row], reason: str) -> None:
    one = decide(found, "read_iops", ">=", 1, "IOPS")
    assert one.outcome == "undecided"
    assert reason in one.reason


def test_why_a_figure_is_suspect_comes_before_what_it_lacks() -> None:
    one = decide(rows(1000, spread=[1.0, 1.01], verdict="suspect", reasons="other load"), "read_iops", ">=", 1, "IOPS")
    assert one.reason == (
        "2 repetitions that count, and an interval needs 3; besides, 2 of 2 repetitions suspect: other load"
    )


SPENT = "limits.time 15 min is spent (limits.over_time: trim); raise it, and the next run measures the rest"
REFUSED = "limits.bytes_written 1.0 GiB is spent: raise it, and the next run goes on from there"


@pytest.mark.parametrize(("left", "why"), [(False, SPENT), (True, REFUSED)])
def test_a_limit_that_stopped_the_campaign_is_said(left: bool, why: str) -> None:
    """The next run would measure nothing more, and neither would a larger number of repetitions."""
    gone = row(repetition=3, verdict="missing", left=left, nodes=1, ops_per_s=None, reasons=why)
    one = decide([*rows(1000, spread=[1.0, 1.01]), gone], "read_iops", ">=", 1, "IOPS")
    assert one.reason == (f"2 repetitions that count, and an interval needs 3: 1 repetition missing: {why}")
    one = decide([gone], "read_iops", ">=", 1, "IOPS")
    assert one.reason == f"no figure: {f'not measured yet: {why}' if left else f'1 point missing: {why}'}"
    known = decide([*rows(1000), structs.replace(gone, repetition=6)], "read_iops", ">=", 900, "IOPS")
    assert known.notes == (f"5 of 6 repetitions; 1 repetition missing: {why}",)


def test_what_was_ingested_cannot_be_repeated() -> None:
    facts = {"files": {}, "bytes": 0, "refused": {}, "without_rows": {}, "left_out": {}}
    near = decide(rows(1000), "read_iops", ">=", 994, "IOPS", ingested=facts)
    assert near.reason.endswith("would decide if the figure stays")
    few = decide(rows(1000, spread=[1.0]), "read_iops", ">=", 990, "IOPS", ingested=facts)
    assert few.reason == "1 repetition that counts, and an interval needs 3"


def test_a_reason_has_two_clauses_at_most() -> None:
    """Suspect and invalid repetitions, and a choice among many: what decides is said, and the rest is noted."""
    found = [one for n in range(1, 9) for one in rows(1000 + n / 10, f"p{n}", threads_per_node=n)]
    found = [
        structs.replace(one, verdict="suspect", reasons="others wrote") if one.repetition == 2 else one for one in found
    ]
    found += [one for n in range(1, 9) for one in rows(10, f"p{n}", [1.0], 6, threads_per_node=n, verdict="invalid",
                                                       reasons="an error")]  # fmt: skip
    one = decide(found, "read_iops", ">=", 1001, "IOPS")
    assert one.reason == "the interval includes the threshold; 1 of 5 repetitions suspect: others wrote"
    assert len(one.notes) == 4
    assert "would decide if the figure stays" in one.notes[0] or "would be needed" in one.notes[0]


def test_suspect_repetitions_do_not_decide() -> None:
    """Neither do they pass, nor is a delivery failed by what may be somebody else's load."""
    found = rows(1000)
    found[1] = structs.replace(found[1], verdict="suspect", reasons="others wrote")
    one = decide(found, "read_iops", ">=", 900, "IOPS")
    assert one.outcome == "undecided"
    assert "would pass; but 1 of 5 repetitions suspect: others wrote" in one.reason
    assert decide(found, "read_iops", ">=", 1100, "IOPS").outcome == "undecided"
    # that its repetitions scatter is in the interval already
    precise = [check(repetition=2, check=PRECISE, outcome="fail", severity="suspect")]
    assert decide(found, "read_iops", ">=", 900, "IOPS", checks=precise).outcome == "pass"


def test_invalid_repetitions_do_not_count_and_are_said() -> None:
    found = [*rows(1000), *rows(10, spread=[1.0], first=6, verdict="invalid", reasons="an error")]
    one = decide(found, "read_iops", ">=", 900, "IOPS")
    assert one.outcome == "pass"
    assert one.notes == ("5 of 6 repetitions, 1 invalid",)


def test_the_confirmed_figure_of_the_best_point_is_compared() -> None:
    found = [
        *rows(1000, "p1", threads_per_node=1),
        *rows(2000, "p8", threads_per_node=8),
        *rows(1900, "p8", threads_per_node=8, confirms=True, first=11),
    ]
    one = decide(found, "read_iops", ">=", 1850, "IOPS")
    assert (one.outcome, [result.point for result in one.results]) == ("pass", ["p8"])
    assert one.value == pytest.approx(1900)
    assert one.notes == ("best of 2 points, confirmed by 5 fresh repetitions",)
    assert decide(found, "read_iops", ">=", 1950, "IOPS").outcome == "fail"
    assert decide(found, "rand_read at threads_per_node 1", ">=", 900, "IOPS").results[0].point == "p1"


def test_the_best_of_many_alike_needs_a_wider_interval() -> None:
    alone = decide(rows(1000), "read_iops", ">=", 1, "IOPS")
    found = [one for n in range(1, 9) for one in rows(1000 + n / 10, f"p{n}", threads_per_node=n)]
    best = decide(found, "read_iops", ">=", 1, "IOPS")
    assert "interval for the best of 8 that cannot be told apart" in best.notes
    assert "best of 8 points, not confirmed" in best.notes
    assert best.interval is not None
    assert alone.interval is not None
    confirmed = decide([*found, *rows(1000, "p8", threads_per_node=8, confirms=True, first=11)],
                       "read_iops", ">=", 1, "IOPS")  # fmt: skip
    assert confirmed.interval is not None
    assert best.interval.half_width_share > 1.5 * confirmed.interval.half_width_share


def test_a_point_without_a_figure_may_be_the_better_one() -> None:
    absent = row(point="p8", verdict="missing", left=True, nodes=1, queue_depth=1, threads_per_node=8, o_direct=True,
                 ops_per_s=None, repetition=None)  # fmt: skip
    found = [*rows(1000), absent]
    assert decide(found, "read_iops", ">=", 900, "IOPS").outcome == "pass"
    one = decide(found, "read_iops", ">=", 1100, "IOPS")
    assert one.outcome == "undecided"
    assert "would fail; but another point may be better: not measured yet" in one.reason
    assert decide(found, "read_iops", "<=", 1100, "IOPS").outcome == "undecided"
    unneeded = [*rows(1000), structs.replace(absent, left=None, unneeded=True)]
    assert decide(unneeded, "read_iops", ">=", 1100, "IOPS").outcome == "fail"
    assert decide(found, "rand_read at threads_per_node 1", ">=", 1100, "IOPS").outcome == "fail"


def test_latencies_are_those_at_the_lowest_queue_depth() -> None:
    found = [*rows(1000, "p1"), *rows(100, "p32", queue_depth=32)]
    one = decide(found, "read_p99", "<=", 3.2, "ms")
    assert (one.outcome, one.results[0].point) == ("pass", "p1")
    assert one.figure.startswith("3.00 ms (2.9")
    deep = decide(found, "rand_read p99 at queue_depth 32", "<=", 3.2, "ms")
    assert (deep.outcome, deep.results[0].point) == ("fail", "p32")
    lacks = [structs.replace(r, figures={k: v for k, v in r.figures.items() if "p99" not in k}) for r in rows(1000)]
    assert "no p99 (too few I/Os beyond it)" in decide(lacks, "read_p99", "<=", 1, "ms").reason


@pytest.mark.parametrize(
    ("high", "unit", "amount", "outcome", "figure"),
    [
        (7000, "x", 6, "pass", "7.00x (6."),
        (5000, "x", 6, "fail", "5.00x (4."),
        (6010, "x", 6, "undecided", "6.01x (5."),
        (7000, "%", 75, "pass", "87.5 % (8"),
        (5000, "%", 75, "fail", "62.5 % (6"),
    ],
)
def test_scaling_is_decided_by_the_ratio(high: float, unit: str, amount: float, outcome: str, figure: str) -> None:
    found = [*rows(1000, "n1"), *rows(2500, "n4", nodes=4), *rows(high, "n8", nodes=8)]
    one = decide(found, "rand_read scaling nodes 1 -> 8", ">=", amount, unit)
    assert one.outcome == outcome
    assert one.figure.startswith(figure)
    assert [result.point for result in one.results] == ["n1", "n8"]
    assert " against " in one.place


def test_scaling_without_an_interval_shows_no_figure_of_one_side() -> None:
    found = [*rows(1000, "n1", spread=[1.0, 1.01]), *rows(6000, "n8", nodes=8, spread=[1.0, 1.01])]
    one = decide(found, "rand_read scaling nodes 1 -> 8", ">=", 5, "x")
    assert (one.outcome, one.value, one.figure) == ("undecided", None, "")


def test_scaling_needs_both_sides() -> None:
    one = decide([*rows(1000, "n1"), *rows(6000, "n8", nodes=8, spread=[1.0])],
                 "rand_read scaling nodes 1 -> 8", ">=", 5, "x")  # fmt: skip
    assert (one.outcome, one.results[0].point) == ("undecided", "n8")


def test_what_is_not_in_the_results_is_undecided() -> None:
    one = decide(rows(1000), "write_iops", ">=", 1, "IOPS")
    assert (one.outcome, one.reason) == ("undecided", "rand_write is not measured (phases: rand_read)")


class TestPublished:
    """`>= 90 % of weka`: what was measured as the published figure was is compared with it."""

    WANTED = ("read_iops", ">=", 90, "%", "weka")
    WAY: ClassVar[dict[str, Any]] = {"threads_per_node": 192, "sweeps": "weka.read-iops"}

    @staticmethod
    def suite(scaled: bool = False) -> list[dict[str, Any]]:
        facts = structs.asdict(sweep_facts(5, "p", name="weka.read-iops", suite="weka", scaled=scaled))
        return [facts | {"repetitions": {"min": 5, "max": 5, "until_ci95_half_width": None}}]

    @pytest.mark.parametrize(("rate", "outcome"), [(563_667, "pass"), (400_000, "fail"), (0.9 * 563_667, "undecided")])
    def test_the_best_system_is_the_threshold(self, rate: float, outcome: str) -> None:
        found = decide(rows(rate, **self.WAY), *self.WANTED, sweeps=self.suite())
        assert (found.outcome, found.limit) == (outcome, pytest.approx(0.9 * 563_667))

    def test_a_system_may_be_named(self) -> None:
        found = decide(rows(400_000, **self.WAY), *self.WANTED[:-1], "weka.aws", sweeps=self.suite())
        assert (found.outcome, found.limit) == ("pass", pytest.approx(0.9 * 393_333))
        assert found.wanted == "read_iops >= 90 % of weka.aws (354 k IOPS)"

    def test_the_number_of_nodes_counts(self) -> None:
        """Of the figures of one client and of eight, the best that was measured here."""
        one, many = rows(400_000, **self.WAY), rows(3_000_000, "q", **self.WAY | {"nodes": 8})
        both = {"sweeps": self.suite()}
        at_one = decide(one + many, "rand_read iops at nodes 1", *self.WANTED[1:-1], "weka.aws", **both)
        assert (at_one.outcome, at_one.limit) == ("pass", pytest.approx(0.9 * 393_333))
        assert decide(one + many, *self.WANTED[:-1], "weka.aws", **both).limit == pytest.approx(0.9 * 1_978_330)

    @pytest.mark.parametrize("other", [{"threads_per_node": 64}, {"sweeps": "own"}])
    def test_nothing_that_compares_is_undecided(self, other: dict[str, Any]) -> None:
        one = decide(rows(1e6, **self.WAY | other), *self.WANTED, sweeps=self.suite())
        assert (one.outcome, one.limit) == ("undecided", None)

    def test_a_scaled_suite_is_undecided(self) -> None:
        assert decide(rows(1e6, **self.WAY), *self.WANTED, sweeps=self.suite(scaled=True)).outcome == "undecided"


def test_the_sentence_and_the_worst() -> None:
    found = [decide(rows(1000), "read_iops", ">=", amount, "IOPS") for amount in (900, 900, 1000, 1100)]
    assert acceptance.sentence(found) == "4 criteria: 1 fails, 1 is undecided, 2 pass"
    assert acceptance.worst(found) == "fail"
    assert acceptance.worst(found[:3]) == "undecided"
    assert acceptance.worst(found[:2]) == "pass"
    assert acceptance.sentence(found[:1]) == "1 criterion: 1 passes"


@pytest.mark.parametrize("points", [1, 24])
def test_at_the_threshold_few_pass_or_fail(points: int) -> None:
    """Simulated: a figure that is exactly the threshold passes in few campaigns, also as the best of 24."""
    draw = random.Random(points)
    outcomes = []
    campaigns = 200 if points == 1 else 50
    for _ in range(campaigns):
        found = [
            one for n in range(1, points + 1)
            for one in rows(1000, f"p{n}", [draw.lognormvariate(0, 0.05) for _ in range(5)], threads_per_node=n)
        ]  # fmt: skip
        outcomes.append(decide(found, "read_iops", ">=", 1000, "IOPS").outcome)
    assert outcomes.count("pass") <= 0.05 * campaigns
    assert outcomes.count("fail") <= 0.05 * campaigns
