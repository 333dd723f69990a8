"""The report's decisions: what is summarized, what the headline says, what table and page hold."""

import io
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.console import Console

import results_factory as factory
from iosweep.analysis import caveats, formats, titles
from iosweep.analysis.aggregate import (
    OUTCOMES,
    VERDICTS,
    Result,
    count_repetitions,
    count_results,
    repetitions,
    statistics,
    summarize,
    worst,
)
from iosweep.analysis.data import load
from iosweep.files.documents import Damaged
from iosweep.node import fs_types
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.report import headline, page, quality, results_table
from iosweep.results import columns
from iosweep.results.reasons import FOLLOWS
from iosweep.results.statistics import interval
from iosweep.tools.fio import options as fio_options
from iosweep.tools.ior import options as ior_options
from iosweep.tools.mdtest import options as mdtest_options
from results_factory import G, K, M, row, sweep, sweep_facts


def left_after_one(row: Any) -> tuple[str, str] | None:
    """Of every point, the first repetition alone is measured."""
    return None if row["repetition"] == 1 else ("missing", columns.NOT_YET)


def results_of(tmp_path: Path, **options: Any) -> list[Result]:
    return summarize(load(factory.make(tmp_path, **options)).rows)


class TestSummary:
    def test_known_values(self) -> None:
        found = statistics([10.0, 12.0, 14.0], interval([10.0, 12.0, 14.0]))
        assert (found.n, found.mean, found.median, found.low, found.high, found.sd) == (3, 12, 12, 10, 14, 2)
        assert found.interval is not None
        assert found.interval.low < 10 < 14 < found.interval.high
        assert found.ci95_share == pytest.approx(0.52, abs=0.01)
        assert found.grade is None

    def test_a_run_that_was_stopped(self) -> None:
        """What was measured counts; what was not is counted, too, and hides no figure."""
        stopped = {"repetition": 2, "verdict": "missing", "reasons": "limits.time is spent", "ops_per_s": None}
        [half] = summarize([row(), row(**stopped)])
        assert (half.verdict, half.used, half.lacking, half.measured) == ("valid", 1, 1, 1)
        assert half.outcomes == ("valid", "missing")
        assert caveats.incomplete(half) == "1 of 2 repetitions"
        [none] = summarize([row(**stopped | {"repetition": None})])
        assert (none.verdict, none.used, none.lacking, none.state) == ("missing", 0, 0, "missing")
        assert caveats.incomplete(none) == ""
        [left] = summarize([row(**stopped | {"repetition": None, "reasons": "its job was stopped", "left": True})])
        assert left.state == "left"

    def test_what_is_left_is_counted_in_repetitions(self) -> None:
        """29 measured of 89 are not 29 valid and 0 missing."""
        later = {"verdict": "missing", "left": True, "reasons": columns.NOT_YET, "ops_per_s": None}
        rows = [row(point=str(i), repetition=1, phase=phase) for i in range(27) for phase in ("seq_write", "seq_read")]
        rows += [row(point=str(i), repetition=number, **later) for i in range(27) for number in (2, 3)]
        # one phase of a repetition is enough; points without a repetition count as many as were planned
        rows += [row(point="x", phase="seq_write", verdict="suspect", reasons="perhaps")]
        rows += [row(point="x", phase="seq_read", verdict="invalid", reasons="no")]
        rows += [row(point="x", repetition=2, verdict="suspect"), row(point="y", repetition=None, **later)]
        rows.append(row(point="z", repetition=None, **later | {"left": False, "reasons": "no fio"}))
        found = repetitions(rows, [sweep_facts(3, "y", "0"), sweep_facts(6, "y", "z")])
        counts = count_repetitions(found)
        assert counts == {"valid": 27, "suspect": 1, "invalid": 1, "missing": 6, "left": 60, "unneeded": 0}
        assert list(counts) == list(OUTCOMES)
        assert caveats.measured(counts) == "29 of 95 repetitions measured"
        assert caveats.why(found, "left") == "not measured yet"
        assert caveats.why(found, "invalid") == "no"

    def test_one_repetition_has_no_interval(self) -> None:
        found = statistics([10.0])
        assert (found.n, found.sd, found.interval, found.ci95_share) == (1, None, None, None)

    def test_invalid_repetitions_never_count(self) -> None:
        rows = [row(), row(repetition=2, verdict="invalid", ops_per_s=1e9, reasons="errors: 3")]
        (result,) = summarize(rows)
        assert result.headline is not None
        assert (result.verdict, result.used, result.measured, result.headline.mean) == ("invalid", 1, 2, 10)
        assert result.reasons == ("errors: 3",)

    def test_suspect_repetitions_count_and_mark(self) -> None:
        (result,) = summarize([row(), row(repetition=2, verdict="suspect", ops_per_s=20.0)])
        assert result.headline is not None
        assert (result.verdict, result.headline.mean) == ("suspect", 15)

    def test_percentiles_are_not_averaged(self) -> None:
        rows = [row(repetition=i, latency_p99_s=p, latency_mean_s=p) for i, p in enumerate([1.0, 2.0, 9.0], 1)]
        (result,) = summarize(rows)
        assert result.typical("latency_p99_s") == 2
        assert result.typical("latency_mean_s") == 4
        assert result.typical("bandwidth_bytes_per_s") is None

    def test_what_was_not_measured_has_no_figures(self) -> None:
        (result,) = summarize([row(repetition=None, verdict="missing", reasons="no fio", ops_per_s=None)])
        assert (result.verdict, result.used, result.measured, result.headline) == ("missing", 0, 0, None)

    def test_results_by_verdict(self) -> None:
        results = summarize([row(), row(phase="seq_read", verdict="suspect"), row(point="q")])
        assert count_results(results) == {"valid": 2, "suspect": 1, "invalid": 0, "missing": 0}

    def test_an_unknown_verdict_is_not_hidden(self) -> None:
        assert worst(["valid", "dubious"]) == "invalid"

    def test_phases_stand_in_the_order_in_which_they_run(self) -> None:
        found = summarize([row(phase=phase) for phase in ("stat", "zeta", "rand_read", "seq_write")])
        assert [result.phase for result in found] == ["seq_write", "rand_read", "stat", "zeta"]

    @pytest.mark.parametrize("tool", [fio_options, ior_options, mdtest_options])
    def test_every_phase_has_a_place_and_a_title(self, tool: Any) -> None:
        assert all(titles.phase(phase) != phase for phase in tool.PHASES)
        found = summarize([row(phase=phase) for phase in reversed(tool.PHASES)])
        assert [result.phase for result in found] == list(tool.PHASES)

    @given(st.lists(st.tuples(st.sampled_from(VERDICTS[:3]), st.floats(0.1, 1e9)), min_size=1, max_size=8))
    def test_only_what_counts_is_in_the_mean(self, repetitions: list[tuple[str, float]]) -> None:
        rows = [row(repetition=i, verdict=v, ops_per_s=x) for i, (v, x) in enumerate(repetitions, 1)]
        (result,) = summarize(rows)
        counted = [x for v, x in repetitions if v != "invalid"]
        assert result.verdict == max((v for v, _ in repetitions), key=VERDICTS.index)
        assert result.used == len(counted)
        if result.headline:
            assert result.headline.mean == pytest.approx(math.fsum(counted) / len(counted))
        else:
            assert not counted


class TestWords:
    @pytest.mark.parametrize(
        ("value", "units", "text"),
        [
            (1.5 * G, formats.THROUGHPUT, "1.50 GiB/s"),
            (900 * M, formats.THROUGHPUT, "900 MiB/s"),
            (9_876, formats.IOPS, "9,876 IOPS"),
            (123_456, formats.IOPS, "123 k IOPS"),
            (45e-6, formats.LATENCY, "45.0 µs"),
            (1.234e-3, formats.LATENCY, "1.23 ms"),
            (0, formats.IOPS, "0 IOPS"),
        ],
    )
    def test_quantity(self, value: float, units: tuple[formats.Unit, ...], text: str) -> None:
        assert formats.quantity(value, units) == text

    def test_names_count(self) -> None:
        assert titles.named("threads_per_node", 1) == "1 thread per node"
        assert titles.named("nodes", 2) == "2 nodes"
        assert titles.named("queue_depth", 16) == "queue depth 16"

    @pytest.mark.parametrize(
        ("column", "value", "text"),
        [
            ("file_per_process", True, "file per process"),
            ("file_per_process", False, "shared file"),
            ("api", "POSIX", "POSIX"),
            ("api", "MPIIO", "MPI-IO"),
            ("collective", True, "collective calls"),
            ("collective", False, "independent calls"),
            ("unique_directory", True, "own directories"),
            ("unique_directory", False, "shared directory"),
            ("file_size_bytes", 0, "empty files"),
            ("file_size_bytes", 4096, "file size 4 KiB"),
        ],
    )
    def test_parameters_of_ior_and_mdtest_say_what_they_are(self, column: str, value: object, text: str) -> None:
        assert titles.named(column, value) == text

    def test_where_a_figure_was_measured(self) -> None:
        own = {"nodes": 1, "threads_per_node": 4, "transfer_size_bytes": M, "collective": False}
        shared = {"tool": "ior", **own, "file_per_process": False, "api": "MPIIO"}
        alone = {"tool": "ior", **own, "nodes": 2, "file_per_process": True, "api": "POSIX"}
        files = {"tool": "mdtest", "kind": "metadata", "threads_per_node": 1, "unique_directory": False}
        rows = [shared, alone, {**own, "queue_depth": 8}, {**files, "file_size_bytes": 4 * K}, files]
        results = summarize([row(point=str(i), **values) for i, values in enumerate(rows)])
        assert [titles.brief(result) for result in results] == [
            "4 ranks, 1 MiB, shared file, MPI-IO, independent calls",
            "2 nodes × 4 ranks, 1 MiB, file per process, POSIX",
            "4 threads, 1 MiB, QD 8",
            "1 rank, 4 KiB files, shared directory",
            "1 rank, shared directory",
        ]

    def test_axes_in_words(self) -> None:
        axes = {"threads_per_node": [1, 8], "file_per_process": [True, False], "api": ["POSIX", "MPIIO"]}
        assert titles.axes_text(axes) == "threads per node 1, 8; file per process, shared file; POSIX, MPI-IO"

    def test_reasons_that_differ_in_numbers_count_together(self) -> None:
        rows = [
            row(point=str(i), verdict="suspect", reasons=f"duration: 0.{i} s of 1 s | errors; two") for i in range(4)
        ]
        assert caveats.reasons(summarize(rows)) == "4 × duration: 0.0 s of 1 s (numbers differ); 4 × errors; two"
        assert caveats.reasons(summarize([*rows[:1], row(point="x", reasons="errors; two")])).startswith(
            "2 × errors; two"
        )

    def test_a_result_gives_a_reason_once(self) -> None:
        rows = [row(repetition=i, verdict="suspect", reasons=f"duration: 0.{i} s") for i in (1, 2, 3)]
        assert caveats.reasons(summarize([*rows, row(point="q", reasons="errors")])).startswith("1 × duration")

    def test_a_cause_comes_before_what_follows_from_it(self) -> None:
        cause = "the target reports an I/O error: the tool ended with exit code 1"
        rows = [row(point=str(i), verdict="invalid", reasons="fio printed nothing") for i in range(4)]
        rows.append(row(point="x", verdict="invalid", reasons=f"{cause}: a{FOLLOWS}fio printed nothing"))
        rows.append(row(point="y", verdict="invalid", reasons=f"{cause}: b{FOLLOWS}no read was done"))
        assert caveats.reasons(summarize(rows), most=1) == (
            f"1 × {cause}: a → fio printed nothing; and 2 other reasons"
        )
        failed = [row(point=str(i), verdict="invalid", reasons="the tool ended with exit code 1 → no") for i in "ab"]
        assert caveats.reasons(summarize([*rows[:4], *failed])) == (
            "2 × the tool ended with exit code 1 → no; 4 × fio printed nothing"
        )

    def test_one_reason_stands_alone(self) -> None:
        rows = [row(point=str(i), verdict="missing", repetition=None, reasons="no fio") for i in range(4)]
        assert caveats.reasons(summarize(rows)) == "no fio"

    def test_a_reading_phase_belongs_to_its_points_write_mode(self) -> None:
        results = summarize([row(phase="seq_write", write_mode="new", data="random"), row(phase="seq_read")])
        assert titles.conditions(results) == {"p": ("fio", "new", "random", None)}


class TestHeadline:
    def test_valid_goes_before_larger(self) -> None:
        rows = [row(), row(point="q", ops_per_s=99.0, verdict="suspect")]
        ((entry,),) = [group.entries for group in headline.groups(summarize(rows))]
        assert (entry.value, entry.verdict, entry.spread) == ("10.0 IOPS", "valid", "one repetition")

    def test_a_suspect_one_only_for_want_of_a_valid_one(self) -> None:
        rows = [row(verdict="suspect"), row(point="q", ops_per_s=99.0, verdict="invalid")]
        ((entry,),) = [group.entries for group in headline.groups(summarize(rows))]
        assert (entry.value, entry.verdict) == ("10.0 IOPS", "suspect")

    def test_no_figure_gives_the_reason(self) -> None:
        rows = [row(verdict="missing", repetition=None, ops_per_s=None, reasons="fio is not installed")]
        ((entry,),) = [group.entries for group in headline.groups(summarize(rows))]
        assert (entry.value, entry.verdict, entry.place) == ("", "missing", "fio is not installed")

    def test_what_does_not_compare_stands_apart(self) -> None:
        rows = [row(o_direct=True), row(point="q", o_direct=False, ops_per_s=1e6)]
        titles = [(group.title, group.entries[0].value) for group in headline.groups(summarize(rows))]
        assert titles == [("fio, O_DIRECT", "10.0 IOPS"), ("fio, through the page cache", "1.00 M IOPS")]

    def test_reads_have_no_conditions_of_writes(self) -> None:
        """And are one headline, whatever the writes of their points were like."""
        write = {"phase": "rand_write", "data": "random"}
        rows = [
            row(point="p", **write, write_mode="new", o_direct=True),
            row(point="p", o_direct=True, ops_per_s=20.0),
            row(point="q", **write, write_mode="overwrite", o_direct=True),
            row(point="q", o_direct=True, ops_per_s=30.0),
        ]
        found = {group.title: [(e.label, e.value) for e in group.entries] for group in headline.groups(summarize(rows))}
        assert found == {
            "fio, O_DIRECT, new files, random data": [("Random write", "10.0 IOPS")],
            "fio, O_DIRECT": [("Random read", "30.0 IOPS")],
            "fio, O_DIRECT, overwrite, random data": [("Random write", "10.0 IOPS")],
        }

    def test_reads_and_writes_of_one_kind_share_a_line(self) -> None:
        write = {"phase": "rand_write", "data": "random", "write_mode": "new"}
        rows = [row(**write, o_direct=True), row(o_direct=True, ops_per_s=20.0)]
        (group,) = headline.groups(summarize(rows))
        assert group.title == "fio, O_DIRECT; writes: new files, random data"
        assert [entry.label for entry in group.entries] == ["Random write", "Random read"]

    def test_conditions_above_reads_and_writes(self) -> None:
        condition = titles.Conditions("ior", "new", "random", True)
        assert [titles.describe(condition, "data", drawn) for drawn in (["seq_read"], ["seq_write"], [])] == [
            "IOR, O_DIRECT", "IOR, O_DIRECT, new files, random data", "IOR, O_DIRECT, new files, random data",
        ]  # fmt: skip
        both = titles.describe(condition, "data", ["seq_read", "seq_write"])
        assert both == "IOR, O_DIRECT; writes: new files, random data"

    def test_the_best_of_layouts_and_interfaces_names_its_own(self) -> None:
        own = {"tool": "ior", "phase": "seq_read", "metric": "bandwidth_bytes_per_s", "o_direct": False}
        own |= {"threads_per_node": 4, "transfer_size_bytes": M, "collective": True}
        rows = [
            row(point="p", **own, file_per_process=True, api="POSIX", bandwidth_bytes_per_s=2.0 * G),
            row(point="q", **own, file_per_process=False, api="MPIIO", bandwidth_bytes_per_s=3.0 * G),
        ]
        for chosen, value, place in (
            (rows, "3.00 GiB/s", "4 ranks, 1 MiB, shared file, MPI-IO, collective calls"),
            (rows[:1], "2.00 GiB/s", "4 ranks, 1 MiB, file per process, POSIX"),
        ):
            (group,) = headline.groups(summarize(chosen))
            (entry,) = group.entries
            assert group.title == "IOR, through the page cache"
            assert (entry.value, entry.place) == (value, place)

    def test_tools_stand_apart(self) -> None:
        same = {"kind": "metadata", "phase": "create"}
        rows = [row(point="p", **same), row(point="q", tool="mdtest", **same, ops_per_s=1e6)]
        titles = [(group.title, group.entries[0].value) for group in headline.groups(summarize(rows))]
        assert titles == [
            ("fio metadata (filecreate, filestat, filedelete); not comparable with mdtest", "10.0 ops/s"),
            ("mdtest", "1.00 M ops/s"),
        ]

    def test_latency_is_the_lowest_at_the_lowest_queue_depth(self) -> None:
        rows = [
            row(point=str(i), queue_depth=depth, latency_mean_s=mean, latency_p99_s=3 * mean)
            for i, (depth, mean) in enumerate([(1, 90e-6), (1, 80e-6), (8, 10e-6)])
        ]
        ((_, latency),) = [group.entries for group in headline.groups(summarize(rows))]
        assert (latency.label, latency.value, latency.more) == ("Random read latency", "80.0 µs", "p99 240 µs")

    def test_latency_is_that_of_the_fewest_nodes(self) -> None:
        rows = [row(point=str(n), nodes=n, queue_depth=1, latency_mean_s=80e-6 / n) for n in (1, 4)]
        ((rate, latency),) = [group.entries for group in headline.groups(summarize(rows))]
        assert (latency.value, latency.place) == ("80.0 µs", "1 node, QD 1")
        assert (rate.more, rate.place) == ("", "1 node, QD 1")  # the first of equals

    def test_several_nodes_have_the_figure_of_each(self) -> None:
        rows = [row(point=str(n), nodes=n, threads_per_node=8, ops_per_s=8e4 * n**0.5) for n in (1, 4)]
        ((entry,),) = [group.entries for group in headline.groups(summarize(rows))]
        assert (entry.value, entry.more, entry.place) == ("160 k IOPS", "40.0 k IOPS per node", "4 nodes × 8 threads")
        ((entry,),) = [group.entries for group in headline.groups(summarize(rows[:1]))]
        assert (entry.more, entry.place) == ("", "8 threads")  # where there is one node only, it is not told

    @pytest.mark.parametrize("width", [80, 100])
    def test_several_nodes_fit_a_terminal(self, tmp_path: Path, width: int) -> None:
        own = factory.nodes(8)
        sweeps = [*factory.weka(), factory.ior(axes={"nodes": [1, 8]})]
        text = self.shown(factory.make(tmp_path, sweeps=sweeps, nodes=own, place=factory.in_turn(own)), width)
        assert max(map(len, text.splitlines())) <= width
        assert "demo on /mnt/scratch/bench, 8 nodes: node[01-08]" in text
        assert re.search(r"Sequential read +[\d.]+ GiB/s +8 nodes × 32 threads, 1", text)
        assert re.search(r"^ +[\d.]+ GiB/s per node  ", text, re.MULTILINE)

    @pytest.mark.parametrize("repetitions", [1, 2, 3])
    def test_table_fits_a_terminal(self, tmp_path: Path, repetitions: int) -> None:
        text = self.shown(
            factory.make(tmp_path, repetitions=repetitions, spoil=factory.spoil_some, campaign="[red]x[/red]")
        )
        assert max(map(len, text.splitlines())) <= 100
        assert "[red]x[/red] on /mnt/scratch/bench" in text  # names are not markup
        assert re.search(r"Sequential write +[\d.]+ GiB/s .* 1 MiB, QD 1 +● valid", text)
        n = repetitions
        planned = f"{21 * n} of {22 * n} repetitions measured: "
        assert planned + f"● {19 * n} valid   ○ {n} suspect   ✕ {n} invalid   – {n} missing   … 0 left" in text
        assert "not comparable with mdtest" in text

    def test_table_says_that_a_suite_was_scaled(self, tmp_path: Path) -> None:
        one = sweep("w", ["seq_read"], {"threads_per_node": [1, 2]}, suite="weka", scaled=True)
        text = self.shown(factory.make(tmp_path, sweeps=[one]))
        assert "The suite weka was scaled to fit; it does not compare with the published figures." in text

    def test_a_suite_that_was_scaled_in_part_names_its_sweeps(self) -> None:
        def sweeps(*scaled: str) -> list[SweepFacts]:
            return [sweep_facts(name=f"s.{name}", suite="s", scaled=name in scaled) for name in "abc"]

        compare = "compare with the published figures."
        assert headline.scaled(sweeps("a", "b", "c")) == [f"The suite s was scaled to fit; it does not {compare}"]
        assert headline.scaled(sweeps("b")) == [f"s.b of the suite s was scaled to fit; it does not {compare}"]
        assert headline.scaled(sweeps("a", "b")) == [
            f"s.a, s.b of the suite s were scaled to fit; they do not {compare}"
        ]
        assert headline.scaled(sweeps()) == []

    def test_open_repetitions_are_counted_on_the_screen(self, tmp_path: Path) -> None:
        results = factory.make(tmp_path, spoil=left_after_one)
        text = self.shown(results)
        assert "22 of 66 repetitions measured: ● 22 valid   ○ 0 suspect   ✕ 0 invalid   – 0 missing   … 44 left" in text
        assert "44 left: not measured yet" in text
        assert re.search(r"Sequential write +[\d.]+ GiB/s +1 of 3 repetitions +8 threads, 1 MiB, QD 1", text)
        assert headline.closing(results, "it's") == (
            "44 left of 66 repetitions: `iosweep check 'it'\"'\"'s'` lists the reasons and exits with 1"
        )
        html = page.render(results)
        assert "22 of 66 repetitions measured" in html
        assert '<b class="left">1 of 3 repetitions</b>' in html

    def test_the_last_line_counts_what_has_no_figure(self, tmp_path: Path) -> None:
        assert headline.closing(factory.make(tmp_path / "a"), "demo") == ""
        assert headline.closing(factory.make(tmp_path / "b", spoil=factory.spoil_some), "demo") == (
            "3 invalid and 3 missing of 66 repetitions: `iosweep check demo` lists the reasons and exits with 1"
        )

    def test_ior_and_mdtest_fit_a_terminal(self, tmp_path: Path) -> None:
        axes = {"nodes": [4], "file_per_process": [True, False]}
        sweeps = [factory.ior(api="MPIIO", o_direct=False, axes=axes), factory.mdtest(), *factory.DEMO]
        text = self.shown(factory.make(tmp_path, sweeps=sweeps))
        assert max(map(len, text.splitlines())) <= 100
        assert "4 nodes × 128 ranks" in text
        assert "Rename directories" in text

    def shown(self, results: Path, width: int = 100) -> str:
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(headline.table(results))
        return console.export_text()


class TestRemarks:
    def about(self, tmp_path: Path, fstype: str = "ext4", mount: str = "", **about: Any) -> list[str]:
        campaign = load(factory.make(tmp_path))
        rows = tuple(structs.replace(row, target_fstype=fstype) for row in campaign.rows)
        nodes = tuple(structs.replace(node, mount=mount) for node in campaign.nodes)
        return headline.remarks(
            replace(campaign, rows=rows, nodes=nodes, about=structs.replace(campaign.about, **about))
        )

    def test_a_storage_system_has_none(self, tmp_path: Path) -> None:
        assert self.about(tmp_path, "wekafs", "default on /mnt/weka type wekafs (rw)") == []
        assert self.about(tmp_path, "ext4", "/dev/sdb on /mnt/on / type type ext4 (rw)") == []

    @pytest.mark.parametrize("fstype", ["tmpfs", "ramfs"])
    def test_memory_is_no_storage(self, tmp_path: Path, fstype: str) -> None:
        [text] = self.about(tmp_path, fstype, f"{fstype} on / type {fstype} (rw)")
        assert f"is in memory ({fstype})" in text

    def test_the_system_disk(self, tmp_path: Path) -> None:
        [text] = self.about(tmp_path, "ext4", "/dev/vda1 on / type ext4 (rw)")
        assert "is on the root file system: these figures are of the system disk" in text

    def test_results_on_the_target(self, tmp_path: Path) -> None:
        [text] = self.about(tmp_path, results_on_target=True)
        assert text.startswith("The results are stored on the file system under test")

    def test_a_port_that_was_open(self, tmp_path: Path) -> None:
        campaign = load(factory.make(tmp_path))
        rows = tuple(structs.replace(r, parameters=r.parameters | {"client_server": True}) for r in campaign.rows)
        [text] = headline.remarks(replace(campaign, rows=rows))
        assert text.startswith("fio listened without authentication on a free port of each node's address while the")
        assert "could run commands as the user" in text
        missing = tuple(structs.replace(row, verdict="missing") for row in rows)
        assert headline.remarks(replace(campaign, rows=missing)) == []

    @pytest.mark.local
    def test_they_are_on_both_first_screens(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        in_memory = fs_types.of("tmpfs")
        monkeypatch.setattr(fs_types, "of", lambda _: in_memory)
        results = factory.make(tmp_path)
        assert "is in memory (ext4)" in " ".join(TestHeadline().shown(results).split())
        assert "is in memory (ext4)" in page.render(results)


class TestNames:
    def test_what_all_points_share_is_left_out(self) -> None:
        points = [f"fio.seq_write+3.1n.{t}t.{s}k.qd4.{t}{s}abcdef" for t in (1, 2) for s in (4, 64)]
        assert list(results_table.names(points).values()) == ["1t.4k", "1t.64k", "2t.4k", "2t.64k"]

    def test_the_hash_stays_where_nothing_else_differs(self) -> None:
        assert results_table.names(["fio.a.1n.x", "fio.a.1n.y", "fio.b.1n.z"]) == {
            "fio.a.1n.x": "a.x",
            "fio.a.1n.y": "a.y",
            "fio.b.1n.z": "b",
        }
        assert results_table.names(["fio.a.1n.x"]) == {"fio.a.1n.x": "fio.a.1n"}


class TestTable:
    def test_columns_are_those_that_vary(self, tmp_path: Path) -> None:
        results = results_of(tmp_path)
        assert results_table.varying(results) == ["threads_per_node", "transfer_size_bytes", "queue_depth"]
        assert results_table.constant(results)["metadata"] == (
            "1 node, 1000 files per thread, write mode new, filecreate"
        )

    def test_columns_of_ior_and_mdtest_are_those_that_vary(self, tmp_path: Path) -> None:
        axes = {"file_per_process": [True, False], "api": ["POSIX", "MPIIO"], "collective": [False, True]}
        sweeps = [
            sweep("layouts", ["seq_write", "seq_read"], axes, tool="ior", o_direct=False, data="random"),
            factory.mdtest("dirs", axes={"unique_directory": [True, False], "file_size": [0, 4 * K]}),
        ]
        results = results_of(tmp_path, sweeps=sweeps)
        assert results_table.varying(results) == [
            "file_size_bytes",
            *("file_per_process", "api", "collective", "unique_directory"),
        ]
        shown = results_table.payload(results, [])
        titles = {column.key: column.title for column in shown.columns}
        assert (titles["file_per_process"], titles["unique_directory"]) == ("file access", "directories")
        assert not [key for key in titles if "latency" in key]  # neither tool has any
        found = {key: {cells[i] for cells in shown.rows} for i, key in enumerate(titles)}
        assert found["file_per_process"] == {None, "file per process", "shared file"}
        assert found["api"] == {None, "POSIX", "MPI-IO"}
        assert found["collective"] == {None, "independent calls", "collective calls"}
        assert found["unique_directory"] == {None, "own directories", "shared directory"}
        assert found["tool"] == {"IOR", "mdtest"}

    def test_collective_calls_are_none_of_posix(self, tmp_path: Path) -> None:
        results = results_of(tmp_path, sweeps=[factory.ior()])
        assert results_table.constant(results) == {
            "data": "1 node, file size 16 GiB, O_DIRECT yes, fsync yes, write mode overwrite, random data,"
            " file per process, POSIX, phase time 60 s"
        }

    def test_what_does_not_vary_stands_by_tool(self, tmp_path: Path) -> None:
        sweeps = [factory.ior(), factory.mdtest("m", axes={"threads_per_node": [1, 2]}), *factory.DEMO]
        found = results_table.constant(results_of(tmp_path, sweeps=sweeps))
        assert list(found) == ["IOR data", "fio data", "mdtest metadata", "fio metadata"]
        assert "POSIX" in found["IOR data"]
        assert "POSIX" not in found["fio data"]
        assert found["mdtest metadata"] == "1 node, 1000 files per thread, own directories"

    def test_phases_of_a_point_stand_together(self, tmp_path: Path) -> None:
        campaign = load(factory.make(tmp_path, sweeps=[factory.mdtest(axes={"nodes": [1, 2]})]))
        found = results_table.ordered(summarize(campaign.rows), campaign.about.sweeps)
        assert [result.phase for result in found] == 2 * factory.MDTEST_PHASES

    def test_repetitions_of_ior_have_its_times(self, tmp_path: Path) -> None:
        (result, *_) = results_of(tmp_path, sweeps=[factory.ior(axes={"threads_per_node": [8]})])
        shown = results_table.payload([result], [])
        titles = [column.title for column in shown.repetition_columns]
        first = dict(zip(titles, shown.details[0].repetitions[0], strict=True))
        figures = result.rows[0].figures
        assert [first["open"], first["transfers"]] == [figures["open_s"], figures["io_s"]]
        assert first["close"] == pytest.approx(figures["close_s"], rel=1e-5)
        assert first["p99"] is None

    def test_rows_stand_by_sweep_and_parameters(self, tmp_path: Path) -> None:
        campaign = load(factory.make(tmp_path))
        found = results_table.ordered(reversed(summarize(campaign.rows)), campaign.about.sweeps)
        assert found == summarize(campaign.rows)  # the factory makes them in this order

    def test_checks_count_by_outcome(self, tmp_path: Path) -> None:
        campaign = load(factory.make(tmp_path, spoil=factory.spoil_some))
        found = {check.name: check for check in quality.summarize_checks(campaign.checks)}
        assert found["duration"].failed == (("0.91 s of 1 s", 12),)
        assert found["exclusive"].not_checked == (("exclusion is not enforced on one machine", 210),)
        assert next(iter(found)) == "duration"  # what failed stands first
        assert quality.not_checked(campaign.checks) == (630, 12 * 210 - 3 * 36)

    def test_whether_repetitions_agree_is_one_finding(self) -> None:
        """It is in the row of each of them; a reader of `10` would look for ten."""
        of_all = [
            factory.check(point=point, check="precise", severity="suspect", outcome=outcome, evidence=why, repetition=n)
            for point, outcome, why in (("p", "fail", "not repeatable"), ("q", "not checked", "too few"))
            for n in range(1, 11)
        ]
        others = [factory.check(check="duration", outcome="fail", evidence="short", repetition=n) for n in (1, 2)]
        found = {check.name: check for check in quality.summarize_checks([*of_all, *others])}
        assert found["precise"].counts == {"fail": 1, "not checked": 1}
        assert found["precise"].failed == (("not repeatable", 1),)
        assert found["duration"].counts == {"fail": 2}
        assert quality.not_checked([*of_all, *others]) == (1, 4)


class TestPage:
    def test_a_thousand_rows_stay_small(self, tmp_path: Path) -> None:
        results = factory.make(tmp_path, sweeps=factory.sized(1000))
        assert 900 <= len(load(results).rows) <= 1100
        assert len(page.render(results).encode()) <= 3_000_000

    def test_the_same_results_make_the_same_page(self, tmp_path: Path) -> None:
        results = factory.make(tmp_path)
        assert page.render(results) == page.render(results)

    def test_names_stay_text(self, tmp_path: Path) -> None:
        evil = "</script><script>alert(1)</script>"
        one = sweep("evil", ["seq_read"], {"threads_per_node": [1, 2]}, description=evil, suite=evil, scaled=True)
        files = factory.mdtest("files", axes={"nodes": [1, 2]}, description=evil)
        results = factory.make(
            tmp_path,
            sweeps=[one, files, *factory.weka()],
            campaign=evil,
            description=evil,
            spoil=lambda _: ("suspect", f"duration: {evil}"),
        )
        text = page.render(results)
        assert "<script>alert" not in text
        assert "<h1>&lt;/script&gt;" in text

    def test_no_section_is_empty(self, tmp_path: Path) -> None:
        without = page.render(factory.make(tmp_path / "fio"))
        assert 'id="metadata"' not in without
        assert 'id="weka"' not in without
        text = page.render(factory.make(tmp_path / "ior", sweeps=[factory.ior(axes={"threads_per_node": [1]})]))
        body = text[: text.index("<script")]
        assert "latency at the lowest" not in body
        fixed = sweep("fixed", ["seq_read"], {"threads_per_node": [1]}, tool="ior")
        text = page.render(factory.make(tmp_path / "fixed", sweeps=[fixed, fixed | {"name": "too"}]))
        assert 'class="sweep"' not in text
        assert "No axis varies that a figure could be drawn against: fixed, too." in text

    def test_tools_are_named_with_their_versions(self, tmp_path: Path) -> None:
        text = page.render(factory.make(tmp_path, sweeps=[factory.ior(), factory.mdtest(), *factory.DEMO]))
        assert "<span>IOR 4.0.0, mdtest 4.0.0, fio 3.33</span>" in text

    def test_policy_allows_nothing_from_elsewhere(self, tmp_path: Path) -> None:
        text = page.render(factory.make(tmp_path))
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy
        assert policy[1].startswith("default-src &#39;none&#39;;")
        assert "unsafe" not in policy[1]
        assert not re.search(r'(src|href)="(?!#|builds/[0-9a-f]{12}\.)', text[: text.index("<script")])

    def test_a_failure_leaves_the_page_that_was(self, tmp_path: Path) -> None:
        results = factory.make(tmp_path)
        before = page.write(results).read_text()
        (results / "campaign.json").write_text("{}")
        with pytest.raises(Damaged, match=r"campaign\.json is damaged"):
            page.write(results)
        assert (results / "report.html").read_text() == before
        assert not [path for path in results.iterdir() if path.name.startswith(".")]

    def test_nothing_merged(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"campaign\.json"):
            page.render(tmp_path)


@pytest.mark.local
def test_importing_the_report_is_quick() -> None:
    """The command line imports these modules; what is slow to import comes when it is needed."""
    heavy = "{'altair', 'vl_convert', 'pandas', 'pyarrow', 'scipy', 'jinja2', 'rich'}"
    code = f"import sys, iosweep.report.page, iosweep.report.figure_files; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
