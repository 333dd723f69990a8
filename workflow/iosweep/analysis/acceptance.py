"""Criteria of acceptance -> pass, fail or undecided, each with its figure and the reason; shares of published figures.

A figure passes or fails if its whole 95 % interval is on one side of the threshold: the risk that the true figure is on
the other side is at most 2.5 %. docs/comparing.md explains the rule and how often it is wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from iosweep.analysis import caveats, formats, headline
from iosweep.analysis.headline import Best
from iosweep.analysis.summary import PointSummary, is_percentile, outcome
from iosweep.config import criteria
from iosweep.config.criteria import DECIMAL, Criterion, Published, Selector, Subject, matches
from iosweep.judge import statistics
from iosweep.judge.agreement import COUNTED
from iosweep.judge.statistics import LEAST_FOR_INTERVAL, MOST_REPETITIONS, Interval
from iosweep.plan.headline_groups import load, suites_of, unfit
from iosweep.plan.model import SweepFacts
from iosweep.tables.columns import NOT_YET
from iosweep.tables.reader import Campaign
from iosweep.text import human_count
from iosweep.tools import parameters

Outcome = Literal["pass", "fail", "undecided"]
SYMBOLS: Mapping[Outcome, str] = {"pass": "✓", "fail": "✕", "undecided": "?"}
#: Units for a figure whose threshold has a decimal unit, so that readers can compare both.
_DECIMAL = tuple(formats.Unit(name, size) for name, size in DECIMAL.items())
#: Verbs for one criterion and for several, worst outcome first.
_VERBS: Mapping[Outcome, tuple[str, str]] = {
    "fail": ("fails", "fail"),
    "undecided": ("is undecided", "are undecided"),
    "pass": ("passes", "pass"),
}


@dataclass(frozen=True)
class Reason:
    """A clause, and the causes behind it, each with the number of results or repetitions that have it."""

    clause: str
    causes: tuple[tuple[str, int], ...] = ()

    def after(self, text: str) -> Reason:
        """Put words before the clause."""
        return Reason(f"{text}{self.clause}", self.causes)

    def text(self, most: int = 1, apart: Collection[str] = ()) -> str:
        """`3 of 3 repetitions suspect: 3 × too short; and 2 other reasons`. most: number of causes to name; apart:
        causes that the reader has been told already."""
        own = [one for one in self.causes if one[0] not in apart]
        return f"{self.clause}: {caveats.join(own, most)}" if own else self.clause


@dataclass(frozen=True)
class Decision:
    """The outcome of a criterion.

    value: the figure as the report shows it, in the unit of its column; of scaling, the ratio; interval: compared with
    `limit`, the threshold in the same unit; results: the points that the figure comes from, two for scaling;
    repetitions: total number that would decide; notes: other facts about the figure.
    """

    criterion: Criterion
    outcome: Outcome
    reason: Reason
    value: float | None = None
    interval: Interval | None = None
    limit: float | None = None
    results: tuple[PointSummary, ...] = ()
    repetitions: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        """The criterion, with its threshold if a published figure sets it: `read_iops >= 90 % of weka.cluster (354 k
        IOPS)`."""
        if self.criterion.threshold.of is None or self.limit is None:
            return self.criterion.text
        return f"{self.criterion.text} ({''.join(self._shown(self.limit))})"

    @property
    def figure(self) -> str:
        """`21.3 GiB/s (20.9 to 21.7, n = 5)`; "" without a figure."""
        if self.value is None:
            return ""
        value, unit = self._shown(self.value)
        if self.interval is None:
            return f"{value}{unit}"
        low, high = (self._shown(end, self.value)[0] for end in (self.interval.low, self.interval.high))
        return f"{value}{unit} ({low} to {high}, n = {self.interval.n})"

    @property
    def place(self) -> str:
        """Parameters of the measured point; for scaling, of the high point against the low point."""
        return " against ".join(formats.brief(result, one=True) for result in reversed(self.results))

    def _shown(self, value: float, like: float | None = None) -> tuple[str, str]:
        """Format a value and its unit, in the unit that suits `like`."""
        if self.criterion.selector.scaling:
            return formats.number(value), "x"
        about = self.criterion.selector.about
        kind = "metadata" if about.quantity == "rate" else "data"
        units = _DECIMAL if self.criterion.threshold.unit in DECIMAL else formats.units_of(about.column, kind)
        unit = formats.pick(units, value if like is None else like)
        return formats.number(value / unit.size), f" {unit.name}"


def decide(
    campaign: Campaign, results: Sequence[PointSummary], wanted: Iterable[Criterion] | None = None
) -> list[Decision]:
    """Decide each criterion; `wanted` replaces the criteria that the campaign was planned with."""
    suites = suites_of(campaign.about.sweeps)
    known = list(zip(results, subjects(results), strict=True))
    return [_decide(one, known, suites) for one in (campaign.about.accept if wanted is None else wanted)]


def subjects(results: Sequence[PointSummary]) -> list[Subject]:
    """For each result, the facts that selectors are matched against."""
    options = {column: option.name for column, option in parameters().items()}
    return [
        Subject(
            one.tool,
            one.phase,
            tuple(one.rows[0].sweeps.split(",")),
            {options.get(column, column): value for column, value in one.parameters.items()},
        )
        for one in results
    ]


def sentence(decisions: Sequence[Decision]) -> str:
    """`4 criteria: 1 fails, 1 is undecided, 2 pass`"""
    parts = []
    for verdict, (one, many) in _VERBS.items():
        if count := sum(decision.outcome == verdict for decision in decisions):
            parts.append(f"{count:,} {one if count == 1 else many}")
    return f"{human_count(len(decisions), 'criterion', 'criteria')}: {', '.join(parts)}"


def worst(decisions: Iterable[Decision]) -> Outcome:
    """fail if any criterion fails, else undecided if any is undecided."""
    return min((one.outcome for one in decisions), key=list(_VERBS).index, default="pass")


def shared(decisions: Sequence[Decision]) -> list[str]:
    """Causes that all decisions with causes have in common, if there are at least two such decisions."""
    own = [[text for text, _ in one.reason.causes] for one in decisions if one.reason.causes]
    return [text for text in own[0] if all(text in texts for texts in own)] if len(own) > 1 else []


def document(one: Decision) -> dict[str, object]:
    """A decision for JSON: SI base units, ratios as fractions."""
    interval = one.interval
    return {
        "name": one.criterion.name,
        "figure": one.criterion.selector.text,
        "threshold": one.criterion.threshold.text,
        "outcome": one.outcome,
        "reason": one.reason.text(),
        "reasons": [text for text, _ in one.reason.causes],
        "notes": list(one.notes),
        "value": one.value,
        "ci95_low": interval.low if interval else None,
        "ci95_high": interval.high if interval else None,
        "n": interval.n if interval else None,
        "limit": one.limit,
        "column": None if one.criterion.selector.scaling else one.criterion.selector.about.column,
        "points": [result.point for result in one.results],
        "repetitions_that_decide": one.repetitions,
    }


# one decision


class _Undecided(Exception):
    """There is nothing to compare. results: the point whose figure is missing."""

    def __init__(self, reason: Reason, results: tuple[PointSummary, ...] = (), value: float | None = None):
        self.reason, self.results, self.value = reason, results, value
        super().__init__(reason.text())


@dataclass(frozen=True)
class _Side:
    """A figure to compare; scaling compares two. absent: points without a figure that may be better; at: the axis value
    of one side of scaling, else ""."""

    best: Best
    interval: Interval
    value: float
    absent: tuple[PointSummary, ...]
    at: str

    @property
    def alike(self) -> int:
        """Number of points that cannot be told apart. The figure is the best of these, perhaps by luck."""
        return 1 if self.best.confirmed else 1 + len(self.best.alike)


_Known = Sequence[tuple[PointSummary, Subject]]


def _decide(criterion: Criterion, known: _Known, suites: Mapping[str, str]) -> Decision:
    """suites: sweep -> its suite, without scaled sweeps."""
    selector = criterion.selector
    try:
        if wrong := unfit(selector, [subject for _, subject in known]):
            raise _Undecided(Reason(wrong))
        own = [[one for one in known if matches(side, one[1])] for side in selector.sides()]
        limit, compared = _limit(criterion, suites, own)
        sides = [
            _side(side, results, selector.scaling is not None)
            for side, results in zip(selector.sides(), compared, strict=True)
        ]
        return _compared(criterion, sides, limit)
    except _Undecided as nothing:
        value = nothing.value if selector.scaling is None else None  # the figure of one side is not a ratio
        return Decision(criterion, "undecided", nothing.reason, value, results=nothing.results)


def _limit(
    criterion: Criterion, suites: Mapping[str, str], own: Sequence[_Known]
) -> tuple[float, Sequence[Sequence[PointSummary]]]:
    """The threshold, and the results to compare with it. With a published figure, only results measured in the same
    way. Of several published systems, the best one sets the threshold."""
    threshold = criterion.threshold
    if threshold.of is None:
        return threshold.value, [[result for result, _ in side] for side in own]
    found = [
        (figure.value, alike)
        for figure in criteria.published_named(threshold.of, criterion.selector)
        if (alike := [result for result, subject in own[0] if criteria.compares(figure, subject, suites)])
    ]
    if not found:
        raise _Undecided(Reason(f"nothing is measured as {threshold.of} was: a test of that suite, not scaled"))
    best = min if criterion.selector.about.lowest else max
    value, alike = best(found, key=lambda one: one[0])
    return threshold.value * value, [alike]


def _side(selector: Selector, results: Sequence[PointSummary], named: bool) -> _Side:
    """Find the best point, as for headlines. named: whether the figure is one side of scaling. Raises _Undecided
    without an interval."""
    column, lowest = selector.about.column, selector.about.lowest
    best = headline.find_lowest_latency(results) if lowest else headline.find_highest(results, column)
    if best is None:
        raise _Undecided(_no_figure(results).after("no figure: "), tuple(results[:1]) if len(results) == 1 else ())
    metric = best.metrics.get(column)
    if metric is None:
        why = f"its repetitions have no {selector.metric} (too few I/Os beyond it)"
        raise _Undecided(Reason(why), (best.result,))
    value = metric.median if is_percentile(column) else metric.mean
    if metric.interval is None:
        suspect = _suspect(best)  # more suspect repetitions would not decide
        reason = _no_interval(best, metric.n, advise=not suspect)
        raise _Undecided(suspect.after(f"{reason.clause}; besides, ") if suspect else reason, (best.result,), value)
    least = load(best.result.parameters["queue_depth"], best.result.nodes)
    rivals = [one for one in results if not lowest or load(one.parameters["queue_depth"], one.nodes) <= least]
    absent = tuple(one for one in rivals if column not in one.metrics and one.state != "unneeded")
    return _Side(best, metric.interval, value, absent, selector.where[-1].text if named else "")


def _no_figure(results: Sequence[PointSummary]) -> Reason:
    """Why points have no figure: `not measured yet`, `2 points invalid: ...`."""
    states = Counter(result.state for result in results)
    causes = tuple(caveats.rank(result.reasons for result in results))
    if set(states) == {"left"}:
        return Reason(NOT_YET, causes if [text for text, _ in causes] != [NOT_YET] else ())
    return Reason(", ".join(f"{human_count(n, 'point')} {state}" for state, n in states.items()), causes)


def _no_interval(best: Best, n: int, advise: bool) -> Reason:
    if n < LEAST_FOR_INTERVAL:
        kind, counts = ("fresh repetition" if best.confirmed else "repetition"), "counts" if n == 1 else "count"
        few = f"{human_count(n, kind)} that {counts}, and an interval needs {LEAST_FOR_INTERVAL}"
        if absent := _absent(best):
            return absent.after(f"{few}: ")
        return Reason(f"{few}: {_set(best, LEAST_FOR_INTERVAL)}" if advise else few)
    if best.result.host_sets > 1 and not best.result.in_turn:
        return Reason("its repetitions ran on different nodes, so they have no interval")
    return Reason("a repetition has a figure of zero, so there is no interval")


def _absent(best: Best) -> Reason | None:
    """Why repetitions are missing: `the next run measures more`, or which limit stopped the campaign; None if none is
    missing."""
    rows = [row for row in best.rows if row.verdict == "missing" and outcome(row) != "unneeded"]
    reasons = [row.reasons for row in rows if row.reasons and row.reasons != (NOT_YET,)]
    if not reasons:
        return Reason("the next run measures more") if rows else None
    return Reason(f"{human_count(len(reasons), 'repetition')} missing", tuple(caveats.rank(reasons)))


def _set(best: Best, repetitions: int) -> str:
    return f"set `{'confirm' if best.confirmed else 'repetitions'}` to {repetitions:,} or more"


def _compared(criterion: Criterion, sides: Sequence[_Side], limit: float) -> Decision:
    """Decide by the interval of a figure, or of the ratio of two figures."""
    low, high = sides[0], sides[-1]
    value, narrow, alike = high.value, high.interval, high.alike
    if low is not high:
        value = high.value / low.value
        narrow = statistics.ratio_interval(high.interval, low.interval)
        alike += low.alike - 1
    wide = statistics.widen_for_best(narrow, alike) if alike > 1 else narrow
    least, clause = criterion.threshold.least, "the interval includes the threshold"
    outcome: Outcome = "undecided"
    if not _at(wide, limit):
        if wide.low >= limit:
            outcome, clause = "pass" if least else "fail", "the whole interval is above the threshold"
        elif wide.high <= limit:
            outcome, clause = "fail" if least else "pass", "the whole interval is below the threshold"

    # why the outcome is doubtful although the interval decides: also a better point that would change it
    better_fails = (outcome == "fail") == (least != criterion.selector.about.lowest)
    overturned = bool(outcome == "undecided" or criterion.selector.scaling or better_fails)
    doubt = None
    for side in sides:
        if doubt := _suspect(side.best):
            break
        if side.absent and overturned:
            doubt = _no_figure(side.absent).after("another point may be better: ")
            break

    reason, needed, notes = Reason(clause), None, []
    if outcome == "undecided":
        more = "the figure is the threshold, so no number of repetitions would decide"
        if not _at(narrow, limit):
            more = f"too close to decide (more than {MOST_REPETITIONS:,} repetitions)"
            if needed := statistics.repetitions_to_exclude(limit, narrow, alike):
                weakest = max(sides, key=lambda side: side.interval.half_width_share)
                count = f"about {human_count(needed, 'repetition')}, {needed - narrow.n:,} more"
                more = f"{count}, would decide if the figure stays: {_set(weakest.best, needed)}"
        reason = (doubt or Reason(more)).after(f"{clause}; ")
        notes += [more] if doubt else []
    elif doubt:
        outcome, reason = "undecided", doubt.after(f"{clause}, so it would {outcome}; but ")
    for side in reversed(sides):  # how the best point was chosen, and which of its repetitions are missing
        at = f"{side.at}: " if side.at else ""
        if side.best.chosen:
            notes.append(at + side.best.chosen)
        if not side.best.confirmed and (lacking := caveats.describe_incomplete(side.best.result)):
            absent = _absent(side.best)
            notes.append(at + "; ".join([lacking, *([absent.text()] if absent else [])]))
    if alike > 1:
        notes.append(f"interval for the best of {alike} that cannot be told apart")
    results = tuple(side.best.result for side in sides)
    return Decision(criterion, outcome, reason, value, wide, limit, results, needed, tuple(notes))


def _at(interval: Interval, limit: float) -> bool:
    """Whether a figure equals the threshold, except for rounding in logarithms."""
    return math.isclose(interval.center, limit, rel_tol=1e-9)


def _suspect(best: Best) -> Reason | None:
    """`2 of 3 repetitions suspect`, with the causes; None if no repetition is suspect."""
    rows = [row for row in best.rows if row.verdict in COUNTED]
    suspect = [row for row in rows if not row.undisturbed]
    if not suspect:
        return None
    causes = caveats.rank(row.reasons for row in suspect)
    return Reason(f"{len(suspect)} of {human_count(len(rows), 'repetition')} suspect", tuple(causes))


# published figures


@dataclass(frozen=True)
class PublishedShare:
    """share: our figure divided by the published figure; for a latency, more than 1 is slower."""

    published: Published
    share: float

    @property
    def text(self) -> str:
        """`42 % of the published 21.4 GiB/s (supermicro)`, `completion p99.5 120 % of the published 459 us (aws)`"""
        figure = self.published
        part = "completion " if figure.column.startswith("completion_") else ""
        metric = f"{part}{figure.selector.metric} " if figure.lowest else ""
        return f"{metric}{100 * self.share:.3g} % of the published {figure.text}"


#: (point, phase) -> shares of comparable published figures: the phase's own metric first, then the best system first.
PublishedShares = Mapping[tuple[str, str], Sequence[PublishedShare]]


def published_shares(results: Sequence[PointSummary], sweeps: Iterable[SweepFacts]) -> PublishedShares:
    """Compare each result with the published figures of its suite."""
    suites = suites_of(sweeps)
    known = [figure for suite in dict.fromkeys(suites.values()) for figure in criteria.published_of_suite(suite)]
    shares: dict[tuple[str, str], list[PublishedShare]] = {}
    for result, subject in zip(results, subjects(results), strict=True) if known else ():
        comparable = [
            PublishedShare(figure, ours / figure.value)
            for figure in known
            if criteria.compares(figure, subject, suites) and (ours := result.typical(figure.column)) is not None
        ]

        # the phase's own metric first, then the best system first
        comparable.sort(key=lambda one: one.published.value if one.published.lowest else -one.published.value)
        comparable.sort(key=lambda one: one.published.column)
        own = [one for one in comparable if one.published.column == result.metric]
        if comparable:
            shares[result.point, result.phase] = own + [one for one in comparable if one not in own]
    return shares
