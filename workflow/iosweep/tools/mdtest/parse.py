"""mdtest's standard output to figures, evidence and problems of one phase. Never raises for what mdtest may print."""

from __future__ import annotations

from functools import lru_cache

from iosweep.tools import Parsed, Phase, Step
from iosweep.tools.mdtest.options import ROWS
from iosweep.tools.mdtest.read import CLOCK_S, Run, tables

#: How many times the shift the ranks of a phase are after those that created (mdtest.c: names come from the rank).
_SHIFTS = {"dir_stat": 1, "stat": 1, "read": 2}


@lru_cache(1)
def _runs(stdout: bytes) -> list[Run]:
    """What one command printed: its phases are asked for one by one."""
    return tables(stdout.decode("utf-8", "replace"))


def parse(stdout: bytes, step: Step, phase: Phase) -> Parsed:
    """Figures of one run of one iteration.

    `runtime_s` is operations / rate: mdtest prints rates alone.
    """
    runs = _runs(stdout)
    if len(runs) != 1:
        many = f"{len(runs)} runs in mdtest's output: its ranks did not find each other" if runs else "no run of mdtest"
        return Parsed(evidence={"messages": []}, problems=[many if stdout.strip() else "mdtest printed nothing"])
    (run,) = runs
    evidence = {
        "errors": list(run.problems),
        "doubts": [text for severity, text in run.remarks if severity == "suspect"],
        "tasks": run.tasks,
        "nodes": run.nodes,
        "shift": None if run.shift is None else run.shift * _SHIFTS.get(phase.name, 0),
        "clock_s": CLOCK_S,
        "messages": [],
    }
    rates = run.rates.get(ROWS[phase.name])
    if rates is None:
        return Parsed(run.version, {}, evidence, [f"mdtest's table has no row `{ROWS[phase.name]}`"])
    if run.iterations not in (None, 1):
        return Parsed(run.version, {}, evidence, [f"mdtest ran {run.iterations} iterations, not one"])
    if doubt := run.doubts.get(ROWS[phase.name]):
        return Parsed(run.version, {}, evidence, [doubt])
    rate, ops = rates.mean, step.tasks * step.number("files_per_thread")
    if rate <= 0:
        return Parsed(run.version, {}, evidence, [f"mdtest's rate of `{ROWS[phase.name]}` is {rate:g}"])
    figures = {"ops": ops, "ops_per_s": rate, "runtime_s": ops / rate, "tasks": run.tasks, "label": ROWS[phase.name]}
    return Parsed(run.version, figures, evidence, [])
