"""config/sweep.yaml -> validated sweeps. Every error at once: file, line, key, value and what would be right."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs
from pydantic import BaseModel, ValidationError

from iosweep.config import criteria, models, published
from iosweep.config.sweeps import Config, Repetitions, Sweep
from iosweep.config.validation import shown, validated
from iosweep.config.yaml_lines import COMMAND_LINE, Document, KeyPath, dotted, load
from iosweep.errors import ConfigError, Problem
from iosweep.text import human_count
from iosweep.tools import Option, Tool, Value, tools
from iosweep.units import MOST_COUNT

#: Combinations of the axes of all sweeps, with those that `exclude` leaves out: planned in ten seconds.
MOST_COMBINATIONS = 100_000


#: Name of a value that the command line may give -> its key.
GIVEN: Mapping[str, KeyPath] = {"campaign": ("campaign",), "target": ("target", "directory")}


def read(file: Path, given: Mapping[str, str] | None = None) -> Config:
    """Read and validate a configuration. Raises ConfigError with every problem found.

    `given`: names of GIVEN -> values, in place of those of the file.
    """
    document = load(file)
    if given:
        document = _with(document, given)
    model, problems = validated(document, models.campaign_model())
    accept, wrong_criteria = criteria.read(document)
    problems += wrong_criteria
    # with an error somewhere, the entries that are right by themselves are still looked at
    entries = dict(enumerate(model.sweeps)) if model else _sound_entries(document.data)
    sweeps: list[Sweep] = []
    documents = [document]
    suites: dict[str, int] = {}
    for index, entry in entries.items():
        if isinstance(entry, models.SuiteEntry):
            if entry.suite in suites:
                other = f"sweeps[{suites[entry.suite]}]"
                wrong = f"`{entry.suite}` is listed twice (also {other}); keep one entry with all node counts"
                problems.append(document.problem(("sweeps", index, "suite"), wrong))
                continue
            suites[entry.suite] = index
            suite = load(models.SUITES / f"{entry.suite}.yaml")
            suite_model, found = validated(suite, models.suite_model())
            problems += found + published.read(suite, entry.suite)[1]
            documents.append(suite)
            if suite_model:
                sweeps += [_member(entry, suite_model, suite, n) for n in range(len(suite_model.sweeps))]
        else:
            sweeps.append(_sweep(entry, document, ("sweeps", index)))
    problems += [problem for sweep in sweeps for problem in _check(sweep)]
    problems += _same_names(sweeps)
    problems += _too_many(sweeps)
    if model and not model.allow_open_port:
        problems += _open_ports(sweeps)
    unknown = [(one, why) for one in accept if (why := published.unknown(one))]
    problems += [document.problem((criteria.SECTION, one.name), why) for one, why in unknown]
    if problems or not model:
        raise ConfigError(sorted(problems, key=lambda p: (p.file != document.file, p.file, p.line)))
    return Config(
        model.campaign,
        model.description,
        model.target,
        model.limits,
        model.pinning,
        model.cpus,
        model.tools,
        model.allocation,
        model.seed,
        tuple(sweeps),
        (*documents, *([_command_line(given)] if given else [])),
        tuple(accept),
    )


def _same_names(sweeps: Sequence[Sweep]) -> list[Problem]:
    """Sweeps whose name another one has."""
    problems, names = [], dict[str, Sweep]()
    for sweep in sweeps:
        if first := names.get(sweep.name):
            where = f"{first.document.file}, line {first.document.line(first.path)}"
            problems.append(sweep.problem(f"`{sweep.name}` names two sweeps (the other: {where})", "name"))
        names[sweep.name] = sweep
    return problems


def _with(document: Document, given: Mapping[str, str]) -> Document:
    """A configuration with some of its values replaced."""
    data = dict(document.data)
    for name, value in given.items():
        key, *below = GIVEN[name]
        known = data.get(str(key))
        data[str(key)] = {**(known if isinstance(known, dict) else {}), str(below[0]): value} if below else value
    return replace(document, data=data, given=frozenset(GIVEN[name] for name in given))


def _command_line(given: Mapping[str, str]) -> Document:
    """What was given, as a part of the configuration: plan and report keep it."""
    text = "".join(f"{dotted(GIVEN[name])}: {json.dumps(value)}\n" for name, value in sorted(given.items()))
    return Document(COMMAND_LINE, text, dict(given), {})


def _member(entry: models.SuiteEntry, model: Any, document: Document, index: int) -> Sweep:
    """A sweep of a suite, as the entry asks for it."""
    sweep = _sweep(model.sweeps[index], document, ("sweeps", index))
    sweep = replace(sweep, name=f"{entry.suite}.{sweep.name}", suite=entry.suite, source=model.source)
    if entry.nodes:
        sweep = replace(sweep, axes={**sweep.axes, "nodes": tuple(dict.fromkeys(entry.nodes))})
    if entry.repetitions:
        repetitions = _repetitions(entry.repetitions, sweep.repetitions.confirm)
        sweep = replace(sweep, repetitions=repetitions, repetitions_given=True)
    if entry.confirm is not None:
        sweep = replace(sweep, repetitions=structs.replace(sweep.repetitions, confirm=entry.confirm))
    return _scaled(sweep, entry.scale) if entry.scale else sweep


def _scaled(sweep: Sweep, scale: models.Scale) -> Sweep:
    """The sweep under upper bounds. It is marked as scaled only if that changes it."""
    tool = tools()[sweep.tool]

    def cap(name: str, value: Value) -> Value:
        bound = getattr(scale, name, None)
        return min(value, bound) if bound is not None and isinstance(value, int) else value

    most = scale.repetitions or MOST_COUNT

    def kept(partial: Mapping[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
        """A condition without the values that are out of bounds: the scaled axes do not have them."""
        return {n: tuple(v for v in values if cap(n, v) == v) for n, values in partial.items()}

    capped = replace(
        sweep,
        exclude=tuple(e for e in map(kept, sweep.exclude) if all(e.values())),
        axes={n: tuple(dict.fromkeys(cap(n, v) for v in values)) for n, values in sweep.axes.items()},
        options={n: cap(n, v) for n, v in sweep.options.items()}
        # a default may be above the bound too
        | {
            n: cap(n, o.default)
            for n, o in tool.options.items()
            if n not in sweep.options
            and n not in sweep.axes
            and cap(n, o.default) != o.default
            and _has_effect(o, sweep)
        },
        phase_time_s=None if sweep.phase_time_s is None else min(sweep.phase_time_s, scale.phase_time or math.inf),
        repetitions=structs.replace(
            sweep.repetitions,
            min=min(sweep.repetitions.min, most),
            max=min(sweep.repetitions.max, most),
            confirm=min(sweep.repetitions.confirm, most),
        ),
    )
    return replace(capped, scaled=True) if capped != sweep else sweep


def _sweep(model: Any, document: Document, path: KeyPath) -> Sweep:
    def given(part: BaseModel) -> dict[str, Any]:
        return {name: getattr(part, name) for name in type(part).model_fields if getattr(part, name) is not None}

    def values(part: BaseModel) -> dict[str, tuple[Value, ...]]:
        return {name: tuple(v) for name, v in given(part).items()}

    return Sweep(
        name=model.name,
        tool=model.tool,
        phases=tuple(model.phases),
        axes=values(model.axes),
        options=given(model.options),
        exclude=tuple(values(e) for e in model.exclude),
        phase_time_s=model.phase_time,
        phase_time_given="phase_time" in model.model_fields_set,
        repetitions=_repetitions(model.repetitions, model.confirm),
        repetitions_given="repetitions" in model.model_fields_set,
        ramp=model.ramp,
        description=model.description,
        document=document,
        path=path,
    )


def _repetitions(value: int | models.Repetitions, confirm: int) -> Repetitions:
    if isinstance(value, int):
        return Repetitions(value, value, confirm=confirm)
    return Repetitions(value.min, value.max, value.until_ci95_half_width, confirm)


def _has_effect(option: Option, sweep: Sweep) -> bool:
    tool = tools()[sweep.tool]
    phases = [tool.phases[p] for p in sweep.phases]
    return any(p.kind in option.kinds and (option.phases is None or p.name in option.phases) for p in phases)


def _check(sweep: Sweep) -> list[Problem]:
    """What the types alone cannot see."""
    tool = tools()[sweep.tool]
    problems = []
    kinds = {tool.phases[p].kind for p in sweep.phases}
    if len(kinds) > 1:
        problems.append(sweep.problem("mixes data and metadata phases; write two sweeps", "phases"))
    if sweep.phase_time_given and kinds == {"metadata"}:
        wrong = f"has no effect on {', '.join(sweep.phases)}: a count bounds them; remove it"
        problems.append(sweep.problem(wrong, "phase_time"))
    if len(set(sweep.phases)) < len(sweep.phases):
        problems.append(sweep.problem("has a phase twice", "phases"))
    if sweep.repetitions.max < sweep.repetitions.min:
        problems.append(
            sweep.problem(f"max {sweep.repetitions.max} is below min {sweep.repetitions.min}", "repetitions")
        )
    for name, values in sweep.axes.items():
        if name in sweep.options:
            problems.append(sweep.problem(f"`{name}` is set under both axes and options; keep one", "options", name))
        if len(set(values)) < len(values):
            problems.append(sweep.problem("has a value twice (sizes are binary: 1k is 1024)", "axes", name))
    for group in ("axes", "options"):
        for name in getattr(sweep, group):
            if name != "nodes" and not _has_effect(tool.options[name], sweep):
                problems.append(sweep.problem(f"`{name}` has no effect on {', '.join(sweep.phases)}", group, name))
    if sweep.ramp and sweep.ramp not in sweep.axes:
        problems.append(sweep.problem(_no_axis(sweep, sweep.ramp), "ramp"))
    for number, condition in enumerate(sweep.exclude):
        where = ("exclude", number)
        if not condition:
            problems.append(sweep.problem("is empty; name at least one axis and its value", *where))
        for name, values in condition.items():
            if name not in sweep.axes:
                problems.append(sweep.problem(_no_axis(sweep, name), *where, name))
            elif strange := [v for v in values if v not in sweep.axes[name]]:
                known = ", ".join(_written(tool, name, v) for v in sweep.axes[name])
                message = f"{_written(tool, name, strange[0])} is not a value of the axis (it has {known})"
                problems.append(sweep.problem(message, *where, name))
    return problems


def _too_many(sweeps: Sequence[Sweep]) -> list[Problem]:
    """Where there is more than can be multiplied out, before it is."""
    total = 0
    for sweep in sweeps:
        count = math.prod(map(len, sweep.axes.values()))
        total += count
        if total > MOST_COMBINATIONS:
            of = " x ".join(str(len(values)) for values in sweep.axes.values())
            others = f", {total:,} with the sweeps before it" if total > count else ""
            wrong = f"{of} values are {human_count(count, 'combination')}{others}"
            most = f"a campaign may have {MOST_COMBINATIONS:,}, excluded ones included; shorten an axis"
            return [sweep.problem(f"{wrong}; {most}", "axes")]
    return []


def _open_ports(sweeps: Sequence[Sweep]) -> list[Problem]:
    """Where a server without a password is asked for."""
    name = "client_server"
    wrong = (
        "fio listens on each node without a password, and whoever reaches it can run commands as you while a phase"
        " runs; write `allow_open_port: true` at the top of the file if your network allows that, or set it to false"
    )
    found = [(sweep, "options") for sweep in sweeps if sweep.options.get(name)]
    found += [(sweep, "axes") for sweep in sweeps if any(sweep.axes.get(name, ()))]
    return [sweep.problem(wrong, group, name) for sweep, group in found]


def _no_axis(sweep: Sweep, name: str) -> str:
    """That a sweep does not vary a parameter. Names of none are found before."""
    return f"the sweep has no axis `{name}` (it has {', '.join(sweep.axes) or 'none'})"


def _sound_entries(data: Any) -> dict[int, Any]:
    """Entries of `sweeps` that are valid by themselves, by their index."""
    sound = {}
    entries = data.get("sweeps")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        model = models.entry_models().get(models.entry_kind(entry) or "")
        with contextlib.suppress(ValidationError):
            if model:
                sound[index] = model.model_validate(entry)
    return sound


def _written(tool: Tool, name: str, value: Value) -> str:
    """A value as a configuration has it."""
    size = name in tool.options and tool.options[name].kind == "size"
    return tool.options[name].text(value) if size else shown(value)
