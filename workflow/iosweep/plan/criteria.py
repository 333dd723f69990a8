"""Whether what is planned has the figures that the criteria of acceptance name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from iosweep.config.criteria import Criterion
from iosweep.config.selectors import Selector, Subject, Where, lacks, matches
from iosweep.config.sweeps import Config
from iosweep.errors import Problem
from iosweep.plan import contests
from iosweep.plan.model import Point
from iosweep.text import human_count
from iosweep.tools import phases

#: Conditions that no figure mixes: keys of `at`.
_CONDITIONS = ("tool", "write_mode", "data", "o_direct", "file_size")


def problems(config: Config, points: Iterable[Point]) -> Iterator[Problem]:
    """Criteria whose figures the points do not have, or have in several ways that do not compare."""
    if config.accept:
        planned = list(subjects(points))
        for criterion in config.accept:
            if wrong := unfit(criterion.selector, planned):
                yield config.criterion_problem(criterion, wrong)


def lines(accept: Sequence[Criterion]) -> list[str]:
    """What a plan says of its criteria; nothing without any."""
    if not accept:
        return []
    return [f"accept: {human_count(len(accept), 'criterion', 'criteria')}", *(f"  {one.text}" for one in accept)]


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
