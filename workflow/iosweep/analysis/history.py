"""Campaigns with the same points over time: headlines, their changes of level, and what changed at the same time. Pure.

The headline of a history comes from a single point, which is the best point of most campaigns. The best point of each
night would differ from night to night, and its figure would be too high because it was chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from iosweep.analysis import comparison, formats, headline
from iosweep.analysis.comparison import Changed
from iosweep.analysis.summary import Metric, PointSummary, phase_order, summarize
from iosweep.judge import statistics
from iosweep.judge.statistics import LEAST_NIGHTS, Interval, Split
from iosweep.plan import headline_groups
from iosweep.tables.reader import Campaign
from iosweep.text import human_count, printable, some


@dataclass(frozen=True)
class Night:
    """A campaign of a history. name: of its results; began: when its first phase was measured."""

    name: str
    began: datetime
    campaign: Campaign
    results: tuple[PointSummary, ...]


@dataclass(frozen=True)
class Reading:
    """The figure of a headline in one night. index: of the night; metric: over the repetitions that count."""

    index: int
    metric: Metric
    suspect: bool

    @property
    def value(self) -> float:
        return self.metric.mean


@dataclass(frozen=True)
class Step:
    """A change of level. night: index of the first night of the new level; worse, better: whether the change matters;
    changed: facts that differ from the night before."""

    night: int
    split: Split
    worse: bool
    better: bool
    changed: tuple[Changed, ...]


@dataclass(frozen=True)
class Line:
    """A headline over time. figures: of the nights that have one; steps: changes of level; level: since the last
    change."""

    name: str
    result: PointSummary
    column: str
    figures: tuple[Reading, ...]
    steps: tuple[Step, ...]
    level: Interval | None

    @property
    def last(self) -> Reading:
        return self.figures[-1]

    @property
    def units(self) -> tuple[formats.Unit, ...]:
        return formats.units_of(self.column, self.result.kind)

    @property
    def since(self) -> int:
        """Index of the first night of the current level."""
        return self.steps[-1].night if self.steps else self.figures[0].index

    @property
    def regressed(self) -> bool:
        """Whether the last change was a loss that matters."""
        return bool(self.steps) and self.steps[-1].worse


@dataclass(frozen=True)
class History:
    """Comparable nights with their headlines. marks: index of a night -> facts that differ from the night before;
    without: headlines with fewer than two figures."""

    nights: tuple[Night, ...]
    lines: tuple[Line, ...]
    marks: Mapping[int, Sequence[Changed]]
    without: tuple[str, ...]

    @property
    def regressions(self) -> list[Line]:
        return [line for line in self.lines if line.regressed]


#: Identity of a headline: conditions, phase, column.
_Key = tuple[headline_groups.Conditions, str, str]


def night(name: str, campaign: Campaign) -> Night | None:
    """A campaign as a night; None if no measured repetition has a date."""
    began = min((row.started for row in campaign.rows if row.started), default=None)
    return Night(name, began, campaign, tuple(summarize(campaign.rows))) if began else None


def groups(nights: Sequence[Night]) -> list[list[Night]]:
    """Groups of nights that measured the same points on the same target, each by time; the largest group first."""
    found: dict[object, list[Night]] = {}
    for one in sorted(nights, key=lambda one: one.began):
        found.setdefault((_points_of(one), one.campaign.about.target.directory), []).append(one)
    return sorted(found.values(), key=len, reverse=True)


def unlike(one: Night, other: Night) -> str:
    """Why a night is not in the history of another night, as the end of a sentence."""
    own, theirs = _points_of(one), _points_of(other)
    if own != theirs:
        return f"measured other points ({len(own):,}, {len(own & theirs):,} of them in the history of {len(theirs):,})"
    return f"measured another target, {printable(one.campaign.about.target.directory)}"


def _points_of(one: Night) -> frozenset[str]:
    return frozenset(result.point for result in one.results)


def history(nights: Sequence[Night], at_least: float) -> History:
    """The headlines of comparable nights. at_least: the smallest loss that matters, as a share."""
    marks = {
        index: changed
        for index in range(1, len(nights))
        if (changed := comparison.changes(nights[index - 1].campaign, nights[index].campaign))
    }
    rows: dict[_Key, tuple[str, list[Reading]]] = {}
    without = []
    for key, point in _points(nights).items():
        readings = _readings(nights, key, point)
        if len(readings) > 1:
            rows[key] = point, readings
        else:
            without.append(f"{formats.phase(key[1])} ({formats.describe(key[0], 'data', [key[1]])})")
    splits = statistics.level_changes({str(key): [one.value for one in own] for key, (_, own) in rows.items()})
    lines = [_line(nights, key, point, own, splits[str(key)], marks, at_least) for key, (point, own) in rows.items()]
    return History(tuple(nights), tuple(lines), marks, tuple(without))


def _points(nights: Sequence[Night]) -> dict[_Key, str]:
    """Headline -> the point that is its best point in most nights; among equals, the best point of the latest night."""
    best: dict[_Key, list[str]] = {}
    for one in nights:
        for key, point in _best(one):
            best.setdefault(key, []).append(point)
    order = sorted(best, key=lambda key: (str(key[0]), phase_order(key[1]), key[2]))
    return {key: max(reversed(best[key]), key=best[key].count) for key in order}


def _best(one: Night) -> Iterator[tuple[_Key, str]]:
    conditions = formats.conditions(one.results)
    slots: dict[tuple[headline_groups.Conditions, str], list[PointSummary]] = {}
    for result in one.results:
        key = headline_groups.of_phase(conditions[result.point], result.phase), result.phase
        slots.setdefault(key, []).append(result)
    for (condition, phase), results in slots.items():
        found = [headline.find_highest(results)]
        if phase in headline_groups.LATENCY_PHASES:
            found.append(headline.find_lowest_latency(results))
        yield from (((condition, phase, best.column), best.result.point) for best in found if best)


def _readings(nights: Sequence[Night], key: _Key, point: str) -> list[Reading]:
    """The figures of a phase of a point, for the nights in which a repetition counts."""
    found = []
    for index, one in enumerate(nights):
        for result in one.results:
            metric = result.metrics.get(key[2]) if (result.point, result.phase) == (point, key[1]) else None
            if metric and metric.mean > 0:
                found.append(Reading(index, metric, result.verdict != "valid"))
    return found


def _line(
    nights: Sequence[Night],
    key: _Key,
    point: str,
    readings: Sequence[Reading],
    splits: Sequence[Split],
    marks: Mapping[int, Sequence[Changed]],
    at_least: float,
) -> Line:
    condition, phase, column = key
    last = next(r for r in nights[readings[-1].index].results if (r.point, r.phase) == (point, phase))
    latency = comparison.lower_is_better(column)
    steps = []
    for split in splits:
        better = split.change.share * (-1 if latency else 1)
        at, before = readings[split.at].index, readings[split.at - 1].index
        changed = tuple(one for index in range(before + 1, at + 1) for one in marks.get(index, ()))
        steps.append(Step(at, split, better <= -at_least, better >= at_least, changed))
    present = readings[splits[-1].at :] if splits else readings
    title = f"{formats.phase(phase)}{' latency' if latency else ''}"
    return Line(
        name=f"{title}, {formats.describe(condition, last.kind, [phase])}",
        result=last,
        column=column,
        figures=tuple(readings),
        steps=tuple(steps),
        level=statistics.interval([one.value for one in present]),
    )


# in words

#: Most changed facts that are named.
_NAMED = 4


def sentence(found: History) -> str:
    """The summary: `30 campaigns, ...: Random read fell by 6.1 % (4.0 to 8.2) on ...`."""
    first, last = found.nights[0].began, found.nights[-1].began
    days = list(dict.fromkeys(f"{one:%Y-%m-%d}" for one in (first, last)))
    over = f"{human_count(len(found.nights), 'campaign')}, {' to '.join(days)}"
    if len(found.nights) < 2 * LEAST_NIGHTS:
        each = f"{LEAST_NIGHTS} campaigns before the change and {LEAST_NIGHTS} after it"
        return f"{over}: too few to find a change; it takes {each}."
    lost = [
        f"{line.name.partition(',')[0]} {moved(line.steps[-1])} on {when(found, line.steps[-1].night)}"
        for line in found.regressions
    ]
    if lost:
        rest = len(found.lines) - len(lost)
        others = f"; {human_count(rest, 'other headline')} did not lose" if rest else ""
        return f"{over}: {formats.listing(lost)}{others}."
    if changed_ := sum(bool(line.steps) for line in found.lines):
        loss = "its last change was no loss" if changed_ == 1 else "none of their last changes was a loss"
        return f"{over}: {human_count(changed_, 'headline')} changed, and {loss}."
    return f"{over}: no headline changed."


def when(found: History, index: int) -> str:
    """The date of a campaign; with its name if another campaign has the same date, and with its time if another has the
    same name, too: `2025-06-20`, `2025-06-20 (night-19)`, `2025-06-20 23:14:05 (night-19)`."""
    one = found.nights[index]
    day = f"{one.began:%Y-%m-%d}"
    alike = [other.name for other in found.nights if f"{other.began:%Y-%m-%d}" == day]
    if len(alike) == 1:
        return day
    return f"{day} ({one.name})" if alike.count(one.name) == 1 else f"{day} {one.began:%H:%M:%S} ({one.name})"


def moved(step: Step) -> str:
    """`fell by 6.1 % (4.0 to 8.2)`"""
    share = step.split.change.share
    ends = sorted(abs(end) * (1 if end * share > 0 else -1) for end in step.split.change.within())
    verb = "rose by" if share > 0 else "fell by"
    low, high = (f"{100 * end:.1f}".replace("-", "\N{MINUS SIGN}") for end in ends)
    return f"{verb} {100 * abs(share):.1f} % ({low} to {high})"


def verdict(step: Step) -> str:
    return "worse" if step.worse else "better" if step.better else "too small to matter"


def level(line: Line) -> str:
    """The current level: `1.70 M IOPS ± 2.0 % over 12 campaigns`; without an interval if that is useless."""
    count = sum(one.index >= line.since for one in line.figures)
    if line.level is None:
        return f"{formats.quantity(line.last.value, line.units)}, one campaign"
    figure = formats.quantity(line.level.center, line.units)
    share = line.level.half_width_share
    sure = f" ± {100 * share:.1f} %" if share < 1 else ""
    return f"{figure}{sure} over {human_count(count, 'campaign')}"


def changed(told: Sequence[Changed]) -> str:
    """Changed facts: `fio fio-3.33 -> fio-3.36; kernel 6.1 -> 6.6`."""
    texts = [f"{one.what} {one.a} -> {one.b}" for one in told]
    return some(texts, _NAMED, separator="; ") if texts else "nothing that is recorded"
