"""Sweeps -> points -> allocations, and what they will cost. Pure and deterministic: sees no result, no machine."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from iosweep import documents, forms, plan_bounds
from iosweep.tools import FileSet, Phase, Step, Value, tools
from iosweep.units import size_name
from iosweep.yamlfile import ConfigError, Problem

if TYPE_CHECKING:  # allocations and merge work from the plan alone, and start sooner without the models
    from iosweep.config import Config, Sweep


@dataclass(frozen=True)
class Repetitions:
    """How often a point is measured. `half_width` is a fraction of the mean; None: always `min` times."""

    min: int
    max: int
    half_width: float | None = None


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

    def steps(self) -> list[Step]:
        """The commands of a repetition, in order: one for each phase, or one for all where the tool measures so."""
        return self._steps

    @cached_property
    def _steps(self) -> list[Step]:  # an attribute with this name is not part of the plan's document
        tool = tools()[self.tool]
        phases = [tool.phases[name] for name in self.phases]
        groups = [tuple(phases)] if tool.together else [(phase,) for phase in phases]
        return [Step(self.options, group, self.nodes, self.phase_time_s) for group in groups]

    @cached_property
    def _file_sets(self) -> list[FileSet]:
        return [file_set(self, step) for step in self.steps()]

    def file_sets(self) -> list[FileSet]:
        """The files that each step works on, those of the first repetition where each has its own."""
        return self._file_sets

    @property
    def tasks(self) -> int:
        """Ranks or workers on all nodes together."""
        return self.nodes * int(self.options.get("threads_per_node") or 1)

    @property
    def volume_bytes(self) -> int:
        """Bytes of all its files, or of its part of shared ones, on all nodes together; 0 where there are no sizes."""
        known = self.options
        each = (known.get("threads_per_node") or 1, known.get("files_per_thread") or 1, known.get("file_size") or 0)
        return self.nodes * math.prod(int(factor) for factor in each)

    def measured(self) -> list[Phase]:
        """The phases, in order."""
        return [phase for step in self.steps() for phase in step.phases]


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
    cpus: Mapping[str, Any]  # `pinning`, which may be None, and the keys below `cpus`
    seed: int
    sweeps: tuple[Mapping[str, Any], ...]  # for the report: name, axes, suite, scaled, points ...
    allocations: tuple[Allocation, ...]
    configuration: tuple[Mapping[str, str], ...]  # file and text
    variables: tuple[str, ...] = ()  # of the environment that tools get beside those of environment.py

    @property
    def points(self) -> list[Point]:
        """All points, allocation by allocation."""
        return [point for allocation in self.allocations for point in allocation.points]

    def content(self) -> bytes:
        """The plan as JSON."""
        return orjson.dumps(self, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)

    def document(self) -> bytes:
        """The file that allocations and merge work from: the content with its digest (documents.py)."""
        return documents.seal(self.content())

    @property
    def digest(self) -> str:
        """Hash of the whole content, for file names."""
        return hashlib.sha256(self.content()).hexdigest()[:12]


def read(file: Path) -> Plan:
    """The plan of a file that holds a `Plan.document`. Raises FileNotFoundError, Damaged."""
    return from_document(documents.content(file, documents.MOST_BYTES), file)


def from_document(document: bytes, file: Path = Path("plan")) -> Plan:
    """The plan that `Plan.document` wrote. `file`: for the error. Raises Damaged."""
    data = documents.load(document, file)
    try:
        made = _plan(data)
        for point in made.points:
            if wrong := _impossible(point):
                raise ValueError(f"{point.id}: {wrong}")
        if wrong := _too_many(made.points):
            raise ValueError(wrong)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise documents.Damaged(file, f"it is not a plan of this version of iosweep: {error!r}") from None
    return made


def _impossible(point: Point) -> str | None:
    """Why no configuration makes such a point, or None."""
    tool = tools()[point.tool]
    if strange := [name for name in point.phases if name not in tool.phases]:
        return f"unknown phase {strange[0]}"
    for name, value in point.options.items():
        if not tool.options[name].fits(value):
            return f"{name} cannot be {str(value)[:40]}"
    return tool.check(point.options, point.phases, point.phase_time_s)


def _too_many(points: Iterable[Point]) -> str | None:
    """That there are more repetitions than what is left can be counted from, or None."""
    number, most = sum(point.repetitions.min for point in points), forms.MOST_REPETITIONS
    return f"{number:,} repetitions are planned, and a campaign may have {most:,}" if number > most else None


def _plan(data: dict[str, Any]) -> Plan:
    if wrong := forms.PLAN(data):
        raise ValueError(wrong)

    total = plan_bounds.Total()

    def point(raw: dict[str, Any]) -> Point:
        if wrong := plan_bounds.of_point(raw["nodes"], raw["options"]) or (
            raw["tool"] in tools() and total.add(raw["tool"], raw["nodes"], raw["options"])
        ):
            raise ValueError(wrong)
        raw["repetitions"] = Repetitions(**raw["repetitions"])
        return Point(**raw | {"phases": tuple(raw["phases"]), "sweeps": tuple(raw["sweeps"])})

    allocations = tuple(
        Allocation(a["name"], a["nodes"], tuple(point(p) for p in a["points"]), a["digest"])
        for a in data["allocations"]
    )
    return Plan(
        **data
        | {"allocations": allocations}
        | {name: tuple(data[name]) for name in ("sweeps", "configuration", "variables") if name in data}
    )


def make(config: Config) -> Plan:
    """The plan of a configuration. Raises ConfigError where points cannot be measured."""
    problems: list[Problem] = []
    points: dict[str, Point] = {}
    sweeps: list[dict[str, Any]] = []
    total = plan_bounds.Total()
    for sweep in config.sweeps:
        members = []
        for point in _points(sweep, problems):
            known = points.get(point.id)
            if known is None and (wrong := total.add(point.tool, point.nodes, point.options)):
                raise ConfigError([*problems, sweep.problem(wrong, *_place(sweep, wrong))])
            if known:  # two sweeps share it: measured once, as often as the more demanding one asks
                point = replace(
                    known,
                    sweeps=tuple(sorted({*known.sweeps, *point.sweeps})),
                    repetitions=_more(known.repetitions, point.repetitions),
                )
            points[point.id] = point
            members.append(point.id)
        sweeps.append(_sweep_facts(sweep, members))
        if wrong := _directory(sweep.tool, config.target.directory):
            problems.append(config.documents[0].problem(("target", "directory"), wrong))
        if not members and not problems:
            problems.append(sweep.problem("has no point left: everything is excluded", "exclude"))
    if not problems and (wrong := _too_many(points.values())):
        problems.append(config.sweeps[0].problem(f"{wrong}; give fewer", "repetitions"))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return Plan(
        campaign=config.campaign,
        description=config.description,
        target=config.target.model_dump(),
        limits=config.limits.model_dump(),
        cpus=_cpus(config),
        seed=config.seed,
        sweeps=tuple(sweeps),
        allocations=_allocations(tuple(points.values()), config),
        configuration=tuple({"file": d.file, "text": d.text} for d in config.documents),
        variables=tuple(config.tools.variables),
    )


def _cpus(config: Config) -> dict[str, Any]:
    return {"pinning": config.pinning, **config.cpus.model_dump()}


def _directory(tool: str, directory: str) -> str | None:
    """Why a tool cannot work below a directory, which may be a relative one, or None."""
    whole = str(Path(directory).absolute())
    if not whole.isprintable():
        return f"is {whole}, which has characters that tools do not print as they are; choose another directory"
    wrong = tools()[tool].check_directory(whole)
    return f"is {whole}, which {wrong}" if wrong and whole != directory else wrong


def combinations(sweep: Sweep) -> Iterable[dict[str, Value]]:
    """The product of the axes, less what `when` and `exclude` leave out; each once.

    An axis whose condition does not hold has its default, for other conditions and for `exclude` too.
    """
    seen = set()
    defaults = {name: option.default for name, option in tools()[sweep.tool].options.items()} | {"nodes": 1}
    for values in itertools.product(*sweep.axes.values()):
        combination = dict(zip(sweep.axes, values, strict=True))
        for name in _conditions_first(sweep.when):
            if not _matches(defaults | combination, sweep.when[name]):
                del combination[name]
        whole = defaults | combination
        if any(_matches(whole, partial) for partial in sweep.exclude):
            continue
        key = tuple(sorted(combination.items()))
        if key not in seen:
            seen.add(key)
            yield combination


def _place(sweep: Sweep, wrong: str) -> tuple[str, ...]:
    """Where in a sweep the first thing stands that a sentence about a combination names."""
    for word in re.findall(r"[a-z_]{3,}", wrong):
        if word in ("phases", "phase_time"):
            return (word,)
        for group in ("axes", "options"):
            if word in getattr(sweep, group):
                return (group, word)
        if word in sweep.phases:
            return ("phases",)
    return ()


def _conditions_first(when: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Axes with conditions, each after those that its condition names (configurations have no circles)."""
    ordered: list[str] = []
    while len(ordered) < len(when):
        ordered += [n for n in when if n not in ordered and all(m in ordered or m not in when for m in when[n])]
    return ordered


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
    phase_time_s = sweep.phase_time_s if _timed(sweep) else None
    told = set()
    for combination in combinations(sweep):
        options = defaults | dict(sweep.options) | combination
        # off is not being there: ids stay when a tool gets such a flag
        options |= {name: None for name, value in options.items() if value is False and defaults.get(name, "") is None}
        nodes = int(options.pop("nodes", 1) or 1)
        if wrong := plan_bounds.of_point(nodes, options):
            if "too many" not in told:  # each combination has another sentence
                told.add("too many")
                problems.append(sweep.problem(wrong, *_place(sweep, wrong)))
            continue
        if wrong := tool.check(options, sweep.phases, phase_time_s):
            if wrong not in told:
                told.add(wrong)
                problems.append(sweep.problem(wrong, *_place(sweep, wrong)))
            continue
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


def _timed(sweep: Sweep) -> bool:
    """Whether time may bound its phases, and not a count of files."""
    return any(tools()[sweep.tool].phases[name].kind == "data" for name in sweep.phases)


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
        "phase_time_s": sweep.phase_time_s if _timed(sweep) else None,
        "one_pass": _timed(sweep) and sweep.phase_time_s is None,
    }


def _allocations(points: Sequence[Point], config: Config) -> tuple[Allocation, ...]:
    by_nodes: dict[int, list[Point]] = {}
    largest = max((point.nodes for point in points), default=1)
    for point in sorted(points, key=lambda p: p.id):
        by_nodes.setdefault(largest if config.allocation == "campaign" else point.nodes, []).append(point)
    made = []
    for nodes, members in sorted(by_nodes.items()):
        content = [
            config.campaign,
            config.target.model_dump(),
            _cpus(config),
            config.seed,
            nodes,
            [[p.id, p.repetitions] for p in members],
        ]
        digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]
        name = f"{nodes}-node" + ("s" if nodes > 1 else "")
        made.append(Allocation(name, nodes, tuple(members), digest))
    return tuple(made)


def file_set(point: Point, step: Step, repetition: int = 1) -> FileSet:
    """The files that a step of a repetition works on."""
    return tools()[point.tool].file_set(step, f"fresh/{point.id}-r{repetition}")


def seed_of(seed: int, point: str, repetition: int, phase: str) -> int:
    """The tool's seed: another pattern for every repetition, the same one when the campaign is run again."""
    digest = hashlib.sha256(f"{seed}:{point}:{repetition}:{phase}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
