"""Which figures a campaign has, and what each shows: panels, lines, marks, notes. Pure; drawing.py draws them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from msgspec import Struct, structs

from iosweep.analysis import caveats, formats, slices
from iosweep.analysis.formats import Unit
from iosweep.analysis.headline import Rivals
from iosweep.analysis.slices import Scaling, Slice, make_slices
from iosweep.analysis.summary import OUTCOMES, Metric, PointSummary, distinct, distinct_or_unknown, phase_order
from iosweep.tables.reader import Campaign, Value
from iosweep.text import human_count
from iosweep.tools import parameters, tools

#: Quantity -> its lines: name -> column. A rate has a single line without a name, of the phase's metric.
_LINES = {
    "rate": {"": ""},
    "throughput": {"": "bandwidth_bytes_per_s"},
    "iops": {"": "ops_per_s"},
    "latency": {"mean": "latency_mean_s", "p99": "latency_p99_s"},
}
#: Column -> its title in figures of rates.
_METRICS = {"bandwidth_bytes_per_s": "throughput", "ops_per_s": "IOPS"}
#: Factor between latencies above which their axis is logarithmic.
_LOG_FROM = 50

BARS = {
    "ci95": "Bars: 95 % confidence interval over the repetitions. Dots: each of them.",
    "range": "Bars: smallest and largest repetition. Dots: each of them.",
    "none": "One repetition each, so there are no error bars.",
}


@dataclass(frozen=True)
class Panel:
    """One plot of a figure: a phase, or a value of the facet axis.

    ticks: of the vertical axis, in `unit`, from end to end; log: for latencies of very different size. Other axes start
    at zero.
    """

    title: str
    unit: str
    ticks: tuple[float, ...]
    log: bool


class Mark(Struct, frozen=True, kw_only=True):
    """A point of a line, in the unit of its panel, with the texts of its tooltip.

    y: None if the line breaks here; each: values of several repetitions; where, scaling, apart: of figures of scaling:
    nodes, share of the smallest count, whether nodes of the smallest count took no part.
    """

    panel: int
    x: Value | None
    series: str
    measure: str
    verdict: str
    y: float | None = None
    low: float | None = None
    high: float | None = None
    value: str | None = None
    each: tuple[float, ...] | None = None
    spread: str | None = None
    what: str | None = None
    point: str | None = None
    where: str | None = None
    scaling: str | None = None
    apart: bool | None = None

    def values(self) -> dict[str, object]:
        """Fields for the specification, without empty ones."""
        return {name: value for name, value in structs.asdict(self).items() if value is not None or name in "xy"}


@dataclass(frozen=True)
class Figure:
    """A picture. All values are in the unit of their panel."""

    name: str  # stable, fit for a file name
    title: str
    subtitle: str  # conditions, and constant parameters
    sweep: str
    origin: str  # campaign, target and date
    panels: tuple[Panel, ...]  # empty if there is nothing to draw, which the notes explain
    x_title: str
    x_column: str
    x_values: tuple[float, ...]
    series_title: str
    series: tuple[str, ...]  # names of the lines, in order
    measures: tuple[str, ...]  # drawn with different dashes, such as mean and p99
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]


def figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """All figures of a campaign, sweep by sweep."""
    cuts = list(make_slices(campaign, results))
    order = [sweep.name for sweep in campaign.about.sweeps]
    found = [*_rate_figures(campaign, cuts), *_scaling_figures(campaign, cuts)]
    return sorted(found, key=lambda figure: order.index(figure.sweep))


def _figure(cut: Slice, quantity: str, origin: str, phase: str | None = None) -> Figure:
    """A figure of a slice without panels and marks. phase: the only phase to draw; None for all."""
    results = [result for result in cut.results if phase in (None, result.phase)]
    drawn = {result.phase for result in results}
    axis = parameters()[cut.x]

    # `throughput-by-threads.<sweep>`; `Throughput and IOPS against threads per node`
    metrics = {result.metric for result in results}
    name = quantity
    if quantity == "rate":
        name = "throughput" if "bandwidth_bytes_per_s" in metrics else "iops"
        name = "metadata" if cut.kind == "metadata" else name
        columns: Sequence[str] = [metric for metric in _METRICS if metric in metrics]
    else:
        columns = list(_LINES.get(quantity, {}).values())
    name += f"-by-{axis.name.removesuffix('_per_node').replace('_', '-')}.{_slug(cut.sweep)}"
    if quantity == "efficiency":
        title = f"Scaling efficiency over {axis.shown}"
    else:
        what = "latency" if quantity == "latency" else " and ".join(_METRICS[column] for column in columns)
        title = f"{'metadata rates' if cut.kind == 'metadata' else what} against {axis.shown}"
        title = f"{formats.phase(phase)}: {title}" if phase else title[0].upper() + title[1:]

    # conditions, and parameters that are constant and have an effect
    subtitle = [formats.describe(cut.condition, cut.kind, drawn)]
    options = tools()[cut.condition.tool].options if cut.condition.tool in tools() else {}
    for column, option in parameters().items():
        if (own := options.get(option.name)) and own.phases is not None and not own.phases & drawn:
            continue
        applying = (result.parameters for result in cut.results if formats.applies(column, result.parameters))
        values = distinct(place[column] for place in applying)
        if cut.kind in option.captions and len(values) == 1 and column not in (cut.x, cut.color, cut.facet):
            subtitle.append(formats.named(column, values[0]))

    return Figure(
        name=f"{name}{'.' + phase if phase else ''}{_slug(cut.suffix)}",
        title=title,
        subtitle="; ".join(subtitle),
        sweep=cut.sweep,
        origin=origin,
        panels=(),
        x_title=axis.shown,
        x_column=cut.x,
        x_values=tuple(x for x in distinct(result.parameters[cut.x] for result in results) if not isinstance(x, str)),
        series_title=parameters()[cut.color].shown if cut.color else "",
        series=_series(results, cut.color),
        measures=tuple(_LINES.get(quantity, ("",))),
        marks=(),
        notes=(),
    )


def _slug(text: str) -> str:
    """Replace characters other than letters, digits, dots, hyphens and underscores, for a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def _series(results: Sequence[PointSummary], color: str | None) -> tuple[str, ...]:
    """Names of the lines in the order of their values, unknown values first."""
    if color is None:
        return ("",)
    ordered = sorted({result.parameters[color] for result in results}, key=lambda value: (value is not None, value))
    return tuple(formats.parameter(color, value) for value in ordered)


def _phases(results: Sequence[PointSummary]) -> list[str]:
    return sorted({result.phase for result in results}, key=phase_order)


# rates and latencies


def _rate_figures(campaign: Campaign, cuts: Iterable[Slice]) -> list[Figure]:
    """Figures of rates and latencies. Panels are phases; if a third axis varies, each phase has a figure with a panel
    for each value."""
    origin, found = formats.origin(campaign), []
    for cut in cuts:
        for quantity, phase in product(_quantities(cut), _phases(cut.results) if cut.facet else [None]):
            if figure := _rate_figure(cut, quantity, phase, origin):
                found.append(figure)
    return found


def _quantities(cut: Slice) -> tuple[str, ...]:
    """Quantities to draw for a slice. If transfer sizes differ, both throughput and IOPS are needed."""
    if cut.kind == "metadata":
        return ("rate",)
    known = parameters()
    values = {column: distinct(result.parameters[column] for result in cut.results) for column in known}
    varying = (column for column in known if known[column].role != "x" and len(values[column]) > 1)
    return next(filter(None, (known[column].quantities for column in (cut.x, *varying))), ("rate",))


def _rate_figure(cut: Slice, quantity: str, phase: str | None, origin: str) -> Figure | None:
    """A figure; None if an earlier figure already says that there is nothing to draw."""
    results = [result for result in cut.results if phase in (None, result.phase)]
    lines = _LINES[quantity]
    drawable = [result for result in results if _metrics(result, lines)]
    if quantity in ("latency", "iops") and not drawable:
        return None  # the figure of throughput says why
    # error bars that all results have: intervals, else ranges
    bars = "none"
    if any(result.used > 1 for result in drawable):
        metrics = [metric for result in drawable for _, metric in _metrics(result, lines)]
        bars = "range" if any(metric.ci95_share is None for metric in metrics) else "ci95"

    if phase is None or cut.facet is None:
        parts = [(formats.phase(own), [r for r in results if r.phase == own]) for own in _phases(results)]
    else:
        parts = [
            (formats.named(cut.facet, value), [r for r in results if r.parameters[cut.facet] == value])
            for value in distinct_or_unknown(results, cut.facet)
        ]
    with_builds = bool(caveats.find_several_builds(drawable))
    panels: list[Panel] = []
    marks: list[Mark] = []
    for title, inside in parts:
        if any(result in drawable for result in inside):
            # panels of a phase share unit and axis, so that a reader can compare them
            panel, unit = _panel(title, results if phase else inside, lines, bars)
            for result in inside:
                marks += _marks(result, cut, lines, bars, unit, len(panels), with_builds)
            panels.append(panel)

    notes = []
    if drawable:
        notes.append(BARS[bars])
    notes += (text for _, text in caveats.warn_unlike_hosts(drawable))
    notes += (text[0].upper() + text[1:] for text in caveats.warn_unlike_builds(drawable))
    if lacking := sum(result.lacking for result in drawable):
        incomplete = human_count(sum(bool(result.lacking) for result in drawable), "figure")
        notes.append(f"Incomplete: {incomplete} without all repetitions ({lacking} missing or left).")
    notes += _verdict_notes(cut, results, drawable, phase)
    return replace(_figure(cut, quantity, origin, phase), panels=tuple(panels), marks=tuple(marks), notes=tuple(notes))


def _metrics(result: PointSummary, lines: Mapping[str, str]) -> list[tuple[str, Metric]]:
    found = ((name, result.metrics.get(column or result.metric)) for name, column in lines.items())
    return [(name, metric) for name, metric in found if metric]


def _ends(metric: Metric, bars: str) -> tuple[float, float]:
    """Ends of the error bar, in the column's unit."""
    if bars == "ci95" and metric.interval is not None:
        return metric.interval.low, metric.interval.high
    return metric.low, metric.high


def _panel(title: str, results: Sequence[PointSummary], lines: Mapping[str, str], bars: str) -> tuple[Panel, Unit]:
    metrics = [metric for result in results for _, metric in _metrics(result, lines)]
    ends = [_ends(metric, bars) for metric in metrics]
    low = min(min(end for end, _ in ends), min(metric.low for metric in metrics))
    high = max(max(end for _, end in ends), max(metric.high for metric in metrics))
    log = len(lines) > 1 and 0 < low < high / _LOG_FROM
    units = _units(results[0], lines)
    unit = formats.pick(units, math.sqrt(low * high) if log else high)
    ticks = log_ticks(low / unit.size, high / unit.size) if log else linear_ticks(high / unit.size)
    return Panel(title, unit.name, ticks, log), unit


def _units(result: PointSummary, lines: Mapping[str, str]) -> tuple[Unit, ...]:
    return formats.units_of(next(iter(lines.values())) or result.metric, result.kind)


def _marks(
    result: PointSummary, cut: Slice, lines: Mapping[str, str], bars: str, unit: Unit, panel: int, with_build: bool
) -> Iterator[Mark]:
    """The marks of a result; without a figure, a mark without height, where the line breaks. with_build: name the
    build, because the figure has results of several builds."""
    mark = Mark(
        panel=panel,
        x=result.parameters[cut.x],
        series=formats.parameter(cut.color, result.parameters[cut.color]) if cut.color else "",
        measure="",
        verdict=result.verdict,
    )
    metrics, units = _metrics(result, lines), _units(result, lines)
    if not metrics:
        yield from (structs.replace(mark, measure=measure) for measure in lines)
        return
    what = [formats.named(axis, result.parameters[axis]) for axis in (cut.x, cut.color, cut.facet) if axis]
    what += [caveats.name_builds(result)] if with_build else []
    for measure, metric in metrics:
        low, high = _ends(metric, bars)
        y = metric.figure
        yield structs.replace(
            mark,
            measure=measure,
            y=y / unit.size,
            low=max(low, 0) / unit.size,
            high=high / unit.size,
            each=tuple(value / unit.size for value in metric.values) if metric.n > 1 else None,
            value=formats.quantity(y, units),
            spread=formats.spread(metric, units),
            what=", ".join(what),
            point=result.point,
        )


def linear_ticks(largest: float) -> tuple[float, ...]:
    """Three to six round numbers from zero to the largest value or above."""
    largest = largest if largest > 0 else 1.0
    power = 10.0 ** math.floor(math.log10(largest / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if largest <= 5 * power * factor)
    return tuple(step * i for i in range(math.ceil(largest / step) + 1))


def log_ticks(smallest: float, largest: float) -> tuple[float, ...]:
    """Powers of ten that enclose all values."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    return tuple(10.0**power for power in range(first, last + 1))


def _verdict_notes(
    cut: Slice, results: Sequence[PointSummary], drawn: Sequence[PointSummary], phase: str | None
) -> Iterator[str]:
    """Explain hollow marks, and results that are not drawn, with reasons."""
    if hollow := [result for result in drawn if result.verdict != "valid"]:
        yield f"Hollow: {len(hollow)} not valid ({caveats.tell(result.reasons for result in hollow)})."
    # a result that counts but lacks this figure has no verdict to report: the tool does not print it
    unused = [result for result in results if not result.used]
    for state in OUTCOMES:
        if own := [result for result in unused if result.state == state]:
            yield f"Not drawn: {len(own)} {state} ({caveats.tell(result.reasons for result in own)})."
    if without := [result for result in cut.without if phase in (None, result.phase)]:
        yield f"Not drawn: {human_count(len(without), 'result')} of unknown {parameters()[cut.x].shown}."


# scaling efficiency


@dataclass(frozen=True)
class _Growth:
    """A line of a scaling figure. without: results without a figure, where the line breaks."""

    panel: str
    series: str
    scaling: Scaling
    without: tuple[PointSummary, ...]


def _scaling_figures(campaign: Campaign, cuts: Iterable[Slice]) -> list[Figure]:
    """Share of linear growth: a figure for each slice over node counts."""
    origin, found = formats.origin(campaign), []
    for cut in cuts:
        if cut.x == "nodes" and (lines := [*_growing(cut)]):
            found.append(_scaling_figure(cut, lines, origin))
    return found


def _growing(cut: Slice) -> Iterator[_Growth]:
    """A line for each phase; if another axis makes the lines, phases are panels."""
    for phase in _phases(cut.results):
        own = [result for result in cut.results if result.phase == phase]
        measured = [result for result in own if result.headline]
        rivals = Rivals(measured, measured[0].metric) if measured else None
        for color, facet in dict.fromkeys(map(cut.line_of, measured)):
            line = [result for result in own if cut.line_of(result) == (color, facet)]
            counts = sorted(
                ((result.count(cut.x) or 1, result) for result in line if result.headline), key=lambda one: one[0]
            )
            if rivals and (scaling := slices.measure_scaling(cut.x, counts, rivals)):
                titles = [formats.phase(phase)] if cut.color else []
                titles += [formats.named(cut.facet, facet)] if cut.facet else []
                series = formats.parameter(cut.color, color) if cut.color else formats.phase(phase)
                without = tuple(result for result in line if not result.headline)
                yield _Growth(", ".join(titles), series, scaling, without)


def _scaling_figure(cut: Slice, lines: Sequence[_Growth], origin: str) -> Figure:
    steps = [step for line in lines for step in line.scaling.steps]
    highest = max([1.0, *(step.efficiency for step in steps)])
    widest = max(step.range[1] if step.range else 0 for step in steps)
    ticks = linear_ticks(100 * max(highest, widest))
    panels = list(dict.fromkeys(line.panel for line in lines))
    marks = [mark for line in lines for mark in _scaling_marks(cut, line, panels.index(line.panel))]
    drawn = [result for line in lines for result in (line.scaling.base, *(s.result for s in line.scaling.steps))]
    notes = [
        "100 %: the rate grows as the count does.",
        "Bars: 95 % confidence interval of the ratio to the smallest count."
        if any(step.range for step in steps)
        else "Too few repetitions for intervals.",
    ]
    if apart := [step for step in steps if step.strangers]:
        hosts = formats.hosts(set().union(*(step.strangers for step in apart)))
        notes.append(f"Diamonds: {human_count(len(apart), 'result')} without nodes of the smallest count ({hosts}).")
    series = list(dict.fromkeys(line.series for line in lines))
    return replace(
        _figure(cut, "efficiency", origin),
        panels=tuple(Panel(title, "% of linear growth", ticks, False) for title in panels),
        series_title=parameters()[cut.color].shown if cut.color else "phase",
        series=tuple(filter(series.__contains__, _series(cut.results, cut.color)) if cut.color else series),
        marks=tuple(marks),
        notes=(*notes, *_verdict_notes(cut, cut.results, drawn, None)),
    )


def _scaling_marks(cut: Slice, line: _Growth, panel: int) -> Iterator[Mark]:
    smallest = formats.named(cut.x, line.scaling.smallest)

    def mark(result: PointSummary, **values: object) -> Mark:
        where = f"on {formats.hosts(result.hosts)}" if result.hosts else None
        bare = Mark(panel=panel, x=result.parameters[cut.x], series=line.series, measure="", verdict=result.verdict)
        return structs.replace(bare, where=where, **values)

    yield mark(line.scaling.base, y=100.0, value="100 %", scaling=f"{smallest}, which the others are compared with")
    for step in line.scaling.steps:
        low, high = step.range or (None, None)
        yield mark(
            step.result,
            y=100 * step.efficiency,
            low=None if low is None else 100 * low,
            high=None if high is None else 100 * high,
            apart=bool(step.strangers),
            value=f"{formats.percent(step.efficiency, step.range)} of linear growth",
            scaling=f"{formats.times(step.speedup)} of {smallest}",
        )
    yield from (mark(result) for result in line.without)
