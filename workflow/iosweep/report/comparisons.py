"""The pages of `compare` and `history`, in the style of the report (page.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from iosweep.analysis import comparison, formats
from iosweep.analysis import history as words
from iosweep.analysis.comparison import Comparison, Difference, Verdict, Versus
from iosweep.analysis.history import History, Line, Reading
from iosweep.report import page

# two campaigns

#: Half width of the drawing of an interval, in drawing units.
_HALF = 100.0
#: Possible changes at the ends of a drawing, as shares: to hold all intervals; else to hold the changes.
_NARROW, _WIDE = (0.05, 0.10, 0.15, 0.20, 0.25), (0.25, 0.5, 1.0)
#: Verdict -> CSS class with its color.
_CLASSES: dict[Verdict, str] = {
    "worse": "invalid", "better": "valid", "differs": "suspect", "same": "missing", "undecided": "missing",
}  # fmt: skip


def compare_page(found: Sequence[Versus]) -> str:
    """One or more comparisons as HTML."""
    sides = [found[0].a, *(one.b for one in found if not one.within)]
    return page.page(
        "comparison", title=comparison.title(found), sides=sides, parts=list(map(_part, found)), half=_HALF
    )


def _part(versus: Versus) -> dict[str, object]:
    """Values of a comparison for the template. matters: half width of the band of differences that do not matter, in
    drawing units; edge: the change at the ends of the drawing, `±10 %`."""
    found = versus.found
    # the ends of the drawings hold all intervals; if these exceed 25 %, the certain changes
    drawn = [one.estimate for one in (*found.groups, *found.singles) if one.estimate and one.estimate.tells]
    widest = max((abs(end) for estimate in drawn for end in comparison.ends(estimate)), default=0.0)
    steps: tuple[float, ...] = _NARROW
    if widest > _NARROW[-1]:
        certain = [one.estimate for one in found.explained if one.estimate and one.estimate.tells]
        widest, steps = max(abs(estimate.share) for estimate in certain or drawn), _WIDE
    edge = next((step for step in steps if widest <= step), steps[-1])
    singles = sorted(found.singles, key=lambda one: list(comparison.SYMBOLS).index(one.verdict))
    return {
        "versus": versus,
        "title": comparison.title([versus]),
        "sentence": comparison.sentence(found),
        "caution": comparison.caution(versus),
        "counts": [(_CLASSES[verdict], count, name) for verdict, count, name in comparison.count_verdicts(found)],
        "changed": [_strip(found, one, edge) for one in found.explained],
        "each": [_strip(found, one, edge) for one in singles],
        "matters": _HALF * min(1.0, found.at_least / edge),
        "edge": f"±{100 * edge:.0f} %",
        "notes": list(comparison.notes(versus)),
    }


def _strip(found: Comparison, one: Difference, edge: float) -> dict[str, object]:
    """A row of a table of differences. low, middle, high: in drawing units, middle is None without an interval; below,
    above: whether the interval extends beyond the drawing."""
    row: dict[str, object] = {
        "name": comparison.subject(found, one),
        "figures": comparison.figures(one, found.column),
        "change": comparison.describe_change(found, one),
        "verdict": f"no difference > {100 * found.at_least:g} %" if one.verdict == "same" else one.verdict,
        "style": _CLASSES[one.verdict],
        "symbol": comparison.SYMBOLS[one.verdict],
        "suspect": one.suspect,
        "middle": None,
    }
    if one.estimate is None or not one.estimate.tells:
        return row
    least, most = comparison.ends(one.estimate)
    low, middle, high = (_HALF * max(-1.0, min(1.0, end / edge)) for end in (least, one.estimate.share, most))
    return row | {"low": low, "middle": middle, "high": high, "below": least < -edge, "above": most > edge}


# campaigns over time

#: Size of a drawing in drawing units, with room for the axis.
_WIDTH, _HEIGHT, _LEFT, _TOP = 720.0, 170.0, 112.0, 14.0
_BOTTOM = _HEIGHT - 24.0


def history_page(found: History) -> str:
    """A history as HTML."""
    return page.page(
        "history",
        history=found,
        sentence=words.sentence(found),
        lines=[_drawn(found, line) for line in found.lines],
        news=[  # the newest first
            (f"{found.campaigns[i].began:%Y-%m-%d}", found.campaigns[i].name, words.changed(found.marks[i]))
            for i in sorted(found.marks, reverse=True)
        ],
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        top=_TOP,
        bottom=_BOTTOM,
    )


def _drawn(found: History, line: Line) -> dict[str, object]:
    """Values of a headline for the template, in drawing units. dots: campaigns with the interval of their repetitions;
    levels: (from x, to x, y); marks: (x, changed facts of the campaign); ticks: (y, figure); dates: (x, date)."""
    times = [one.began.timestamp() for one in found.campaigns]
    span = max(times[-1] - times[0], 1.0)
    ends = [end for reading in line.figures for end in _interval(reading)]
    room = max((max(ends) - min(ends)) * 0.08, max(ends) * 0.005)
    least, most = max(0.0, min(ends) - room), max(ends) + room

    def x(index: int) -> float:
        return round(_LEFT + 8 + (_WIDTH - _LEFT - 24) * (times[index] - times[0]) / span, 1)

    def y(value: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * (min(max(value, least), most) - least) / (most - least), 1)

    dots = []
    for one in line.figures:
        low, high = _interval(one)
        campaign = found.campaigns[one.index]
        text = f"{campaign.began:%Y-%m-%d} {campaign.name}: {formats.quantity(one.value, line.units)}"
        dot = {"x": x(one.index), "y": y(one.value), "low": y(low), "high": y(high), "suspect": one.suspect}
        dots.append(dot | {"text": text})
    levels = []
    for begin, end in pairwise([line.figures[0].index, *(step.at for step in line.steps), len(times)]):
        own = [one for one in line.figures if begin <= one.index < end]
        levels.append((x(own[0].index), x(own[-1].index), y(sum(one.value for one in own) / len(own))))
    first, last = found.campaigns[0].began, found.campaigns[-1].began
    form = "%Y-%m-%d" if first.date() != last.date() else "%Y-%m-%d %H:%M"
    return {
        "line": line,
        "where": formats.brief(line.result),
        "last": formats.quantity(line.last.value, line.units),
        "level": words.level(line),
        "steps": [
            (
                found.campaigns[step.at].when,
                step.moved,
                step.verdict,
                words.changed(step.changed),
            )
            for step in line.steps
        ],
        "dots": dots,
        "levels": levels,
        "marks": [(x(index), words.changed(news)) for index, news in sorted(found.marks.items())],
        "ticks": [(y(value), formats.quantity(value, line.units)) for value in (least + room, most - room)],
        "dates": [
            (x(index), found.campaigns[index].began.strftime(form)) for index in dict.fromkeys((0, len(times) - 1))
        ],
    }


def _interval(one: Reading) -> tuple[float, float]:
    """Ends of a campaign's interval; the figure itself without an interval, or if a wide one would hide the others."""
    own = one.metric.interval
    return (one.value, one.value) if own is None or own.half_width_share > 0.5 else (own.low, own.high)
