"""Progress of an allocation on a terminal: a line per repetition, and a bar with the remaining time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from iosweep.plan.model import Allocation, Point
from iosweep.results.committed import Result
from iosweep.run.progress_lines import Figure, Lines
from iosweep.run.request import Judged
from iosweep.tools import parameters, tools
from iosweep.units import human_duration

_STYLE = {"valid": "green", "suspect": "yellow", "invalid": "red"}


class Bar(Lines):
    """Lines are wrapped, and points are named by what differs between them."""

    def __init__(self, console: Console, log: TextIO):
        super().__init__(None, log)
        self._console = console
        self._labels: Mapping[str, str] = {}
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[togo]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, togo="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, allocation: Allocation, repetitions: int, cost_s: float) -> None:
        super().begin(allocation, repetitions, cost_s)
        self._labels = labels(allocation.points)
        self._bar.update(
            self._task, total=repetitions, description=allocation.name, togo=f"about {human_duration(cost_s)}"
        )

    def show(self, text: str, indent: str) -> None:
        lead = text[: len(text) - len(text.lstrip())]
        words = [Text(word) for word in text.split()]
        self._print([Text(lead) + words[0], *words[1:]] if words else [], " ", indent)

    def show_repetition(self, done: str, result: Result, which: str, figures: Sequence[Figure], togo: str) -> None:
        name = self._labels.get(result.point, result.point)
        styled = [Text.assemble(f"{figure.phase} ", (figure.text, _STYLE[figure.verdict])) for figure in figures]
        self._print([Text(" ".join(filter(None, [done, name, which]))), *styled], "  ", " " * (len(done) + 1))
        self._bar.update(self._task, togo=togo)

    def _print(self, items: Sequence[Text], between: str, indent: str) -> None:
        for line in wrapped(items, between, self._console.width, indent):
            self._console.print(line, soft_wrap=True)

    def more(self, repetitions: int, cost_s: float) -> None:
        super().more(repetitions, cost_s)
        self._bar.update(self._task, total=self._total)

    def finished(self, result: Result, judged: Mapping[str, Judged], cost_s: float) -> None:
        super().finished(result, judged, cost_s)
        self._bar.update(self._task, completed=self._count)


def wrapped(items: Iterable[Text], between: str, width: int, indent: str) -> list[Text]:
    """Items in lines of at most `width` cells, broken only between items; a wider item has a line of its own.

    Lines after the first begin with `indent`.
    """
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + len(between) + item.cell_len <= width:
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


def _brief(point: Point) -> tuple[str, ...]:
    """The parts of an id: tool, nodes, axes; "" for those that a point does not have."""
    forms = [option for option in parameters().values() if option.id_form]
    own = (o.id_form.format(_value(point, o.name)) if o.name in point.options else "" for o in forms)
    return (point.tool, f"{point.nodes}n", *own)


def _value(point: Point, name: str) -> str:
    value = point.options.get(name)
    return "-" if value is None else tools()[point.tool].options[name].text(value)
