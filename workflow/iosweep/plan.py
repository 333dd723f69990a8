"""Sweeps -> points -> allocations, and what they will cost. Pure and deterministic: sees no result, no machine."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from iosweep.config import Config, Repetitions, Sweep
from iosweep.tools import FileSet, Phase, Tool, Value, tools
from iosweep.units import human_count, human_duration, human_size, size_name
from iosweep.yamlfile import ConfigError, Problem

#: What the forecast assumes where nothing is known; `target.node_bandwidth` replaces the first.
NODE_BANDWIDTH = 4 << 30  # bytes/s that one node moves at most
PREPARE_BANDWIDTH = 1 << 30  # bytes/s per node while data sets are written
LEAST_LATENCY_S = 50e-6  # no I/O ends sooner, so a worker with depth q makes at most q / this per second
METADATA_RATE = 20_000  # creates, stats or deletes per second and node
START_UP_S = 0.45  # start and end of a tool, and our own work, for each phase
UNLIMITED_BYTES = 10 << 40  # more must be allowed by limits.bytes_written


@dataclass(frozen=True)
class Point:
    """One combination of a sweep's axes.

    `options` are the resolved options that have an effect, sizes in bytes. `id` is a readable name and a hash of
    everything that determines the measurement; `sweeps` and `repetitions` are not part of it.
    """

    id: str
    tool: str
    phases: tuple[str, ...]
    nodes: int
    options: Mapping[str, Value]
    phase_time_s: float | None
    repetitions: Repetitions
    sweeps: tuple[str, ...]

    def steps(self) -> list[Phase]:
        """The phases, in order."""
        known = tools()[self.tool].phases
        return [known[name] for name in self.phases]


@dataclass(frozen=True)
class Cost:
    """What something takes. Bytes that timed phases move are an upper estimate from the assumptions above."""

    time_s: float = 0.0
    bytes_written: int = 0
    bytes_read: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.time_s + other.time_s,
            self.bytes_written + other.bytes_written,
            self.bytes_read + other.bytes_read,
        )

    def times(self, n: int) -> Cost:
        """n of them, one after the other."""
        return Cost(self.time_s * n, self.bytes_written * n, self.bytes_read * n)


@dataclass(frozen=True)
class Allocation:
    """One batch job and the points that run inside it. Its size depends on the node count only."""

    name: str
    nodes: int
    points: tuple[Point, ...]
    digest: str  # of everything that its manifest depends on


@dataclass(frozen=True)
class Plan:
    """Everything that a campaign will do."""

    campaign: str
    description: str | None
    target: Mapping[str, Any]
    limits: Mapping[str, Any]
    seed: int
    sweeps: tuple[Mapping[str, Any], ...]  # for the report: name, axes, suite, scaled, points ...
    allocations: tuple[Allocation, ...]
    configuration: tuple[Mapping[str, str], ...]  # file and text

    @property
    def points(self) -> list[Point]:
        """All points, allocation by allocation."""
        return [point for allocation in self.allocations for point in allocation.points]

    def document(self) -> bytes:
        """The plan as JSON: the file that allocations and merge work from."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)

    @property
    def digest(self) -> str:
        """Hash of the whole document, for file names."""
        return hashlib.sha256(self.document()).hexdigest()[:12]


def from_document(document: bytes) -> Plan:
    """The plan that `Plan.document` wrote."""
    data = orjson.loads(document)

    def point(raw: dict[str, Any]) -> Point:
        raw["repetitions"] = Repetitions(**raw["repetitions"])
        return Point(**raw | {"phases": tuple(raw["phases"]), "sweeps": tuple(raw["sweeps"])})

    allocations = tuple(
        Allocation(a["name"], a["nodes"], tuple(point(p) for p in a["points"]), a["digest"])
        for a in data["allocations"]
    )
    return Plan(**data | {"allocations": allocations, "sweeps": tuple(data["sweeps"]),
                          "configuration": tuple(data["configuration"])})  # fmt: skip


def make(config: Config) -> Plan:
    """The plan of a configuration. Raises ConfigError where points cannot be measured or limits are exceeded."""
    problems: list[Problem] = []
    points: dict[str, Point] = {}
    sweeps: list[dict[str, Any]] = []
    for sweep in config.sweeps:
        members = []
        for point in _points(sweep, problems):
            known = points.get(point.id)
            if known:  # two sweeps share it: measured once, as often as the more demanding one asks
                point = replace(known, sweeps=tuple(sorted({*known.sweeps, *point.sweeps})),
                                repetitions=_more(known.repetitions, point.repetitions))  # fmt: skip
            points[point.id] = point
            members.append(point.id)
        sweeps.append(_sweep_facts(sweep, members))
        if not members and not problems:
            problems.append(sweep.problem("has no point left: everything is excluded", "exclude"))
    if problems:
        raise ConfigError(problems)
    plan = Plan(
        campaign=config.campaign,
        description=config.description,
        target=config.target.model_dump(),
        limits=config.limits.model_dump(),
        seed=config.seed,
        sweeps=tuple(sweeps),
        allocations=_allocations(points.values(), config),
        configuration=tuple({"file": d.file, "text": d.text} for d in config.documents),
    )
    if problems := _over_limits(plan, config):
        raise ConfigError(problems)
    return plan


def combinations(sweep: Sweep) -> Iterable[dict[str, Value]]:
    """The product of the axes, less what `when` and `exclude` leave out; each once."""
    seen = set()
    for values in itertools.product(*sweep.axes.values()):
        full = dict(zip(sweep.axes, values, strict=True))
        combination = {n: v for n, v in full.items() if _matches(full, sweep.when.get(n, {}))}
        if any(_matches(combination, partial) for partial in sweep.exclude):
            continue
        key = tuple(sorted(combination.items()))
        if key not in seen:
            seen.add(key)
            yield combination


def _matches(combination: Mapping[str, Value], partial: Mapping[str, tuple[Value, ...]]) -> bool:
    return all(name in combination and combination[name] in values for name, values in partial.items())


def _points(sweep: Sweep, problems: list[Problem]) -> Iterable[Point]:
    tool = tools()[sweep.tool]
    steps = [tool.phases[name] for name in sweep.phases]
    defaults = {
        name: option.default
        for name, option in tool.options.items()
        if any(s.kind in option.kinds and (option.phases is None or s.name in option.phases) for s in steps)
    }
    timed = any(step.kind == "data" for step in steps)
    told = set()
    for combination in combinations(sweep):
        options = defaults | dict(sweep.options) | combination
        nodes = int(options.pop("nodes", 1) or 1)
        if wrong := tool.check(options, sweep.phases):
            if wrong not in told:
                told.add(wrong)
                problems.append(sweep.problem(wrong))
            continue
        phase_time_s = sweep.phase_time_s if timed else None
        yield Point(
            id=point_id(sweep.tool, sweep.phases, nodes, options, phase_time_s),
            tool=sweep.tool,
            phases=sweep.phases,
            nodes=nodes,
            options=options,
            phase_time_s=phase_time_s,
            repetitions=sweep.repetitions,
            sweeps=(sweep.name,),
        )


def point_id(
    tool: str, phases: tuple[str, ...], nodes: int, options: Mapping[str, Value], phase_time_s: float | None
) -> str:
    """Readable name and hash of what determines the measurement: `fio.rand_read.1n.2t.4k.qd8.0f3a91c2d4e5`.

    Options without a value are left out, so that a new option of a tool leaves old ids as they are.
    """
    content = {
        "tool": tool,
        "phases": phases,
        "nodes": nodes,
        "options": {name: value for name, value in options.items() if value is not None},
        "phase_time_s": phase_time_s,
    }
    digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]
    shown = phases[0] + (f"+{len(phases) - 1}" if len(phases) > 1 else "")
    parts = [tool, shown, f"{nodes}n", f"{options['threads_per_node']}t"]
    if isinstance(size := options.get("transfer_size"), int):
        parts.append(size_name(size))
    if "queue_depth" in options:
        parts.append(f"qd{options['queue_depth']}")
    return ".".join([*parts, digest])


def _more(a: Repetitions, b: Repetitions) -> Repetitions:
    widths = [r.half_width for r in (a, b) if r.half_width is not None]
    return Repetitions(max(a.min, b.min), max(a.max, b.max), min(widths) if widths else None)


def _sweep_facts(sweep: Sweep, members: list[str]) -> dict[str, Any]:
    return {
        "name": sweep.name,
        "tool": sweep.tool,
        "phases": sweep.phases,
        "axes": dict(sweep.axes),
        "points": members,
        "description": sweep.description,
        "suite": sweep.suite,
        "scaled": sweep.scaled,
        "source": sweep.source,
        "repetitions": {
            "min": sweep.repetitions.min,
            "max": sweep.repetitions.max,
            "until_ci95_half_width": sweep.repetitions.half_width,
        },
        "phase_time_s": sweep.phase_time_s,
    }


def _allocations(points: Iterable[Point], config: Config) -> tuple[Allocation, ...]:
    by_nodes: dict[int, list[Point]] = {}
    for point in sorted(points, key=lambda p: p.id):
        by_nodes.setdefault(point.nodes, []).append(point)
    made = []
    for nodes, members in sorted(by_nodes.items()):
        content = [config.campaign, config.target.model_dump(), config.seed, nodes,
                   [[p.id, asdict(p.repetitions)] for p in members]]  # fmt: skip
        digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]
        made.append(Allocation(f"{nodes}-node" + ("s" if nodes > 1 else ""), nodes, tuple(members), digest))
    return tuple(made)


# What it costs


def file_set(point: Point, phase: Phase, repetition: int = 1) -> FileSet:
    """The files that a phase of a repetition works on."""
    return tools()[point.tool].file_set(point.options, phase, f"fresh/{point.id}-r{repetition}")


def repetition_cost(point: Point, node_bandwidth: int | None) -> Cost:
    """What one repetition takes, data sets excluded."""
    tool = tools()[point.tool]
    cost = Cost()
    for phase in point.steps():
        cost += Cost(time_s=START_UP_S)
        if work := tool.work(point.options, phase):
            cost += Cost(time_s=work / METADATA_RATE)
            continue
        time_s = point.phase_time_s or 0.0
        # Little's law: so many I/Os in flight, none done sooner than the least latency
        in_flight = _number(point, "threads_per_node") * _number(point, "queue_depth")
        rate = min(node_bandwidth or NODE_BANDWIDTH, in_flight * _number(point, "transfer_size") / LEAST_LATENCY_S)
        moved = rate * point.nodes * time_s
        reads = _number(point, "read_percent") / 100 if phase.reads and phase.writes else float(phase.reads)
        cost += Cost(time_s, math.ceil(moved * (1 - reads)), math.ceil(moved * reads))
    return cost


def data_sets(points: Iterable[Point]) -> dict[tuple[int, str], FileSet]:
    """(node index, directory) -> the largest set asked for there. Points share sets, so each is prepared once."""
    found: dict[tuple[int, str], FileSet] = {}
    for point in points:
        for phase in point.steps():
            files = file_set(point, phase)
            if files.role == "fresh":
                continue
            for node in range(point.nodes):
                known = found.get((node, files.directory))
                if known is None or len(known.files) < len(files.files):
                    found[node, files.directory] = files
    return found


@dataclass(frozen=True)
class Forecast:
    """What points will take. Space and inodes are the peak on the target; memory is what the tools' buffers need."""

    points: int
    repetitions: int
    allocations: int
    time_s: float
    node_hours: float
    bytes_written: int
    bytes_read: int
    peak_bytes: int
    inodes: int
    memory_per_node_bytes: int


def forecast(plan: Plan, left: Mapping[str, Mapping[str, int]] | None = None) -> Forecast:
    """The forecast of a plan, or of what is left of it: allocation -> point -> repetitions."""
    node_bandwidth = plan.target.get("node_bandwidth")
    total, node_seconds, repetitions, chosen = Cost(), 0.0, 0, []
    allocations = 0
    for allocation in plan.allocations:
        todo = {p.id: p.repetitions.min for p in allocation.points} if left is None else left.get(allocation.name, {})
        members = [p for p in allocation.points if todo.get(p.id)]
        if not members:
            continue
        cost = sum((repetition_cost(p, node_bandwidth).times(todo[p.id]) for p in members), Cost())
        size = sum(s.size_bytes for s in data_sets(members).values())
        cost += Cost(size / allocation.nodes / min(node_bandwidth or NODE_BANDWIDTH, PREPARE_BANDWIDTH), size)
        total += cost
        node_seconds += cost.time_s * allocation.nodes
        repetitions += sum(todo[p.id] for p in members)
        chosen += members
        allocations += 1
    sets = data_sets(chosen)
    return Forecast(
        points=len(chosen),
        repetitions=repetitions,
        allocations=allocations,
        time_s=total.time_s,
        node_hours=node_seconds / 3600,
        bytes_written=total.bytes_written,
        bytes_read=total.bytes_read,
        peak_bytes=sum(s.size_bytes for s in sets.values()) + max((fresh_bytes(p) for p in chosen), default=0),
        inodes=sum(len(s.files) for s in sets.values()) + max((_fresh_inodes(p) for p in chosen), default=0),
        memory_per_node_bytes=max((_memory(p) for p in chosen), default=0),
    )


def fresh_bytes(point: Point) -> int:
    """Bytes of the new files that a repetition makes, at most."""
    new = point.options.get("write_mode") == "new" and any(p.writes and not p.reads for p in point.steps())
    per_node = _number(point, "threads_per_node") * _number(point, "files_per_thread") * _number(point, "file_size")
    return point.nodes * per_node if new else 0


def _fresh_inodes(point: Point) -> int:
    tool: Tool = tools()[point.tool]
    return point.nodes * max(tool.inodes(point.options, phase) for phase in point.steps())


def _memory(point: Point) -> int:
    """Buffers of all workers of a node: one transfer for each I/O in flight."""
    return _number(point, "threads_per_node") * _number(point, "queue_depth") * _number(point, "transfer_size")


def _number(point: Point, name: str) -> int:
    value = point.options.get(name)
    return value if isinstance(value, int) else 1


def sentence(forecast: Forecast, nodes: int | None = None) -> str:
    """`2 nodes: 24 points, 72 repetitions left, 3 h 10 min, up to 4.1 TiB written` (without the first part for a whole plan)."""
    where = f"{human_count(nodes, 'node')}: " if nodes else ""
    if not forecast.repetitions:
        return f"{where}nothing left"
    return (
        f"{where}{human_count(forecast.points, 'point')}, {human_count(forecast.repetitions, 'repetition')} left,"
        f" {human_duration(forecast.time_s)}, up to {human_size(forecast.bytes_written)} written"
    )


def _over_limits(plan: Plan, config: Config) -> list[Problem]:
    """Refuse what the limits do not allow (space on the target is compared where the target can be seen)."""
    cost = forecast(plan)
    document = config.documents[0]
    problems = []
    allowed, needed = config.limits.bytes_written, human_size(cost.bytes_written)
    if allowed is None and cost.bytes_written > UNLIMITED_BYTES:
        wrong = (
            f"is missing: up to {needed} may be written; more than 10 TiB must be allowed by it"
            " (or give target.node_bandwidth, if the nodes are slower than 4 GiB/s)"
        )
        problems.append(document.problem(("limits", "bytes_written"), wrong))
    if allowed is not None and cost.bytes_written > allowed:
        wrong = f"{human_size(allowed)} is not enough: up to {needed} may be written; raise it, or measure less"
        problems.append(document.problem(("limits", "bytes_written"), wrong))
    if config.limits.time is not None and cost.time_s > config.limits.time:
        wrong = (
            f"{human_duration(config.limits.time)} is not enough: about {human_duration(cost.time_s)} are needed;"
            " raise it, or measure less"
        )
        problems.append(document.problem(("limits", "time"), wrong))
    return problems
