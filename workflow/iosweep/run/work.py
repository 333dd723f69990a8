"""`Request`: what is to be measured in one allocation, and how; `Setup`: what is open meanwhile; `Work`: the
repetitions that are left, and results of another tool or target, which are measured again."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

from iosweep.judge import remaining
from iosweep.plan.forecast import Cost, repetition_cost
from iosweep.plan.launchers import Launcher
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.programs.programs import Program
from iosweep.programs.spack import Built
from iosweep.run.agents import RemoteAgents
from iosweep.slurm import query
from iosweep.store.record import Missing, Record, RecordHead
from iosweep.store.store import Store
from iosweep.target.agent import Agent
from iosweep.text import human_count, printable
from iosweep.tools import tools
from iosweep.units import human_duration, human_rate, local_time


class Reporter(Protocol):
    """Shows the progress of an allocation (progress.py)."""

    def begin(self, allocation: Allocation, repetitions: int, cost_s: float) -> None: ...
    def say(self, text: str) -> None: ...
    def finished(self, record: Record, cost_s: float) -> None: ...
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


#: point -> repetition -> its result, and point -> repetitions that are left.
Done = dict[str, dict[int, RecordHead]]
Left = dict[str, list[int]]


class Rest(NamedTuple):
    """Of this allocation, by point: numbers of the repetitions that are left; how many are still to come, as far as it
    can be said; why ramps do not need the others."""

    left: Left
    expected: dict[str, int]
    unneeded: dict[str, str]


@dataclass
class Work:
    """`here`: what this machine offers. `done`: the results of the campaign so far."""

    setup: Setup
    here: remaining.LocalMachine
    done: Done

    @cached_property
    def points(self) -> dict[str, Point]:
        return {point.id: point for point in self.setup.allocation.points}

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """Forecast of one repetition of each point."""
        bandwidth = self.setup.plan.target.node_bandwidth
        return {id: repetition_cost(point, bandwidth) for id, point in self.points.items()}

    def rest(self) -> Rest:
        """What is left to measure, by the results so far."""
        request, missing = self.setup.request, self.setup.store.missing()
        found = remaining.find(request.plan, self.done, missing, self.here, request.only)
        name = request.name
        return Rest(found.left.get(name, {}), found.expected.get(name, {}), found.unneeded.get(name, {}))

    def seconds(self, todo: Mapping[str, int]) -> float:
        """Forecast of some repetitions. `todo`: point -> how many."""
        return sum(self.costs[point].time_s * count for point, count in todo.items())

    def disturbed(self, point: str, number: int) -> bool:
        """Whether a result counts, but another try may cure its failure."""
        result = self.done.get(point, {}).get(number)
        plan = self.setup.plan
        return bool(result and result.retry and remaining.current(result, plan, self.points[point], self.here))

    def outdated(self, todo: Left, programs: Mapping[str, Program]) -> list[str]:
        """Sentences on results that are measured again: those of other builds, and those of another target."""
        builds, targets = Counter[str](), Counter[str]()
        for point, numbers in todo.items():
            tool = self.points[point].tool
            for result in filter(None, map(self.done.get(point, {}).get, numbers)):
                if tool in programs and result.tool.sha256 != programs[tool].sha256:
                    builds[tool] += 1
                if remaining.elsewhere(result, self.here):
                    targets[_place(result.target.directory, result.target.facts)] += 1
        sentences = []
        if builds:
            sentences.append(f"measured again, because their tool is another build now: {_counted(builds)}")
        if targets and self.here.target:
            now = f"the target is {_place(self.setup.plan.target.directory, self.here.target)} now"
            sentences.append(f"measured again, because the target has changed: {_counted(targets)}; {now}")
        return sentences


def _counted(results: Counter[str]) -> str:
    """`2 results of fio, 1 result of ior`"""
    return ", ".join(f"{human_count(count, 'result')} of {name}" for name, count in sorted(results.items()))


def _place(directory: str, facts: Mapping[str, object]) -> str:
    """A target's directory, and the file system that it is on."""
    return f"{directory} on {facts.get('source')} ({facts.get('fstype')})"


# Lines of progress


class DetachedStream:
    """A stream whose reader may end (a pager, a terminal) without an error; the log has everything."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Lines:
    """A Reporter that prints to the screen and to a log, with the ids of points (on the screen without their hash). The
    remaining time is the forecast, corrected by the pace so far.
    """

    def __init__(self, screen: TextIO | DetachedStream, log: TextIO):
        self._screen, self._log = screen, log
        self._explained: set[str] = set()
        self._total = self._count = 0
        self._left_s = self._done_s = 0.0
        self._started = time.monotonic()

    def begin(self, allocation: Allocation, repetitions: int, cost_s: float) -> None:
        self._total, self._left_s, self._started = repetitions, cost_s, time.monotonic()
        # The log may end with the reason of an earlier run, which no longer holds.
        self._note(f"{_now()} begins: {human_count(repetitions, 'repetition')} left")

    def say(self, text: str) -> None:
        self._show(printable(text))
        self._note(printable(text))

    def more(self, repetitions: int, cost_s: float) -> None:
        if repetitions:
            self._total += repetitions
            self._left_s = max(0.0, self._left_s + cost_s)

    def finished(self, record: Record, cost_s: float) -> None:
        self._count += 1
        self._done_s += cost_s
        self._left_s = max(0.0, self._left_s - cost_s)
        togo_s = self._left_s * (time.monotonic() - self._started) / self._done_s if self._done_s else 0
        togo = f"{human_duration(togo_s)} to go" if self._count < self._total else ""
        phases = tools()[record.point.partition(".")[0]].phases
        figures = [_figure(r.phase, r.headline, r.verdict, phases[r.phase].metric) for r in record.rows]
        done = f"{self._count:>4}/{self._total}"
        which = f"r{record.repetition}{' again' if record.retried else ''}"
        short = record.point.rpartition(".")[0]
        self._show("  ".join([f"{done} {short} {which}", *figures, *([togo] if togo else [])]))
        self._note("  ".join([f"{_now()} {done} {record.point} {which}", *figures]))
        for row in record.rows:
            for reason in row.reasons:
                self._explain(row.verdict, reason)

    def _explain(self, verdict: str, reason: str) -> None:
        """Print each reason once, whatever numbers are in it."""
        kind = re.sub(r"\d+", "", reason)
        if kind not in self._explained:
            self._explained.add(kind)
            line = printable(f"          {verdict}: {reason}")
            self._show(line)
            self._note(line)

    def _show(self, line: str) -> None:
        print(line, file=self._screen, flush=True)

    def _note(self, line: str) -> None:
        print(line, file=self._log, flush=True)


def _now() -> str:
    return f"{local_time():%F %T%z}"


def _figure(phase: str, value: float | None, verdict: str, metric: str) -> str:
    """The figure of a phase, with its verdict if that is not `valid`."""
    text = "-" if value is None else human_rate(value, metric == "bandwidth_bytes_per_s")
    return f"{phase} {text}" + (f" {verdict}" if verdict != "valid" else "")
