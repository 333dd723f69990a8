"""Types of single values of a configuration: what each accepts, and the error that says what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    WithJsonSchema,
)

from iosweep import text, units
from iosweep.node import cpus, environment
from iosweep.target import layout

#: The phase time of phases that a volume bounds.
UNTIMED = "one_pass"


#: The layout of a target whose layout is not set.
INHERIT = "inherit"


#: Values of an axis, entries of `sweeps` and of `exclude`; their product is bounded in sweep_file.py.
MOST_VALUES = 1000

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


FSTYPE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _schema(*patterns: tuple[str, str]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind} | ({"pattern": p} if p else {}) for kind, p in patterns]})


def count(minimum: int, maximum: int | None) -> Any:
    """The type of whole numbers in a range."""

    def validate(value: object) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(value, int) and whole and value >= minimum and (maximum is None or value <= maximum):
            return value
        raise ValueError(
            f"not a whole number from {minimum}" + (f" to {maximum}" if maximum is not None else " upwards")
        )

    schema = {"type": "integer", "minimum": minimum} | ({"maximum": maximum} if maximum is not None else {})
    return Annotated[int, BeforeValidator(validate), WithJsonSchema(schema)]


def size(minimum: int) -> Any:
    """The type of sizes in bytes from `minimum`."""

    def validate(value: object) -> int:
        size = units.parse_size(value)
        if size < minimum:
            raise ValueError(f"smaller than {units.size_name(minimum)}")
        return size

    return Annotated[int, BeforeValidator(validate), _schema(("integer", ""), ("string", units.SIZE_PATTERN))]


def _name(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(NAME_PATTERN, value):
        return value
    raise ValueError(
        "not a name; write up to 64 letters, digits, dots, dashes and underscores (a letter or digit first)"
    )


def _path(value: object) -> str:
    if isinstance(value, str) and value and "\n" not in value and "\t" not in value:
        if value.startswith("~"):
            raise ValueError("starts with `~`, which is not expanded; write the path out")
        return value
    raise ValueError("not a path; write the directory as text, in quotes if it has special characters")


def _fstype(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(FSTYPE_PATTERN, value):
        return value
    raise ValueError("not a type of a file system; write it as /proc/self/mountinfo does, for example lustre or wekafs")


def _layout(value: object) -> list[str] | None:
    if value == INHERIT:
        return None
    if isinstance(value, list) and value and all(isinstance(v, str) and v for v in value):
        arguments = [str(v) for v in value]
        if wrong := layout.refused(arguments):
            raise ValueError(f"not a layout: {wrong}")
        return arguments
    raise ValueError(
        f"not a layout; write {INHERIT}, or the arguments of `lfs setstripe` (Lustre) or `beegfs-ctl --setpattern`"
        ' (BeeGFS) as a list of texts, for example ["-c", "4", "-S", "1m"]'
    )


def _variable(value: object) -> str:
    if wrong := environment.refused(value):
        raise ValueError(wrong)
    return str(value)


def _phase_time(value: object) -> float | None:
    if value == UNTIMED:
        return None
    try:
        return _time_of_a_phase(value)
    except units.NotADuration as error:
        raise ValueError(f"{error}; or {UNTIMED}, which needs none") from None


def _time_of_a_phase(value: object) -> float:
    seconds = units.parse_duration(value)
    if seconds < 0.01:
        raise ValueError("shorter than 10ms")
    return seconds


def _cpus(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    try:
        found = cpus.parse(text) if isinstance(text, str) else None
    except ValueError as error:
        raise ValueError(f"not a list of CPUs: {error}") from None
    if found is None:
        raise ValueError('not a list of CPUs; write it as text, such as "24-27" or "0,8-11"')
    return cpus.listed(found)


def _deadline(value: object) -> float:
    seconds = units.parse_duration(value)
    if seconds < 0.1:
        raise ValueError("shorter than 100ms")
    return seconds


if TYPE_CHECKING:  # made at run time, so a type checker sees what comes out
    Size: TypeAlias = int
    Count: TypeAlias = int
else:
    Size = size(1)
    Count = count(1, units.MOST_COUNT)
Name = Annotated[str, BeforeValidator(_name), _schema(("string", NAME_PATTERN))]


Variable = Annotated[str, BeforeValidator(_variable), _schema(("string", environment.NAME_PATTERN))]


Duration = Annotated[
    float, BeforeValidator(units.parse_duration), _schema(("string", units.DURATION_PATTERN))
]  # seconds


TimeOfAPhase = Annotated[
    float, BeforeValidator(_time_of_a_phase), _schema(("string", units.DURATION_PATTERN))
]  # seconds


PhaseTime = Annotated[
    float | None, BeforeValidator(_phase_time), _schema(("string", f"{units.DURATION_PATTERN}|^{UNTIMED}$"))
]  # seconds; None: one pass over the files


Deadline = Annotated[float, BeforeValidator(_deadline), _schema(("string", units.DURATION_PATTERN))]  # seconds


Share = Annotated[float, BeforeValidator(units.parse_share), _schema(("string", units.SHARE_PATTERN))]  # fraction
FileSystemType = Annotated[str, BeforeValidator(_fstype), _schema(("string", FSTYPE_PATTERN))]
PathText = Annotated[str, BeforeValidator(_path)]
CpuList = Annotated[str, BeforeValidator(_cpus), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]})]
SizeOrZero = Annotated[int, BeforeValidator(units.parse_size), _schema(("integer", ""), ("string", units.SIZE_PATTERN))]
Layout = Annotated[
    list[str] | None,
    BeforeValidator(_layout),
    WithJsonSchema({"anyOf": [{"const": INHERIT}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class UnknownName(ValueError):
    """A value that must be one of several names. The message quotes it."""


def unknown(what: str, name: str, known: Iterable[object]) -> str:
    """`unknown key `thread`; did you mean `threads`? (known: ...)`"""
    names = [str(k) for k in known]
    hint = text.did_you_mean(name, names)
    return f"unknown {what} `{text.shortened(name)}`{hint}" + (f" (known: {', '.join(names)})" if names else "")


class Strict(BaseModel):
    """Unknown keys are errors; values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
