"""What a sweep has shown, in words. Whole sentences: a change of one is a decision."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from iosweep.analysis import caveats, choice, sentences
from iosweep.analysis.aggregate import repetitions, summarize
from iosweep.analysis.data import Row
from results_factory import check, row, sweep_facts

K, M, G = 2**10, 2**20, 2**30
#: Repetitions that scatter by 1 %.
STEADY = (0.99, 1.0, 1.01)


def points(axis: str, rates: Mapping[Any, float | None], noise: Sequence[float] = STEADY, **more: Any) -> list[Row]:
    """Sequential reads of these rates in bytes/s; None: missing."""
    made = {"phase": "seq_read", "metric": "bandwidth_bytes_per_s", "o_direct": True, "ops_per_s": None, "nodes": 1}
    found = []
    for value, rate in rates.items():
        name = {"point": ".".join(map(str, ["p", value, *more.values()])), axis: value}
        if rate is None:
            found.append(row(**made, **name, **more, verdict="missing", reasons="time limit"))
            continue
        for i, factor in enumerate(noise):
            found.append(row(**{**made, **name, "repetition": i + 1, "bandwidth_bytes_per_s": rate * factor, **more}))
    return found


def said(rows: Sequence[Row], fails: choice.Failed | None = None) -> list[str]:
    names = dict.fromkeys(one.point for one in rows)
    told = sentences.of(summarize(rows), [sweep_facts(1, *names)], fails or {})
    return [sentence.text for one in told for sentence in one.sentences]


def test_a_peak_with_what_reaches_most_of_it() -> None:
    rates = {1: 0.2 * G, 8: 1.19 * G, 16: 1.29 * G, 32: 1.0 * G}
    assert said(points("threads_per_node", rates)) == [
        "Sequential reads peak at 16 threads per node: 1.29 GiB/s ± 2.5 %; 8 threads per node reach 92 % (89 to 96 %); "
        "32 threads per node reach 78 % (75 to 80 %)."
    ]


def test_a_plateau_has_no_peak() -> None:
    assert said(points("threads_per_node", {1: G, 2: 1.85 * G, 4: 1.995 * G, 8: 2 * G, 16: 1.99 * G})) == [
        "Sequential reads reach 2.00 GiB/s ± 2.5 % at 8 threads per node; 2 threads per node reach 93 % (89 to 96 %); "
        "from 4 threads per node on no difference can be shown."
    ]
    assert said(points("threads_per_node", {1: G, 2: 1.001 * G, 4: 0.999 * G})) == [
        "Sequential reads reach 1.00 GiB/s ± 2.5 % at 2 threads per node; "
        "no difference can be shown between 1 and 4 threads per node."
    ]


def test_the_end_of_an_axis_is_no_peak() -> None:
    assert said(points("threads_per_node", {1: G, 2: 1.8 * G, 4: 2.9 * G})) == [
        "Sequential reads still rise at 4 threads per node: 2.90 GiB/s ± 2.5 %; "
        "2.9x from 1 to 4, 72 % (70 to 75 %) of linear."
    ]
    assert said(points("threads_per_node", {1: G, 2: 1.8 * G, 4: None})) == [
        "Sequential reads still rise at 2 threads per node: 1.80 GiB/s ± 2.5 %; "
        "1.8x from 1 to 2, 90 % (87 to 93 %) of linear; 1 of 3 points has no figure."
    ]


@pytest.mark.parametrize(
    ("hosts", "more"),
    [({1: "n1", 2: "n1,n2", 4: "n1,n2,n3,n4"}, ""), ({1: "n9", 2: "n1,n2", 4: "n1,n2,n3,n4"}, ", on different nodes")],
)
def test_scaling_over_nodes(hosts: Mapping[int, str], more: str) -> None:
    rates = {1: G, 2: 1.96 * G, 4: 3.8 * G}
    rows = [one for n, rate in rates.items() for one in points("nodes", {n: rate}, hosts=hosts[n])]
    assert said(rows) == [
        f"Sequential reads still rise at 4 nodes: 3.80 GiB/s ± 2.5 %; "
        f"3.8x from 1 to 4 nodes, 95 % (92 to 98 %) of linear{more}."
    ]


def test_load_comes_before_other_axes() -> None:
    rows = [
        one
        for size, factor in ((64 * K, 0.5), (M, 1.0), (4 * M, 1.0))
        for one in points(
            "threads_per_node", {1: 0.5 * G * factor, 8: 2 * G * factor, 16: factor * G}, transfer_size_bytes=size
        )
    ]
    assert said(rows) == [
        "Sequential reads peak at 8 threads per node with 1 MiB: 2.00 GiB/s ± 2.5 %; 1 thread per node reaches 25 % "
        "(24 to 26 %); 16 threads per node reach 50 % (48 to 52 %); 64 KiB reaches 50 % (48 to 52 %); "
        "from 1 MiB on no difference can be shown."
    ]


def test_values_without_an_order() -> None:
    rows = [
        *points("file_per_process", {True: 2 * G, False: G}, api="POSIX", tool="ior"),
        *points("file_per_process", {True: 1.995 * G, False: G}, api="MPIIO", tool="ior"),
    ]
    assert said(rows) == [
        "Sequential reads are highest with file per process and POSIX: 2.00 GiB/s ± 2.5 %; "
        "shared file reaches 50 % (48 to 52 %); no difference between POSIX and MPI-IO can be shown."
    ]


def test_one_repetition_tells_nothing_apart() -> None:
    assert said(points("queue_depth", {1: G, 2: 2 * G, 4: 1.9 * G}, noise=[1.0])) == [
        "Sequential reads are highest at queue depth 2: 2.00 GiB/s (one repetition); queue depth 1 reaches 50 %; "
        "repetitions are too few to tell points apart."
    ]


def test_a_single_point() -> None:
    rows = points("threads_per_node", {8: G}, transfer_size_bytes=M, queue_depth=4)
    assert said(rows) == ["Sequential reads reach 1.00 GiB/s ± 2.5 % (8 threads, 1 MiB, QD 4)."]
    assert said(points("threads_per_node", {8: None})) == ["Sequential reads have no figure: time limit."]


def test_a_suspect_figure_gives_its_reason() -> None:
    """That repetitions do not agree is said once, with their interval."""
    rows = points("threads_per_node", {1: G}, verdict="suspect", reasons="CPUs: others used 40 %")
    assert said(rows) == ["Sequential reads reach 1.00 GiB/s ± 2.5 % (1 thread) (suspect: CPUs: others used 40 %)."]
    wild = points("threads_per_node", {1: G}, noise=[0.85, 1.0, 1.2, 1.1], verdict="suspect", reasons="not repeatable")
    fails = choice.failed(
        [check(point="p.1.suspect.not repeatable", phase="seq_read", repetition=n, check="precise", outcome="fail")
         for n in range(1, 5)]
    )  # fmt: skip
    assert said(wild, fails) == ["Sequential reads reach 1.04 GiB/s ± 26.5 % (not repeatable) (1 thread)."]


def test_latency_and_where_it_queues() -> None:
    rows = [
        row(point=f"p{depth}", queue_depth=depth, nodes=1, repetition=i + 1, ops_per_s=rate * factor,
            latency_mean_s=depth / (rate * factor), latency_p99_s=2e-4, o_direct=True)
        for depth, rate in {1: 10e3, 2: 19.5e3, 4: 36e3, 8: 50.2e3, 16: 50e3}.items() for i, factor in enumerate(STEADY)
    ]  # fmt: skip
    assert said(rows) == [
        "Random reads reach 50.2 k IOPS ± 2.5 % at queue depth 8; queue depth 4 reaches 72 % (69 to 74 %); "
        "from queue depth 8 on no difference can be shown.",
        "Random read latency is lowest at queue depth 1: 100 µs ± 2.5 %, p99 200 µs; "
        "I/Os queue from queue depth 8 on: 1.59x (1.54 to 1.65).",
    ]
    assert said(rows[:6])[1].endswith("; no queueing can be shown up to queue depth 2.")


def test_a_ramp_has_its_knee() -> None:
    rows = points("queue_depth", {1: G, 2: 1.95 * G, 4: 2 * G, 8: 2 * G, 16: 2 * G})
    facts = structs.replace(
        sweep_facts(1, *dict.fromkeys(one.point for one in rows)),
        ramp="queue_depth",
        axes={"queue_depth": (1, 2, 4, 8, 16)},
    )
    ((told,),) = [one.sentences for one in sentences.of(summarize(rows), [facts], {})]
    assert "95 % of the peak at queue depth 2" in told.text


def test_what_does_not_compare_has_its_own_sentence() -> None:
    rows = [*points("threads_per_node", {1: G}), *points("threads_per_node", {2: 2 * G}, o_direct=False)]
    assert said(rows) == [
        "Sequential reads (fio, O_DIRECT) reach 1.00 GiB/s ± 2.5 % (1 thread).",
        "Sequential reads (fio, through the page cache) reach 2.00 GiB/s ± 2.5 % (2 threads).",
    ]


def test_a_best_point_that_does_not_tell_an_axis_is_on_no_line() -> None:
    (first, *_) = said(points("threads_per_node", {1: G, 2: 2 * G, None: 9 * G}))
    assert first.startswith("Sequential reads are highest with ") and "9.00 GiB/s" in first


MEMORY = "the target is memory (tmpfs): nothing gets to a device; its figures are those of memory"


def only(rows: Sequence[Row], shared: caveats.Shared = frozenset()) -> sentences.Sentence:
    facts = sweep_facts(1, *dict.fromkeys(one.point for one in rows))
    ((told,),) = [one.sentences for one in sentences.of(summarize(rows), [facts], {}, shared=shared)]
    return told


def test_a_sentence_is_divided_where_its_clauses_are_and_not_within_a_reason() -> None:
    rows = points("threads_per_node", {1: G, 2: 1.8 * G}, verdict="suspect", reasons=MEMORY)
    told = only(rows)
    assert told.opening.endswith(f" ± 2.5 % (suspect: {MEMORY})")
    assert told.more.startswith("1.8x from 1 to 2")
    assert told.text == f"{told.opening}; {told.more}."


def test_a_reason_that_all_repetitions_share_is_named_once() -> None:
    load = [f"other processes used {n}% of the CPU time (cc1 {n}%)" for n in (71, 82)]
    reasons = {1: f"{MEMORY} | {load[0]}", 2: f"{MEMORY} | {load[1]} | too short"}
    rows = [structs.replace(one, reasons=reasons[number], verdict="suspect")
            for number in (1, 2) for one in points("threads_per_node", {number: number * G})]  # fmt: skip
    shared = caveats.shared(summarize(rows))
    assert len(shared) == 2
    assert only(rows, shared).opening.endswith(" (suspect: also too short)")
    assert only([structs.replace(one, reasons=reasons[1]) for one in rows], shared).opening.endswith(" (suspect)")
    why = caveats.why(repetitions(rows, []), "suspect", shared)
    assert (
        why == f"{MEMORY}; {load[0]} (numbers differ) (in all repetitions, so not repeated below); some also: too short"
    )


def test_no_reason_is_shared_where_a_repetition_is_valid_or_alone() -> None:
    doubted = points("threads_per_node", {1: G}, verdict="suspect", reasons=MEMORY)
    assert not caveats.shared(summarize(doubted))
    assert not caveats.shared(summarize([*doubted, *points("threads_per_node", {2: G})]))
    assert not caveats.shared([])
