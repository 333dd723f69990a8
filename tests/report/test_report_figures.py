"""Which figures there are, what is drawn together, and what is written as SVG and PNG."""

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.exceptions import ValidationError

import results_factory as factory
from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import statistics, summarize
from iosweep.analysis.data import load
from iosweep.report import captions, figure_files, figures, results_table, vega_lite
from iosweep.report.figures import Figure
from iosweep.results.statistics import interval
from iosweep.tools.fio import options as fio_options
from iosweep.tools.ior import options as ior_options
from iosweep.tools.mdtest import options as mdtest_options
from results_factory import DATA_PHASES, K, M, sweep


def figures_of(tmp_path: Path, **options: Any) -> list[Figure]:
    campaign = load(factory.make(tmp_path, **options))
    return figures.figures(campaign, summarize(campaign.rows))


class TestPlots:
    def test_the_demonstration(self, tmp_path: Path) -> None:
        assert [figure.name for figure in figures_of(tmp_path)] == [
            "throughput-by-threads.threads",
            "iops-by-threads.threads",
            "iops-by-queue-depth.queue-depth",
            "latency-by-queue-depth.queue-depth",
            "metadata-by-threads.metadata",
        ]

    def test_an_axis_that_does_not_vary_has_no_figure(self, tmp_path: Path) -> None:
        axes = {"threads_per_node": [4], "transfer_size": [4 * K]}
        assert figures_of(tmp_path, sweeps=[sweep("fixed", DATA_PHASES, axes)]) == []

    def test_conditions_are_never_mixed(self, tmp_path: Path) -> None:
        axes = {
            "threads_per_node": [1, 2],
            "o_direct": [True, False],
            "write_mode": ["new", "overwrite"],
            "data": ["random", "tool_default"],
        }
        campaign = load(factory.make(tmp_path, sweeps=[sweep("mixed", ["seq_write", "seq_read"], axes)]))
        results = summarize(campaign.rows)
        conditions = titles.conditions(results)
        found = figures.figures(campaign, results)
        assert len(found) == len({figure.name for figure in found}) == 8
        for figure in found:
            assert len({conditions[value.point] for value in figure.marks}) == 1
        assert "throughput-by-threads.mixed.write_mode-new.data-random.o_direct-false" in {f.name for f in found}

    def test_colors_follow_the_values(self, tmp_path: Path) -> None:
        axes = {"threads_per_node": [1, 2], "transfer_size": [M, 4 * K, 128 * K]}
        figure, _ = figures_of(tmp_path, sweeps=[sweep("s", ["seq_read"], axes)])
        assert figure.series == ("4 KiB", "128 KiB", "1 MiB")
        assert (figure.x_values, [panel.title for panel in figure.panels]) == ((1, 2), ["Sequential read"])

    def test_a_third_axis_makes_panels_and_a_figure_per_phase(self, tmp_path: Path) -> None:
        axes = {"threads_per_node": [1, 2], "transfer_size": [4 * K, M], "queue_depth": [1, 4, 16]}
        found = {figure.name: figure for figure in figures_of(tmp_path, sweeps=[sweep("s", DATA_PHASES, axes)])}
        # throughput and IOPS by threads, rates by queue depth, latencies by queue depth
        assert len(found) == 4 + 4 + 4 + 4
        figure = found["iops-by-threads.s.rand_read"]
        assert [panel.title for panel in figure.panels] == ["queue depth 1", "queue depth 4", "queue depth 16"]
        assert len({panel.ticks for panel in figure.panels}) == 1  # they compare at a glance

    def test_a_fourth_axis_makes_figures_of_its_own(self, tmp_path: Path) -> None:
        axes = {"nodes": [1, 2], "threads_per_node": [1, 2], "transfer_size": [4 * K, M], "queue_depth": [1, 4]}
        names = [figure.name for figure in figures_of(tmp_path, sweeps=[sweep("s", ["rand_read"], axes)])]
        assert {"iops-by-queue-depth.s.rand_read.nodes-1", "iops-by-queue-depth.s.rand_read.nodes-2"} <= set(names)

    def test_only_a_transfer_size_varies(self, tmp_path: Path) -> None:
        found = figures_of(tmp_path, sweeps=[sweep("s", ["seq_read"], {"transfer_size": [4 * K, M]})])
        assert [figure.name for figure in found] == ["throughput-by-transfer-size.s", "iops-by-transfer-size.s"]
        assert {figure.x_title for figure in found} == {"transfer size"}

    def test_ior_as_in_the_lustre_notes(self, tmp_path: Path) -> None:
        """Throughput and IOPS against threads, a line for each transfer size, for every phase; no latencies."""
        campaign = load(factory.make(tmp_path, sweeps=[factory.ior("lustre")]))
        results = {(result.point, result.phase): result for result in summarize(campaign.rows)}
        found = figures.figures(campaign, list(results.values()))
        assert [(figure.name, figure.title) for figure in found] == [
            ("throughput-by-threads.lustre", "Throughput against threads per node"),
            ("iops-by-threads.lustre", "IOPS against threads per node"),
        ]
        phases = ["Sequential write", "Sequential read", "Random write", "Random read"]
        units = ({"GiB/s": 2.0**30}, {"k IOPS": 1e3, "IOPS": 1.0})
        for figure, column, sizes in zip(found, ("bandwidth_bytes_per_s", "ops_per_s"), units, strict=True):
            assert [panel.title for panel in figure.panels] == phases
            assert (figure.x_values, figure.series) == ((1, 8, 16, 32, 64, 128), ("128 KiB", "1 MiB", "16 MiB"))
            assert figure.subtitle == (
                "IOR, O_DIRECT; writes: overwrite, random data; 1 node; file size 16 GiB; file per process; POSIX"
            )
            assert len(figure.marks) == 4 * 6 * 3
            for value in figure.marks:
                result = results[value.point, DATA_PHASES[value.panel]]
                unit = sizes[figure.panels[value.panel].unit]
                assert value.y * unit == pytest.approx(result.statistics[column].mean)
                assert value.x == result.parameters["threads_per_node"]
                assert value.series == formats.size(result.parameters["transfer_size_bytes"])

    def test_one_transfer_size_has_each_phases_own_figure(self, tmp_path: Path) -> None:
        one = sweep("s", DATA_PHASES, {"threads_per_node": [1, 2]}, tool="ior", data="random")
        (figure,) = figures_of(tmp_path, sweeps=[one])
        assert [panel.quantity for panel in figure.panels] == ["throughput", "throughput", "IOPS", "IOPS"]

    def test_layouts_and_interfaces_of_ior_are_told_apart(self, tmp_path: Path) -> None:
        axes = {"threads_per_node": [1, 2], "api": ["POSIX", "MPIIO"], "file_per_process": [True, False]}
        one = sweep("s", ["seq_write"], axes, tool="ior", o_direct=False)
        (figure,) = figures_of(tmp_path, sweeps=[one])
        assert (figure.series_title, figure.series) == ("file access", ("shared file", "file per process"))
        assert [panel.title for panel in figure.panels] == ["MPI-IO", "POSIX"]

    @pytest.mark.parametrize(
        ("tool", "name"),
        [
            (tool, name)
            for tool, own in (("fio", fio_options), ("ior", ior_options), ("mdtest", mdtest_options))
            for name in own.OPTIONS
        ],
    )
    def test_every_axis_has_a_place(self, tmp_path: Path, tool: str, name: str) -> None:
        """No two points of a sweep share a place in a figure, whatever varies, and every axis has a title."""
        tables = {"fio": fio_options, "ior": ior_options, "mdtest": mdtest_options}[tool]
        option = tables.OPTIONS[name]
        kind = "data" if "data" in option.kinds else "metadata"
        some = {"flag": [False, True], "choice": list(option.choices), "size": [4 * K, M], "count": [2, 4]}[option.kind]
        if option.minimum == 0:
            some = [0, *some]
        other = "nodes" if name == "threads_per_node" else "threads_per_node"
        phases = [phase.name for phase in tables.PHASES.values() if phase.kind == kind]
        # collective calls have an effect with MPI-IO alone
        one = sweep("s", phases, {other: [1, 2], name: some}, tool=tool, api="MPIIO")
        campaign = load(factory.make(tmp_path, sweeps=[one], repetitions=1))
        results = summarize(campaign.rows)
        found = figures.figures(campaign, results)
        drawn = set()
        for figure in found:
            places = [(v.panel, v.x, v.series, v.measure) for v in figure.marks]
            assert len(set(places)) == len(places)
            drawn |= {value.point for value in figure.marks}
        assert drawn == {result.point for result in results}
        assert option.column in results_table.varying(results)

    def test_empty_files_have_a_place_on_the_axis(self, tmp_path: Path) -> None:
        results = factory.make(tmp_path, sweeps=[factory.mdtest("s", axes={"file_size": [0, 4 * K, 64 * K]})])
        campaign = load(results)
        (figure,) = figures.figures(campaign, summarize(campaign.rows))
        assert figure.x_values == (0, 4 * K, 64 * K)
        scale = vega_lite.specification(figure)["concat"][0]["encoding"]["x"]["scale"]
        assert scale["type"] == "symlog"  # a logarithmic one has no zero
        assert scale["domain"][0] < 0
        assert [path.name for path in figure_files.export(results)] == [
            "metadata-by-file-size.s.svg", "metadata-by-file-size.s.png",
        ]  # fmt: skip

    def test_metadata_of_mdtest_against_nodes(self, tmp_path: Path) -> None:
        (figure,) = figures_of(tmp_path, sweeps=[factory.mdtest("s")])
        assert (figure.name, figure.title) == ("metadata-by-nodes.s", "Metadata rates against nodes")
        assert [panel.title for panel in figure.panels] == [titles.phase(phase) for phase in factory.MDTEST_PHASES]
        assert figure.subtitle == ("mdtest; 32 threads per node; empty files; 1000 files per thread; own directories")

    def test_a_figure_against_nodes_tells_which(self, tmp_path: Path) -> None:
        """Each count got nodes of its own; those of the count of 2 are among the largest count's, that of 1 is not."""
        own = factory.nodes(5)
        place = factory.per_node_count({1: own[4:], 2: own[1:3], 4: own[:4]})
        one = sweep("s", ["seq_read"], {"nodes": [1, 2, 4], "transfer_size": [64 * K, M]})
        throughput, _ = figures_of(tmp_path, sweeps=[one], nodes=own, place=place)
        assert throughput.notes[1] == (
            "Diamonds: 2 results of nodes that the largest count did not have (node05), so that a difference may be"
            " the nodes'."
        )
        told = {v.x: v for v in throughput.marks if v.series == "1 MiB"}
        assert [(x, v.apart, v.where) for x, v in told.items()] == [
            (1, True, "on node05, not all among the 4 nodes"),
            (2, False, "on node02, node03, among the 4 nodes"),
            (4, False, "on node[01-04]"),
        ]
        share = told[4].y / told[1].y / 4
        assert (told[1].scaling, told[4].scaling) == ("", f"{100 * share:.0f} % of 4 × 1 node")
        layers = vega_lite.specification(throughput)["concat"][0]["layer"]
        assert layers[2]["encoding"]["shape"]["condition"] == {"test": "datum.apart", "value": "diamond"}
        assert {"scaling", "where"} <= {field["field"] for field in layers[2]["encoding"]["tooltip"]}

    def test_nodes_of_one_allocation_are_the_same(self, tmp_path: Path) -> None:
        own = factory.nodes(4)
        one = sweep("s", ["seq_read"], {"nodes": [1, 2, 4]})
        (figure,) = figures_of(tmp_path, sweeps=[one], nodes=own, place=factory.in_turn(own))
        assert "Same nodes: smaller counts ran on nodes of the largest one." in figure.notes
        assert not any(value.apart for value in figure.marks)
        assert figure.marks[0].where == "on node01, node02, node03 in turn, among the 4 nodes"

    def test_other_figures_tell_no_nodes(self, tmp_path: Path) -> None:
        own = factory.nodes(2)
        one = sweep("s", ["seq_read"], {"nodes": [2], "threads_per_node": [1, 2]})
        (figure,) = figures_of(tmp_path, sweeps=[one], nodes=own, place=factory.in_turn(own))
        assert figure.marks[0].where is None
        assert "shape" not in vega_lite.specification(figure)["concat"][0]["layer"][2]["encoding"]

    @pytest.mark.parametrize("repetitions", [2, 3, 5])
    @pytest.mark.parametrize("factor", [1.2, 1.319, 100.0])
    def test_a_point_that_scatters_does_not_press_the_others_flat(
        self, tmp_path: Path, repetitions: int, factor: float
    ) -> None:
        """A bar that is cut says so."""

        def speed(row: Mapping[str, Any]) -> float:
            return float(factor ** (row["repetition"] % 3 - 1) if row["threads_per_node"] == 8 else 1.0)

        one = sweep("s", ["seq_read"], {"threads_per_node": [1, 2, 4, 8]})
        campaign = load(factory.make(tmp_path, sweeps=[one], repetitions=repetitions, speed=speed))
        results = summarize(campaign.rows)
        (figure,) = figures.figures(campaign, results)
        highest = max(value for mark in figure.marks for value in mark.each)
        top = figure.panels[0].ticks[-1]
        assert top <= figures.linear_ticks(figures._ROOM * highest)[-1]
        assert all(mark.high <= top for mark in figure.marks)
        cut = [mark.x for mark in figure.marks if mark.cut]
        assert cut == ([8] if (repetitions, factor) == (3, 1.319) else [])
        assert (captions.CUT in figure.notes) == bool(cut)
        layers = vega_lite.specification(figure)["concat"][0]["layer"]
        assert len(layers) == (6 if cut else 5)

    @pytest.mark.parametrize(("repetitions", "note"), [(1, "none"), (2, "range"), (3, "ci95")])
    def test_error_bars(self, tmp_path: Path, repetitions: int, note: str) -> None:
        (figure,) = figures_of(
            tmp_path, sweeps=[sweep("s", ["seq_read"], {"threads_per_node": [1, 2]})], repetitions=repetitions
        )
        assert captions.BARS[note] in figure.notes
        assert all((value.low < value.high) == (repetitions > 1) for value in figure.marks)
        assert all(value.low <= value.y <= value.high for value in figure.marks)

    def test_an_interval_wider_than_the_figure_says_nothing(self) -> None:
        wide, narrow = (statistics(v, interval(v)) for v in ([10.0, 10.0, 100.0], [10.0, 10.1, 10.2]))
        assert formats.spread(wide, formats.IOPS) == "not repeatable: 10.0 to 100 IOPS (n = 3)"
        assert formats.spread(narrow, formats.IOPS) == "± 2.5 % (95 % CI, n = 3)"

    def test_what_is_not_drawn_is_said_and_breaks_the_line(self, tmp_path: Path) -> None:
        def spoil(found: Mapping[str, Any]) -> tuple[str, str] | None:
            verdicts = {2: ("invalid", "errors: 3"), 4: ("suspect", "short"), 8: ("missing", "time limit")}
            return verdicts.get(found["threads_per_node"])

        axes = {"threads_per_node": [1, 2, 4, 8]}
        (figure,) = figures_of(tmp_path, sweeps=[sweep("s", ["seq_read"], axes)], spoil=spoil)
        assert [(v.x, v.verdict, v.y is None) for v in figure.marks] == [
            (1, "valid", False), (2, "invalid", True), (4, "suspect", False), (8, "missing", True),
        ]  # fmt: skip
        assert figure.notes[1:] == (
            "Hollow: 1 not valid (short).",
            "Not drawn: 1 invalid (errors: 3).",
            "Not drawn: 1 missing (time limit).",
        )

    def test_nothing_measured_leaves_the_reason(self, tmp_path: Path) -> None:
        found = figures_of(tmp_path, spoil=lambda _: ("missing", "fio is not installed"))
        assert [figure.panels for figure in found] == [(), (), ()]
        assert all("fio is not installed" in figure.notes[0] for figure in found)

    def test_a_shared_point_is_in_both_sweeps(self, tmp_path: Path) -> None:
        both = [sweep(name, ["seq_read"], {"threads_per_node": [1, 2, top]}) for name, top in (("a", 4), ("b", 8))]
        first, second = figures_of(tmp_path, sweeps=both)
        assert (first.x_values, second.x_values) == ((1, 2, 4), (1, 2, 8))
        assert len({value.point for figure in (first, second) for value in figure.marks}) == 4

    def test_names_fit_a_file_system_and_differ(self, tmp_path: Path) -> None:
        names = ["x-x", "X-X", "a" * 199, "a" * 200]
        found = figures_of(tmp_path, sweeps=[sweep(n, ["seq_read"], {"threads_per_node": [1, 2]}) for n in names])
        assert len({figure.name.lower() for figure in found}) == 4
        assert all(re.fullmatch(r"[\w.-]{1,150}", figure.name) for figure in found)

    def test_latencies_far_apart_get_a_logarithmic_axis(self, tmp_path: Path) -> None:
        axes = {"queue_depth": [1, 64], "transfer_size": [4 * K, 16 * M]}
        found = {f.name: f for f in figures_of(tmp_path, sweeps=[sweep("s", ["rand_read"], axes)])}
        (latency,), (rate,) = (found[f"{what}-by-queue-depth.s"].panels for what in ("latency", "iops"))
        assert latency.log
        assert latency.ticks[0] > 0
        assert (rate.log, rate.ticks[0]) == (False, 0)

    @given(st.floats(1e-9, 1e12))
    def test_ticks_are_round_few_and_reach_the_top(self, largest: float) -> None:
        ticks = figures.linear_ticks(largest)
        assert ticks[0] == 0
        assert ticks[-1] >= largest * (1 - 1e-9)
        assert 3 <= len(ticks) <= 6


def png_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Types and contents of a PNG file's chunks."""
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


class TestExport:
    def test_every_figure_as_svg_and_png(self, tmp_path: Path) -> None:
        results = factory.make(tmp_path, sweeps=factory.DEMO[1:], spoil=factory.spoil_some)
        folder = results / "figures"
        folder.mkdir()
        gone, foreign = (folder / f"{name}.svg" for name in ("gone", "foreign"))
        for path in (gone, foreign):
            path.write_text(path.name)
        (folder / "names").write_text("gone.svg\n../campaign.json\nforeign.txt\n")
        written = figure_files.export(results)
        names = [
            "iops-by-queue-depth.queue-depth",
            "latency-by-queue-depth.queue-depth",
            "metadata-by-threads.metadata",
        ]
        assert [path.name for path in written] == [f"{name}.{suffix}" for name in names for suffix in ("svg", "png")]
        assert set(folder.iterdir()) == {*written, foreign, folder / "names"}
        assert (results / "campaign.json").exists()
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in written if path.suffix == ".png")
        svg = written[0].read_text()
        assert "IOPS against queue depth" in svg
        assert "Not drawn: 2 missing (time limit: 2 points were not started)." in svg

    def test_figures_of_an_earlier_call_go_although_snakemake_removes_the_marker(self, tmp_path: Path) -> None:
        results = factory.make(tmp_path, sweeps=factory.DEMO[1:2])
        earlier = figure_files.export(results)
        (results / "figures.done").unlink()
        factory.make(tmp_path, sweeps=factory.DEMO[2:3])
        written = figure_files.export(results)
        assert earlier and written and not {*earlier} & {*written}
        assert {*(results / "figures").iterdir()} == {*written, results / "figures" / "names"}
        assert (results / "figures.done").exists()

    def test_files_say_where_they_are_from(self, tmp_path: Path) -> None:
        """In the image, for whoever sees it on a slide, and as metadata."""
        own = sweep("a", ["rand_read"], {"transfer_size": [4 * K, 8 * K]})
        origin = "Campaign <a> & b on /mnt/scratch/bench (ext4), measured 2025-06-02 (UTC)."
        svg, png = figure_files.export(factory.make(tmp_path, sweeps=[own], campaign="<a> & b"))[-2:]
        root = ElementTree.parse(svg).getroot()  # noqa: S314
        texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert origin in " ".join(texts)
        assert (root[0].text, (root[1].text or "")[-len(origin) :]) == ("IOPS against transfer size", origin)
        chunks = list(png_chunks(png.read_bytes()))
        assert [kind for kind, _ in chunks][:4] == [b"IHDR", b"iTXt", b"iTXt", b"iTXt"]
        assert chunks[-1][0] == b"IEND"
        assert b"Source\0\0\0\0\0" + origin.encode() in [content for _, content in chunks]

    def test_long_notes_do_not_make_an_image_wide(self, tmp_path: Path) -> None:
        axes = {"threads_per_node": [1, 2]}
        long = factory.make(tmp_path / "a", sweeps=[sweep("a", ["rand_read"], axes)], campaign="long " * 60)
        short = factory.make(tmp_path / "b", sweeps=[sweep("a", ["rand_read"], axes)])
        wide, narrow = (
            float(ElementTree.parse(figure_files.export(results)[0]).getroot().attrib["width"])  # noqa: S314
            for results in (long, short)
        )
        assert wide <= 1.6 * narrow

    def test_a_static_figure_is_nothing_but_a_drawing(self) -> None:
        evil = (
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" class="x">'
            '<script>alert(1)</script><a xlink:href="http://x"><text>y</text></a><image href="http://x"/>'
            '<g onclick="alert(2)" style="fill:red" aria-label="1"><text fill="red">&lt;b&gt;</text></g></svg>'
        )
        assert figure_files.bare(evil, 'a"b') == (
            '<svg role="img" aria-label="a&quot;b"><g><text fill="red">&lt;b&gt;</text></g></svg>'
        )

    def test_static_figures_have_a_limit(self, tmp_path: Path) -> None:
        campaign = load(factory.make(tmp_path))
        drawn = [f for f in figures.figures(campaign, summarize(campaign.rows)) if f.panels]
        pairs = [(figure, vega_lite.specification(figure)) for figure in drawn]
        assert list(figure_files.static(pairs, 2, 10**6)) == [figure.name for figure in drawn[:2]]
        assert figure_files.static(pairs, 1, 1000) == {}

    def test_figures_are_what_the_schema_of_vega_lite_allows(self, tmp_path: Path) -> None:
        campaign = load(factory.make(tmp_path, sweeps=[*factory.DEMO, factory.mdtest()], spoil=factory.spoil_some))
        for figure in (f for f in figures.figures(campaign, summarize(campaign.rows)) if f.panels):
            made = vega_lite.with_values(figure)
            alt.ConcatChart.from_dict(made)
            made["concat"][0]["layer"][1]["mark"]["strokeWidth"] = "wide"
            with pytest.raises(ValidationError):
                alt.ConcatChart.from_dict(made)

    def test_nothing_to_draw(self, tmp_path: Path) -> None:
        assert figure_files.export(factory.make(tmp_path, spoil=lambda _: ("missing", "no fio"))) == []

    def test_palette_is_ordered_and_distinct(self) -> None:
        assert len(vega_lite.palette(1)) == 1
        for count in (2, 5, 14):
            colors = vega_lite.palette(count)
            light = [sum(int(color[i : i + 2], 16) for i in (1, 3, 5)) for color in colors]
            assert len(set(colors)) == count
            assert light[0] == min(light)


@pytest.mark.local
def test_control_characters_do_not_end_the_converter(tmp_path: Path) -> None:
    evil = sweep("a", ["rand_read"], {"queue_depth": [1, 4]}, description="\x1b]0;\x9b")
    figure_files.export(factory.make(tmp_path, sweeps=[evil], campaign="\x1b]0;\x9b"))
