"""Faults in a job of Slurm: each is done for real on two nodes, and ends as fault_outcomes.tsv says."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fault_outcomes import outcomes, tells
from iosweep.results.store import Store
from slurm_campaign import (
    RANKS,
    STORIES,
    WRITES,
    Case,
    Job,
    Stage,
    Stories,
    mounted,
    told_stories,  # noqa: F401
    until,
)

pytestmark = pytest.mark.local

#: What is done while the job runs, between what is there before it starts and what mends that.
Happening = Iterator[Callable[[Job], None] | None]


@dataclass
class Fault:
    """It `happen`s to a case with these sweeps.

    grace: limits.grace. deadline: target.deadline. options: of sbatch. again: something may be measured, and the next
    job is to complete it; else the target is as before but for what it `leaves`.
    """

    happen: Callable[[Case], Happening]
    sweeps: tuple[dict[str, Any], ...]
    grace: str = "5min"
    deadline: str = "30s"
    options: tuple[str, ...] = ()
    again: bool = True
    leaves: tuple[str, ...] = ()


#: key in fault_outcomes.tsv -> fault
FAULTS: dict[str, Fault] = {}
ROWS = outcomes("job")


def fault(*sweeps: dict[str, Any], **more: Any) -> Callable[[Callable[[Case], Happening]], None]:
    """Register a fault under the name of its function."""

    def register(happen: Callable[[Case], Happening]) -> None:
        FAULTS[f"job/{happen.__name__.replace('_', '-')}"] = Fault(happen, sweeps, **more)

    return register


#: A point of one node.
ONE = WRITES | {"axes": {"nodes": [1]}}
#: Two points, of which the second is hit, or the first that comes.
TWO = WRITES | {"axes": {"nodes": [2], "threads_per_node": [1, 2]}}
SECOND = 'case "$*" in *numjobs=2*)'
AGENT = "iosweep.run.remote_agent"
#: They go on when there is a file ior.on beside the script.
WAITING_RANKS = 'case "$*" in *-w*) "$real" "$@"; code=$?; until [ -e "$0.on" ]; do sleep 0.1; done; exit $code;; esac'
HANGING_RANKS = 'case "$*" in *-w*) export STANDIN_FAULT=hang;; esac'
#: fio measures for some minutes, if it is let
FOR_LONG = 'case "$*" in *seq_write*) exec "$real" "$@" --runtime=240;; esac'


@fault(RANKS, WRITES)
def rank_killed(case: Case) -> Happening:
    case.script("ior", 'case "$*" in *-w*) exec "$real" "$@" -D 240 -O minTimeDuration=240;; esac')
    yield lambda job: case.tool("ior", "n2")[0].kill()


@fault(RANKS, WRITES, grace="1s")
def ranks_that_do_not_end(case: Case) -> Happening:
    case.script("ior", HANGING_RANKS)
    yield None


@fault(RANKS, WRITES, grace="1s")
def ranks_of_mpiexec_that_do_not_end(case: Case) -> Happening:
    case.launcher = "mpiexec"
    case.script("ior", HANGING_RANKS)
    yield None


@fault(RANKS, WRITES)
def ranks_that_do_not_find_each_other(case: Case) -> Happening:
    case.script("srun", 'for word; do shift; [ "$word" != --mpi=pmi2 ] || word=--mpi=none; set -- "$@" "$word"; done')
    yield None


@fault(RANKS, WRITES)
def mpi_that_srun_does_not_offer(case: Case) -> Happening:
    case.launcher = "srun-pmix"
    yield None
    case.launcher = "srun"


@fault(TWO, grace="2s")
def tool_that_does_not_end_on_one_node(case: Case) -> Happening:
    case.script("fio", f'[ "$SLURMD_NODENAME" != n2 ] || {SECOND} sleep 600;; esac')
    yield None


@fault(TWO)
def full_while_both_write(case: Case) -> Happening:
    filler = case.target.parent / "filler"
    case.script("fio", f"{SECOND} head -c 80m /dev/zero >{filler};; esac 2>/dev/null")
    yield None
    case.cluster.run(["rm", filler])


@fault(WRITES, RANKS)
def agent_of_a_node_killed(case: Case) -> Happening:
    case.script("ior", WAITING_RANKS)

    def kill(job: Job) -> None:
        case.tool("ior", "n2")
        case.processes(AGENT, "n2")[0].kill()
        (case.place / "bin" / "ior.on").touch()

    yield kill


@fault(TWO)
def agent_killed_beside_its_tool(case: Case) -> Happening:
    case.script("fio", FOR_LONG)

    def kill(job: Job) -> None:
        case.tool("fio", "n2")
        case.processes(AGENT, "n2")[0].kill()

    yield kill


@fault(WRITES, RANKS, deadline="10s")
def node_that_does_not_answer(case: Case) -> Happening:
    case.script(
        "ior", 'case "$*" in *-w*) "$real" "$@"; code=$?; until [ -e "$0.on" ]; do sleep 0.1; done; exit $code;; esac'
    )

    def stop(job: Job) -> None:
        case.tool("ior", "n2")
        case.processes(AGENT, "n2")[0].suspend()
        (case.place / "bin" / "ior.on").touch()

    yield stop


@fault(TWO)
def node_dies(case: Case) -> Happening:
    case.script("fio", FOR_LONG)

    def kill(job: Job) -> None:
        case.tool("fio", "n2")
        case.cluster.kill_node("n2", noticed=True)

    yield kill
    case.cluster.start_node("n2")


@fault(TWO)
def first_node_dies(case: Case) -> Happening:
    case.script("fio", FOR_LONG)

    def kill(job: Job) -> None:
        case.tool("fio", "n1")
        case.cluster.kill_node("n1", noticed=True)
        case.nothing_lives()
        case.cluster.start_node("n1")  # or Slurm on n2 would wait 15 s for an answer from it

    yield kill


@fault(RANKS, WRITES)
def runner_killed(case: Case) -> Happening:
    case.script("ior", HANGING_RANKS)

    def kill(job: Job) -> None:
        case.tool("ior", "n2")
        case.runner().kill()

    yield kill


@fault(RANKS | {"repetitions": 3})
def controller_restarts(case: Case) -> Happening:
    def restart(job: Job) -> None:
        until(case.records, case.over)
        number = (case.cluster.state / "slurmctld.pid").read_text().strip()
        case.cluster.run(["kill", number])
        until(lambda: case.cluster.run(["kill", "-0", number], check=False).returncode)
        time.sleep(3)
        case.cluster.run(["slurmctld"], stdout=None, stderr=None)

    yield restart


@fault(RANKS, WRITES)
def job_cancelled(case: Case) -> Happening:
    case.script("ior", HANGING_RANKS)

    def cancel(job: Job) -> None:
        case.tool("ior", "n2")
        job.cancel()

    yield cancel


@fault(ONE)
def measured_by_another_campaign(case: Case) -> Happening:
    place = case.place / "other"
    place.mkdir()
    other = Case(Stage(case.cluster, place, case.path), [ONE])
    other.target, other.locks = case.target.parent / "other", case.locks
    case.cluster.run(["mkdir", other.target])
    other.configure()
    other.script("fio", FOR_LONG)
    first = other.submit("--nodelist=n1")
    other.tool("fio", "n1")
    yield None
    assert first.state == "RUNNING"
    first.cancel()
    assert first.end() == "CANCELLED", first.said()
    other.nothing_lives()
    case.cluster.run(["rm", "-r", other.target])


@fault(ONE)
def measured_by_another_job(case: Case) -> Happening:
    case.script("fio", FOR_LONG)
    first = case.submit("--nodelist=n1")
    case.tool("fio", "n1")
    yield None
    assert first.state == "RUNNING"
    first.cancel()
    assert first.end() == "CANCELLED", first.said()


@fault(WRITES, again=False)
def target_not_mounted_on_a_node(case: Case) -> Happening:
    with mounted(case.cluster, case.target.parent, on="n2"):
        yield None


@fault(TWO)
def target_lost_on_a_node(case: Case) -> Happening:
    where = case.target.parent
    case.script("fio", f'[ "$SLURMD_NODENAME" != n2 ] || {SECOND} mount -t tmpfs lost {where};; esac')
    yield None
    case.cluster.on("n2", ["umount", where])


@fault(WRITES, again=False)
def another_file_system_on_a_node(case: Case) -> Happening:
    with mounted(case.cluster, case.target, on="n2", name="another"):
        yield None


@fault(WRITES, again=False)
def results_not_on_a_node(case: Case) -> Happening:
    with mounted(case.cluster, case.results.parent, on="n2"):
        yield None


@fault(WRITES, again=False)
def another_build_on_a_node(case: Case) -> Happening:
    mine, theirs = case.place / "bin" / "fio", case.place / "another"
    mine.parent.mkdir()
    shutil.copy(str(shutil.which("fio")), mine)
    theirs.write_bytes(mine.read_bytes() + b"\0")
    theirs.chmod(0o755)
    case.path = f"{mine.parent}{os.pathsep}{case.path}"
    case.cluster.on("n2", ["mount", "--bind", theirs, mine])
    yield None
    case.cluster.on("n2", ["umount", mine])


@fault(WRITES | {"phase_time": "1min"}, options=("--time=1",), again=False, leaves=("iosweep-c", "iosweep.json"))
def job_too_short(case: Case) -> Happening:
    yield None


@fault(WRITES, options=("--nodes=1",), again=False)
def job_with_too_few_nodes(case: Case) -> Happening:
    yield None


def tell(key: str, stage: Stage) -> None:
    """A fault, and the job that goes on from there."""
    fault, row = FAULTS[key], ROWS[key]
    case = Case(stage, fault.sweeps, grace=fault.grace, deadline=fault.deadline)
    with mounted(stage.cluster, case.target.parent):
        stage.cluster.run(["mkdir", case.target])
        with contextlib.closing(fault.happen(case)) as happening:
            meanwhile = next(happening)
            job = case.submit(*fault.options)
            if meanwhile:
                meanwhile(job)
            assert job.end() == row.ends, job.said()
            assert tells(row.said, job.said()), job.said()
            assert "Traceback" not in job.said(), job.said()
            rows = case.rows()
            next(happening, None)
            case.nothing_lives()
        hit = [r for r in rows if r["verdict"] not in ("valid", "suspect")]
        assert {r["verdict"] for r in hit} == ({row.verdict} if row.verdict else set()), [r["reasons"] for r in hit]
        if isinstance(row.ends, int):
            assert all(tells(row.said, r["reasons"]) for r in hit), [r["reasons"] for r in hit]
        if fault.again:
            case.more = {}
            case.configure(grace="5min")
            again(case, {r["point"] for r in hit if r["verdict"] == "invalid"})
        else:
            assert case.committed() == {}
            assert {Path(path).name for path in case.there()} == set(fault.leaves)


def again(case: Case, invalid: set[str]) -> None:
    """The next job completes it: every repetition once, and what was stored is as it was."""
    before = case.committed()
    store = Store(case.results)
    for point in invalid:
        store.supersede(store.results_of(point)[1])
    job = case.submit()
    assert job.end() == 0, job.said()
    case.nothing_lives()
    rows = case.rows()
    assert {row["point"] for row in rows} == {point.id for point in case.plan.points}
    assert {row["verdict"] for row in rows} <= {"valid", "suspect"}, [row["reasons"] for row in rows]
    after = case.committed()
    assert {name: after.get(name) for name in before} == before
    assert len(rows) == sum(point.repetitions.min for point in case.plan.points)
    assert len(case.records()) == len(rows) + len(invalid)
    assert case.there() == []


STORIES.update({key: partial(tell, key) for key in FAULTS})


def test_every_row_has_a_fault_and_every_fault_a_row() -> None:
    assert sorted(ROWS) == sorted(FAULTS)


@pytest.mark.parametrize("story", ROWS)
def test_fault(stories: Stories, story: str) -> None:
    stories.end(story)
