"""What a person sees while an allocation runs: a line per repetition, and a bar with the time to go on a terminal."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from iosweep.plan import Allocation
from iosweep.repetition import Judged
from iosweep.store import Result
from iosweep.tools import tools
from iosweep.units import human_duration, human_size, printable

_STYLE = {"valid": "green", "suspect": "yellow", "invalid": "red"}


class Lasting:
    """A stream whose reader may end (a pager, a terminal): what is measured goes on, and the log has all of it."""

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


class Display:
    """A runner.Watcher that prints, to a person and to a log. The time to go is the forecast of what is left, corrected
    by the pace so far."""

    def __init__(self, console: Console, log: Console):
        self._console = console
        self._log = log
        self._told: set[str] = set()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(40),
            MofNCompleteColumn(),
            TextColumn("{task.fields[togo]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, togo="")
        self._total = self._count = 0
        self._left_s = self._done_s = 0.0
        self._started = time.monotonic()

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, allocation: Allocation, repetitions: int, cost_s: float) -> None:
        self._total, self._left_s, self._started = repetitions, cost_s, time.monotonic()
        self._bar.update(
            self._task, total=repetitions, description=allocation.name, togo=f"about {human_duration(cost_s)}"
        )

    def say(self, text: str) -> None:
        for console in (self._console, self._log):
            console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def more(self, repetitions: int, cost_s: float) -> None:
        if repetitions > 0:
            self._total += repetitions
            self._left_s += cost_s
            self._bar.update(self._task, total=self._total)

    def finished(self, result: Result, judged: Mapping[str, Judged], cost_s: float) -> None:
        self._count += 1
        self._done_s += cost_s
        self._left_s = max(0.0, self._left_s - cost_s)
        togo_s = self._left_s * (time.monotonic() - self._started) / self._done_s if self._done_s else 0
        togo = f"{human_duration(togo_s)} to go" if self._count < self._total else ""
        phases = tools()[result.point.partition(".")[0]].phases
        figures = "  ".join(_figure(p, value, judged[p][0], phases[p].metric) for p, value in result.headlines)
        name = f"{result.point} r{result.repetition}{' again' if result.retried else ''}"
        line = f"[dim]{self._count:>4}/{self._total}[/dim] {name}  {figures}"
        self._console.print(f"{line}  [dim]{togo}[/dim]", highlight=False, soft_wrap=True)
        self._log.print(f"{datetime.now().astimezone():%F %T%z} {line}", highlight=False, soft_wrap=True)
        for verdict, reasons in judged.values():
            for reason in reasons:
                self._explain(verdict, reason)
        self._bar.update(self._task, completed=self._count, togo=togo)

    def _explain(self, verdict: str, reason: str) -> None:
        """Say each reason once, whatever numbers are in it."""
        kind = re.sub(r"\d+", "", reason)
        if kind not in self._told:
            self._told.add(kind)
            self.say(f"          {verdict}: {reason}")


def _figure(phase: str, value: float | None, verdict: str, metric: str) -> str:
    if value is None:
        text = "-"
    else:
        text = f"{human_size(value)}/s" if metric == "bandwidth_bytes_per_s" else f"{value:,.0f}/s"
    mark = "" if verdict == "valid" else f" {verdict}"
    return f"{phase} [{_STYLE[verdict]}]{text}{mark}[/]"
