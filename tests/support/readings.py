"""What a reading says, and the verdict on a parsed run, for tests of parsers."""

from collections.abc import Collection, Mapping
from typing import Any

from iosweep.config.sweeps import RepetitionRule
from iosweep.judge import verdict
from iosweep.judge.findings import Observation
from iosweep.plan.model import Point
from iosweep.tools import Parsed, Phase, Step
from iosweep.tools.reading import Reading
from records import ON_TARGET, phase_run


def texts(reading: Reading) -> list[str]:
    """The texts of its problems, notes left out."""
    return [problem.text for problem in reading.problems if problem.severity != "note"]


def measured(reading: Reading) -> list[Mapping[str, Any]]:
    """Its rows that have figures."""
    return [row for index, row in enumerate(reading.rows) if reading.verdict(index) != "invalid"]


def said(reading: Reading) -> str:
    """Its problems, a line each, for a snapshot."""
    return "\n".join(f"  {one.severity} {'all' if one.row is None else one.row}: {one}" for one in reading.problems)


def judged(
    tool: str, parsed: Parsed, step: Step, phase: Phase | None = None, but: Collection[str] = (), **run: Any
) -> tuple[str, list[str]]:
    """The verdict on a run whose circumstances were all right, and the names of the checks that failed, of which some
    (`but`) are not asked. `run` replaces keys of its record."""
    phase, echo = phase or step.phase, parsed.evidence.echo
    point = Point("p", tool, (step.name,), step.nodes, step.options, step.time_s, RepetitionRule(1, 1), ())
    files = {"role": "read", "wrong": [], "holes": "none", "files": 1, "file_size_bytes": 1 << 30, "set_bytes": 1 << 40}
    place = [echo.place] if echo and echo.place else []
    known = {"exit_code": 0, "timed_out": False, "wall_s": 1.5, "stderr": "", "files": files, "argv": [tool, *place]}
    memory = {f"n{k + 1}": 1 << 30 for k in range(step.nodes)}
    seen = Observation(point, phase, phase_run(known | run), parsed, ON_TARGET, memory, "ext4")
    findings = {check: finding for check, finding in verdict.judge_phase(seen).items() if check not in but}
    return verdict.verdict_of(findings)[0], [check for check, f in findings.items() if f.outcome == "fail"]
