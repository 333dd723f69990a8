"""Results -> figures with their captions. Pure; drawing.py draws them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from msgspec import Struct, structs

from iosweep.analysis import caveats, formats, slices
from iosweep.analysis.formats import Unit
from iosweep.analysis.headline import Rivals
from iosweep.analysis.slices import Knee, Scaling, Slice, find_strangers, make_slices
from iosweep.analysis.summary import OUTCOMES, Metric, PointSummary, distinct, distinct_or_unknown, phase_order
from iosweep.judge.best import SHARE
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
#: Titles of figures of a single metric, and titles of the metrics in figures of rates.
_RATES = {"throughput": "throughput", "iops": "IOPS"}
_METRICS = {"bandwidth_bytes_per_s": "throughput", "ops_per_s": "IOPS"}
_QUANTITIES = {
    formats.THROUGHPUT: "throughput",
    formats.IOPS: "IOPS",
    formats.OPS: "rate",
    formats.LATENCY: "latency",
}
#: Factor between latencies above which their axis is logarithmic.
_LOG_FROM = 50
#: An axis reaches at most this multiple of the highest repetition. Longer bars are cut: a single wide interval would
#: flatten all lines. Intervals with a grade are never cut.
_ROOM = 1.25

BARS = {
    "ci95": "Bars: 95 % confidence interval over the repetitions. Dots: each of them.",
    "range": "Bars: smallest and largest repetition. Dots: each of them.",
    "none": "One repetition each, so there are no error bars.",
}
#: Explains bars that are cut.
CUT = "Arrows: the interval goes on above; its width is in the table."
_KNEES = (
    f"Ringed: the knee, the first value that reaches {100 * SHARE:g} % of the plateau, of ramps always, of other axes"
    " where it is inside the axis; the rule is that of the highest line."
)


@dataclass(frozen=True)
class Panel:
    """One plot of a figure: a phase, or a value of the facet axis.

    ticks: of the vertical axis, in `unit`, from end to end; log: for latencies of very different size. Other axes start
    at zero.
    """

    title: str
    unit: str
    quantity: str
    ticks: tuple[float, ...]
    log: bool


class Mark(Struct, frozen=True, kw_only=True):
    """A point of a line, in the unit of its panel, with the texts of its tooltip.

    y: None if the line breaks here; cut: whether the bar extends above the panel; each: values of several repetitions;
    where: nodes, in figures over node counts; apart: whether it ran on nodes that the largest count of its line did not
    have; knee: text if the mark is the knee of its line; label: short text at the knee of the highest line.
    """

    panel: int
    x: Value | None
    series: str
    measure: str
    verdict: str
    phase: str = ""  # not for the specification
    y: float | None = None
    low: float | None = None
    high: float | None = None
    cut: bool | None = None
    value: str | None = None
    each: tuple[float, ...] | None = None
    spread: str | None = None
    what: str | None = None
    point: str | None = None
    where: str | None = None
    scaling: str | None = None
    apart: bool | None = None
    knee: str | None = None
    label: str | None = None

    def values(self) -> dict[str, object]:
        """Fields for the specification, without empty ones."""
        own = structs.asdict(self)
        return {name: value for name, value in own.items() if name != "phase" and (value is not None or name in "xy")}


@dataclass(frozen=True)
class Figure:
    """A picture. All values are in the unit of their panel.

    name: stable, fit for a file name; subtitle: conditions, and constant parameters; slice: identifies the figures that
    differ in their quantity only, "" if the quantity is fixed; origin: campaign, target and date; panels: empty if
    there is nothing to draw, which the notes explain; series: names of the lines, in order; measures: drawn with
    different dashes, such as mean and p99; with_nodes: whether marks have `apart`.
    """

    name: str
    title: str
    subtitle: str
    sweep: str
    slice: str
    origin: str
    panels: tuple[Panel, ...]
    x_title: str
    x_column: str
    x_values: tuple[float, ...]
    series_title: str
    series: tuple[str, ...]
    with_nodes: bool
    measures: tuple[str, ...]
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]


def figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """All figures of a campaign, sweep by sweep, with distinct names."""
    found = [*rate_figures(campaign, results), *scaling_figures(campaign, results)]
    order = [sweep.name for sweep in campaign.about.sweeps]
    seen: dict[str, int] = {}
    named = []
    for figure in sorted(found, key=lambda figure: order.index(figure.sweep)):
        # names of sweeps may differ only in characters that file names lack, or in case, which some file systems ignore
        key = figure.name.lower()
        seen[key] = seen.get(key, 0) + 1
        named.append(figure if seen[key] == 1 else replace(figure, name=f"{figure.name}-{seen[key]}"))
    return named


def _figure(cut: Slice, quantity: str, origin: str, phase: str | None = None) -> Figure:
    """A figure of a slice without panels and marks. phase: the only phase to draw; None for all."""
    results = [result for result in cut.results if phase in (None, result.phase)]
    return Figure(
        name=_name(cut, quantity, results, phase),
        title=_title(cut, quantity, results, phase),
        subtitle=_subtitle(cut, results),
        sweep=cut.sweep,
        slice=f"{_slug(cut.sweep)}.{cut.kind}{cut.suffix}.{cut.x}.{phase or ''}",
        origin=origin,
        panels=(),
        x_title=parameters()[cut.x].shown,
        x_column=cut.x,
        x_values=tuple(x for x in distinct(results, cut.x) if not isinstance(x, str)),
        series_title=parameters()[cut.color].shown if cut.color else "",
        series=_series(results, cut.color),
        with_nodes=cut.x == "nodes",
        measures=tuple(_LINES.get(quantity, ("",))),
        marks=(),
        notes=(),
    )


def _series(results: Sequence[PointSummary], color: str | None) -> tuple[str, ...]:
    """Names of the lines in the order of their values, unknown values first."""
    if color is None:
        return ("",)
    ordered = sorted({result.parameters[color] for result in results}, key=lambda value: (value is not None, value))
    return tuple(formats.parameter(color, value) for value in ordered)


# rates and latencies


def rate_figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """Figures of rates and latencies. Panels are phases; if a third axis varies, each phase has a figure with a panel
    for each value."""
    origin, ramps = formats.origin(campaign), {sweep.name: sweep.ramp for sweep in campaign.about.sweeps}
    found = []
    for cut in make_slices(campaign, results):
        for quantity, phase in product(_quantities(cut), _phases(cut.results) if cut.facet else [None]):
            if figure := _rate_figure(cut, quantity, phase, origin, ramps[cut.sweep]):
                found.append(figure)
    return found


def _quantities(cut: Slice) -> tuple[str, ...]:
    """Quantities to draw for a slice. If transfer sizes differ, both throughput and IOPS are needed."""
    if cut.kind == "metadata":
        return ("rate",)
    known = parameters()
    varying = (column for column in known if known[column].role != "x" and len(distinct(cut.results, column)) > 1)
    found = (known[column].quantities for column in (cut.x, *varying))
    return next(filter(None, found), ("rate",))


def _rate_figure(cut: Slice, quantity: str, phase: str | None, origin: str, ramp: str | None) -> Figure | None:
    """A figure; None if an earlier figure already says that there is nothing to draw. ramp: the climbed axis of the
    sweep."""
    results = [result for result in cut.results if phase in (None, result.phase)]
    lines = _LINES[quantity]
    drawable = [result for result in results if _metrics(result, lines)]
    if quantity in ("latency", "iops") and not drawable:
        return None  # the figure of throughput says why
    bars = _bars(drawable, lines)
    largest = _largest(cut, drawable) if cut.x == "nodes" else {}
    several = bool(caveats.find_several_builds(drawable))
    bends = {} if quantity == "latency" else _knees(cut, results, ramp)
    panels: list[Panel] = []
    marks: list[Mark] = []
    for title, inside in _panels(cut, results, phase):
        if any(result in drawable for result in inside):
            # panels of a phase share unit and axis, so that a reader can compare them
            panel, unit = _panel(title, results if phase else inside, lines, bars)
            for result in inside:
                found = _marks(result, cut, lines, bars, unit, len(panels), several)
                if result in drawable and (most := largest.get((result.phase, *cut.line_of(result)))):
                    apart, where = bool(find_strangers(result, most)), f"on {formats.hosts(result.hosts)}"
                    found = [structs.replace(mark, apart=apart, where=where) for mark in found]
                knee, label = bends.get((result.point, result.phase), (None, None))
                marks += (structs.replace(_within(mark, panel), knee=knee, label=label) for mark in found)
            panels.append(panel)
    notes = [
        *_rate_notes(cut, results, drawable, bars, lines, largest),
        *_verdict_notes(cut, results, drawable, phase),
        *([CUT] if any(mark.cut for mark in marks) else []),
        *([_KNEES] if bends else []),
    ]
    whole = _figure(cut, quantity, origin, phase)
    return replace(whole, panels=tuple(panels), marks=tuple(marks), notes=tuple(notes))


def _metrics(result: PointSummary, lines: Mapping[str, str]) -> list[tuple[str, Metric]]:
    found = ((name, result.metrics.get(column or result.metric)) for name, column in lines.items())
    return [(name, metric) for name, metric in found if metric]


def _phases(results: Sequence[PointSummary]) -> list[str]:
    return sorted({result.phase for result in results}, key=phase_order)


def _bars(drawable: Sequence[PointSummary], lines: Mapping[str, str]) -> str:
    """Error bars that all results of a figure have: intervals, else ranges. A percentile has no interval."""
    if all(result.used < 2 for result in drawable):
        return "none"
    metrics = [metric for result in drawable for _, metric in _metrics(result, lines)]
    return "range" if len(lines) > 1 or any(metric.ci95_share is None for metric in metrics) else "ci95"


def _ends(metric: Metric, bars: str) -> tuple[float, float]:
    """Ends of the error bar, in the column's unit."""
    if bars == "ci95" and metric.interval is not None:
        return metric.interval.low, metric.interval.high
    return metric.low, metric.high


def _largest(cut: Slice, drawable: Sequence[PointSummary]) -> dict[tuple[object, ...], PointSummary]:
    """Line of a figure over node counts -> its result with the most nodes."""
    ordered = sorted(drawable, key=lambda result: result.nodes)
    return {(result.phase, *cut.line_of(result)): result for result in ordered}


def _panels(cut: Slice, results: Sequence[PointSummary], phase: str | None) -> Iterator[tuple[str, list[PointSummary]]]:
    if phase is None or cut.facet is None:
        for own in _phases(results):
            yield formats.phase(own), [result for result in results if result.phase == own]
    else:
        for value in distinct_or_unknown(results, cut.facet):
            inside = [result for result in results if result.parameters[cut.facet] == value]
            yield formats.named(cut.facet, value), inside


def _panel(title: str, results: Sequence[PointSummary], lines: Mapping[str, str], bars: str) -> tuple[Panel, Unit]:
    metrics = [metric for result in results for _, metric in _metrics(result, lines)]
    ends = [_ends(metric, bars) for metric in metrics]
    low, most = min(min(end for end, _ in ends), min(m.low for m in metrics)), max(m.high for m in metrics)
    high = max(most, min(max(end for _, end in ends), _ROOM * most))
    log = len(lines) > 1 and 0 < low < high / _LOG_FROM
    units = _units(results[0], lines)
    unit = formats.pick(units, math.sqrt(low * high) if log else high)
    ticks = log_ticks(low / unit.size, high / unit.size) if log else linear_ticks(high / unit.size)
    return Panel(title, unit.name, _QUANTITIES[units], ticks, log), unit


def _units(result: PointSummary, lines: Mapping[str, str]) -> tuple[Unit, ...]:
    return formats.units_of(next(iter(lines.values())) or result.metric, result.kind)


def _marks(
    result: PointSummary, cut: Slice, lines: Mapping[str, str], bars: str, unit: Unit, panel: int, several: bool
) -> list[Mark]:
    """The marks of a result; without a figure, a mark without height, where the line breaks. several: name the build,
    because the figure has results of several builds."""
    mark = Mark(
        panel=panel,
        x=result.parameters[cut.x],
        series=formats.parameter(cut.color, result.parameters[cut.color]) if cut.color else "",
        measure="",
        verdict=result.verdict,
        phase=result.phase,
    )
    metrics, units = _metrics(result, lines), _units(result, lines)
    if not metrics:
        return [structs.replace(mark, measure=measure) for measure in lines]
    what = [formats.named(axis, result.parameters[axis]) for axis in (cut.x, cut.color, cut.facet) if axis]
    what += [caveats.name_builds(result)] if several else []
    found = []
    for measure, metric in metrics:
        low, high = _ends(metric, bars)
        y = metric.median if measure == "p99" else metric.mean
        found.append(
            structs.replace(
                mark,
                measure=measure,
                y=y / unit.size,
                low=max(low, 0) / unit.size,
                high=high / unit.size,
                each=tuple(value / unit.size for value in metric.values) if metric.n > 1 else None,
                value=formats.quantity(y, units),
                spread=formats.spread(metric, units, interval=measure != "p99"),
                what=", ".join(what),
                point=result.point,
            )
        )
    return found


def _within(mark: Mark, panel: Panel) -> Mark:
    """Cut the bar of a mark at the end of its panel."""
    end = panel.ticks[-1]
    return structs.replace(mark, high=end, cut=True) if mark.high is not None and mark.high > end else mark


def _knees(
    cut: Slice, results: Sequence[PointSummary], ramp: str | None
) -> dict[tuple[str, str], tuple[str, str | None]]:
    """(point, phase) of a knee -> its tooltip, and the label if its line is the highest of a panel. Knees of the
    climbed axis are always marked; knees of other axes only inside the axis."""
    option = parameters()[cut.x]
    if option.role != "x":
        return {}
    lines: dict[tuple[object, ...], list[PointSummary]] = {}
    for result in results:
        lines.setdefault((result.phase, *cut.line_of(result)), []).append(result)
    panels: dict[tuple[object, ...], list[tuple[Knee, list[PointSummary]]]] = {}
    for (phase, _, facet), line in lines.items():
        knee = slices.find_knee(cut.x, line)
        if knee and (knee.inside or option.name == ramp):
            panels.setdefault((phase, facet), []).append((knee, line))
    found = {}
    for knees in panels.values():
        highest = max(knees, key=lambda one: max(r.headline.mean for r in one[1] if r.headline))[0]
        for knee, line in knees:
            at = next(result for result in line if result.headline and (result.count(cut.x) or 1) == knee.value)
            label = f"{100 * SHARE:g} % at {knee.value}" if knee is highest else None
            found[at.point, at.phase] = f"knee: {knee.where}", label
    return found


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


# scaling efficiency


@dataclass(frozen=True)
class _Growth:
    """A line of a scaling figure. without: results without a figure, where the line breaks."""

    panel: str
    series: str
    order: tuple[bool, Value]  # of the line; unknown values first
    scaling: Scaling
    without: tuple[PointSummary, ...]


def scaling_figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """Share of linear growth: a figure for each slice over node counts."""
    origin, found = formats.origin(campaign), []
    for cut in make_slices(campaign, results):
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
                named = [formats.named(cut.facet, facet)] if cut.facet else []
                yield _Growth(
                    ", ".join([*([formats.phase(phase)] if cut.color else []), *named]),
                    formats.parameter(cut.color, color) if cut.color else formats.phase(phase),
                    (color is not None, 0 if color is None else color),
                    scaling,
                    tuple(result for result in line if not result.headline),
                )


def _scaling_figure(cut: Slice, lines: Sequence[_Growth], origin: str) -> Figure:
    steps = [step for line in lines for step in line.scaling.steps]
    highest = max([1.0, *(step.efficiency for step in steps)])
    widest = max(step.range[1] if step.range else 0 for step in steps)
    ticks = linear_ticks(100 * max(highest, min(_ROOM * highest, widest)))
    panels = list(dict.fromkeys(line.panel for line in lines))
    marks = [mark for line in lines for mark in _scaling_marks(cut, line, panels.index(line.panel), ticks[-1])]
    drawn = [result for line in lines for result in (line.scaling.base, *(s.result for s in line.scaling.steps))]
    interval = any(step.range for step in steps)
    notes = [
        "100 %: the rate grows as the count does.",
        "Bars: 95 % confidence interval of the ratio to the smallest count."
        if interval
        else "Too few repetitions for intervals.",
    ]
    if apart := [step for step in steps if step.strangers]:
        hosts = formats.hosts(set().union(*(step.strangers for step in apart)))
        notes.append(f"Diamonds: {human_count(len(apart), 'result')} without nodes of the smallest count ({hosts}).")
    return replace(
        _figure(cut, "efficiency", origin),
        slice="",
        panels=tuple(Panel(title, "%", "share of linear growth", ticks, False) for title in panels),
        series_title=parameters()[cut.color].shown if cut.color else "phase",
        series=tuple(dict.fromkeys(line.series for line in sorted(lines, key=lambda line: line.order))),
        marks=tuple(marks),
        notes=(
            *notes,
            *_verdict_notes(cut, cut.results, drawn, None),
            *([CUT] if any(mark.cut for mark in marks) else []),
        ),
    )


def _scaling_marks(cut: Slice, line: _Growth, panel: int, end: float) -> Iterator[Mark]:
    found, smallest = line.scaling, formats.named(cut.x, line.scaling.smallest)

    def mark(result: PointSummary, **values: object) -> Mark:
        where = f"on {formats.hosts(result.hosts)}" if result.hosts else None
        own = Mark(panel=panel, x=result.parameters[cut.x], series=line.series, measure="", verdict=result.verdict)
        return structs.replace(own, where=where, **values)

    yield mark(found.base, y=100.0, value="100 %", scaling=f"{smallest}, which the others are compared with")
    for step in found.steps:
        low, high = step.range or (None, None)
        yield mark(
            step.result,
            y=100 * step.efficiency,
            low=None if low is None else 100 * low,
            high=None if high is None else min(100 * high, end),
            cut=True if high is not None and 100 * high > end else None,
            apart=bool(step.strangers),
            value=f"{formats.percent(step.efficiency, step.range)} of linear growth",
            scaling=f"{formats.times(step.speedup)} of {smallest}",
        )
    yield from (mark(result) for result in line.without)


# captions


def _name(cut: Slice, quantity: str, results: Sequence[PointSummary], phase: str | None) -> str:
    """Stable name, fit for a file: `throughput-by-threads.<sweep>`."""
    what = quantity
    if quantity == "rate":
        throughput = any(result.metric == "bandwidth_bytes_per_s" for result in results)
        what = "metadata" if cut.kind == "metadata" else "throughput" if throughput else "iops"
    axis = parameters()[cut.x].name.removesuffix("_per_node").replace("_", "-")
    return f"{what}-by-{axis}.{_slug(cut.sweep)[:80]}{'.' + phase if phase else ''}{_slug(cut.suffix)}"


def _title(cut: Slice, quantity: str, results: Sequence[PointSummary], phase: str | None) -> str:
    """`Throughput and IOPS against threads per node`, `Random read: IOPS against queue depth`."""
    if quantity == "efficiency":
        return f"Scaling efficiency over {parameters()[cut.x].shown}"
    what = {"latency": "latency", **_RATES}.get(quantity, "metadata rates")
    if quantity == "rate" and cut.kind == "data":
        metrics = {result.metric for result in results}
        what = " and ".join(text for metric, text in _METRICS.items() if metric in metrics)
    against = f"{what} against {parameters()[cut.x].shown}"
    return f"{formats.phase(phase)}: {against}" if phase else against[0].upper() + against[1:]


def _subtitle(cut: Slice, results: Sequence[PointSummary]) -> str:
    """Conditions, and parameters that are constant and have an effect."""
    drawn = {result.phase for result in results}
    parts = [formats.describe(cut.condition, cut.kind, drawn)]
    options = tools()[cut.condition.tool].options if cut.condition.tool in tools() else {}
    for column, option in parameters().items():
        if (own := options.get(option.name)) and own.phases is not None and not own.phases & drawn:
            continue
        found = distinct([result for result in cut.results if formats.applies(column, result.parameters)], column)
        if cut.kind in option.captions and len(found) == 1 and column not in (cut.x, cut.color, cut.facet):
            parts.append(formats.named(column, found[0]))
    return "; ".join(parts)


def _rate_notes(
    cut: Slice,
    results: Sequence[PointSummary],
    drawable: Sequence[PointSummary],
    bars: str,
    lines: Mapping[str, str],
    largest: Mapping[tuple[object, ...], PointSummary],
) -> Iterator[str]:
    """Explain error bars, and different builds and nodes."""
    if drawable:
        yield BARS[bars]
        if len(lines) > 1 and bars != "none":
            yield "p99: median of the repetitions' 99th percentiles."
    yield from (text for _, text in caveats.warn_unlike_hosts(drawable))
    yield from (text[0].upper() + text[1:] for text in caveats.warn_unlike_builds(drawable))
    if largest:
        ran = [find_strangers(result, largest[result.phase, *cut.line_of(result)]) for result in drawable]
        if apart := list(filter(None, ran)):
            count = human_count(len(apart), "result")
            hosts = formats.hosts(set().union(*apart))
            yield (
                f"Diamonds: {count} of nodes that the largest count did not have ({hosts}), so that a difference may be"
                " the nodes'."
            )
        elif len({result.parameters["nodes"] for result in drawable}) > 1:
            yield "Same nodes: smaller counts ran on nodes of the largest one."
    if lacking := sum(result.lacking for result in drawable):
        incomplete = human_count(sum(bool(result.lacking) for result in drawable), "figure")
        yield f"Incomplete: {incomplete} without all repetitions ({lacking} missing or left)."


def _verdict_notes(
    cut: Slice, results: Sequence[PointSummary], drawn: Sequence[PointSummary], phase: str | None
) -> Iterator[str]:
    """Explain hollow marks, and results that are not drawn, with reasons."""
    if hollow := [result for result in drawn if result.verdict != "valid"]:
        yield f"Hollow: {len(hollow)} not valid ({caveats.join_reasons(hollow)})."
    # a result that counts but lacks this figure has no verdict to report: the tool does not print it
    unused = [result for result in results if not result.used]
    for state in OUTCOMES:
        if own := [result for result in unused if result.state == state]:
            yield f"Not drawn: {len(own)} {state} ({caveats.join_reasons(own)})."
    if without := [result for result in cut.without if phase in (None, result.phase)]:
        yield f"Not drawn: {human_count(len(without), 'result')} of unknown {parameters()[cut.x].shown}."


def _slug(text: str) -> str:
    """Replace characters other than letters, digits, dots, hyphens and underscores, for a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)
