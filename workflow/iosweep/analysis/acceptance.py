"""Acceptance criteria -> pass, fail or undecided, each with its figure and the reason; shares of published figures.

A figure passes or fails if its whole 95 % interval is on one side of the threshold: the risk that the true figure is on
the other side is at most 2.5 %. docs/comparing.md explains the rule and its error rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from iosweep.analysis import caveats, formats, headline
from iosweep.analysis.headline import Best
from iosweep.analysis.summary import PointSummary, outcome
from iosweep.config import criteria
from iosweep.config.criteria import DECIMAL, Criterion, Published, Selector, Subject, matches
from iosweep.judge import statistics
from iosweep.judge.agreement import COUNTED
from iosweep.judge.statistics import ALPHA, MAX_REPETITIONS, MIN_REPETITIONS, Estimate
from iosweep.plan.headline_groups import load, suites_of, unfit
from iosweep.plan.model import SweepFacts
from iosweep.tables.columns import NOT_YET
from iosweep.tables.reader import Campaign
from iosweep.text import human_count
from iosweep.tools import parameters

Outcome = Literal["pass", "fail", "undecided"]
SYMBOLS: Mapping[Outcome, str] = {"pass": "✓", "fail": "✕", "undecided": "?"}
#: Units for a figure whose threshold has a decimal unit, so that readers can compare the two.
_DECIMAL = tuple(formats.Unit(name, size) for name, size in DECIMAL.items())
#: Verbs for one criterion and for several, worst outcome first.
_VERBS: Mapping[Outcome, tuple[str, str]] = {
    "fail": ("fails", "fail"),
    "undecided": ("is undecided", "are undecided"),
    "pass": ("passes", "pass"),
}


@dataclass(frozen=True)
class Reason:
    """A clause and its causes, each with the number of results or repetitions that it affects."""

    clause: str
    causes: tuple[tuple[str, int], ...] = ()

    def after(self, text: str) -> Reason:
        """Prepend text to the clause."""
        return Reason(f"{text}{self.clause}", self.causes)

    def text(self, most: int = 1, known: Collection[str] = ()) -> str:
        """`3 of 3 repetitions suspect: 3 × too short; and 2 other reasons`. most: number of causes to name; known:
        causes that the reader knows already, which are omitted."""
        new = [cause for cause in self.causes if cause[0] not in known]
        return f"{self.clause}: {caveats.join(new, most)}" if new else self.clause


@dataclass(frozen=True)
class Decision:
    """The outcome of a criterion.

    value: the figure as the report shows it, in the unit of its column (for scaling, the ratio); limit: the threshold
    in the same unit, with which `interval` is compared; results: the points behind the figure, two for scaling;
    repetitions: total number that would decide the criterion; notes: other facts about the figure.
    """

    criterion: Criterion
    outcome: Outcome
    reason: Reason
    value: float | None = None
    interval: Estimate | None = None
    limit: float | None = None
    results: tuple[PointSummary, ...] = ()
    repetitions: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        """The criterion, and the value of a threshold that a published figure sets: `read_iops >= 90 % of weka.cluster
        (354 k IOPS)`."""
        if self.criterion.threshold.of is None or self.limit is None:
            return self.criterion.text
        return f"{self.criterion.text} ({''.join(self._format(self.limit))})"

    @property
    def figure(self) -> str:
        """`21.3 GiB/s (20.9 to 21.7, n = 5)`; "" without a figure."""
        if self.value is None:
            return ""
        value, unit = self._format(self.value)
        if self.interval is None:
            return f"{value}{unit}"
        low, high = (self._format(end, self.value)[0] for end in (self.interval.low, self.interval.high))
        return f"{value}{unit} ({low} to {high}, n = {self.interval.n})"

    @property
    def place(self) -> str:
        """Parameters of the measured point; for scaling, of the high point against the low point."""
        return " against ".join(formats.brief(result, one=True) for result in reversed(self.results))

    def _format(self, value: float, reference: float | None = None) -> tuple[str, str]:
        """Format a value and its unit, in the unit that suits `reference`."""
        if self.criterion.selector.scaling:
            return formats.number(value), "x"
        metric = self.criterion.selector.about
        kind = "metadata" if metric.quantity == "rate" else "data"
        units = _DECIMAL if self.criterion.threshold.unit in DECIMAL else formats.units_of(metric.column, kind)
        unit = formats.pick(units, value if reference is None else reference)
        return formats.number(value / unit.size), f" {unit.name}"


def decide(
    campaign: Campaign, results: Sequence[PointSummary], wanted: Iterable[Criterion] | None = None
) -> list[Decision]:
    """Decide each criterion; `wanted` replaces the criteria that the campaign was planned with."""
    suites = suites_of(campaign.about.sweeps)
    measured = list(zip(results, subjects(results), strict=True))
    return [_decide(criterion, measured, suites) for criterion in (campaign.about.accept if wanted is None else wanted)]


def subjects(results: Sequence[PointSummary]) -> list[Subject]:
    """For each result, the facts that selectors are matched against."""
    options = {column: option.name for column, option in parameters().items()}
    return [
        Subject(
            result.tool,
            result.phase,
            tuple(result.rows[0].sweeps.split(",")),
            {options.get(column, column): value for column, value in result.parameters.items()},
        )
        for result in results
    ]


def sentence(decisions: Sequence[Decision]) -> str:
    """`4 criteria: 1 fails, 1 is undecided, 2 pass`"""
    parts = []
    for verdict, (singular, plural) in _VERBS.items():
        if count := sum(decision.outcome == verdict for decision in decisions):
            parts.append(f"{count:,} {singular if count == 1 else plural}")
    return f"{human_count(len(decisions), 'criterion', 'criteria')}: {', '.join(parts)}"


def worst(decisions: Iterable[Decision]) -> Outcome:
    """fail if any criterion fails, else undecided if any is undecided."""
    return min((decision.outcome for decision in decisions), key=list(_VERBS).index, default="pass")


def shared(decisions: Sequence[Decision]) -> list[str]:
    """The causes that all decisions with causes share; none if fewer than two decisions have causes."""
    groups = [[text for text, _ in decision.reason.causes] for decision in decisions if decision.reason.causes]
    return [text for text in groups[0] if all(text in texts for texts in groups)] if len(groups) > 1 else []


def document(decision: Decision) -> dict[str, object]:
    """A decision for JSON: SI base units, ratios as fractions."""
    interval = decision.interval
    return {
        "name": decision.criterion.name,
        "figure": decision.criterion.selector.text,
        "threshold": decision.criterion.threshold.text,
        "outcome": decision.outcome,
        "reason": decision.reason.text(),
        "reasons": [text for text, _ in decision.reason.causes],
        "notes": list(decision.notes),
        "value": decision.value,
        "ci95_low": interval.low if interval else None,
        "ci95_high": interval.high if interval else None,
        "n": interval.n if interval else None,
        "limit": decision.limit,
        "column": None if decision.criterion.selector.scaling else decision.criterion.selector.about.column,
        "points": [result.point for result in decision.results],
        "repetitions_that_decide": decision.repetitions,
    }


# one decision


class _Undecided(Exception):
    """There is no interval to compare with the threshold. results: the point that lacks it."""

    def __init__(self, reason: Reason, results: tuple[PointSummary, ...] = (), value: float | None = None):
        self.reason, self.results, self.value = reason, results, value
        super().__init__(reason.text())


@dataclass(frozen=True)
class _Side:
    """A figure to compare; scaling compares two. absent: points without a figure, which may be better; axis_value: of a
    side of scaling, else ""."""

    best: Best
    interval: Estimate
    value: float
    absent: tuple[PointSummary, ...]
    axis_value: str

    @property
    def candidates(self) -> int:
        """Number of points that may be the best: statistically indistinguishable, so luck may have chosen this one."""
        return 1 if self.best.confirmed else 1 + len(self.best.alike)


_Measured = Sequence[tuple[PointSummary, Subject]]


def _decide(criterion: Criterion, measured: _Measured, suites: Mapping[str, str]) -> Decision:
    """Decide a criterion. suites: sweep -> its suite, without scaled sweeps."""
    selector = criterion.selector
    try:
        if problem := unfit(selector, [subject for _, subject in measured]):
            raise _Undecided(Reason(problem))
        by_side = [[entry for entry in measured if matches(side, entry[1])] for side in selector.sides()]
        limit, compared = _find_threshold(criterion, suites, by_side)
        sides = [
            _find_side(side, results, selector.scaling is not None)
            for side, results in zip(selector.sides(), compared, strict=True)
        ]
        return _decide_by_interval(criterion, sides, limit)
    except _Undecided as undecided:
        value = undecided.value if selector.scaling is None else None  # the figure of one side is not a ratio
        return Decision(criterion, "undecided", undecided.reason, value, results=undecided.results)


def _find_threshold(
    criterion: Criterion, suites: Mapping[str, str], by_side: Sequence[_Measured]
) -> tuple[float, Sequence[Sequence[PointSummary]]]:
    """Find the threshold and the results to compare with it: for a published figure, only results measured in the same
    way. If several systems are published, the best one sets the threshold."""
    threshold = criterion.threshold
    if threshold.of is None:
        return threshold.value, [[result for result, _ in side] for side in by_side]
    comparable = [
        (figure.value, measured)
        for figure in criteria.published_named(threshold.of, criterion.selector)
        if (measured := [result for result, subject in by_side[0] if criteria.compares(figure, subject, suites)])
    ]
    if not comparable:
        raise _Undecided(Reason(f"nothing is measured as {threshold.of} was: a test of that suite, not scaled"))
    best = min if criterion.selector.about.lowest else max
    value, measured = best(comparable, key=lambda candidate: candidate[0])
    return threshold.value * value, [measured]


def _find_side(selector: Selector, results: Sequence[PointSummary], is_scaling: bool) -> _Side:
    """Find the best point, as for headlines. Raises _Undecided if it has no interval."""
    column, lowest = selector.about.column, selector.about.lowest
    best = headline.find_lowest_latency(results) if lowest else headline.find_highest(results, column)
    if best is None:
        point = tuple(results) if len(results) == 1 else ()
        raise _Undecided(_explain_no_figure(results).after("no figure: "), point)
    metric = best.metrics.get(column)
    if metric is None:
        why = f"its repetitions have no {selector.metric} (too few I/Os beyond it)"
        raise _Undecided(Reason(why), (best.result,))
    value = metric.figure
    if metric.estimate is None:
        suspect = _explain_suspect(best)  # more suspect repetitions would not decide
        reason = _explain_no_interval(best, metric.n, advise=not suspect)
        raise _Undecided(suspect.after(f"{reason.clause}; besides, ") if suspect else reason, (best.result,), value)
    least = load(best.result.parameters["queue_depth"], best.result.nodes)
    rivals = [rival for rival in results if not lowest or load(rival.parameters["queue_depth"], rival.nodes) <= least]
    absent = tuple(rival for rival in rivals if column not in rival.metrics and rival.state != "unneeded")
    return _Side(best, metric.estimate, value, absent, selector.where[-1].text if is_scaling else "")


def _explain_no_figure(results: Sequence[PointSummary]) -> Reason:
    """Why points have no figure: `not measured yet`, `2 points invalid: ...`."""
    states = Counter(result.state for result in results)
    causes = tuple(caveats.rank(result.reasons for result in results))
    if set(states) == {"left"}:
        return Reason(NOT_YET, causes if [text for text, _ in causes] != [NOT_YET] else ())
    return Reason(", ".join(f"{human_count(n, 'point')} {state}" for state, n in states.items()), causes)


def _explain_no_interval(best: Best, n: int, advise: bool) -> Reason:
    if n < MIN_REPETITIONS:
        kind, counts = ("fresh repetition" if best.confirmed else "repetition"), "counts" if n == 1 else "count"
        few = f"{human_count(n, kind)} that {counts}, and an interval needs {MIN_REPETITIONS}"
        if missing := _explain_missing(best):
            return missing.after(f"{few}: ")
        return Reason(f"{few}: {_advise(best, MIN_REPETITIONS)}" if advise else few)
    if best.result.host_sets > 1 and not best.result.in_turn:
        return Reason("its repetitions ran on different nodes, so they have no interval")
    return Reason("a repetition has a figure of zero, so there is no interval")


def _explain_missing(best: Best) -> Reason | None:
    """Why repetitions are missing: `the next run measures more`, or which limit stopped the campaign; None if all
    exist."""
    rows = [row for row in best.rows if row.verdict == "missing" and outcome(row) != "unneeded"]
    reasons = [row.reasons for row in rows if row.reasons and row.reasons != (NOT_YET,)]
    if not reasons:
        return Reason("the next run measures more") if rows else None
    return Reason(f"{human_count(len(reasons), 'repetition')} missing", tuple(caveats.rank(reasons)))


def _advise(best: Best, repetitions: int) -> str:
    return f"set `{'confirm' if best.confirmed else 'repetitions'}` to {repetitions:,} or more"


def _decide_by_interval(criterion: Criterion, sides: Sequence[_Side], limit: float) -> Decision:
    """Decide by the interval of a figure, or of the ratio of two figures."""
    low, high = sides[0], sides[-1]
    value, narrow, candidates = high.value, high.interval, high.candidates
    if low is not high:
        value = high.value / low.value
        narrow = statistics._subtract(high.interval, low.interval)
        candidates += low.candidates - 1
    wide = narrow.at(ALPHA / candidates)
    least, clause = criterion.threshold.least, "the interval includes the threshold"
    outcome: Outcome = "undecided"
    if not _equals(wide, limit):
        if wide.low >= limit:
            outcome, clause = "pass" if least else "fail", "the whole interval is above the threshold"
        elif wide.high <= limit:
            outcome, clause = "fail" if least else "pass", "the whole interval is below the threshold"

    # doubts that outweigh the interval: suspect repetitions, or an unmeasured point that could reverse the outcome
    better_fails = (outcome == "fail") == (least != criterion.selector.about.lowest)
    overturned = bool(outcome == "undecided" or criterion.selector.scaling or better_fails)
    doubt = None
    for side in sides:
        if doubt := _explain_suspect(side.best):
            break
        if side.absent and overturned:
            doubt = _explain_no_figure(side.absent).after("another point may be better: ")
            break

    reason, needed, notes = Reason(clause), None, []
    if outcome == "undecided":
        advice = "the figure is the threshold, so no number of repetitions would decide"
        if not _equals(narrow, limit):
            advice = f"too close to decide (more than {MAX_REPETITIONS:,} repetitions)"
            if needed := statistics.repetitions_to_exclude(limit, wide):
                weakest = max(sides, key=lambda side: side.interval.half_width_share)
                total = f"about {human_count(needed, 'repetition')}, {needed - narrow.n:,} more"
                advice = f"{total}, would decide if the figure stays: {_advise(weakest.best, needed)}"
        reason = (doubt or Reason(advice)).after(f"{clause}; ")
        notes += [advice] if doubt else []
    elif doubt:
        outcome, reason = "undecided", doubt.after(f"{clause}, so it would {outcome}; but ")
    for side in reversed(sides):
        prefix = f"{side.axis_value}: " if side.axis_value else ""
        if side.best.chosen:
            notes.append(prefix + side.best.chosen)
        if not side.best.confirmed and (incomplete := caveats.describe_incomplete(side.best.result)):
            missing = _explain_missing(side.best)
            notes.append(prefix + "; ".join([incomplete, *([missing.text()] if missing else [])]))
    if candidates > 1:
        notes.append(f"interval for the best of {candidates} that cannot be told apart")
    results = tuple(side.best.result for side in sides)
    return Decision(criterion, outcome, reason, value, wide, limit, results, needed, tuple(notes))


def _equals(interval: Estimate, limit: float) -> bool:
    """Whether a figure equals the threshold but for rounding errors of logarithms."""
    return math.isclose(interval.center, limit, rel_tol=1e-9)


def _explain_suspect(best: Best) -> Reason | None:
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
    """Divide each result by the comparable published figures of its suite."""
    suites = suites_of(sweeps)
    published = [figure for suite in dict.fromkeys(suites.values()) for figure in criteria.published_of_suite(suite)]
    shares: dict[tuple[str, str], list[PublishedShare]] = {}
    for result, subject in zip(results, subjects(results), strict=True) if published else ():
        comparable = [
            PublishedShare(figure, measured / figure.value)
            for figure in published
            if criteria.compares(figure, subject, suites) and (measured := result.figure(figure.column)) is not None
        ]
        comparable.sort(key=lambda entry: entry.published.value if entry.published.lowest else -entry.published.value)
        comparable.sort(key=lambda entry: entry.published.column)
        first = [entry for entry in comparable if entry.published.column == result.metric]
        if comparable:
            shares[result.point, result.phase] = first + [entry for entry in comparable if entry not in first]
    return shares
