"""How figures of two campaigns differ: verdicts, what tells them, and what is said of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import results_factory as factory
from iosweep.analysis import comparison_words as words
from iosweep.analysis.changes import NOT_KNOWN, Changed, changes
from iosweep.analysis.comparison import Comparison, compare, most_elsewhere, told
from iosweep.analysis.data import Campaign
from iosweep.analysis.matching import NeverMixed, hint, ignored, match
from iosweep.analysis.summary import PointSummary, summarize

K = factory.K
BLOCKS, THREADS = (4 * K, 64 * K), (1, 2, 4)
#: Transfer size, threads -> factor.
Speed = Callable[[int, int], float]


def campaign(seed: int, sd: float = 0.01, n: int = 5, speed: Speed = lambda *_: 1.0, **more: Any) -> list[PointSummary]:
    draw = random.Random(seed)
    rows = [
        factory.row(
            **{"point": f"{size}.{threads}", "nodes": 1, "transfer_size_bytes": size, "threads_per_node": threads}
            | {"o_direct": True, "repetition": number, "session": "1", "hosts": "n1"}
            | {"ops_per_s": 1e4 * threads * draw.lognormvariate(0, sd) * speed(size, threads)}
            | {key: value(size, threads, number) if callable(value) else value for key, value in more.items()}
        )
        for size in BLOCKS
        for threads in THREADS
        for number in range(1, n + 1)
    ]
    return summarize(rows)


def compared(a: Sequence[PointSummary], b: Sequence[PointSummary], **more: Any) -> Comparison:
    return compare(match(a, b), (a, b), **more)


def lost(size: int, _: int) -> float:
    return 0.9 if size == 4 * K else 1.0


def test_equal_campaigns_have_no_change() -> None:
    found = compared(campaign(1), campaign(2))
    assert (found.regressions, told(found)) == ([], [])
    assert {one.verdict for one in found.singles} <= {"same", "undecided"}
    assert compared(campaign(1, 0.002), campaign(2, 0.002)).count("same") == 6


def test_a_loss_is_told_by_what_all_that_lost_has_in_common() -> None:
    for speed, where, pairs in (
        (lost, {"transfer_size_bytes": 4 * K}, 3),
        (lambda *_: 0.9, {}, 6),
        (lambda *at: 0.85 if at == (64 * K, 2) else 1.0, {}, 1),
    ):
        [one] = told(compared(campaign(1), campaign(2, speed=speed)))
        assert (one.verdict, one.where, len(one.pairs)) == ("regression", where, pairs)
    found = told(compared(campaign(1), campaign(2, speed=lambda size, _: 0.9 if size == 4 * K else 1.1)))
    assert {(one.verdict, len(one.pairs)) for one in found} == {("regression", 3), ("improvement", 3)}


def test_what_is_said_of_a_comparison(snapshot: SnapshotAssertion) -> None:
    def reason(size: int, threads: int, number: int) -> str:
        return f"other processes used {70 + number}% of the CPU time"

    def suspect(verdict: Callable[..., str]) -> list[PointSummary]:
        return campaign(2, speed=first_lost, verdict=verdict, reasons=reason)

    def first_lost(*at: int) -> float:
        return 0.5 if at == (4 * K, 1) else 1.0

    sessions = [system(seed, 0.005) for seed in range(3, 7)]
    pairs = {
        "equal": compared(campaign(1, 0.002), campaign(2, 0.002)),
        "one size lost": compared(campaign(1), campaign(2, speed=lost)),
        "everything lost": compared(campaign(1), campaign(2, speed=lambda *_: 0.9)),
        "one point lost": compared(campaign(1), campaign(2, speed=first_lost)),
        "latency rose": rising(),
        "one lost, the others undecided": compared(campaign(1, 0.05), campaign(2, 0.05, speed=first_lost)),
        "all in doubt": compared(campaign(1), suspect(lambda *_: "suspect")),
        "most in doubt": compared(campaign(1), suspect(lambda _, threads, __: ["suspect", "valid"][threads == 4])),
        "beyond what sessions differ by": compared(system(1, 0.005), system(2, 0.005, lambda *_: 0.9), like=sessions),
        "one result in a alone": compared(campaign(1), campaign(2)[:-1]),
        "invalid in b": compared(
            campaign(1), campaign(2, verdict=lambda size, *_: "invalid" if size == 4 * K else "valid")
        ),
    }
    lines = [[f"{name}: {words.sentence(one)}", *words.absent(one, ("a", "b"))] for name, one in pairs.items()]
    lines.append([words.sessions_differ(pairs["beyond what sessions differ by"], "a")])
    assert "\n".join(line for own in lines for line in own) == snapshot


def test_a_change_smaller_than_matters_is_none() -> None:
    slower = campaign(2, 0.002, speed=lambda *_: 0.98)
    assert not compared(campaign(1, 0.002), slower).regressions
    assert compared(campaign(1, 0.002), slower, at_least=0.01).regressions


def rising() -> Comparison:
    def latency(factor: float) -> Callable[[int, int, int], float]:
        return lambda size, threads, number: factor * 1e-3 * threads * (1 + 0.01 * (number % 3))

    a, b = (campaign(1, latency_p99_s=latency(factor)) for factor in (1, 1.2))
    return compared(a, b, column="latency_p99_s")


def test_latency_that_rises_is_a_regression() -> None:
    assert rising().regressions


def test_what_is_undecided_says_how_many_repetitions_would_decide() -> None:
    found = compared(campaign(1, 0.05), campaign(2, 0.05))
    undecided = found.undecided
    assert undecided
    assert all(one.more is None or one.more > 0 for one in undecided)
    more = max(one.more or 0 for one in undecided)
    again = compared(campaign(1, 0.05, 5 + more), campaign(2, 0.05, 5 + more))
    assert len(again.undecided) < len(undecided)


def test_invalid_repetitions_never_count_and_are_marked() -> None:
    spoilt = campaign(
        2,
        verdict=lambda size, threads, number: "invalid" if number == 1 else "valid",
        ops_per_s=lambda size, threads, number: 1e4 * threads * (1 + 0.001 * number) if number > 1 else 1.0,
    )
    found = compared(campaign(1, 0.002), spoilt)
    assert not found.regressions
    assert all(one.suspect for one in found.singles)


def test_a_point_without_a_valid_repetition_is_not_compared() -> None:
    found = compared(campaign(1), campaign(2, verdict=lambda size, *_: "invalid" if size == 4 * K else "valid"))
    assert len(found.singles) == 3
    assert {(side, why) for _, side, why in found.without} == {(1, "invalid")}


def test_the_figures_of_a_result_never_contradict_its_change() -> None:
    """One fast repetition lifts the arithmetic mean, and not the geometric one that the change is of."""
    spread = (1.0, 1.0, 1.0, 1.0, 0.35, 1.9)
    wild = campaign(2, n=6, ops_per_s=lambda size, threads, number: 1e4 * threads * spread[number - 1])
    found = compared(campaign(1, 0.001, n=6), wild)
    own = found.singles[0]
    assert own.change
    assert own.change.share < 0
    assert own.pairs[0].b.statistics["ops_per_s"].mean > own.pairs[0].a.statistics["ops_per_s"].mean
    first, other = (pair.center("ops_per_s") or 0.0 for pair in (own.pairs[0].a, own.pairs[0].b))
    assert other / first - 1 == pytest.approx(own.change.share)
    assert words.figures(own, "") == ("10.0 k IOPS", "9,343 IOPS")


def test_repetitions_on_different_nodes_decide_nothing() -> None:
    found = compared(campaign(1), campaign(2, speed=lambda *_: 0.5, hosts=lambda s, t, n: f"n{n}"))
    assert {one.verdict for one in found.singles} == {"undecided"}
    assert most_elsewhere(found.singles) is None


def test_a_single_repetition_is_compared_with_the_noise_of_the_other_points() -> None:
    def only_first(size: int, threads: int, number: int) -> str:
        return "valid" if number == 1 or (size, threads) != (4 * K, 1) else "invalid"

    found = compared(campaign(1), campaign(2, verdict=only_first, speed=lambda *at: 0.7 if at == (4 * K, 1) else 1))
    assert [one.pairs[0].a.point for one in found.singles if one.verdict == "regression"] == [f"{4 * K}.1"]


def system(seed: int, session: float, speed: Speed = lambda *_: 1.0) -> list[PointSummary]:
    """A campaign whose session makes all its figures faster or slower, with this standard deviation."""
    by = random.Random(f"session {seed}").lognormvariate(0, session)
    return campaign(seed, speed=lambda *at: by * speed(*at))


def test_what_sessions_of_a_system_differ_by_is_no_change_once_it_is_known() -> None:
    """Campaigns of one system that differ by 4 % or so from session to session."""
    sessions = [system(seed, 0.04) for seed in range(20, 26)]
    pairs = [(a, b) for i, a in enumerate(sessions) for b in sessions[i + 1 :]]
    alone = [compared(a, b) for a, b in pairs]
    known = [compared(a, b, like=[o for o in sessions if o is not a and o is not b]) for a, b in pairs]
    assert sum(bool(told(one)) for one in alone) > len(pairs) / 3
    assert not any(told(one) for one in known)


def test_a_loss_beyond_what_sessions_differ_by_is_found() -> None:
    found = compared(
        system(1, 0.005), system(2, 0.005, lambda *_: 0.9), like=[system(seed, 0.005) for seed in range(3, 7)]
    )
    assert [one.where for one in told(found)] == [{}]
    assert {one.sessions for one in found.findings} == {5}
    [learned] = found.learned or ()
    assert (learned.phase, learned.sessions) == ("rand_read", 5)
    assert 0.002 < learned.sd_share < 0.02


def test_two_sessions_are_too_few_for_a_change_that_is_not_huge() -> None:
    found = compared(system(1, 0.02), system(2, 0.02, lambda *_: 0.9), like=[system(3, 0.02)])
    assert not told(found)
    assert {one.verdict for one in found.singles} == {"undecided"}


# Which results of two campaigns are of the same thing

#: A point of a campaign: its id, and what of its parameters is not as usual.
Point = tuple[str, dict[str, Any]]
USUAL = {"nodes": 1, "threads_per_node": 1, "transfer_size_bytes": 4 * K, "queue_depth": 1, "o_direct": True}
SIZES: list[Point] = [("a", {}), ("b", {"transfer_size_bytes": 64 * K})]


def of(points: list[Point]) -> list[PointSummary]:
    return summarize([factory.row(point=point, **{**USUAL, **values}) for point, values in points])


def paired(pairs: Iterator[Any] | tuple[Any, ...]) -> list[tuple[str, str]]:
    return [(pair.a.point, pair.b.point) for pair in pairs]


def test_only_what_differs_in_nothing_but_what_is_ignored_is_compared() -> None:
    b: list[Point]
    for b, ignore, expected in (
        (SIZES, None, [("a", "a"), ("b", "b")]),
        # ids decide, not parameters: an id has what no parameter has
        ([("c", {})], None, []),
        ([("c", {})], ["phases"], [("a", "c")]),
        ([("c", {"queue_depth": 2, "nodes": 2})], ["queue_depth"], []),
        ([("c", {"queue_depth": 2, "nodes": 2})], ["queue_depth", "nodes"], [("a", "c")]),
        # of several points that are the same, none is chosen
        (SIZES, ["transfer_size_bytes"], []),
        # what no comparison may ignore keeps points apart, whatever is ignored
        ([("c", {"o_direct": False})], ["phases"], []),
        ([("c", {"tool": "ior"})], ["phases"], []),
        # a version never kept points apart
        ([("c", {"tool_version": "fio-3.37"})], ["fio.version"], [("a", "c")]),
    ):  # fmt: skip
        found = match(of(SIZES), of(b), None if ignore is None else ignored(ignore))
        assert paired(found.pairs) == expected, (b, ignore)
        assert len(found.unmatched) == 2 + len(b) - 2 * len(expected)


def test_conditions_are_never_ignored() -> None:
    for name, meant in (("write_mode", "write_mode"), ("o_direct", "o_direct"), ("transfer_sise", "`transfer_size`")):
        with pytest.raises(NeverMixed, match=meant):
            ignored([name])


def test_what_would_match_is_told() -> None:
    b: list[Point]
    two = {"queue_depth": 4}
    for b, differ, conditions, matched in (
        ([("c", two), ("d", two | {"transfer_size_bytes": 64 * K})], ["queue_depth"], [], 2),
        ([("c", {"write_mode": "new"})], [], ["write_mode"], 0),
        ([("c", {"transfer_size_bytes": 8 * K})], ["transfer_size"], [], 0),  # of two of `a`, none is chosen
    ):
        found = hint(of(SIZES), of(b), None)
        assert found is not None
        assert (list(found.differ), list(found.conditions), found.matched) == (differ, conditions, matched), b
    assert hint(of(SIZES), summarize([factory.row(phase="seq_read")]), None) is None


# What changed beside the figures

NODE = factory.NODE | {"host": "n1"}
CONFIGURATION = """
campaign: {name}
target: {{directory: /mnt/a}}
sweeps:
  - name: one
    tool: fio
    axes: {{threads_per_node: [1, 2]}}
    phase_time: {time}
"""


def facts(row: dict[str, object] | None = None, node: dict[str, object] | None = None, **about: object) -> Campaign:
    usual = {"hosts": "n1", "tool_version": "fio-3.33", "tool_sha256": "a" * 64, "session": "1"}
    return factory.loaded([factory.row(**usual | (row or {}))], nodes=[NODE | (node or {})], **about)


def text(name: str, time: str) -> list[dict[str, str]]:
    return [{"file": "sweep.yaml", "text": CONFIGURATION.format(name=name, time=time)}]


def test_equal_campaigns_differ_in_nothing() -> None:
    assert changes(facts(), facts(campaign="another name")) == []
    assert changes(facts(configuration=text("a", "10s")), facts(configuration=text("b", "10s"))) == []


def test_each_fact_that_differs_is_named() -> None:
    row: dict[str, object]
    node: dict[str, object]
    for row, node, expected in (
        ({"tool_version": "fio-3.37"}, {}, Changed("tools", "fio", "3.33", "3.37")),
        ({"tool_sha256": "b" * 64}, {}, Changed("tools", "fio binary", f"sha256 {'a' * 12}", f"sha256 {'b' * 12}")),
        ({"target_fstype": "xfs"}, {}, Changed("target", "type", NOT_KNOWN, "xfs")),
        ({"pinning": "off"}, {}, Changed("CPUs", "pinning", NOT_KNOWN, "off")),
        ({}, {"kernel": "6.8"}, Changed("nodes", "kernel", "6.1.0-28-amd64", "6.8")),
        ({}, {"nics": []}, Changed("nodes", "network", "1 × 100 Gbit/s", NOT_KNOWN)),
        (
            {},
            {"mount": "29 1 259:2 / /mnt/scratch rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro"},
            Changed("target", "mount options", "rw,relatime,errors=remount-ro", "rw,noatime,errors=remount-ro"),
        ),
        ({"hosts": "n2"}, {"host": "n2"}, Changed("nodes", "nodes", "n1", "n2")),
    ):
        assert changes(facts(), facts(row, node)) == [expected]
    found = changes(facts(), facts(target={"directory": "/mnt/b"}, iosweep_version="9"))
    assert [one.what for one in found] == ["directory", "iosweep"]


def test_values_of_the_configuration_are_named_by_their_sweeps() -> None:
    found = changes(facts(configuration=text("a", "10s")), facts(configuration=text("b", "20s")))
    assert found == [Changed("configuration", "sweeps[one].phase_time", "10s", "20s")]


def test_a_regression_of_a_single_or_of_a_group_is_one_of_the_comparison() -> None:
    one: Any = SimpleNamespace(verdict="regression")
    for singles, groups in (((one,), ()), ((), (one,))):
        found = Comparison(None, "", 0.03, singles, groups, ())  # type: ignore[arg-type]
        assert found.regressions == [one]
