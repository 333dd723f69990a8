"""A parsed file against its model: what is wrong with it, in our words, with lines and what would be right."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from iosweep.config import models, scalars
from iosweep.config.scalars import unknown
from iosweep.config.yaml_lines import Document, KeyPath
from iosweep.errors import Problem
from iosweep.text import shortened
from iosweep.tools import tools


def validated(document: Document, model: type[BaseModel], at: KeyPath = ()) -> tuple[Any, list[Problem]]:
    """(the model or None, what is wrong) of the file, or of the part of it at a path."""
    data = document.data
    for part in at:
        data = data[part]
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        problems = [_problem(document, model, detail, at) for detail in error.errors(include_url=False)]
        return None, list(dict.fromkeys(problems))


def _problem(document: Document, model: type[BaseModel], detail: Any, at: KeyPath) -> Problem:
    """pydantic's error in our words. Its path holds tags of unions, which are no keys of the file."""
    tags = {*models.entry_models(), "a number", "a mapping"}
    path = (*at, *(part for part in detail["loc"] if part not in tags))
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden" and path[-2:] == ("options", "nodes"):
        return document.problem(path, "belongs under axes: write `axes: {nodes: [...]}`")
    if kind == "extra_forbidden":
        keys = _keys(model).get(tuple(part for part in detail["loc"][:-1] if not isinstance(part, int)), [])
        return document.problem(path, unknown("key", str(path[-1]), keys))
    if kind == "missing":
        return document.problem(path[:-1], f"`{path[-1]}` is missing")
    if kind.startswith("union_tag"):
        entry = value if isinstance(value, dict) else {}
        if "tool" in entry:
            return document.problem((*path, "tool"), unknown("tool", str(entry["tool"]), tools()))
        return document.problem(path, "is neither a sweep (it has no `tool`) nor a suite (it has no `suite`)")
    if kind == "literal_error":
        choices = [c.strip("'") for c in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return document.problem(path, unknown("value", str(value), choices))
    message = {
        "list_type": f"must be a list, for example {_LISTS.get(str(path[-1]), '[1, 2, 4]')}",
        "model_type": "must be a mapping of keys to values",
        "model_attributes_type": "must be a mapping of keys to values",
        "too_short": "is empty; give at least one value",
        "too_long": f"has more than {scalars.MOST_VALUES:,} values; give fewer",
        "bool_type": "must be true or false",
        "string_type": "must be text",
    }.get(kind, detail["msg"].removeprefix("Value error, "))
    quotes_it = isinstance(detail.get("ctx", {}).get("error"), scalars.UnknownName)
    if quotes_it or kind == "too_long":  # the values would fill the screen
        return document.problem(path, message)
    return document.problem(path, f"{shown(value)} {_is(message)}")


#: What a list looks like, where it is not one of numbers.
_LISTS = {"phases": "[seq_write, seq_read]", "exclude": "[{queue_depth: 8}]", "sweeps": "[{suite: four-corners}]"}


def _is(message: str) -> str:
    return message if message.startswith(("is ", "must ", "starts ")) else f"is {message}"


def shown(value: object) -> str:
    """A value as a configuration has it, shortened."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return shortened(text)


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
                visit((*path, name, "a mapping"), nested)

    visit((), model)
    return found


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for part in getattr(annotation, "__args__", ()) for m in _models_in(part)]
