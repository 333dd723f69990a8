"""Which figures a campaign has, and what each shows: panels, marks, notes. Pure; drawing.py draws them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import Struct, structs

from iosweep.analysis import caveats, formats, slices
from iosweep.analysis.formats import Unit
from iosweep.analysis.headline import Rivals
from iosweep.analysis.slices import Scaling, Slice, make_slices
from iosweep.analysis.summary import OUTCOMES, Metric, PointSummary, distinct, distinct_or_unknown, phase_order, worst
from iosweep.report import system
from iosweep.tables.reader import Campaign
from iosweep.text import human_count
from iosweep.tools import parameters, tools
from iosweep.tools.axes import QUEUE_DEPTH, THREADS_PER_NODE, TRANSFER_SIZE

#: Quantity -> its lines: name -> column. A rate has a single line without a name, of the phase's metric.
LINES = {
    "rate": {"": ""},
    "throughput": {"": "bandwidth_bytes_per_s"},
    "iops": {"": "ops_per_s"},
    "latency": {"mean": "latency_mean_s", "p99": "latency_p99_s"},
}
#: Column -> its title in figures of rates.
_METRICS = {"bandwidth_bytes_per_s": "throughput", "ops_per_s": "IOPS"}
#: Factor between the values of an axis above which it is logarithmic.
_LOG_FROM = 30
#: Two points make no line: the table has them.
_LEAST_POINTS = 3
#: More lines than these become a heat map.
_MOSTLINES = 4
#: A curve has a label at each mark: more of them cannot be read.
_MOST_LABELED = 32

BARS = {
    "ci95": "Bars: 95 % confidence interval over the repetitions.",
    "range": "Bars: smallest and largest repetition.",
    "none": "One repetition each, so there are no error bars.",
}


class Axis(Struct, frozen=True):
    """ends: in the unit of the title; labels: of the values of a parameter."""

    title: str
    ends: tuple[float, float]
    labels: Mapping[int, str] = {}
    log: bool = False


@dataclass(frozen=True)
class Panel:
    """One plot of a figure: a phase, or a value of the facet axis."""

    title: str
    x: Axis
    y: Axis


class Mark(Struct, frozen=True, kw_only=True):
    """What is drawn for a result, in the units of its panel, with the texts of its tooltip.

    x, y: None if the line breaks here; each: values of several repetitions; label: drawn beside the mark; at: place on
    its line, where x does not tell it.
    """

    panel: int = 0
    x: float | None
    y: float | None = None
    series: str
    measure: str = ""
    verdict: str
    low: float | None = None
    high: float | None = None
    each: tuple[float, ...] | None = None
    label: str | None = None
    at: int | None = None
    value: str | None = None
    spread: str | None = None
    what: str | None = None
    where: str | None = None
    point: str | None = None

    def values(self) -> dict[str, object]:
        """Fields for the specification, without empty ones."""
        return {name: value for name, value in structs.asdict(self).items() if value is not None or name in "xy"}


@dataclass(frozen=True)
class Figure:
    """A picture. shape: lines along an axis; latency against a rate; a heat map; a dot for each node."""

    name: str  # stable, fit for a file name
    title: str
    subtitle: str  # conditions, and constant parameters
    sweep: str  # "": of all sweeps
    origin: str  # campaign, target and date
    shape: Literal["lines", "curve", "map", "nodes"] = "lines"
    panels: tuple[Panel, ...] = ()
    series_title: str = ""
    series: tuple[str, ...] = ("",)  # names of the lines, in order
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def alternative(self) -> str:
        """The figure in words: for each panel, what is lowest and highest."""
        texts = [self.title]
        for number, panel in enumerate(self.panels):
            drawn = [mark for mark in self.marks if mark.panel == number and mark.value]
            drawn.sort(key=lambda mark: (mark.x if self.shape == "nodes" else mark.y) or 0)
            low, high = (f"{mark.measure} {mark.value} ({mark.what})".lstrip() for mark in (drawn[0], drawn[-1]))
            texts.append(f"{panel.title or 'All'}: lowest {low}, highest {high}")
        return ". ".join(texts)


def figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """All figures of a campaign with something to draw, sweep by sweep. Panels are phases."""
    origin = formats.origin(campaign)
    found: list[Figure | None] = []
    for cut in make_slices(campaign, results):
        found += (_rate_figure(cut, quantity, origin) for quantity in _quantities(cut))
        found.append(_scaling_figure(cut, origin) if cut.x == "nodes" else None)
    found.append(_node_figure(campaign, results, origin))
    return [figure for figure in found if figure]


def _figure(cut: Slice, quantity: str, origin: str) -> Figure:
    """A figure of a slice without panels and marks."""
    drawn = {result.phase for result in cut.results}
    axis = parameters()[cut.x]

    # `throughput-by-threads.<sweep>`; `Throughput and IOPS against threads per node`
    metrics = [metric for metric in _METRICS if metric in {result.metric for result in cut.results}]
    rates = " and ".join(_METRICS[metric] for metric in metrics)
    name, by = quantity, axis.name.removesuffix("_per_node").replace("_", "-")
    if quantity == "rate":
        name = "metadata" if cut.kind == "metadata" else _METRICS[metrics[0]].lower()
    if quantity == "latency":
        by = _METRICS[metrics[0]].lower()
    titles = {
        "rate": f"{'metadata rates' if cut.kind == 'metadata' else rates} against {axis.shown}",
        "latency": f"latency against {rates} by {axis.shown}",
        "efficiency": f"scaling efficiency over {axis.shown}",
    }
    title = titles.get(quantity) or f"{_METRICS[LINES[quantity]['']]} against {axis.shown}"

    # conditions, and parameters that are constant and have an effect
    subtitle = [formats.describe(cut.condition, cut.kind, drawn)]
    options = tools()[cut.condition.tool].options if cut.condition.tool in tools() else {}
    for column, option in parameters().items():
        if (own := options.get(option.name)) and own.phases is not None and not own.phases & drawn:
            continue
        applying = (result.parameters for result in cut.results if formats.applies(column, result.parameters))
        values = distinct(place[column] for place in applying)
        if cut.kind in option.captions and len(values) == 1 and column not in (cut.x, cut.color):
            subtitle.append(formats.named(column, values[0]))

    # unknown values first
    ordered = sorted(distinct_or_unknown(cut.results, cut.color), key=lambda v: (v is not None, v)) if cut.color else []
    return Figure(
        name=f"{name}-by-{by}.{_slug(cut.sweep)}{_slug(cut.suffix)}",
        title=title[0].upper() + title[1:],
        subtitle="; ".join(subtitle),
        sweep=cut.sweep,
        origin=origin,
        series_title=parameters()[cut.color].shown if cut.color else "",
        series=tuple(formats.parameter(cut.color, value) for value in ordered) if cut.color else ("",),
    )


def _slug(text: str) -> str:
    """Replace characters other than letters, digits, dots, hyphens and underscores, for a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def _series(cut: Slice, result: PointSummary) -> str:
    """Name of the line of a result."""
    return formats.parameter(cut.color, result.parameters[cut.color]) if cut.color else ""


def _phases(results: Sequence[PointSummary]) -> list[str]:
    return sorted({result.phase for result in results}, key=phase_order)


# rates and latencies


def _quantities(cut: Slice) -> tuple[str, ...]:
    """Quantities to draw for a slice. If transfer sizes differ, both throughput and IOPS are needed. Latency is drawn
    once, over the axis of load: queue depth, or threads if all points have one depth."""
    if cut.kind == "metadata":
        return ("rate",)
    varying = {c for c in parameters() if len(distinct(result.parameters[c] for result in cut.results)) > 1}
    load = QUEUE_DEPTH if QUEUE_DEPTH.column in {*varying, *cut.fixed} else THREADS_PER_NODE
    both = TRANSFER_SIZE.column in varying and cut.x != QUEUE_DEPTH.column
    curve = cut.x == load.column and len({result.parameters[cut.x] for result in cut.results}) <= _MOST_LABELED
    return (*(("throughput", "iops") if both else ("rate",)), *(("latency",) if curve else ()))


def _rate_figure(cut: Slice, quantity: str, origin: str) -> Figure | None:
    """A figure; None with nothing to draw."""
    lines, curve = LINES[quantity], quantity == "latency"
    drawn = [result for result in cut.results if result.headline and _metrics(result, lines)]
    x = _axis_of_values(cut.x, cut.results)
    many_points = len(x.labels) >= _LEAST_POINTS
    if not drawn or not (many_points or cut.color):
        return None
    # error bars that all results have: intervals, else ranges
    bars = "none"
    if any(result.used > 1 for result in drawn):
        metrics = [metric for result in drawn for _, metric in _metrics(result, lines)]
        bars = "range" if any(metric.ci95_share is None for metric in metrics) else "ci95"
    figure = _figure(cut, quantity, origin)
    as_map = many_points and not curve and len(figure.series) > _MOSTLINES
    as_map = as_map and all(type(result.parameters[cut.color or ""]) is int for result in cut.results)

    marks = {phase: list[Mark]() for phase in _phases(drawn)}
    for result in cut.results:
        marks.get(result.phase, []).extend(_marks(result, cut, lines, bars, curve))
    log = curve and _differ([mark.y for own in marks.values() for mark in own if mark.y is not None])
    panels = []
    for phase, own in marks.items():
        metric = next(result.metric for result in drawn if result.phase == phase)
        units = formats.units_of(next(iter(lines.values())) or metric, cut.kind)
        rates = formats.units_of(metric, cut.kind) if curve else ()
        panels.append(_panel(formats.phase(phase), own, x, units, log, rates))

    notes = [] if as_map else [BARS[bars] + ("" if curve or bars == "none" else " Dots: each of them.")]
    notes += [f"Numbers at the marks: {parameters()[cut.x].shown}."] if curve else []
    notes += (text[0].upper() + text[1:] for text in caveats.warn_unlike_builds(drawn))
    notes += _verdict_notes(cut.results, drawn)
    if cut.without:
        notes.append(f"Not drawn: {human_count(len(cut.without), 'result')} of unknown {parameters()[cut.x].shown}.")
    return _filled(replace(figure, shape="curve" if curve else "map" if as_map else "lines"), panels, notes)


def _metrics(result: PointSummary, lines: Mapping[str, str]) -> list[tuple[str, Metric]]:
    found = ((name, result.metrics.get(column or result.metric)) for name, column in lines.items())
    return [(name, metric) for name, metric in found if metric]


def _marks(result: PointSummary, cut: Slice, lines: Mapping[str, str], bars: str, curve: bool) -> Iterator[Mark]:
    """The marks of a result; without a figure, a mark without height, where the line breaks."""
    step, rate = result.count(cut.x), result.headline
    what = [formats.named(axis, result.parameters[axis]) for axis in (cut.x, cut.color) if axis]
    if curve and rate:
        what.append(formats.quantity(rate.figure, formats.units_of(result.metric, result.kind)))
    mark = Mark(x=step, series=_series(cut, result), verdict=result.verdict, what=", ".join(what), point=result.point)
    if curve:
        mark = structs.replace(mark, x=rate.figure if rate else None, at=step)
    metrics = _metrics(result, lines)
    if not metrics:
        yield from (structs.replace(mark, measure=measure) for measure in lines)
    for measure, metric in metrics:
        ends = metric.interval if bars == "ci95" and metric.interval else metric
        units = formats.units_of(lines[measure] or result.metric, result.kind)
        yield structs.replace(
            mark,
            measure=measure,
            y=metric.figure,
            low=max(ends.low, 0.0),
            high=ends.high,
            each=metric.values if metric.n > 1 and not curve else None,
            label=formats.parameter(cut.x, step) if curve and measure == metrics[-1][0] else None,
            value=formats.quantity(metric.figure, units),
            spread=formats.spread(metric, units),
        )


def _verdict_notes(results: Sequence[PointSummary], drawn: Sequence[PointSummary]) -> Iterator[str]:
    """Count what is not valid, and what is not drawn; the first screen has the reasons."""
    if hollow := sum(result.verdict != "valid" for result in drawn):
        yield f"Hollow: {hollow} of {human_count(len(drawn), 'result')} suspect."
    # a result that counts but lacks this figure has no verdict to report: the tool does not print it
    states = [result.state for result in results if not result.used]
    if states:
        yield f"Not drawn: {', '.join(f'{states.count(state)} {state}' for state in OUTCOMES if state in states)}."


# panels and axes


def _filled(figure: Figure, panels: Sequence[tuple[Panel, Sequence[Mark]]], notes: Sequence[str]) -> Figure:
    marks = (structs.replace(mark, panel=i) for i, (_, own) in enumerate(panels) for mark in own)
    return replace(figure, panels=tuple(panel for panel, _ in panels), marks=tuple(marks), notes=tuple(notes))


def _panel(
    title: str, marks: Sequence[Mark], x: Axis, units: Sequence[Unit], log: bool = False, rates: Sequence[Unit] = ()
) -> tuple[Panel, list[Mark]]:
    """A panel, and its marks in its units. marks: in base units; rates: units of the horizontal axis, if latency is
    drawn against a rate."""
    y, unit = _axis(units, [v for m in marks for v in (m.y, m.low, m.high, *(m.each or ())) if v is not None], log)
    across = 1.0
    if rates:
        found = [mark.x for mark in marks if mark.x is not None]
        x, rate = _axis(rates, found, _differ(found))
        y, across = structs.replace(y, title=f"latency ({y.title})"), rate.size

    def scaled(value: float | None, size: float = unit.size) -> float | None:
        return None if value is None else value / size

    return Panel(title, x, y), [
        structs.replace(
            mark,
            x=scaled(mark.x, across) if rates else mark.x,
            y=scaled(mark.y),
            low=scaled(mark.low),
            high=scaled(mark.high),
            each=tuple(value / unit.size for value in mark.each) if mark.each else None,
        )
        for mark in marks
    ]


def _axis_of_values(column: str, results: Sequence[PointSummary]) -> Axis:
    values = [value for value in distinct(result.count(column) for result in results) if isinstance(value, int)]
    labels = {value: formats.parameter(column, value) for value in values}
    return Axis(parameters()[column].shown, (min(values), max(values)), labels)


def _differ(values: Sequence[float]) -> bool:
    """Whether only a logarithmic axis shows the smallest of these values."""
    return 0 < _LOG_FROM * min(values) < max(values)


def _axis(units: Sequence[Unit], values: Sequence[float], log: bool) -> tuple[Axis, Unit]:
    """An axis for these values in a fitting unit, from zero if it is not logarithmic."""
    low, high = min(values), max(values)
    unit = formats.pick(units, math.sqrt(low * high) if log else high)
    ends = ((low if log else 0.0) / unit.size, (high or 1.0) / unit.size)
    return Axis(f"{unit.name}{', logarithmic' if log else ''}", ends, log=log), unit


# scaling efficiency


def _scaling_figure(cut: Slice, origin: str) -> Figure | None:
    """Share of linear growth over node counts; None with too few counts."""
    figure, x = _figure(cut, "efficiency", origin), _axis_of_values(cut.x, cut.results)
    panels: list[tuple[Panel, Sequence[Mark]]] = []
    drawn: list[PointSummary] = []
    apart: set[str] = set()
    for phase in _phases(cut.results):
        measured = [result for result in cut.results if result.phase == phase and result.headline]
        marks: list[Mark] = []
        for series in figure.series if measured else ():
            line = sorted((r for r in measured if _series(cut, r) == series), key=lambda result: result.nodes)
            rivals = Rivals(measured, measured[0].metric)
            scaling = slices.measure_scaling(cut.x, [(result.nodes, result) for result in line], rivals)
            if scaling and len(scaling.steps) >= _LEAST_POINTS - 1:
                marks += _scaling_marks(cut.x, scaling, series)
                drawn += line
                apart = apart.union(*(step.strangers for step in scaling.steps))
        if marks:
            panels.append(_panel(formats.phase(phase), marks, x, (Unit("% of linear growth", 0.01),)))
    notes = [
        "100 %: the rate grows as the count does. Bars: 95 % confidence interval of the ratio to the smallest count."
    ]
    notes += [f"Not in all larger counts: {formats.hosts(apart)} of the smallest."] if apart else []
    return _filled(figure, panels, (*notes, *_verdict_notes(cut.results, drawn))) if panels else None


def _scaling_marks(column: str, scaling: Scaling, series: str) -> Iterator[Mark]:
    smallest, base = formats.named(column, scaling.smallest), scaling.base

    def mark(result: PointSummary, count: int, y: float, **texts: object) -> Mark:
        where = f"on {formats.hosts(result.hosts)}" if result.hosts else None
        return structs.replace(Mark(x=count, y=y, series=series, verdict=result.verdict, where=where), **texts)

    yield mark(base, scaling.smallest, 1.0, value="100 %", what=f"{smallest}, which the others are compared with")
    for step in scaling.steps:
        low, high = step.range or (None, None)
        value = f"{formats.percent(step.efficiency, step.range)} of linear growth"
        what = f"{formats.named(column, step.count)}: {formats.times(step.speedup)} times {smallest}"
        yield mark(step.result, step.count, step.efficiency, low=low, high=high, value=value, what=what)


# nodes


def _node_figure(campaign: Campaign, results: Sequence[PointSummary], origin: str) -> Figure | None:
    """The nodes against each other, in the tests of the node check, or else in the phases of points of one node; None
    with too few nodes."""
    checked = system.find_checked(campaign)
    own = [result for result in results if result.point in checked] or [r for r in results if r.nodes == 1]
    tests: dict[str, list[PointSummary]] = {}
    for result in own:
        tests.setdefault(system.name_test(result), []).append(result)
    found = {title: system.compare_shares(of_test) for title, of_test in tests.items()}
    found = {title: test for title, test in found.items() if test.allowed is not None}
    if not found:
        return None
    marks = []
    for title, test in found.items():
        for i, host in enumerate(sorted(test.values, key=formats.natural)):
            rows = [row for result in tests[title] for row in result.rows if row.host == host]
            mark = Mark(x=100 * test.ratio(host), series=title, verdict=worst(r.verdict for r in rows))
            odd, share = test.stands_out(host), f"{formats.percent(test.ratio(host))} of the nodes' median"
            band = {} if i or not test.allowed else {"low": 100 * (1 - test.allowed), "high": 100 * (1 + test.allowed)}
            label = host if odd else None
            marks.append(structs.replace(mark, label=label, value=share, what=f"{host}, {title}", **band))
    values = [value for mark in marks for value in (mark.x, mark.low, mark.high) if value is not None]
    return Figure(
        name="nodes-by-test",
        title="Nodes against each other",
        subtitle="The same tests on each node alone" if checked else "Points of one node, by the node that measured",
        sweep="",
        origin=origin,
        shape="nodes",
        panels=(Panel("", Axis("% of the nodes' median", (min(values), max(values))), Axis("", (0, 0))),),
        series=tuple(found),
        marks=tuple(marks),
        notes=("A dot is a node. Shaded: alike; nodes outside are named.",),
    )
