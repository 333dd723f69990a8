"""A comparison of campaigns as one HTML file, in the style of the report and as closed as that (html.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iosweep.analysis import comparison_words as words
from iosweep.analysis.comparison import Comparison, Finding, Verdict, Versus, told
from iosweep.report import html

#: Half width of the drawing of an interval, in its own units.
_HALF = 100.0
#: The changes that drawings may end at, as shares: those that hold all intervals; then those that hold the changes.
_NARROW, _WIDE = (0.05, 0.10, 0.15, 0.20, 0.25), (0.25, 0.5, 1.0)
#: A verdict -> the class of the page's style that has its color.
_CLASSES: dict[Verdict, str] = {
    "regression": "invalid",
    "improvement": "valid",
    "same": "missing",
    "undecided": "suspect",
}


#: Verdicts in the order of the table.
_ORDER: tuple[Verdict, ...] = ("regression", "improvement", "undecided", "same")


@dataclass(frozen=True)
class Line:
    """A row of the table of results. low, middle, high: of the drawing, None where there is no interval. below, above:
    the interval goes on there."""

    name: str
    figures: tuple[str, str]
    change: str
    verdict: str
    style: str
    symbol: str
    suspect: bool
    more: str  # what would decide it: `3 more repetitions`
    low: float | None = None
    middle: float | None = None
    high: float | None = None
    below: bool = False
    above: bool = False


@dataclass(frozen=True)
class Part:
    """One campaign against the first. changed: what is worth a sentence; each: all results."""

    versus: Versus
    sentence: str
    sessions: tuple[str, ...]  # what is known of them
    heads: tuple[str, str]
    counts: tuple[tuple[str, int, str], ...]  # style, number, words
    changed: tuple[Line, ...]
    each: tuple[Line, ...]
    matters: float  # half width of the band of changes that do not matter, in units of the drawing
    edge: str  # what the drawing ends at: `±10 %`
    notes: tuple[str, ...]


def render(found: Sequence[Versus]) -> str:
    """The comparisons as HTML text. There is at least one."""
    from markupsafe import Markup

    style = html.read("page.css") + html.read("comparison.css")
    return (
        html.environment()
        .get_template("comparison.html")
        .render(
            policy=html.policy(style),
            style=Markup(style),  # noqa: S704  our own files
            data="",
            scripts=[],
            parts=[_part(one) for one in found],
            half=_HALF,
        )
    )


def _part(versus: Versus) -> Part:
    found = versus.found
    edge = _edge(found)
    changed = told(found)
    singles = sorted(found.singles, key=lambda one: _ORDER.index(one.verdict))
    return Part(
        versus,
        words.sentence(found),
        tuple(words.sessions_known(versus)),
        words.heads(versus),
        tuple((_CLASSES[verdict], found.count(verdict), name) for verdict, name in words.counted(found.at_least)),
        tuple(_line(found, one, edge) for one in changed),
        tuple(_line(found, one, edge) for one in singles),
        _HALF * min(1.0, found.at_least / edge),
        f"±{100 * edge:.0f} %",
        tuple(filter(None, _notes(versus))),
    )


def _notes(versus: Versus) -> list[str]:
    return [
        words.to_decide(versus.found),
        *words.absent(versus.found, versus.names),
        words.advice(versus.hint),
        *words.limits(versus.a.campaign, versus.b.campaign, versus.found),
    ]


def _edge(found: Comparison) -> float:
    """The change that the drawings end at, as a share: a multiple of 5 % that holds all intervals. Above 25 %, where
    intervals may have any width, what holds the changes that are certain, or all where none is, and 100 % at most."""
    drawn = [one for one in found.findings if one.change]
    ends = [abs(end) for one in drawn for end in _shares(one)]
    if narrow := [step for step in _NARROW if max(ends, default=0.0) <= step]:
        return narrow[0]
    certain = [one for one in drawn if one.verdict in ("regression", "improvement")]
    most = max(abs(one.change.share) for one in certain or drawn if one.change)
    return next((step for step in _WIDE if most <= step), _WIDE[-1])


def _line(found: Comparison, one: Finding, edge: float) -> Line:
    line = Line(
        name=words.brief(found, one),
        figures=words.figures(one, found.column),
        change=words.interval(one),
        verdict=words.verdict(one, found.at_least),
        style=_CLASSES[one.verdict],
        symbol=words.SYMBOLS[one.verdict],
        suspect=one.suspect,
        more=words.more(one, "more repetition"),
    )
    if one.change is None:
        return line
    shares = _shares(one)
    low, middle, high = (_HALF * max(-1.0, min(1.0, share / edge)) for share in shares)
    return replace(line, low=low, middle=middle, high=high, below=shares[0] < -edge, above=shares[2] > edge)


def _shares(one: Finding) -> tuple[float, float, float]:
    assert one.change is not None
    low, high = one.change.within()
    return low, one.change.share, high
