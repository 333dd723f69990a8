"""Prints the progress of an allocation: measured results, missing points and the time to go."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any, TextIO

from iosweep.store.record import Record
from iosweep.text import human_count, printable
from iosweep.tools import tools
from iosweep.units import human_duration, human_rate, local_time


class DetachedStream:
    """A stream that ignores the end of its reader (a pager, a terminal); the log has everything."""

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
    """Prints progress to the screen and to a log; point ids have no hash on the screen. The remaining time is the
    forecast, scaled by the pace so far.
    """

    def __init__(self, screen: TextIO | DetachedStream, log: TextIO):
        self._screen, self._log = screen, log
        self._explained: set[str] = set()
        self._total = self._count = 0
        self._left_s = self._done_s = 0.0
        self._started = time.monotonic()

    @property
    def done(self) -> str:
        """`14 of 21`"""
        return f"{self._count:,} of {self._total:,}"

    def begin(self, repetitions: int, cost_s: float) -> None:
        self._total, self._left_s, self._started = repetitions, cost_s, time.monotonic()
        # separates this run from the error of an earlier one
        print(
            f"{local_time():%F %T%z} begins: {human_count(repetitions, 'repetition')} left", file=self._log, flush=True
        )

    def say(self, text: str) -> None:
        for stream in (self._screen, self._log):
            print(printable(text), file=stream, flush=True)

    def more(self, repetitions: int, cost_s: float) -> None:
        if repetitions:
            self._total += repetitions
            self._left_s = max(0.0, self._left_s + cost_s)

    def finished(self, record: Record, cost_s: float) -> None:
        self._count += 1
        self._done_s += cost_s
        self._left_s = max(0.0, self._left_s - cost_s)
        remaining_s = self._left_s * (time.monotonic() - self._started) / self._done_s if self._done_s else 0
        remaining = f"{human_duration(remaining_s)} to go" if self._count < self._total else ""
        phases = tools()[record.point.partition(".")[0]].phases
        figures = [_figure(r.phase, r.headline, r.verdict, phases[r.phase].metric) for r in record.rows]
        counted = f"{self._count:>4}/{self._total}"
        repetition = f"r{record.repetition}{' again' if record.attempt > 1 else ''}"
        point = record.point.rpartition(".")[0]
        screen_line = "  ".join([f"{counted} {point} {repetition}", *figures, *([remaining] if remaining else [])])
        print(screen_line, file=self._screen, flush=True)
        log_line = "  ".join([f"{local_time():%F %T%z} {counted} {record.point} {repetition}", *figures])
        print(log_line, file=self._log, flush=True)
        for row in record.rows:
            for reason in row.reasons:  # each reason once, regardless of its numbers
                if (wording := re.sub(r"\d+", "", reason)) not in self._explained:
                    self._explained.add(wording)
                    self.say(f"          {row.verdict}: {reason}")

    def note(self, *texts: str | None) -> None:
        """Print notes; None is skipped."""
        for text in filter(None, texts):
            self.say(f"note: {text}")


def _figure(phase: str, value: float | None, verdict: str, metric: str) -> str:
    """The figure of a phase, with its verdict if that is not `valid`."""
    text = "-" if value is None else human_rate(value, metric == "bandwidth_bytes_per_s")
    return f"{phase} {text}" + (f" {verdict}" if verdict != "valid" else "")
