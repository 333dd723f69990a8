"""Summary tables: mdtest's rates by operation and the results of WEKA's tests; what the suites' sources print, as our
tables and figures show it: layout, units and numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import results_factory as factory
import seed_figures as seeds
from iosweep.analysis import acceptance
from iosweep.analysis.data import Campaign
from iosweep.analysis.summary import PointSummary
from iosweep.config import criteria
from iosweep.plan.headline_groups import suites_of
from iosweep.report import answer, benchmark_tables, figures
from iosweep.report.benchmark_tables import Cell, Table
from results_factory import sweep

OPERATIONS = [
    *("Directory creation", "Directory stat", "Directory rename", "Directory removal"),
    *("File creation", "File stat", "File read", "File removal"),
]


def metadata_of(*sweeps: factory.Sweep, **options: Any) -> list[Table]:
    return benchmark_tables.metadata(*factory.measured(*sweeps, **options))


def weka_of(*sweeps: factory.Sweep, **options: Any) -> list[Table]:
    return benchmark_tables.weka(*factory.measured(*sweeps, **options))


def cells(table: Table, column: int = 0) -> dict[str, Cell]:
    return {row.title: row.cells[column] for row in table.rows}


def written(table: Table) -> dict[str, list[str]]:
    """The figures of each row."""
    return {row.title: [cell.value for cell in row.cells] for row in table.rows}


class TestMetadata:
    def test_other_axes_have_a_table_each(self) -> None:
        axes = {"threads_per_node": [1, 8], "unique_directory": [True, False], "file_size": [0, 4096]}
        found = metadata_of(factory.mdtest("s", axes=axes))
        assert {table.title for table in found} == {
            f"{files}, {place}"
            for files in ("empty files", "file size 4 KiB")
            for place in ("own directories", "shared directory")
        }
        for table in found:
            assert table.columns == ("1 thread per node", "8 threads per node")
            assert [row.title for row in table.rows] == OPERATIONS  # also those that no file size has an effect on
            assert all(cell.value for row in table.rows for cell in row.cells)

    def test_what_is_not_valid_is_marked_with_its_reason(self) -> None:
        def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
            verdicts = {2: ("suspect", "duration: short"), 3: ("invalid", "no_errors: 1"), 4: ("missing", "no nodes")}
            return verdicts.get(row["nodes"]) if row["phase"] == "stat" or row["nodes"] == 4 else None

        (table,) = metadata_of(factory.mdtest(), spoil=spoil)
        assert table.columns == ("1 node", "2 nodes", "3 nodes")  # of four nodes there is nothing to show
        (of_stat,) = (row.cells for row in table.rows if row.title == "File stat")
        assert [(bool(cell.value), cell.verdict) for cell in of_stat] == [
            (True, "valid"), (True, "suspect"), (False, "invalid"),
        ]  # fmt: skip
        assert [note[0] for note in table.notes] == ["○", "✕", "–"]
        reasons = ("duration: short", "no_errors: 1", "no nodes")
        assert all(reason in note for note, reason in zip(table.notes, reasons, strict=True))


class TestWeka:
    def test_of_several_points_the_best_valid_one_is_shown_and_of_latencies_the_lowest(self) -> None:
        axes = {"nodes": [1], "threads_per_node": [1, 8, 64]}
        sweeps = [sweep(f"weka.{name}", ["rand_read"], axes, suite="weka") for name in ("read-iops", "read-latency")]
        (table,) = weka_of(*sweeps)
        assert [cell.lines[-1] for cell in cells(table).values()] == [
            "best of 3: 64 threads, 4 KiB, QD 1", "best of 3: 1 thread, 4 KiB, QD 1"
        ]  # fmt: skip

        def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
            return None if row["threads_per_node"] == 8 else ("suspect", "duration: short")

        (table,) = weka_of(*sweeps, spoil=spoil)
        assert {(cell.verdict, cell.lines[-1]) for cell in cells(table).values()} == {
            ("valid", "best of 3: 8 threads, 4 KiB, QD 1")
        }


def shares(campaign: Campaign, results: Sequence[PointSummary], system: str = "") -> list[float]:
    """Each published figure of the suite that one of the results compares with, as what ours is of it."""
    suites = suites_of(campaign.about.sweeps)
    (suite,) = set(suites.values())
    return [
        ours / figure.value
        for figure in criteria.published_of_suite(suite)
        for result, subject in zip(results, acceptance.subjects(results), strict=True)
        if figure.system == system and criteria.compares(figure, subject, suites)
        if (ours := result.typical(figure.column)) is not None
    ]


def over_depth(campaign: Campaign, results: Sequence[PointSummary]) -> dict[tuple[str, object, str], str | None]:
    """(phase, queue depth, measure) -> the value of its mark, of the figures over queue depth."""
    return {
        (figure.panels[mark.panel].title, mark.x, mark.measure): mark.value
        for figure in figures.figures(campaign, results)
        if figure.x_column == "queue_depth"
        for mark in figure.marks
    }


class TestSources:
    """Outputs that the sources print go through our readers; numbers that they only tell are rows of our table."""

    @pytest.mark.parametrize(("system", "name"), [(0, "aws"), (1, "supermicro")])
    def test_wekas_tables_of_one_client_and_of_the_cluster(self, system: int, name: str) -> None:
        rows = [*seeds.weka(seeds.WEKA_SINGLE, system, 1), *seeds.weka(seeds.WEKA_CLUSTER, system, 8)]
        campaign, results = seeds.campaign(rows, "weka", nodes=[1, 8])
        (table,) = benchmark_tables.weka(campaign, results)
        for source, found in ((seeds.WEKA_SINGLE, cells(table, 0)), (seeds.WEKA_CLUSTER, cells(table, 1))):
            assert [title for title, cell in found.items() if cell.value] == list(source)
            for title, values in source.items():
                number, _, unit = found[title].value.replace(",", "").partition(" ")
                if "latency" in title:
                    assert found[title].lines[1] == f"99.5 % completed under {values[system][1]} µs (clat)"
                    assert (number, unit) == (f"{values[system][0]:.0f}", "µs avg.")
                else:
                    assert float(number) == values[system]
                    assert unit == ("GiB/s" if "throughput" in title else "ops/s")
        assert shares(campaign, results, name) == pytest.approx([1.0] * 15)

    def test_wekas_small_write_latency_is_reproduced(self) -> None:
        campaign, results = seeds.campaign(seeds.small_write(), "weka-small-write-latency", nodes=[1])
        assert shares(campaign, results) == pytest.approx([1.0] * 8)
        rate, latency = answer.groups(results)[0].entries
        assert (rate.value, latency.value) == ("1,879 IOPS", "531 µs")

    def test_wekas_table_of_mdtest_is_reproduced(self) -> None:
        known = {"nodes": 8, "threads_per_node": 136, "files_per_thread": 18382, "unique_directory": True}
        rows = seeds.output("mdtest", "mdtest/seeds/weka_1088_tasks.out", "weka.metadata", file_size_bytes=0, **known)
        (table,) = benchmark_tables.metadata(*seeds.campaign(rows, "weka", nodes=[8]))
        assert table.columns == ("max", "min", "mean", "std dev", "n")
        assert written(table) == {
            "File creation": ["40,784", "40,784", "40,784", "0.001", "3"],
            "File stat": ["2,352,916", "2,352,903", "2,352,911", "6.12", "3"],
            "File read": ["217,236", "217,236", "217,236", "0.064", "3"],
            "File removal": ["44,102", "44,102", "44,102", "0.004", "3"],
        }

    def test_microns_corners_over_queue_depth(self) -> None:
        campaign, results = seeds.campaign(seeds.micron(), "four-corners", queue_depth=[4, 8, 16, 32])
        expected = {
            ("Random read", 32, ""): "4.60 M IOPS",
            ("Random read", 32, "mean"): "487 µs",
            ("Random write", 4, ""): "626 k IOPS",
            ("Random write", 8, "mean"): "830 µs",
            ("Random write", 16, "mean"): "1.60 ms",
            ("Sequential read", 16, ""): "57.7 GiB/s",
            ("Sequential read", 16, "mean"): "2.30 ms",
        }
        found = over_depth(campaign, results)
        assert {key: found[key] for key in expected} == expected
        assert shares(campaign, results) == pytest.approx([1.0] * 9)

    def test_ior_of_the_lustre_notes_over_transfer_sizes(self) -> None:
        campaign, results = seeds.campaign(seeds.lustre_ior(), "lustre-ior", transfer_size=[16 << 20, 64 << 20])
        assert shares(campaign, results) == pytest.approx([1.0] * 16)
        throughput, iops = figures.figures(campaign, results)
        assert (throughput.x_column, throughput.x_values) == ("transfer_size_bytes", (16 << 20, 64 << 20))
        for figure, place, size in ((throughput, 0, 2.0**10), (iops, 1, 1.0)):
            of = {(mark.phase, int(mark.x or 0) >> 20): mark.y for mark in figure.marks}
            assert of == {key: pytest.approx(told[place] / size) for key, told in seeds.LUSTRE_IOR.items()}

    def test_mdtest_of_the_lustre_notes_from_one_to_four_nodes(self) -> None:
        how = {"threads_per_node": 32, "files_per_thread": 1024, "unique_directory": True, "file_size_bytes": 0}
        of = {
            nodes: seeds.output("mdtest", f"mdtest/seeds/lustre_{nodes}_nodes.out", "mdtest.lustre", nodes=nodes, **how)
            for nodes in (1, 2, 3, 4)
        }
        campaign, results = seeds.campaign([row for rows in of.values() for row in rows], "mdtest", nodes=[*of])
        (table,) = benchmark_tables.metadata(campaign, results)
        assert table.columns == ("1 node", "2 nodes", "3 nodes", "4 nodes")
        found = written(table)
        assert found["Directory creation"] == ["45,517", "78,491", "97,702", "78,386"]
        assert found["File stat"] == ["100,071", "203,713", "230,463", "445,087"]
        assert found["File removal"] == ["47,469", "90,014", "110,073", "118,983"]
        assert cells(table, 3)["File removal"].lines == (
            "min 106,347, max 129,380", "std dev 10,990 (n = 8 iterations)",
        )  # fmt: skip
        assert shares(campaign, results) == pytest.approx([1.0] * 32)

        (table,) = benchmark_tables.metadata(*seeds.campaign(of[4], "mdtest", nodes=[4]))
        assert table.columns == ("max", "min", "mean", "std dev", "n")
        assert written(table)["Directory rename"] == ["18,699", "17,422", "18,151", "452", "8"]
        assert written(table)["File read"] == ["82,874", "77,117", "80,371", "2,020", "8"]
