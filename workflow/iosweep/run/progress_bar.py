"""Progress of an allocation: a line per repetition, and on a terminal a bar with the remaining time."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from iosweep.plan.model import Allocation, Point
from iosweep.results.committed import Result
from iosweep.run.request import Judged
from iosweep.text import human_count, printable
from iosweep.tools import parameters, tools
from iosweep.units import human_duration, human_size

_STYLE = {"valid": "green", "suspect": "yellow", "invalid": "red"}


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


class Display:
    """A Reporter that prints to the screen and to a log. The remaining time is the forecast, corrected by the pace so
    far.

    On a terminal, lines are wrapped, points are named by what differs between them, and the bar has the remaining time.
    Elsewhere each repetition is one line with the id of its point.
    """

    def __init__(self, console: Console, log: Console):
        self._console = console
        self._log = log
        self._explained: set[str] = set()
        self._labels: Mapping[str, str] = {}
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(24),
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
        self._labels = labels(allocation.points)
        self._bar.update(
            self._task, total=repetitions, description=allocation.name, togo=f"about {human_duration(cost_s)}"
        )
        # The log may end with the reason of an earlier run, which no longer holds.
        self._log.print(_now(), Text(f"begins: {human_count(repetitions, 'repetition')} left"), soft_wrap=True)

    def say(self, text: str) -> None:
        self._print(text, "    ")
        self._log.print(Text(printable(text)), soft_wrap=True)

    def _print(self, text: str, indent: str) -> None:
        """Print a text; on a terminal wrapped, with later lines indented."""
        if not self._console.is_terminal:
            self._console.print(Text(printable(text)), soft_wrap=True)
            return
        lead = text[: len(text) - len(text.lstrip())]
        words = [Text(word) for word in printable(text).split()]
        self._lines([Text(lead) + words[0], *words[1:]] if words else [], " ", indent)

    def _lines(self, items: Sequence[Text], between: str, indent: str) -> None:
        wide = self._console.width if self._console.is_terminal else None
        for line in wrapped(items, between, wide, indent):
            self._console.print(line, soft_wrap=True)

    def more(self, repetitions: int, cost_s: float) -> None:
        if repetitions:
            self._total += repetitions
            self._left_s = max(0.0, self._left_s + cost_s)
            self._bar.update(self._task, total=self._total)

    def finished(self, result: Result, judged: Mapping[str, Judged], cost_s: float) -> None:
        self._count += 1
        self._done_s += cost_s
        self._left_s = max(0.0, self._left_s - cost_s)
        togo_s = self._left_s * (time.monotonic() - self._started) / self._done_s if self._done_s else 0
        togo = f"{human_duration(togo_s)} to go" if self._count < self._total else ""
        phases = tools()[result.point.partition(".")[0]].phases
        figures = [_figure(p, value, judged[p][0], phases[p].metric) for p, value in result.headlines]
        done = f"{self._count:>4}/{self._total}"
        which = f"r{result.repetition}{' again' if result.retried else ''}"
        whole = [Text(f"{done} {result.point} {which}"), *figures]
        if self._console.is_terminal:
            name = self._labels.get(result.point, result.point)
            self._lines([Text(" ".join(filter(None, [done, name, which]))), *figures], "  ", " " * (len(done) + 1))
        else:
            self._lines([*whole, *([Text(togo)] if togo else [])], "  ", "")
        self._log.print(_now(), Text("  ").join(whole), soft_wrap=True)
        for verdict, reasons in judged.values():
            for reason in reasons:
                self._explain(verdict, reason)
        self._bar.update(self._task, completed=self._count, togo=togo)

    def _explain(self, verdict: str, reason: str) -> None:
        """Print each reason once, whatever numbers are in it."""
        kind = re.sub(r"\d+", "", reason)
        if kind not in self._explained:
            self._explained.add(kind)
            line = f"          {verdict}: {reason}"
            self._print(line, " " * 12)
            self._log.print(Text(printable(line)), soft_wrap=True)


def wrapped(items: Iterable[Text], between: str, width: int | None, indent: str) -> list[Text]:
    """Items in lines of at most `width` cells, broken only between items; a wider item has a line of its own.

    Lines after the first begin with `indent`. `width` None: one line.
    """
    lines: list[Text] = []
    for item in items:
        if lines and (width is None or lines[-1].cell_len + len(between) + item.cell_len <= width):
            lines[-1] = Text.assemble(lines[-1], between, item)
        else:
            lines.append(Text.assemble(indent if lines else "", item))
    return lines


def labels(points: Sequence[Point]) -> dict[str, str]:
    """Point id -> what distinguishes it from the others, in brief: `4t 1m qd4`; empty if there is one point only.

    Phases are left out, because a line has them with their figures.
    """
    brief = {point.id: _brief(point) for point in points}
    vary = [len(set(parts)) > 1 for parts in zip(*brief.values(), strict=True)]
    in_id = {option.name for option in parameters().values() if option.id_form}
    found = {
        id: [part for part, varies in zip(parts, vary, strict=True) if part and varies] for id, parts in brief.items()
    }
    alike: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        alike.setdefault((point.tool, tuple(point.phases), *found[point.id]), []).append(point)
    for several in alike.values():
        names = sorted({name for point in several for name in point.options if name not in in_id})
        for name in names if len(several) > 1 else ():
            if len({point.options.get(name) for point in several}) > 1:
                for point in several:
                    found[point.id].append(f"{name}={_value(point, name)}")
    texts = {id: " ".join(parts) for id, parts in found.items()}
    count = Counter((point.tool, tuple(point.phases), texts[point.id]) for point in points)
    for point in points:
        if count[point.tool, tuple(point.phases), texts[point.id]] > 1:  # they differ in the phase time
            texts[point.id] = f"{texts[point.id]} {point.id.rpartition('.')[2]}".strip()
    return texts


def _now() -> Text:
    return Text(f"{datetime.now().astimezone():%F %T%z}")


def _brief(point: Point) -> tuple[str, ...]:
    """The parts of an id: tool, nodes, axes; "" for those that a point does not have."""
    forms = [option for option in parameters().values() if option.id_form]
    own = (o.id_form.format(_value(point, o.name)) if o.name in point.options else "" for o in forms)
    return (point.tool, f"{point.nodes}n", *own)


def _value(point: Point, name: str) -> str:
    value = point.options.get(name)
    return "-" if value is None else tools()[point.tool].options[name].text(value)


def _figure(phase: str, value: float | None, verdict: str, metric: str) -> Text:
    if value is None:
        text = "-"
    else:
        text = f"{human_size(value)}/s" if metric == "bandwidth_bytes_per_s" else f"{value:,.0f}/s"
    mark = "" if verdict == "valid" else f" {verdict}"
    return Text.assemble(f"{phase} ", (f"{text}{mark}", _STYLE[verdict]))
