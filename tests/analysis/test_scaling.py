"""Growth with nodes and threads, and its share of linear growth."""

from typing import Any

import pytest
from msgspec import structs

from iosweep.analysis import headline, slices
from iosweep.analysis.summary import PointSummary, summarize
from iosweep.report import figures
from results_factory import loaded, row, sweep_facts


def line(rates: dict[int, float], repetitions: int = 3) -> list[tuple[int, PointSummary]]:
    rows = [
        row(point=f"p{count}", nodes=count, repetition=i + 1, ops_per_s=rate * factor)
        for count, rate in rates.items()
        for i, factor in enumerate((0.99, 1.0, 1.01)[:repetitions])
    ]
    return [(result.nodes, result) for result in summarize(rows)]


def scaled(own: list[tuple[int, PointSummary]]) -> slices.Scaling:
    found = slices.measure_scaling("nodes", own, headline.Rivals([result for _, result in own], "ops_per_s"))
    assert found
    return found


def test_efficiency_is_the_share_of_linear_growth() -> None:
    """rate(n) / (n / m x rate(m)), by hand, with the interval of the ratio."""
    own = line({2: 1000.0, 4: 1800.0, 8: 3000.0})
    found = scaled(own)
    assert found.smallest == 2
    assert [step.speedup for step in found.steps] == pytest.approx([1.8, 3.0])
    assert [step.efficiency for step in found.steps] == pytest.approx([0.9, 0.75])
    ratio = headline.Rivals([result for _, result in own], "ops_per_s").ratio(own[2][1], own[0][1])
    assert ratio
    assert found.steps[1].range == pytest.approx((ratio.low / 4, ratio.high / 4))
    assert found.steps[1].range[0] < 0.75 < found.steps[1].range[1]


def test_without_repetitions_there_is_no_interval() -> None:
    assert [step.range for step in scaled(line({1: 10.0, 2: 19.0}, repetitions=1)).steps] == [None]


def test_nothing_scales_from_one_count_or_from_nothing() -> None:
    for rates in ({4: 10.0}, {1: 0.0, 2: 10.0}):
        own = line(rates)
        assert slices.measure_scaling("nodes", own, headline.Rivals([r for _, r in own], "ops_per_s")) is None


def test_what_has_no_place_on_an_axis_is_shown_and_counted() -> None:
    """As IO500's deletes, which do not tell the size of files."""
    made: dict[str, Any] = {"kind": "metadata", "tool": "mdtest", "nodes": 10, "unique_directory": True}
    sizes: dict[str, int | None] = {"easy": 0, "rest": None, "hard": 3901}
    rows = [row(**made, point=point, phase="create", file_size_bytes=size) for point, size in sizes.items()]
    facts = structs.replace(sweep_facts(1, *sizes), axes={"file_size": (0, 3901)}, tool="mdtest")
    (figure,) = figures.figures(loaded(rows, sweeps=[structs.asdict(facts)]), summarize(rows))
    assert (figure.x_column, "1" in figure.notes[-1]) == ("file_size_bytes", True)
    found = {fixed["file_size_bytes"]: len(own) for fixed, own in slices.split(summarize(rows), ["file_size_bytes"])}
    assert found == {0: 1, 3901: 1, None: 1}
