"""Values of others' outputs -> what a column of the result table holds. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from functools import cache

from iosweep.results.columns import result_columns
from iosweep.text import printable

#: Integers of the tables have 64 bits, and the square of a float has to be finite.
MOST = float(1 << 63)


@cache
def _types() -> Mapping[str, str]:
    return {column.name: column.type for column in result_columns()}


def fitted(name: str, value: object) -> object:
    """A value as a column holds it; None where it cannot, and where there is no such column."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match _types().get(name):
        case "string":
            return printable(value.encode("utf-8", "replace").decode()) if isinstance(value, str) else None
        case "int":
            return value if isinstance(value, int) and number and -MOST <= value < MOST else None
        case "float":
            fits = isinstance(value, int | float) and number and math.isfinite(value) and abs(value) <= MOST
            return float(value) if fits and isinstance(value, int | float) else None
        case "bool":
            return value if isinstance(value, bool) else None
        case "time":
            return _moment(value)
    return None


def _moment(value: object) -> datetime | None:
    """A moment with its zone; None without: a clock that nobody knows is not UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, datetime) and value.tzinfo else None
