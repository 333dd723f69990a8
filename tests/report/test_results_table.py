"""The table of results: its columns, its order, the repetitions behind a row, and short names of points."""

import pytest

import results_factory as factory
from iosweep.analysis.summary import PointSummary, summarize
from iosweep.report import results_table
from iosweep.tables.reader import ResultRow
from results_factory import DATA_PHASES, K, M, row, sweep


def columns(*rows: ResultRow) -> dict[str, set[object]]:
    """Key -> cells of each column of the table of these rows."""
    shown = results_table.make_payload(summarize(rows), [], {})
    return {column.key: {cells[i] for cells in shown.rows} for i, column in enumerate(shown.columns)}


@pytest.fixture(scope="module")
def results() -> list[PointSummary]:
    """Of a sweep of each tool, in the order of the table."""
    axes = {"threads_per_node": [1, 2], "transfer_size": [4 * K, M]}
    alike = {"file_size_bytes": 256 * M, "data": "tool_default", "phase_time_s": 1.0}
    sweeps = [
        sweep("own", DATA_PHASES, axes),
        factory.ior(**alike, axes={"threads_per_node": [1, 8], "transfer_size": [M]}),
        factory.mdtest("dirs", axes={"nodes": [1, 2]}),
        sweep("files", factory.METADATA_PHASES, {"threads_per_node": [1, 2]}),
    ]
    campaign, results = factory.measured(*sweeps)
    found = results_table.sort_results(reversed(results), campaign.about.sweeps)
    assert found == results  # the factory makes them sweep by sweep, parameters ascending
    return list(found)


def test_parameters_that_vary_have_a_column_and_the_others_stand_once_for_each_tool(
    results: list[PointSummary],
) -> None:
    assert results_table.find_varying(results) == ["nodes", "threads_per_node", "transfer_size_bytes"]
    same = results_table.describe_constant(results)
    assert list(same) == ["fio data", "IOR data", "mdtest metadata", "fio metadata"]
    assert "POSIX" in same["IOR data"]
    assert "collective" not in same["IOR data"]  # has no effect with POSIX
    assert "POSIX" not in same["fio data"]
    assert same["fio metadata"] == "1000 files per thread, write mode new, filecreate"


def test_a_page_of_very_many_results_has_their_figures_alone(
    results: list[PointSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured() -> tuple[int, set[bool], int]:
        shown = results_table.make_payload(results, [], {})
        latencies = results_table.list_latencies(results)
        return len(shown.rows), {one.repetitions is None for one in shown.details}, len(latencies.of)

    assert measured() == (len(results), {False}, len(results))
    monkeypatch.setattr(results_table, "MOST_DETAILED", len(results) - 1)
    assert measured() == (len(results), {True}, 0)


def test_a_column_of_figures_has_one_unit() -> None:
    rows = [
        row(repetition=n, ops_per_s=100.0 * n, bandwidth_bytes_per_s=3.0 * M, latency_mean_s=90e-6, latency_p99_s=8e-4)
        for n in (1, 2, 3)
    ]
    (shown,) = results_table.make_payload(summarize(rows), [], {}).rows
    found = columns(*rows)
    of_rate = ("ops_per_s", "min", "max", "bandwidth_bytes_per_s", "latency_mean_s", "latency_p99_s")
    assert [found[key] for key in of_rate] == [{181.712}, {100.0}, {300.0}, {3.0}, {90.0}, {800.0}]
    assert found["n"] == {3} and "hosts" not in found and len(shown) == len(found)
