"""Whether what is planned has the figures that the criteria of acceptance name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from iosweep.config import published
from iosweep.config.criteria import Criterion
from iosweep.config.selectors import Selector, Subject, Where, lacks, matches
from iosweep.config.sweeps import Config
from iosweep.errors import Problem
from iosweep.node import fs_types
from iosweep.plan import contests
from iosweep.plan.model import Plan, Point
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.text import human_count
from iosweep.tools import phases

#: Conditions that no figure mixes: keys of `at`.
_CONDITIONS = (*contests.Conditions._fields, "file_size")


def problems(config: Config, points: Iterable[Point]) -> Iterator[Problem]:
    """Criteria whose figures the points do not have, or have in several ways that do not compare."""
    if config.accept:
        planned = list(subjects(points))
        for criterion in config.accept:
            if wrong := unfit(criterion.selector, planned):
                yield config.criterion_problem(criterion, wrong)


def lines(plan: Plan, fstype: str = "") -> list[str]:
    """What a plan says of its criteria; nothing without any. fstype: of the target, "" where it is not known."""
    if not plan.accept:
        return []
    found = [f"accept: {human_count(len(plan.accept), 'criterion', 'criteria')}"]
    for one in plan.accept:
        found.append(f"  {one.text}")
        if one.threshold.of and not _compares(one, plan):
            found.append(f"    will be undecided: nothing planned is measured as {one.threshold.of} was")
    if fs_types.of(fstype).memory and plan.target.type != fstype:  # each repetition will be suspect (checks/reached.py)
        found.append(f"  all criteria will be undecided: the target is memory ({fstype})")
    return found


def suites_of(sweeps: Iterable[SweepFacts]) -> dict[str, str]:
    """Sweep -> the suite that it is of, without those that were scaled: they compare with nothing published."""
    return {sweep.name: sweep.suite for sweep in sweeps if sweep.suite and not sweep.scaled}


def _compares(criterion: Criterion, plan: Plan) -> bool:
    """Whether a planned point is measured as a published figure was that a criterion names."""
    figures = published.named(criterion.threshold.of or "", criterion.selector)
    suites = suites_of(plan.sweeps)
    return any(published.compares(figure, one, suites) for one in subjects(plan.points) for figure in figures)


def subjects(points: Iterable[Point]) -> Iterator[Subject]:
    """Each phase of each point."""
    for point in points:
        values = {"nodes": point.nodes, **point.options}
        for phase in point.phases:
            yield Subject(point.tool, phase, point.sweeps, values)


def unfit(selector: Selector, subjects: Sequence[Subject]) -> str | None:
    """Why a selector does not name one figure of these, or None."""
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


def _conditions(subject: Subject) -> tuple[contests.Value | None, ...]:
    """What tells the contest of a phase of a point from others (contests.py)."""
    known = {name: value for name, value in subject.values.items() if isinstance(value, contests.Value)}
    own = contests.of_phase(contests.conditions(subject.tool, known), subject.phase)
    size = known.get("file_size") if phases()[subject.phase].kind == "metadata" else None
    return (*own, size)
