"""What a repetition's record says."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iosweep.errors import TargetHangs
from iosweep.node.process import Completed
from iosweep.plan.expand import make_plan
from iosweep.run import repetition, runner
from iosweep.run.repetition import LeftBehind
from iosweep.run.target_check import Unfit
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
    context = context_of(tmp_path, run)
    point = context.plan.points[0]
    record, _ = repetition._step(context, point, point.steps()[0], 1, ["n1"])
    assert (record["argv"], record.get("argvs")) == (argv, argvs)


def context_of(tmp_path: Path, run: Callable[..., Any], **sweep: Any) -> Any:
    """What a step needs; `run` stands for Commands.run."""
    return SimpleNamespace(
        plan=make_plan(read(tmp_path, document(**sweep))),
        directory=SimpleNamespace(
            path=str(tmp_path), may_write=lambda *_: None, settle=lambda: 0.0, check=lambda: None
        ),
        sets=SimpleNamespace(ready=lambda *_: {"wrong": []}),
        commands=SimpleNamespace(binding=lambda *_: None, argv=lambda *_: ["planned"], run=run, remote=None),
        pinning=SimpleNamespace(record=lambda *_: None),
        exclusive=dict,
    )


def hangs(*_: Any) -> Any:
    raise TargetHangs("write")


def test_a_step_that_does_not_end_counts_what_it_may_have_written(tmp_path: Path) -> None:
    context = context_of(tmp_path, hangs, phases=["rand_write"])
    point = context.plan.points[0]
    with pytest.raises(TargetHangs):
        repetition._step(context, point, point.steps()[0], 1, ["n1"])
    assert context.in_flight_bytes > 1 << 20


@pytest.mark.parametrize("error", [LeftBehind("x"), TargetHangs("x"), Unfit("x"), KeyboardInterrupt()])
def test_bytes_of_a_repetition_that_did_not_end_are_kept(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(context: Any, *_: Any) -> None:
        context.in_flight_bytes = 4096
        raise error

    monkeypatch.setattr(runner, "measure_repetition", measure)
    session: Any = object.__new__(runner._Session)
    kept: dict[str, Any] = {}
    directory = SimpleNamespace(remove=lambda *_: None, present_bytes=0)
    session._context = SimpleNamespace(
        sets=SimpleNamespace(prepared_s=0.0, prepared_bytes=100), written_bytes=20, in_flight_bytes=0,
        directory=directory,
    )  # fmt: skip
    session._plan = make_plan(read(tmp_path, document()))
    session._store = SimpleNamespace(put=lambda _folder, name, found: kept.update({name: found}))
    session._agent = SimpleNamespace(hurry=lambda: None)
    session._points = {p.id: p for p in session._plan.points}
    session._cost_s, session._cost_bytes = dict.fromkeys(session._points, 1.0), dict.fromkeys(session._points, 0)
    session._done, session._job, session._expected_s, session._took_s = {}, None, 0.0, 0.0
    session._wrote_before, session._spent_before_s, session._began = 3, 0.0, 0.0
    with pytest.raises(type(error)):
        session._repetition(next(iter(session._points)), 1)
    assert kept["spent"]["bytes_written"] == 3 + 100 + 20 + 4096
