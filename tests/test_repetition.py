"""What a repetition's record says."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iosweep import repetition
from iosweep.plan import make
from iosweep.process import Completed
from small import document, read


def executed(*argvs: str) -> Completed:
    every = tuple((argv, "-v") for argv in argvs)
    return Completed(every[-1], 0, False, False, 1.0, None, 0, argvs=every if len(every) > 1 else ())


def fails(*_: Any) -> Any:
    raise OSError(2, "No such file or directory")


@pytest.mark.parametrize(
    ("run", "argv", "argvs"),
    [
        (lambda *_: (executed("one"), {}), ["one", "-v"], None),
        (lambda *_: (executed("one", "two"), {}), ["one", "-v"], [["one", "-v"], ["two", "-v"]]),
        (fails, ["planned"], None),  # nothing was executed
    ],
)
def test_the_command_in_the_record_is_the_one_that_was_executed(
    tmp_path: Path, run: Callable[..., Any], argv: list[str], argvs: list[list[str]] | None
) -> None:
    plan = make(read(tmp_path, document()))
    commands = SimpleNamespace(binding=lambda *_: None, argv=lambda *_: ["planned"], run=run)
    context: Any = SimpleNamespace(
        plan=plan,
        directory=SimpleNamespace(path=str(tmp_path), may_write=lambda *_: None, settle=lambda: 0.0),
        sets=SimpleNamespace(ready=lambda *_: {"wrong": []}),
        commands=commands,
        pinning=SimpleNamespace(record=lambda *_: None),
        exclusive={},
    )
    point = plan.points[0]
    record, _ = repetition._step(context, point, point.steps()[0], 1, ["n1"])
    assert (record["argv"], record.get("argvs")) == (argv, argvs)
