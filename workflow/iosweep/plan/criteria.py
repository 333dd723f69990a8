"""Whether what is planned has the figures that the criteria of acceptance name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from iosweep.config import published
from iosweep.config.criteria import Criterion
from iosweep.config.published import Condition, PublishedFigure
from iosweep.config.selectors import Selector, Subject, Where, lacks, matches
from iosweep.config.sweeps import Config
from iosweep.errors import Problem
from iosweep.node import fs_types
from iosweep.plan import contests
from iosweep.plan.model import Plan, Point
from iosweep.text import human_count, some
from iosweep.tools import phases
from iosweep.tools.axes import NODES, PHASE_TIME

#: Conditions that no figure mixes: keys of `at`.
_CONDITIONS = ("tool", "write_mode", "data", "o_direct", "file_size")
#: Conditions of a reference that are named where they are not met.
_NAMED = 3


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
        if wrong := incomparable(one, plan):
            found.append(f"    will be undecided, because nothing planned compares with it: {wrong}")
    if fs_types.of(fstype).memory and plan.target.type != fstype:  # each repetition will be suspect (checks/reached.py)
        found.append(f"  all criteria will be undecided: the target is memory ({fstype})")
    return found


def incomparable(criterion: Criterion, plan: Plan) -> str | None:
    """Why no planned point can be compared with the reference that a criterion names; None where one can, and of a
    criterion without a reference.

    The conditions are those of analysis/references.py: of the tool, each of `where`, and that no suite was scaled.
    """
    name = criterion.threshold.of
    if name is None or not (meant := published.find(name, plan.references)):
        return None
    selector = criterion.selector
    points = [point for point in plan.points if any(matches(selector, one) for one in subjects([point]))]
    scaled = {id: sweep.suite or sweep.name for sweep in plan.sweeps if sweep.scaled for id in sweep.points}
    whole = {id for sweep in plan.sweeps if not sweep.scaled for id in sweep.points}
    reasons: list[list[str]] = []
    for figure in published.figures_of(*meant, selector):
        for point in points:
            unmet = [f"tool {point.tool}, not {figure.tool}"] if point.tool != figure.tool else []
            unmet += _unmet(figure, point)
            if point.id in scaled and point.id not in whole:
                unmet.append(f"the suite {scaled[point.id]} is scaled")
            if not unmet:
                return None
            reasons.append(unmet)
    return some(min(reasons, key=len), _NAMED, separator="; ") if reasons else None


def _unmet(figure: PublishedFigure, point: Point) -> Iterator[str]:
    """The conditions of a published figure that a point does not have: `queue_depth 8, there 32`."""
    known = {NODES.name: point.nodes, PHASE_TIME.name: point.phase_time_s, **point.options}
    for name, wanted in figure.where.items():
        own = known.get(name)
        if own is None:
            yield f"{name} has no value, there {Where(name, _value(wanted)).shown}"
        elif own != wanted:
            yield f"{Where(name, _value(own)).text}, there {Where(name, _value(wanted)).shown}"


def _value(value: Condition) -> bool | int | str:
    return f"{value:g}s" if isinstance(value, float) else value  # a phase time


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
