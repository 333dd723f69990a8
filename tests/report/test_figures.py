"""Which figures there are, what is drawn together, what is said below them, and what is written as SVG and PNG."""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import dist
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import results_factory as factory
from iosweep.analysis import formats
from iosweep.report import drawing, figures, page, results_table
from iosweep.report.figures import Figure
from iosweep.tools import tools
from results_factory import K, M, sweep

THREADS = {"threads_per_node": [1, 2, 4]}


def figures_of(*sweeps: factory.Sweep, **options: Any) -> dict[str, Figure]:
    found = figures.figures(*factory.measured(*sweeps, **options))
    assert len({figure.name for figure in found}) == len(found)
    return {figure.name: figure for figure in found}


def one_of(axes: Mapping[str, Sequence[Any]] = THREADS, **options: Any) -> Figure:
    """The first figure of sequential reads over these axes."""
    return next(iter(figures_of(sweep("s", ["seq_read"], axes), **options).values()))


class TestWhichFiguresThereAre:
    def test_conditions_are_never_mixed_in_one(self) -> None:
        axes = {
            "threads_per_node": [1, 2, 4],
            "o_direct": [True, False],
            "write_mode": ["new", "overwrite"],
            "data": ["random", "tool_default"],
        }
        campaign, results = factory.measured(sweep("mixed", ["seq_write", "seq_read"], axes, tool="ior"), repetitions=1)
        conditions = formats.conditions(results)
        found = figures.figures(campaign, results)
        assert len(found) == len({figure.name for figure in found}) == 8
        for figure in found:
            assert len({conditions[mark.point] for mark in figure.marks if mark.point}) == 1
        assert "throughput-by-threads.mixed.write_mode-new.data-random.o_direct-false" in {f.name for f in found}

    def test_lines_follow_the_values_and_each_value_of_a_third_axis_has_figures_of_its_own(self) -> None:
        axes = {"threads_per_node": [1, 2], "transfer_size": [M, 4 * K, 128 * K]}
        figure = one_of(axes)
        assert figure.series == ("4 KiB", "128 KiB", "1 MiB")
        assert ([*figure.panels[0].x.labels], [panel.title for panel in figure.panels]) == ([1, 2], ["Sequential read"])
        axes = {"threads_per_node": [1, 2], "transfer_size": [4 * K, M], "queue_depth": [1, 4, 16]}
        found = figures_of(sweep("s", ["seq_read", "rand_read"], axes), repetitions=1)
        # throughput and IOPS by threads at each depth, rates and latencies by queue depth at each number of threads
        assert len(found) == 2 * 3 + 2 * 2
        assert "queue depth 16" in found["iops-by-threads.s.queue_depth-16"].subtitle

    def test_latency_is_drawn_once_against_the_rate_over_the_axis_of_load(self) -> None:
        axes = {"nodes": [1, 2], "threads_per_node": [1, 8], "queue_depth": [1, 4, 16]}
        found = figures_of(sweep("s", ["rand_read"], axes))
        curves = [figure for figure in found.values() if figure.shape == "curve"]
        assert [figure.name for figure in curves] == [f"latency-by-iops.s.nodes-{n}" for n in (1, 2)]
        marks = [mark for mark in curves[0].marks if mark.series == "8"]
        assert [(m.at, m.label) for m in marks if m.measure == "p99"] == [(1, "1"), (4, "4"), (16, "16")]
        assert [m.label for m in marks if m.measure == "mean"] == [None] * 3
        assert [mark.x for mark in marks] == sorted(mark.x for mark in marks if mark.x)
        many = figures_of(sweep("s", ["rand_read"], {"threads_per_node": range(1, 34)}))
        assert [*many] == ["iops-by-threads.s"]  # so many labels cannot be read

    def test_more_than_four_lines_are_a_heat_map_and_two_points_are_no_line(self) -> None:
        depths = {"queue_depth": [1, 2, 4, 8, 16]}
        found = figures_of(sweep("s", ["rand_read"], {"nodes": [1, 2, 3], **depths}))
        assert {name: figure.shape for name, figure in found.items()} == {
            "iops-by-nodes.s": "map",
            "efficiency-by-nodes.s": "lines",
            "iops-by-queue-depth.s": "lines",
            "latency-by-iops.s": "curve",
        }
        # where nodes vary, efficiency needs three counts: of two, a sentence says as much
        found = figures_of(sweep("s", ["rand_read"], {"nodes": [1, 2], **depths}))
        assert [*found] == ["iops-by-nodes.s", "iops-by-queue-depth.s", "latency-by-iops.s"]
        assert figures_of(sweep("s", ["rand_read"], {"nodes": [1, 8]})) == {}

    def test_nodes_stand_against_each_other_and_the_slow_one_is_named(self) -> None:
        def speed(row: Mapping[str, Any]) -> float:
            return 0.7 if row["hosts"] == "node04" else 1.0

        (figure,) = figures_of(*factory.node_check(), nodes=factory.nodes(6), speed=speed).values()
        named = [(mark.label, mark.series) for mark in figure.marks if mark.label]
        assert (len(figure.marks), named) == (6 * 4, [("node04", test) for test in figure.series])
        assert "70 % of the nodes' median (node04, " in figure.alternative

    @pytest.mark.parametrize("tool", ["fio", "ior", "mdtest"])
    def test_no_two_points_share_a_place_whatever_varies_and_every_axis_has_a_title(self, tool: str) -> None:
        for name, option in tools()[tool].options.items():
            kind = "data" if "data" in option.kinds else "metadata"
            some = {"flag": [False, True], "choice": [*option.choices], "size": [4 * K, M, 2 * M], "count": [2, 4, 8]}
            values = ([0] if option.minimum == 0 else []) + some[option.kind]
            other = "nodes" if name == "threads_per_node" else "threads_per_node"
            phase = "create" if kind == "metadata" else "rand_mixed" if name == "read_percent" else "seq_write"
            # collective calls have an effect with MPI-IO alone
            one = sweep("s", [phase], {other: [1, 2, 3], name: values}, tool=tool, api="MPIIO")
            campaign, results = factory.measured(one, repetitions=1)
            drawn = set()
            for figure in figures.figures(campaign, results):
                if figure.name.startswith("efficiency"):  # its marks are ratios of points
                    continue
                places = [(mark.panel, mark.x, mark.series, mark.measure) for mark in figure.marks]
                assert len(set(places)) == len(places), name
                drawn |= {mark.point for mark in figure.marks}
            assert drawn == {result.point for result in results}, name
            assert option.column in results_table.find_varying(results), name

    def test_empty_files_have_a_place_on_an_axis_that_has_no_logarithm_of_zero(self) -> None:
        (figure,) = figures_of(factory.mdtest("s", axes={"file_size": [0, 4 * K, 64 * K]})).values()
        x = drawing.specification(figure)["concat"][0]["encoding"]["x"]
        assert (x["type"], '"0": "0 B"' in x["axis"]["labelExpr"]) == ("ordinal", True)


class TestWhatAFigureShows:
    def test_a_figure_of_scaling_tells_on_which_nodes_and_which_of_the_smallest_took_no_part(self) -> None:
        own, axes = factory.nodes(5), {"nodes": [1, 2, 4]}
        of = {1: own[:1], 2: own[1:3], 4: own[:4]}
        place = {"nodes": own, "place": lambda count, _: (str(100 + count), of[count])}
        figure = figures_of(sweep("s", ["seq_read"], axes), **place)["efficiency-by-nodes.s"]
        assert [(mark.x, mark.where) for mark in figure.marks] == [
            (1, "on node01"), (2, "on node02, node03"), (4, "on node[01-04]"),
        ]  # fmt: skip
        assert "Not in all larger counts: node01 of the smallest." in figure.notes

    @pytest.mark.parametrize("factor", [1.1, 1.2, 100.0])
    def test_every_bar_and_dot_is_on_the_axis(self, factor: float) -> None:
        def speed(row: Mapping[str, Any]) -> float:
            return float(factor ** (row["repetition"] % 3 - 1) if row["threads_per_node"] == 8 else 1.0)

        figure = one_of({"threads_per_node": [1, 2, 4, 8]}, repetitions=3, speed=speed)
        ends = [end for mark in figure.marks for end in (mark.high, *(mark.each or ())) if end is not None]
        assert max(ends) <= figure.panels[0].y.ends[1]
        last = figure.marks[-1]
        assert last.high and last.y and last.high <= max(1.5 * last.y, *(last.each or ()))

    @pytest.mark.parametrize(("repetitions", "note"), [(1, "none"), (2, "range"), (3, "ci95")])
    def test_error_bars_are_what_the_note_says(self, repetitions: int, note: str) -> None:
        campaign, results = factory.measured(sweep("s", ["seq_read"], THREADS), repetitions=repetitions)
        figure = figures.figures(campaign, results)[0]
        assert figures.BARS[note] in figure.notes[0]
        unit = {"MiB/s": M, "GiB/s": 2**30}[figure.panels[0].y.title]
        for mark, result in zip(figure.marks, results, strict=True):
            assert mark.low is not None and mark.y is not None and mark.high is not None and result.headline
            own = result.headline.interval if note == "ci95" else result.headline
            assert own is not None
            assert [mark.low * unit, mark.high * unit] == pytest.approx([own.low, own.high])
            assert mark.low - 1e-9 <= mark.y <= mark.high + 1e-9
            assert (mark.low < mark.high) == (repetitions > 1)

    def test_what_is_not_valid_is_hollow_or_not_drawn_and_breaks_the_line(self) -> None:
        def spoil(found: Mapping[str, Any]) -> tuple[str, str] | None:
            verdicts = {2: ("invalid", "errors: 3"), 4: ("suspect", "short"), 8: ("missing", "time limit")}
            return verdicts.get(found["threads_per_node"])

        figure = one_of({"threads_per_node": [1, 2, 4, 8]}, spoil=spoil)
        assert [(mark.x, mark.verdict, mark.y is None) for mark in figure.marks] == [
            (1, "valid", False), (2, "invalid", True), (4, "suspect", False), (8, "missing", True),
        ]  # fmt: skip
        assert figure.notes[1:] == ("Hollow: 1 of 2 results suspect.", "Not drawn: 1 invalid, 1 missing.")
        assert figure.alternative.startswith("Throughput against threads per node. Sequential read: lowest ")

    def test_no_line_has_the_color_of_a_verdict(self) -> None:
        style = page.read("page.css")
        verdicts = re.findall(r"--(?:valid|suspect|invalid|missing|left)(?:-fill)?: (#\w{6})", style)
        assert len(verdicts) > 10
        colors = [color for count in range(1, 9) for color in drawing.palette(count)]
        for color, verdict in product([*colors, *re.findall(r"(?:--series|\.c\d { color): (#\w{6})", style)], verdicts):
            assert dist(*([int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in (color, verdict))) > 45, color


class TestFiles:
    def test_figures_of_an_earlier_call_go_and_files_of_others_stay(self, tmp_path: Path) -> None:
        folder = tmp_path / "figures"
        factory.make(tmp_path, [sweep("one", ["seq_read"], THREADS, tool="ior")])
        drawing.export(tmp_path)
        foreign = folder / "foreign.svg"
        foreign.touch()
        (tmp_path / "figures.done").unlink()  # as Snakemake does before the rule
        factory.make(tmp_path, [sweep("two", ["seq_read"], THREADS, tool="ior")])
        written = drawing.export(tmp_path)
        names_of_two = [f"throughput-by-threads.two.{suffix}" for suffix in ("svg", "png")]
        assert [path.name for path in written] == names_of_two
        assert set(folder.iterdir()) == {*written, foreign}
        assert (tmp_path / "campaign.json").exists()
        assert (tmp_path / "figures.done").exists()

    def test_files_say_where_they_are_from_as_text_of_the_image(self, tmp_path: Path) -> None:
        own = sweep("a", ["rand_read"], {"queue_depth": [1, 4, 16]})
        svg, _ = drawing.export(factory.make(tmp_path, [own], campaign="<a> & b " + "long " * 60))[-2:]
        root = ElementTree.parse(svg).getroot()  # noqa: S314
        texts = " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))
        assert "Campaign <a> & b long" in texts
        assert float(root.attrib["width"]) < 800  # long notes do not make an image wide
