"""Results that several processes judge: the tables are the same, also where a process ends before its time."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from campaign import FOUR_AND_EIGHT, Made, document, make
from iosweep.results import judged_points, judging_processes, merge, merged_tables
from iosweep.results.judging_processes import _Process, how_many


@pytest.mark.parametrize(
    ("repetitions", "cpus", "processes"),
    [(0, 2, 1), (1999, 2, 1), (2000, 2, 2), (2000, 1, 1), (2500, 64, 2), (100_000, 3, 3), (100_000, 256, 8)],
)
def test_how_many_processes_pay(repetitions: int, cpus: int, processes: int) -> None:
    assert how_many(repetitions, cpus) == processes


def tables(made: Made) -> list[bytes]:
    merge.merge(made.plan, made.results, anew=True)
    return [(made.results / name).read_bytes() for name in merged_tables.FILES]


@pytest.mark.local
def test_the_tables_are_those_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = {"queue_depth": [1, 2, 4, 8, 16]}
    made = Made(tmp_path, make(tmp_path, document(**(FOUR_AND_EIGHT | {"axes": axes, "repetitions": 2}))))
    for index in range(5):
        made.measured(index)
    made.results.joinpath("points", made.plan.points[3].id, "r001-1.zip").write_bytes(b"damaged")
    alone = tables(made)
    monkeypatch.setattr(judging_processes, "how_many", lambda *_: 2)
    monkeypatch.setattr(judged_points, "BLOCK", 2)
    started: list[Any] = []
    ask = _Process.ask

    def asked(self: Any, numbers: Any) -> None:
        started.append(self._process)
        ask(self, numbers)

    monkeypatch.setattr(_Process, "ask", asked)
    assert tables(made) == alone
    assert len(set(started)) == 2
    assert all(process.returncode is not None for process in started)

    def killed(self: Any, numbers: Any) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        ask(self, numbers)

    monkeypatch.setattr(_Process, "ask", killed)
    assert tables(made) == alone


@pytest.mark.local
def test_a_relative_path_and_what_is_in_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of damaged results say so by any process, and no module is imported from where it runs."""
    axes = {"queue_depth": [1, 2, 4, 8]}
    made = Made(tmp_path, make(tmp_path, document(**(FOUR_AND_EIGHT | {"axes": axes}))))
    for index in range(4):
        made.measured(index)
    made.results.joinpath("points", made.plan.points[2].id, "r001-1.json").write_bytes(b"damaged")
    (tmp_path / "msgspec.py").write_text("raise SystemExit('not this one')")
    made.results = made.results.relative_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    alone = tables(made)
    monkeypatch.setattr(judging_processes, "how_many", lambda *_: 2)
    monkeypatch.setattr(judged_points, "BLOCK", 2)
    answers: list[object] = []
    answer = _Process.answer

    def noted(self: Any) -> object:
        answers.append(answer(self))
        return answers[-1]

    monkeypatch.setattr(_Process, "answer", noted)
    assert tables(made) == alone
    assert answers
    assert None not in answers
