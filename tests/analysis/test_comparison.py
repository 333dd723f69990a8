"""How figures of two campaigns differ: verdicts, what tells them, and what is said of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import results_factory as factory
from iosweep.analysis import comparison
from iosweep.analysis.comparison import (
    NOT_KNOWN,
    Changed,
    Comparison,
    changes,
    compare,
    explained,
)
from iosweep.analysis.summary import PointSummary, summarize
from iosweep.tables.reader import Campaign

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


def lost(size: int, _: int) -> float:
    return 0.9 if size == 4 * K else 1.0


def test_equal_campaigns_have_no_change() -> None:
    found = compare(campaign(1), campaign(2))
    assert (found.regressions, explained(found)) == ([], [])
    assert {one.verdict for one in found.singles} <= {"same", "undecided"}
    assert compare(campaign(1, 0.002), campaign(2, 0.002)).count("same") == 6


def test_a_loss_is_told_by_what_all_that_lost_has_in_common() -> None:
    for speed, where, pairs in (
        (lost, {"transfer_size_bytes": 4 * K}, 3),
        (lambda *_: 0.9, {}, 6),
        (lambda *at: 0.85 if at == (64 * K, 2) else 1.0, {}, 1),
    ):
        [one] = explained(compare(campaign(1), campaign(2, speed=speed)))
        assert (one.verdict, one.where, len(one.pairs)) == ("worse", where, pairs)
    found = explained(compare(campaign(1), campaign(2, speed=lambda size, _: 0.9 if size == 4 * K else 1.1)))
    assert {(one.verdict, len(one.pairs)) for one in found} == {("worse", 3), ("better", 3)}


def test_phases_are_compared_by_the_parameters_that_they_use() -> None:
    """A point's other phases may use more."""
    before, after = (
        summarize(
            factory.row(point=f"p{share}", phase=phase, nodes=1, repetition=n, ops_per_s=1e4 + seed * n,
                        read_percent=share if phase == "rand_mixed" else None)
            for share in (50, 70) for phase in ("rand_read", "rand_mixed") for n in (1, 2, 3)
        )
        for seed in (1, 2)
    )  # fmt: skip
    found = compare(before, after)
    places = {(diff.phase, *comparison.parameters_of(found, diff)) for diff in found.differences}
    assert places == {("rand_read",), ("rand_mixed",), ("rand_mixed", "read_percent")}


def test_what_is_said_of_a_comparison(snapshot: SnapshotAssertion) -> None:
    def reason(size: int, threads: int, number: int) -> str:
        return f"other processes used {70 + number}% of the CPU time"

    def suspect(verdict: Callable[..., str]) -> list[PointSummary]:
        return campaign(2, speed=first_lost, verdict=verdict, reasons=reason)

    def first_lost(*at: int) -> float:
        return 0.5 if at == (4 * K, 1) else 1.0

    pairs = {
        "equal": compare(campaign(1, 0.002), campaign(2, 0.002)),
        "one size lost": compare(campaign(1), campaign(2, speed=lost)),
        "everything lost": compare(campaign(1), campaign(2, speed=lambda *_: 0.9)),
        "one point lost": compare(campaign(1), campaign(2, speed=first_lost)),
        "latency rose": rising(),
        "one lost, the others undecided": compare(campaign(1, 0.05), campaign(2, 0.05, speed=first_lost)),
        "all in doubt": compare(campaign(1), suspect(lambda *_: "suspect")),
        "most in doubt": compare(campaign(1), suspect(lambda _, threads, __: ["suspect", "valid"][threads == 4])),
        "one result in a alone": compare(campaign(1), campaign(2)[:-1]),
        "invalid in b": compare(
            campaign(1), campaign(2, verdict=lambda size, *_: "invalid" if size == 4 * K else "valid")
        ),
    }
    lines = [
        [f"{name}: {comparison.sentence(one)}", *comparison.absences(one, ("a", "b"))] for name, one in pairs.items()
    ]
    assert "\n".join(line for own in lines for line in own) == snapshot


def test_a_change_smaller_than_matters_is_none() -> None:
    slower = campaign(2, 0.002, speed=lambda *_: 0.98)
    assert not compare(campaign(1, 0.002), slower).regressions
    assert compare(campaign(1, 0.002), slower, at_least=0.01).regressions


def rising() -> Comparison:
    def latency(factor: float) -> Callable[[int, int, int], float]:
        return lambda size, threads, number: factor * 1e-3 * threads * (1 + 0.01 * (number % 3))

    a, b = (campaign(1, latency_p99_s=latency(factor)) for factor in (1, 1.2))
    return compare(a, b, column="latency_p99_s")


def test_latency_that_rises_is_a_regression() -> None:
    assert rising().regressions


def test_invalid_repetitions_never_count_and_are_marked() -> None:
    spoilt = campaign(
        2,
        verdict=lambda size, threads, number: "invalid" if number == 1 else "valid",
        ops_per_s=lambda size, threads, number: 1e4 * threads * (1 + 0.001 * number) if number > 1 else 1.0,
    )
    found = compare(campaign(1, 0.002), spoilt)
    assert not found.regressions
    assert all(one.suspect for one in found.singles)


def test_a_point_without_a_valid_repetition_is_not_compared() -> None:
    found = compare(campaign(1), campaign(2, verdict=lambda size, *_: "invalid" if size == 4 * K else "valid"))
    assert len(found.singles) == 3
    assert {(one.side, one.why) for one in found.absent} == {(1, "invalid")}


def test_the_figures_of_a_result_never_contradict_its_change() -> None:
    """One fast repetition lifts the arithmetic mean, and not the geometric one that the change is of."""
    spread = (1.0, 1.0, 1.0, 1.0, 0.35, 1.9)
    wild = campaign(2, n=6, ops_per_s=lambda size, threads, number: 1e4 * threads * spread[number - 1])
    found = compare(campaign(1, 0.001, n=6), wild)
    own = found.singles[0]
    assert own.change
    assert own.change.share < 0
    assert own.pairs[0].b.metrics["ops_per_s"].mean > own.pairs[0].a.metrics["ops_per_s"].mean
    first, other = (pair.center("ops_per_s") or 0.0 for pair in (own.pairs[0].a, own.pairs[0].b))
    assert other / first - 1 == pytest.approx(own.change.share)
    assert comparison.figures(own, "") == ("10.0 k IOPS", "9,343 IOPS")


def test_repetitions_on_different_nodes_decide_nothing() -> None:
    found = compare(campaign(1), campaign(2, speed=lambda *_: 0.5, hosts=lambda s, t, n: f"n{n}"))
    assert {one.verdict for one in found.singles} == {"undecided"}


def test_nothing_is_said_of_intervals_where_there_are_none() -> None:
    found = compare(campaign(1, n=1), campaign(2, n=1))
    named: Any = SimpleNamespace(name="a")
    told = [*comparison.notes(comparison.Versus(named, named, found, ()))]
    assert told == ["No change has an interval, so nothing is decided; each result says why."]


def test_a_single_repetition_is_compared_with_the_noise_of_the_other_points() -> None:
    def only_first(size: int, threads: int, number: int) -> str:
        return "valid" if number == 1 or (size, threads) != (4 * K, 1) else "invalid"

    found = compare(campaign(1), campaign(2, verdict=only_first, speed=lambda *at: 0.7 if at == (4 * K, 1) else 1))
    assert [one.pairs[0].a.point for one in found.singles if one.verdict == "worse"] == [f"{4 * K}.1"]


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
        ({"pinning": "verify"}, {}, Changed("nodes", "pinning", NOT_KNOWN, "verify")),
        ({}, {"kernel": "6.8"}, Changed("nodes", "kernel", "6.1.0-28-amd64", "6.8")),
        ({}, {"nics": []}, Changed("nodes", "network", "ens1f0np0 100 Gbit/s", NOT_KNOWN)),
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
