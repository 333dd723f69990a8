"""Headline groups: which points compete for a headline figure; and what a plan cannot give, criteria included. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from iosweep.config import criteria
from iosweep.config.criteria import Selector, Subject, Where, find_pairs, lacks, matches
from iosweep.config.sweeps import MIN_REPETITIONS, Config
from iosweep.errors import Problem
from iosweep.plan.model import Plan, Point, SweepFacts
from iosweep.tools import phases, tools
from iosweep.tools.axes import TARGET

#: Phases that also have a headline latency: the time of an I/O without load.
LATENCY_PHASES = ("rand_read", "rand_write")


#: Value of an option or of a column of the tables.
Value = bool | int | float | str


#: Value of a condition that an ingested output does not report.
NOT_TOLD = "not told"


class Conditions(NamedTuple):
    """Conditions that separate headline groups. None: does not apply."""

    tool: str
    write_mode: Value | None
    data: Value | None
    o_direct: Value | None
    fsync: Value | None
    other_options: Value | None = None  # of ingested outputs


class HeadlineGroup(NamedTuple):
    """Phases of points that compete for a headline figure."""

    conditions: Conditions
    kind: str
    file_size: Value | None  # only of metadata phases, because creating empty files is not comparable
    phase: str
    target: Value | None = None
    latency: bool = False  # the lowest latency wins, among the points with the lowest load; else the highest rate


def conditions(tool: str, values: Mapping[str, Value | None]) -> Conditions:
    """The conditions of a point with these options."""
    options = tools()[tool].options if tool in tools() else {}
    flags = {
        name: NOT_TOLD if values.get(name) is None and name in options else values.get(name)
        for name in ("o_direct", "fsync")
    }
    others = values.get("other_options")
    return Conditions(tool, values.get("write_mode"), values.get("data"), other_options=others, **flags)


def of_phase(point: Conditions, phase: str) -> Conditions:
    """The conditions of a point that apply to a phase: conditions of writes do not apply to reads."""
    options = tools()[point.tool].options if point.tool in tools() else {}
    inapplicable: dict[str, Any] = {
        name: None
        for name in ("write_mode", "data", "fsync")
        if name in options and phase not in (options[name].phases or (phase,))
    }
    return point._replace(**inapplicable)


def headline_groups(points: Sequence[Point]) -> dict[HeadlineGroup, list[Point]]:
    """The headline groups of a plan with their points; none if nothing is to be confirmed. Groups of a single point are
    left out.

    Groups with the fewest points that may be confirmed come first, so that each can find a point that no other group
    has taken, as long as the best points are not known.
    """
    if not any(point.repetitions.confirm for point in points):
        return {}
    groups: dict[HeadlineGroup, list[Point]] = {}
    for point in points:
        of_point = conditions(point.tool, point.options)
        for phase in point.measured():
            size = point.options.get("file_size") if phase.kind == "metadata" else None
            group = HeadlineGroup(of_phase(of_point, phase.name), phase.kind, size, phase.name, point.target or None)
            groups.setdefault(group, []).append(point)
            if phase.name in LATENCY_PHASES and tools()[point.tool].latency:
                groups.setdefault(group._replace(latency=True), []).append(point)
    for group, members in groups.items():
        if group.latency:
            loads = {point.id: load(point.options.get("queue_depth"), point.nodes) for point in members}
            least = min(loads.values())
            groups[group] = [point for point in members if loads[point.id] == least]
    several = [(group, members) for group, members in groups.items() if len(members) > 1]
    return dict(sorted(several, key=lambda item: sum(p.repetitions.confirm > 0 for p in item[1])))


def load(queue_depth: Value | None, nodes: int) -> tuple[int, int]:
    """The load of a point. Latencies are compared at the lowest load."""
    return (queue_depth if isinstance(queue_depth, int) else 1, nodes)


#: Names of the values that `_conditions` returns.
_CONDITIONS = (*Conditions._fields, "file_size", TARGET.name)


def criteria_problems(config: Config, points: Iterable[Point]) -> Iterator[Problem]:
    """Criteria whose figure no point has, or several points have under conditions that do not compare."""
    if config.accept:
        planned = list(subjects(points))
        for criterion in config.accept:
            if wrong := unfit(criterion.selector, planned):
                yield config.documents[0].problem((criteria.SECTION, criterion.name), wrong)


def foreseen(plan: Plan) -> list[str]:
    """What this plan cannot give, however it is measured: each cause once, with what to write instead."""
    results = [(point, subject) for point in plan.points for subject in subjects([point])]
    groups = headline_groups(plan.points)
    short = {p.id for p in plan.points if p.phase_time_s is not None and p.phase_time_s < plan.shortest_steady_s(p)}
    few = {p.id for p in plan.points if p.repetitions.most < MIN_REPETITIONS}
    fresh = {g: max(p.repetitions.confirm * p.repetitions.sessions for p in of) for g, of in groups.items()}
    unconfirmed = {group for group, repetitions in fresh.items() if 0 < repetitions < MIN_REPETITIONS}

    def count(points: Container[str]) -> str:
        return _extent(sum(point.id in points for point, _ in results), len(results), "result", "results")

    lines = []
    if short:
        least = f"{plan.limits.shortest_phase:g}s"
        cure = f"set phase_time to {least} or more (or, for a trial, limits.shortest_phase to 0s)"
        lines.append(f"{count(short)} will be suspect: phases shorter than {least}; {cure}")
    if few:
        few_are = f"fewer than {MIN_REPETITIONS} repetitions; set repetitions to {MIN_REPETITIONS} or more"
        lines.append(f"{count(few)} will have no interval: {few_are}")
    if unconfirmed:
        lines.append(f"best points will have no interval: set confirm to {MIN_REPETITIONS} or more, or remove it")
    undecided: dict[str, list[str]] = {}
    suites, planned = suites_of(plan.sweeps), [subject for _, subject in results]
    for criterion in plan.accept:
        selector, reference = criterion.selector, criterion.threshold.of
        figures = criteria.published_named(reference, selector) if reference else ()
        chosen = {n for pair in find_pairs(selector, planned) for n in pair} if selector.ratio else ()
        points = {results[n][0].id for n in chosen or (n for n, s in enumerate(planned) if matches(selector, s))}
        competing = [
            group
            for group, members in groups.items()
            if (group.phase, group.latency) == (selector.phase, selector.about.lowest)
            and fresh[group]
            and points.issuperset(point.id for point in members)
        ]
        why = unpaired(selector, planned)
        if reference and not any(criteria.compares(f, s, suites) for s in planned for f in figures):
            why = f"nothing planned is measured as {reference} was"
        elif points <= short:
            why = why or "suspect results decide nothing"
        elif unconfirmed.intersection(competing) or (points <= few and not competing):
            why = why or "without an interval nothing is decided"
        if why:
            undecided.setdefault(why, []).append(criterion.text)
    for why, texts in undecided.items():
        which = _extent(len(texts), len(plan.accept), "criterion", "criteria")
        named = "" if len(texts) == len(plan.accept) else f" ({'; '.join(texts)})"
        lines.append(f"{which}{named} will be undecided: {why}")
    return lines


def _extent(affected: int, total: int, one: str, many: str) -> str:
    """`all 12 results`, `3 of 12 results`, `the result`."""
    if affected < total:
        return f"{affected:,} of {total:,} {many}"
    return f"all {total:,} {many}" if total > 1 else f"the {one}"


def suites_of(sweeps: Iterable[SweepFacts]) -> dict[str, str]:
    """Sweep -> its suite, without scaled sweeps, which do not compare with published figures."""
    return {sweep.name: sweep.suite for sweep in sweeps if sweep.suite and not sweep.scaled}


def subjects(points: Iterable[Point]) -> Iterator[Subject]:
    """Each phase of each point, as criteria select it."""
    for point in points:
        values = {"nodes": point.nodes, **point.options, "phase_time": point.phase_time_s}
        for phase in point.phases:
            yield Subject(point.tool, phase, point.sweeps, values)


def unfit(selector: Selector, subjects: Sequence[Subject]) -> str | None:
    """Why a selector does not name a single figure of these phases, or None."""
    if wrong := lacks(selector, subjects):
        return wrong
    if selector.ratio:  # its axis may be a condition: both sides of a pair have the same ones otherwise
        selected = [subjects[first] for first, _ in find_pairs(selector, subjects)]
    else:
        selected = [subject for subject in subjects if matches(selector, subject)]
    distinct = dict.fromkeys(map(_conditions, selected))
    if len(distinct) < 2:
        return None
    ways = {
        name: [value for value in dict.fromkeys(values) if value is not None]
        for name, *values in zip(_CONDITIONS, *distinct, strict=True)
        if len(set(values)) > 1
    }
    named = structs.replace(selector, where=(*selector.where, *(Where(name, each[0]) for name, each in ways.items())))
    several = "; ".join(f"{name} {' or '.join(Where(name, v).shown for v in values)}" for name, values in ways.items())
    return f"{selector.phase} is measured in ways that do not compare ({several}); name one: `{named.text}`"


def unpaired(selector: Selector, subjects: Sequence[Subject]) -> str | None:
    """Why a ratio has no points to compare, or None."""
    if selector.ratio is None or find_pairs(selector, subjects):
        return None
    first, second = selector.ratio
    return f"no two points of {selector.phase} differ only in {first.axis} ({first.shown} and {second.shown})"


def _conditions(subject: Subject) -> tuple[Value | None, ...]:
    """The conditions of a phase of a point that separate its headline group from others."""
    options = {name: value for name, value in subject.values.items() if isinstance(value, Value)}
    size = options.get("file_size") if phases()[subject.phase].kind == "metadata" else None
    return (
        *of_phase(conditions(subject.tool, options), subject.phase),
        size,
        options.get(TARGET.name),
    )
