"""Published figures in the figures: where they are drawn, and where they are only named."""

from pathlib import Path
from typing import Any

import pytest
import vl_convert
from msgspec import structs, to_builtins

import results_factory as factory
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import load
from iosweep.config.published import PublishedFigure, Reference
from iosweep.files.documents import dump, read
from iosweep.report import vega_lite
from iosweep.report.drawings import drawings
from iosweep.report.figures import Figure
from results_factory import K, sweep

pytestmark = pytest.mark.unit

FIGURE = PublishedFigure(
    tool="fio",
    phase="rand_read",
    figure="iops",
    value=20_000.0,
    printed="20,000 IOPS",
    where={"nodes": 1, "threads_per_node": 2, "transfer_size": 4 * K},
    system="old",
)


def drawn(place: Path, *published: PublishedFigure, axes: Any = None, **systems: str) -> list[Figure]:
    """The figures of a campaign with these published figures beside it."""
    axes = axes or {"threads_per_node": [1, 2, 4]}
    results = factory.make(place, sweeps=[sweep("one", ["rand_read"], axes, transfer_size_bytes=4 * K)])
    known = systems or {"old": "the old system"}
    reference = Reference(name="site", title="Acceptance", publisher="Our site", systems=known, figures=published)
    about = read(results / "campaign.json")
    about["references"] = [to_builtins(reference)]
    (results / "campaign.json").write_bytes(dump(about, indent=True))
    campaign = load(results)
    return [figure for figure in drawings(campaign, summarize(campaign.rows)) if figure.slice]


def crosses(figure: Figure) -> dict[Any, Any]:
    return {mark.x: mark for mark in figure.marks if mark.there}


def test_a_cross_is_at_the_result_that_compares(tmp_path: Path) -> None:
    [figure] = drawn(tmp_path, FIGURE)
    [(x, mark)] = crosses(figure).items()
    assert x == 2
    assert mark.there == (20.0,)
    assert figure.panels[0].unit == "k IOPS"
    assert (mark.named, mark.printed, mark.across) == (("old",), ("the old system: 20,000 IOPS",), (False,))
    assert mark.source[0].startswith('published: Our site, "Acceptance"; here ')
    assert 'Published figures that compare (crosses): Our site, "Acceptance".' in figure.notes
    assert figure.panels[0].ticks[-1] >= 20


@pytest.mark.parametrize(
    "other",
    [
        structs.replace(FIGURE, where={"nodes": 1, "threads_per_node": 3}),
        structs.replace(FIGURE, phase="rand_write"),
        structs.replace(FIGURE, figure="p99", value=0.1, printed="100 ms"),
        structs.replace(FIGURE, printed="200 %", value=2.0, relative_to={"threads_per_node": 1}),
    ],
    ids=["another point", "another phase", "a figure that is not drawn", "a ratio"],
)
def test_nothing_else_is_drawn(tmp_path: Path, other: PublishedFigure) -> None:
    [figure] = drawn(tmp_path, other)
    assert crosses(figure) == {}
    assert not any("Published" in note for note in figure.notes)


def test_a_source_that_does_not_say_where(tmp_path: Path) -> None:
    [figure] = drawn(tmp_path, structs.replace(FIGURE, where={"nodes": 1}))
    [mark] = crosses(figure).values()
    assert mark.across == (True,)
    dashed = "dashed lines where the source does not say where on this axis"
    assert f'Published figures that compare ({dashed}): Our site, "Acceptance".' in figure.notes


def test_the_axis_reaches_a_little_further_and_no_more(tmp_path: Path) -> None:
    [plain] = drawn(tmp_path / "a", structs.replace(FIGURE, phase="rand_write"))
    end = plain.panels[0].ticks[-1]
    near, far = 2 * end * 1000, 20 * end * 1000
    [figure] = drawn(
        tmp_path / "b",
        structs.replace(FIGURE, value=near, printed=f"{near:,.0f} IOPS"),
        structs.replace(FIGURE, value=far, printed=f"{far:,.0f} IOPS", system="new"),
        old="the old system", new="the new one",
    )  # fmt: skip
    assert 2 * end <= figure.panels[0].ticks[-1] < 4 * end
    assert crosses(figure)[2].named == ("old",)
    assert f"Published, beyond this axis: the new one: {far:,.0f} IOPS (2 threads per node)." in figure.notes


def test_latencies(tmp_path: Path) -> None:
    latency = structs.replace(FIGURE, figure="latency", value=2e-4, printed="200 us", where={"queue_depth": 4})
    found = drawn(tmp_path, latency, axes={"queue_depth": [1, 4, 16]})
    [figure] = [figure for figure in found if crosses(figure)]
    [mark] = crosses(figure).values()
    assert (mark.measure, mark.x, mark.named) == ("mean", 4, ("old mean",))
    assert mark.there[0] * {"µs": 1e-6, "ms": 1e-3}[figure.panels[0].unit] == pytest.approx(2e-4)


def test_crosses_and_lines_are_in_the_image(tmp_path: Path) -> None:
    across = structs.replace(FIGURE, where={"nodes": 1}, value=15_000.0, printed="15,000 IOPS", system="new")
    [figure] = drawn(tmp_path, FIGURE, across, old="the old system", new="the new one")
    svg = vl_convert.vegalite_to_svg(vega_lite.with_values(figure), allowed_base_urls=[])
    assert ">old</text>" in svg
    assert ">new</text>" in svg
    assert svg.count('stroke-dasharray="6,4"') == 1
