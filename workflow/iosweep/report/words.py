"""How phases, axes, units and conditions are called: one vocabulary for page, figures and terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iosweep.report.summary import Result


@dataclass(frozen=True)
class Unit:
    """A unit to show a figure in."""

    name: str
    size: float  # in the column's SI base unit
    least: float = 1.0  # smallest figure, in this unit, that is shown in it


THROUGHPUT = (
    Unit("B/s", 1),
    Unit("KiB/s", 2**10),
    Unit("MiB/s", 2**20),
    Unit("GiB/s", 2**30),
    Unit("TiB/s", 2**40),
)
IOPS = (Unit("IOPS", 1), Unit("k IOPS", 1e3, 10), Unit("M IOPS", 1e6))
OPS = (Unit("ops/s", 1), Unit("k ops/s", 1e3, 10), Unit("M ops/s", 1e6))
LATENCY = (Unit("ns", 1e-9), Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s", 1))
SIZE = (Unit("B", 1), Unit("KiB", 2**10), Unit("MiB", 2**20), Unit("GiB", 2**30), Unit("TiB", 2**40))

PHASE_TITLES = {
    "seq_write": "Sequential write",
    "seq_read": "Sequential read",
    "rand_write": "Random write",
    "rand_read": "Random read",
    "rand_mixed": "Random mixed",
    "create": "Create",
    "stat": "Stat",
    "delete": "Delete",
}

#: Axis of the configuration -> column of the result table, where the names differ.
AXIS_COLUMNS = {
    "transfer_size": "transfer_size_bytes",
    "file_size": "file_size_bytes",
    "phase_time": "phase_time_s",
}

PARAMETER_TITLES = {
    "nodes": "nodes",
    "threads_per_node": "threads per node",
    "transfer_size_bytes": "transfer size",
    "queue_depth": "queue depth",
    "file_size_bytes": "file size",
    "files_per_thread": "files per thread",
    "read_percent": "reads",
    "o_direct": "O_DIRECT",
    "fsync": "fsync",
    "write_mode": "write mode",
    "data": "data",
    "ioengine": "I/O engine",
    "phase_time_s": "phase time",
}

_COUNTS = {
    "nodes": "node",
    "threads_per_node": "thread per node",
    "files_per_thread": "file per thread",
}

VERDICT_MEANINGS = {
    "valid": "Every check that could be made passed.",
    "suspect": "A check that casts doubt failed. The figure is used and marked: hollow in the figures.",
    "invalid": "A check failed that makes the figure wrong. It is kept in the table of repetitions, and used nowhere.",
    "missing": "Not measured, with the reason.",
}

VERDICT_SYMBOLS = {"valid": "●", "suspect": "○", "invalid": "✕", "missing": "–"}


def pick(units: Sequence[Unit], largest: float) -> Unit:
    """The unit in which a figure of this size (SI base unit) reads best."""
    fitting = [unit for unit in units if abs(largest) >= unit.size * unit.least]
    return fitting[-1] if fitting else units[0]


def units_of(column: str, kind: str) -> tuple[Unit, ...]:
    """The units that a figure column of a data or metadata phase is shown in."""
    if "bandwidth" in column:
        return THROUGHPUT
    if "latency" in column:
        return LATENCY
    return OPS if kind == "metadata" else IOPS


def number(value: float) -> str:
    """At least three significant digits, thousands set apart: 12,345 or 1.23 or 0.00123."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.9995 else f"{value:.3g}"


def quantity(value: float, units: Sequence[Unit]) -> str:
    """A figure in SI base units with the unit that suits it: `1.25 GiB/s`."""
    unit = pick(units, value)
    return f"{number(value / unit.size)} {unit.name}"


def size(value: float) -> str:
    """Bytes as sizes are written in a configuration: `64 KiB`, never rounded when it is a whole number."""
    unit = pick(SIZE, value)
    return f"{value / unit.size:.6g} {unit.name}"


def parameter(column: str, value: Any) -> str:
    """A parameter's value alone, for a legend or a cell."""
    if value is None:
        return "–"
    if column.endswith("_bytes"):
        return size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column == "read_percent":
        return f"{value} %"
    if column == "phase_time_s":
        return f"{value:g} s"
    return str(value)


def named(column: str, value: Any) -> str:
    """A parameter's value that says what it is: `8 threads per node`, `64 KiB`, `queue depth 16`."""
    text = parameter(column, value)
    if column in _COUNTS:
        return f"{text} {_COUNTS[column] if value == 1 else PARAMETER_TITLES[column]}"
    if column in ("transfer_size_bytes", "ioengine"):
        return text
    return f"{PARAMETER_TITLES.get(column, column)} {text}"


def brief(parameters: Mapping[str, Any]) -> str:
    """Where a figure was measured, as storage engineers say it: `2 nodes, 8 threads, 1 MiB, QD 4`."""
    parts = []
    if (parameters["nodes"] or 1) > 1:
        parts.append(f"{parameters['nodes']} nodes")
    if parameters["threads_per_node"] is not None:
        parts.append(plural(parameters["threads_per_node"], "thread"))
    if parameters["transfer_size_bytes"] is not None:
        parts.append(size(parameters["transfer_size_bytes"]))
    if parameters["queue_depth"] is not None:
        parts.append(f"QD {parameters['queue_depth']}")
    return ", ".join(parts)


def phase(name: str) -> str:
    """Title of a phase."""
    return PHASE_TITLES.get(name, name)


#: What no figure and no headline mixes (tool, write_mode, data, o_direct).
Conditions = tuple[str, str | None, str | None, bool | None]


def conditions(results: Sequence[Result]) -> dict[str, Conditions]:
    """Point -> its conditions. They belong to the point: a phase that does not write has no write mode of its own."""
    found: dict[str, Conditions] = {}
    for result in results:
        own = result.parameters
        tool, mode, data, direct = found.get(result.point, (result.tool, None, None, None))
        found[result.point] = (
            tool,
            own["write_mode"] if mode is None else mode,
            own["data"] if data is None else data,
            own["o_direct"] if direct is None else direct,
        )
    return found


def describe(condition: Conditions) -> str:
    """Conditions as text: `fio, O_DIRECT, overwrite, random data`."""
    tool, mode, data, direct = condition
    parts = [
        tool,
        {True: "O_DIRECT", False: "through the page cache", None: ""}[direct],
        {"new": "new files", "overwrite": "overwrite"}.get(mode or "", mode or ""),
        {"random": "random data", "tool_default": f"{tool}'s own data"}.get(data or "", data or ""),
    ]
    return ", ".join(part for part in parts if part)


def plural(count: int, noun: str) -> str:
    """`1 point`, `2 points`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def reasons(results: Sequence[Result], most: int = 3) -> str:
    """The commonest reasons of some results, with counts: `2 × fio is not installed; 1 × too short`."""
    counts: dict[str, int] = {}
    for result in results:
        for reason in result.reasons or ("no reason given",):
            counts[reason] = counts.get(reason, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    parts = [f"{count} × {reason}" for reason, count in ordered[:most]]
    if len(ordered) > most:
        parts.append(f"and {plural(len(ordered) - most, 'other reason')}")
    return "; ".join(parts)


def axes_text(axes: Mapping[str, Sequence[Any]]) -> str:
    """The axes of a sweep with their values: `threads per node 1, 2; transfer size 4 KiB, 1 MiB`."""
    parts = []
    for axis, values in axes.items():
        column = AXIS_COLUMNS.get(axis, axis)
        title = PARAMETER_TITLES.get(column, axis.replace("_", " "))
        parts.append(f"{title} {', '.join(parameter(column, value) for value in values)}")
    return "; ".join(parts)
