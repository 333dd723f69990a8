"""What is wrong with JSON that does not have fio's form, as sentences for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: What a document without fio's form can raise where it is read.
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)

#: the largest whole number that the tables hold
LARGEST = 2**63 - 1
#: Characters of a value or a key from a file that a sentence repeats.
_SHOWN = 60
#: keys of an entry (and of its directions and blocks) that hold objects, whichever release wrote them
_OBJECTS = {
    "read", "write", "trim", "mixed", "sync", "slat", "clat", "lat", "slat_ns", "clat_ns", "lat_ns", "percentile",
    "bins", "iodepth_level", "steadystate", "job options",
}  # fmt: skip
#: objects whose values are numbers, and the form of their keys; up to 2.16 constants of fio's are among the bins
_COUNTS = {
    "percentile": re.compile(r"\d{1,3}(\.\d{1,30})?"),
    "bins": re.compile(r"\d{1,20}|FIO_\w{1,60}"),
    "iodepth_level": re.compile(r"(>=)?\d{1,9}"),
}
_NUMBERS = frozenset({int, float})


class Wrong(ValueError):
    """Why a row's figures cannot be trusted: a sentence for a person."""


def shown(value: object) -> str:
    """A value of a file as a sentence repeats it: JSON's kinds of values, not Python's."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number of more than 64 bits"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def sentence(error: BaseException) -> str:
    """Why reading stopped, without the words of an exception."""
    if isinstance(error, Wrong):
        return str(error)
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return f"`{error.args[0][:_SHOWN]}` is missing in the JSON"
    return "the JSON does not have the form that fio writes"


def check_form(part: Mapping[str, Any], place: str = "") -> None:
    """Raises Wrong where an object or a table of counts in an entry is something else."""
    for name, value in part.items():
        if name not in _OBJECTS:
            continue
        path = f"{place}.{name}" if place else name
        if not isinstance(value, Mapping):
            raise Wrong(f"`{path}` is {shown(value)}; an object is expected")
        if name in _COUNTS:
            _check_counts(value, path, _COUNTS[name])
        elif name not in ("job options", "steadystate"):
            check_form(value, path)


def _check_counts(table: Mapping[str, Any], path: str, form: re.Pattern[str]) -> None:
    if not all(map(str.isdecimal, table)):
        for key in table:
            if not form.fullmatch(key):
                raise Wrong(f"`{path}` has a key {shown(key)} that fio does not write")
    kinds = set(map(type, table.values()))
    if kinds <= _NUMBERS and (not kinds or (min(table.values()) >= 0 and max(table.values()) <= LARGEST)):
        return
    for key, value in table.items():
        if type(value) not in _NUMBERS or not 0 <= value <= LARGEST:
            raise Wrong(f"`{path}.{key}` is {shown(value)}; a number from 0 is expected")
