"""An axis is one entry: a tool folder with an axis of its own changes no other file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import iosweep.tools
from campaign import Allocation
from iosweep.commands import generate
from iosweep.config import models
from iosweep.results import columns
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
def with_thinker(tmp_path: Path) -> Iterator[None]:
    """A tool folder beside those of the package, as a site might add one."""
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
    before = list(iosweep.tools.__path__)
    iosweep.tools.__path__.append(str(tmp_path / "tools"))
    _forget()
    yield
    iosweep.tools.__path__[:] = before
    _forget()
    sys.modules.pop("iosweep.tools.thinker", None)


def _forget() -> None:
    """Clear every cache of the package: any of them may hold something made from the tools' tables."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "iosweep":
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def test_plan_and_argv(tmp_path: Path, with_thinker: None) -> None:
    points = Allocation(tmp_path, SWEEP).plan.points
    assert {point.options["think_time"] for point in points} == {1, 8}
    assert {point.id.rpartition(".")[0] for point in points} == {
        f"thinker.idle.1n.{threads}t.4k.{time}ms" for threads in (1, 2) for time in (1, 8)
    }
    tool = tools()["thinker"]
    step = Step(points[0].options, (tool.phases["idle"],))
    assert tool.argv(step, "/d", 1) == ["true", f"--think={points[0].options['think_time']}"]


def test_generated_documents(with_thinker: None) -> None:
    row = "| `think_time` | whole number from 1 | 4 | Pause between two I/Os. | all |"
    assert row in generate._options(tools()["thinker"])
    assert "| `think_time` | int | thinker: Pause between two I/Os. |" in columns.markdown()
    assert '"ThinkerAxes"' in generate.schema(models.campaign_model(), "")
    names = [column.name for column in columns.result_columns()]
    assert "think_time" in names and len(set(names)) == len(names)
