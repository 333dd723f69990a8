"""Criteria of acceptance -> pass, fail or undecided, each with its figure and the reason. Pure.

A figure passes or fails where its whole 95 % interval is on one side of the threshold: the true figure is then on the
other one with 2.5 % at most. docs/comparing.md has the rule, and how often it is wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from iosweep.analysis import findings, formats, headline
from iosweep.analysis.data import Campaign
from iosweep.analysis.findings import Why
from iosweep.analysis.headline import Best, Failed
from iosweep.analysis.summary import Metric, PointSummary, is_percentile, of_points
from iosweep.analysis.summary import outcome as outcome_of
from iosweep.config import criteria
from iosweep.config.criteria import DECIMAL, Criterion
from iosweep.config.selectors import Selector, Subject, matches
from iosweep.judge import statistics
from iosweep.judge.agreement import COUNTED
from iosweep.judge.reasons import REASONS
from iosweep.judge.statistics import ENOUGH, MOST_REPETITIONS, Interval
from iosweep.plan.headline_groups import load, suites_of, unfit
from iosweep.tables.columns import NOT_YET
from iosweep.text import human_count
from iosweep.tools import parameters

Outcome = Literal["pass", "fail", "undecided"]
SYMBOLS: Mapping[Outcome, str] = {"pass": "✓", "fail": "✕", "undecided": "?"}
#: The units of a figure whose threshold has one of them: a reader compares the two.
_DECIMAL = tuple(formats.Unit(unit.name, unit.size) for unit in DECIMAL)
#: The worst first: what is said of one criterion, and of several.
_SAID: Mapping[Outcome, tuple[str, str]] = {
    "fail": ("fails", "fail"),
    "undecided": ("is undecided", "are undecided"),
    "pass": ("passes", "pass"),
}


@dataclass(frozen=True)
class Decision:
    """What becomes of a criterion.

    why: what decided, in a clause or two, with the reasons of what is suspect or missing; notes: what else is to be
    known of the figure.
    value: the figure as the report has it, in the unit of its column, of a scaling the ratio; interval: what is
    compared with `limit`, the threshold in the same unit; results: the points that the figure is of, of a scaling two;
    repetitions: how many would decide, in all.
    """

    criterion: Criterion
    outcome: Outcome
    why: Why
    value: float | None = None
    interval: Interval | None = None
    limit: float | None = None
    results: tuple[PointSummary, ...] = ()
    repetitions: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """What decided, with the first of the reasons."""
        return self.why.text()

    @property
    def wanted(self) -> str:
        """The criterion, and the threshold that a reference makes: `read_iops >= 90 % of weka.cluster (354 k IOPS)`."""
        if self.criterion.threshold.of is None or self.limit is None:
            return self.criterion.text
        return f"{self.criterion.text} ({''.join(self._shown(self.limit))})"

    @property
    def figure(self) -> str:
        """`21.3 GiB/s (20.9 to 21.7, n = 5)`; "" without one."""
        if self.value is None:
            return ""
        value, unit = self._shown(self.value)
        if self.interval is None:
            return f"{value}{unit}"
        low, high = (self._shown(end, self.value)[0] for end in (self.interval.low, self.interval.high))
        return f"{value}{unit} ({low} to {high}, n = {self.interval.n})"

    @property
    def place(self) -> str:
        """Where it was measured; of a scaling where it is high, and where it is low."""
        return " against ".join(formats.brief(result, one=True) for result in reversed(self.results))

    def _shown(self, value: float, like: float | None = None) -> tuple[str, str]:
        """A value and its unit, which is the one that suits another value."""
        if scaling := self.criterion.selector.scaling:
            if self.criterion.efficiency:
                return formats.number(100 * value / (scaling.factor or 1)), " %"
            return formats.number(value), "x"
        about = self.criterion.selector.about
        kind = "metadata" if about.quantity == "rate" else "data"
        units = _DECIMAL if self.criterion.threshold.decimal else formats.units_of(about.column, kind)
        unit = formats.pick(units, value if like is None else like)
        return formats.number(value / unit.size), f" {unit.name}"


def of(campaign: Campaign, results: Sequence[PointSummary]) -> list[Decision]:
    """The decisions on the criteria that a campaign was planned with."""
    return decide(campaign.about.accept, campaign, results)


def decide(wanted: Iterable[Criterion], campaign: Campaign, results: Sequence[PointSummary]) -> list[Decision]:
    """The decision on each criterion, by the results of a campaign (`summarize`)."""
    asked = _Asked(
        headline.failed_checks(campaign.checks),
        suites_of(campaign.about.sweeps),
        again=campaign.about.ingested is None,
    )
    known = list(zip(results, subjects(results), strict=True))
    return [_decide(one, known, asked) for one in wanted]


def subjects(results: Sequence[PointSummary]) -> list[Subject]:
    """What selectors are matched against."""
    options = {column: option.name for column, option in parameters().items()}
    return [
        Subject(
            one.tool,
            one.phase,
            tuple(one.rows[0].sweeps.split(",")),
            {options.get(column, column): value for column, value in one.parameters.items()},
        )
        for one in of_points(results)
    ]


def sentence(decisions: Sequence[Decision]) -> str:
    """`4 criteria: 1 fails, 1 is undecided, 2 pass`"""
    parts = []
    for outcome, (one, many) in _SAID.items():
        if count := sum(decision.outcome == outcome for decision in decisions):
            parts.append(f"{count:,} {one if count == 1 else many}")
    return f"{human_count(len(decisions), 'criterion', 'criteria')}: {', '.join(parts)}"


def worst(decisions: Iterable[Decision]) -> Outcome:
    """fail if one fails, else undecided if one is."""
    return min((one.outcome for one in decisions), key=list(_SAID).index, default="pass")


@dataclass(frozen=True)
class Shared:
    """Reasons that several decisions share. which: `all 6`, `all 4 undecided`, `4 of 5 undecided`."""

    which: str
    reasons: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        return [f"{self.which}: {reason}" for reason in self.reasons]


def shared(decisions: Sequence[Decision]) -> Shared:
    """The reasons that all decisions share which have any, if these are two or more."""
    own = [one for one in decisions if one.why.causes]
    if len(own) < 2:
        return Shared("")
    others = [{text for text, _ in one.why.causes} for one in own[1:]]
    reasons = tuple(text for text, _ in own[0].why.causes if all(text in known for known in others))
    undecided = sum(one.outcome == "undecided" for one in decisions)
    if len(own) == len(decisions):
        return Shared(f"all {len(own):,}", reasons)
    if len(own) == undecided:
        return Shared(f"all {len(own):,} undecided", reasons)
    return Shared(f"{len(own):,} of {undecided:,} undecided", reasons)


def more(decisions: Sequence[Decision], apart: Sequence[str]) -> tuple[int, int]:
    """Notes on the decisions, and reasons that are not named beside them. apart: reasons that are named above."""
    return sum(len(one.notes) for one in decisions), sum(one.why.hidden(apart) for one in decisions)


def document(one: Decision) -> dict[str, object]:
    """A decision for JSON: SI base units, ratios as fractions."""
    found = one.interval
    return {
        "name": one.criterion.name,
        "figure": one.criterion.selector.text,
        "threshold": one.criterion.threshold.text,
        "outcome": one.outcome,
        "reason": one.reason,
        "reasons": [text for text, _ in one.why.causes],
        "notes": list(one.notes),
        "value": one.value,
        "ci95_low": found.low if found else None,
        "ci95_high": found.high if found else None,
        "n": found.n if found else None,
        "limit": one.limit,
        "column": None if one.criterion.selector.scaling else one.criterion.selector.about.column,
        "points": [result.point for result in one.results],
        "repetitions_that_decide": one.repetitions,
    }


class _Undecided(Exception):
    """There is nothing to compare. The message says why. result: the point that a figure should have come from."""

    def __init__(self, why: Why | str, results: tuple[PointSummary, ...] = (), value: float | None = None):
        self.results, self.value = results, value
        self.why = Why(why) if isinstance(why, str) else why
        super().__init__(self.why.text())


@dataclass(frozen=True)
class _Asked:
    """What decisions are made with. suites: sweep -> the suite that it is of, not scaled; again: whether the
    campaign can measure more; one that was ingested cannot."""

    fails: Failed
    suites: Mapping[str, str]
    again: bool


@dataclass(frozen=True)
class _Side:
    """A figure that is compared, or one of two. absent: points without a figure, of which one may be better; at: which
    of two, else ""."""

    best: Best
    figure: Metric
    interval: Interval
    value: float
    absent: tuple[PointSummary, ...]
    at: str

    @property
    def alike(self) -> int:
        """Of how many points that cannot be told apart the figure is the best, and may be so by luck."""
        return 1 if self.best.confirmed else 1 + len(self.best.alike)


_Known = Sequence[tuple[PointSummary, Subject]]


def _decide(criterion: Criterion, known: _Known, asked: _Asked) -> Decision:
    selector = criterion.selector
    try:
        if wrong := unfit(selector, [subject for _, subject in known]):
            raise _Undecided(wrong)
        own = [[one for one in known if matches(side, one[1])] for side in selector.sides()]
        limit, compared = _limit(criterion, asked.suites, own)
        sides = [
            _side(side, results, asked, selector.scaling is not None)
            for side, results in zip(selector.sides(), compared, strict=True)
        ]
        return _compared(criterion, sides, asked, limit)
    except _Undecided as nothing:
        value = nothing.value if selector.scaling is None else None  # the figure of one side is no ratio
        return Decision(criterion, "undecided", nothing.why, value, results=nothing.results)


def _limit(
    criterion: Criterion, suites: Mapping[str, str], own: Sequence[_Known]
) -> tuple[float, Sequence[Sequence[PointSummary]]]:
    """The threshold, and the results that are compared with it: of a published figure, those measured in its way. Of
    several systems the best one counts."""
    threshold, scaling = criterion.threshold, criterion.selector.scaling
    results = [[result for result, _ in side] for side in own]
    if threshold.of is None:
        growth = ((scaling and scaling.factor) or 1) if criterion.efficiency else 1
        return threshold.value * growth, results
    found = [
        (figure.value, alike)
        for figure in criteria.published_named(threshold.of, criterion.selector)
        if (alike := [result for result, subject in own[0] if criteria.compares(figure, subject, suites)])
    ]
    if not found:
        raise _Undecided(f"nothing is measured as {threshold.of} was: a test of that suite, not scaled")
    best = min if criterion.selector.about.lowest else max
    value, alike = best(found, key=lambda one: one[0])
    return threshold.value * value, [alike]


def _side(selector: Selector, results: Sequence[PointSummary], asked: _Asked, named: bool) -> _Side:
    """The figure of the best of some points, as headlines are chosen. Raises _Undecided without an interval."""
    column, lowest = selector.about.column, selector.about.lowest
    fails = asked.fails
    found = headline.lowest_latency(results, fails) if lowest else headline.highest(results, fails, column)
    if found is None:
        raise _Undecided(_why(results).after("no figure: "), tuple(results[:1]) if len(results) == 1 else ())
    figure = found.figures.get(column)
    if figure is None:
        raise _Undecided(f"its repetitions have no {selector.figure} (too few I/Os beyond it)", (found.result,))
    value = figure.median if is_percentile(column) else figure.mean
    if figure.interval is None:
        why = _no_interval(found, figure, asked.again)
        if suspect := _suspect(found, fails):  # more repetitions like these decide nothing
            why = suspect.after(f"{_no_interval(found, figure, again=False).clause}; besides, ")
        raise _Undecided(why, (found.result,), value)
    least = load(found.result.parameters["queue_depth"], found.result.nodes)
    rivals = [one for one in results if not lowest or load(one.parameters["queue_depth"], one.nodes) <= least]
    absent = tuple(one for one in rivals if column not in one.metrics and one.state != "unneeded")
    return _Side(found, figure, figure.interval, value, absent, selector.where[-1].text if named else "")


def _why(results: Sequence[PointSummary]) -> Why:
    """Why points have no figure: `not measured yet`, `2 points invalid: ...`."""
    states = Counter(result.state for result in results)
    if set(states) == {"left"}:
        why = findings.why_of(results, NOT_YET)
        return Why(NOT_YET) if [text for text, _ in why.causes] == [NOT_YET] else why
    return findings.why_of(results, ", ".join(f"{human_count(n, 'point')} {state}" for state, n in states.items()))


def _no_interval(found: Best, figure: Metric, again: bool) -> Why:
    if figure.n < ENOUGH:
        kind, counts = ("fresh repetition" if found.confirmed else "repetition"), "counts" if figure.n == 1 else "count"
        few = f"{human_count(figure.n, kind)} that {counts}, and an interval needs {ENOUGH}"
        if absent := _absent(found):
            return absent.after(f"{few}: ")
        return Why(f"{few}: {_set(found, ENOUGH)}" if again else few)
    if found.result.host_sets > 1 and not found.result.in_turn:
        return Why("its repetitions ran on different nodes, so they have no interval")
    return Why("a repetition has a figure of zero, so there is no interval")


def _absent(found: Best) -> Why | None:
    """What becomes of the repetitions that a figure lacks: `the next run measures more`, or which limit has stopped the
    campaign; None where it lacks none."""
    own = [row for row in found.result.rows if row.verdict == "missing" and bool(row.confirms) == found.confirmed]
    rows = [row for row in own if outcome_of(row) != "unneeded"]
    reasons = [(row.reasons or "").split(REASONS) for row in rows if row.reasons and row.reasons != NOT_YET]
    if not reasons:
        return Why("the next run measures more") if rows else None
    return Why(f"{human_count(len(reasons), 'repetition')} missing", findings.causes(reasons))


def _set(found: Best, repetitions: int) -> str:
    return f"set `{'confirm' if found.confirmed else 'repetitions'}` to {repetitions:,} or more"


def _compared(criterion: Criterion, sides: Sequence[_Side], asked: _Asked, limit: float) -> Decision:
    """The decision by the interval of a figure, or of the ratio of two."""
    low, high = sides[0], sides[-1]
    value, found = high.value, high.interval
    alike = high.alike
    if low is not high:
        value = high.value / low.value
        found = statistics.between(high.interval, low.interval)
        alike += low.alike - 1
    wide = statistics.of_best(found, alike) if alike > 1 else found
    outcome, reason = _by_interval(criterion, wide, limit)
    why = Why(reason)
    doubt = _doubt(sides, asked.fails, outcome == "undecided" or _overturned(criterion, outcome))
    needed = None
    notes: list[str] = []
    if outcome == "undecided":
        needed = None if _at(found, limit) else statistics.enough(found, limit, alike)
        weakest = max(sides, key=lambda side: side.interval.half_width_share)
        more = _more(weakest.best, found, needed, limit, asked.again)
        why = (doubt or Why(more)).after(f"{reason}; ")
        notes += [more] if doubt else []
    elif doubt:
        outcome, why = "undecided", doubt.after(f"{reason}, so it would {outcome}; but ")
    notes += [note for side in reversed(sides) for note in _notes(side)]
    if alike > 1:
        notes.append(f"interval for the best of {alike} that cannot be told apart")
    results = tuple(side.best.result for side in sides)
    return Decision(criterion, outcome, why, value, wide, limit, results, needed, tuple(notes))


def _by_interval(criterion: Criterion, found: Interval, limit: float) -> tuple[Outcome, str]:
    least = criterion.threshold.least
    if not _at(found, limit):
        if found.low >= limit:
            return "pass" if least else "fail", "the whole interval is above the threshold"
        if found.high <= limit:
            return "fail" if least else "pass", "the whole interval is below the threshold"
    return "undecided", "the interval includes the threshold"


def _at(found: Interval, limit: float) -> bool:
    """Whether a figure is the threshold, but for what logarithms round."""
    return math.isclose(found.center, limit, rel_tol=1e-9)


def _overturned(criterion: Criterion, outcome: Outcome) -> bool:
    """Whether a better point would change the outcome."""
    if criterion.selector.scaling:
        return True  # of either side
    better_is_more = not criterion.selector.about.lowest
    return (outcome == "fail") == (criterion.threshold.least == better_is_more)


def _doubt(sides: Sequence[_Side], fails: Failed, overturned: bool) -> Why | None:
    """Why the outcome of the interval does not hold; None if it does."""
    for side in sides:
        if suspect := _suspect(side.best, fails):
            return suspect
        if side.absent and overturned:
            return _why(side.absent).after("another point may be better: ")
    return None


def _suspect(found: Best, fails: Failed) -> Why | None:
    """`2 of 3 repetitions suspect`, and why; None where none of a figure is."""
    rows = [row for row in found.result.rows if row.verdict in COUNTED and bool(row.confirms) == found.confirmed]
    suspect = [row for row in rows if not headline.valid(row, fails)]
    if not suspect:
        return None
    causes = findings.causes((row.reasons or "").split(REASONS) for row in suspect)
    return Why(f"{len(suspect)} of {human_count(len(rows), 'repetition')} suspect", causes)


def _more(found: Best, interval: Interval, needed: int | None, limit: float, again: bool) -> str:
    """What would decide. again: whether the campaign can measure more."""
    if _at(interval, limit):
        return "the figure is the threshold, so no number of repetitions would decide"
    if needed is None:
        return f"so near that more than {MOST_REPETITIONS:,} repetitions would be needed"
    would = f"about {human_count(needed, 'repetition')}, {needed - interval.n:,} more, would decide if the figure stays"
    return f"{would}: {_set(found, needed)}" if again else would


def _notes(side: _Side) -> Iterator[str]:
    """What a reader has to know of a figure: how it was chosen, what is missing of it."""
    found = side.best
    at = f"{side.at}: " if side.at else ""
    if found.in_brief:
        yield at + found.in_brief
    if not found.confirmed and (lacking := findings.incomplete(found.result)):  # of fresh ones, `in_brief` says it
        absent = _absent(found)
        yield at + "; ".join([lacking, *([absent.text()] if absent else [])])
