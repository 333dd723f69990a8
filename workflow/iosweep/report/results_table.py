"""The table of results: one row per point and phase, with its repetitions behind it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from iosweep.analysis import findings, formats
from iosweep.analysis.data import CheckRow, Row, Value
from iosweep.analysis.published import NOTHING, Known
from iosweep.analysis.summary import OUTCOMES, Metric, PointSummary, hosts_of, of_points, outcome, phase_order
from iosweep.plan.model import SweepFacts
from iosweep.report import quality
from iosweep.report.quality import Phase
from iosweep.text import human_count
from iosweep.tools import Option, parameters
from iosweep.tools.axes import PHASE_TIME

Cell = Value | None

#: Figures: column -> (title, unit, size of the unit). One unit per column, so that it can be read down and copied.
_FIGURES = {
    "bandwidth_bytes_per_s": ("throughput", "MiB/s", 2**20),
    "ops_per_s": ("operations", "1/s", 1.0),
    "latency_mean_s": ("mean latency", "µs", 1e-6),
    "latency_p50_s": ("p50", "µs", 1e-6),
    "latency_p99_s": ("p99", "µs", 1e-6),
    "latency_p99_9_s": ("p99.9", "µs", 1e-6),
}
#: What is shown of the repetitions' operations per second beside their mean.
_OF_OPS: Mapping[str, Callable[[Metric], float]] = {
    "median": lambda found: found.median,
    "min": lambda found: found.low,
    "max": lambda found: found.high,
}
#: Columns -> rank. Parameters tell rows apart, so they are folded last, and then into the cell of the phase.
_RANKS: Mapping[str, int] = {
    **{"tool": 1, "ci95": 2, "n": 2, "planned": 2, "hosts": 2, "build": 2},
    **{"latency_mean_s": 4, "latency_p99_s": 4, "grade": 5, "latency_p50_s": 6, "latency_p99_9_s": 6},
    **dict.fromkeys(_OF_OPS, 7),
    "point": 8,
    **{"published": 3, "share": 3},
}
_NUMBERS_RANK, _WORDS_RANK = 1, 3  # of parameters
_ONE_REPETITION = {
    **_FIGURES,
    "latency_max_s": ("max", "µs", 1e-6),
    "completion_latency_mean_s": ("mean clat", "µs", 1e-6),
    "completion_latency_p99_5_s": ("p99.5 clat", "µs", 1e-6),
    "runtime_s": ("time", "s", 1.0),
    "open_s": ("open", "s", 1.0),
    "io_s": ("transfers", "s", 1.0),
    "close_s": ("close", "s", 1.0),
    "start_skew_s": ("start skew", "ms", 1e-3),
    "passes": ("passes", "", 1.0),
}


#: What the switches offer: key -> (title, column).
QUANTITIES = {
    "throughput": ("throughput", "bandwidth_bytes_per_s"),
    "iops": ("IOPS", "ops_per_s"),
    "mean": ("mean latency", "latency_mean_s"),
    "p50": ("p50", "latency_p50_s"),
    "p99": ("p99", "latency_p99_s"),
    "p99.9": ("p99.9", "latency_p99_9_s"),
}


class Column(Struct, frozen=True, omit_defaults=True):
    """A column for the page's script. `type` says how it shows and sorts a cell.

    `rank`: what does not fit into the window is folded into the detail of its row, highest rank first; 0 never is.
    """

    title: str
    type: str
    key: str = ""
    unit: str = ""
    parameter: bool = False
    rank: int = 0


class Details(Struct, frozen=True):
    """Data behind a row. `where`, `checks`: repetition -> numbers of `Payload.texts`."""

    sweeps: str
    command: str | None
    each: bool  # the command is that of the first of several nodes, each of which started the tool by itself
    reasons: tuple[str, ...]
    outcomes: tuple[str, ...]
    repetitions: list[list[Cell]]
    where: dict[int, list[int]]
    checks: dict[int, list[int]]


class Payload(Struct, frozen=True):
    """The table for the page's script."""

    columns: list[Column]
    rows: list[list[Cell]]
    repetition_columns: list[Column]
    details: list[Details]
    names: dict[str, str]
    texts: list[str]  # evidence repeats: it is carried once, and referred to


class Quantity(Struct, frozen=True):
    """A quantity of all results, in SI base units, None where there is none; for the page's script.

    low, high: the smallest and the largest repetition, None where there is one. units: name, size, smallest figure.
    """

    title: str
    units: list[tuple[str, float, float]]
    metadata_units: list[tuple[str, float, float]]
    y: list[float | None]
    low: list[float | None]
    high: list[float | None]


def ordered(results: Iterable[PointSummary], sweeps: Iterable[SweepFacts]) -> list[PointSummary]:
    """Results by sweep, then by parameters and phase: neighbours in the table differ as little as they can."""
    place: dict[str, int] = {}
    for number, sweep in enumerate(sweeps):
        for point in sweep.points:
            place.setdefault(point, number)
    listed = list(results)
    # A point's phases stand together, whichever parameters each of them uses.
    of_point = [result.parameters for result in of_points(listed)]

    def key(i: int) -> tuple[object, ...]:
        result, own = listed[i], of_point[i]
        values = ((own[name] is not None, own[name]) for name, option in parameters().items() if not _is_words(option))
        return (place.get(result.point, len(place)), result.kind, *values, result.point, phase_order(result.phase))

    return [listed[i] for i in sorted(range(len(listed)), key=key)]


def payload(results: Sequence[PointSummary], checks: Iterable[CheckRow], known: Known = NOTHING) -> Payload:
    """The table for the page's script. known: published figures that results compare with."""
    texts: dict[str, int] = {}
    open_checks = quality.open_checks(checks, texts)
    columns = _columns(results, known)
    rows = [[_cell(result, column.key, known) for column in columns] for result in results]
    details = [_details(result, open_checks, texts) for result in results]
    return Payload(
        columns, rows, _repetition_columns(), details, names({result.point for result in results}), list(texts)
    )


def names(points: Collection[str]) -> dict[str, str]:
    """Id of a point -> the parts of it that not all points have: `64k.qd4` of `fio.seq_write+3.1n.1t.64k.qd4.0a1b2c3d`.

    The hash at the end is left out where the rest is clear without it.
    """
    parts = {point: point.split(".") for point in points}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    differing = {point: [part for part in own if part not in shared] for point, own in parts.items()}
    without = {point: ".".join(own[:-1]) for point, own in differing.items()}
    counts = Counter(without.values())
    return {
        point: without[point] if without[point] and counts[without[point]] == 1 else ".".join(own)
        for point, own in differing.items()
    }


def varying(results: Sequence[PointSummary]) -> list[str]:
    """Parameters that get a column: those that vary among the results of a kind. `constant` has the others."""
    kinds: dict[str, list[PointSummary]] = {}
    for result in results:
        kinds.setdefault(result.kind, []).append(result)
    return [
        name
        for name, option in parameters().items()
        if any(len(_found(own, name)) > 1 for own in kinds.values())
        # none is a value of its own: one pass over the files
        or (option is PHASE_TIME and len({r.parameters[name] for r in kinds.get("data", ())}) > 1)
    ]


def _is_words(option: Option) -> bool:
    """Whether its values are words, not numbers."""
    return option.kind in ("flag", "choice")


def constant(results: Sequence[PointSummary]) -> dict[str, str]:
    """The other parameters in words, by kind of phase: `data`, `metadata`; `IOR data` where several tools measured."""
    shown = varying(results)
    texts = {}
    for kind in ("data", "metadata"):
        of_kind = [result for result in results if result.kind == kind]
        tools = list(dict.fromkeys(result.tool for result in of_kind))
        for tool in tools:
            own = [result for result in of_kind if result.tool == tool]
            values = {name: _found(own, name) for name in parameters() if name not in shown}
            parts = [" or ".join(formats.named(name, v) for v in found) for name, found in values.items() if found]
            if parts:
                texts[f"{formats.tool(tool)} {kind}" if len(tools) > 1 else kind] = ", ".join(parts)
    return texts


def _found(results: Iterable[PointSummary], name: str) -> dict[Value, None]:
    """Distinct values of a parameter where it has an effect, in order of appearance."""
    return dict.fromkeys(
        value
        for result in results
        if (value := result.parameters[name]) is not None and formats.applies(name, result.parameters)
    )


def having(results: Iterable[PointSummary]) -> dict[str, int]:
    """Outcome -> how many results have a repetition with it."""
    counts = Counter(one for result in results for one in result.outcomes)
    return {one: counts[one] for one in OUTCOMES}


def _columns(results: Sequence[PointSummary], known: Known) -> list[Column]:
    columns = [_column("verdict", "verdict", "verdict"), _column("phase", "phase", "phase")]
    if len({result.tool for result in results}) > 1:
        columns.append(_column("tool", "text", "tool"))
    for name in varying(results):
        option = parameters()[name]
        kind, rank = ("text", _WORDS_RANK) if _is_words(option) else (option.kind, _NUMBERS_RANK)
        unit = "" if option.kind == "size" else option.unit
        columns.append(Column(option.shown, kind, name, unit, parameter=True, rank=rank))
    columns.append(_column("n", "count", "n"))
    if any(result.lacking for result in results):
        columns.append(_column("of", "count", "planned"))
    if any(result.host_sets > 1 for result in results):
        columns.append(_column("hosts", "count", "hosts"))
    if findings.several_builds(results):
        columns.append(_column("build", "text", "build"))
    for name, (title, unit, _) in _FIGURES.items():
        if any(name in result.statistics for result in results):
            columns.append(_column(title, "number", name, unit))
            if name == "ops_per_s":
                columns.append(_column("95\u00a0% CI", "number", "ci95", "± %"))
                columns.append(_column("grade", "text", "grade"))
                columns += [_column(title, "number", title, unit) for title in _OF_OPS]
    if known:
        columns += [_column("published", "text", "published"), _column("share", "number", "share", "%")]
    columns.append(_column("point", "point", "point"))
    return columns


def _column(title: str, kind: str, key: str, unit: str = "") -> Column:
    return Column(title, kind, key, unit, rank=_RANKS.get(key, 0))


def _cell(result: PointSummary, key: str, known: Known) -> Cell:
    if option := parameters().get(key):
        value = result.parameters[key]
        if value is None or not formats.applies(key, result.parameters):
            return None
        return formats.parameter(key, value) if _is_words(option) else value  # numbers stay numbers, to sort as such
    if key in _FIGURES:
        return _scaled(result.typical(key), _FIGURES[key][2])
    if key == "ci95":
        share = result.headline.ci95_share if result.headline else None
        return None if share is None else float(f"{100 * share:.3g}")
    if key in _OF_OPS:
        ops = result.statistics.get("ops_per_s")
        return _scaled(_OF_OPS[key](ops), 1.0) if ops and ops.n > 1 else None
    beside = known.get((result.point, result.phase))
    cells: dict[str, Cell] = {
        "published": beside.published.text if beside else None,
        "share": _scaled(beside.share, 0.01) if beside else None,
        "verdict": result.state,
        "phase": formats.phase(result.phase),
        "tool": formats.tool(result.tool),
        "n": result.used,
        "planned": result.measured + result.lacking if result.measured else None,
        "hosts": len(result.hosts) or None,
        "build": ", ".join(result.builds) or None,
        "grade": result.headline.grade if result.headline else None,
        "point": result.point,
    }
    return cells[key]


def _details(result: PointSummary, open_checks: Mapping[Phase, list[int]], texts: dict[str, int]) -> Details:
    first = result.rows[0]
    return Details(
        sweeps=first.sweeps,
        command=first.command,
        each=_each(result),
        reasons=result.reasons,
        outcomes=result.outcomes,
        repetitions=[_repetition(row) for row in result.rows if row.repetition is not None],
        where={
            row.repetition or 0: [texts.setdefault(where, len(texts))]
            for row in result.rows
            if (where := _where(row, with_build=len(result.builds) > 1))
        },
        checks={
            row.repetition or 0: found
            for row in result.rows
            if (found := open_checks.get((row.point, row.phase, row.repetition)))
        },
    )


def _each(result: PointSummary) -> bool:
    """Whether its command is that of the first of several nodes, on each of which the tool was started by itself."""
    return result.nodes > 1 and not formats.is_mpi(result.tool) and "--client=" not in (result.rows[0].command or "")


def _repetition_columns() -> list[Column]:
    return [
        Column("repetition", "count"),
        Column("verdict", "verdict"),
        Column("fresh", "text"),
        *(Column(title, "number", unit=unit) for title, unit, _ in _ONE_REPETITION.values()),
        Column("checks", "text", unit="pass, fail, not checked"),
        Column("started (UTC)", "text"),
        Column("reasons", "text"),
    ]


def _repetition(row: Row) -> list[Cell]:
    return [
        row.repetition,
        outcome(row),
        "yes" if row.confirms else None,
        *(_scaled(_figure(row, name), unit) for name, (_, _, unit) in _ONE_REPETITION.items()),
        f"{row.checks_passed}, {row.checks_failed}, {row.checks_not_checked}",
        row.started.strftime("%Y-%m-%d %H:%M:%S") if row.started else None,
        row.reasons,
    ]


def _figure(row: Row, name: str) -> float | None:
    """A figure of a repetition; `passes` only where data was moved more than once."""
    value = row.figures.get(name)
    return None if name == "passes" and value is not None and value <= 1 else value


def _where(row: Row, with_build: bool) -> str:
    """`on node[01-04], 32 processes seen on each, Slurm job 104`; "" for what was not measured."""
    hosts, seen = formats.hosts(hosts_of(row)), _processes(row)
    parts = [f"on {hosts}" if hosts else "", seen, f"Slurm job {row.slurm_job}" if row.slurm_job else ""]
    parts.append(f"build {row.tool_build}" if with_build and row.tool_build else "")
    return ", ".join(part for part in parts if part)


def _processes(row: Row) -> str:
    """`32 processes seen on each`, or which nodes had how many: `processes seen: 32 on n[1-3], 31 on n4`; "" where none
    was seen."""
    seen: dict[str, list[str]] = {}
    for host, _, count in (part.rpartition(":") for part in (row.ran_on or "").split(",") if part):
        seen.setdefault(count, []).append(host)
    if not seen:
        return ""
    lacking = sorted(set(hosts_of(row)) - {host for found in seen.values() for host in found}, key=formats.natural)
    if len(seen) == 1 and not lacking:
        ((count, found),) = seen.items()
        return f"{human_count(int(count), 'process', 'processes')} seen" + (" on each" if len(found) > 1 else "")
    parts = [f"{count} on {formats.hosts(found)}" for count, found in seen.items()]
    return "processes seen: " + ", ".join([*parts, *([f"none on {formats.hosts(lacking)}"] if lacking else [])])


def _scaled(value: float | None, unit: float) -> float | None:
    """In the unit, with six significant digits: more would be noise, and bytes in the page."""
    return None if value is None else float(f"{value / unit:.6g}")


def quantities(results: Sequence[PointSummary]) -> dict[str, Quantity]:
    """The quantities that any result has, for the switches."""
    found = {}
    for key, (title, column) in QUANTITIES.items():
        if any(column in result.statistics for result in results):
            several = [s if (s := result.statistics.get(column)) and s.n > 1 else None for result in results]
            found[key] = Quantity(
                title,
                _units_of(column, "data"),
                _units_of(column, "metadata"),
                [_rounded(result.typical(column)) for result in results],
                [_rounded(s.low) if s else None for s in several],
                [_rounded(s.high) if s else None for s in several],
            )
    return found


def _units_of(column: str, kind: str) -> list[tuple[str, float, float]]:
    return [(unit.name, unit.size, unit.least) for unit in formats.units_of(column, kind)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
