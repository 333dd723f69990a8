"""The table of results: a row for each phase of a point; behind it repetitions, rates over time, latencies. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec import Struct

from iosweep.analysis import findings, formats
from iosweep.analysis.acceptance import PublishedShares
from iosweep.analysis.data import CheckRow, NodeRateRow, Row, Run, SeriesRow, Value
from iosweep.analysis.formats import Unit
from iosweep.analysis.summary import OUTCOMES, Metric, PointSummary, hosts_of, of_points, outcome, phase_order
from iosweep.details import Histogram, Series
from iosweep.judge.agreement import COUNTED
from iosweep.judge.nodes import coarser, summed
from iosweep.plan.model import SweepFacts
from iosweep.report.tables import Phase, open_checks
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


def payload(results: Sequence[PointSummary], checks: Iterable[CheckRow], known: PublishedShares) -> Payload:
    """The table for the page's script. known: published figures that results compare with."""
    texts: dict[str, int] = {}
    opened = open_checks(checks, texts)
    columns = _columns(results, known)
    rows = [[_cell(result, column.key, known) for column in columns] for result in results]
    details = [_details(result, opened, texts) for result in results]
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


def _columns(results: Sequence[PointSummary], known: PublishedShares) -> list[Column]:
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
        if any(name in result.metrics for result in results):
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


def _cell(result: PointSummary, key: str, known: PublishedShares) -> Cell:
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
        ops = result.metrics.get("ops_per_s")
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


def _details(result: PointSummary, opened: Mapping[Phase, list[int]], texts: dict[str, int]) -> Details:
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
            if (found := opened.get((row.point, row.phase, row.repetition)))
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
        if any(column in result.metrics for result in results):
            several = [s if (s := result.metrics.get(column)) and s.n > 1 else None for result in results]
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


#: Bounds of what the page carries: values of a line, lines of a figure, rows of a table of rates, bytes of everything.
MOST_VALUES, MOST_LINES, MOST_RATES, MOST_BYTES = 60, 8, 16, 350_000

_SHARE = (Unit("%", 0.01, 0.0),)
_RATES = {"bandwidth_bytes_per_s": formats.THROUGHPUT, "ops_per_s": formats.OPS}
#: Title -> unit, and quantity -> its name beside others. What was always zero is not drawn.
_OF_NODES: Mapping[str, tuple[Sequence[Unit], Mapping[str, str]]] = {
    "CPUs that measure, busy": (_SHARE, {"measuring_cpus_busy_share": ""}),
    "Client of the file system": (
        formats.THROUGHPUT,
        {"client_read_bytes_per_s": "read", "client_written_bytes_per_s": "written"},
    ),
    "Block device": (
        formats.THROUGHPUT,
        {"device_read_bytes_per_s": "read", "device_written_bytes_per_s": "written"},
    ),
    "Network": (formats.THROUGHPUT, {"received_bytes_per_s": "received", "sent_bytes_per_s": "sent"}),
    "Page cache": (formats.SIZE, {"page_cache_bytes": ""}),
    "Dirty pages": (formats.SIZE, {"dirty_bytes": ""}),
}

#: Percents whose latencies are drawn.
PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999)
#: I/Os that must be slower than a percentile, as in the columns of percentiles.
_BEYOND = 10

Kind = TypeVar("Kind", bound=Run)


class Line(Struct, frozen=True, omit_defaults=True):
    """A line: values at even intervals in the figure's unit, None where nothing was read. Times in seconds."""

    name: str
    begin_s: float
    interval_s: float
    values: tuple[float | None, ...]


class Drawing(Struct, frozen=True, omit_defaults=True):
    """A small figure. `left`: how many lines there are beside those that are drawn."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    thin: bool = False
    left: int = 0


class OfResult(Struct, frozen=True, omit_defaults=True):
    """What is behind a row, of one repetition. `rates`: slowest first; `elsewhere`: it is in the tables only; `none`:
    why there is nothing."""

    repetition: int = 0
    drawings: tuple[Drawing, ...] = ()
    rates: tuple[tuple[str, str, str], ...] = ()
    rates_left: int = 0
    elsewhere: bool = False
    none: str = ""


def median_repetitions(results: Iterable[PointSummary]) -> dict[tuple[str, str], int]:
    """(point, phase) -> the repetition whose headline is nearest to the median; the first where none counts."""
    found = {}
    for result in results:
        rows = [row for row in result.rows if row.repetition is not None]
        middle = result.headline.median if result.headline else 0.0
        counted = [row for row in rows if row.verdict in COUNTED and result.metric in row.figures]
        nearest = min(
            counted or rows[:1], key=lambda row: abs(row.figures.get(result.metric, 0.0) - middle), default=None
        )
        if nearest and nearest.repetition is not None:
            found[result.point, result.phase] = nearest.repetition
    return found


def over_time(
    results: Sequence[PointSummary], read: Iterable[SeriesRow], rates: Iterable[NodeRateRow], most: int = MOST_BYTES
) -> list[OfResult]:
    """For each result what is behind its row, or why there is nothing. read, rates: of the chosen repetitions."""
    lines, own = _by_run(read), _by_run(rates)
    found: list[OfResult] = []
    for result, run in ((r, (r.point, r.phase)) for r in results):
        rows = [*lines.get(run, ()), *own.get(run, ())]
        made = OfResult(none=_why_none(result))
        if rows:
            made = _of_result(
                rows[0].repetition, lines.get(run, []), own.get(run, []), formats.units_of("", result.kind)
            )
            size = len(msgspec.json.encode(made))
            if size > most:
                made = OfResult(made.repetition, elsewhere=True)
            else:
                most -= size
        found.append(made)
    return found


def _why_none(result: PointSummary) -> str:
    """Why a result has no series. Which quantities a machine or a tool can give is not known here."""
    if not result.measured:
        return "nothing was measured"
    return "series.parquet has none of its repetitions; neither the tool nor the node has recorded any"


def _by_run(rows: Iterable[Kind]) -> dict[tuple[str, str], list[Kind]]:
    found: dict[tuple[str, str], list[Kind]] = {}
    for row in rows:
        found.setdefault((row.point, row.phase), []).append(row)
    return found


def _of_result(
    repetition: int, rows: Sequence[SeriesRow], rates: Sequence[NodeRateRow], operations: Sequence[Unit]
) -> OfResult:
    series = [row.series() for row in rows]
    drawings = [*_rates(series), *_of_nodes(series)]
    parts = _own_rates(rates, operations)
    return OfResult(repetition, tuple(drawings), tuple(parts[:MOST_RATES]), max(0, len(parts) - MOST_RATES))


def _rates(series: Sequence[Series]) -> list[Drawing]:
    """The rate of the whole, of each node and of each worker, as far as there are several."""
    for name, units in _RATES.items():
        nodes = [one for one in series if one.name == name and one.worker is None]
        workers = [one for one in series if one.name == name and one.worker is not None]
        if nodes or workers:
            whole = summed(nodes) if nodes else None  # the table may lack workers
            title = f"Rate, sum of {len(nodes)} nodes" if len(nodes) > 1 else "Rate"
            found = [_drawing(title, units, [("", whole)])] if whole else []
            if len(nodes) > 1:
                found.append(_drawing("Rate of each node", units, [(one.host, one) for one in nodes]))
            if len(workers) > 1:
                several = len({one.host for one in workers}) > 1
                named = [(_part(one.host if several else "", one.worker), one) for one in workers]
                found.append(_drawing("Rate of each worker", units, named, thin=True))
            return [drawing for drawing in found if drawing]
    return []


def _of_nodes(series: Sequence[Series]) -> list[Drawing]:
    found: list[Drawing] = []
    for title, (units, names) in _OF_NODES.items():
        several = len({one.host for one in series if one.worker is None and one.name in names}) > 1
        lines = [
            (" ".join(filter(None, (one.host if several else "", names[one.name]))), one)
            for one in series
            if one.worker is None and one.name in names
        ]
        drawing = _drawing(title, units, lines) if any(value > 0 for _, one in lines for value in one.values) else None
        found += [drawing] if drawing else []
    return found


def _drawing(
    title: str, units: Sequence[Unit], named: Sequence[tuple[str, Series]], thin: bool = False
) -> Drawing | None:
    """A figure of these lines, or of the lowest and the highest; None where nothing was read."""
    known = [(name, one, read) for name, one in named if (read := _read(one))]
    if not known:
        return None
    if len(known) > MOST_LINES:
        ranked = sorted(known, key=lambda line: sum(line[2]) / len(line[2]))
        shown = [*ranked[: MOST_LINES // 2], *ranked[-MOST_LINES // 2 :]]
    else:
        shown = known
    unit = formats.pick(units, max(max(read) for *_, read in shown))
    lines = (_line(name, coarser(one, MOST_VALUES), unit) for name, one, _ in shown)
    return Drawing(title, unit.name, tuple(lines), thin, len(known) - len(shown))


def _line(name: str, series: Series, unit: Unit) -> Line:
    values = (None if math.isnan(value) else float(f"{value / unit.size:.3g}") for value in series.values)
    return Line(name, float(f"{series.begin_s:.4g}"), float(f"{series.interval_s:.4g}"), tuple(values))


def _read(series: Series) -> list[float]:
    return [value for value in series.values if not math.isnan(value)]


def _own_rates(rates: Sequence[NodeRateRow], operations: Sequence[Unit]) -> list[tuple[str, str, str]]:
    """(node or worker, throughput, operations) of each, slowest first: nodes where there are several, then workers."""
    nodes = [one for one in rates if one.worker is None]
    workers = [one for one in rates if one.worker is not None]
    several = len({one.host for one in rates}) > 1
    found = []
    for parts in (nodes, workers):
        if len(parts) > 1:
            for one in sorted(parts, key=attrgetter("rate")):
                host = one.host if several or one.worker is None else ""
                found.append(
                    (
                        _part(host, one.worker),
                        _quantity(one.bandwidth_bytes_per_s, formats.THROUGHPUT),
                        _quantity(one.ops_per_s, operations),
                    )
                )
    return found


def _part(host: str, worker: int | None) -> str:
    return ", ".join(filter(None, (host, "" if worker is None else f"worker {worker}")))


def _quantity(value: float | None, units: Sequence[Unit]) -> str:
    return "" if value is None else formats.quantity(value, units)


def counted_repetitions(results: Sequence[PointSummary]) -> set[tuple[str, str, int]]:
    """(point, phase, repetition) of the repetitions whose latencies are in the report."""
    rows = (row for result in results for row in result.rows if "latency_mean_s" in row.figures)
    return {(r.point, r.phase, r.repetition) for r in rows if r.verdict in COUNTED and r.repetition and not r.confirms}


def latencies_of(results: Sequence[PointSummary], known: Mapping[tuple[str, str], Histogram]) -> dict[str, object]:
    """For the page's script: the percents, and for each result its latencies in seconds there (none: an empty list)."""
    found = [known.get((result.point, result.phase)) for result in results]
    return {
        "percents": PERCENTS,
        "of": [[float(f"{own:.3g}") for own in one.percentiles(PERCENTS, _BEYOND)] if one else [] for one in found],
    }
