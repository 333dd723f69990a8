"""Growth with nodes and threads, and its share of linear growth."""

import pytest
from msgspec import structs

from iosweep.analysis import choice, scaling
from iosweep.analysis.aggregate import Result, summarize
from iosweep.report import captions, scaling_figures
from results_factory import loaded, row, sweep_facts


def line(
    rates: dict[int, float], hosts: dict[int, str] | None = None, repetitions: int = 3
) -> list[tuple[int, Result]]:
    rows = [
        row(point=f"p{count}", nodes=count, repetition=i + 1, ops_per_s=rate * factor, hosts=(hosts or {}).get(count))
        for count, rate in rates.items()
        for i, factor in enumerate((0.99, 1.0, 1.01)[:repetitions])
    ]
    return [(result.nodes, result) for result in summarize(rows)]


def scaled(own: list[tuple[int, Result]]) -> scaling.Scaling:
    found = scaling.of_line("nodes", own, choice.compared([result for _, result in own], "ops_per_s", {}))
    assert found
    return found


def test_efficiency_is_the_share_of_linear_growth() -> None:
    """rate(n) / (n / m x rate(m)), by hand, with the interval of the ratio."""
    own = line({2: 1000.0, 4: 1800.0, 8: 3000.0})
    found = scaled(own)
    assert found.smallest == 2
    assert [step.speedup for step in found.steps] == pytest.approx([1.8, 3.0])
    assert [step.efficiency for step in found.steps] == pytest.approx([0.9, 0.75])
    ratio = choice.compared([result for _, result in own], "ops_per_s", {}).ratio(own[2][1], own[0][1])
    assert ratio
    assert found.steps[1].range == pytest.approx((ratio.low / 4, ratio.high / 4))
    assert found.steps[1].range[0] < 0.75 < found.steps[1].range[1]


def test_without_repetitions_there_is_no_interval() -> None:
    assert [step.range for step in scaled(line({1: 10.0, 2: 19.0}, repetitions=1)).steps] == [None]


def test_nothing_scales_from_one_count_or_from_nothing() -> None:
    for rates in ({4: 10.0}, {1: 0.0, 2: 10.0}):
        own = line(rates)
        assert scaling.of_line("nodes", own, choice.compared([r for _, r in own], "ops_per_s", {})) is None


def test_counts_without_the_nodes_of_the_smallest_are_marked() -> None:
    found = scaled(line({1: 10.0, 2: 20.0, 4: 40.0}, {1: "n1", 2: "n3,n4", 4: "n1,n2,n3,n4"}))
    assert [step.strangers for step in found.steps] == [{"n1"}, set()]
    assert not found.same_nodes


def test_figure() -> None:
    hosts = {1: "n1", 2: "n3,n4", 4: "n1,n2,n3,n4"}
    results = [result for _, result in line({1: 1000.0, 2: 1900.0, 4: 3200.0}, hosts)]
    facts = structs.replace(sweep_facts(1, "p1", "p2", "p4"), axes={"nodes": (1, 2, 4)})
    campaign = loaded([one for result in results for one in result.rows], sweeps=[structs.asdict(facts)])
    (figure,) = scaling_figures.figures(campaign, results)
    assert (figure.sweep, figure.name, figure.series) == ("s", "efficiency-by-nodes.s", ("Random read",))
    assert [mark.y for mark in figure.marks] == pytest.approx([100, 95, 80])
    assert [(mark.apart, mark.scaling) for mark in figure.marks] == [
        (None, "1 node, which the others are compared with"),
        (True, "1.9x of 1 node"),
        (False, "3.2x of 1 node"),
    ]
    assert figure.notes[2] == "Diamonds: 1 result without nodes of the smallest count (n1)."


def test_a_line_breaks_where_a_result_has_no_figure() -> None:
    rows = [
        row(point=f"p{count}", nodes=count, repetition=i, ops_per_s=count * rate, verdict=verdict, reasons=reasons)
        for count, verdict, reasons in (
            (1, "valid", ""),
            (2, "invalid", "errors: 3"),
            (4, "suspect", "short"),
            (8, "valid", ""),
        )
        for i, rate in enumerate((80.0, 100.0, 90.0) if count < 8 else (10.0, 100.0, 190.0), 1)
    ]
    facts = structs.replace(sweep_facts(1, "p1", "p2", "p4", "p8"), axes={"nodes": (1, 2, 4, 8)})
    campaign = loaded(rows, sweeps=[structs.asdict(facts)])
    (figure,) = scaling_figures.figures(campaign, summarize(rows))
    assert {(mark.x, mark.y is None) for mark in figure.marks} == {(1, False), (2, True), (4, False), (8, False)}
    assert "Hollow: 1 not valid (short)." in figure.notes
    assert "Not drawn: 1 invalid (errors: 3)." in figure.notes
    assert any(mark.cut for mark in figure.marks)
    assert captions.CUT in figure.notes
