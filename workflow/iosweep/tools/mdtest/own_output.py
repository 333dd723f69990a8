"""mdtest's standard output to figures, evidence and problems of one phase. Never raises for what mdtest may print."""

from __future__ import annotations

from functools import lru_cache

from iosweep.own_rate import OwnRate
from iosweep.tools import Evidence, Parsed, Phase, Step, Streams, rank_file
from iosweep.tools.mdtest import argv, echo
from iosweep.tools.mdtest.options import ROWS
from iosweep.tools.mdtest.runs import CLOCK_S, Run, tables

#: How many times the shift the ranks of a phase are after those that created (mdtest.c: names come from the rank).
_SHIFTS = {"dir_stat": 1, "stat": 1, "read": 2}


#: mdtest sleeps before it starts (4.x).
_SLEEP_S = 1.0


@lru_cache(1)
def _runs(stdout: bytes) -> list[Run]:
    """What one command printed: its phases are asked for one by one."""
    return tables(stdout.decode("utf-8", "replace"))


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one run of one iteration.

    `runtime_s` is operations / rate: mdtest prints rates alone.
    """
    stdout = streams["stdout"]
    runs = _runs(stdout)
    if len(runs) != 1:
        many = f"{len(runs)} runs in mdtest's output: its ranks did not find each other" if runs else "no run of mdtest"
        return Parsed(problems=[many if stdout.strip() else "mdtest printed nothing"])
    (run,), row = runs, ROWS[phase.name]
    evidence = Evidence(
        errors=list(run.problems),
        doubts=[text for severity, text in run.remarks if severity == "suspect"],
        mpi=True,
        tasks=run.tasks,
        nodes=run.nodes,
        shifts=True,
        shift=None if run.shift is None else run.shift * _SHIFTS.get(phase.name, 0),
        clock_s=CLOCK_S,
        echo=echo.compare(argv.command(step, ""), run),
        timed_s=_timed_s(run, step),
        untimed_s=_SLEEP_S,
        own_rates=_of_ranks(streams.get("ranks", b""), row, step.tasks),
    )
    problem = run.doubts.get(row, "")
    ops = step.tasks * step.number("files_per_thread")
    if row not in run.rates:
        problem = f"mdtest's table has no row `{row}`"
    elif run.iterations not in (None, 1):
        problem = f"mdtest ran {run.iterations} iterations, not one"
    elif not problem and run.rates[row].mean <= 0:
        problem = f"mdtest's rate of `{row}` is {run.rates[row].mean:g}"
    if problem:
        return Parsed(run.version, {}, evidence, [problem])
    rate = run.rates[row].mean
    figures = {"ops": ops, "ops_per_s": rate, "runtime_s": ops / rate}
    if run.tasks is not None:
        figures["tasks"] = run.tasks
    return Parsed(run.version, figures, evidence, [], row)


def _of_ranks(document: bytes, row: str, tasks: int) -> list[OwnRate]:
    """The rate of each rank, over the time until it was through."""
    rates = rank_file.column(document, f"rate-{row}", tasks)
    return [OwnRate("", rank, None, rate) for rank, rate in enumerate(rates)]


def _timed_s(run: Run, step: Step) -> float | None:
    """Seconds of all phases of a command by its rates; None where one of them has none."""
    rates = [run.rates[row].mean if (row := ROWS[phase.name]) in run.rates else 0.0 for phase in step.phases]
    ops = step.tasks * step.number("files_per_thread")
    return sum(ops / rate for rate in rates) if all(rates) else None
