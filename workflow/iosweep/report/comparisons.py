"""The pages of `compare` and `history`, in the style of the report (page.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from iosweep.analysis import comparison, formats
from iosweep.analysis import history as words
from iosweep.analysis.comparison import Comparison, Difference, NamedCampaign, Verdict, Versus
from iosweep.analysis.history import Headline, History
from iosweep.analysis.summary import Metric, geometric_mean
from iosweep.report import answer, page, quality

# two campaigns

#: Half width of the drawing of an interval, in drawing units.
_HALF = 100.0
#: Possible changes at the ends of a drawing, as shares.
_EDGES = (0.05, 0.10, 0.15, 0.20, 0.25, 0.5, 1.0)
#: Verdict -> CSS class with its color.
_CLASSES: dict[Verdict, str] = {
    "worse": "invalid", "better": "valid", "differs": "suspect", "same": "missing", "undecided": "missing",
}  # fmt: skip


def compare_page(found: Sequence[Versus]) -> str:
    """One or more comparisons as HTML."""
    sides = [(side, _facts(side)) for side in (found[0].a, *(one.b for one in found if not one.within))]
    return page.page(
        "comparison", title=comparison.title(found), sides=sides, parts=list(map(_part, found)), half=_HALF
    )


def _facts(side: NamedCampaign) -> list[str]:
    """What was measured, where and when."""
    period = formats.period(row.started for row in side.campaign.rows if row.started)
    return [side.campaign.about.on, answer.name_hosts(side.results), *quality.name_programs(side.campaign), period]


def _part(versus: Versus) -> dict[str, object]:
    """Values of a comparison for the template. matters: half width of the band of differences that do not matter, in
    drawing units; edge: the change at the ends of the drawing, `±10 %`."""
    found = versus.found
    # the ends of the drawings hold the intervals of the changes; without any, all intervals
    drawn = [one.estimate for one in found.explained or (*found.groups, *found.singles) if one.estimate]
    widest = max((abs(end) for one in drawn if one.tells for end in comparison.ends(one)), default=0.0)
    edge = next((step for step in _EDGES if widest <= step), _EDGES[-1])
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
        "least": f"below {100 * found.at_least:g} %",
        "notes": list(comparison.notes(versus)),
    }


def _strip(found: Comparison, one: Difference, edge: float) -> dict[str, object]:
    """A row of a table of differences. low, middle, high: in drawing units, middle is None without an interval; below,
    above: whether the interval extends beyond the drawing."""
    row: dict[str, object] = {
        "name": comparison.subject(found, one),
        "figures": comparison.figures(one, found.column),
        "change": comparison.describe_change(one),
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

#: Size of a drawing in drawing units, with room for the figures and names around it.
_WIDTH, _HEIGHT, _LEFT, _TOP = 720.0, 180.0, 112.0, 24.0
_RIGHT, _BOTTOM = _WIDTH - 12.0, _HEIGHT - 24.0


def history_page(found: History) -> str:
    """A history as HTML."""
    return page.page(
        "history",
        history=found,
        sentence=words.sentence(found),
        headlines=[_draw(found, line) for line in found.headlines],
        news=[(found.campaigns[index].when, words.changed(found.marks[index])) for index in sorted(found.marks)[::-1]],
        box={"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _RIGHT, "top": _TOP, "bottom": _BOTTOM},
    )


def _draw(found: History, line: Headline) -> dict[str, object]:
    """Values of a headline for the template, in drawing units: campaigns are at equal distances, because two may begin
    in one minute. dots: (x, y, ends of the interval, suspect,
    text); levels: (from x, to x, y); marks: (x, changed facts of the campaign)."""
    ends = {index: _ends(metric) for index, metric in line.figures.items()}
    least, most = min(low for low, _ in ends.values()), max(high for _, high in ends.values())

    def x(index: int) -> float:
        return round(_LEFT + 10 + (_RIGHT - _LEFT - 20) * index / (len(found.campaigns) - 1), 1)

    def y(value: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * (value - least) / (most - least or 1.0), 1)

    steps = found.steps_of(line)
    levels = []
    for begin, end in pairwise([0, *(step.shift.at for step in steps), len(found.campaigns)]):
        if own := {index: metric.figure for index, metric in line.figures.items() if begin <= index < end}:
            levels.append((x(min(own)), x(max(own)), y(geometric_mean(own.values()))))
    return {
        "name": line.name,
        "where": formats.brief(line.result),
        "last": line.last,
        "level": words.level(found, line),
        "told": [(_CLASSES[step.verdict], comparison.SYMBOLS[step.verdict], words.tell(found, step)) for step in steps],
        "ranges": [(x(step.shift.before), x(step.shift.latest), words.tell(found, step)) for step in steps],
        "dots": [
            (
                x(i),
                y(metric.figure),
                y(ends[i][0]),
                y(ends[i][1]),
                i in line.doubtful,
                f"{found.campaigns[i].when}: {formats.quantity(metric.figure, line.units)}",
            )
            for i, metric in line.figures.items()
        ],
        "levels": levels,
        "marks": [
            (x(index), f"{found.campaigns[index].name}: {words.changed(news)}") for index, news in found.marks.items()
        ],
        "ticks": [(y(end), formats.quantity(end, line.units)) for end in dict.fromkeys((least, most))],
        "dates": [f"{found.campaigns[index].began:%Y-%m-%d %H:%M}" for index in (0, -1)],
    }


def _ends(metric: Metric) -> tuple[float, float]:
    """The interval of a campaign's figure; the figure itself without one."""
    return (interval.low, interval.high) if (interval := metric.interval) else (metric.figure, metric.figure)
