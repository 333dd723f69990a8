"""The table of results: a row for each phase of a point, and what is behind it; mdtest's rates by operation. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from iosweep.analysis import caveats, formats
from iosweep.analysis.acceptance import PublishedShares
from iosweep.analysis.formats import Unit
from iosweep.analysis.slices import axes_of, split
from iosweep.analysis.summary import (
    PointSummary,
    distinct,
    distinct_or_unknown,
    hosts_of,
    outcome,
    phase_order,
)
from iosweep.histograms import Series, summed
from iosweep.judge.agreement import COUNTED
from iosweep.judge.findings import join_reasons
from iosweep.plan.model import SweepFacts
from iosweep.report.quality import Phase, find_open_checks
from iosweep.tables.reader import Campaign, CheckRow, PhaseKey, ResultRow, Value
from iosweep.tools import Option, parameters
from iosweep.tools.axes import NODES
from iosweep.tools.mdtest.command import OPTIONS
from iosweep.tools.mdtest.output import ROWS

# the table

Cell = Value | None

#: Figures: column -> (title, unit, size of the unit). A column has a single unit, for reading and copying.
_FIGURES = {
    "bandwidth_bytes_per_s": ("throughput", "MiB/s", 2**20),
    "ops_per_s": ("operations", "1/s", 1.0),
    "latency_mean_s": ("mean latency", "µs", 1e-6),
    "latency_p50_s": ("p50", "µs", 1e-6),
    "latency_p99_s": ("p99", "µs", 1e-6),
    "latency_p99_9_s": ("p99.9", "µs", 1e-6),
}
#: Ranks of the columns that are folded in a narrow window, highest first.
_RANKS = {"latency_mean_s": 4, "latency_p99_s": 4, "latency_p50_s": 6, "latency_p99_9_s": 6}
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


class Column(Struct, frozen=True, omit_defaults=True):
    """A column for the page's script. `type` decides how a cell is shown and sorted.

    `rank`: columns that do not fit into the window are folded into the detail of their row, highest rank first; 0 never
    is. Parameters distinguish rows: they are folded last, and into the cell of the phase.
    """

    title: str
    type: str
    key: str = ""
    unit: str = ""
    parameter: bool = False
    rank: int = 0


class Details(Struct, frozen=True):
    """Data behind a row.

    `each`: the command is the first node's, and each node started its own; `published`: shares of published figures, in
    words; `repetitions`: None if the page has too many results for them; `evidence`: nodes, jobs and open checks -> the
    repetitions that they belong to.
    """

    sweeps: str
    command: str | None
    each: bool
    reasons: tuple[str, ...]
    published: list[str]
    repetitions: list[list[Cell]] | None
    evidence: dict[str, list[int]]


class Payload(Struct, frozen=True):
    """The table for the page's script."""

    columns: list[Column]
    rows: list[list[Cell]]
    repetition_columns: list[Column]
    details: list[Details]


#: A page with more results has their figures alone: repetitions and latencies of 20,000 are 4 MB.
MOST_DETAILED = 5_000


def sort_results(results: Iterable[PointSummary], sweeps: Iterable[SweepFacts]) -> list[PointSummary]:
    """Sort results by sweep, parameters of the point and phase, so that neighbors in the table differ little."""
    place: dict[str, int] = {}
    for number, sweep in enumerate(sweeps):
        for point in sweep.points:
            place.setdefault(point, number)
    names = [name for name, option in parameters().items() if not _is_words(option)]

    def key(result: PointSummary) -> tuple[object, ...]:
        values = ((result.parameters[name] is not None, result.parameters[name]) for name in names)
        return (place.get(result.point, len(place)), result.kind, *values, result.point, phase_order(result.phase))

    return sorted(results, key=key)


def make_payload(results: Sequence[PointSummary], checks: Iterable[CheckRow], shares: PublishedShares) -> Payload:
    """The table for the page's script. shares: of published figures."""
    opened = find_open_checks(checks)
    columns = list(_columns(results, shares))
    return Payload(
        columns=[column for column, _ in columns],
        rows=[[read(result) for _, read in columns] for result in results],
        repetition_columns=[column for column, _ in _REPETITION],
        details=[_details(result, shares, opened, len(results) <= MOST_DETAILED) for result in results],
    )


def find_varying(results: Sequence[PointSummary]) -> list[str]:
    """Parameters that get a column because they vary among the results of a kind. describe_constant has the others."""
    kinds: dict[str, list[PointSummary]] = {}
    for result in results:
        kinds.setdefault(result.kind, []).append(result)
    # None counts as a value: without a phase time, data phases make one pass over the files
    times = {result.own_parameters["phase_time_s"] for result in kinds.get("data", ())}
    return [
        name
        for name in parameters()
        if any(len(_values(own, name)) > 1 for own in kinds.values()) or (name == "phase_time_s" and len(times) > 1)
    ]


def describe_constant(results: Sequence[PointSummary]) -> dict[str, str]:
    """The other parameters in words, by kind of phase: `data`, `metadata`; `IOR data` if several tools measured."""
    shown = find_varying(results)
    texts = {}
    for kind in ("data", "metadata"):
        of_kind = [result for result in results if result.kind == kind]
        tools = list(dict.fromkeys(result.tool for result in of_kind))
        for tool in tools:
            own = [result for result in of_kind if result.tool == tool]
            values = {name: _values(own, name) for name in parameters() if name not in shown}
            parts = [" or ".join(formats.named(name, v) for v in found) for name, found in values.items() if found]
            if parts:
                texts[f"{formats.tool(tool)} {kind}" if len(tools) > 1 else kind] = ", ".join(parts)
    return texts


def _values(results: Iterable[PointSummary], name: str) -> dict[Value, None]:
    """Distinct values of a parameter where it has an effect, in order of appearance."""
    return dict.fromkeys(
        value
        for result in results
        if (value := result.own_parameters[name]) is not None and formats.applies(name, result.own_parameters)
    )


def _is_words(option: Option) -> bool:
    """Whether the values are words, not numbers."""
    return option.kind in ("flag", "choice")


#: Reads a cell of a column.
_Read = Callable[[PointSummary], Cell]


def _columns(results: Sequence[PointSummary], shares: PublishedShares) -> Iterator[tuple[Column, _Read]]:
    """Columns that any result needs, each with the function that reads its cells."""
    yield Column("verdict", "verdict", "verdict"), lambda result: result.state
    yield Column("phase", "phase", "phase"), lambda result: formats.phase(result.phase)
    if len({result.tool for result in results}) > 1:
        yield Column("tool", "text", "tool", rank=1), lambda result: formats.tool(result.tool)
    for name in find_varying(results):
        option = parameters()[name]
        kind, rank = ("text", 3) if _is_words(option) else (option.kind, 1)
        unit = "" if option.kind == "size" else option.unit
        yield Column(option.shown, kind, name, unit, parameter=True, rank=rank), _parameter(name, option)
    yield Column("n", "count", "n", rank=2), lambda result: result.used
    if any(result.lacking for result in results):
        yield (
            Column("of", "count", "planned", rank=2),
            lambda result: result.measured + result.lacking if result.measured else None,
        )
    if any(result.host_sets > 1 for result in results):
        yield Column("hosts", "count", "hosts", rank=2), lambda result: len(result.hosts) or None
    if caveats.find_several_builds(results):
        yield Column("build", "text", "build", rank=2), lambda result: ", ".join(result.builds) or None
    for name, (title, unit, size) in _FIGURES.items():
        if any(name in result.metrics for result in results):
            yield Column(title, "number", name, unit, rank=_RANKS.get(name, 0)), _figure(name, size)
            if name == "ops_per_s":
                yield Column("95\u00a0% CI", "number", "ci95", "± %", rank=2), _half_width
                yield Column("grade", "text", "grade", rank=5), lambda r: r.headline.grade if r.headline else None
                for of, attribute in (("min", "low"), ("max", "high")):
                    yield Column(of, "number", of, unit, rank=7), _of_operations(attribute)
    if shares:
        best = {key: first for key, (first, *_) in shares.items()}
        yield (
            Column("published", "text", "published", rank=3),
            lambda r: one.published.text if (one := best.get((r.point, r.phase))) else None,
        )
        yield (
            Column("share", "number", "share", "%", rank=3),
            lambda r: _scaled(one.share, 0.01) if (one := best.get((r.point, r.phase))) else None,
        )
    yield Column("point", "point", "point", rank=8), lambda result: result.point


def _parameter(name: str, option: Option) -> _Read:
    def read(result: PointSummary) -> Cell:
        value = result.own_parameters[name]
        if value is None or not formats.applies(name, result.own_parameters):
            return None
        return formats.parameter(name, value) if _is_words(option) else value  # numbers stay numbers, for sorting

    return read


def _figure(name: str, size: float) -> _Read:
    return lambda result: _scaled(result.figure(name), size)


def _half_width(result: PointSummary) -> Cell:
    share = result.headline.ci95_share if result.headline else None
    return None if share is None else float(f"{100 * share:.3g}")


def _of_operations(attribute: str) -> _Read:
    """A statistic of operations per second, if there are several repetitions."""
    return lambda r: _scaled(getattr(m, attribute), 1.0) if (m := r.metrics.get("ops_per_s")) and m.n > 1 else None


def _scaled(value: float | None, unit: float) -> float | None:
    """Convert to a unit and round to six significant digits, to save bytes."""
    return None if value is None else float(f"{value / unit:.6g}")


# mdtest's rates by operation


@dataclass(frozen=True)
class SummaryCell:
    """A figure with its unit, "" without one, and smaller lines below it. verdict: "" if nothing was measured."""

    value: str
    lines: tuple[str, ...]
    verdict: str


@dataclass(frozen=True)
class TableRow:
    title: str
    cells: tuple[SummaryCell, ...]


@dataclass(frozen=True)
class Table:
    """title: of its sweep, or its suite; about: conditions and parameters of all figures."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


def make_metadata_tables(campaign: Campaign, results: Sequence[PointSummary]) -> list[Table]:
    """Rates of mdtest by operation (rows) and an axis (columns): a table for each sweep and value of other axes."""
    conditions = formats.conditions(results)
    measured = [r for r in results if (r.tool, r.kind) == ("mdtest", "metadata")]
    tables: list[Table] = []
    for sweep in campaign.about.sweeps:
        points = set(sweep.points)
        mine = [result for result in measured if result.point in points]
        for condition in dict.fromkeys(conditions[result.point] for result in mine):
            own = [result for result in mine if conditions[result.point] == condition]
            varying = [
                axis
                for axis in _AXES
                if axis in axes_of(sweep) and len(distinct(result.parameters[axis] for result in own)) > 1
            ]
            for fixed, part in split(own, varying[1:]):
                title = ", ".join([sweep.name, *(formats.named(name, value) for name, value in fixed.items())])
                about = formats.describe(condition, "metadata")
                across = varying[0] if varying else NODES.column
                tables += _metadata(title, about, part, across, fixed)
    return tables


#: Candidates for the columns: the first axis that varies. Each combination of the other axes has its own table.
_AXES = [NODES.column, *(option.column for option in OPTIONS.values())]


def _metadata(
    title: str, about: str, results: Sequence[PointSummary], across: str, fixed: Mapping[str, Value | None]
) -> Iterator[Table]:
    by_place = {(result.phase, result.parameters[across]): result for result in reversed(results)}
    measured = {value for (_, value), result in by_place.items() if result.headline}
    shown = [value for value in distinct_or_unknown(results, across) if value in measured]
    if not shown:
        return  # the first screen says why there are no figures
    rows = [
        TableRow(ROWS.get(phase, formats.phase(phase)), tuple(_cell(by_place.get((phase, value))) for value in shown))
        for phase in sorted({result.phase for result in results}, key=phase_order)
    ]
    place = {name: distinct_or_unknown(results, name) for name in _AXES if name != across and name not in fixed}
    same = [
        formats.named(name, values[0]) for name, values in place.items() if len(values) == 1 and values[0] is not None
    ]
    columns = tuple(formats.named(across, value) for value in shown)
    yield Table(title, "; ".join([about, *same]), columns, tuple(rows))


def _cell(result: PointSummary | None) -> SummaryCell:
    """The figure, and below it confidence interval, smallest and largest repetition, and standard deviation."""
    if result is None:
        return SummaryCell("", (), "")
    metric = result.headline
    if metric is None:
        return SummaryCell("", (), result.verdict)
    lines = []
    if metric.sd is None:
        lines.append("one repetition")
    else:
        if metric.ci95_share is not None:
            lines.append(f"± {100 * metric.ci95_share:.1f} % (95 % CI)")
        lines.append(f"min {formats.number(metric.low)}, max {formats.number(metric.high)}")
        iterations = " iterations" if metric.iterations > 1 else ""
        lines.append(f"std dev {formats.number(metric.sd)} (n = {metric.n * metric.iterations}{iterations})")
    return SummaryCell(formats.number(metric.figure), tuple(lines), result.verdict)


# behind a row: its repetitions


def _details(result: PointSummary, shares: PublishedShares, opened: Mapping[Phase, list[str]], whole: bool) -> Details:
    first = result.rows[0]
    evidence: dict[str, list[int]] = {}
    for row in result.rows:
        hosts = formats.hosts(hosts_of(row))  # `on node[01-04], Slurm job 104`
        where = [f"on {hosts}" if hosts else "", f"Slurm job {row.slurm_job}" if row.slurm_job else ""]
        where.append(f"build {row.tool_build}" if len(result.builds) > 1 and row.tool_build else "")
        texts = [", ".join(filter(None, where)), *opened.get((row.point, row.phase, row.repetition), ())]
        for text in filter(None, texts):
            evidence.setdefault(text, []).append(row.repetition or 0)
    return Details(
        sweeps=first.sweeps,
        command=first.command,
        each=result.nodes > 1 and not formats.is_mpi(result.tool),
        reasons=result.reasons,
        published=[share.text for share in shares.get((result.point, result.phase), ())],
        repetitions=[[read(row) for _, read in _REPETITION] for row in result.rows if row.repetition]
        if whole
        else None,
        evidence=evidence,
    )


def _of_repetition(name: str, size: float) -> Callable[[ResultRow], Cell]:
    """Read a figure of a repetition; `passes` only if data was moved more than once."""

    def read(row: ResultRow) -> Cell:
        value = row.figures.get(name)
        return None if name == "passes" and value is not None and value <= 1 else _scaled(value, size)

    return read


#: Columns of the table of repetitions, each with the function that reads its cells.
_REPETITION: list[tuple[Column, Callable[[ResultRow], Cell]]] = [
    (Column("repetition", "count"), lambda row: row.repetition),
    (Column("verdict", "verdict"), outcome),
    (Column("fresh", "text"), lambda row: "yes" if row.confirms else None),
    *(
        (Column(title, "number", unit=unit), _of_repetition(name, size))
        for name, (title, unit, size) in _ONE_REPETITION.items()
    ),
    (
        Column("checks", "text", unit="pass, fail, not checked"),
        lambda row: f"{row.checks_passed}, {row.checks_failed}, {row.checks_not_checked}",
    ),
    (
        Column("started (UTC)", "text"),
        lambda row: row.started.strftime("%Y-%m-%d %H:%M:%S") if row.started else None,
    ),
    (Column("reasons", "text"), lambda row: join_reasons(row.reasons)),
]


# behind a row: rates over time, latencies

#: Limits of the page: values of a line, lines of a figure, bytes of all figures.
MOST_VALUES, MOST_LINES, MOST_SERIES_BYTES = 60, 4, 350_000

_RATES = {"bandwidth_bytes_per_s": ("Throughput", formats.THROUGHPUT), "ops_per_s": ("Operations", formats.OPS)}
#: Percents of the drawn latencies.
PERCENTS = (50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)


class Line(Struct, frozen=True, omit_defaults=True):
    """Values at even intervals in the figure's unit, None without a reading. Times in seconds."""

    name: str
    begin_s: float
    interval_s: float
    values: tuple[float | None, ...]


class Drawing(Struct, frozen=True, omit_defaults=True):
    """A small figure. `left`: number of lines that are not drawn."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    left: int = 0


class OverTime(Struct, frozen=True, omit_defaults=True):
    """Figures over the time of one repetition, behind a row.

    `elsewhere`: too large for the page, so only in the tables; `none`: why there is nothing.
    """

    repetition: int = 0
    drawings: tuple[Drawing, ...] = ()
    elsewhere: bool = False
    none: str = ""


def find_typical_repetitions(results: Iterable[PointSummary]) -> dict[PhaseKey, int]:
    """The repetition of each phase whose headline is nearest to the figure; the first if none counts."""
    found = {}
    for result in results:
        rows = [row for row in result.rows if row.repetition is not None]
        middle = result.headline.figure if result.headline else 0.0
        counted = [row for row in rows if row.verdict in COUNTED and result.metric in row.figures]
        nearest = min(
            counted or rows[:1], key=lambda row: abs(row.figures.get(result.metric, 0.0) - middle), default=None
        )
        if nearest and nearest.repetition is not None:
            found[result.point, result.phase] = nearest.repetition
    return found


def draw_over_time(
    results: Sequence[PointSummary],
    repetitions: Mapping[PhaseKey, int],
    series: Mapping[PhaseKey, Sequence[Series]],
) -> list[OverTime]:
    """The figures over time behind each row, or why there are none. series: of the chosen repetitions."""
    found: list[OverTime] = []
    left = MOST_SERIES_BYTES
    for result in results:
        key = result.point, result.phase
        if not (lines := [one for one in series.get(key, ()) if one.name in _RATES]):
            found.append(OverTime(none="the tool has recorded none" if result.measured else "nothing was measured"))
            continue
        made = OverTime(repetitions[key], tuple(_rates(lines)))
        size = len(msgspec.json.encode(made))
        found.append(made if size <= left else OverTime(made.repetition, elsewhere=True))
        left -= size if size <= left else 0
    return found


def _rates(series: Sequence[Series]) -> Iterator[Drawing]:
    """The total rate, and the rates of several nodes: throughput, or operations without it."""
    for name, (title, units) in _RATES.items():
        if nodes := [one for one in series if one.name == name]:
            if whole := summed(nodes):  # the table may lack nodes
                total = f", sum of {len(nodes)} nodes" if len(nodes) > 1 else ""
                yield from _drawing(f"{title} over time{total}", units, [("", whole)])
            if len(nodes) > 1:
                yield from _drawing(f"{title} over time, each node", units, [(one.host, one) for one in nodes])
            return


def _drawing(title: str, units: Sequence[Unit], named: Sequence[tuple[str, Series]]) -> Iterator[Drawing]:
    """A figure of all lines, or of the lowest and the highest; nothing without readings."""
    means: list[tuple[float, float, str, Series]] = []  # mean, highest value
    for name, one in named:
        if read := [value for value in one.values if not math.isnan(value)]:
            means.append((sum(read) / len(read), max(read), name, one))
    if not means:
        return
    drawn = means
    if len(means) > MOST_LINES:
        ranked = sorted(means, key=lambda line: line[0])
        drawn = [*ranked[: MOST_LINES // 2], *ranked[-MOST_LINES // 2 :]]
    unit = formats.pick(units, max(highest for _, highest, *_ in drawn))
    lines = []
    for _, _, name, one in drawn:
        short = one.coarser(MOST_VALUES)
        values = (None if math.isnan(value) else float(f"{value / unit.size:.3g}") for value in short.values)
        lines.append(Line(name, float(f"{short.begin_s:.4g}"), float(f"{short.interval_s:.4g}"), tuple(values)))
    yield Drawing(title, unit.name, tuple(lines), len(means) - len(drawn))


class Latencies(Struct, frozen=True):
    """of: for each result its latencies at these percents in seconds, empty without any; no results if they are too
    many for the page."""

    percents: tuple[float, ...]
    of: list[list[float]]


def list_latencies(results: Sequence[PointSummary]) -> Latencies:
    """The distribution of the latencies of each result, for the page's script."""
    shown = results if len(results) <= MOST_DETAILED else ()
    return Latencies(PERCENTS, [[float(f"{value:.4g}") for value in result.percentiles(PERCENTS)] for result in shown])
