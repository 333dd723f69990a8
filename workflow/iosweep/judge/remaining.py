"""Decides, from plan and store, which repetitions are left to measure, and how long they will take. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from iosweep.config.sweeps import RepetitionRule
from iosweep.judge import agreement, best, statistics
from iosweep.node.pinning import bound
from iosweep.plan.forecast import PREPARE_BANDWIDTH, data_sets, repetition_needs
from iosweep.plan.headline_groups import headline_groups
from iosweep.plan.launchers import Launcher
from iosweep.plan.model import Allocation, Plan, Point, TargetSettings
from iosweep.store.record import DataSet, JudgedRecord, MeasuredTarget, Missing, RecordHead
from iosweep.target.identify import volume
from iosweep.tools import tools

#: Number of repetitions of an allocation that may be retried even if limits.retried allows fewer (0 allows none).
#: Retries are limited, because on a node that is always busy they do not help.
RETRIED_LEAST = 3
T = TypeVar("T")


@dataclass(frozen=True)
class LocalMachine:
    """The tools, launcher and targets of this machine. Unknown facts are not compared with results."""

    tools: Mapping[str, str | None] = field(default_factory=dict)  # tool -> sha256 of its binary, None if it is absent
    launcher: Launcher | None = None
    mpiexec: Sequence[str] | None = ()  # paths of programs that may be MPICH's mpiexec; None if unknown here
    targets: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # name -> facts, as for identify.volume


@dataclass(frozen=True)
class Remaining:
    """Repetitions of a plan that are left, by allocation and point; without empty entries."""

    left: dict[str, dict[str, list[int]]]  # numbers of the repetitions that can be measured now, in order
    #: Forecast of the number that is left, including steps that ramps may still reach, and fresh repetitions.
    expected: dict[str, dict[str, int]]
    unneeded: dict[str, dict[str, str]]  # why ramps need no more repetitions of a point


def find(
    plan: Plan,
    results: Mapping[str, Mapping[int, RecordHead]],
    missing: Mapping[str, Missing],
    machine: LocalMachine,
    only: str | None = None,
) -> Remaining:
    """Find the repetitions that remain of the points that `only` selects.

    A repetition with a result is done, whatever its verdict. Failures that a retry may cure are retried within a
    budget, together with the points side by side, so that all of them are measured at one time. Damaged results, and
    those of another tool build or file system, are measured again. Points whose needs are still not met, and points
    that a ramp does not need, have no repetitions left.
    """
    counted: dict[str, dict[int, RecordHead]] = {point.id: {} for point in plan.points}
    absent: set[str] = set()
    for allocation in plan.allocations:
        for point in allocation.points:
            stored = in_session(point, allocation.session, results.get(point.id, {}))
            counted[point.id] |= {n: r for n, r in stored.items() if current(r, plan, point, machine)}
            if lacking(missing.get(point.id), machine, plan) or (machine.launcher and machine.launcher.lacks(point)):
                absent.add(point.id)
    for id, number in find_retries(plan, plan.allocations, counted, absent):
        del counted[id][number]
    skipped = {point.id for point in plan.points if not chosen(only, point)} if only else set[str]()
    found = Remaining({}, {}, {})
    for name, needed in open_repetitions(plan, counted, absent, skipped).items():
        expected = Counter({point: len(numbers) for point, numbers in needed.now.items()}) + Counter(needed.later)
        _keep(found.left, name, needed.now, skipped)
        _keep(found.expected, name, expected, skipped)
        _keep(found.unneeded, name, needed.unneeded, skipped)
    return found


def _keep(
    groups: dict[str, dict[str, T]], allocation: str, by_point: Mapping[str, T], skipped: Collection[str]
) -> None:
    """Add the points of an allocation that are not skipped, if there are any."""
    if points := {point: value for point, value in by_point.items() if point not in skipped}:
        groups[allocation] = points


def find_retries(
    plan: Plan,
    allocations: Iterable[Allocation],
    counted: Mapping[str, Mapping[int, RecordHead]],
    absent: Collection[str],
) -> set[tuple[str, int]]:
    """(point, repetition) that failed in a way that another try may cure, within the budget of each allocation, and
    with the points side by side. absent: points that cannot be measured."""
    again: list[tuple[str, int]] = []
    for allocation in allocations:
        stored = {p.id: in_session(p, allocation.session, counted.get(p.id, {})) for p in allocation.points}
        planned = sum(p.repetitions.min for p in allocation.points)
        retried = sum(r.retried for results in stored.values() for r in results.values())
        share = plan.limits.retried
        budget = max(RETRIED_LEAST, int(share * planned)) - retried if share else 0
        able = {id: results for id, results in stored.items() if id not in absent}
        failed = [(id, n) for id, results in able.items() for n, r in results.items() if r.retry and not r.retried]
        again += failed[: max(0, budget)]
    sides = {(member, n) for id, n in again for member in plan.side_by_side.get(id, (id,))}
    return {(id, n) for id, n in sides if (r := counted.get(id, {}).get(n)) and not r.retried}


def in_session(point: Point, session: int, results: Mapping[int, T]) -> dict[int, T]:
    """The repetitions of a session."""
    return {number: r for number, r in results.items() if point.repetitions.session_of(number) == session}


def chosen(only: str, point: Point) -> bool:
    """Whether `only` is part of the point's id, or of the name of a sweep that contains the point."""
    return only in point.id or any(only in sweep for sweep in point.sweeps)


def lacking(missing: Missing | None, machine: LocalMachine, plan: Plan) -> bool:
    """Whether a missing point still lacks its tool, launcher or CPUs."""
    if missing is None:
        return False
    needs = missing.needs
    if needs.cpus is not None:  # the nodes cannot be inspected from here: retry if the settings have changed
        return needs.cpus == plan.cpus
    if needs.tool is not None:
        return machine.tools.get(needs.tool) in (None, needs.sha256)  # absent, or the binary that did not run
    if needs.mpiexec is not None:
        # if unknown here, Launcher.lacks decides
        return machine.mpiexec is None or needs.mpiexec == tuple(machine.mpiexec)
    return needs.launcher is not None and machine.launcher is not None and machine.launcher.name == needs.launcher


def current(result: RecordHead, plan: Plan, point: Point, machine: LocalMachine) -> bool:
    """Whether a result is intact, and from the current target and tool build, with ranks bound as they would be now."""
    if not result.intact or not measures(result.target, plan.target_of(point)):
        return False
    build = machine.tools.get(point.tool)
    if build is not None and result.tool.sha256 != build:
        return False
    if machine.launcher and result.bound != bound(plan.cpus, machine.launcher.allocated, tools()[point.tool].mpi):
        return False
    return not elsewhere(result, machine, point.target)


def measures(measured: MeasuredTarget, target: TargetSettings) -> bool:
    """Whether a result's target has the directory and layout of the plan."""
    return (measured.directory, measured.layout) == (target.directory, target.layout)


def elsewhere(result: RecordHead, machine: LocalMachine, target: str) -> bool:
    """Whether a result comes from a file system other than the one that the machine has at this target."""
    facts = machine.targets.get(target)
    return facts is not None and volume(result.target.facts) != volume(facts)


@dataclass(frozen=True)
class OpenRepetitions:
    """Repetitions that an allocation still needs, by point."""

    now: Mapping[str, list[int]]  # numbers of the repetitions that can be measured now
    later: Mapping[str, int]  # number of further repetitions, which depends on results
    unneeded: Mapping[str, str]  # why no more are needed


NOTHING_OPEN = OpenRepetitions({}, {}, {})


def open_repetitions(
    plan: Plan,
    counted: Mapping[str, Mapping[int, RecordHead]],
    absent: Collection[str],
    skipped: Collection[str] = (),
    nodes: int | None = None,
) -> dict[str, OpenRepetitions]:
    """allocation -> repetitions that it still needs besides the results that count. absent: points that cannot be
    measured; skipped: points that are not measured now, so that no ramp waits for them; nodes: only allocations of so
    many nodes.

    An allocation first measures the repetitions that select the best points, as far as ramps need them, and then those
    that confirm the best points. It decides by the results up to its session, so that a later session opens none again.
    """
    groups = headline_groups(plan.points)
    found: dict[str, OpenRepetitions] = {}
    for session, allocations in itertools.groupby(plan.allocations, lambda allocation: allocation.session):
        so_far = {
            p.id: {n: r for n, r in counted.get(p.id, {}).items() if p.repetitions.session_of(n) <= session}
            for p in plan.points
        }
        selecting = {p.id: best.selection(p, so_far[p.id]) for p in plan.points}
        figures = {point: best.figures(stored.values()) if stored else None for point, stored in selecting.items()}
        unneeded, waiting = best.ramped(plan, figures, {*absent, *skipped})
        for p in plan.points:  # sessions compare by the points that they have in common
            if any(p.repetitions.session_of(number) < session for number in so_far[p.id]):
                unneeded.pop(p.id, None)
        for allocation in (a for a in allocations if nodes in (None, a.nodes)):
            now: dict[str, list[int]] = {}
            later: Counter[str] = Counter()
            measured = [p for p in allocation.points if p.id not in absent and p.id not in unneeded]
            to_select = open_before_confirming(allocation, selecting, measured)
            for point, numbers in to_select.items():
                if point in waiting:
                    later[point] += len(numbers)
                else:
                    now[point] = numbers
            fresh = best.fresh_numbers(plan, allocation, groups, so_far, absent, unneeded)
            if to_select:  # a forecast: another point may still become the best
                later.update({point: len(numbers) for point, numbers in fresh.items()})
            else:
                now |= fresh
            reasons = {p.id: unneeded[p.id] for p in allocation.points if p.id in unneeded}
            found[allocation.name] = OpenRepetitions(now, later, reasons)
    return found


def open_before_confirming(
    allocation: Allocation, selecting: Mapping[str, Mapping[int, RecordHead]], points: Sequence[Point]
) -> dict[str, list[int]]:
    """point -> numbers of the repetitions of the allocation's session that it still needs before best points can be
    confirmed; only the next number if an interval that is too wide needs it. Without empty entries.

    selecting: results that count, without those that confirm; of all points of the allocation, because the scatter of a
    phase is estimated from all of them.
    """
    session = allocation.session
    selecting = {p.id: in_session(p, session, selecting.get(p.id, {})) for p in allocation.points}
    needed: dict[str, list[int]] = {}
    undecided: dict[str, RepetitionRule] = {}
    for point in points:
        repetitions, stored = point.repetitions, selecting[point.id]
        if numbers := [n for n in repetitions.selecting(session, repetitions.min) if n not in stored]:
            needed[point.id] = numbers
        elif repetitions.half_width is not None and len(stored) < repetitions.max:
            undecided[point.id] = repetitions
    headlines: agreement.Headlines = {}
    for point in allocation.points if undecided else ():
        for repetition in selecting[point.id].values():
            agreement.add(headlines, point, repetition)
    figures = [*headlines.values()]
    for (id, *_), figure, estimate in zip(headlines, figures, agreement.estimates(figures), strict=True):
        if (rule := undecided.get(id)) is None or rule.half_width is None:
            continue
        count = len(figure.values)
        # more repetitions do not help if half of them failed, if they ran on different nodes, or if a figure is zero
        wide = figure.comparable and count > len(selecting[id]) - count
        if count >= statistics.MIN_REPETITIONS:
            wide = estimate is not None and estimate.half_width_share > rule.half_width
        if wide:
            needed[id] = [next(n for n in rule.selecting(session, rule.max) if n not in selecting[id])]
    return {point.id: needed[point.id] for point in points if point.id in needed}


# Remaining time


#: Number of newest repetitions of a kind that set the pace: the speed of a system may change within hours.
NEWEST = 30


class RunTimes(NamedTuple):
    """The times of a stored repetition."""

    point: str
    ended: float  # seconds since the epoch
    took_s: float  # sum over its commands


def run_times(judged: JudgedRecord) -> RunTimes:
    """Read the times of a stored repetition. Phases of a common command share its time, which counts once."""
    commands = {(row.started, row.values.get("wall_s")) for row in judged.rows}
    return RunTimes(judged.point, judged.ended.timestamp(), sum(float(wall_s or 0) for _, wall_s in commands))


def pace(plan: Plan, runs: Iterable[RunTimes]) -> dict[object, float]:
    """kind of points -> factor by which its newest repetitions took longer than forecast. `runs`: oldest first."""
    points = {point.id: point for point in plan.points}
    times: dict[object, list[tuple[float, float]]] = {}
    for run in runs:
        if point := points.get(run.point):
            times.setdefault(_pace_key(point), []).append((run.took_s, repetition_needs(plan, point).cost.time_s))
    newest = {kind: [sum(column) for column in zip(*pairs[-NEWEST:], strict=True)] for kind, pairs in times.items()}
    return {kind: took_s / forecast_s for kind, (took_s, forecast_s) in newest.items()}


def to_go_s(plan: Plan, paces: Mapping[object, float], left: Mapping[str, int], sets: Mapping[str, DataSet]) -> float:
    """Seconds that repetitions of an allocation (`left`: point -> number) and the writing of data sets will take."""
    points = [point for point in plan.points if left.get(point.id)]
    times_s = (repetition_needs(plan, p).cost.time_s * paces.get(_pace_key(p), 1.0) * left[p.id] for p in points)
    total_s = sum(times_s)
    for name, target in plan.targets.items():
        unwritten_bytes = (
            files.size_bytes
            for directory, files in data_sets(point for point in points if point.target == name).items()
            if sets.get(set_name(directory, name), DataSet()).files < len(files.files)
        )
        total_s += sum(unwritten_bytes) / set_rate(sets, name, target.node_bandwidth)
    return total_s


def set_rate(sets: Mapping[str, DataSet], target: str, node_bandwidth: int | None) -> float:
    """Write rate of the data sets of a target in bytes/s: measured on the stored sets, else the forecast's."""
    written = [document for document in sets.values() if document.target == target]
    written_bytes = sum(s.files * (s.file_size_bytes or 0) for s in written)
    written_s = sum(s.wall_s for s in written)
    if written_bytes and written_s > 1:
        return written_bytes / written_s
    return min(node_bandwidth or PREPARE_BANDWIDTH, PREPARE_BANDWIDTH)


def set_name(directory: str, target: str = "") -> str:
    """Name of a data set's document. `directory`: the data set's directory, relative to the campaign's."""
    return ".".join(filter(None, [target, *directory.split("/")]))


def _pace_key(point: Point) -> object:
    """Key of points whose forecasts have similar errors: timed phases have a known time, others an estimate."""
    return point.tool, point.phase_time_s is not None
