"""Files of published figures (config/references/, and a site's own) -> references, with every error and its line."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, create_model

from iosweep.config import models, published
from iosweep.config.criteria import Criterion, Quantity
from iosweep.config.published import FIGURES, UNITS, URL_PATTERN, Condition, PublishedFigure, Reference
from iosweep.config.scalars import MOST_VALUES, NAME_PATTERN, Name, Strict, TimeOfAPhase, UnknownName, unknown
from iosweep.config.validation import shown, validated
from iosweep.config.yaml_lines import Document, KeyPath, load
from iosweep.errors import ConfigError, Problem
from iosweep.text import human_count, some
from iosweep.tools import Tool, tools
from iosweep.tools.axes import NODES

#: References that come with the project.
REFERENCES = Path(__file__).resolve().parents[3] / "config" / "references"
_NOT_A_NAME = "names no reference; a name has up to 64 letters, digits, dots, dashes and underscores"
#: Figures of a reference.
MOST_FIGURES = 10_000


def _url(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(URL_PATTERN, value):
        return value
    raise ValueError("not an address; write it as https://..., without blanks and quotes")


def _tool(value: object) -> str:
    if isinstance(value, str) and value in tools():  # a list has no hash
        return value
    raise UnknownName(unknown("tool", str(value), tools()))


_ToolName = Annotated[str, BeforeValidator(_tool), WithJsonSchema({"enum": list(tools())})]
_ConditionSchema = WithJsonSchema(
    {"type": "object", "additionalProperties": {"type": ["boolean", "integer", "string"]}}
)
_Conditions = Annotated[dict[str, object], _ConditionSchema]
_WHERE = "Axes and options that a result must have to compare with these figures."
_SETUP = "Axes and options that a result may differ in; the report then says so."
_Text = {"type": "string"}


class Entry(Strict):
    """Figures of one phase that were measured in one way."""

    phase: str = Field(description="The phase, as in a sweep: seq_read, rand_write, create ...")
    tool: _ToolName | None = Field(None, description="The tool that measured. Default: the file's.")
    where: _Conditions = Field({}, description=f"{_WHERE} They are added to the file's.")
    setup: _Conditions = Field({}, description=f"{_SETUP} They are added to the file's.")
    relative_to: _Conditions = Field(
        {},
        description="The figures are ratios (`163 %`, `1.63 x`, `+63 %`) to what is measured with these axes or options"
        " in place of those of `where`.",
    )
    figures: Annotated[
        dict[str, object],
        WithJsonSchema(
            {
                "type": "object",
                "propertyNames": {"enum": list(FIGURES)},
                "additionalProperties": {"anyOf": [_Text, {"type": "object", "additionalProperties": _Text}]},
            }
        ),
    ] = Field(
        description="Figure -> its value with its unit, as the source has it (`8.9 GiB/s`); where there are several"
        " `systems`, the value of each.",
        min_length=1,
    )
    note: str | None = Field(None, description="What must be known of these figures.")


class ReferenceFile(Strict):
    """Published figures with their source."""

    title: str = Field(description="Title of the page, article or report.")
    publisher: str = Field(description="Who published it.")
    url: Annotated[str, BeforeValidator(_url), WithJsonSchema(_Text)] | None = Field(None, description="Its address.")
    version: str | None = Field(None, description="Its version, as it is given there.")
    date: str | None = Field(None, description="Its date, as it is given there.")
    description: str | None = Field(None, description="What was measured, in a sentence.")
    systems: dict[Name, str] = Field(
        {}, description="Where figures of several systems are given: a name for each, and what it is."
    )
    tool: _ToolName | None = Field(None, description="The tool that measured, where an entry does not say.")
    where: _Conditions = Field({}, description=f"{_WHERE} Of all entries with the file's tool.")
    setup: _Conditions = Field({}, description=f"{_SETUP} Of all entries with the file's tool.")
    entries: Annotated[list[Entry], Field(min_length=1, max_length=MOST_VALUES)] = Field(description="The figures.")


@cache
def known() -> tuple[str, ...]:
    """Names of the references that come with the project."""
    return tuple(sorted(file.stem for file in REFERENCES.glob("*.yaml")))


@cache
def shipped(name: str) -> Reference:
    """One of `known`."""
    return read(REFERENCES / f"{name}.yaml")


def read(file: Path) -> Reference:
    """The reference of a file. Raises ConfigError with every problem found."""
    document = load(file)
    model, problems = validated(document, ReferenceFile)
    if not re.fullmatch(NAME_PATTERN, file.stem):
        problems.append(document.problem((), _NOT_A_NAME))
    figures: list[PublishedFigure] = []
    if model:
        for index, entry in enumerate(model.entries):
            figures += _figures(document, model, entry, index, problems)
        problems += _twice(document, model, figures)
    if len(figures) > MOST_FIGURES:
        problems.append(document.problem(("entries",), f"has more than {MOST_FIGURES:,} figures; give fewer"))
    if problems or not model:
        raise ConfigError(list(dict.fromkeys(problems)))
    given = ("title", "publisher", "url", "version", "date", "description", "systems")
    return Reference(name=file.stem, **{name: getattr(model, name) for name in given}, figures=tuple(figures))


def named(texts: Sequence[str]) -> tuple[tuple[Reference, ...], list[tuple[int, Problem]]]:
    """The references of names and paths, and what is wrong with them: (index of the text, problem).

    A text with a slash or that ends with `.yaml` is a path; a relative one counts from the working directory. Problems
    in a file name that file; those without one belong to the place where the texts are.
    """
    found: dict[str, Reference] = {}
    problems: list[tuple[int, Problem]] = []
    for index, text in enumerate(texts):
        is_path = "/" in text or text.endswith((".yaml", ".yml"))
        if not is_path and text not in known():
            hint = unknown("reference", text, known())
            problems.append((index, Problem("", 0, "", f"{hint}; a file of your own ends with .yaml")))
            continue
        if is_path and (wrong := _unreadable(text)):
            problems.append((index, Problem("", 0, "", f"{shown(text)} cannot be read: {wrong}")))
            continue
        try:
            reference = read(Path(text)) if is_path else shipped(text)
        except ConfigError as error:
            problems += [(index, problem) for problem in error.problems]
            continue
        if reference.name in found or (is_path and reference.name in known()):
            other = "also listed" if reference.name in found else "the name of one that comes with iosweep"
            problems.append((index, Problem("", 0, "", f"`{reference.name}` is {other}; a name stands for one source")))
        found[reference.name] = reference
    return tuple(found.values()), problems


def of_configuration(
    document: Document, texts: Sequence[str], accept: Sequence[Criterion]
) -> tuple[tuple[Reference, ...], list[Problem]]:
    """The references of names and paths, and those that criteria name; and what is wrong: in a file of its own, in the
    configuration's `references`, or in a criterion."""
    found, wrong = named(list(dict.fromkeys(texts)))
    problems = [p if p.file else document.problem(("references", index), p.message) for index, p in wrong]
    every, unknown_names = of_criteria(document, accept, found)
    # a name may be that of a file that could not be read
    return every, problems or unknown_names


def of_criteria(
    document: Document, accept: Sequence[Criterion], references: Iterable[Reference]
) -> tuple[tuple[Reference, ...], list[Problem]]:
    """These references and those that criteria name; and criteria that name none, or have no figure in it."""
    every = {reference.name: reference for reference in references}
    problems: list[Problem] = []
    for criterion in accept:
        if (name := criterion.threshold.of) is None:
            continue
        at: KeyPath = ("accept", criterion.name)
        if (meant := by_name(name, every.values())) is None:
            problems.append(document.problem(at, unknown("reference", name, sorted({*every, *known()}))))
        elif not published.figures_of(*meant, criterion.selector):
            problems.append(document.problem(at, lacking(*meant, criterion)))
        else:
            every.setdefault(meant[0].name, meant[0])
    return tuple(every.values()), problems


def by_name(name: str, references: Iterable[Reference]) -> tuple[Reference, str | None] | None:
    """The reference of a name and its system (published.find): one of these, or one that comes with the project."""
    if found := published.find(name, references):
        return found
    return published.find(name, (shipped(own) for own in (name, name.rpartition(".")[0]) if own in known()))


def lacking(reference: Reference, system: str | None, criterion: Criterion) -> str:
    """That a reference has no figure for a criterion, with those that it has."""
    has = dict.fromkeys(f"{figure.phase} {figure.figure}" for figure in reference.figures if not figure.relative_to)
    name = f"{reference.name}.{system}" if system else reference.name
    return f"`{name}` has no {criterion.selector.text} (it has {some(list(has), 12)})"


def parse_value(value: object, quantity: Quantity) -> float:
    """`8.9 GiB/s`, `393,333 IOPS`, `272 us` in SI base units; a ratio of `163 %`, `1.63 x` or `+63 %` as a number.

    Raises ValueError with what would be right.
    """
    found = _VALUE.fullmatch(value) if isinstance(value, str) else None
    units = UNITS[quantity]
    if not found or found["unit"] not in units or (found["sign"] and quantity != "ratio"):
        names = ", ".join(unit for unit in units if unit.isascii())
        comma = isinstance(value, str) and re.match(r"[0-9]+,[0-9]", value) is not None
        mark = " (the decimal mark is a point; a comma sets three digits apart)" if comma else ""
        raise ValueError(f"not a number with its unit{mark}; write one of {names}, for example {_EXAMPLES[quantity]}")
    size = float(found["number"].replace(",", "")) * units[found["unit"]]
    size = 1 + (size if found["sign"] == "+" else -size) if found["sign"] else size
    if size <= 0:
        raise ValueError("not above zero")
    return size


_VALUE = re.compile(
    r"(?P<sign>[+-]?)(?P<number>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,18})(?:\.[0-9]{1,18})?) ?(?P<unit>\D{1,12})"
)
_EXAMPLES: Mapping[Quantity, str] = {
    "bandwidth": "8.9 GiB/s",
    "iops": "393,333 IOPS",
    "rate": "79,599 ops/s",
    "latency": "272 us",
    "ratio": "163 %",
}


def _unreadable(path: str) -> str | None:
    """Why there is no file at a path, or None."""
    try:
        return None if stat.S_ISREG(os.stat(path).st_mode) else "it is not a file"  # noqa: PTH116  a name of any bytes
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or "it is not a path"


@cache
def where_model(tool: Tool) -> type[Strict]:
    """The model of `where`, `setup` and `relative_to` of figures of a tool."""
    fields = {
        option.name: (models.value_type(option) | None, Field(None, description=option.help))
        for option in (NODES, *tool.options.values())
    }
    fields["phase_time"] = (TimeOfAPhase | None, Field(None, description="How long each phase ran."))
    return create_model(f"{tool.name.capitalize()}Where", __base__=Strict, **fields)  # type: ignore[call-overload, no-any-return]


def _figures(
    document: Document, model: ReferenceFile, entry: Entry, index: int, problems: list[Problem]
) -> Iterable[PublishedFigure]:
    """The figures of an entry; what is wrong is added to the problems."""
    at: KeyPath = ("entries", index)
    name = entry.tool or model.tool
    if name is None:
        problems.append(document.problem(at, "`tool` is missing, here and at the top of the file"))
        return
    tool = tools()[name]
    if entry.phase not in tool.phases:
        problems.append(document.problem((*at, "phase"), unknown("phase", entry.phase, tool.phases)))
        return
    before = len(problems)
    where, setup = (
        (_given(document, tool, (key,), problems) if tool.name == model.tool else {})
        | _given(document, tool, (*at, key), problems)
        for key in ("where", "setup")
    )
    relative_to = _given(document, tool, (*at, "relative_to"), problems)
    if relative_to and all(where.get(key) == value for key, value in relative_to.items()):
        wrong = "is what `where` says; a figure is not relative to itself"
        problems.append(document.problem((*at, "relative_to"), wrong))
    if len(problems) > before:
        return
    for path, figure, system, text in _values(document, model, entry, (*at, "figures"), problems):
        try:
            value = parse_value(text, "ratio" if relative_to else FIGURES[figure].quantity)
        except ValueError as error:
            problems.append(document.problem(path, f"{shown(text)} is {error}"))
            continue
        yield PublishedFigure(
            tool=name, phase=entry.phase, figure=figure, value=value, printed=str(text),
            where=where, setup={k: v for k, v in setup.items() if k not in where}, relative_to=relative_to,
            system=system, note=entry.note,
        )  # fmt: skip


def _given(document: Document, tool: Tool, path: KeyPath, problems: list[Problem]) -> dict[str, Condition]:
    """The conditions at a path, as values of the tool's options."""
    place: object = document.data
    for part in path[:-1]:
        place = place[part]  # type: ignore[index]
    if not isinstance(place, Mapping) or not place.get(str(path[-1])):
        return {}
    model, wrong = validated(document, where_model(tool), path)
    problems += wrong
    return _set(model) if model else {}


def _set(model: BaseModel) -> dict[str, Condition]:
    return {name: value for name in type(model).model_fields if (value := getattr(model, name)) is not None}


def _values(
    document: Document, model: ReferenceFile, entry: Entry, at: KeyPath, problems: list[Problem]
) -> Iterable[tuple[KeyPath, str, str | None, object]]:
    """(path, figure, system, value as written) of an entry."""
    metadata = tools()[entry.tool or model.tool or ""].phases[entry.phase].kind == "metadata"
    for figure, value in entry.figures.items():
        if figure not in FIGURES:
            problems.append(document.problem((*at, figure), unknown("figure", figure, FIGURES)))
        elif (figure == "rate") != metadata and FIGURES[figure].quantity != "latency":
            right = "rate" if metadata else "bandwidth or iops"
            problems.append(document.problem((*at, figure), f"is not a figure of {entry.phase}; it has {right}"))
        elif isinstance(value, Mapping):
            for system, text in value.items():
                if system in model.systems:
                    yield (*at, figure, system), figure, system, text
                else:
                    wrong = unknown("system", system, model.systems)
                    wrong += "" if model.systems else "; the file has no `systems`"
                    problems.append(document.problem((*at, figure, system), wrong))
        elif model.systems:
            of = human_count(len(model.systems), "system")
            names = ", ".join(model.systems)
            problems.append(document.problem((*at, figure), f"is of none of the file's {of}; write {{{names}: ...}}"))
        else:
            yield (*at, figure), figure, None, value


def _twice(document: Document, model: ReferenceFile, figures: Sequence[PublishedFigure]) -> list[Problem]:
    """That a figure is given twice for one place."""
    seen = set()
    for one in figures:
        key = (one.tool, one.phase, one.figure, one.system, str(sorted(one.where.items())), str(one.relative_to))
        if key in seen:
            return [document.problem(("entries",), f"has {one.phase} {one.figure} twice for the same `where`")]
        seen.add(key)
    return []
