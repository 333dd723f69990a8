"""What a stored document has to hold: the keys that are needed, and the types of those that are read.

Results may be received from others, with digests that are right. A check takes a value and says what is wrong with it,
in a few words; None if nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from iosweep.units import MOST_COUNT, MOST_SECONDS

Check = Callable[[Any], str | None]

#: What fits into a column of a table.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

#: Names that become part of a path: of points, allocations, sweeps and campaigns, as plan/expand.py makes them.
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
#: Characters of a path; the kernel takes 4,096, and what is longer is refused when it is used.
_LONGEST = 1 << 16


def text(value: Any) -> str | None:
    return None if type(value) is str else "is not a text"


def flag(value: Any) -> str | None:
    return None if type(value) is bool else "is not true or false"


def integer(value: Any) -> str | None:
    return None if type(value) is int and _LEAST <= value <= _MOST else "is not an integer of 64 bits"


def count(value: Any) -> str | None:
    return None if type(value) is int and 0 <= value <= _MOST else "is not a count"


def number(value: Any) -> str | None:
    """Finite, and so small that its square is finite."""
    fits = _LEAST <= value <= _MOST if type(value) is float else integer(value) is None
    return None if fits else "is not a number of 64 bits"


def amount(value: Any) -> str | None:
    return None if number(value) is None and value >= 0 else "is not a number of 0 or more"


def share(value: Any) -> str | None:
    return None if number(value) is None and 0 <= value <= 1 else "is not a share from 0 to 1"


def seconds(value: Any) -> str | None:
    return None if amount(value) is None and value <= MOST_SECONDS else "is not a time from 0 s to 100 years"


def deadline(value: Any) -> str | None:
    return None if seconds(value) is None and value > 0 else "is not a time above 0 s, of 100 years at most"


def some(value: Any) -> str | None:
    """How many nodes, or repetitions."""
    return None if type(value) is int and 1 <= value <= MOST_COUNT else f"is not a count from 1 to {MOST_COUNT}"


def component(value: Any) -> str | None:
    """A name that becomes part of a path."""
    return None if type(value) is str and _COMPONENT.fullmatch(value) else "is not a name"


def path(value: Any) -> str | None:
    fits = type(value) is str and 0 < len(value) <= _LONGEST and value.isprintable()
    return None if fits else "is not a path"


def scalar(value: Any) -> str | None:
    return "is not a single value" if isinstance(value, dict | list) else None


def anything(value: Any) -> str | None:
    return None


#: Checks that ask for a type alone -> the types that pass. There may be 100,000 results: most values are seen by this.
_TYPES: dict[Check, frozenset[type]] = {text: frozenset([str]), flag: frozenset([bool])}
_NO_TYPES: frozenset[type] = frozenset()


def maybe(check: Check) -> Check:
    """The same, or null."""

    def checked(value: Any) -> str | None:
        return None if value is None else check(value)

    _TYPES[checked] = _TYPES.get(check, _NO_TYPES) | {type(None)}
    return checked


def each(check: Check, least: int = 0) -> Check:
    """A list of such values."""
    types = _TYPES.get(check, _NO_TYPES)

    def checked(value: Any) -> str | None:
        if type(value) is not list or len(value) < least:
            return "is not a list" if type(value) is not list else "is empty"
        if types.issuperset(map(type, value)):
            return None
        for k, one in enumerate(value):
            if wrong := check(one):
                return f"[{k}] {wrong}"
        return None

    return checked


def values(check: Check) -> Check:
    """An object with such values under any keys."""
    types = _TYPES.get(check, _NO_TYPES)

    def checked(value: Any) -> str | None:
        if type(value) is not dict:
            return "is not an object"
        if types.issuperset(map(type, value.values())):
            return None
        return next((f"{key} {wrong}" for key, one in value.items() if (wrong := check(one))), None)

    return checked


def keys(needed: Mapping[str, Check], known: Mapping[str, Check] | None = None) -> Check:
    """An object with the keys that are needed, and with the right types under `known` ones."""
    needs = [(key, _TYPES.get(check, _NO_TYPES), check) for key, check in needed.items()]
    knows = [(key, _TYPES.get(check, _NO_TYPES), check) for key, check in (known or {}).items()]

    def checked(value: Any) -> str | None:
        if type(value) is not dict:
            return "is not an object"
        for key, types, check in needs:
            if key not in value:
                return f"{key} is missing"
            if type(value[key]) not in types and (wrong := check(value[key])):
                return f"{key} {wrong}"
        for key, types, check in knows:
            if key in value and type(value[key]) not in types and (wrong := check(value[key])):
                return f"{key} {wrong}"
        return None

    return checked


_texts = each(text)

_NUMBER = maybe(amount)
#: What the document of a plan has to hold.
PLAN = keys(
    {
        "campaign": component,
        "seed": integer,
        "target": keys(
            {
                "directory": path,
                "deadline": deadline,
                "keep": text,
                "lock": maybe(path),
                "node_bandwidth": _NUMBER,
                "settle": seconds,
            },
            {"layout": maybe(_texts)},
        ),
        "limits": keys({"time": maybe(seconds), "bytes_written": _NUMBER, "retried": share, "grace": seconds}),
        "cpus": values(anything),
        "sweeps": each(keys({"name": component, "tool": text, "points": each(component)})),
        "configuration": each(keys({"file": text, "text": text})),
        "allocations": each(
            keys(
                {
                    "name": component,
                    "nodes": some,
                    "digest": component,
                    "points": each(
                        keys(
                            {
                                "id": component,
                                "tool": text,
                                "phases": each(text, least=1),
                                "nodes": some,
                                "options": values(scalar),
                                "phase_time_s": maybe(seconds),
                                "sweeps": each(component, least=1),
                                "repetitions": keys({"min": some, "max": some, "half_width": maybe(share)}),
                            }
                        )
                    ),
                }
            )
        ),
    }
)
