"""Acceptance criteria -> pass, fail or undecided, each with its figure and the reason; shares of published figures.

A figure passes or fails if its whole interval is on one side of the threshold: at the first look at the data the 95 %
interval of the headline, at each further look a wider one. Thus a decision is wrong with a probability of at most 5 %
over all looks (docs/comparing.md).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from iosweep.analysis import caveats, formats, headline
from iosweep.analysis.summary import Metric, PointSummary, outcome, summarize_values
from iosweep.config import criteria
from iosweep.config.criteria import DECIMAL, Criterion, Published, Selector, Subject, find_pairs, matches
from iosweep.config.sweeps import MAX_CONFIRM, MAX_SESSIONS
from iosweep.judge import statistics
from iosweep.judge.agreement import COUNTED
from iosweep.judge.statistics import ALPHA, MAX_REPETITIONS, MIN_REPETITIONS, Estimate
from iosweep.plan.headline_groups import load, suites_of, unfit, unpaired
from iosweep.plan.model import SweepFacts
from iosweep.tables.columns import NOT_YET
from iosweep.tables.reader import Campaign, ResultRow
from iosweep.text import human_count
from iosweep.tools import parameters
from iosweep.tools.axes import NODES

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
class Figure:
    """The figure of a criterion: of the best point, or the ratio of the best pair of points.

    metric: in the unit of its column, or ratios, with the interval that the headline has; results: one, or both of a
    ratio; confirmed: by fresh repetitions; chosen: how (`Best.chosen`); alike: number of others that may be as good;
    absent: results without a figure that may be better.
    """

    metric: Metric
    results: tuple[PointSummary, ...]
    confirmed: bool
    chosen: str
    alike: int
    absent: Sequence[PointSummary]

    @property
    def rows(self) -> list[ResultRow]:
        """The repetitions behind the figure, and those of the same kind (fresh or not) that do not count."""
        return [row for result in self.results for row in result.rows if bool(row.confirms) == self.confirmed]

    @property
    def key(self) -> str:
        """The key of the configuration that sets how many repetitions the figure has."""
        return "confirm" if self.confirmed else "repetitions"

    @property
    def looks(self) -> int:
        """Number of runs of a result, planned or not: after each of them the criterion may have been decided."""
        sessions = {(row.point, row.session) for row in self.rows if row.verdict in COUNTED}
        return max(Counter(point for point, _ in sessions).values())

    def at_look(self, look: int) -> Estimate | None:
        """The estimate with the level that is left for a look."""
        estimate = self.metric.estimate
        return estimate and estimate.at(estimate.alpha * statistics.alpha_of_look(look) / ALPHA)

    @property
    def notes(self) -> list[str]:
        incomplete = [] if self.confirmed else map(caveats.describe_incomplete, self.results)
        alike = f"interval for the best of {self.alike + 1} that cannot be told apart" if self.alike else ""
        return [*filter(None, (self.chosen, *incomplete, alike))]


@dataclass(frozen=True)
class Decision:
    """The outcome of a criterion.

    limit: the threshold, in the unit of the figure; results: behind the figure, or the only one that could have it.
    """

    criterion: Criterion
    outcome: Outcome
    reason: Reason
    measured: Figure | None = None
    limit: float | None = None
    results: tuple[PointSummary, ...] = ()

    @property
    def place(self) -> str:
        """The parameters of each point, and its id."""
        return " against ".join(f"{formats.brief(one, one=True)} ({one.point})" for one in reversed(self.results))

    @property
    def notes(self) -> list[str]:
        """Other facts about the figure."""
        return self.measured.notes if self.measured else []

    @property
    def wanted(self) -> str:
        """The criterion, and the value of a threshold that a published figure sets: `read_iops >= 90 % of weka.cluster
        (354 k IOPS)`."""
        if self.criterion.threshold.of is None or self.limit is None:
            return self.criterion.text
        return f"{self.criterion.text} ({''.join(_format(self.criterion, self.limit))})"

    @property
    def figure(self) -> str:
        """`21.3 GiB/s (20.9 to 21.7, n = 5)`; without an interval that tells anything `21.3 GiB/s (2 repetitions from
        12.2 to 37.2, too few to say)`; "" without a figure."""
        if self.measured is None:
            return ""
        metric = self.measured.metric
        text = "".join(_format(self.criterion, metric.figure))
        ends = metric.interval or metric
        low, high = (_format(self.criterion, end, metric.figure)[0] for end in (ends.low, ends.high))
        if metric.interval:
            return f"{text} ({low} to {high}, n = {metric.n})"
        few = metric.n < MIN_REPETITIONS or (metric.estimate and self.outcome == "undecided")
        spread = [f"{metric.n} repetitions from {low} to {high}"] * (metric.high > metric.low)
        notes = ", ".join([*spread, *["too few to say"] * bool(few)])
        return f"{text} ({notes})" if notes else text


def _format(criterion: Criterion, value: float, reference: float | None = None) -> tuple[str, str]:
    """Format a value and its unit, in the unit that suits `reference`."""
    if criterion.selector.ratio:
        return formats.number(value), "x"
    metric = criterion.selector.about
    kind = "metadata" if metric.quantity == "rate" else "data"
    units = _DECIMAL if criterion.threshold.unit in DECIMAL else formats.units_of(metric.column, kind)
    unit = formats.pick(units, value if reference is None else reference)
    return formats.number(value / unit.size), f" {unit.name}"


def decide(
    campaign: Campaign, results: Sequence[PointSummary], wanted: Iterable[Criterion] | None = None
) -> list[Decision]:
    """Decide each criterion; `wanted` replaces the criteria that the campaign was planned with."""
    measured, sweeps = list(zip(results, subjects(results), strict=True)), campaign.about.sweeps
    return [_decide(criterion, measured, sweeps) for criterion in (campaign.about.accept if wanted is None else wanted)]


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
    criterion, metric = decision.criterion, decision.measured.metric if decision.measured else None
    interval = metric.interval if metric else None
    return {
        "name": criterion.name,
        "figure": criterion.selector.text,
        "threshold": criterion.threshold.text,
        "outcome": decision.outcome,
        "reason": decision.reason.text(),
        "reasons": [text for text, _ in decision.reason.causes],
        "notes": decision.notes,
        "value": metric.figure if metric else None,
        "ci95_low": interval.low if interval else None,
        "ci95_high": interval.high if interval else None,
        "n": metric.n if metric else None,
        "limit": decision.limit,
        "column": None if criterion.selector.ratio else criterion.selector.about.column,
        "points": [result.point for result in decision.results],
    }


# one decision


class _Undecided(Exception):
    """There is no figure to compare with the threshold. results: that lack it."""

    def __init__(self, reason: Reason, results: Sequence[PointSummary] = ()):
        self.reason, self.results = reason, tuple(results)
        super().__init__(reason.text())


_Measured = Sequence[tuple[PointSummary, Subject]]
_Pair = tuple[PointSummary, PointSummary]


def _decide(criterion: Criterion, measured: _Measured, sweeps: Sequence[SweepFacts]) -> Decision:
    selector = criterion.selector
    results, subjects = zip(*measured, strict=True) if measured else ((), ())
    try:
        if problem := unfit(selector, subjects) or unpaired(selector, subjects):
            raise _Undecided(Reason(problem))
        if selector.ratio:
            limit = criterion.threshold.value
            figure = _find_ratio(selector, [(results[a], results[b]) for a, b in find_pairs(selector, subjects)])
        else:
            limit, competing = _find_threshold(criterion, measured, suites_of(sweeps))
            figure = _find_best(selector, competing)
    except _Undecided as why:
        return Decision(criterion, "undecided", why.reason, results=why.results)
    sessions = max((sweep.repetitions.sessions for sweep in sweeps), default=1)
    return Decision(criterion, *_compare(criterion, figure, limit, sessions), figure, limit, figure.results)


def _find_threshold(
    criterion: Criterion, measured: _Measured, suites: Mapping[str, str]
) -> tuple[float, list[PointSummary]]:
    """Find the threshold and the results to compare with it: for a published figure, only results measured in the same
    way. If several systems are published, the best one sets the threshold. suites: sweep -> its suite."""
    threshold, selector = criterion.threshold, criterion.selector
    selected = [(result, subject) for result, subject in measured if matches(selector, subject)]
    if threshold.of is None:
        return threshold.value, [result for result, _ in selected]
    comparable = [
        (published.value, results)
        for published in criteria.published_named(threshold.of, selector)
        if (results := [result for result, subject in selected if criteria.compares(published, subject, suites)])
    ]
    if not comparable:
        raise _Undecided(Reason(f"nothing is measured as {threshold.of} was: a test of that suite, not scaled"))
    best = min if selector.about.lowest else max
    value, results = best(comparable, key=lambda candidate: candidate[0])
    return threshold.value * value, results


def _find_best(selector: Selector, results: Sequence[PointSummary]) -> Figure:
    """The figure of the best point, as for headlines. Raises _Undecided without one."""
    column, lowest = selector.about.column, selector.about.lowest
    best = headline.find_lowest_latency(results) if lowest else headline.find_highest(results, column)
    if best is None:
        raise _Undecided(_explain_no_figure(results), results if len(results) == 1 else ())
    if column not in best.metrics:
        raise _Undecided(Reason(f"its repetitions have no {selector.metric} (too few I/Os beyond it)"), [best.result])
    metric = best.widen(best.metrics[column])
    alike = 0 if best.confirmed else len(best.alike)
    competing = [result for result in results if not lowest or _loads(result) <= _loads(best.result)]
    absent = [result for result in competing if column not in result.metrics and result.state != "unneeded"]
    return Figure(metric, (best.result,), best.confirmed, best.chosen, alike, absent)


def _find_ratio(selector: Selector, pairs: Sequence[_Pair]) -> Figure:
    """The ratio of the pair with the best geometric mean, a choice that favors neither side. Raises _Undecided without
    one."""
    column, lowest = selector.about.column, selector.about.lowest
    pairs = [pair for pair in pairs if all(result.state != "unneeded" for result in pair)] or pairs
    known = [pair for pair in pairs if all(column in result.metrics for result in pair)]
    if known and lowest:
        least = min(_loads(*pair) for pair in known)
        pairs, known = ([pair for pair in each if _loads(*pair) <= least] for each in (pairs, known))
    absent = [*{result.point: result for pair in pairs for result in pair if column not in result.metrics}.values()]
    if not known:
        raise _Undecided(_explain_no_figure(absent))
    sign = 1 if lowest else -1
    best = min(known, key=lambda pair: sign * math.prod(result.metrics[column].figure for result in pair))
    confirmed = all(column in result.confirmed for result in best)
    a, b = (result.collect(column, [row for row in result.rows if bool(row.confirms) == confirmed]) for result in best)
    first, second = a.sample, b.sample
    if not (first and second):
        raise _Undecided(_explain_no_sample(best), best)
    if selector.ratio and selector.ratio[0].axis != NODES.name and any(session for session, _ in (*first, *second)):
        fewest = min(len(first), len(second))
        first, second = ({key: one[key] for key in one if key in first and key in second} for one in (first, second))
        if len(first) < min(fewest, MIN_REPETITIONS):  # node counts may have jobs of their own, outputs tell no rounds
            cure = "`iosweep rerun` of both points measures them again"
            raise _Undecided(Reason(f"measured in turn in fewer than {MIN_REPETITIONS} rounds; {cure}"), best)
    alike = 0 if confirmed else sum(_is_alike(pair, best, column, len(known)) for pair in known if pair is not best)
    figure, estimate = math.exp(fmean(second.values()) - fmean(first.values())), statistics.ratio([(second, first)])
    rounds = [b.values[key] / a.values[key] for key in a.values if key in b.values]
    # repetitions of different rounds have no ratio of their own
    ratios = rounds if estimate and len(rounds) == estimate.n else [figure] * min(len(first), len(second))
    metric = summarize_values(ratios, estimate and estimate.at(ALPHA / (1 + alike)))
    metric = replace(metric, figure=estimate.center if estimate else figure)
    by = f"confirmed by {human_count(metric.n, 'fresh repetition')} of each" if confirmed else "by their geometric mean"
    chosen = f"best of {len(known)} pairs of points, {by}" if len(known) > 1 else ""
    return Figure(metric, best, confirmed, chosen, alike, absent)


def _loads(*results: PointSummary) -> list[tuple[int, int]]:
    return [load(result.parameters["queue_depth"], result.nodes) for result in results]


def _is_alike(pair: _Pair, best: _Pair, column: str, pairs: int) -> bool:
    """Whether a pair may be as good as the best one of so many, as for headlines (`Rivals.is_alike`)."""
    sides = [(a.sample(column), b.sample(column)) for a, b in zip(pair, best, strict=True)]
    compared = [(a, b) for a, b in sides if a and b]
    found = statistics.ratio(compared) if len(compared) == len(sides) else None
    return found is None or not found.at(ALPHA / math.comb(pairs, 2)).excludes(1.0)


def _compare(criterion: Criterion, figure: Figure, limit: float, sessions: int) -> tuple[Outcome, Reason]:
    """The outcome, and its reason. sessions: planned."""
    suspect = _explain_suspect(figure.rows)
    absent = _explain_no_figure(figure.absent, "another point may be better") if figure.absent else None
    estimate, name = figure.at_look(figure.looks), "interval"
    if estimate is None:
        return "undecided", _explain_no_interval(figure, suspect)
    if figure.looks > 1:
        low, high = (_format(criterion, end, figure.metric.figure)[0] for end in (estimate.low, estimate.high))
        ends = f" ({low} to {high})" if estimate.tells else ""
        name = f"{100 * (1 - statistics.alpha_of_look(figure.looks)):.5g} % interval of look {figure.looks}{ends}"
    if not estimate.excludes(limit):
        cause = suspect or absent or _explain_missing(figure.rows) or _advise(figure, limit, sessions)
        includes = f"the {name} includes the threshold" if estimate.tells else "its repetitions scatter too much"
        return "undecided", cause.after(f"{includes}; ")
    above = estimate.low > limit
    outcome: Outcome = "pass" if above == criterion.threshold.least else "fail"
    where = f"{'above' if above else 'below'} the threshold"
    clause = (
        f"the whole {name} is {where}" if estimate.tells else f"its repetitions scatter, but it is certainly {where}"
    )
    # a better point can only raise a rate and lower a latency; of ratios the best pair may have any
    overturned = criterion.selector.ratio is not None or above == criterion.selector.about.lowest
    if doubt := suspect or (absent if overturned else None):
        return "undecided", doubt.after(f"{clause}, so it would {outcome}; but ")
    return outcome, Reason(clause)


def _advise(figure: Figure, limit: float, sessions: int) -> Reason:
    """How many repetitions would decide at the next look, if the configuration takes so many."""
    key, most, each = figure.key, MAX_CONFIRM if figure.confirmed else MAX_REPETITIONS, 1.0
    if sessions > 1:
        key, most, each = "sessions", MAX_SESSIONS, figure.metric.n / sessions
    estimate = figure.at_look(figure.looks + 1)
    needed = statistics.repetitions_to_exclude(limit, estimate) if estimate else None
    if needed is None or (count := math.ceil(needed / each)) > most:
        return Reason(f"too close to decide (more than {most:,} {key if sessions > 1 else 'repetitions'})")
    more = f"about {human_count(needed, 'repetition')}, {needed - figure.metric.n:,} more"
    return Reason(f"{more}, would decide if the figure stays: set `{key}` to {count:,} or more")


def _explain_no_interval(figure: Figure, suspect: Reason | None) -> Reason:
    n = figure.metric.n
    if n >= MIN_REPETITIONS:
        return _explain_no_sample(figure.results)
    cause = suspect or _explain_missing(figure.rows) or Reason(f"set `{figure.key}` to {MIN_REPETITIONS} or more")
    counted = human_count(n, "fresh repetition" if figure.confirmed else "repetition")
    return cause.after(f"{counted} that {'counts' if n == 1 else 'count'}, and an interval needs {MIN_REPETITIONS}: ")


def _explain_no_sample(results: Iterable[PointSummary]) -> Reason:
    if any(result.host_sets > 1 and not result.in_turn for result in results):
        return Reason("its repetitions ran on different nodes, so they have no interval")
    return Reason("a repetition has a figure of zero, so there is no interval")


def _explain_no_figure(points: Sequence[PointSummary], so: str = "no figure") -> Reason:
    """Why points have no figure: `no figure: not measured yet`, `no figure: 2 points invalid`, with the causes."""
    states = Counter(point.state for point in points)
    causes = tuple(caveats.rank(point.reasons for point in points))
    if set(states) == {"left"}:
        return Reason(f"{so}: {NOT_YET}", causes if [text for text, _ in causes] != [NOT_YET] else ())
    counts = ", ".join(f"{human_count(n, 'point')} {state}" for state, n in states.items())
    return Reason(f"{so}: {counts}", causes)


def _explain_missing(rows: Iterable[ResultRow]) -> Reason | None:
    """Why repetitions are missing: `the next run measures more`, or which limit stopped the campaign; None if all
    exist."""
    missing = [row for row in rows if row.verdict == "missing" and outcome(row) != "unneeded"]
    reasons = [row.reasons for row in missing if row.reasons and row.reasons != (NOT_YET,)]
    if not reasons:
        return Reason("the next run measures more") if missing else None
    return Reason(f"{human_count(len(reasons), 'repetition')} missing", tuple(caveats.rank(reasons)))


def _explain_suspect(rows: Iterable[ResultRow]) -> Reason | None:
    """`2 of 3 repetitions suspect`, with the causes but scatter, which the interval has; None if none is suspect."""
    counted = [row for row in rows if row.verdict in COUNTED]
    suspect = [
        [text for text in row.reasons if not text.startswith(formats.NOT_REPEATABLE)]
        for row in counted
        if not row.undisturbed
    ]
    if not suspect:
        return None
    return Reason(f"{len(suspect)} of {human_count(len(counted), 'repetition')} suspect", tuple(caveats.rank(suspect)))


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
        published = re.sub(r"\d{5,}", lambda digits: f"{int(digits[0]):,}", figure.text)
        return f"{metric}{100 * self.share:.3g} % of the published {published}"


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
        comparable.sort(key=lambda entry: -entry.share if entry.published.lowest else entry.share)  # best system first
        comparable.sort(key=lambda entry: (entry.published.column != result.metric, entry.published.column))
        if comparable:
            shares[result.point, result.phase] = comparable
    return shares
