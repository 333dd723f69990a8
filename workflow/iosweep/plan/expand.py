"""Expansion of sweeps into points and allocations; ids of points. Pure and deterministic: sees no result or machine."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

import msgspec
from msgspec import structs

from iosweep.config.sweeps import Config, RepetitionRule, Sweep
from iosweep.errors import ConfigError, Problem
from iosweep.node.pinning import CpuSettings
from iosweep.plan.headline_groups import criteria_problems
from iosweep.plan.model import Allocation, ConfigurationFile, LimitSettings, Plan, Point, SweepFacts, TargetSettings
from iosweep.tools import Option, Value, parameters, tools


def make_plan(config: Config) -> Plan:
    """The plan of a configuration. Raises ConfigError if points cannot be measured."""
    problems: list[Problem] = []
    points: dict[str, Point] = {}
    sweeps: list[SweepFacts] = []
    for sweep in config.sweeps:
        members = []
        rule = structs.replace(sweep.repetitions, sessions=config.settings.sessions)
        for point in _points(sweep, rule, problems):
            if shared := points.get(point.id):  # with an earlier sweep: the more demanding rule of repetitions holds
                point = structs.replace(
                    shared,
                    sweeps=tuple(sorted({*shared.sweeps, *point.sweeps})),
                    repetitions=_more_demanding(shared.repetitions, point.repetitions),
                )
            points[point.id] = point
            members.append(point.id)
        timed = _timed(sweep)
        sweeps.append(
            SweepFacts(
                name=sweep.name,
                tool=sweep.tool,
                phases=sweep.phases,
                axes={name: tuple(v for v in values if v is not None) for name, values in sweep.axes.items()},
                points=tuple(members),
                description=sweep.description,
                suite=sweep.suite,
                scaled=sweep.scaled,
                source=sweep.source,
                repetitions=rule,
                ramp=sweep.ramp,
                side_by_side=sweep.side_by_side,
                phase_time_s=sweep.phase_time_s if timed else None,
                one_pass=timed and sweep.phase_time_s is None,
            )
        )
        for name, target in config.targets.items():
            if wrong := _directory(sweep.tool, target.directory):
                problems.append(config.target_problem(name, "directory", wrong))
        if not members and not problems:
            problems.append(sweep.problem("has no point left: everything is excluded", "exclude"))
    problems = problems or list(criteria_problems(config, points.values()))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    settings = config.settings
    return Plan(
        campaign=settings.campaign,
        description=settings.description,
        targets={name: TargetSettings(**target.model_dump()) for name, target in config.targets.items()},
        limits=LimitSettings(**settings.limits.model_dump()),
        cpus=CpuSettings(pinning=settings.pinning, **settings.cpus.model_dump()),
        seed=settings.seed,
        sweeps=tuple(sweeps),
        allocations=_allocations(tuple(points.values()), config),
        configuration=tuple(ConfigurationFile(d.file, d.text) for d in config.documents),
        variables=tuple(settings.tools.variables),
        optional=tuple(settings.tools.optional),
        accept=config.accept,
    )


def _directory(tool: str, directory: str) -> str | None:
    """Why a tool cannot work below a directory, which may be relative, or None."""
    whole = str(Path(directory).absolute())
    if not whole.isprintable():
        return f"is {whole}, which has characters that tools do not print as they are; choose another directory"
    wrong = tools()[tool].check_directory(whole)
    return f"is {whole}, which {wrong}" if wrong and whole != directory else wrong


def combinations(sweep: Sweep) -> Iterable[dict[str, Value]]:
    """The product of the axes, without the combinations of `exclude`."""
    # sets, because each combination is looked up in every list, which may be as long as the axis
    excluded = [{name: frozenset(values) for name, values in partial.items()} for partial in sweep.exclude]
    for values in itertools.product(*sweep.axes.values()):
        combination = dict(zip(sweep.axes, values, strict=True))
        if not any(all(combination.get(n) in values for n, values in partial.items()) for partial in excluded):
            yield combination


def _key_of(sweep: Sweep, wrong: str) -> tuple[str, ...]:
    """The first key of the sweep that a message about a combination mentions."""
    for word in re.findall(r"[a-z_]{3,}", wrong):
        if word in ("phases", "phase_time"):
            return (word,)
        for group in ("axes", "options"):
            if word in getattr(sweep, group):
                return (group, word)
        if word in sweep.phases:
            return ("phases",)
    return ()


def _points(sweep: Sweep, rule: RepetitionRule, problems: list[Problem]) -> Iterable[Point]:
    tool = tools()[sweep.tool]
    phases = [tool.phases[name] for name in sweep.phases]
    defaults = {name: o.default for name, o in tool.options.items() if any(map(o.applies, phases))}
    phase_time_s = sweep.phase_time_s if _timed(sweep) else None
    reported: set[str] = set()
    given = defaults | dict(sweep.options)
    unset = [name for name, default in defaults.items() if default is None]
    for combination in combinations(sweep):
        options = given | combination
        # `false` counts as absent, so that ids do not change when a tool gets a new flag
        for name in unset:
            if options[name] is False:
                options[name] = None
        nodes = int(options.pop("nodes", 1) or 1)
        if wrong := tool.check(options, sweep.phases, phase_time_s):
            if wrong not in reported:
                reported.add(wrong)
                problems.append(sweep.problem(wrong, *_key_of(sweep, wrong)))
            continue
        yield Point(
            id=point_id(sweep.tool, sweep.phases, nodes, options, phase_time_s),
            tool=sweep.tool,
            phases=sweep.phases,
            nodes=nodes,
            options=options,
            phase_time_s=phase_time_s,
            repetitions=rule,
            sweeps=(sweep.name,),
        )


def point_id(
    tool: str, phases: tuple[str, ...], nodes: int, options: Mapping[str, Value], phase_time_s: float | None
) -> str:
    """A readable name, and a hash of all that determines the figures: `fio.rand_read.1n.2t.4k.qd8.psync.0f3a91c2d4e5`.

    Options without a value are left out, so that a new option of a tool does not change old ids.
    """
    content = {
        "tool": tool,
        "phases": phases,
        "nodes": nodes,
        "options": {name: value for name, value in options.items() if value is not None},
        "phase_time_s": phase_time_s,
    }
    digest = hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:12]
    phase_part = phases[0] + (f"+{len(phases) - 1}" if len(phases) > 1 else "")
    parts = [tool, phase_part, f"{nodes}n"]
    for name in _id_options():
        if (value := options.get(name)) is not None:
            parts.append(_id_part(name, value))
    return ".".join([*parts, digest])


@cache
def _id_options() -> dict[str, Option]:
    """The options that ids of points show."""
    return {option.name: option for option in parameters().values() if option.id_form}


@lru_cache(4096)  # many points have equal values
def _id_part(name: str, value: Value) -> str:
    option = _id_options()[name]
    return option.id_form.format(option.text(value))


def _more_demanding(a: RepetitionRule, b: RepetitionRule) -> RepetitionRule:
    widths = [r.half_width for r in (a, b) if r.half_width is not None]
    half_width = min(widths) if widths else None
    return RepetitionRule(max(a.min, b.min), max(a.max, b.max), half_width, max(a.confirm, b.confirm), a.sessions)


def _timed(sweep: Sweep) -> bool:
    """Whether time may bound its phases, instead of a count of files."""
    return any(tools()[sweep.tool].phases[name].kind == "data" for name in sweep.phases)


def _allocations(points: Sequence[Point], config: Config) -> tuple[Allocation, ...]:
    by_nodes: dict[int, list[Point]] = {}
    largest = max((point.nodes for point in points), default=1)
    for point in sorted(points, key=lambda p: (p.tool, p.phases, p.nodes, *p.options.items(), p.id)):
        by_nodes.setdefault(largest if config.settings.allocation == "campaign" else point.nodes, []).append(point)
    allocations = []
    for session, (nodes, members) in itertools.product(
        range(1, config.settings.sessions + 1), sorted(by_nodes.items())
    ):
        name = f"{nodes}-node{'s' * (nodes > 1)}" + (f"-session{session}" if session > 1 else "")
        allocations.append(Allocation(name, nodes, tuple(members), session))
    return tuple(allocations)
