"""Formats figures and the names of tools, phases and parameters for the page, its figures and the terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from iosweep.analysis.summary import Metric, PointSummary
from iosweep.hostlist import hosts as hosts
from iosweep.hostlist import natural as natural
from iosweep.plan import headline_groups
from iosweep.plan.headline_groups import Conditions as Conditions
from iosweep.tables.reader import Campaign, Value
from iosweep.text import human_count
from iosweep.tools import parameters, phases, tools

# figures

#: Prefix that the reason of the check `precise` has, too (judge/agreement.py).
NOT_REPEATABLE = "not repeatable: "


@dataclass(frozen=True)
class Unit:
    """A display unit. size: in the column's SI base unit; least: the smallest figure shown in it, in this unit."""

    name: str
    size: float
    least: float = 1.0


_BINARY = {"B": 2**0, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SIZE = tuple(Unit(name, size) for name, size in _BINARY.items())
THROUGHPUT = tuple(Unit(f"{name}/s", size) for name, size in _BINARY.items())
IOPS = (Unit("IOPS", 1), Unit("k IOPS", 1e3, 10), Unit("M IOPS", 1e6))
OPS = (Unit("ops/s", 1), Unit("k ops/s", 1e3, 10), Unit("M ops/s", 1e6))
LATENCY = (Unit("ns", 1e-9), Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s", 1))


def pick(units: Sequence[Unit], largest: float) -> Unit:
    """Choose the unit in which a figure (SI base unit) reads best."""
    fitting = [unit for unit in units if abs(largest) >= unit.size * unit.least]
    return fitting[-1] if fitting else units[0]


def units_of(column: str, kind: str) -> tuple[Unit, ...]:
    """The display units of a figure column of a data or metadata phase."""
    if "bandwidth" in column:
        return THROUGHPUT
    if "latency" in column:
        return LATENCY
    return OPS if kind == "metadata" else IOPS


def number(value: float) -> str:
    """At least three significant digits, with thousands separators: 12,345 or 1.23 or 0.00123."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.9995 else f"{value:.3g}"


def quantity(value: float, units: Sequence[Unit]) -> str:
    """A figure in SI base units with a suitable unit: `1.25 GiB/s`."""
    unit = pick(units, value)
    return f"{number(value / unit.size)} {unit.name}"


def size(value: float) -> str:
    """Bytes in the largest unit that is exact with six digits: `64 KiB`, `1.5 GiB`, `3,901 B`."""
    for unit in SIZE[:0:-1]:
        text = f"{value / unit.size:.6g}"
        if value >= unit.size and float(text) * unit.size == value:
            return f"{text} {unit.name}"
    return f"{value:,.0f} B"


def spread(metric: Metric, units: Sequence[Unit], brief: bool = False) -> str:
    """`± 2.1 % (n = 3)`, the 95 % interval; without one to show, the range of the repetitions: `1.21 to 1.25 GiB/s (n =
    3)`; brief: `± 2.1 %`."""
    if metric.n == 1:
        return (
            f"{metric.iterations} iterations: {span(metric.low, metric.high, units)}"
            if metric.iterations > 1
            else "one repetition"
        )
    if metric.ci95_share is not None:
        return f"± {100 * metric.ci95_share:.1f} %{'' if brief else f' (n = {metric.n})'}"
    return f"{span(metric.low, metric.high, units)}{f', n = {metric.n}' if brief else f' (n = {metric.n})'}"


def span(low: float, high: float, units: Sequence[Unit]) -> str:
    """`1.21 to 1.25 GiB/s`"""
    unit = pick(units, high)
    return f"{number(low / unit.size)} to {number(high / unit.size)} {unit.name}"


def percent(share: float, ends: tuple[float, float] | None = None, of: str = "") -> str:
    """`92 %`, `92 % (89 to 95 %)`, `92 % of that (89 to 95 %)`; without the interval if all three numbers are equal."""
    text = f"{_format_percent(share)} %{of}"
    low, high = map(_format_percent, ends or (share, share))
    if low == high:
        return text if low == _format_percent(share) else f"{text} ({low} %)"
    return f"{text} ({low} to {high} %)"


def _format_percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.2g}"


def times(ratio: float) -> str:
    """`3.8`, `25`"""
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


# lists and times


def listing(texts: Sequence[str]) -> str:
    """`fio, IOR and mdtest`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def period(moments: Iterable[datetime]) -> str:
    """`2025-06-02 09:41 to 10:12 UTC`."""
    ordered = sorted(moments)
    if not ordered:
        return ""
    first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (ordered[0], ordered[-1]))
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last.removeprefix(first[:11])} UTC"


def origin(campaign: Campaign) -> str:
    """`Campaign demo on /mnt/scratch (ext4), measured 2025-06-02 to 2025-06-03 (UTC).`"""
    measured = [row for row in campaign.rows if row.started]
    types = ", ".join(sorted({row.target_fstype for row in measured if row.target_fstype}))
    days = sorted({f"{row.started:%Y-%m-%d}" for row in measured})
    when = f", measured {' to '.join(dict.fromkeys((days[0], days[-1])))} (UTC)" if days else ""
    about = campaign.about
    return f"Campaign {about.campaign} on {about.on}{f' ({types})' if types else ''}{when}."


# parameters


def parameter(column: str, value: Value | None) -> str:
    """Value of a parameter without its name, for a legend or a table cell."""
    option = parameters()[column]
    if value is None:
        return "–"
    if option.labels and not isinstance(value, float) and value in option.labels:
        return option.labels[value]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if option.kind == "size":
        return size(value)
    return f"{value:g} {option.unit}" if option.unit else str(value)


def named(column: str, value: Value | None) -> str:
    """Value of a parameter with its name: `8 threads per node`, `64 KiB`, `queue depth 16`."""
    if column == "other_options":
        return str(value or "")
    option, text = parameters()[column], parameter(column, value)
    if value is None:
        return f"{option.shown} not known"
    if option.singular:
        return f"{text} {option.singular if value == 1 else option.shown}"
    if option.labels is not None:
        return text
    return option.zero if option.zero and value == 0 else f"{option.shown} {text}"


def brief(result: PointSummary, one: bool = False) -> str:
    """The point of a figure: `2 nodes × 8 threads, 1 MiB, QD 4`, or `4 ranks, 1 MiB, shared file, MPI-IO`. It names
    every parameter that may distinguish the best of several points. one: name the number of nodes even if it is 1."""
    options = tools()[result.tool].options if result.tool in tools() else {}
    parts = []
    if (threads := result.count("threads_per_node")) is not None:
        parts.append(human_count(threads, "rank" if is_mpi(result.tool) else "thread"))
    if (one or result.nodes > 1) and result.parameters["nodes"] is not None:
        parts = [" × ".join([named("nodes", result.nodes), *parts])]
    for column, known in parameters().items():
        value, option = result.own_parameters[column], options.get(known.name, known)
        if column in ("nodes", "threads_per_node") or value is None or not applies(column, result.own_parameters):
            continue
        if option.brief:
            parts.append(option.zero if option.zero and value == 0 else option.brief.format(parameter(column, value)))
        elif option.brief is None and option.captions:
            parts.append(named(column, value))
    return ", ".join(filter(None, parts))


def applies(column: str, values: Mapping[str, Value | None]) -> bool:
    """Whether a parameter has an effect: for example, collective calls exist only with MPI-IO."""
    needed = parameters()[column].only_with
    return needed is None or values[needed[0]] == needed[1]


def axes_text(axes: Mapping[str, Sequence[Value]]) -> str:
    """The axes of a sweep with their values: `threads per node 1, 2; transfer size 4 KiB, 1 MiB`."""
    options, parts = {option.name: column for column, option in parameters().items()}, []
    for axis, values in axes.items():
        column = options[axis]
        title = "" if parameters()[column].labels else parameters()[column].shown
        parts.append(f"{title} {', '.join(parameter(column, value) for value in values)}".lstrip())
    return "; ".join(parts)


# phases and tools


def phase(name: str) -> str:
    """Title of a phase."""
    known = phases().get(name)
    return known.title or name if known else name


def phase_list(names: Iterable[str]) -> str:
    """Titles of phases for the beginning of a sentence."""
    return ", ".join(map(phase, names)).capitalize()


def tool(name: str) -> str:
    """Title of a tool."""
    return tools()[name].title or name if name in tools() else name


def is_mpi(name: str) -> bool:
    """Whether the threads of a tool are MPI ranks."""
    return name in tools() and tools()[name].mpi


def version(name: str, printed: str) -> str:
    """The version alone; some tools print their name before it (`fio-3.33`)."""
    return printed.removeprefix(f"{name}-")


# conditions


def conditions(results: Sequence[PointSummary]) -> dict[str, Conditions]:
    """Point -> its conditions. They belong to the point: a phase that does not write has no write mode."""
    return {r.point: headline_groups.conditions(r.tool, r.parameters) for r in results}


def home_conditions(condition: Conditions, known: Iterable[Conditions]) -> Conditions:
    """Conditions under which a figure is shown: those of the writes for reads, if all writes have the same ones."""
    wider = [
        other
        for other in known
        if other != condition and all(a in (None, b) for a, b in zip(condition, other, strict=True))
    ]
    return wider[0] if len(wider) == 1 else condition


def describe(condition: Conditions, kind: str, drawn: Iterable[str] = ()) -> str:
    """Conditions as text: `fio, O_DIRECT, overwrite, random data`.

    drawn: phases that the text describes. For reads alone, it omits conditions of writes; for reads and writes it is
    `fio, O_DIRECT; writes: overwrite, random data`.
    """
    applying = {headline_groups.of_phase(condition, phase) for phase in drawn} or {condition}
    common, *wider = sorted((_list_words(variant) for variant in applying), key=len)
    if kind == "metadata" and condition.tool in tools() and tools()[condition.tool].own_metadata:
        return tools()[condition.tool].own_metadata
    extra = [word for words in wider for word in words if word not in common]
    return ", ".join(common) + (f"; writes: {', '.join(extra)}" if extra else "")


def _list_words(condition: Conditions) -> list[str]:
    name = tool(condition.tool)
    phrases: dict[object, str] = {"new": "new files", "random": "random data", "tool_default": f"{name}'s default data"}
    direct = {True: "O_DIRECT", False: "through the page cache", headline_groups.NOT_TOLD: "O_DIRECT not told"}
    flushed = {False: "not flushed", headline_groups.NOT_TOLD: "flush not told"}
    words = [
        direct.get(condition.o_direct),
        *(phrases.get(value, value) for value in (condition.write_mode, condition.data)),
        flushed.get(condition.fsync),
        condition.other_options or None,
    ]
    return [name, *(str(word) for word in words if word is not None)]
