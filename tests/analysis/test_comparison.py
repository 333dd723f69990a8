"""How two campaigns differ, or two values of an axis: verdicts, what explains them, and what is said of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from syrupy.assertion import SnapshotAssertion

import results_factory as factory
from iosweep.analysis import comparison
from iosweep.analysis.comparison import Comparison, compare, match, match_over
from iosweep.analysis.summary import PointSummary, summarize
from iosweep.tables.reader import ResultRow

K = factory.K
BLOCKS, THREADS = (4 * K, 64 * K), (1, 2, 4)
DATA = tuple(factory.DATA_PHASES)
BEGAN = datetime(2025, 6, 2, 9, tzinfo=UTC)
#: Phase, transfer size, threads -> factor.
Speed = Callable[[str, int, int], float]


def make_rows(
    seed: int, sd: float = 0.01, n: int = 5, speed: Speed = lambda *_: 1.0, phases: tuple[str, ...] = ("rand_read",),
    days: tuple[float, ...] = (1.0,), run: str = "", engine: str = "libaio", **more: Any,
) -> list[ResultRow]:  # fmt: skip
    """n: repetitions in each session; days: factor of each session; run: makes sessions those of another campaign;
    more: columns, or functions of transfer size, threads and repetition."""
    draw = random.Random(seed)
    return [
        factory.row(
            **{
                "point": f"{size}.{threads}.{engine}.{more.get('nodes', 1)}",
                "nodes": 1,
                "transfer_size_bytes": size,
                "ioengine": engine,
            }
            | {"threads_per_node": threads, "o_direct": True, "phase": phase, "hosts": "n1"}
            | {"repetition": session * n + number, "session": f"{run}{session}"}
            | {"started": BEGAN + timedelta(days=session)}
            | {"ops_per_s": 1e4 * threads * draw.lognormvariate(0, sd) * speed(phase, size, threads) * day}
            | {key: value(size, threads, number) if callable(value) else value for key, value in more.items()}
        )
        for phase in phases
        for size in BLOCKS
        for threads in THREADS
        for session, day in enumerate(days)
        for number in range(1, n + 1)
    ]


def campaign(seed: int, *args: Any, **options: Any) -> list[PointSummary]:
    return summarize(make_rows(seed, *args, run=f"{seed}.", **options))


def against(a: list[PointSummary], b: list[PointSummary], *args: Any, **options: Any) -> Comparison:
    return compare(match(a, b), *args, **options)


def over(speed: Speed = lambda *_: 1.0, seed: int = 1, **options: Any) -> Comparison:
    """Two engines, in the same rounds."""
    results = summarize([
        *make_rows(seed, **options), *make_rows(seed + 1, engine="io_uring", speed=speed, **options),
    ])  # fmt: skip
    return compare(match_over(results, "ioengine", "libaio", "io_uring"))


def lost(_: str, size: int, __: int) -> float:
    return 0.9 if size == 4 * K else 1.0


def verdicts(found: Comparison) -> dict[str, int]:
    return {verdict: count for verdict, count, _ in comparison.count_verdicts(found) if count}


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        (lambda *_: 0.8, ["all results (24)"]),
        (lambda _, __, threads: 0.5 + 0.03 * threads, ["all results (24)"]),
        (lambda phase, *_: 0.85 if phase.startswith("seq") else 1, ["all sequential I/O (12)"]),
        (lambda phase, *_: 0.85 if phase.endswith("write") else 1, ["all writes (12)"]),
        (lambda phase, *_: 0.85 if phase == "seq_read" else 1, ["sequential reads (6)"]),
        (lambda _, size, __: 0.85 if size == 4 * K else 1, ["everything at 4 KiB (12)"]),
        (lambda phase, size, _: 0.85 if (phase, size) == ("rand_read", 4 * K) else 1, ["random reads at 4 KiB (3)"]),
        (lambda *at: 0.8 if at == ("seq_read", 4 * K, 2) else 1, ["sequential reads at 2 threads per node, 4 KiB (1)"]),
        (
            lambda phase, _, threads: 0.7 if phase.startswith("seq") else 1.2 if threads == 4 else 1,
            ["all sequential I/O (12)", *(f"random {way} at 4 threads per node (2)" for way in ("writes", "reads"))],
        ),
    ],
)  # fmt: skip
def test_changes_are_explained_by_the_simplest_groups_and_counts_agree(speed: Speed, expected: list[str]) -> None:
    found = over(speed, phases=DATA)
    told = [f"{comparison.subject(found, one)} ({len(one.pairs)})" for one in found.explained]
    assert sorted(told) == sorted(expected)
    counts = verdicts(found)
    assert counts.get("worse", 0) + counts.get("better", 0) == sum(len(one.pairs) for one in found.explained)
    assert counts.get("worse", 0) == sum(len(one.pairs) for one in found.explained if one.verdict == "worse")


def test_results_that_did_not_change_are_not_counted_with_those_that_did() -> None:
    """The noise hides that the mean of all results is that of half of them."""

    def half_lost(phase: str, *_: int) -> float:
        return 0.83 if phase.startswith("seq") else 1.0

    found = against(campaign(1, 0.1, phases=DATA), campaign(20, 0.1, phases=DATA, speed=half_lost))
    assert [comparison.subject(found, one) for one in found.explained] == ["all sequential I/O"]


def test_a_direction_needs_sessions_or_pairs() -> None:
    """Two days differ by more than the rounds of each, so single sessions only differ."""
    slower: Speed = lambda *_: 0.6  # noqa: E731
    days, others = (1.0, 1.02, 0.98), (1.01, 0.97, 1.0)
    for found, design, verdict in (
        (against(campaign(1), campaign(2, speed=slower)), "rounds", "differs"),
        (against(campaign(1, days=days), campaign(2, speed=slower)), "rounds", "differs"),
        (against(campaign(1, days=days), campaign(2, speed=slower, days=others)), "sessions", "worse"),
        (over(slower), "pairs", "worse"),
        (rising(), "sessions", "worse"),
    ):
        assert (found.design, [one.verdict for one in found.explained]) == (design, [verdict])
    assert not against(campaign(1, days=days), campaign(2, days=(0.8, 1.1, 0.95))).explained
    assert verdicts(against(campaign(1, 0.002), campaign(2, 0.002))) == {"same": 6}
    assert not over(slower, n=2, sd=0.001).explained  # as for criteria, two pairs are too few


def test_a_run_that_went_on_is_one_session() -> None:
    """Its parts are of one day, so they do not show how much days differ."""
    sides = [campaign(seed, days=(1.0, 1.0), session_number=1) for seed in (1, 2)]
    assert (against(*sides).design, against(*sides).sessions) == ("rounds", (1, 1))


def test_jobs_of_other_points_are_no_sessions() -> None:
    """Each number of nodes is measured in a job of its own."""
    rows = [
        row
        for nodes in (1, 2, 4)
        for engine in ("libaio", "io_uring")
        for row in make_rows(nodes, engine=engine, run=f"{nodes}.", nodes=nodes)
    ]
    found = compare(match_over(summarize(rows), "ioengine", "libaio", "io_uring"))
    assert (found.design, found.sessions) == ("pairs", (1, 1))


def test_points_pair_if_they_differ_in_the_axis_only() -> None:
    def row(engine: str, phase: str, depth: int = 1, **values: Any) -> ResultRow:
        return factory.row(**{"point": f"{engine}.{depth}.{values}", "phase": phase, "nodes": 1, "ioengine": engine}
                           | {"queue_depth": depth, **values})  # fmt: skip

    results = summarize([
        row("libaio", "rand_read"), row("libaio", "rand_write", fsync=True),
        row("io_uring", "rand_read"), row("io_uring", "rand_write", fsync=False),
        row("io_uring", "rand_read", 16), row("psync", "rand_read"),
    ])  # fmt: skip
    found = match_over(results, "ioengine", "libaio", "io_uring")
    assert [(pair.a.point, pair.b.point) for pair in found.pairs] == [("libaio.1.{}", "io_uring.1.{}")]
    assert len(found.absent) == 3


def test_the_first_value_of_the_configuration_is_the_base() -> None:
    """The tables have points in another order."""
    axes = {"ioengine": ["psync", "libaio"], "queue_depth": [16, 1]}
    campaign, results = factory.measured(factory.sweep("engines", ["rand_read"], axes))
    named = comparison.NamedCampaign("n", Path(), campaign, tuple(results[::-1]))
    assert comparison.values_over(named, "ioengine") == ["psync", "libaio"]
    assert comparison.values_over(named, "queue_depth") == [1, 16]


@pytest.mark.parametrize("session", ["later", None])
def test_values_that_were_not_measured_in_turn_only_differ(session: str | None) -> None:
    """An ingested output does not tell its session."""
    after = make_rows(2, engine="io_uring", speed=lambda *_: 0.8, session=session)
    before = make_rows(1, **{} if session else {"session": None})
    found = compare(match_over(summarize([*before, *after]), "ioengine", "libaio", "io_uring"))
    assert (found.design, verdicts(found)) == ("rounds", {"differs": 6})


def test_one_point_that_lost_is_found_beside_noisy_ones() -> None:
    def noise(size: int, threads: int, number: int) -> float:
        exact = (size, threads) == (4 * K, 1)
        return 1e4 * threads * random.Random(f"{size} {threads} {number}").lognormvariate(0, 0.005 if exact else 0.1)

    def after(size: int, threads: int, number: int) -> float:
        loss = 0.85 if (size, threads) == (4 * K, 1) else 1
        return loss * noise(size, threads, number + 10)

    [one] = against(campaign(1, ops_per_s=noise), campaign(2, ops_per_s=after)).explained
    assert [pair.a.point for pair in one.pairs] == [f"{4 * K}.1.libaio.1"]


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
    found = against(before, after)
    places = {(diff.kind[1], *comparison.parameters_of(found, diff)) for diff in found.singles}
    assert places == {("rand_read",), ("rand_mixed", "read_percent")}


def test_what_is_said_of_a_comparison(snapshot: SnapshotAssertion) -> None:
    def first_lost(_: str, *at: int) -> float:
        return 0.5 if at == (4 * K, 1) else 1.0

    days = (1.0, 1.02, 0.98)
    pairs = {
        "equal": against(campaign(1, 0.002), campaign(2, 0.002)),
        "one size lost": against(campaign(1), campaign(2, speed=lost)),
        "everything lost": against(campaign(1), campaign(2, speed=lambda *_: 0.9)),
        "one point lost": against(campaign(1), campaign(2, speed=first_lost)),
        "sequential I/O lost, over an axis": over(
            lambda phase, *_: 0.9 if phase.startswith("seq") else 1, phases=DATA, sd=0.002
        ),
        "sessions": against(campaign(1, days=days), campaign(2, days=days, speed=lambda *_: 0.6)),
        "sessions, of b on one day": against(
            campaign(1, days=days), campaign(2, days=days, speed=lambda *_: 0.6, started=BEGAN)
        ),
        "latency rose": rising(),
        "one lost, the others undecided": against(campaign(1, 0.05), campaign(2, 0.05, speed=first_lost)),
        "too noisy": against(campaign(1, 0.5), campaign(2, 0.5)),
        "far apart": against(campaign(1, 0.5, n=4), campaign(2, 0.5, n=4, speed=lambda *_: 0.02)),
        "one repetition": against(campaign(1, n=1), campaign(2, n=1)),
        "one repetition of some": against(
            campaign(1),
            campaign(2, verdict=lambda size, _, number: "invalid" if (size, number > 1) == (4 * K, True) else "valid"),
        ),
        "one result in a alone": against(campaign(1), campaign(2)[:-1]),
        "invalid in b": against(
            campaign(1), campaign(2, verdict=lambda size, *_: "invalid" if size == 4 * K else "valid")
        ),
    }
    lines = []
    for name, found in pairs.items():
        lines += [f"{name}: {comparison.sentence(found)}", *comparison.absences(found, ("a", "b"))]
    noisy = pairs["too noisy"]
    lines.append(f"its first result: {comparison.describe_change(noisy.singles[0])}")
    named: Any = SimpleNamespace(name="a")
    for name in ("one size lost", "sequential I/O lost, over an axis", *filter(lambda n: "sessions" in n, pairs)):
        versus = comparison.Versus(("a", "b"), named, named, pairs[name], ())
        lines += [f"beside {name}: {comparison.caution(versus)}", *comparison.notes(versus)]
    assert "\n".join(lines) == snapshot


def test_a_loss_of_some_is_not_one_of_all() -> None:
    """Two sessions tell the mean of all from none, and leave single results wide intervals."""
    before = """2957 2963 2954 2902 2945 2743  2989 2989 2971 2995 2989 2995  2968 2845 2960 2911 2974 2963
                2989 3001 2998 2995 2992 2992  6240 6204 6240 6192 6174 6222  6277 6271 6265 6246 6271 6253"""
    after = """2934 2900 2180 2470 2916 2960  2382 2399 1607 2384 2387 2394  2942 2957 2813 2655 2919 2939
               2392 2402 2399 2383 2394 2394  6228 6138 6162 6253 6144 5645  6277 6277 6240 6234 6222 6277"""

    def measured(figures: str) -> list[PointSummary]:  # six points, each in two sessions of three repetitions
        return summarize(
            structs.replace(row, figures={"ops_per_s": float(figure)}, session=str((row.repetition - 1) // 3))
            for row, figure in zip(make_rows(1, n=6), figures.split(), strict=True)
        )

    assert verdicts(against(measured(before), measured(after))) == {"worse": 1, "same": 1, "undecided": 4}


def rising() -> Comparison:
    def latency(factor: float) -> Callable[[int, int, int], float]:
        return lambda size, threads, number: factor * 1e-3 * threads * (1 + 0.01 * (number % 3))

    days = (1.0, 1.0)
    a, b = (campaign(seed, latency_p99_s=latency(factor), days=days) for seed, factor in ((1, 1), (2, 1.2)))
    return against(a, b, column="latency_p99_s")


def test_the_figures_of_a_result_never_contradict_its_change() -> None:
    """One fast repetition lifts the arithmetic mean, and not the geometric one that the change is of."""
    spread = (1.0, 1.0, 1.0, 1.0, 0.35, 1.9)
    wild = campaign(2, n=6, ops_per_s=lambda size, threads, number: 1e4 * threads * spread[number - 1])
    own = against(campaign(1, 0.001, n=6), wild).singles[0]
    assert own.estimate
    first, other = (pair.figure("ops_per_s") or 0.0 for pair in (own.pairs[0].a, own.pairs[0].b))
    assert other / first == pytest.approx(own.estimate.center)
    assert comparison.figures(own, "") == ("10.0 k IOPS", "9,343 IOPS")


def test_repetitions_on_different_nodes_decide_nothing() -> None:
    found = against(campaign(1), campaign(2, speed=lambda *_: 0.5, hosts=lambda s, t, n: f"n{n}"))
    assert {one.verdict for one in found.singles} == {"undecided"}
