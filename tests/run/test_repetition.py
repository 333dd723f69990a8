"""The record of a repetition, and the bytes that are counted for it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

import records
from campaign import document, read
from iosweep.errors import AllocationError, ExitCode, LeftBehind, TargetHangs
from iosweep.judge import remaining
from iosweep.node.process import Completed
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import LAUNCHERS
from iosweep.run import allocation, repetition
from iosweep.run.budget import Budget
from iosweep.run.preflight import Setup
from iosweep.store.record import Exclusive, Files, TotalSpent


def executed(*argvs: str) -> Completed:
    every = tuple((argv, "-v") for argv in argvs)
    return Completed(every[-1], 0, False, False, 1.0, 0, argvs=every if len(every) > 1 else ())


def fails(*_: Any) -> Any:
    raise OSError(2, "No such file or directory")


def test_the_command_in_the_record_is_the_one_that_was_executed(tmp_path: Path) -> None:
    runs: list[tuple[Callable[..., Any], Any, Any]] = [
        (lambda *_: (executed("one"), {}), ("one", "-v"), ()),
        (lambda *_: (executed("one", "two"), {}), ("one", "-v"), (("one", "-v"), ("two", "-v"))),
        (fails, ("planned",), ()),  # nothing was executed
    ]
    for run, argv, argvs in runs:
        context = context_of(tmp_path, run)
        point = context.setup.plan.points[0]
        record, _ = repetition._run_step(context, point, point.steps[0], 1, ["n1"])
        assert (record.argv, record.argvs) == (argv, argvs)


def context_of(tmp_path: Path, run: Callable[..., Any], **sweep: Any) -> Any:
    """What a step needs; `run` stands for Commands.run."""
    on_target = SimpleNamespace(
        directory=SimpleNamespace(path=str(tmp_path), may_write=lambda *_: None, check_unchanged=lambda _: None),
        sets=SimpleNamespace(ensure_complete=lambda *_: Files(), recheck=lambda *_: Files()),
        commands=SimpleNamespace(binding=lambda *_: None, argv=lambda *_: ["planned"], run=run, remote=None),
        exclusive=Exclusive(True, ""),
    )
    return SimpleNamespace(
        setup=SimpleNamespace(plan=make_plan(read(tmp_path, document(**sweep)))),
        targets={"": on_target},
        pinning=SimpleNamespace(record=lambda *_: None),
        budget=SimpleNamespace(written_bytes=0, in_flight_bytes=0),
    )


def hangs(*_: Any) -> Any:
    raise TargetHangs("write")


def test_a_step_that_does_not_end_counts_what_it_may_have_written(tmp_path: Path) -> None:
    context = context_of(tmp_path, hangs, phases=["rand_write"])
    point = context.setup.plan.points[0]
    with pytest.raises(TargetHangs):
        repetition._run_step(context, point, point.steps[0], 1, ["n1"])
    assert context.budget.in_flight_bytes > 1 << 20


def test_nothing_is_stored_where_processes_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = context_of(tmp_path, fails)
    point = context.setup.plan.points[0]
    run, _ = repetition._run_step(context, point, point.steps[0], 1, ["n1"])
    run = structs.replace(run, timed_out=True, wall_s=15.0, left_behind=("fio (pid 7) on n2",))
    record = records.record(point.id, headline=None)
    tried = repetition._Try(structs.replace(record, phases=(run,)), {})
    monkeypatch.setattr(repetition, "_run_try", lambda *_: tried)
    context.setup.agent = SimpleNamespace(hurry=lambda: None, call=hangs)
    context.setup.store = SimpleNamespace()  # whatever is asked of it fails
    with pytest.raises(LeftBehind) as caught:
        repetition.measure(context, point, 1, False, fails)
    assert "fio (pid 7) on n2" in str(caught.value)
    assert (caught.value.nodes, caught.value.code) == ((), ExitCode.HANGS)


@pytest.mark.parametrize("error", [LeftBehind(ExitCode.HANGS, "x"), AllocationError(ExitCode.REFUSED, "x")])
def test_bytes_of_a_repetition_that_did_not_end_are_kept(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(read(tmp_path, document()))
    kept: dict[str, Any] = {}
    store: Any = SimpleNamespace(
        put=lambda _folder, name, found: kept.update({name: found}),
        document=lambda _: TotalSpent(0.0, 3),
    )
    agent: Any = SimpleNamespace(hurry=lambda: None)
    lines: Any = SimpleNamespace(say=print)
    setup = Setup(plan, plan.allocations[0], store, LAUNCHERS["direct"], lines, agent)
    loop = allocation.Loop(setup, remaining.LocalMachine(), {})
    budget = Budget(plan, store, None, lambda _: None)
    budget.prepared_bytes, budget.written_bytes = 100, 20
    directory = SimpleNamespace(remove=lambda *_: None, present_bytes=0)
    context: Any = SimpleNamespace(targets={"": SimpleNamespace(directory=directory)}, budget=budget)

    def measure(*_: Any) -> None:
        budget.in_flight_bytes = 4096
        raise error

    monkeypatch.setattr(allocation, "measure_repetition", measure)
    with pytest.raises(type(error)):
        loop._measure_repetition(context, plan.points[0].id, 1)
    assert kept["spent"].bytes_written == 3 + 100 + 20 + 4096
