"""The order of points inside an allocation: random, repetitions outermost, also where limits.time is not enough."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import records
from campaign import document, make
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Point
from iosweep.results import remaining
from iosweep.results.store import Store
from iosweep.run import allocation, budget
from iosweep.run.request import Request, Setup
from iosweep.run.work import Work

#: 30 points of a second each.
AXES = {"threads_per_node": [1, 2, 3, 4, 5, 6], "queue_depth": [1, 2, 4, 8, 16]}


def measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, str], repetitions: int = 2
) -> tuple[list[tuple[str, int]], list[str]]:
    """What a loop measures on a clock of its own, each repetition in 2 s: (point, repetition), and what was said."""
    known = document(axes=AXES, repetitions=repetitions)
    known["limits"] |= limits
    plan = make(tmp_path, known)
    store, clock = Store(tmp_path / "results"), SimpleNamespace(now=1000.0)
    time: Any = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now)
    monkeypatch.setattr(budget, "time", time)
    said: list[str] = []
    reporter: Any = SimpleNamespace(say=said.append, finished=lambda *_: None, more=lambda *_: None)
    request = Request(plan, plan.allocations[0].name, tmp_path, tmp_path, LAUNCHERS["direct"], reporter)
    order: list[tuple[str, int]] = []

    def measure(_: object, point: Point, number: int, *__: object) -> tuple[object, dict[str, object]]:
        clock.now += 2.0
        order.append((point.id, number))
        own = {"directory": plan.target.directory}
        record = records.record(point.id, target=own)
        return store.commit(point.id, number, record, {"x.stdout": b"y"}), {}

    monkeypatch.setattr(allocation, "measure_repetition", measure)
    agent: Any = SimpleNamespace(hurry=lambda: None)
    work = Work(Setup(request, store, agent, None, None), remaining.Here(), {})
    context: Any = SimpleNamespace(directory=SimpleNamespace(remove=lambda *_: None, present_bytes=0))
    allocation.Loop(work, context, budget.Budget(plan, store, None, said.append)).measure()
    return order, said


def test_repetitions_stay_outermost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order, said = measured(tmp_path, monkeypatch, {"time": "100s", "over_time": "trim"})
    assert [number for _, number in order] == [1] * 30 + [2] * 20
    first, second = ([point for point, own in order if own == number] for number in (1, 2))
    assert first != sorted(first)
    assert second != first[:20]
    assert any("10 repetitions: limits.time 1 min 40 s is spent" in text for text in said)
