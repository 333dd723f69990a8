"""Campaigns with the same points over time: headlines, their level shifts, and what else is new in these nights. Pure.

The headline of a history comes from a single point, which is the best point of most campaigns. The best point of each
campaign would differ from night to night, and selection would bias its figure upward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from iosweep.analysis import comparison, formats, headline
from iosweep.analysis.changes import Changed, find_changes
from iosweep.analysis.comparison import NamedCampaign, Verdict, write_change
from iosweep.analysis.summary import Metric, PointSummary, phase_order
from iosweep.judge import statistics
from iosweep.judge.statistics import MIN_HEADLINES, MIN_NIGHTS, Sample, Shift
from iosweep.plan import headline_groups
from iosweep.text import human_count, printable, some


@dataclass(frozen=True)
class Headline:
    """A headline over time. figures: index of a campaign -> figure of the point; doubtful: indices of campaigns in
    which the point is not valid."""

    name: str
    result: PointSummary
    column: str
    figures: Mapping[int, Metric]
    doubtful: frozenset[int]

    @property
    def units(self) -> tuple[formats.Unit, ...]:
        return formats.units_of(self.column, self.result.kind)

    @property
    def last(self) -> str:
        """The figure of its last campaign."""
        return formats.quantity([*self.figures.values()][-1].figure, self.units)

    @property
    def row(self) -> dict[int, float]:
        """Index of a campaign -> logarithm of the figure; higher is better."""
        sign = -1 if comparison.lower_is_better(self.column) else 1
        return {index: sign * math.log(metric.figure) for index, metric in self.figures.items()}


@dataclass(frozen=True)
class Step:
    """A level shift of one or more headlines. shift: of indices of campaigns, in which higher figures are better; new:
    facts that differ between the campaigns around it."""

    headlines: tuple[Headline, ...]
    shift: Shift
    verdict: Verdict
    new: tuple[Changed, ...]


@dataclass(frozen=True)
class History:
    """Comparable campaigns in order of time, with their headlines. marks: index of a campaign -> facts that differ from
    the previous one; without: headlines with fewer than two figures."""

    campaigns: tuple[NamedCampaign, ...]
    headlines: tuple[Headline, ...]
    steps: tuple[Step, ...]
    marks: Mapping[int, Sequence[Changed]]
    without: tuple[str, ...]

    def steps_of(self, line: Headline) -> list[Step]:
        return [step for step in self.steps if line in step.headlines]

    @property
    def regressions(self) -> list[Step]:
        """Losses that matter, if they are the last level shift of a headline."""
        last = [steps[-1] for line in self.headlines if (steps := self.steps_of(line))]
        return [step for step in self.steps if step in last and step.verdict == "worse"]


#: Identity of a headline: its group and column.
_Key = tuple[headline_groups.HeadlineGroup, str]


def groups(campaigns: Iterable[NamedCampaign]) -> list[list[NamedCampaign]]:
    """Groups of campaigns with the same points and targets, each in order of time; the largest group first."""
    comparable: dict[object, list[NamedCampaign]] = {}
    for campaign in sorted(campaigns, key=lambda campaign: campaign.began):
        comparable.setdefault((_point_ids(campaign), campaign.campaign.about.on), []).append(campaign)
    return sorted(comparable.values(), key=len, reverse=True)


def unlike(campaign: NamedCampaign, other: NamedCampaign) -> str:
    """Why a campaign is not in the history of another, as the end of a sentence."""
    points, others = _point_ids(campaign), _point_ids(other)
    if points != others:
        both = len(points & others)
        return f"measured other points ({len(points):,}, {both:,} of them in the history of {len(others):,})"
    return f"measured another target, {printable(campaign.campaign.about.on)}"


def _point_ids(campaign: NamedCampaign) -> frozenset[str]:
    return frozenset(result.point for result in campaign.results)


def history(campaigns: Sequence[NamedCampaign], at_least: float) -> History:
    """The history of comparable campaigns, which are in order of time. at_least: the smallest loss that matters, as a
    share."""
    best: dict[_Key, list[str]] = {}  # the best point of each campaign
    for campaign in campaigns:
        for key, point in _find_best(campaign):
            best.setdefault(key, []).append(point)
    headlines: list[Headline] = []
    without: list[str] = []
    for key in sorted(best, key=_order):
        # the best point of most campaigns; in a tie, the latest
        line = _follow(campaigns, key, max(reversed(best[key]), key=best[key].count))
        if len(line.figures) > 1:
            headlines.append(line)
        else:
            without.append(line.name)
    steps = []
    for shift in statistics.level_shifts({str(number): line.row for number, line in enumerate(headlines)}):
        gain = shift.ratio.share
        verdict: Verdict = "worse" if gain <= -at_least else "better" if gain >= at_least else "same"
        new = find_changes(campaigns[shift.before].campaign, campaigns[shift.latest].campaign)
        steps.append(Step(tuple(headlines[int(name)] for name in shift.names), shift, verdict, tuple(new)))
    marks = {
        index: changed
        for index in range(1, len(campaigns))
        if (changed := find_changes(campaigns[index - 1].campaign, campaigns[index].campaign))
    }
    return History(tuple(campaigns), tuple(headlines), tuple(steps), marks, tuple(without))


def _order(key: _Key) -> tuple[object, ...]:
    group, column = key
    return str(group.conditions), phase_order(group.phase), column, str(group.target)


def _find_best(campaign: NamedCampaign) -> Iterator[tuple[_Key, str]]:
    """The headlines of a campaign, each with its best point."""
    for group, results in headline.group(campaign.results).items():
        rivals = [headline.find_highest(results)]
        if group.phase in headline_groups.LATENCY_PHASES:
            rivals.append(headline.find_lowest_latency(results))
        yield from (((group, best.column), best.result.point) for best in rivals if best)


def _follow(campaigns: Sequence[NamedCampaign], key: _Key, point: str) -> Headline:
    """The headline at a point: as in the reports, of the fresh repetitions if there are any."""
    group, column = key
    results = {
        index: result
        for index, campaign in enumerate(campaigns)
        for result in campaign.results
        if (result.point, result.phase) == (point, group.phase)
    }
    metrics = {index: result.confirmed.get(column) or result.metrics.get(column) for index, result in results.items()}
    last = [*results.values()][-1]
    title = f"{formats.phase(group.phase)}{' latency' if comparison.lower_is_better(column) else ''}"
    words = [title, formats.describe(group.conditions, last.kind, [group.phase])]
    if isinstance(group.file_size, int) and group.file_size:
        words.append(f"files of {formats.size(group.file_size)}")
    if group.target:
        words.append(f"target {group.target}")
    return Headline(
        name=", ".join(words),
        result=last,
        column=column,
        figures={index: metric for index, metric in metrics.items() if metric and metric.figure > 0},
        doubtful=frozenset(index for index, result in results.items() if result.verdict != "valid"),
    )


# in words

#: Maximum number of changed facts, of headlines and of losses that are named.
_NAMED = 4


def sentence(found: History) -> str:
    """The summary: `30 campaigns, ...: Random read −6.1 % (−8.2 to −4.0) between ... and ...; ...`."""
    first, last = found.campaigns[0].began, found.campaigns[-1].began
    days = list(dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in (first, last)))
    period = f"{human_count(len(found.campaigns), 'campaign')}, {' to '.join(days)}"
    if len(found.campaigns) < 2 * MIN_NIGHTS:
        each = f"{MIN_NIGHTS} campaigns before the change and {MIN_NIGHTS} after it"
        return f"{period}: too few to find a change; it takes at least {each}."
    if losses := found.regressions:
        lost = [line for step in losses for line in step.headlines]
        rest = sum(line not in lost for line in found.headlines)
        others = f"; {human_count(rest, 'other headline')} did not lose" if rest else ""
        told = []
        for nights, steps in groupby(losses, lambda step: between(found, step)):
            moved = (_moved(found, step) for step in steps)
            told.append(f"{formats.listing([f'{subject} {change}' for subject, _, change in moved])} between {nights}")
        return f"{period}: {some(told, _NAMED, separator='; ')}{others}."
    if found.steps:
        return f"{period}: {human_count(len(found.steps), 'change')}, and the last one of no headline is a loss."
    return f"{period}: no headline changed."


def tell(found: History, step: Step) -> str:
    """`Random read fell between ... and ...: −6.1 % (−8.2 to −4.0); new in these nights: kernel 6.1 -> 6.6`"""
    subject, verb, change = _moved(found, step)
    new = f"new in these nights: {changed(step.new)}" if step.new else "nothing recorded is new in these nights"
    small = "; too small to matter" if step.verdict == "same" else ""
    return f"{subject} {verb} between {between(found, step)}: {change}; {new}{small}"


def _moved(found: History, step: Step) -> tuple[str, str, str]:
    """What changed, how, and by how much: (`Random read`, `fell`, `−6.1 % (−8.2 to −4.0) against the others`)."""
    names, total = [line.name.partition(",")[0] for line in step.headlines], len(found.headlines)
    if len(names) > 1:
        which = f"all {total} headlines" if len(names) == total else f"{len(names)} of {total} headlines"
        subject = which if len(names) == total else f"{which} ({some(names, _NAMED)})"
        return subject, f"got {'better' if step.shift.ratio.log > 0 else 'worse'}", write_change(step.shift.ratio)
    [line] = step.headlines
    several = sum(other.name.partition(",")[0] == names[0] for other in found.headlines) > 1
    sign = -1 if comparison.lower_is_better(line.column) else 1
    change = replace(step.shift.ratio, log=sign * step.shift.ratio.log)
    against = " against the others" if total >= MIN_HEADLINES else ""
    return line.name if several else names[0], "rose" if change.log > 0 else "fell", write_change(change) + against


def between(found: History, step: Step) -> str:
    """`2025-06-18 23:14 (night-17) and 2025-06-20 23:14 (night-19)`"""
    return " and ".join(found.campaigns[index].when for index in (step.shift.before, step.shift.latest))


def level(found: History, line: Headline) -> str:
    """The current level: `1.70 M IOPS ± 2.0 % over 12 campaigns`; without an interval if that tells nothing."""
    since = max((step.shift.at for step in found.steps_of(line)), default=0)
    nights: Sample = {
        (None, index): math.log(metric.figure) for index, metric in line.figures.items() if index >= since
    }
    if (estimate := statistics.estimate(nights)) is None:
        return f"{line.last}, one campaign"
    margin = f" ± {100 * estimate.half_width_share:.1f} %" if estimate.tells else ""
    return f"{formats.quantity(estimate.center, line.units)}{margin} over {human_count(len(nights), 'campaign')}"


def changed(facts: Sequence[Changed]) -> str:
    """Changed facts: `fio fio-3.33 -> fio-3.36; kernel 6.1 -> 6.6`."""
    return some([f"{fact.what} {fact.a} -> {fact.b}" for fact in facts], _NAMED, separator="; ")
