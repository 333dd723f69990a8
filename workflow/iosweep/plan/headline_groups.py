"""Headline groups: the points that compete for a headline figure, because they compare; and criteria on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from iosweep.config import criteria
from iosweep.config.criteria import Selector, Subject, Where, lacks, matches
from iosweep.config.sweeps import Config
from iosweep.errors import Problem
from iosweep.node import fs_types
from iosweep.plan.model import Plan, Point, SweepFacts
from iosweep.text import human_count
from iosweep.tools import phases, tools

#: Phases with a headline latency as well: the time of an I/O without load.
LATENCY_PHASES = ("rand_read", "rand_write")


#: Value of an option or of a column of the tables.
Value = bool | int | float | str


#: Value of a condition that an output of others does not tell.
NOT_TOLD = "not told"


class Conditions(NamedTuple):
    """Conditions that no headline mixes. None: it does not apply."""

    tool: str
    write_mode: Value | None
    data: Value | None
    o_direct: Value | None
    fsync: Value | None
    other_options: Value | None = None  # of outputs of others


class HeadlineGroup(NamedTuple):
    """Phases whose best is a headline figure. file_size: of metadata phases (creating empty files is another thing);
    latency: the lowest latency wins, among the points with the lowest load; else the highest rate."""

    conditions: Conditions
    kind: str
    file_size: Value | None
    phase: str
    latency: bool = False


def conditions(tool: str, values: Mapping[str, Value | None]) -> Conditions:
    """The conditions of a point with these options."""
    options = tools()[tool].options if tool in tools() else {}
    told = {
        name: NOT_TOLD if values.get(name) is None and name in options else values.get(name)
        for name in ("o_direct", "fsync")
    }
    others = values.get("other_options")
    return Conditions(tool, values.get("write_mode"), values.get("data"), other_options=others, **told)


def of_phase(point: Conditions, phase: str) -> Conditions:
    """The conditions of a point that apply to a phase: conditions of writes do not apply to reads."""
    options = tools()[point.tool].options if point.tool in tools() else {}
    without: dict[str, Any] = {
        name: None
        for name in ("write_mode", "data", "fsync")
        if name in options and phase not in (options[name].phases or (phase,))
    }
    return point._replace(**without)


def headline_groups(points: Sequence[Point]) -> dict[HeadlineGroup, list[Point]]:
    """The groups of a plan with their points, those with the fewest that may be confirmed first: where points stand for
    best ones that are not known yet, each group finds a point of its own. Groups of a single point choose nothing, and
    are left out; there are none where nothing is to be confirmed."""
    if not any(point.repetitions.confirm for point in points):
        return {}
    found: dict[HeadlineGroup, list[Point]] = {}
    for point in points:
        known = conditions(point.tool, point.options)
        for phase in point.measured():
            size = point.options.get("file_size") if phase.kind == "metadata" else None
            group = HeadlineGroup(of_phase(known, phase.name), phase.kind, size, phase.name)
            found.setdefault(group, []).append(point)
            if phase.name in LATENCY_PHASES and tools()[point.tool].latency:
                found.setdefault(group._replace(latency=True), []).append(point)
    for group, members in found.items():
        if group.latency:
            loads = {point.id: load(point.options.get("queue_depth"), point.nodes) for point in members}
            least = min(loads.values())
            found[group] = [point for point in members if loads[point.id] == least]
    several = [(group, members) for group, members in found.items() if len(members) > 1]
    return dict(sorted(several, key=lambda item: sum(p.repetitions.confirm > 0 for p in item[1])))


def load(queue_depth: Value | None, nodes: int) -> tuple[int, int]:
    """The load of a point. Latencies are compared at the lowest load."""
    return (queue_depth if isinstance(queue_depth, int) else 1, nodes)


#: Conditions that no figure mixes: keys of `at`.
_CONDITIONS = (*Conditions._fields, "file_size")


def criteria_problems(config: Config, points: Iterable[Point]) -> Iterator[Problem]:
    """Criteria whose figures the points do not have, or have in several ways that do not compare."""
    if config.accept:
        planned = list(subjects(points))
        for criterion in config.accept:
            if wrong := unfit(criterion.selector, planned):
                yield config.criterion_problem(criterion, wrong)


def criteria_lines(plan: Plan, fstype: str = "") -> list[str]:
    """Lines on the criteria of a plan; none without criteria. fstype: of the target, "" where it is not known."""
    if not plan.accept:
        return []
    lines = [f"accept: {human_count(len(plan.accept), 'criterion', 'criteria')}"]
    suites, planned = suites_of(plan.sweeps), list(subjects(plan.points))
    for criterion in plan.accept:
        lines.append(f"  {criterion.text}")
        if reference := criterion.threshold.of:
            figures = criteria.published_named(reference, criterion.selector)
            if not any(criteria.compares(figure, subject, suites) for subject in planned for figure in figures):
                lines.append(f"    will be undecided: nothing planned is measured as {reference} was")
    if fs_types.of(fstype).memory and plan.target.type != fstype:  # each repetition will be suspect (checks/caches.py)
        lines.append(f"  all criteria will be undecided: the target is memory ({fstype})")
    return lines


def suites_of(sweeps: Iterable[SweepFacts]) -> dict[str, str]:
    """Sweep -> its suite. Scaled sweeps are left out: they compare with no published figure."""
    return {sweep.name: sweep.suite for sweep in sweeps if sweep.suite and not sweep.scaled}


def subjects(points: Iterable[Point]) -> Iterator[Subject]:
    """Each phase of each point."""
    for point in points:
        values = {"nodes": point.nodes, **point.options}
        for phase in point.phases:
            yield Subject(point.tool, phase, point.sweeps, values)


def unfit(selector: Selector, subjects: Sequence[Subject]) -> str | None:
    """The reason why a selector does not name a single figure of these phases, or None."""
    if wrong := lacks(selector, subjects):
        return wrong
    found = {_conditions(one): None for side in selector.sides() for one in subjects if matches(side, one)}
    if len(found) < 2:
        return None
    ways = {
        name: [value for value in dict.fromkeys(own) if value is not None]
        for name, *own in zip(_CONDITIONS, *found, strict=True)
        if len(set(own)) > 1
    }
    named = structs.replace(selector, where=(*selector.where, *(Where(name, own[0]) for name, own in ways.items())))
    several = "; ".join(f"{name} {' or '.join(Where(name, one).shown for one in own)}" for name, own in ways.items())
    return f"{selector.phase} is measured in ways that do not compare ({several}); name one: `{named.text}`"


def _conditions(subject: Subject) -> tuple[Value | None, ...]:
    """The conditions of a phase of a point that tell its headline group from others."""
    known = {name: value for name, value in subject.values.items() if isinstance(value, Value)}
    size = known.get("file_size") if phases()[subject.phase].kind == "metadata" else None
    return (*of_phase(conditions(subject.tool, known), subject.phase), size)
