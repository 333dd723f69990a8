"""`Request`: what is to be measured in one allocation, and how; `Setup`: what is open while it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from iosweep.judge.judging import Verdict
from iosweep.plan.launchers import Launcher
from iosweep.plan.model import Allocation, Plan
from iosweep.programs.spack import Built
from iosweep.run.remote import RemoteAgents
from iosweep.slurm import query
from iosweep.store.campaign_documents import Missing
from iosweep.store.committed import Result
from iosweep.store.store import Store
from iosweep.target.agent import Agent

#: Verdict and reasons.
Judged = tuple[Verdict, list[str]]


class Reporter(Protocol):
    """Shows the progress of an allocation (progress_lines.py)."""

    def begin(self, allocation: Allocation, repetitions: int, cost_s: float) -> None: ...
    def say(self, text: str) -> None: ...
    def finished(self, result: Result, judged: Mapping[str, Judged], cost_s: float) -> None: ...
    def more(self, repetitions: int, cost_s: float) -> None: ...


@dataclass(frozen=True)
class Request:
    """What to measure, and how.

    `only`: part of a point's id or of a sweep's name; None for all points. `works_for`: processes whose end stops the
    measurement. `job`: the Slurm job that we run in, on its first node. `tools_file`: tools.json of the tools that
    Spack has built; None to look for tools on PATH.
    """

    plan: Plan
    name: str
    results: Path
    manifest: Path
    launcher: Launcher
    reporter: Reporter
    only: str | None = None
    works_for: Sequence[int] = ()
    job: query.Job | None = None
    tools_file: Path | None = None

    @property
    def allocation(self) -> Allocation:
        return next(a for a in self.plan.allocations if a.name == self.name)


@dataclass(frozen=True)
class Setup:
    """A request with what is open for it. `remote`: the agents of the job's nodes; None without a job."""

    request: Request
    store: Store
    agent: Agent
    remote: RemoteAgents | None
    built: Built | None

    @property
    def plan(self) -> Plan:
        return self.request.plan

    @property
    def allocation(self) -> Allocation:
        return self.request.allocation

    @property
    def job(self) -> query.Job | None:
        return self.request.job

    @property
    def search(self) -> str | None:
        """Directories that tools are looked for in, instead of those on PATH."""
        return self.built.search if self.built else None

    def note(self, *texts: str | None) -> None:
        """Report notes; None is skipped."""
        for text in texts:
            if text:
                self.request.reporter.say(f"note: {text}")

    def set_missing(self, points: Mapping[str, Missing]) -> None:
        """Record points as missing, and report each reason once."""
        for point, missing in points.items():
            self.store.set_missing(point, missing)
        for reason in dict.fromkeys(missing.reason for missing in points.values()):
            self.missing(reason)

    def missing(self, reason: str) -> None:
        """Report why points or repetitions are missing."""
        self.request.reporter.say(f"missing: {reason}")
