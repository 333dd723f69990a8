"""A history as one HTML file, in the report's style and as closed as that (html.py). Its drawings are SVG alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from iosweep.analysis import formats
from iosweep.analysis import history as words
from iosweep.analysis.history import History, Line
from iosweep.report import html

#: Size of a drawing in its own units, with room for the axis.
_WIDTH, _HEIGHT, _LEFT, _TOP = 720.0, 170.0, 112.0, 14.0
_BOTTOM = _HEIGHT - 24.0


@dataclass(frozen=True)
class Dot:
    """A night: its figure with the interval of its repetitions, in units of the drawing."""

    x: float
    y: float
    low: float
    high: float
    suspect: bool
    text: str


@dataclass(frozen=True)
class Drawn:
    """A headline. levels: (from x, to x, y); marks: (x, what is new then); ticks: (y, figure); dates: (x, date)."""

    line: Line
    where: str
    last: str
    level: str
    style: str
    steps: tuple[tuple[str, str, str, str], ...]  # date, change, verdict, what changed then
    dots: tuple[Dot, ...]
    levels: tuple[tuple[float, float, float], ...]
    marks: tuple[tuple[float, str], ...]
    ticks: tuple[tuple[float, str], ...]
    dates: tuple[tuple[float, str], ...]


def render(found: History) -> str:
    """A history as HTML text."""
    from markupsafe import Markup

    style = html.read("page.css") + html.read("history.css")
    return (
        html.environment()
        .get_template("history.html")
        .render(
            policy=html.policy(style),
            style=Markup(style),  # noqa: S704  our own files
            data="",
            scripts=[],
            history=found,
            sentence=words.sentence(found),
            lines=[_drawn(found, line) for line in found.lines],
            news=_news(found),
            width=_WIDTH,
            height=_HEIGHT,
            left=_LEFT,
            top=_TOP,
            bottom=_BOTTOM,
        )
    )


def _news(found: History) -> list[tuple[str, str, str]]:
    """(date, campaign, what is new) of the nights with something new, the newest first."""
    return [
        (f"{found.nights[index].began:%Y-%m-%d}", found.nights[index].name, words.changed(found.marks[index]))
        for index in sorted(found.marks, reverse=True)
    ]


def _drawn(found: History, line: Line) -> Drawn:
    times = [one.began.timestamp() for one in found.nights]
    span = max(times[-1] - times[0], 1.0)

    def x(index: int) -> float:
        return round(_LEFT + 8 + (_WIDTH - _LEFT - 24) * (times[index] - times[0]) / span, 1)

    ends = [value for one in line.figures for value in _ends(line, one.index)]
    least, most = min(ends), max(ends)
    room = max((most - least) * 0.08, most * 0.005)
    least, most = max(0.0, least - room), most + room

    def y(value: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * (min(max(value, least), most) - least) / (most - least), 1)

    dots = []
    for one in line.figures:
        low, high = _ends(line, one.index)
        figure = formats.quantity(one.value, line.units)
        name = f"{found.nights[one.index].began:%Y-%m-%d} {found.nights[one.index].name}: {figure}"
        dots.append(Dot(x(one.index), y(one.value), y(low), y(high), one.suspect, name))
    return Drawn(
        line,
        formats.brief(line.result),
        formats.quantity(line.last.value, line.units),
        words.level(line),
        "invalid" if line.regressed else "valid",
        tuple(
            (words.when(found, step.night), words.moved(step), words.verdict(step), words.changed(step.changed))
            for step in line.steps
        ),
        tuple(dots),
        tuple((x(a), x(b), y(mean)) for a, b, mean in _levels(line)),
        tuple((x(index), words.changed(told)) for index, told in sorted(found.marks.items())),
        tuple((y(value), formats.quantity(value, line.units)) for value in (least + room, most - room)),
        _dates([(x(index), found.nights[index].began) for index in dict.fromkeys((0, len(times) - 1))]),
    )


def _dates(ends: Sequence[tuple[float, datetime]]) -> tuple[tuple[float, str], ...]:
    """The dates below a drawing; where all of it is of one day, with the times."""
    form = "%Y-%m-%d" if len({moment.date() for _, moment in ends}) > 1 else "%Y-%m-%d %H:%M"
    return tuple((x, moment.strftime(form)) for x, moment in ends)


def _ends(line: Line, index: int) -> tuple[float, float]:
    """The ends of a night's interval; its figure where it has none, or one that would hide all others."""
    one = next(figure for figure in line.figures if figure.index == index)
    own = one.statistics.interval
    if own is None or own.half_width_share > 0.5:
        return one.value, one.value
    return own.low, own.high


def _levels(line: Line) -> list[tuple[int, int, float]]:
    """(first night, last night, mean) of each level."""
    edges = [line.figures[0].index, *(step.night for step in line.steps), line.figures[-1].index + 1]
    found = []
    for begin, end in pairwise(edges):
        own = [one for one in line.figures if begin <= one.index < end]
        found.append((own[0].index, own[-1].index, sum(one.value for one in own) / len(own)))
    return found
