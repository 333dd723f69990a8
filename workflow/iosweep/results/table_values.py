"""What the values of a table have to be beyond their types: names that are known, numbers of a size that can be
added up, lists of CPUs. Merge writes no row that the report could not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from iosweep.files.fields import NAME
from iosweep.node.cpus import parse
from iosweep.results.column import Column
from iosweep.text import printable, shortened
from iosweep.tools import tools

if TYPE_CHECKING:
    import pyarrow as pa

#: Values of a column that are checked one by one: few distinct ones, however many rows there are.
Check = Callable[[str], str | None]
#: Integers have 64 bits, and the square of a float has to be finite.
MOST = float(1 << 63)
_QUANTITY = re.compile(r"[a-z][a-z0-9_]{0,63}")
_VERDICTS = ("valid", "suspect", "invalid", "missing")


def wrong(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> str | None:
    """Why these values are none of ours, with the column; None where nothing is wrong with them."""
    for column, array in zip(columns, arrays, strict=True):
        if why := _wrong(column, array):
            return f"column {column.name}: {why}"
    return None


def bounded(figures: Mapping[str, object]) -> Mapping[str, object]:
    """The same figures. Raises ValueError for one that a table has no place for."""
    for name, value in figures.items():
        if isinstance(value, int | float) and not -MOST <= value < MOST:  # also what is not a number
            raise ValueError(f"{name} is {value:g}")
    return figures


def _wrong(column: Column, array: pa.Array) -> str | None:
    import pyarrow.compute as compute

    if column.type == "list":
        inner = array.flatten()
        return wrong(column.fields, [compute.struct_field(inner, [own.name]) for own in column.fields])
    if column.type == "floats":
        return _wrong(replace(column, type="float"), array.flatten())
    if column.type == "float":
        fits = compute.less_equal(compute.abs(array), MOST)  # false for what is not a number
        return None if compute.all(fits).as_py() in (True, None) else "a number is not finite, or too large"
    if column.type == "string" and (check := _checks().get(column.name)):
        for text in compute.unique(array).to_pylist():
            if text is not None and (why := check(text)):
                return f"`{printable(shortened(text))}` {why}"
    return None


def _one_of(known: Sequence[str], what: str) -> Check:
    return lambda text: None if text in known else f"is not {what}"


def _cpu_list(text: str) -> str | None:
    try:
        parse(text)
    except ValueError:
        return "is not a list of CPUs"
    return None


@cache
def _checks() -> Mapping[str, Check]:
    """Column of texts -> its check. A column of integers may have the same name."""
    phases = {phase for tool in tools().values() for phase in tool.phases}
    metrics = {phase.metric for tool in tools().values() for phase in tool.phases.values()}
    kinds = {phase.kind for tool in tools().values() for phase in tool.phases.values()}
    known: dict[str, Check] = {
        "point": lambda text: None if NAME.fullmatch(text) else "is not a name",
        "tool": _one_of([*tools()], "a tool"),
        "phase": _one_of([*phases], "a phase"),
        "kind": _one_of([*kinds], "a kind of phase"),
        "metric": _one_of([*metrics], "a metric"),
        "verdict": _one_of(_VERDICTS, "a verdict"),
        "precision_grade": _one_of(("A", "B", "C"), "a grade"),
        "quantity": lambda text: None if _QUANTITY.fullmatch(text) else "is not a quantity",
    }
    lists = ("cpus", "cpus_allowed", "cores", "socket_cpus", "reserved_cpus", "used_cpus")
    return known | dict.fromkeys(lists, _cpu_list)
