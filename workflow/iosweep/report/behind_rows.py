"""What is behind the rows of the table of results: figures over time, rates of nodes, latencies by percentile. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec import Struct

from iosweep.analysis import formats
from iosweep.analysis.data import NodeRateRow, Run, SeriesRow
from iosweep.analysis.formats import Unit
from iosweep.analysis.summary import PointSummary
from iosweep.details import Histogram, Series
from iosweep.judge.agreement import COUNTED
from iosweep.judge.series import coarser, summed

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


def chosen(results: Iterable[PointSummary]) -> dict[tuple[str, str], int]:
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


def series(
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


def counted(results: Sequence[PointSummary]) -> set[tuple[str, str, int]]:
    """(point, phase, repetition) of the repetitions whose latencies are in the report."""
    rows = (row for result in results for row in result.rows if "latency_mean_s" in row.figures)
    return {(r.point, r.phase, r.repetition) for r in rows if r.verdict in COUNTED and r.repetition and not r.confirms}


def latencies(results: Sequence[PointSummary], known: Mapping[tuple[str, str], Histogram]) -> dict[str, object]:
    """For the page's script: the percents, and for each result its latencies in seconds there (none: an empty list)."""
    found = [known.get((result.point, result.phase)) for result in results]
    return {
        "percents": PERCENTS,
        "of": [[float(f"{own:.3g}") for own in one.percentiles(PERCENTS, _BEYOND)] if one else [] for one in found],
    }
