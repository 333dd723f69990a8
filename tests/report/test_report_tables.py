"""The summary tables: mdtest's rates by operation, and the results of WEKA's tests."""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis import formats
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import Campaign, load
from iosweep.report import benchmark_tables, page
from iosweep.report.benchmark_tables import Cell, Table
from results_factory import G, sweep

OPERATIONS = [
    *("Directory creation", "Directory stat", "Directory rename", "Directory removal"),
    *("File creation", "File stat", "File read", "File removal"),
]
IOPS = ("read-iops", "write-iops")


def loaded(tmp_path: Path, **options: Any) -> Campaign:
    return load(factory.make(tmp_path, **options))


def metadata_of(tmp_path: Path, **options: Any) -> list[Table]:
    campaign = loaded(tmp_path, **options)
    return benchmark_tables.metadata(campaign, summarize(campaign.rows))


def weka_of(tmp_path: Path, **options: Any) -> list[Table]:
    campaign = loaded(tmp_path, **options)
    return benchmark_tables.weka(campaign, summarize(campaign.rows))


def by_title(table: Table) -> dict[str, tuple[Cell, ...]]:
    return {row.title: row.cells for row in table.rows}


class TestMetadata:
    def test_operations_down_and_nodes_across(self, tmp_path: Path) -> None:
        campaign = loaded(tmp_path, sweeps=[factory.mdtest("by-nodes")])
        (table,) = benchmark_tables.metadata(campaign, summarize(campaign.rows))
        assert (table.sources, table.title) == (("by-nodes",), "")
        assert table.about == "mdtest; 32 threads per node; 1000 files per thread; empty files; own directories"
        assert table.columns == ("1 node", "2 nodes", "3 nodes", "4 nodes")
        assert [row.title for row in table.rows] == OPERATIONS
        rates = [
            row.figures["ops_per_s"] for row in campaign.rows if (row.phase, row.parameters["nodes"]) == ("dir_stat", 3)
        ]
        [dir_stat] = [r for r in summarize(campaign.rows) if (r.phase, r.nodes) == ("dir_stat", 3)]
        share = dir_stat.headline.ci95_share if dir_stat.headline else None
        assert share is not None
        assert by_title(table)["Directory stat"][2] == Cell(
            f"{fmean(rates):,.0f}",
            (
                f"± {100 * share:.1f} % (95 % CI)",
                f"min {min(rates):,.0f}, max {max(rates):,.0f}",
                f"std dev {stdev(rates):,.0f} (n = 3)",
            ),
            "valid",
        )

    def test_one_column_is_laid_out_as_mdtest_does(self, tmp_path: Path) -> None:
        campaign = loaded(tmp_path, sweeps=[factory.mdtest(axes={"nodes": [2]})])
        (table,) = benchmark_tables.metadata(campaign, summarize(campaign.rows))
        assert table.about.startswith("mdtest; 2 nodes; 32 threads per node; ")
        assert table.columns == ("max", "min", "mean", "std dev", "95 % CI", "n")
        rates = [row.figures["ops_per_s"] for row in campaign.rows if row.phase == "read"]
        texts = [cell.value for cell in by_title(table)["File read"]]
        assert texts[:4] == [formats.number(x) for x in (max(rates), min(rates), fmean(rates), stdev(rates))]
        assert texts[5] == "3"

    def test_one_repetition_has_a_mean_only(self, tmp_path: Path) -> None:
        (one,) = metadata_of(tmp_path / "1", sweeps=[factory.mdtest(axes={"nodes": [1]})], repetitions=1)
        assert one.columns == ("mean", "n")
        (two,) = metadata_of(tmp_path / "2", sweeps=[factory.mdtest(axes={"nodes": [1, 2]})], repetitions=1)
        assert {cell.lines for row in two.rows for cell in row.cells} == {("one repetition",)}

    def test_two_repetitions_have_no_interval(self, tmp_path: Path) -> None:
        (table,) = metadata_of(tmp_path, sweeps=[factory.mdtest(axes={"nodes": [1, 2]})], repetitions=2)
        lines = [line for row in table.rows for cell in row.cells for line in cell.lines]
        assert lines
        assert not [line for line in lines if "CI" in line]

    def test_other_axes_have_a_table_each(self, tmp_path: Path) -> None:
        axes = {"threads_per_node": [1, 8], "unique_directory": [True, False], "file_size": [0, 4096]}
        found = metadata_of(tmp_path, sweeps=[factory.mdtest("s", axes=axes)])
        assert sorted(table.title for table in found) == [
            "empty files, own directories",
            "empty files, shared directory",
            "file size 4 KiB, own directories",
            "file size 4 KiB, shared directory",
        ]
        for table in found:
            assert table.columns == ("1 thread per node", "8 threads per node")
            # those that no file size has an effect on, too
            assert [row.title for row in table.rows] == OPERATIONS
            assert all(cell.value for row in table.rows for cell in row.cells)

    def test_what_is_not_valid_is_marked_with_its_reason(self, tmp_path: Path) -> None:
        def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
            verdicts = {2: ("suspect", "duration: short"), 3: ("invalid", "no_errors: 1"), 4: ("missing", "no nodes")}
            return verdicts.get(row["nodes"]) if row["phase"] == "stat" or row["nodes"] == 4 else None

        (table,) = metadata_of(tmp_path, sweeps=[factory.mdtest()], spoil=spoil)
        assert table.columns == ("1 node", "2 nodes", "3 nodes")  # of four nodes there is nothing to show
        cells = by_title(table)["File stat"]
        assert [(bool(cell.value), cell.verdict) for cell in cells] == [
            (True, "valid"), (True, "suspect"), (False, "invalid"),
        ]  # fmt: skip
        assert table.notes == (
            "○ 1 suspect (duration: short).",
            "✕ 1 invalid (no_errors: 1).",
            "– 8 missing (no nodes).",
        )

    def test_nothing_measured_is_no_table(self, tmp_path: Path) -> None:
        assert metadata_of(tmp_path, sweeps=[factory.mdtest()], spoil=lambda _: ("missing", "no mdtest")) == []

    def test_fio_has_none(self, tmp_path: Path) -> None:
        assert metadata_of(tmp_path) == []

    def test_sweeps_with_the_same_points_share_a_table(self, tmp_path: Path) -> None:
        sweeps = [factory.mdtest("a"), factory.mdtest("b"), factory.mdtest("c", axes={"nodes": [1, 2]})]
        assert [table.sources for table in metadata_of(tmp_path, sweeps=sweeps)] == [("a", "b"), ("c",)]


class TestWeka:
    def test_rows_and_columns_of_the_summary(self, tmp_path: Path) -> None:
        (table,) = weka_of(tmp_path, sweeps=factory.weka(scaled=["read-throughput"]))
        assert table.columns == ("1 client", "8 clients")
        assert [(row.title, row.scaled) for row in table.rows] == [
            ("Read throughput", True), ("Write throughput", False), ("Read IOPS", False), ("Write IOPS", False),
            ("Read latency", False), ("Write latency", False), ("Creates", False), ("Stats", False), ("Deletes", False),
        ]  # fmt: skip
        assert table.scaled
        abouts = [row.about for row in table.rows]
        assert abouts[0] == "fio, O_DIRECT; 32 threads, 1 MiB, QD 1"
        assert abouts[3] == "fio, O_DIRECT, overwrite, fio's own data; 192 threads, 4 KiB, QD 1"
        assert abouts[7] == "mdtest; 136 ranks, own directories"
        assert by_title(table)["Stats"][0] == Cell("", (), "")  # the suite asks for it on all clients only

    def test_the_two_tables_of_the_source_stand_side_by_side(self, tmp_path: Path) -> None:
        """Single client: throughput, IOPS, latency. Aggregated cluster: throughput, IOPS, creates, stats, deletes."""
        campaign = loaded(tmp_path, sweeps=factory.weka(nodes=(1, 4)))
        (table,) = benchmark_tables.weka(campaign, summarize(campaign.rows))
        assert (table.columns, table.groups) == (
            ("1 client", "4 clients"), (("Single client", 1), ("Aggregated cluster", 1)),
        )  # fmt: skip
        single, cluster = zip(*(row.cells for row in table.rows), strict=True)
        titles = [row.title for row in table.rows]
        assert [title for title, cell in zip(titles, single, strict=True) if cell.value] == titles[:6]
        assert all(cell.value for cell in cluster)
        means = {
            nodes: fmean(row.figures["bandwidth_bytes_per_s"] for row in campaign.rows
                         if (row.sweeps, row.parameters["nodes"]) == ("weka.read-throughput", nodes))
            for nodes in (1, 4)
        }  # fmt: skip
        assert cluster[0].lines[0] == (
            f"{formats.number(means[4] / 4 / G)} GiB/s per client, {25 * means[4] / means[1]:.0f} % of one alone"
        )
        assert cluster[2].lines[1].endswith(" % of one alone")  # below fio's iops avg
        assert [cell.lines[0].endswith(" ops/s per client") for cell in cluster[6:]] == [True] * 3  # no one alone
        lines = [line for cell in (*single, *cluster[4:6]) for line in cell.lines]  # of latencies none
        assert lines
        assert not [line for line in lines if "per client" in line]

    @pytest.mark.parametrize(
        ("nodes", "groups"),
        [((4,), (("Aggregated cluster", 1),)), ((1,), (("Single client", 1),)),
         ((1, 2, 4), (("Single client", 1), ("Aggregated cluster", 2)))],
    )  # fmt: skip
    def test_what_was_not_measured_has_no_title(
        self, tmp_path: Path, nodes: tuple[int, ...], groups: tuple[tuple[str, int], ...]
    ) -> None:
        results = factory.make(tmp_path, sweeps=factory.weka(nodes=nodes)[:6])
        campaign = load(results)
        (table,) = benchmark_tables.weka(campaign, summarize(campaign.rows))
        assert table.groups == groups
        text = page.render(results)
        assert [f'colspan="{span}" class="number">{title}<' in text for title, span in groups] == [True] * len(groups)

    def test_figures_are_those_of_the_page(self, tmp_path: Path) -> None:
        campaign = loaded(tmp_path, sweeps=factory.weka())
        (table,) = benchmark_tables.weka(campaign, summarize(campaign.rows))
        cells = {row.title: row.cells[1] for row in table.rows}  # 8 clients

        def rows(sweep: str, phase: str) -> list[Mapping[str, Any]]:
            found = (row for row in campaign.rows if row.sweeps == f"weka.{sweep}" and row.parameters["nodes"] == 8)
            return [row for row in found if row.phase == phase]

        throughput = fmean(row.figures["bandwidth_bytes_per_s"] for row in rows("read-throughput", "seq_read"))
        assert cells["Read throughput"].value == f"{throughput / G:.1f} GiB/s"
        writes = rows("write-iops", "rand_write")
        assert cells["Write IOPS"].value == f"{fmean(row.figures['ops_per_s'] for row in writes):,.0f} ops/s"
        sampled = fmean(row.figures["sampled_ops_per_s"] for row in writes)
        assert cells["Write IOPS"].lines[0] == f"(fio's iops avg: {sampled:,.0f})"
        reads = rows("read-latency", "rand_read")
        mean, tail = (
            fmean(row.figures["latency_mean_s"] for row in reads),
            sorted(row.figures["completion_latency_p99_5_s"] for row in reads)[1],
        )
        assert cells["Read latency"].value == f"{formats.number(mean * 1e6)} µs avg."
        assert cells["Read latency"].lines[1] == f"99.5 % completed under {formats.number(tail * 1e6)} µs (clat)"
        deletes = fmean(row.figures["ops_per_s"] for row in rows("metadata", "delete"))
        assert cells["Deletes"].value == f"{deletes:,.0f} ops/s"
        assert all(cell.lines[-1].endswith("(95 % CI, n = 3)") for cell in cells.values())

    def test_samples_that_are_not_there_are_not_mentioned(self, tmp_path: Path) -> None:
        campaign = loaded(tmp_path, sweeps=factory.weka())
        for row in campaign.rows:
            row.figures.pop("sampled_ops_per_s", None)
        (table,) = benchmark_tables.weka(campaign, summarize(campaign.rows))
        assert not [line for row in table.rows for cell in row.cells for line in cell.lines if "iops avg" in line]

    def test_columns_are_what_was_measured(self, tmp_path: Path) -> None:
        def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
            if row["nodes"] == 8:
                return "missing", "8 nodes are not to be had"
            return ("suspect", "duration: short") if row["phase"] == "seq_write" else None

        (table,) = weka_of(tmp_path, sweeps=factory.weka(), spoil=spoil)
        assert table.columns == ("1 client",)
        verdicts = [cells[0].verdict for cells in by_title(table).values()]
        assert verdicts == ["valid", "suspect", *["valid"] * 4, *[""] * 3]
        assert "– 9 missing (8 nodes are not to be had)." in table.notes

    def test_nothing_measured_is_no_table(self, tmp_path: Path) -> None:
        assert weka_of(tmp_path, sweeps=factory.weka(), spoil=lambda _: ("missing", "no fio")) == []

    def test_suites_that_share_their_points_share_a_table(self, tmp_path: Path) -> None:
        both = [*factory.weka(), *factory.weka("everything")]
        (table,) = weka_of(tmp_path / "same", sweeps=both)
        assert table.sources == ("weka", "everything")
        both = [*factory.weka(), *factory.weka("everything", scaled=IOPS, nodes=(1, 2))]
        found = weka_of(tmp_path / "other", sweeps=both)
        assert [(table.sources, table.columns[-1], table.scaled) for table in found] == [
            (("weka",), "8 clients", False), (("everything",), "2 clients", True),
        ]  # fmt: skip

    def test_other_sweeps_have_no_part_in_it(self, tmp_path: Path) -> None:
        axes = {"nodes": [1, 8]}
        others = [
            sweep("read-iops", ["rand_read"], axes),
            sweep("weka-small-write-latency.write-latency", ["rand_write"], axes, suite="weka-small-write-latency"),
            sweep("weka.something", ["rand_read"], axes, suite="weka"),
        ]
        assert weka_of(tmp_path, sweeps=others) == []

    def test_several_points_name_their_own(self, tmp_path: Path) -> None:
        one = sweep("weka.read-iops", ["rand_read"], {"nodes": [1], "threads_per_node": [1, 64]}, suite="weka")
        campaign = loaded(tmp_path, sweeps=[one])
        (table,) = benchmark_tables.weka(campaign, summarize(campaign.rows))
        ((cell,),) = [row.cells for row in table.rows]
        best = fmean(row.figures["ops_per_s"] for row in campaign.rows if row.parameters["threads_per_node"] == 64)
        assert cell.value == f"{best:,.0f} ops/s"
        assert cell.lines[-1] == "best of 2: 64 threads, 4 KiB, QD 1"

    def test_the_best_is_valid_and_the_lowest_latency(self, tmp_path: Path) -> None:
        axes = {"nodes": [1], "threads_per_node": [1, 8, 64]}
        names = {"read-iops": "64 threads", "read-latency": "1 thread"}
        sweeps = [sweep(f"weka.{name}", ["rand_read"], axes, suite="weka") for name in names]
        (table,) = weka_of(tmp_path / "valid", sweeps=sweeps)
        places = [cells[0].lines[-1] for cells in by_title(table).values()]
        assert places == [f"best of 3: {name}, 4 KiB, QD 1" for name in names.values()]

        def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
            return None if row["threads_per_node"] == 8 else ("suspect", "duration: short")

        (table,) = weka_of(tmp_path / "suspect", sweeps=sweeps, spoil=spoil)
        assert {(cell.verdict, cell.lines[-1]) for cells in by_title(table).values() for cell in cells} == {
            ("valid", "best of 3: 8 threads, 4 KiB, QD 1")
        }

    def test_what_does_not_compare_has_rows_of_its_own(self, tmp_path: Path) -> None:
        axes = {"nodes": [1], "o_direct": [True, False]}
        (table,) = weka_of(tmp_path, sweeps=[sweep("weka.read-iops", ["rand_read"], axes, suite="weka")])
        assert [(row.title, row.about.partition(";")[0]) for row in table.rows] == [
            ("Read IOPS", "fio, O_DIRECT"),
            ("Read IOPS", "fio, through the page cache"),
        ]

    @pytest.mark.parametrize("scaled", [(), IOPS])
    def test_the_page_says_what_was_scaled(self, tmp_path: Path, scaled: tuple[str, ...]) -> None:
        text = page.render(factory.make(tmp_path, sweeps=factory.weka(scaled=scaled)))
        section = text[text.index('<h3 id="weka">') : text.index('<h3 id="metadata">')]
        assert section.count('<b class="suspect">scaled</b>') == len(scaled)
        assert ("does not compare with the published figures" in section) == bool(scaled)
