"""How phases, axes, units and conditions are called: one vocabulary for page, figures and terminal. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iosweep.report.summary import Repetitions, Result, Statistics
from iosweep.results.reasons import REASONS, bare, ranked
from iosweep.text import human_count
from iosweep.tools import parameters, tools


@dataclass(frozen=True)
class Unit:
    """A unit to show a figure in."""

    name: str
    size: float  # in the column's SI base unit
    least: float = 1.0  # smallest figure, in this unit, that is shown in it


_BINARY = {"B": 2**0, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SIZE = tuple(Unit(name, size) for name, size in _BINARY.items())
THROUGHPUT = tuple(Unit(f"{name}/s", size) for name, size in _BINARY.items())
IOPS = (Unit("IOPS", 1), Unit("k IOPS", 1e3, 10), Unit("M IOPS", 1e6))
OPS = (Unit("ops/s", 1), Unit("k ops/s", 1e3, 10), Unit("M ops/s", 1e6))
LATENCY = (Unit("ns", 1e-9), Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s", 1))


PHASE_TITLES = {
    "seq_write": "Sequential write",
    "seq_read": "Sequential read",
    "rand_write": "Random write",
    "rand_read": "Random read",
    "rand_mixed": "Random mixed",
    "dir_create": "Create directories",
    "dir_stat": "Stat directories",
    "dir_rename": "Rename directories",
    "dir_delete": "Delete directories",
    "create": "Create files",
    "stat": "Stat files",
    "read": "Read files",
    "delete": "Delete files",
}

#: How a tool is called, where that is not the name that a configuration gives it.
_TOOL_TITLES = {"ior": "IOR"}

#: Tools whose threads are MPI ranks, and are called so where there is little room for words.
_MPI = ("ior", "mdtest")

VERDICT_MEANINGS = {
    "valid": "Every check that could be made passed.",
    "suspect": "A check that casts doubt failed. The figure is used and marked: hollow in the figures.",
    "invalid": "A check failed that makes the figure wrong. It is kept in the table of repetitions, and used nowhere.",
    "missing": "Not measured, with the reason.",
    "left": "Not measured yet: the next run of snakemake measures it.",
}

VERDICT_SYMBOLS = {"valid": "●", "suspect": "○", "invalid": "✕", "missing": "–", "left": "…"}


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
    option = parameters()[column]
    if value is None:
        return "–"
    if option.labels and value in option.labels:
        return option.labels[value]
    if option.kind == "size":
        return size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g} {option.unit}" if option.unit else str(value)


def named(column: str, value: Any) -> str:
    """A parameter's value that says what it is: `8 threads per node`, `64 KiB`, `queue depth 16`."""
    option, text = parameters()[column], parameter(column, value)
    if option.singular:
        return f"{text} {option.singular if value == 1 else option.shown}"
    if option.labels is not None:
        return text
    return option.zero if option.zero and value == 0 else f"{option.shown} {text}"


def brief(result: Result, nodes: bool = True, one: bool = False) -> str:
    """Where a figure was measured, as storage engineers say it: `2 nodes × 8 threads, 1 MiB, QD 4`.

    It names whatever the best of several may differ in: `4 ranks, 1 MiB, shared file, MPI-IO`. `nodes`: with their
    number; `one`: where that is 1, too.
    """
    own, parts = result.parameters, []
    if own["threads_per_node"] is not None:
        parts.append(human_count(own["threads_per_node"], "rank" if is_mpi(result.tool) else "thread"))
    if nodes and (own["nodes"] or 1) > (0 if one else 1):
        parts = [" × ".join([named("nodes", own["nodes"] or 1), *parts])]
    options = tools()[result.tool].options if result.tool in tools() else {}
    for column, option in parameters().items():
        option = options.get(option.name, option)
        if column in ("nodes", "threads_per_node") or own[column] is None or option.brief == "":
            continue
        if option.brief is None:
            parts += [named(column, own[column])] if applies(column, own) else []
        else:
            zero = option.zero and own[column] == 0
            parts.append(option.zero if zero else option.brief.format(parameter(column, own[column])))
    return ", ".join(parts)


def applies(column: str, values: Mapping[str, Any]) -> bool:
    """Whether a parameter that has a value also has an effect: only MPI-IO knows collective calls."""
    needed = parameters()[column].only_with
    return needed is None or values[needed[0]] == needed[1]


def is_mpi(tool: str) -> bool:
    """Whether its threads are MPI ranks."""
    return tool in _MPI


def phase(name: str) -> str:
    """Title of a phase."""
    return PHASE_TITLES.get(name, name)


def tool(name: str) -> str:
    """Title of a tool."""
    return _TOOL_TITLES.get(name, name)


def program(name: str, told: str) -> str:
    """A tool with its version: `fio 3.33`, `IOR 4.0.0`."""
    return f"{tool(name)} {version(name, told)}"


def version(name: str, told: str) -> str:
    """The version alone; some tools give their name with it, as in `fio-3.33`."""
    return told.removeprefix(f"{name}-")


#: What no figure and no headline mixes (tool, write_mode, data, o_direct).
Conditions = tuple[str, str | None, str | None, bool | None]


def conditions(results: Sequence[Result]) -> dict[str, Conditions]:
    """Point -> its conditions. They belong to the point: a phase that does not write has no write mode of its own."""
    found: dict[str, Conditions] = {}
    for result in results:
        own = result.parameters
        _, mode, data, direct = found.get(result.point, (result.tool, None, None, None))
        found[result.point] = (
            result.tool,
            own["write_mode"] if mode is None else mode,
            own["data"] if data is None else data,
            own["o_direct"] if direct is None else direct,
        )
    return found


def describe(condition: Conditions, kind: str) -> str:
    """Conditions as text: `fio, O_DIRECT, overwrite, random data`."""
    name, mode, data, direct = condition
    if (name, kind) == ("fio", "metadata"):
        return "fio metadata (filecreate, filestat, filedelete); not comparable with mdtest"
    parts = [
        tool(name),
        {True: "O_DIRECT", False: "through the page cache", None: ""}[direct],
        {"new": "new files", "overwrite": "overwrite"}.get(mode or "", mode or ""),
        {"random": "random data", "tool_default": f"{tool(name)}'s own data"}.get(data or "", data or ""),
    ]
    return ", ".join(part for part in parts if part)


def spread(statistics: Statistics, units: Sequence[Unit], interval: bool = True) -> str:
    """How far the repetitions agree: `± 2.1 % (95 % CI, n = 3)`, or their range where an interval says nothing."""
    if statistics.n == 1:
        return "one repetition"
    if interval and statistics.ci95 is not None and statistics.telling:
        return f"± {100 * statistics.ci95 / statistics.mean:.1f} % (95 % CI, n = {statistics.n})"
    unit = pick(units, statistics.high)
    low, high = (number(value / unit.size) for value in (statistics.low, statistics.high))
    return f"{low} to {high} {unit.name} (n = {statistics.n})"


def listing(texts: Sequence[str]) -> str:
    """`fio, IOR and mdtest`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def natural(name: str) -> list[tuple[int, str]]:
    """Sorting key: node2 before node10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def hosts(names: Iterable[str]) -> str:
    """Names of nodes in natural order, more than three as Slurm writes them: `login, node[01-04,07]`."""
    ordered = sorted(set(names), key=natural)
    if len(ordered) <= 3:
        return ", ".join(ordered)
    parts = [re.fullmatch(r"(.*?)(\d+)(\D*)", name) or name for name in ordered]
    alike: dict[tuple[str, str, int], list[int]] = {}  # before the number, after it, digits at least -> numbers
    for part in parts:
        if isinstance(part, str):
            alike[part, "", 0] = []
        else:
            known = [digits for before, after, digits in alike if (before, after) == (part[1], part[3])]
            fitting = (digits for digits in known if f"{int(part[2]):0{digits}}" == part[2])
            digits = next(fitting, len(part[2]) if part[2].startswith("0") else 0)
            alike.setdefault((part[1], part[3], digits), []).append(int(part[2]))
    texts = [f"{before}{_ranges(numbers, digits)}{after}" for (before, after, digits), numbers in alike.items()]
    return ", ".join(texts if len(texts) <= 6 else [*texts[:6], f"... {len(ordered):,} in all"])


def _ranges(numbers: Sequence[int], digits: int, most: int = 12) -> str:
    """1, 2, 3, 7 -> `[1-3,7]`; of too many in disorder the first ones, and how many there are."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    texts = ["-".join(f"{number:0{digits}}" for number in run) for run in runs[:most]]
    more = f",... {len(numbers):,} in all" if len(runs) > most else ""
    return "".join(texts) if len(numbers) < 2 else f"[{','.join(texts)}{more}]"


def unlike_hosts(results: Iterable[Result]) -> Iterator[tuple[bool, str]]:
    """What is to know of means over repetitions on other nodes each, and whether these took turns."""
    mixed = [result for result in results if result.host_sets > 1]
    for in_turn in (False, True):
        own = [result for result in mixed if result.in_turn == in_turn]
        if own:
            are = "1 result is a mean" if len(own) == 1 else f"{len(own):,} results are means"
            names = hosts(host for result in own for host in result.hosts)
            over = f"{are} over repetitions on different nodes ({names})"
            if in_turn:
                yield True, f"{over}, which took turns: the spread includes what they differ by."
            else:
                yield False, f"{over}, which may differ: there is no confidence interval."


def unlike_builds(results: Sequence[Result]) -> Iterator[str]:
    """What is to know of results of several builds of a tool."""
    for name in several_builds(results):
        own = [result for result in results if result.tool == name]
        counts = Counter(build for result in own for build in result.builds)
        versions = {
            row["tool_build"]: version(name, row["tool_version"]) for r in own for row in r.rows if row["tool_build"]
        }
        which = listing([f"{versions[b]} of build {b} ({human_count(count, 'result')})" for b, count in counts.items()])
        mixed = sum(len(result.builds) > 1 for result in own)
        means = f" {human_count(mixed, 'result is a mean', 'results are means')} over several of them." if mixed else ""
        yield f"results of {len(counts)} builds of {tool(name)}, which may differ: {which}.{means}"


def several_builds(results: Iterable[Result]) -> list[str]:
    """Tools whose results are of several builds."""
    found: dict[str, set[str]] = {}
    for result in results:
        found.setdefault(result.tool, set()).update(result.builds)
    return [name for name, builds in found.items() if len(builds) > 1]


def origin(campaign: str, directory: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Where figures are from: `Campaign demo on /mnt/scratch (ext4), measured 2025-06-02 to 2025-06-03 (UTC).`"""
    measured = [row for row in rows if row["started"]]
    types = ", ".join(sorted({row["target_fstype"] for row in measured if row["target_fstype"]}))
    days = sorted({f"{row['started']:%Y-%m-%d}" for row in measured})
    when = f", measured {' to '.join(dict.fromkeys((days[0], days[-1])))} (UTC)" if days else ""
    return f"Campaign {campaign} on {directory}{f' ({types})' if types else ''}{when}."


def of_builds(result: Result) -> str:
    """`build 3fa9c1d2e0ab`; "" where it is not known."""
    return " and ".join(f"build {name}" for name in result.builds)


def over_hosts(result: Result) -> str:
    """On which kind of nodes the repetitions ran, where not all on the same: `2 nodes`, `nodes in turn`."""
    if result.host_sets < 2:
        return ""
    if result.in_turn:
        return "nodes in turn"
    return f"{len(result.hosts)} nodes" if result.parameters["nodes"] == 1 else f"{result.host_sets} sets of nodes"


def commonest(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Texts with their counts, the commonest first. Those that differ in numbers alone count as one."""
    found: dict[str, list[str]] = {}  # text without its numbers -> texts
    for text in texts:
        found.setdefault(bare(text), []).append(text)
    ordered = sorted(found.values(), key=lambda alike: -len(alike))
    return [
        (alike[0] if len(set(alike)) == 1 else f"{alike[0]} and {len(set(alike)) - 1} similar", len(alike))
        for alike in ordered
    ]


def reasons(results: Sequence[Result], most: int = 3) -> str:
    """The reasons of some results, causes first: `2 × fio is not installed; 1 × too short`. One alone has no count."""
    return summed((REASONS.join(result.reasons).split(REASONS) for result in results), most)


def why(repetitions: Iterable[Repetitions], outcome: str, most: int = 2) -> str:
    """The reasons of the repetitions with an outcome, causes first."""
    own = [one for one in repetitions if one.outcome == outcome]
    return summed((REASONS.join(one.reasons).split(REASONS) for one in own for _ in range(one.count)), most)


def measured(counts: Mapping[str, int]) -> str:
    """How much of a campaign is measured: `29 of 89 repetitions measured`."""
    planned = sum(counts.values())
    return f"{planned - counts['missing'] - counts['left']:,} of {human_count(planned, 'repetition')} measured"


def incomplete(result: Result) -> str:
    """How many of its repetitions a figure has, where not all: `2 of 3 repetitions`; else ""."""
    planned = result.measured + result.lacking
    return f"{result.measured:,} of {human_count(planned, 'repetition')}" if result.lacking else ""


def summed(groups: Iterable[Sequence[str]], most: int = 3) -> str:
    """The reasons of some results or repetitions, causes first, with the number of those that give each.

    One alone has no count.
    """
    found = ranked([reason or "no reason given" for reason in group] for group in groups)
    if len(found) == 1:
        return found[0][0]
    texts = [f"{count} × {text}" for text, count in found[:most]]
    if len(found) > most:
        texts.append(f"and {human_count(len(found) - most, 'other reason')}")
    return "; ".join(texts)


def axes_text(axes: Mapping[str, Sequence[Any]]) -> str:
    """The axes of a sweep with their values: `threads per node 1, 2; transfer size 4 KiB, 1 MiB`."""
    options, parts = {option.name: column for column, option in parameters().items()}, []
    for axis, values in axes.items():
        column = options[axis]
        title = "" if parameters()[column].labels else parameters()[column].shown
        parts.append(f"{title} {', '.join(parameter(column, value) for value in values)}".lstrip())
    return "; ".join(parts)
