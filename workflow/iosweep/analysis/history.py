"""Campaigns with the same points over time: headlines, their level shifts, and what changed at the same time. Pure.

The headline of a history comes from a single point, which is the best point of most campaigns. The best point of each
campaign would differ from night to night, and selection would bias its figure upward.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iosweep.analysis import comparison, formats, headline
from iosweep.analysis.comparison import Changed, NamedCampaign, write_change
from iosweep.analysis.summary import Metric, PointSummary, phase_order
from iosweep.judge import statistics
from iosweep.judge.statistics import LEAST_NIGHTS, Estimate, Split
from iosweep.plan import headline_groups
from iosweep.text import human_count, printable, some


@dataclass(frozen=True)
class Reading:
    """The figure of a headline in the campaign with this index, over the repetitions that count."""

    index: int
    metric: Metric
    suspect: bool

    @property
    def value(self) -> float:
        return self.metric.figure


@dataclass(frozen=True)
class Step:
    """A level shift."""

    at: int  # index of the first campaign of the new level
    split: Split
    verdict: str  # worse, better, or "too small to matter"
    changed: tuple[Changed, ...]  # facts that differ from the previous campaign

    @property
    def moved(self) -> str:
        """`−6.1 % (−8.2 to −4.0)`"""
        return write_change(self.split.change)


@dataclass(frozen=True)
class Line:
    """A headline over time. figures: of the campaigns that have one; steps: its level shifts; level: since the last
    shift."""

    name: str
    result: PointSummary
    column: str
    figures: tuple[Reading, ...]
    steps: tuple[Step, ...]
    level: Estimate | None

    @property
    def last(self) -> Reading:
        return self.figures[-1]

    @property
    def units(self) -> tuple[formats.Unit, ...]:
        return formats.units_of(self.column, self.result.kind)

    @property
    def last_verdict(self) -> str:
        """Verdict on the last level shift; "" without any."""
        return self.steps[-1].verdict if self.steps else ""


@dataclass(frozen=True)
class History:
    """Comparable campaigns in order of time, with their headlines. marks: index of a campaign -> facts that differ from
    the previous one; without: headlines with fewer than two figures."""

    campaigns: tuple[NamedCampaign, ...]
    lines: tuple[Line, ...]
    marks: Mapping[int, Sequence[Changed]]
    without: tuple[str, ...]

    @property
    def regressions(self) -> list[Line]:
        """Headlines whose last level shift is a regression that matters."""
        return [line for line in self.lines if line.last_verdict == "worse"]


#: Identity of a headline: its group and column.
_Key = tuple[headline_groups.HeadlineGroup, str]


def groups(campaigns: Sequence[NamedCampaign]) -> list[list[NamedCampaign]]:
    """Groups of campaigns with the same points and target, each in order of time; the largest group first."""
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
    marks = {
        index: changed
        for index in range(1, len(campaigns))
        if (changed := comparison.changes(campaigns[index - 1].campaign, campaigns[index].campaign))
    }
    # headline -> the best point of each campaign
    best: dict[_Key, list[str]] = {}
    for campaign in campaigns:
        for key, point in _find_best(campaign):
            best.setdefault(key, []).append(point)
    readings: dict[_Key, list[Reading]] = {}
    results: dict[_Key, PointSummary] = {}
    without = []
    for key in sorted(best, key=lambda key: (str(key[0].conditions), phase_order(key[0].phase), key[1])):
        # the best point of most campaigns; in a tie, the latest
        point, (group, column) = max(reversed(best[key]), key=best[key].count), key
        measured = []
        for index, campaign in enumerate(campaigns):
            for result in campaign.results:
                metric = result.metrics.get(column) if (result.point, result.phase) == (point, group.phase) else None
                if metric and metric.figure > 0:
                    measured.append(Reading(index, metric, result.verdict != "valid"))
                    results[key] = result
        if len(measured) > 1:
            readings[key] = measured
        else:
            conditions = formats.describe(group.conditions, group.kind, [group.phase])
            without.append(f"{formats.phase(group.phase)} ({conditions}{_on_target(group)})")
    splits = statistics.level_changes({str(key): [r.value for r in line] for key, line in readings.items()})
    lines = [_make_line(key, results[key], line, splits[str(key)], marks, at_least) for key, line in readings.items()]
    return History(tuple(campaigns), tuple(lines), marks, tuple(without))


def _find_best(campaign: NamedCampaign) -> Iterator[tuple[_Key, str]]:
    """The headlines of a campaign, each with its best point."""
    for group, results in headline.group(campaign.results).items():
        rivals = [headline.find_highest(results)]
        if group.phase in headline_groups.LATENCY_PHASES:
            rivals.append(headline.find_lowest_latency(results))
        yield from (((group, best.column), best.result.point) for best in rivals if best)


def _make_line(
    key: _Key,
    last: PointSummary,
    readings: Sequence[Reading],
    splits: Sequence[Split],
    marks: Mapping[int, Sequence[Changed]],
    at_least: float,
) -> Line:
    """Build a headline's line with its level shifts. last: its result in the last campaign that has one."""
    group, column = key
    latency = comparison.lower_is_better(column)
    steps = []
    for split in splits:
        gain = split.change.share * (-1 if latency else 1)
        verdict = "worse" if gain <= -at_least else "better" if gain >= at_least else "too small to matter"
        at, before = readings[split.at].index, readings[split.at - 1].index
        changed = tuple(fact for index in range(before + 1, at + 1) for fact in marks.get(index, ()))
        steps.append(Step(at, split, verdict, changed))
    present = readings[splits[-1].at :] if splits else readings
    title = f"{formats.phase(group.phase)}{' latency' if latency else ''}"
    size = group.file_size if isinstance(group.file_size, int) else 0
    files = f", files of {formats.size(size)}" if size else ""
    return Line(
        name=f"{title}, {formats.describe(group.conditions, last.kind, [group.phase])}{files}{_on_target(group)}",
        result=last,
        column=column,
        figures=tuple(readings),
        steps=tuple(steps),
        level=statistics.estimate([{(None, i): math.log(reading.value) for i, reading in enumerate(present)}]),
    )


def _on_target(group: headline_groups.HeadlineGroup) -> str:
    return f", target {group.target}" if group.target else ""


# in words

#: Maximum number of changed facts that are named.
_NAMED = 4


def sentence(found: History) -> str:
    """The summary: `30 campaigns, ...: Random read −6.1 % (−8.2 to −4.0) on ...`."""
    first, last = found.campaigns[0].began, found.campaigns[-1].began
    days = list(dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in (first, last)))
    period = f"{human_count(len(found.campaigns), 'campaign')}, {' to '.join(days)}"
    if len(found.campaigns) < 2 * LEAST_NIGHTS:
        each = f"{LEAST_NIGHTS} campaigns before the change and {LEAST_NIGHTS} after it"
        return f"{period}: too few to find a change; it takes {each}."
    losses = [
        f"{line.name.partition(',')[0]} {line.steps[-1].moved} on {found.campaigns[line.steps[-1].at].when}"
        for line in found.regressions
    ]
    if losses:
        rest = len(found.lines) - len(losses)
        others = f"; {human_count(rest, 'other headline')} did not lose" if rest else ""
        return f"{period}: {formats.listing(losses)}{others}."
    if count := sum(bool(line.steps) for line in found.lines):
        loss = "its last change was no loss" if count == 1 else "none of their last changes was a loss"
        return f"{period}: {human_count(count, 'headline')} changed, and {loss}."
    return f"{period}: no headline changed."


def level(line: Line) -> str:
    """The current level: `1.70 M IOPS ± 2.0 % over 12 campaigns`; without an interval of 100 % or more."""
    since = line.steps[-1].at if line.steps else 0
    count = sum(figure.index >= since for figure in line.figures)
    if line.level is None:
        return f"{formats.quantity(line.last.value, line.units)}, one campaign"
    center = formats.quantity(line.level.center, line.units)
    share = line.level.half_width_share
    margin = f" ± {100 * share:.1f} %" if share < 1 else ""
    return f"{center}{margin} over {human_count(count, 'campaign')}"


def changed(facts: Sequence[Changed]) -> str:
    """Changed facts: `fio fio-3.33 -> fio-3.36; kernel 6.1 -> 6.6`."""
    texts = [f"{fact.what} {fact.a} -> {fact.b}" for fact in facts]
    return some(texts, _NAMED, separator="; ") if texts else "nothing that is recorded"
