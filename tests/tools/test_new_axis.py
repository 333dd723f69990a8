"""An axis is one entry: a tool folder with an axis of its own changes no other file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import results_factory
import tool_folders
from campaign import Allocation
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import load
from iosweep.commands import generate
from iosweep.config import models
from iosweep.report import figures, results_table, vega_lite
from iosweep.results import columns
from iosweep.results.columns import result_columns
from iosweep.tools import Step, tools

#: The folder of the tool in benchmarks/ that does nothing, with an axis that its command line gets.
NOOP = Path(__file__).resolve().parents[2] / "benchmarks/tools/noop/__init__.py"
AXIS = """Option("think_time", "count", 4, "Pause between two I/Os.", "ms", role="x", id_form="{}ms"),"""
SWEEP = {
    "name": "s",
    "tool": "thinker",
    "phases": ["idle"],
    "axes": {"think_time": [1, 8], "threads_per_node": [1, 2]},
    "phase_time": "1s",
    "repetitions": 1,
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    text = NOOP.read_text()
    for old, new in (
        ('Option("number", "count", 1, "Tells points apart."),', AXIS),
        ('return ["true"]', 'return ["true", f"--think={step.number(\'think_time\')}"]'),
        ('name = "noop"', 'name = "thinker"'),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "tools/thinker").mkdir(parents=True)
    (tmp_path / "tools/thinker/__init__.py").write_text(text)
    with tool_folders.added(tmp_path / "tools"):
        yield tmp_path / "tools"
    sys.modules.pop("iosweep.tools.thinker", None)


def test_plan_and_argv(tmp_path: Path, folder: Path) -> None:
    points = Allocation(tmp_path, SWEEP).plan.points
    assert {point.options["think_time"] for point in points} == {1, 8}
    assert {point.id.rpartition(".")[0] for point in points} == {
        f"thinker.idle.1n.{threads}t.4k.{time}ms" for threads in (1, 2) for time in (1, 8)
    }
    tool = tools()["thinker"]
    step = Step(points[0].options, (tool.phases["idle"],))
    assert tool.argv(step, "/d", 1) == ["true", f"--think={points[0].options['think_time']}"]


def test_generated_documents(folder: Path) -> None:
    row = "| `think_time` | whole number from 1 | 4 | Pause between two I/Os. | all |"
    assert row in generate._options(tools()["thinker"])
    assert "| `think_time` | int | thinker: Pause between two I/Os. |" in columns.markdown()
    assert '"ThinkerAxes"' in generate.schema(models.campaign_model(), "")


def test_table_and_figures(tmp_path: Path, folder: Path) -> None:
    axes: dict[str, list[int]] = {"think_time": [1, 8], "threads_per_node": [1, 2]}
    made = results_factory.make(
        tmp_path / "r", [results_factory.sweep("s", ["idle"], axes, tool="thinker")], repetitions=1
    )
    campaign = load(made)
    results = summarize(campaign.rows)
    by_axis = {figure.x_column: figure for figure in figures.figures(campaign, results)}
    figure = by_axis["think_time"]
    assert (figure.name, figure.x_title, figure.x_values) == ("iops-by-think-time.s", "think time", (1, 8))
    drawn = vega_lite.specification(figure)["concat"][0]["encoding"]["x"]
    assert drawn["title"] == "think time" and '"8": "8 ms"' in drawn["axis"]["labelExpr"]
    assert by_axis["threads_per_node"].series == ("1 ms", "8 ms")
    shown = {column.key: column.title for column in results_table.payload(results, ()).columns}
    assert shown["think_time"] == "think time"


def test_no_column_is_there_twice() -> None:
    names = [column.name for column in result_columns()]
    assert len(set(names)) == len(names)
