"""Which points compete for a headline figure: those that compare, for each phase. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from iosweep.plan.model import Point
from iosweep.tools import tools

#: Phases whose headline has a latency too: what one I/O costs when nothing is in its way.
LATENCY_PHASES = ("rand_read", "rand_write")


#: Value of an option; of columns of the tables too.
Value = bool | int | float | str


#: In place of a condition that outputs of others do not tell: the tool had one.
NOT_TOLD = "not told"


class Conditions(NamedTuple):
    """Conditions that no headline mixes. None: it does not apply."""

    tool: str
    write_mode: Value | None
    data: Value | None
    o_direct: Value | None
    fsync: Value | None
    other_options: Value | None = None  # of outputs of others


class Contest(NamedTuple):
    """What a headline figure is the best of. file_size: of metadata phases (creating empty files is another thing);
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


def of_phase(own: Conditions, phase: str) -> Conditions:
    """What of the conditions of a point applies to one of its phases: of one that only reads, nothing of writes."""
    options = tools()[own.tool].options if own.tool in tools() else {}

    def applies(name: str) -> bool:
        option = options.get(name)
        return option is None or option.phases is None or phase in option.phases

    return own._replace(
        write_mode=own.write_mode if applies("write_mode") else None,
        data=own.data if applies("data") else None,
        fsync=own.fsync if applies("fsync") else None,
    )


def contests(points: Sequence[Point]) -> dict[Contest, list[Point]]:
    """Each contest of a plan with its points, those with the fewest that may be confirmed first: where points stand for
    best ones that are not known yet, each contest finds one of its own. Contests of a single point choose nothing, and
    are left out; there are none where nothing is to be confirmed."""
    if not any(point.repetitions.confirm for point in points):
        return {}
    found: dict[Contest, list[Point]] = {}
    for point in points:
        own = conditions(point.tool, point.options)
        for phase in point.measured():
            size = point.options.get("file_size") if phase.kind == "metadata" else None
            contest = Contest(of_phase(own, phase.name), phase.kind, size, phase.name)
            found.setdefault(contest, []).append(point)
            if phase.name in LATENCY_PHASES and tools()[point.tool].latency:
                found.setdefault(contest._replace(latency=True), []).append(point)
    for contest, members in found.items():
        if contest.latency:
            least = min(map(_load, members))
            found[contest] = [point for point in members if _load(point) == least]
    several = [(contest, members) for contest, members in found.items() if len(members) > 1]
    return dict(sorted(several, key=lambda one: sum(p.repetitions.confirm > 0 for p in one[1])))


def _load(point: Point) -> tuple[int, int]:
    return load(point.options.get("queue_depth"), point.nodes)


def load(queue_depth: Value | None, nodes: int) -> tuple[int, int]:
    """What latencies are compared at: the lowest of these."""
    return (queue_depth if isinstance(queue_depth, int) else 1, nodes)
