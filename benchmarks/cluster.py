"""On a Slurm cluster of two nodes: what iosweep takes beyond the bare `srun`, and other ways to measure as much.

The cluster is that of the tests (tests/support/slurm.py): a true one, in namespaces of this machine.
"""

from __future__ import annotations

import json
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import campaigns
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.plan.model import Plan
from iosweep.run.repetition import tool_commands
from iosweep.store.record import JudgedRecord
from iosweep.store.store import Store
from measure import IOSWEEP, ROOT, CannotRun, Row, Size, in_turn, mean, seconds

sys.path.append(str(ROOT / "tests/support"))
import slurm  # the test cluster

BEYOND_S = 0.2
NODES = ("n1", "n2")
#: What an allocation asks for (submission.py), for those that do without it.
_WHOLE = ("--nodes=2", "--ntasks=2", "--exclusive", "--overcommit")
_LAUNCHER = SLURM_LAUNCHERS["srun"]
_NAP_S = 0.1
#: Runs commands from a file of JSON, each with its output into a file of its own, and no shell.
_LOOP = """
import json, subprocess, sys
for number, command in enumerate(json.load(open(sys.argv[1]))):
    with open(f"{sys.argv[2]}/{number}", "wb") as file:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, check=True)
"""


@contextmanager
def cluster(work: Path, environment: Mapping[str, str] | None = None, workers: int = 0) -> Iterator[slurm.Cluster]:
    """A cluster, with so many workers beside its five nodes. Its work/target is in memory, so that the noise of a disk
    has no part in it; so is work/lock, for its own locks. Raises CannotRun."""
    if reason := slurm.missing():
        raise CannotRun(reason.removeprefix("slurm: "))
    # Where Python must not keep bytecode, every start compiles libraries for a second or two: not what is measured.
    ours = {**slurm.MPI_ENVIRONMENT, **campaigns.WITH_OURS, "PYTHONDONTWRITEBYTECODE": "", **(environment or {})}
    try:
        with slurm.Cluster(ours, workers=workers) as up:
            for place in (work / "target", work / "lock"):
                place.mkdir()
                up.run(["mount", "-t", "tmpfs", "tmpfs", place])
            yield up
    except slurm.ClusterError as error:
        raise RuntimeError(str(error)) from None


def run(size: Size, work: Path) -> Iterator[Row]:
    """Per point beyond srun, fio through the agents, and the whole time of as many points in other ways."""
    with cluster(work) as up:
        with _allocation(up) as job:
            yield from _sleeping(size, work, up, job)
            if shutil.which("fio"):
                yield from _fio(size, work, up, job)
        if size.judged:
            yield from _whole(size, work, up)


@contextmanager
def _allocation(up: slurm.Cluster) -> Iterator[str]:
    """Two nodes that stay ours; the job's number."""
    job = submit(up, ["sleep", "86400"], ["--job-name=held"])
    while up.squeue()[0].state != "RUNNING":
        time.sleep(0.05)
    yield job
    up.cancel()


def submit(up: slurm.Cluster, command: Sequence[str | Path], options: Sequence[str] = (), cwd: Path = ROOT) -> str:
    """Submit a job for two whole nodes; returns its number."""
    script = f"#!/bin/sh\nexec {shlex.join(map(str, command))}\n"
    asked = [*_WHOLE, "--output=/dev/null", f"--chdir={cwd}", *options]
    return up.run(["sbatch", "--parsable", *asked], input=script, cwd=cwd).stdout.strip()


def over(up: slurm.Cluster) -> bool:
    """Whether no job is left, a tenth of a second later."""
    time.sleep(0.1)
    return not up.squeue()


def measuring(plan_file: Path) -> list[str | Path]:
    """`iosweep measure`, as a rule of Snakemake runs it."""
    results = plan_file.parent.parent
    handed_over = ["--manifest", results / "m.jsonl", "--log", results / "m.log"]
    return [*IOSWEEP, "measure", plan_file, "--allocation", "2-nodes", *handed_over,
            "--launcher", _LAUNCHER.name, "--scheduler", "slurm"]  # fmt: skip


def _on_node(up: slurm.Cluster, job: str, command: Sequence[str | Path], work: Path) -> float:
    """Seconds that a command took on the first node of a job, with the one variable that a job's own command gets."""
    return _timed(lambda: up.run(command, on=NODES[0], cwd=work, env={"SLURM_JOB_ID": job}, timeout=600))


def _looped(work: Path, name: str, commands: Sequence[Sequence[str]]) -> list[str | Path]:
    """A program that runs commands one after the other."""
    (work / f"{name}.out").mkdir()
    (work / f"{name}.json").write_text(json.dumps(commands), encoding="utf-8")
    return [sys.executable, "-c", _LOOP, work / f"{name}.json", work / f"{name}.out"]


def _naps(size: Size) -> Mapping[str, Any]:
    return {"tool": "nap", "phases": ["nap"], "axes": {"nodes": [2], "number": list(range(1, size.slurm_points + 1))},
            "phase_time": f"{_NAP_S * 1000:.0f}ms", "repetitions": 1}  # fmt: skip


def _bare(command: Sequence[str]) -> list[str]:
    """One task on each of two nodes, as the runner starts it."""
    return _LAUNCHER.argv(command, True, 2, hosts=NODES)


def _sleep() -> list[str]:
    return _bare([shutil.which("sleep") or "sleep", f"{_NAP_S:g}"])


def _sleeping(size: Size, work: Path, up: slurm.Cluster, job: str) -> Iterator[Row]:
    """Ranks that sleep, started by srun."""
    made = campaigns.planned(work, "nap", [_naps(size)], keep="none", lock=str(work / "lock"))
    plan_file = campaigns.written(made, work, "nap")
    loop = _looped(work, "nap", [_sleep()] * size.slurm_points)
    once: list[float] = []

    def through() -> float:
        took_s = _again(up, job, plan_file, work)
        once.append(took_s - _measured_s(plan_file.parent.parent, size.slurm_points))
        return took_s

    rounds = in_turn(size.slurm_rounds, lambda: _on_node(up, job, loop, work), through)
    yield _beyond_srun(f"sleep of {_NAP_S:g} s on 2 nodes, beyond srun", size.slurm_points, *rounds)
    yield Row("slurm", "of it start and end, once", f"{size.slurm_rounds}×", seconds(statistics.median(once)))


def _beyond_srun(what: str, points: int, bare: Sequence[float], ours: Sequence[float]) -> Row:
    each, low, high = mean([(b - a) / points for a, b in zip(bare, ours, strict=True)])
    beside = statistics.fmean(bare) / points
    return Row(
        "slurm", what, f"{points} points, {len(bare)}×",
        f"{seconds(each)}" + (f", 95 % CI {seconds(low)} to {seconds(high)}" if len(bare) > 1 else ""),
        f"srun {seconds(beside)}", f"{1 + each / beside:.2f}", f"≤ {seconds(BEYOND_S)}", each <= BEYOND_S,
    )  # fmt: skip


def _again(up: slurm.Cluster, job: str, plan_file: Path, work: Path) -> float:
    """Seconds that a plan takes whose points have no result yet."""
    shutil.rmtree(plan_file.parent.parent / "points", ignore_errors=True)
    return _on_node(up, job, measuring(plan_file), work)


def _measured_s(results: Path, points: int) -> float:
    """Seconds from the begin of the first repetition to the end of the last. Every point must have a figure: what fails
    takes no time."""
    store = Store(results)
    records = [record for point in store.repetitions() for record in store.records_of(point, JudgedRecord)]
    figures = sum(row.headline is not None for record in records for row in record.rows)
    if figures != points:
        said = [reason for record in records for row in record.rows for reason in row.reasons]
        raise RuntimeError(f"{figures} of {points} points have a figure: {'; '.join(said[:3])}")
    return (max(record.ended for record in records) - min(record.started for record in records)).total_seconds()


def _fio(size: Size, work: Path, up: slurm.Cluster, job: str) -> Iterator[Row]:
    """One fio on each node: through the agents, and by a bare srun with one command for each task."""

    def planned(depths: Sequence[int], phase_time: str) -> Plan:
        sweep = campaigns.fio_sweep({"nodes": [2], "queue_depth": depths}, phase_time, transfer_size="4k")
        return campaigns.planned(work, "fio", [sweep], lock=str(work / "lock"))

    # Another point of the same files makes them, and says to whom the directory on the target belongs.
    _on_node(up, job, measuring(campaigns.written(planned([3], "100ms"), work, "fio")), work)
    made = planned([1 << n for n in range(size.fio_points)], "500ms")
    plan_file = campaigns.written(made, work, "fio")
    commands = []
    for point in made.points:
        each = tool_commands(made, point, point.steps[0], 1, f"{work}/target/iosweep-fio")
        programs = work / f"{point.id}.conf"
        programs.write_text("".join(f"{k} {shlex.join(argv)}\n" for k, argv in enumerate(each)), encoding="utf-8")
        commands.append(_bare(["--multi-prog", str(programs)]))
    loop = _looped(work, "fio", commands)
    again: list[bool] = []

    def through() -> float:
        took_s = _again(up, job, plan_file, work)
        _measured_s(plan_file.parent.parent, len(made.points))
        again.append(any(plan_file.parent.parent.glob("points/*/r001-2.json")))
        return took_s

    bare, ours = in_turn(size.rounds, lambda: _on_node(up, job, loop, work), through)
    # Where others used the CPU, points are measured twice, which is right, but no comparison.
    kept = [k for k, tried in enumerate(again) if not tried]
    what = "fio of 0.5 s on 2 nodes, beyond srun" + ("" if kept else " (some twice: a busy machine)")
    chosen = kept or range(len(again))
    yield _beyond_srun(what, len(made.points), [bare[k] for k in chosen], [ours[k] for k in chosen])


def _whole(size: Size, work: Path, up: slurm.Cluster) -> Iterator[Row]:
    """From the first submission to the last figure, next to what else one might do."""
    points = size.slurm_points
    config = campaigns.write(work, "whole", [_naps(size)], keep="none", lock=str(work / "lock"))
    ours = ["--profile", ROOT / "profiles" / "slurm", "--snakefile", ROOT / "Snakefile", "--configfile", config]
    ours_s = _timed(lambda: _snakemake(size, up, work / "ours", *ours))
    _measured_s(work / "ours" / "results" / "whole", points)
    others = {
        "1 job, loop of srun": _timed(lambda: _one_job(up, work, points)),
        "sbatch for each point": _timed(lambda: _job_each(up, work, points)),
    }
    for what, beside in others.items():
        yield Row(
            "slurm", "whole time with tables and report", f"{points} points, 1×", seconds(ours_s),
            f"{what} {seconds(beside)}", f"{ours_s / beside:.2f}",
        )  # fmt: skip


def _timed(what: Callable[[], object]) -> float:
    started = time.perf_counter()
    what()
    return time.perf_counter() - started


def _one_job(up: slurm.Cluster, work: Path, points: int) -> None:
    submit(up, _looped(work, "one-job", [_sleep()] * points))
    while not over(up):
        pass


def _job_each(up: slurm.Cluster, work: Path, points: int) -> None:
    """As a script would: submit, ask until it is over, submit the next. (`sbatch --wait` asks every two seconds.)"""
    for _ in range(points):
        submit(up, _sleep())
        while not over(up):
            pass


def _snakemake(size: Size, up: slurm.Cluster, work: Path, *options: str | Path) -> None:
    work.mkdir()
    soon = () if size.judged else ("--iosweep-poll-seconds", "1")
    up.run([sys.executable, "-m", "snakemake", *options, *soon], cwd=work, timeout=3600)
