"""Heat maps of two axes, and which points of a sweep are measured, with the reasons of the others."""

from pathlib import Path

import pytest
from msgspec import structs

import results_factory as factory
from iosweep.analysis import grids
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import Campaign, load
from iosweep.report import heat_maps
from iosweep.report.chosen import Chosen
from results_factory import DATA_PHASES, K, M, sweep

PLANE = {"threads_per_node": [1, 2, 8], "transfer_size": [4 * K, 64 * K, M]}

DEPTHS = {"queue_depth": [1, 4, 32]}


def loaded(directory: Path, **options: object) -> Campaign:
    return load(factory.make(directory, **options))  # type: ignore[arg-type]


def test_a_heat_map_for_each_phase_and_further_axis(tmp_path: Path) -> None:
    axes = {**PLANE, "queue_depth": [1, 4]}
    campaign = loaded(tmp_path, sweeps=[sweep("s", DATA_PHASES[:2], axes)])
    found = grids.heat(campaign.about.sweeps[0], summarize(campaign.rows))
    assert [(grid.phase, grid.fixed) for grid in found] == [
        *(("seq_write", f"queue depth {depth}") for depth in (1, 4)),
        *(("seq_read", f"queue depth {depth}") for depth in (1, 4)),
    ]
    assert (found[0].y, found[0].x) == ("threads_per_node", "transfer_size_bytes")
    for y, row in zip(found[0].y_values, found[0].rows, strict=True):
        for x, result in zip(found[0].x_values, row, strict=True):
            assert result is not None
            assert (result.parameters[found[0].y or ""], result.parameters[found[0].x]) == (y, x)


def test_two_values_are_no_heat_map(tmp_path: Path) -> None:
    campaign = loaded(tmp_path, sweeps=[sweep("s", ["seq_read"], {**PLANE, "threads_per_node": [1, 2]})])
    assert grids.heat(campaign.about.sweeps[0], summarize(campaign.rows)) == []


def test_the_shade_follows_the_figure_and_what_has_none_is_marked(tmp_path: Path) -> None:
    campaign = loaded(tmp_path, sweeps=[sweep("s", DATA_PHASES, PLANE)], spoil=factory.spoil_some)
    results = summarize(campaign.rows)
    found, left_out = heat_maps.of(campaign.about.sweeps, results, Chosen(results, "").number)
    assert left_out == []
    maps = {one.title: one for one in found["s"]}
    cells = [cell for _, row in maps["Sequential read"].rows for cell in row]
    assert {cell.shade for cell in cells} >= {0, heat_maps.SHADES - 1}
    (invalid,) = [cell for cell in cells if cell.outcome == "invalid"]
    assert (invalid.text, invalid.shade) == ("", None)
    assert invalid.tip == "2 threads per node, 4 KiB. invalid: no_errors: 3 I/O errors (ENOSPC)"
    (suspect,) = [cell for cell in cells if cell.outcome == "suspect"]
    assert suspect.text and "duration: 0.91 s of 1 s" in suspect.tip
    assert all(not cell.tip for cell in cells if cell.outcome == "valid")
    for cell in cells:
        assert cell.row is not None and results[cell.row].phase == "seq_read"


def test_the_page_carries_so_many_cells_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = loaded(tmp_path, sweeps=[sweep(name, ["seq_read"], PLANE, o_direct=name == "a") for name in "ab"])
    results = summarize(campaign.rows)
    monkeypatch.setattr(heat_maps, "MOST_CELLS", 9)
    found, left_out = heat_maps.of(campaign.about.sweeps, results, Chosen(results, "").number)
    assert (list(found), left_out) == (["a"], ["b"])


def test_a_point_has_the_outcome_of_its_worst_phase(tmp_path: Path) -> None:
    campaign = loaded(tmp_path, sweeps=[sweep("s", DATA_PHASES, PLANE)], spoil=factory.spoil_some)
    (found,) = grids.cover(campaign, summarize(campaign.rows))
    assert {one: count for one, count in found.counts.items() if count} == {"valid": 7, "suspect": 1, "invalid": 1}
    assert list(found.reasons) == ["invalid", "suspect"]
    assert found.reasons["suspect"] == (1, "duration: 0.91 s of 1 s")
    ((_, rows),) = found.grids
    (place,) = [place for row in rows for place in row if place.outcome == "invalid"]
    assert place.what == "2 threads per node, 4 KiB"
    assert place.why == "Sequential read: no_errors: 3 I/O errors (ENOSPC)"


def test_what_is_left_out_is_not_asked(tmp_path: Path) -> None:
    campaign = loaded(tmp_path, sweeps=[sweep("s", ["seq_read"], PLANE)])
    results = summarize(campaign.rows)
    (one,) = campaign.about.sweeps
    points = [result.point for result in results if result.parameters["threads_per_node"] != 8 or result is results[-1]]
    facts = factory.sweep_facts(1, *points, name="s")
    about = structs.replace(campaign.about, sweeps=(structs.replace(one, points=facts.points),))
    (found,) = grids.cover(Campaign(campaign.rows, campaign.checks, campaign.nodes, about), results)
    assert found.counts[grids.NOT_ASKED] == 2
    assert found.counts["valid"] == 7
    ((_, rows),) = found.grids
    assert [place.outcome for place in rows[2]] == [grids.NOT_ASKED, grids.NOT_ASKED, "valid"]


def test_a_sweep_with_one_axis_has_one_row(tmp_path: Path) -> None:
    campaign = loaded(tmp_path, sweeps=[sweep("s", ["rand_read"], DEPTHS)], spoil=factory.spoil_some)
    (found,) = grids.cover(campaign, summarize(campaign.rows))
    ((grid, (row,)),) = found.grids
    assert (grid.x, grid.y) == ("queue_depth", None)
    assert [place.outcome for place in row] == ["valid", "valid", "missing"]
    assert found.reasons == {"missing": (1, "time limit: 2 points were not started")}
