"""The numbers of the suites' sources go in, their tables and figures come out: layout, units and figures.

The outputs that the sources print go through our readers; numbers that they only tell are rows of our table.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import seed_figures as seeds
from iosweep.analysis import acceptance
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import Campaign, load
from iosweep.config import published
from iosweep.ingest import tables
from iosweep.plan.criteria import suites_of
from iosweep.report import benchmark_tables, figures
from iosweep.report.benchmark_tables import Cell, Table, TableRow


def cells(table: Table, column: int = 0) -> dict[str, Cell]:
    return {row.title: row.cells[column] for row in table.rows}


def shares(campaign: Campaign, results: Sequence[Result], system: str = "") -> list[float]:
    """Each published figure of the suite that one of the results compares with, as what ours is of it."""
    suites = suites_of(campaign.about.sweeps)
    (suite,) = set(suites.values())
    return [
        ours / figure.value
        for figure in published.of_suite(suite)
        for result, subject in zip(results, acceptance.subjects(results), strict=True)
        if figure.system == system and published.compares(figure, subject, suites)
        if (ours := result.typical(figure.column)) is not None
    ]


class TestWeka:
    @pytest.mark.parametrize(("system", "name"), [(0, "AWS"), (1, "SuperMicro")])
    def test_its_two_tables(self, system: int, name: str) -> None:
        rows = [*seeds.weka(seeds.WEKA_SINGLE, system, 1), *seeds.weka(seeds.WEKA_CLUSTER, system, 8)]
        campaign, results = seeds.campaign(rows, "weka", nodes=[1, 8])
        (table,) = benchmark_tables.weka(campaign, results)
        assert table.groups == (("Single client", 1), ("Aggregated cluster", 1))
        assert [row.title for row in table.rows] == list(seeds.WEKA_TESTS)
        single, cluster = cells(table, 0), cells(table, 1)
        for title, values in seeds.WEKA_SINGLE.items():
            value: Any = values[system]
            if "latency" in title:
                mean, tail = value
                assert single[title].value == f"{mean:.0f} µs avg."
                assert single[title].lines[1] == f"99.5 % completed under {tail} µs (clat)"
            else:
                text = f"{value:.3g} GiB/s" if "throughput" in title else f"{value:,} ops/s"
                assert _same_number(single[title].value, text)
        for title, rate in seeds.WEKA_CLUSTER.items():
            text = f"{rate[system]:.4g} GiB/s" if "throughput" in title else f"{rate[system]:,} ops/s"
            assert _same_number(cluster[title].value, text)
        assert [title for title, cell in single.items() if not cell.value] == ["Creates", "Stats", "Deletes"]
        assert [title for title, cell in cluster.items() if not cell.value] == ["Read latency", "Write latency"]

        found = shares(campaign, results, name.lower())
        assert len(found) == 15
        assert found == pytest.approx([1.0] * 15)

    def test_its_table_of_mdtest(self) -> None:
        known = {"nodes": 8, "threads_per_node": 136, "files_per_thread": 18382, "unique_directory": True}
        rows = seeds.output("mdtest", "mdtest/seeds/weka_1088_tasks.out", "weka.metadata", file_size_bytes=0, **known)
        (table,) = benchmark_tables.metadata(*seeds.campaign(rows, "weka", nodes=[8]))
        assert table.columns == ("max", "min", "mean", "std dev", "n")
        assert {row.title: [cell.value for cell in row.cells] for row in table.rows} == {
            "File creation": ["40,784", "40,784", "40,784", "0.001", "3"],
            "File stat": ["2,352,916", "2,352,903", "2,352,911", "6.12", "3"],
            "File read": ["217,236", "217,236", "217,236", "0.064", "3"],
            "File removal": ["44,102", "44,102", "44,102", "0.004", "3"],
        }


def _over_depth(campaign: Campaign, results: Sequence[Result]) -> dict[tuple[str, object, str], str | None]:
    """(phase, queue depth, measure) -> the value of its mark, of the figures over queue depth."""
    return {
        (figure.panels[mark.panel].title, mark.x, mark.measure): mark.value
        for figure in figures.figures(campaign, results)
        if figure.x_column == "queue_depth"
        for mark in figure.marks
    }


class TestMicron:
    def test_its_corners_over_queue_depth(self) -> None:
        campaign, results = seeds.campaign(seeds.micron(), "four-corners", queue_depth=[4, 8, 16, 32])
        assert (
            _over_depth(campaign, results).items()
            >= {
                ("Random read", 32, ""): "4.60 M IOPS",
                ("Random read", 32, "mean"): "487 µs",
                ("Random write", 4, ""): "626 k IOPS",
                ("Random write", 8, "mean"): "830 µs",
                ("Random write", 16, "mean"): "1.60 ms",
                ("Sequential read", 16, ""): "57.7 GiB/s",
                ("Sequential read", 16, "mean"): "2.30 ms",
            }.items()
        )

    def test_its_corners_from_outputs_that_are_ingested(self, tmp_path: Path) -> None:
        outputs = tmp_path / "outputs"
        outputs.mkdir()
        seeds.micron_outputs(outputs)
        results = tmp_path / "results"
        taken, refused = tables.look([outputs])
        tables.make(results, *tables.store(results, "micron", [outputs], taken, refused), taken)
        campaign = load(results)
        assert (
            _over_depth(campaign, summarize(campaign.rows)).items()
            >= {
                ("Random read", 32, ""): "4.60 M IOPS",
                ("Random write", 16, "mean"): "1.60 ms",
                ("Sequential write", 16, "mean"): "1.86 ms",
            }.items()
        )

    def test_beside_its_figures(self) -> None:
        found = shares(*seeds.campaign(seeds.micron(), "four-corners", queue_depth=[4, 8, 16, 32]))
        assert len(found) == 9
        assert found == pytest.approx([1.0] * 9)


class TestLustre:
    def test_mdtest_from_one_to_four_nodes(self) -> None:
        how = {"threads_per_node": 32, "files_per_thread": 1024, "unique_directory": True, "file_size_bytes": 0}
        rows = [
            row
            for nodes in (1, 2, 3, 4)
            for row in seeds.output(
                "mdtest", f"mdtest/seeds/lustre_{nodes}_nodes.out", "mdtest.lustre", nodes=nodes, **how
            )
        ]
        campaign, results = seeds.campaign(rows, "mdtest", nodes=[1, 2, 3, 4])
        (table,) = benchmark_tables.metadata(campaign, results)
        assert table.columns == ("1 node", "2 nodes", "3 nodes", "4 nodes")
        found = {row.title: row for row in table.rows}
        assert _values(found["Directory creation"]) == ["45,517", "78,491", "97,702", "78,386"]
        assert _values(found["File stat"]) == ["100,071", "203,713", "230,463", "445,087"]
        assert _values(found["File removal"]) == ["47,469", "90,014", "110,073", "118,983"]
        # the last one is of 8 iterations
        assert found["File removal"].cells[3].lines == (
            "min 106,347, max 129,380", "std dev 10,990 (n = 8 iterations)",
        )  # fmt: skip
        assert shares(campaign, results) == pytest.approx([1.0] * 32)

    def test_four_nodes_alone_are_laid_out_as_mdtest_does(self) -> None:
        how = {"nodes": 4, "threads_per_node": 32, "files_per_thread": 1024, "unique_directory": True}
        rows = seeds.output("mdtest", "mdtest/seeds/lustre_4_nodes.out", "mdtest.lustre", **how)
        (table,) = benchmark_tables.metadata(*seeds.campaign(rows, "mdtest", nodes=[4]))
        assert table.columns == ("max", "min", "mean", "std dev", "n")
        found = {row.title: _values(row) for row in table.rows}
        assert found["Directory rename"] == ["18,699", "17,422", "18,151", "452", "8"]
        assert found["File read"] == ["82,874", "77,117", "80,371", "2,020", "8"]


def _values(row: TableRow) -> list[str]:
    return [cell.value for cell in row.cells]


def _same_number(shown: str, written: str) -> bool:
    """8.90 GiB/s is 8.9 GiB/s."""
    one, other = (text.replace(",", "").partition(" ") for text in (shown, written))
    return (float(one[0]), one[2]) == (float(other[0]), other[2])
