"""What a sweep has shown, in words, and how its sizes and shares are written."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs
from syrupy.assertion import SnapshotAssertion

from iosweep.analysis import formats, headline, sentences, slices
from iosweep.analysis.slices import Scaling
from iosweep.analysis.summary import summarize
from iosweep.judge.statistics import Estimate
from iosweep.report import figures
from iosweep.tables.reader import ResultRow
from results_factory import loaded, row, sweep_facts

K, M, G = 2**10, 2**20, 2**30
#: Repetitions that scatter by 1 %.
STEADY = (0.99, 1.0, 1.01)


def points(
    axis: str, rates: Mapping[Any, float | None], noise: Sequence[float] = STEADY, **more: Any
) -> list[ResultRow]:
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


def said(rows: Sequence[ResultRow]) -> list[str]:
    names = dict.fromkeys(one.point for one in rows)
    told = sentences.describe_sweeps(summarize(rows), [sweep_facts(1, *names)])
    return [sentence.text for one in told.values() for sentence in one]


def cases() -> dict[str, list[ResultRow]]:
    """What was measured, by what is to be seen in the sentence."""
    threads, nodes = "threads_per_node", {1: G, 2: 1.96 * G, 4: 3.8 * G}

    def on(hosts: Mapping[int, str]) -> list[ResultRow]:
        return [one for n, rate in nodes.items() for one in points("nodes", {n: rate}, hosts=hosts[n])]

    sizes = [
        one
        for size, by in ((64 * K, 0.5), (M, 1.0), (4 * M, 1.0))
        for one in points(threads, {1: 0.5 * G * by, 8: 2 * G * by, 16: by * G}, transfer_size_bytes=size)
    ]
    latency = [
        row(point=f"p{depth}", queue_depth=depth, nodes=1, repetition=i + 1, ops_per_s=rate * factor,
            latency_mean_s=depth / (rate * factor), latency_p99_s=2e-4, o_direct=True)
        for depth, rate in {1: 10e3, 2: 19.5e3, 4: 36e3, 8: 50.2e3, 16: 50e3}.items() for i, factor in enumerate(STEADY)
    ]  # fmt: skip
    return {
        "a peak": points(threads, {1: 0.2 * G, 8: 1.19 * G, 16: 1.29 * G, 32: 1.0 * G}),
        "a plateau has no peak": points(threads, {1: G, 2: 1.85 * G, 4: 1.995 * G, 8: 2 * G, 16: 1.99 * G}),
        "a plateau of which a ramp skipped a part": [
            *points("queue_depth", {1: G, 2: 2 * G, 4: 2 * G, 64: 2 * G}),
            *(structs.replace(one, unneeded=True) for one in points("queue_depth", {8: None, 16: None, 32: None})),
        ],
        "the end of an axis is no peak": points(threads, {1: G, 2: 1.8 * G, 4: 2.9 * G}),
        "a rise that does not matter": points(threads, {1: G, 2: 1.01 * G}, noise=[1.0, 1.0005, 0.9995]),
        "noise that hides a difference": [
            *points(threads, {1: G}, noise=[0.5, 1.0, 2.0]), *points(threads, {2: 4 * G}, noise=[2.0, 0.5, 1.0]),
        ],
        "growth over different nodes": on({1: "n9", 2: "n1,n2", 4: "n1,n2,n3,n4"}),
        "load comes before other axes": sizes,
        "values without an order": points("file_per_process", {True: 2 * G, False: G}, tool="ior"),
        "one repetition tells nothing apart": points("queue_depth", {1: G, 2: 2 * G, 4: 1.9 * G}, noise=[1.0]),
        "no figure": points(threads, {8: None}),
        "where it queues": latency,
        "what does not compare": [*points(threads, {1: G}), *points(threads, {2: 2 * G}, o_direct=False)],
        "a best point that does not tell an axis": points(threads, {1: G, 2: 2 * G, None: 9 * G}),
    }  # fmt: skip


def test_each_finding_has_its_sentence(snapshot: SnapshotAssertion) -> None:
    told = [line for name, rows in cases().items() for line in (f"{name}:", *(f"    {text}" for text in said(rows)))]
    assert "\n".join(told) == snapshot


def test_a_sentence_names_only_parameters_that_the_phase_uses() -> None:
    rows = [row(point=f"p{share}", phase=phase, nodes=1, ops_per_s=rate, read_percent=used)
            for share, rate in ((50, 10.0), (70, 20.0))
            for phase, used in (("rand_read", None), ("rand_mixed", share))]  # fmt: skip
    rows = [structs.replace(one, repetition=n, figures={"ops_per_s": one.figures["ops_per_s"] * factor})
            for one in rows for n, factor in enumerate(STEADY)]  # fmt: skip
    (mixed,) = said(rows)
    assert "70 %" in mixed


def test_a_size_is_never_rounded() -> None:
    for size, text in (
        (0, "0 B"), (512, "512 B"), (3901, "3,901 B"), (1536, "1.5 KiB"), (4096, "4 KiB"), (96 << 20, "96 MiB"),
        (30198988800, "28.125 GiB"), ((5 << 30) + 1024, "5,368,710,144 B"), (3 << 40, "3 TiB"),
    ):  # fmt: skip
        assert formats.size(size) == text


# Growth with nodes, and lines of a figure


def test_efficiency_is_the_share_of_linear_growth() -> None:
    """rate(n) / (n / m x rate(m)), by hand, with the interval of the ratio."""

    def scaled(rates: dict[int, float], *noise: float) -> tuple[Scaling | None, Estimate | None]:
        own = summarize(points("nodes", dict(rates), noise))
        rivals = headline.Rivals(own, "bandwidth_bytes_per_s")
        line = [(result.nodes, result) for result in own]
        return slices.measure_scaling("nodes", line, rivals), rivals.ratio(own[-1], own[0])

    found, ratio = scaled({2: 1000.0, 4: 1800.0, 8: 3000.0}, *STEADY)
    assert found and ratio and found.smallest == 2
    assert [step.speedup for step in found.steps] == pytest.approx([1.8, 3.0])
    assert [step.efficiency for step in found.steps] == pytest.approx([0.9, 0.75])
    assert found.steps[1].range == pytest.approx((ratio.low / 4, ratio.high / 4))
    assert found.steps[1].range[0] < 0.75 < found.steps[1].range[1]
    alone, _ = scaled({1: 10.0, 2: 19.0}, 1.0)
    assert alone and alone.steps[0].range is None
    # nothing scales from one count or from nothing
    assert [scaled(rates, *STEADY)[0] for rates in ({4: 10.0}, {1: 0.0, 2: 10.0})] == [None, None]


def test_what_has_no_place_on_an_axis_is_shown_and_counted() -> None:
    """As IO500's deletes, which do not tell the size of files."""
    made: dict[str, Any] = {"kind": "metadata", "tool": "mdtest", "nodes": 10, "unique_directory": True}
    sizes: dict[str, int | None] = {"easy": 0, "rest": None, "hard": 3901, "more": 8000}
    rows = [row(**made, point=point, phase="create", file_size_bytes=size) for point, size in sizes.items()]
    facts = structs.replace(sweep_facts(1, *sizes), axes={"file_size": (0, 3901, 8000)}, tool="mdtest")
    (figure,) = figures.figures(loaded(rows, sweeps=[structs.asdict(facts)]), summarize(rows))
    assert figure.notes[-1] == "Not drawn: 1 result of unknown file size."
    found = {fixed["file_size_bytes"]: len(own) for fixed, own in slices.split(summarize(rows), ["file_size_bytes"])}
    assert found == {0: 1, 3901: 1, 8000: 1, None: 1}
