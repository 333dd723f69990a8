"""config/sweep.yaml -> validated sweeps. Every error at once: file, line, key, value and remedy."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import structs
from pydantic import BaseModel, ValidationError

from iosweep.config import criteria, models, sections
from iosweep.config.sections import suggest_known
from iosweep.config.sweeps import MAX_REPETITIONS, Config, Sweep
from iosweep.config.yaml_lines import COMMAND_LINE, Document, KeyPath, dotted, load, written
from iosweep.errors import ConfigError, Problem
from iosweep.target.directory import directory_of
from iosweep.text import human_count, shortened
from iosweep.tools import Option, Tool, Value, tools
from iosweep.tools.axes import NODES, TARGET, settable


def validated(document: Document, model: type[BaseModel]) -> tuple[Any, list[Problem]]:
    """(the model of a file or None, its problems)"""
    try:
        return model.model_validate(document.data), []
    except ValidationError as error:
        problems = [_problem(document, model, detail) for detail in error.errors(include_url=False)]
        return None, list(dict.fromkeys(problems))


def _problem(document: Document, model: type[BaseModel], detail: Any) -> Problem:
    """pydantic's error in our words. Its path holds tags of unions, which are no keys of the file."""
    path = tuple(part for part in detail["loc"] if part not in (*models.entry_models(), "[key]"))
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden" and path[-2:] == ("options", "nodes"):
        return document.problem(path, "belongs under axes: write `axes: {nodes: [...]}`")
    if kind == "extra_forbidden":
        above = tuple(part for part in detail["loc"][:-1] if not isinstance(part, int))
        keys = _keys(model).get(above[:1] if above[:1] == ("targets",) else above, [])
        return document.problem(path, suggest_known("key", str(path[-1]), keys))
    if kind == "missing":
        return document.problem(path[:-1], f"`{path[-1]}` is missing")
    if kind.startswith("union_tag"):
        entry = value if isinstance(value, dict) else {}
        if "tool" in entry:
            return document.problem((*path, "tool"), suggest_known("tool", written(entry["tool"]), tools()))
        return document.problem(path, "is neither a sweep (it has no `tool`) nor a suite (it has no `suite`)")
    if kind == "literal_error":
        choices = [c.strip("'") for c in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return document.problem(path, suggest_known("value", written(value), choices))
    message = {
        "list_type": f"must be a list, for example {_LISTS.get(str(path[-1]), '[1, 2, 4]')}",
        **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "must be a mapping of keys to values"),
        "too_short": "is empty; give at least one value",
        "too_long": f"has more than {sections.MOST_VALUES:,} values; give fewer",
        "bool_type": "must be true or false",
        "string_type": "must be text",
    }.get(kind, detail["msg"].removeprefix("Value error, "))
    quotes_it = isinstance(detail.get("ctx", {}).get("error"), sections.UnknownName)
    if quotes_it or kind == "too_long":  # the values would fill the screen
        return document.problem(path, message)
    verb = "" if message.startswith(("is ", "must ", "starts ")) else "is "
    return document.problem(path, f"{shown(value)} {verb}{message}")


#: Key -> an example of its list. Other lists hold numbers.
_LISTS = {"phases": "[seq_write, seq_read]", "exclude": "[{queue_depth: 8}]", "sweeps": "[{suite: four-corners}]"}


def shown(value: object) -> str:
    """A value as a configuration has it, shortened."""
    return shortened(f'"{value}"' if isinstance(value, str) else written(value))


@cache
def _keys(model: type[BaseModel]) -> dict[tuple[str, ...], list[str]]:
    """Path without indices, tags included -> the keys that are known there."""
    found: dict[tuple[str, ...], list[str]] = {}

    def visit(path: tuple[str, ...], part: type[BaseModel]) -> None:
        found[path] = list(part.model_fields)
        for name, info in part.model_fields.items():
            if name == "sweeps":
                for tag, entry in models.entry_models().items():
                    visit((*path, name, tag), entry)
                    visit((*path, name), entry)  # the tag is absent where there is one kind only
                continue
            for nested in _models_in(info.annotation):
                visit((*path, name), nested)

    visit((), model)
    return found


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for part in getattr(annotation, "__args__", ()) for m in _models_in(part)]


#: Combinations of the axes of all sweeps, with those that `exclude` leaves out: planned in ten seconds.
MOST_COMBINATIONS = 100_000


#: Name of a value that the command line may give -> its key.
GIVEN: Mapping[str, KeyPath] = {
    "campaign": ("campaign",),
    "target": ("target", "directory"),
    "sessions": ("sessions",),
}


def read(file: Path, given: Mapping[str, str] | None = None) -> Config:
    """Read and validate a configuration. Raises ConfigError with every problem found.

    `given`: names of GIVEN -> values, in place of those of the file.
    """
    document = load(file)
    values = {name: int(v) if name == "sessions" and v.isdecimal() else v for name, v in (given or {}).items()}
    if values:
        document = _with(document, values)
    model, problems = validated(document, models.Campaign)
    accept, wrong_criteria = criteria.read(document)
    problems += wrong_criteria + _check_which(document)
    named = document.data.get("targets")
    targets = tuple(map(str, named)) if isinstance(named, dict) else ()
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
            suite = load(criteria.SUITES / f"{entry.suite}.yaml")
            suite_model, found = validated(suite, models.Suite)
            problems += found + criteria.read_published(suite, entry.suite)[1]
            documents.append(suite)
            if suite_model:
                sweeps += [_member(entry, suite_model, suite, n) for n in range(len(suite_model.sweeps))]
        else:
            sweeps.append(_sweep(entry, document, ("sweeps", index)))
    sweeps = [_on_all(sweep, targets) for sweep in sweeps]
    problems += [problem for sweep in sweeps for problem in _check(sweep, targets)]
    problems += _check_together(sweeps, model.sessions if model else 1)
    references = [(criterion, criteria.unknown_reference(criterion)) for criterion in accept]
    problems += [document.problem((criteria.SECTION, criterion.name), why) for criterion, why in references if why]
    if problems or not model:
        raise ConfigError(sorted(problems, key=lambda p: (p.file != document.file, p.file, p.line)))
    if values:  # plan and report keep the values of the command line as a document of their own
        text = "".join(f"{dotted(GIVEN[name])}: {json.dumps(value)}\n" for name, value in sorted(values.items()))
        documents.append(Document(COMMAND_LINE, text, values, {}))
    config = Config(model, tuple(sweeps), tuple(documents), tuple(accept))
    if problems := [*_check_targets(config), *_check_node_counts(config)]:
        raise ConfigError(problems)
    return config


def _check_which(document: Document) -> list[Problem]:
    """The problem unless a configuration has either `target` or `targets`."""
    path: KeyPath = ("target", "directory")
    match [key for key in ("target", "targets") if document.data.get(key) is not None]:
        case []:
            return [document.problem((), "`target` is missing")]
        case [_, _] if path in document.given:
            return [document.problem(path, "the configuration has several `targets`; set their directories there")]
        case [_, _]:
            return [document.problem(("targets",), "`target` is set as well; keep one of the two")]
    return []


def _check_targets(config: Config) -> list[Problem]:
    """Targets that no sweep measures, and those inside another one's directory of the campaign."""
    campaign, targets = config.settings.campaign, config.targets
    used = {str(name) for sweep in config.sweeps for name in _targets_of(sweep)}
    problems = [
        config.documents[0].problem(("targets", name), "no sweep measures it; name it under `axes`, or remove it")
        for name in targets
        if name and name not in used
    ]
    for name, target in targets.items():
        for other, above in targets.items():
            ours = directory_of(above.directory, campaign, other)
            if name != other and Path(target.directory).absolute().is_relative_to(ours):
                wrong = f"is inside {ours}, where files of the target `{other}` are; name another directory"
                problems.append(config.target_problem(name, "directory", wrong))
    return problems


def _check_node_counts(config: Config) -> Iterator[Problem]:
    """Sweeps that compare node counts side by side, which are in different jobs."""
    for sweep in config.sweeps:
        if sweep.side_by_side == NODES.name and config.settings.allocation != "campaign":
            wrong = "each node count has a job of its own; with `allocation: campaign` they are side by side"
            yield sweep.problem(wrong, "side_by_side")


def _targets_of(sweep: Sweep) -> tuple[Value, ...]:
    """The targets that a sweep names."""
    options = sweep.options
    return sweep.axes.get(TARGET.name) or ((options[TARGET.name],) if TARGET.name in options else ())


def _on_all(sweep: Sweep, targets: Sequence[str]) -> Sweep:
    """The sweep with all targets as an axis, if it names none, and with its targets side by side."""
    if targets and not _targets_of(sweep):
        sweep = replace(sweep, axes={**sweep.axes, TARGET.name: tuple(targets)})
    default = TARGET.name if TARGET.name in sweep.axes else None
    return replace(sweep, side_by_side=sweep.side_by_side or default)


def _check_together(sweeps: Sequence[Sweep], sessions: int) -> list[Problem]:
    """Sweeps with the same name, and the sweep with which there are too many combinations, before they are made."""
    problems, names, total = [], dict[str, Sweep](), 0
    for sweep in sweeps:
        if first := names.get(sweep.name):
            where = f"{first.document.file}, line {first.document.line(first.path)}"
            problems.append(sweep.problem(f"`{sweep.name}` names two sweeps (the other: {where})", "name"))
        names[sweep.name] = sweep
        before, total = total, total + sessions * math.prod(map(len, sweep.axes.values()))
        if before <= MOST_COMBINATIONS < total:
            most = f"a campaign may have {MOST_COMBINATIONS:,}, excluded ones included; shorten an axis"
            in_all = f" in {sessions} sessions" if sessions > 1 else ""
            too_many = f"{human_count(total, 'combination')} with the sweeps before it{in_all}; {most}"
            problems.append(sweep.problem(too_many, "axes"))
    return problems


def _with(document: Document, given: Mapping[str, str | int]) -> Document:
    """A configuration with some of its values replaced."""
    data = dict(document.data)
    for name, value in given.items():
        key, *below = GIVEN[name]
        known = data.get(str(key))
        data[str(key)] = {**(known if isinstance(known, dict) else {}), str(below[0]): value} if below else value
    return replace(document, data=data, given=frozenset(GIVEN[name] for name in given))


def _member(entry: models.SuiteEntry, model: Any, document: Document, index: int) -> Sweep:
    """A sweep of a suite, as the entry asks for it."""
    sweep = _sweep(model.sweeps[index], document, ("sweeps", index))
    sweep = replace(sweep, name=f"{entry.suite}.{sweep.name}", suite=entry.suite, source=model.source)
    if entry.nodes:
        sweep = replace(sweep, axes={**sweep.axes, "nodes": tuple(dict.fromkeys(entry.nodes))})
    if entry.repetitions:
        sweep = replace(sweep, repetitions=entry.repetitions.rule(sweep.repetitions.confirm))
    if entry.confirm is not None:
        sweep = replace(sweep, repetitions=structs.replace(sweep.repetitions, confirm=entry.confirm))
    return _scaled(sweep, entry.scale) if entry.scale else sweep


def _scaled(sweep: Sweep, scale: Any) -> Sweep:
    """The sweep under upper bounds. It is marked as scaled only if that changes it."""
    tool = tools()[sweep.tool]

    def cap(name: str, value: Value) -> Value:
        bound = getattr(scale, name, None)
        return min(value, bound) if bound is not None and isinstance(value, int) else value

    most = scale.repetitions or MAX_REPETITIONS

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
        repetitions=model.repetitions.rule(model.confirm),
        ramp=model.ramp,
        side_by_side=model.side_by_side,
        description=model.description,
        document=document,
        path=path,
    )


def _has_effect(option: Option, sweep: Sweep) -> bool:
    return any(option.applies(tools()[sweep.tool].phases[name]) for name in sweep.phases)


def _check(sweep: Sweep, targets: Sequence[str]) -> list[Problem]:
    """Errors of a sweep that its types do not show. targets: names in `targets`; none with a single one."""
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
        wrong = f"max {sweep.repetitions.max} is below min {sweep.repetitions.min}"
        problems.append(sweep.problem(wrong, "repetitions"))
    for name, values in sweep.axes.items():
        if name in sweep.options:
            problems.append(sweep.problem(f"`{name}` is set under both axes and options; keep one", "options", name))
        if len(set(values)) < len(values):
            hint = " (sizes are binary: 1k is 1024)" if settable(tool)[name].kind == "size" else ""
            problems.append(sweep.problem(f"has a value twice{hint}", "axes", name))
    for group in ("axes", "options"):
        for name in getattr(sweep, group):
            if name in tool.options and not _has_effect(tool.options[name], sweep):
                problems.append(sweep.problem(f"`{name}` has no effect on {', '.join(sweep.phases)}", group, name))
    group = "axes" if TARGET.name in sweep.axes else "options"
    if unknown := [name for name in _targets_of(sweep) if name not in targets]:
        wrong = suggest_known("target", str(unknown[0]), targets)
        if not targets:
            wrong = "the campaign has one target; for several write `targets: {a: {directory: ...}, b: ...}`"
        problems.append(sweep.problem(wrong, group, TARGET.name))
    for key, axis in (("ramp", sweep.ramp), ("side_by_side", sweep.side_by_side)):
        if axis and axis not in sweep.axes:
            problems.append(sweep.problem(_no_axis(sweep, axis), key))
    if sweep.ramp and sweep.ramp == sweep.side_by_side:
        problems.append(sweep.problem("is the ramp, which measures its values in ascending order", "side_by_side"))
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


def _no_axis(sweep: Sweep, name: str) -> str:
    """The sentence for a parameter that a sweep does not vary."""
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
    option = settable(tool)[name]
    return option.text(value) if option.kind == "size" else shown(value)
