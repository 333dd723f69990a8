"""Decisions on criteria of acceptance: by the interval, and never a pass where there is doubt."""

import re
from typing import Any

import pytest
from msgspec import structs
from syrupy.assertion import SnapshotAssertion

from iosweep.analysis import acceptance, headline
from iosweep.analysis.acceptance import Decision, Outcome, Reason
from iosweep.analysis.summary import Metric, summarize
from iosweep.config import criteria
from iosweep.config.criteria import Criterion, Threshold
from iosweep.tables.reader import PRECISE, ResultRow, mark_imprecise
from results_factory import check, loaded, row, sweep_facts

pytestmark = pytest.mark.unit

FIVE = [0.99, 1.0, 1.01, 1.005, 0.995]


def rows(mean: float, point: str = "p", spread: Any = FIVE, first: int = 1, **more: Any) -> list[ResultRow]:
    known = {"tool": "fio", "o_direct": True, "nodes": 1, "queue_depth": 1, "threads_per_node": 1}
    return [
        row(**known | {"point": point, "repetition": first + i, "ops_per_s": mean * by, "latency_mean_s": by / mean,
                       "latency_p99_s": 3 * by / mean} | more)
        for i, by in enumerate(spread)
    ]  # fmt: skip


def criterion(name: str, comparison: Any, amount: float, unit: str, of: str | None = None) -> Criterion:
    threshold = Threshold(comparison=comparison, amount=amount, unit=unit, of=of)
    return Criterion(name=name, selector=criteria.parse_selector(name), threshold=threshold)


def decide(found: list[ResultRow], *wanted: Any, checks: Any = (), **about: Any) -> Decision:
    """about: parts of campaign.json."""
    [one] = acceptance.decide(
        loaded(found, checks, **about), summarize(mark_imprecise(found, checks)), [criterion(*wanted)]
    )
    return one


def test_the_whole_interval_decides() -> None:
    comparison: Any
    for comparison, amount, outcome in (
        (">=", 900, "pass"), (">", 900, "pass"), ("<=", 900, "fail"), ("<", 900, "fail"),
        (">=", 1100, "fail"), ("<=", 1100, "pass"), (">=", 1000, "undecided"), ("<=", 1001, "undecided"),
    ):  # fmt: skip
        found = decide(rows(1000), "read_iops", comparison, amount, "IOPS")
        assert (found.outcome, found.limit) == (outcome, amount), (comparison, amount)
        assert metric(found).figure == pytest.approx(1000, rel=1e-3)
        assert metric(found).interval


def metric(decision: Decision) -> Metric:
    assert decision.measured
    return decision.measured.metric


def ids(decision: Decision) -> list[str]:
    return [point.point for point in decision.results]


def test_as_many_repetitions_as_are_told_would_decide() -> None:
    found = decide(rows(1000), "read_iops", ">=", 994, "IOPS")
    assert found.outcome == "undecided"
    [needed] = map(int, re.findall(r"about (\d+) repetitions", found.reason.text()))
    assert 5 < needed < 20
    more = rows(1000, spread=[FIVE[i % 5] for i in range(needed - 5)], first=6, session="2")
    assert decide([*rows(1000), *more], "read_iops", ">=", 993, "IOPS").outcome == "pass"


def test_advice_is_within_what_the_configuration_takes() -> None:
    """Confirmation has at most 100 repetitions; a campaign of several sessions gets further ones."""
    near = ("read_iops", ">=", 999, "IOPS")
    found = rows(1000)
    assert "set `repetitions` to" in decide(found, *near).reason.text()
    confirmed = [*found, *rows(1000, first=6, confirms=True)]
    assert "set" not in decide(confirmed, *near).reason.text()
    sweep = structs.asdict(sweep_facts(5, "p")) | {"repetitions": {"min": 5, "max": 5, "sessions": 2}}
    two = [*rows(1000, session="1"), *rows(1000, first=6, session="2")]
    assert "set `sessions` to 4" in decide(two, "read_iops", ">=", 995, "IOPS", sweeps=[sweep]).reason.text()


ABSENT = "fio is not on PATH"
MISSING = {"repetition": 3, "verdict": "missing", "nodes": 1, "ops_per_s": None}


def eight(spread: Any = FIVE) -> list[ResultRow]:
    """Points that cannot be told apart."""
    return [one for n in range(1, 9) for one in rows(1000 + n / 10, f"p{n}", spread, threads_per_node=n)]


def undecided() -> dict[str, Decision]:
    """Decisions that cannot be made, each for another reason."""
    at, few = ("read_iops", ">=", 1, "IOPS"), rows(1000, spread=[1.0, 1.01])
    one_suspect = [structs.replace(r, verdict="suspect", reasons=("others wrote",)) if r.repetition == 2 else r
                   for r in eight()]  # fmt: skip
    invalid = [r for n in range(1, 9) for r in rows(10, f"p{n}", [1.0], 6, threads_per_node=n, verdict="invalid",
                                                    reasons="an error")]  # fmt: skip
    apart = [*rows(1000, "n1"), *rows(6000, "n8", nodes=8, queue_depth=8)]
    elsewhere = [structs.replace(one, hosts=f"n{i}", slurm_job=str(i)) for i, one in enumerate(rows(1000))]
    lacks = [structs.replace(r, figures={k: v for k, v in r.figures.items() if "p99" not in k}) for r in rows(1000)]
    one_side = [*rows(1000, "n1", spread=[1.0, 1.01]), *rows(6000, "n8", nodes=8, spread=[1.0, 1.01])]
    return {
        "more repetitions decide": decide(rows(1000), "read_iops", ">=", 994, "IOPS"),
        "at the threshold": decide(rows(1000, spread=[1.0, 1.0, 1.0]), "read_iops", ">=", 1000, "IOPS"),
        "too near to it": decide(rows(1000, spread=[0.5, 1.0, 2.0]), "read_iops", ">=", 1000.1, "IOPS"),
        "not measured yet": decide([row(verdict="missing", repetition=None, ops_per_s=None, left=True)], *at),
        "missing": decide([row(verdict="missing", ops_per_s=None, reasons="fio is not installed")], *at),
        "invalid": decide(rows(1000, verdict="invalid", reasons="an error"), *at),
        "one repetition": decide(rows(1000, spread=[1.0]), *at),
        "the next run measures more": decide([*few, row(**MISSING | {"left": True})], *at),
        "no interval over different nodes": decide(elsewhere, *at),
        "a tool is not there": decide([*few, row(**MISSING | {"left": False, "reasons": ABSENT})], *at),
        "suspect and invalid among many": decide(one_suspect + invalid, "read_iops", ">=", 1001, "IOPS"),
        "no p99": decide(lacks, "read_p99", "<=", 1, "ms"),
        "scaling without an interval": decide(one_side, "rand_read scaling nodes 1 -> 8", ">=", 5, "x"),
        "no points to compare": decide(apart, "rand_read scaling nodes 1 -> 8", ">=", 5, "x"),
        "too wide": decide(rows(1000, spread=[0.7, 1.0, 1.4]), "read_iops", ">=", 990, "IOPS"),
        "a phase that is not measured": decide(rows(1000), "write_iops", ">=", 1, "IOPS"),
    }


def test_every_reason_why_nothing_is_decided(snapshot: SnapshotAssertion) -> None:
    told = []
    for name, one in undecided().items():
        assert one.outcome == "undecided", name
        told += [f"{name}: {one.figure}", f"    {one.reason.text()}", *(f"    - {note}" for note in one.notes)]
    assert "\n".join(told) == snapshot


def test_suspect_repetitions_do_not_decide() -> None:
    """Neither do they pass, nor is a delivery failed by what may be somebody else's load."""
    found = rows(1000)
    found[1] = structs.replace(found[1], verdict="suspect", reasons=("others wrote",))
    one = decide(found, "read_iops", ">=", 900, "IOPS")
    assert one.outcome == "undecided"
    assert decide(found, "read_iops", ">=", 1100, "IOPS").outcome == "undecided"
    # that its repetitions scatter is in the interval already
    precise = [check(repetition=2, check=PRECISE, outcome="fail", severity="suspect")]
    assert decide(found, "read_iops", ">=", 900, "IOPS", checks=precise).outcome == "pass"


def test_the_confirmed_figure_of_the_best_point_is_compared() -> None:
    found = [
        *rows(1000, "p1", threads_per_node=1),
        *rows(2000, "p8", threads_per_node=8),
        *rows(1900, "p8", threads_per_node=8, confirms=True, first=11),
    ]
    one = decide(found, "read_iops", ">=", 1850, "IOPS")
    assert (one.outcome, ids(one)) == ("pass", ["p8"])
    assert metric(one).figure == pytest.approx(1900, rel=1e-3)
    assert decide(found, "read_iops", ">=", 1950, "IOPS").outcome == "fail"
    assert decide(found, "rand_read at threads_per_node 1", ">=", 900, "IOPS").results[0].point == "p1"


def test_the_interval_is_that_of_the_headline() -> None:
    """Wider for the best of many that cannot be told apart, unless it is confirmed."""
    found = eight()
    best = headline.find_highest(summarize(found))
    assert best
    assert metric(decide(found, "read_iops", ">=", 1, "IOPS")) == best.metric
    confirmed = [*found, *rows(1000, "p8", threads_per_node=8, confirms=True, first=11)]
    narrow, wide = (metric(decide(each, "read_iops", ">=", 1, "IOPS")).estimate for each in (confirmed, found))
    assert narrow and wide and wide.half_width_share > 1.5 * narrow.half_width_share


def test_each_look_has_half_of_the_risk_of_the_one_before() -> None:
    """So that criteria may be decided after each run, also if more repetitions of one planned session are asked for."""
    looks = [one for n in range(4) for one in rows(1000, first=1 + 5 * n, session=str(n), session_number=1)]
    near = metric(decide(looks, "read_iops", ">=", 1, "IOPS")).interval
    assert near
    for threshold, outcome in ((near.low * 0.9999, "undecided"), (near.low * 0.99, "pass")):
        one = decide(looks, "read_iops", ">=", threshold, "IOPS")
        assert (one.outcome, metric(one).interval) == (outcome, near)
        assert "99.375 % interval of look 4" in one.reason.text()
    # node counts have jobs of their own in the same look
    sides = [*rows(1000, "n1", session="7"), *rows(6600, "n8", nodes=8, session="8")]
    assert "look" not in decide(sides, "rand_read scaling nodes 1 -> 8", ">=", 6, "x").reason.text()


def test_a_point_without_a_figure_may_be_the_better_one() -> None:
    absent = row(point="p8", verdict="missing", left=True, nodes=1, queue_depth=1, threads_per_node=8, o_direct=True,
                 ops_per_s=None, repetition=None)  # fmt: skip
    found = [*rows(1000), absent]
    assert decide(found, "read_iops", ">=", 900, "IOPS").outcome == "pass"
    one = decide(found, "read_iops", ">=", 1100, "IOPS")
    assert one.outcome == "undecided"
    assert decide(found, "read_iops", "<=", 1100, "IOPS").outcome == "undecided"
    unneeded = [*rows(1000), structs.replace(absent, left=None, unneeded=True)]
    assert decide(unneeded, "read_iops", ">=", 1100, "IOPS").outcome == "fail"
    assert decide(found, "rand_read at threads_per_node 1", ">=", 1100, "IOPS").outcome == "fail"


def test_latencies_are_those_at_the_lowest_queue_depth() -> None:
    found = [*rows(1000, "p1"), *rows(100, "p32", queue_depth=32)]
    one = decide(found, "read_p99", "<=", 3.2, "ms")
    assert (one.outcome, ids(one)) == ("pass", ["p1"])
    assert metric(one).figure == pytest.approx(0.003, rel=1e-3)
    deep = decide(found, "rand_read p99 at queue_depth 32", "<=", 3.2, "ms")
    assert (deep.outcome, ids(deep)) == ("fail", ["p32"])


def test_a_ratio_compares_points_that_both_sides_have() -> None:
    """A single node is measured at all queue depths, eight nodes at the lowest only. Each side's own best point made
    that 0.3x of a healthy system."""
    single = [one for depth in (1, 8, 32) for one in rows(1000 * depth, f"n1d{depth}", queue_depth=depth)]
    at = "rand_read scaling nodes 1 -> 8"
    found = [*single, *rows(6600, "n8d1", nodes=8)]
    for threshold, outcome in ((6, "pass"), (6.6, "undecided"), (7, "fail")):
        one = decide(found, at, ">=", threshold, "x")
        assert (one.outcome, ids(one), metric(one).figure) == (outcome, ["n1d1", "n8d1"], pytest.approx(6.6))
    # of several pairs the one that is the best of both together
    found += rows(90_000, "n8d8", nodes=8, queue_depth=8)
    assert ids(decide(found, at, ">=", 6, "x")) == ["n1d8", "n8d8"]
    assert ids(decide(found, "rand_read p99 scaling nodes 1 -> 8", "<=", 2, "x")) == ["n1d1", "n8d1"]
    apart = decide([*single, *rows(6600, "n8", nodes=8, queue_depth=2)], at, ">=", 6, "x")
    assert (apart.outcome, apart.measured) == ("undecided", None)


def test_a_ratio_is_paired_by_round() -> None:
    """A disturbance of a round is in both sides; in the fresh repetitions of both, if both are confirmed."""
    rounds = [0.5, 1.0, 0.7, 1.2, 0.9]
    found = [
        *rows(1000, "a", [r * by for r, by in zip(rounds, FIVE, strict=True)], ioengine="libaio"),
        *rows(1200, "b", rounds, ioengine="io_uring"),
    ]
    at = ("rand_read ratio ioengine libaio -> io_uring", ">=", 1.1, "x")
    assert decide(found, *at).outcome == "pass"
    alone = [structs.replace(one, session="2") if one.point == "b" else one for one in found]
    assert "`iosweep rerun` of both points" in decide(alone, *at).reason.text()
    # more repetitions would not help where a run was stopped between the points: those that are there share two rounds
    apart = [structs.replace(one, session="2") if (one.point, one.repetition) >= ("b", 3) else one for one in found]
    assert "`iosweep rerun` of both points" in decide(apart, *at).reason.text()
    # a session in which one side alone was slow has no part in it
    slow = rows(600, "b", rounds, first=6, session="2", ioengine="io_uring")
    assert metric(decide([*found, *slow], *at)).figure == metric(decide(found, *at)).figure
    found += rows(1000, "a", first=11, confirms=True, ioengine="libaio")
    assert decide(found, *at).outcome == "pass"
    assert decide([*found, *rows(1000, "b", first=11, confirms=True, ioengine="io_uring")], *at).outcome == "fail"


def test_a_published_figure_is_the_threshold_of_what_was_measured_in_its_way() -> None:
    """`>= 90 % of weka`."""

    def against(found: list[ResultRow], of: str = "weka", name: str = "read_iops", scaled: bool = False) -> Decision:
        facts = structs.asdict(sweep_facts(5, "p", name="weka.read-iops", suite="weka", scaled=scaled))
        facts |= {"repetitions": {"min": 5, "max": 5}}
        return decide(found, name, ">=", 90, "%", of, sweeps=[facts])

    way: dict[str, Any] = {"threads_per_node": 192, "sweeps": "weka.read-iops"}
    for rate, outcome in ((563_667, "pass"), (400_000, "fail"), (0.9 * 563_667, "undecided")):
        one = against(rows(rate, **way))
        assert (one.outcome, one.limit) == (outcome, pytest.approx(0.9 * 563_667)), rate
    # a system may be named
    one = against(rows(400_000, **way), "weka.aws")
    assert (one.outcome, one.limit) == ("pass", pytest.approx(0.9 * 393_333))
    # nothing was measured in that way
    for other in ({"threads_per_node": 64}, {"sweeps": "own"}):
        one = against(rows(1e6, **way | other))
        assert (one.outcome, one.limit) == ("undecided", None), other
    assert against(rows(1e6, **way), scaled=True).outcome == "undecided"


def test_the_worst_criterion_is_that_of_all() -> None:
    found = [decide(rows(1000), "read_iops", ">=", amount, "IOPS") for amount in (900, 900, 1000, 1100)]
    assert [acceptance.worst(found[:n]) for n in (2, 3, 4)] == ["pass", "undecided", "fail"]
    assert re.findall(r"\d+", acceptance.sentence(found)) == ["4", "1", "1", "2"]


# A reason that all decisions have is said once

MEMORY, SHORT, LOCK = "the target is memory", "too short", "locked by another campaign"


def decision(reason: Reason, outcome: Outcome = "undecided") -> Decision:
    return Decision(criterion("read_iops", ">=", 1, "IOPS"), outcome, reason)


def test_what_all_share_is_said_once_and_hides_nothing() -> None:
    one = decision(Reason("3 of 3 repetitions suspect", ((MEMORY, 3), (SHORT, 2))))
    other = decision(Reason("5 of 5 repetitions suspect", ((MEMORY, 5),)))
    shared = acceptance.shared([one, other])
    assert shared == [MEMORY]
    assert one.reason.text(1, shared) == f"3 of 3 repetitions suspect: {SHORT}"
    assert other.reason.text(1, shared) == "5 of 5 repetitions suspect"
    assert one.reason.text() == f"3 of 3 repetitions suspect: 3 × {MEMORY}; and 1 other reason"
    assert one.reason.text(2) == f"3 of 3 repetitions suspect: 3 × {MEMORY}; 2 × {SHORT}"
