"""Which repetitions are left to measure, by plan and store, and how long they take. Pure, and decided only here."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from iosweep.judge import agreement, best, statistics
from iosweep.node.pinning import bound
from iosweep.plan.forecast import PREPARE_BANDWIDTH, data_sets, repetition_needs
from iosweep.plan.headline_groups import headline_groups
from iosweep.plan.launchers import Launcher
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.store.record import DataSet, JudgedRecord, MeasuredTarget, Missing, RecordHead
from iosweep.target.identify import volume
from iosweep.tools import tools

#: Repetitions of an allocation that may be tried a second time even if limits.retried allows fewer (0 allows none).
#: There is a limit because on a node that is always busy a second try cures nothing.
RETRIED_LEAST = 3
T = TypeVar("T")


@dataclass(frozen=True)
class LocalMachine:
    """What this machine offers. Unknown identities are not compared.

    tools: tool -> sha256 of its binary, None if it is absent. mpiexec: paths of programs that may be MPICH's mpiexec,
    None if that cannot be seen from here. target: facts that identify the file system, as for identify.volume.
    """

    tools: Mapping[str, str | None] = field(default_factory=dict)
    launcher: Launcher | None = None
    mpiexec: Sequence[str] | None = ()
    target: Mapping[str, object] | None = None


@dataclass(frozen=True)
class Remaining:
    """What is left of a plan, by allocation and point; without empty entries.

    left: numbers of the repetitions that can be measured now, in order. expected: forecast of the number of repetitions
    to come, which includes steps that ramps may still climb, and the confirmation of points that are not chosen yet.
    unneeded: why ramps do not need the rest of a point's repetitions.
    """

    left: dict[str, dict[str, list[int]]]
    expected: dict[str, dict[str, int]]
    unneeded: dict[str, dict[str, str]]


def find(
    plan: Plan,
    results: Mapping[str, Mapping[int, RecordHead]],
    missing: Mapping[str, Missing],
    machine: LocalMachine,
    only: str | None = None,
) -> Remaining:
    """Which repetitions remain, of the points that `only` chooses.

    A repetition with an outcome is done, whatever its verdict. Failures that another try may cure stay open within a
    budget of tries; results of another tool build or file system and damaged ones are measured again. A missing point
    is not left while what it needs is still absent, and neither is one that a ramp has found not to be needed.
    """
    counted: dict[str, dict[int, RecordHead]] = {}
    absent: set[str] = set()
    for allocation in plan.allocations:
        planned = sum(p.repetitions.min for p in allocation.points)
        retried = sum(r.retried for p in allocation.points for r in results.get(p.id, {}).values())
        share = plan.limits.retried
        budget = max(RETRIED_LEAST, int(share * planned)) - retried if share else 0
        for point in allocation.points:
            stored = results.get(point.id, {})
            have = {number: r for number, r in stored.items() if current(r, plan, point, machine)}
            counted[point.id] = have
            if lacking(missing.get(point.id), machine, plan) or (machine.launcher and machine.launcher.lacks(point)):
                absent.add(point.id)
                continue
            for number in [number for number, r in have.items() if r.retry and not r.retried][: max(0, budget)]:
                del have[number]
                budget -= 1
    aside = {point.id for point in plan.points if not chosen(only, point)} if only else set[str]()
    needs = wanted(plan, counted, absent, aside)

    def grouped(by_point: Mapping[str, T]) -> dict[str, dict[str, T]]:
        groups = {
            a.name: {p.id: by_point[p.id] for p in a.points if p.id in by_point and p.id not in aside}
            for a in plan.allocations
        }
        return {allocation: points for allocation, points in groups.items() if points}

    expected = Counter({point: len(numbers) for point, numbers in needs.now.items()}) + Counter(needs.later)
    return Remaining(grouped(needs.now), grouped(expected), grouped(needs.unneeded))


def chosen(only: str, point: Point) -> bool:
    """Whether `only` is part of the point's id, or of the name of a sweep that contains the point."""
    return only in point.id or any(only in sweep for sweep in point.sweeps)


def lacking(missing: Missing | None, machine: LocalMachine, plan: Plan) -> bool:
    """Whether a missing point still lacks its tool, launcher or CPUs."""
    if missing is None:
        return False
    needs = missing.needs
    if needs.cpus is not None:  # the nodes cannot be seen from here: other settings may cure it
        return needs.cpus == plan.cpus
    if needs.tool is not None:
        return machine.tools.get(needs.tool) in (None, needs.sha256)  # it is not there, or is the one that did not run
    if needs.mpiexec is not None:
        # where it cannot be seen from here, the launcher itself says what it lacks
        return machine.mpiexec is None or needs.mpiexec == tuple(machine.mpiexec)
    return needs.launcher is not None and machine.launcher is not None and machine.launcher.name == needs.launcher


def current(result: RecordHead, plan: Plan, point: Point, machine: LocalMachine) -> bool:
    """Whether a result is intact, from this target and tool build, with ranks bound as they would be now."""
    if not result.intact or not measures(result.target, plan):
        return False
    build = machine.tools.get(point.tool)
    if build is not None and result.tool.sha256 != build:
        return False
    if machine.launcher and result.bound != bound(plan.cpus, machine.launcher.allocated, tools()[point.tool].mpi):
        return False
    return not elsewhere(result, machine)


def measures(target: MeasuredTarget, plan: Plan) -> bool:
    """Whether a result's target is the directory of the plan, with the layout of the plan."""
    return (target.directory, target.layout) == (plan.target.directory, plan.target.layout)


def elsewhere(result: RecordHead, machine: LocalMachine) -> bool:
    """Whether a result comes from another file system than that of the machine."""
    return machine.target is not None and volume(result.target.facts) != volume(machine.target)


@dataclass(frozen=True)
class Wanted:
    """Repetitions that a plan still needs. now: point -> numbers of the repetitions that can be measured now; later:
    point -> number of further repetitions, which depends on results; unneeded: point -> why it needs no more."""

    now: Mapping[str, list[int]]
    later: Mapping[str, int]
    unneeded: Mapping[str, str]


def wanted(
    plan: Plan,
    counted: Mapping[str, Mapping[int, RecordHead]],
    absent: Collection[str],
    aside: Collection[str] = (),
) -> Wanted:
    """Repetitions that a plan still needs besides the results that count. absent: points that cannot be measured;
    aside: points that are not measured now, so that no ramp waits for them.

    The repetitions that choose come first, as far as ramps need them. Once an allocation has all of these, its best
    points are confirmed.
    """
    choosing = {p.id: best.selection(p, counted.get(p.id, {})) for p in plan.points}
    figures = {point: best.figures(stored.values()) if stored else None for point, stored in choosing.items()}
    unneeded, waiting = best.ramped(plan, figures, {*absent, *aside})
    groups = headline_groups(plan.points)
    now: dict[str, list[int]] = {}
    later: Counter[str] = Counter()
    for allocation in plan.allocations:
        asked = [p for p in allocation.points if p.id not in absent and p.id not in unneeded]
        lacks = still_wanted(allocation, choosing, asked)
        for point, numbers in lacks.items():
            if point in waiting:
                later[point] += len(numbers)
            else:
                now[point] = numbers
        fresh = best.fresh_numbers(plan, allocation, groups, counted, absent, unneeded)
        if lacks:  # as things stand: another point may still become the best one
            later.update({point: len(numbers) for point, numbers in fresh.items()})
        else:
            now |= fresh
    return Wanted(now, later, unneeded)


def still_wanted(
    allocation: Allocation, have: Mapping[str, Mapping[int, RecordHead]], points: Sequence[Point]
) -> dict[str, list[int]]:
    """point -> numbers of the repetitions that it still needs; at most the next one where the interval decides. Without
    empty entries.

    have: the repetitions that count of all points of the allocation, which show how a phase scatters; without fresh
    repetitions, which confirm a best point.
    """
    lacks: dict[str, list[int]] = {}
    undecided: list[Point] = []
    for point in points:
        repetitions, stored = point.repetitions, have.get(point.id, {})
        if numbers := [n for n in range(1, repetitions.min + 1) if n not in stored]:
            lacks[point.id] = numbers
        elif repetitions.half_width is not None and len(stored) < repetitions.max:
            undecided.append(point)
    headlines: agreement.Headlines = {}
    for point in allocation.points if undecided else ():
        for repetition in have.get(point.id, {}).values():
            agreement.add(headlines, point, repetition)
    shares = {point.id: point.repetitions.half_width for point in undecided}
    figures = [*headlines.values()]
    for (id, *_), figure, interval in zip(headlines, figures, agreement.intervals(figures), strict=True):
        number, share = len(figure.values), shares.get(id)
        if share is None:
            continue
        # more repetitions do not help where half of them failed, they ran on different nodes, or a figure is zero
        wide = figure.comparable and number > len(have[id]) - number
        if number >= statistics.LEAST_FOR_INTERVAL:
            wide = interval is not None and interval.half_width_share > share
        if wide:
            lacks[id] = [next(n for n in itertools.count(1) if n not in have[id])]
    return {point.id: lacks[point.id] for point in points if point.id in lacks}


# Time to go


#: Number of newest repetitions of a kind that count: a system may change within hours.
NEWEST = 30


class Ran(NamedTuple):
    """When a repetition ended, in seconds since the epoch, and how long its commands took."""

    point: str
    ended: float
    took_s: float


def ran(judged: JudgedRecord) -> Ran:
    """The times of a stored repetition; phases of one command share theirs."""
    commands = {(row.started, row.values.get("wall_s")) for row in judged.rows}
    return Ran(judged.point, judged.ended.timestamp(), sum(float(wall_s or 0) for _, wall_s in commands))


def pace(plan: Plan, runs: Iterable[Ran]) -> dict[object, float]:
    """kind -> how many times as long as forecast its newest repetitions took. `runs`: in order."""
    points = {point.id: point for point in plan.points}
    times: dict[object, list[tuple[float, float]]] = {}
    for run in runs:
        if point := points.get(run.point):
            times.setdefault(_kind(point), []).append((run.took_s, repetition_needs(plan, point).cost.time_s))
    newest = {kind: [sum(column) for column in zip(*found[-NEWEST:], strict=True)] for kind, found in times.items()}
    return {kind: took_s / forecast_s for kind, (took_s, forecast_s) in newest.items()}


def to_go_s(plan: Plan, paces: Mapping[object, float], left: Mapping[str, int], sets: Mapping[str, DataSet]) -> float:
    """Seconds that repetitions (point -> number) of one allocation will take, with the data sets that are not there."""
    points = [point for point in plan.points if left.get(point.id)]
    rate = set_rate(sets, plan.target.node_bandwidth)
    lacking = (
        files.size_bytes
        for directory, files in data_sets(points).items()
        if sets.get(set_name(directory), DataSet()).files < len(files.files)
    )
    times_s = (repetition_needs(plan, p).cost.time_s * paces.get(_kind(p), 1.0) * left[p.id] for p in points)
    return sum(lacking) / rate + sum(times_s)


def set_rate(sets: Mapping[str, DataSet], node_bandwidth: int | None) -> float:
    """Write rate of data sets in bytes/s: that of the sets in the store, else the forecast's."""
    made_bytes = sum(s.files * (s.file_size_bytes or 0) for s in sets.values())
    made_s = sum(s.wall_s for s in sets.values())
    if made_bytes and made_s > 1:
        return made_bytes / made_s
    return min(node_bandwidth or PREPARE_BANDWIDTH, PREPARE_BANDWIDTH)


def set_name(directory: str) -> str:
    """Name of a data set's document. `directory`: where the set is, below the campaign's directory."""
    return directory.replace("/", ".")


def _kind(point: Point) -> object:
    """Kind of a point whose repetitions miss the forecast alike: timed phases take a known time, others an assumed
    time."""
    return point.tool, point.phase_time_s is not None
