"""Forecast of a plan: time, bytes, space and inodes needed. Pure; bytes of timed phases are estimates."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from iosweep.errors import Problem
from iosweep.plan.headline_groups import headline_groups
from iosweep.plan.model import Plan, Point
from iosweep.text import human_count
from iosweep.tools import FileSet, Step, tools
from iosweep.units import human_duration, human_size

if TYPE_CHECKING:
    from iosweep.config.yaml_lines import Document

#: Assumptions of the forecast. `target.node_bandwidth` replaces the first.
NODE_BANDWIDTH = 4 << 30  # bytes/s that a node moves at most
PREPARE_BANDWIDTH = 1 << 30  # bytes/s per node while data sets are written
LEAST_LATENCY_S = 50e-6  # of an I/O, so a worker with queue depth q makes at most q / 50 us I/Os per second
METADATA_RATE = 20_000  # creates, stats or deletes per second and node
START_UP_S = 0.45  # per phase: start and end of a tool, and the work of iosweep
UNLIMITED_BYTES = 10 << 40  # more bytes written need limits.bytes_written


@dataclass(frozen=True, slots=True)
class Cost:
    """Time and bytes. Bytes of timed phases are estimated by the assumptions above."""

    time_s: float = 0.0
    bytes_written: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.time_s + other.time_s, self.bytes_written + other.bytes_written)


class RepetitionNeeds(NamedTuple):
    """The needs of a repetition of a point."""

    cost: Cost
    fresh_bytes: int  # of new files
    fresh_inodes: int  # of new files
    timed_writes: bool


def repetition_needs(plan: Plan, point: Point) -> RepetitionNeeds:
    """The needs of a repetition of a point of a plan. Cached in the plan, because many callers ask for them."""
    needs = plan.forecasts.get(point.id)
    if needs is None:
        steps, node_bandwidth = point.steps, plan.target_of(point).node_bandwidth
        needs = plan.forecasts[point.id] = RepetitionNeeds(
            sum((step_cost(point, step, node_bandwidth) for step in steps), Cost()),
            fresh_bytes(point, steps),
            sum(map(tools()[point.tool].inodes, steps)),
            any(step.time_s is not None and step.phase.writes for step in steps),
        )
    return needs


def step_cost(point: Point, step: Step, node_bandwidth: float | None) -> Cost:
    """The cost of a step of a repetition, without data sets."""
    if work := tools()[point.tool].work(step):
        names, size = {phase.name for phase in step.phases}, point.volume_bytes
        written, read = size * ("create" in names), size * ("read" in names)
        bandwidth = min(node_bandwidth or NODE_BANDWIDTH, PREPARE_BANDWIDTH) * point.nodes
        return Cost(START_UP_S + work / METADATA_RATE / point.nodes + (written + read) / bandwidth, written)
    # Little's law: the bytes in flight, divided by the least latency, limit the rate
    in_flight = math.prod(map(step.number, ("threads_per_node", "queue_depth", "transfer_size")))
    rate = min(node_bandwidth or NODE_BANDWIDTH, in_flight / LEAST_LATENCY_S)
    moved = rate * point.nodes * step.time_s if step.time_s is not None else float(point.volume_bytes)
    time_s = moved / rate / point.nodes if step.time_s is None else step.time_s
    writes = step.phase.writes * (1 - step.number("read_percent") / 100 if step.phase.reads else 1.0)
    return Cost(START_UP_S + time_s, math.ceil(moved * writes))


def data_sets(points: Iterable[Point]) -> dict[str, FileSet]:
    """directory -> the largest data set that a point of a target needs there. Points share sets, so each is prepared
    once."""
    largest: dict[tuple[str, int], FileSet] = {}  # also by node count, because each node gets a share of a set
    for point in points:
        for files in point.file_sets:
            if files.role != "fresh":
                earlier = largest.get((files.directory, point.nodes))
                if earlier is None or len(earlier.files) < len(files.files):
                    largest[files.directory, point.nodes] = files
    sets: dict[str, FileSet] = {}
    for (_, nodes), files in largest.items():
        _add(sets, files.shares(nodes))
    return sets


def _add(sets: dict[str, FileSet], more: Iterable[FileSet]) -> None:
    """Add data sets to others. Of two sets in a directory the larger stays."""
    for files in more:
        earlier = sets.get(files.directory)
        if earlier is None or len(earlier.files) < len(files.files):
            sets[files.directory] = files


@dataclass(frozen=True)
class Forecast:
    """The needs of some repetitions."""

    points: int
    repetitions: int
    allocations: int
    time_s: float
    node_hours: float
    bytes_written: int
    peak_bytes: int  # on the target at once
    inodes: int  # on the target at once
    write_bytes_per_s_per_node: int | None  # rate behind bytes_written; None: exact, as no write is bounded by time
    assumed: bool  # the rate is NODE_BANDWIDTH, not target.node_bandwidth

    def writes(self, verb: str = "") -> str:
        """`32.0 MiB written`, or `at most 24.1 GiB written (if a node takes 4.0 GiB/s)`."""
        rate, size = self.write_bytes_per_s_per_node, f"{human_size(self.bytes_written)}{verb and f' {verb}'}"
        if rate is None:
            return size
        return f"at most {size} (if a node takes {human_size(rate)}/s)"


def forecast_of(
    plan: Plan, left: Mapping[str, Mapping[str, int]] | None = None, targets: Container[str] | None = None
) -> Forecast:
    """The forecast of a plan, or of the repetitions that are left. `left`: allocation -> point -> repetitions.
    `targets`: count only the points of these; None for all."""
    left = planned(plan) if left is None else left
    chosen = {name: target for name, target in plan.targets.items() if targets is None or name in targets}
    bandwidths = {name: target.node_bandwidth or NODE_BANDWIDTH for name, target in chosen.items()}
    total, node_seconds, distinct = Cost(), 0.0, set[str]()
    counted_needs: list[tuple[RepetitionNeeds, int]] = []  # with the number of repetitions
    allocations: set[str] = set()
    sets: dict[str, dict[str, FileSet]] = {name: {} for name in chosen}
    for allocation, name in product(plan.allocations, chosen):
        counts = left.get(allocation.name, {})
        members = [point for point in allocation.points if point.target == name and counts.get(point.id)]
        if not members:
            continue
        costs = [(repetition_needs(plan, point), counts[point.id]) for point in members]
        prepared = data_sets(members)
        size = sum(files.size_bytes for files in prepared.values())
        cost = Cost(
            sum(needs.cost.time_s * count for needs, count in costs)
            + size / allocation.nodes / min(bandwidths[name], PREPARE_BANDWIDTH),
            sum(needs.cost.bytes_written * count for needs, count in costs) + size,
        )
        total += cost
        node_seconds += cost.time_s * allocation.nodes
        allocations.add(allocation.name)
        distinct |= {point.id for point in members}
        counted_needs += costs
        _add(sets[name], prepared.values())
    kept = [files for of_target in sets.values() for files in of_target.values()]
    timed_writes = any(needs.timed_writes for needs, _ in counted_needs)
    return Forecast(
        points=len(distinct),
        repetitions=sum(count for _, count in counted_needs),
        allocations=len(allocations),
        time_s=total.time_s,
        node_hours=node_seconds / 3600,
        bytes_written=total.bytes_written,
        # the new files of a repetition are removed with it
        peak_bytes=sum(files.size_bytes for files in kept)
        + max((needs.fresh_bytes for needs, _ in counted_needs), default=0),
        inodes=sum(len(files.files) for files in kept)
        + max((needs.fresh_inodes for needs, _ in counted_needs), default=0),
        write_bytes_per_s_per_node=max(bandwidths.values(), default=None) if timed_writes else None,
        assumed=any(target.node_bandwidth is None for target in chosen.values()),
    )


def planned(plan: Plan, most: bool = False) -> dict[str, dict[str, int]]:
    """allocation -> point -> repetitions of the whole plan: the fewest, or (`most`) the most that it allows.

    As the best points are not known yet, their confirmations are counted at the slowest point of each headline group.
    """
    groups = headline_groups(plan.points)
    planned_counts = {}
    for allocation in plan.allocations:
        counts = {p.id: p.repetitions.max if most else p.repetitions.min for p in allocation.points}
        confirmations: dict[str, int] = {}
        for members in groups.values():
            if able := [point for point in members if point.id in counts and point.repetitions.confirm]:
                slowest = longest_of([point for point in able if point.id not in confirmations] or able, plan)
                both_sides = plan.side_by_side.get(slowest.id, (slowest.id,))
                confirmations |= dict.fromkeys(counts.keys() & both_sides, slowest.repetitions.confirm)
        planned_counts[allocation.name] = counts | {p: counts[p] + more for p, more in confirmations.items()}
    return planned_counts


def longest_of(points: Sequence[Point], plan: Plan) -> Point:
    """The first point whose repetitions take longest."""
    return max(points, key=lambda point: repetition_needs(plan, point).cost.time_s)


class Longest(NamedTuple):
    """The repetition that takes longest, and its longest phase, in seconds."""

    point: str
    time_s: float
    phase_s: float


def longest(plan: Plan, points: Container[str]) -> Longest | None:
    """The longest repetition of some points of a plan; None without points."""
    if not (members := [point for point in plan.points if point.id in points]):
        return None
    point = longest_of(members, plan)
    phase_s = max(step_cost(point, step, plan.target_of(point).node_bandwidth).time_s for step in point.steps)
    return Longest(point.id, repetition_needs(plan, point).cost.time_s, phase_s)


def fresh_bytes(point: Point, steps: Sequence[Step]) -> int:
    """The most bytes of new files that some steps of a repetition make."""
    if steps[0].phase.kind == "metadata":
        return point.volume_bytes
    phases = sum(step.phase.writes for step in steps) if point.options.get("write_mode") == "new" else 0
    return point.volume_bytes * phases


def sentence(forecast: Forecast, title: str, word: str = " left") -> str:
    """`2 nodes: 24 points, 72 repetitions left, 3 h 10 min, 4.1 TiB written`. `title`: of the allocation; `word`: empty
    for a whole plan."""
    if not forecast.repetitions:
        return f"{title}: nothing left"
    return (
        f"{title}: {human_count(forecast.points, 'point')}, {human_count(forecast.repetitions, 'repetition')}{word},"
        f" {human_duration(forecast.time_s)}, {forecast.writes('written')}"
    )


def over_limits(plan: Plan, document: Document) -> list[Problem]:
    """The limits of its configuration that a plan exceeds, except limits on space, which depend on the target."""
    cost, limits = forecast_of(plan, planned(plan, most=True)), plan.limits
    allowed, needed, wrong = limits.bytes_written, cost.writes("would be written"), dict[str, str]()
    cure = "raise it, or measure less"
    if allowed is None and cost.bytes_written > UNLIMITED_BYTES:
        wrong["bytes_written"] = f"is missing: {needed}; more than 10 TiB must be allowed by it"
        if cost.write_bytes_per_s_per_node and cost.assumed:
            wrong["bytes_written"] += " (or give target.node_bandwidth, if the nodes are slower)"
    if allowed is not None and cost.bytes_written > allowed:
        wrong["bytes_written"] = f"{human_size(allowed)} is not enough: {needed}; {cure}"
    if limits.time is not None and cost.time_s > limits.time:
        needed = f"about {human_duration(cost.time_s)} are needed"
        wrong["time"] = f"{human_duration(limits.time)} is not enough: {needed}; {cure}"
    return [document.problem(("limits", key), message) for key, message in wrong.items()]
