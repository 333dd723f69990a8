"""Each fault is done for real, ends as fault_outcomes.tsv says, and harms nothing else."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import mounts
from fault_outcomes import Outcome, outcomes, tells
from faults import FAULTS
from faults.case import Case, ended
from iosweep.commands import cli
from iosweep.errors import ExitCode

pytestmark = pytest.mark.local

OUTCOMES = outcomes()
#: What a shell tells of a process that was killed.
KILLED = 137
#: Characters that may stand beside a row in the report.
LONGEST = 4000
#: Codes with which nothing is written to the store any more, so only the terminal is told why.
UNTOLD = (ExitCode.STORE_FAILED, ExitCode.INTERRUPTED, KILLED)


def test_every_outcome_has_a_fault_and_every_fault_an_outcome() -> None:
    assert sorted(OUTCOMES) == sorted(FAULTS)


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path, fio: Path) -> Iterator[Case]:
    if reason := mounts.missing():
        pytest.skip(reason)
    fault = FAULTS[request.node.callspec.params["key"]]
    made = Case(tmp_path, fault.sweep, fault.target, fault.limits)
    if fault.mpi:
        made.start_ranks(request.getfixturevalue("stand_ins"))
    made.mount.mkdir()
    with fault.on(made.mount):
        made.plant()
        yield made


@pytest.mark.parametrize("key", OUTCOMES)
def test_fault(case: Case, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, row = FAULTS[key], OUTCOMES[key]
    planted = case.outside()
    with contextlib.closing(fault.happen(case)) as happening:
        meanwhile = next(happening)
        arranged = case.outside() if fault.still else {}
        run = case.start()
        try:
            if meanwhile:
                meanwhile(run)
            code = run.end()
            print(run.said())
            assert code == row.ends
            assert tells(row.said, run.said())
            assert "Traceback" not in run.said()
            if fault.still:
                assert case.outside() == arranged
            if code != ExitCode.HANGS:  # hanging processes end once the target answers again
                assert ended(run), run.processes()
            next(happening, None)
            assert ended(run), run.processes()
        finally:
            run.kill()
        assert [file for place in ("tmp", "shm") for file in (case.place / place).iterdir()] == []
        committed = case.intact(whole=code not in (ExitCode.STORE_FAILED, KILLED))
        told = row.ends not in UNTOLD and key != "measured-already"  # who measures says what is stored
        again(case, committed, judge(case, row, told), monkeypatch)
        assert case.outside() == planted
        assert case.ours.exists() == case.stays


def judge(case: Case, row: Outcome, told: bool) -> list[str]:
    """See what the table of results says of it; returns the points whose rows are invalid."""
    hit = [r for r in case.rows() if r["verdict"] not in ("valid", "suspect")]
    assert {r["verdict"] for r in hit} == ({row.verdict} if row.verdict else set()), [r["reasons"] for r in hit]
    assert all(len(r["reasons"]) < LONGEST for r in hit), [r["reasons"][:LONGEST] for r in hit]
    if told:
        assert all(tells(row.said, r["reasons"]) for r in hit), [r["reasons"] for r in hit]
    return sorted({r["point"] for r in hit if r["verdict"] == "invalid"})


def again(case: Case, committed: dict[str, bytes], invalid: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run completes it: every repetition once, and what was stored is as it was."""
    if invalid:
        monkeypatch.chdir(case.place)
        assert cli.main(["rerun", "--campaign", "c", *invalid]) == 0
    run = case.start()
    try:
        code = run.end()
        print(run.said())
        assert code == 0
        assert ended(run), run.processes()
    finally:
        run.kill()
    rows = case.rows()
    assert sorted((r["point"], r["repetition"], r["phase"]) for r in rows) == sorted(
        (p.id, 1, phase.name) for p in case.plan.points for phase in p.measured()
    )
    assert {r["verdict"] for r in rows} <= {"valid", "suspect"}, [r["reasons"] for r in rows]
    stored = case.intact()
    assert {name: stored.get(name) for name in committed} == committed
    assert len([name for name in stored if name.endswith(".json")]) == len(case.plan.points) + len(invalid)
