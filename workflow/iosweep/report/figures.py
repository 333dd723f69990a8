"""Results -> figures, their captions and notes. Pure; drawing.py draws them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from msgspec import Struct, structs

from iosweep.analysis import axes, findings, formats
from iosweep.analysis.axes import Bend, Scaling, Slice, slices, strangers
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.formats import Unit
from iosweep.analysis.headline import Rivals
from iosweep.analysis.summary import OUTCOMES, Metric, PointSummary, distinct, known_or_not, phase_order
from iosweep.judge.ramps import SHARE
from iosweep.text import human_count
from iosweep.tools import parameters, tools

#: What a figure shows -> its lines: name -> column. A rate has one line, without a name: the phase's own metric.
_LINES = {
    "rate": {"": ""},
    "throughput": {"": "bandwidth_bytes_per_s"},
    "iops": {"": "ops_per_s"},
    "latency": {"mean": "latency_mean_s", "p99": "latency_p99_s"},
}

#: Latencies that differ by more than this factor get a logarithmic axis.
_LOG_FROM = 50
#: How far an interval makes an axis reach, as a multiple of the highest repetition. Bars beyond are cut, or one point
#: that scatters would press all others flat; intervals with a grade are never cut.
_ROOM = 1.25

_KNEES = (
    f"Ringed: the knee, the first value that reaches {100 * SHARE:g} % of the plateau, of ramps always, of other axes"
    " where one can be shown; the rule is that of the highest line."
)


@dataclass(frozen=True)
class Panel:
    """One plot of a figure: a phase, or a value of the axis that makes panels."""

    title: str
    unit: str  # of the vertical axis
    quantity: str  # title of the vertical axis
    ticks: tuple[float, ...]  # of the vertical axis, in `unit`, from one end to the other
    log: bool  # for latencies that a linear axis would press flat; all other axes start at zero


class Mark(Struct, frozen=True, kw_only=True):
    """A point of a line, in the unit of its panel, and the texts of its tooltip."""

    panel: int
    x: Value | None
    series: str
    measure: str
    verdict: str
    phase: str = ""  # of its result; not for the specification
    y: float | None = None  # None: the line breaks
    low: float | None = None
    high: float | None = None
    cut: bool | None = None  # whether the bar goes on above the panel
    value: str | None = None
    each: tuple[float, ...] | None = None  # of every repetition, where there are several
    spread: str | None = None
    what: str | None = None
    point: str | None = None
    where: str | None = None  # in figures against nodes
    scaling: str | None = None
    apart: bool | None = None  # whether it ran on nodes that the largest count did not have
    knee: str | None = None  # of the mark that is the knee of its line
    label: str | None = None  # the same in few words, of the highest line

    def values(self) -> dict[str, object]:
        """The fields that the specification reads, without those that have no value."""
        own = structs.asdict(self)
        return {name: value for name, value in own.items() if name != "phase" and (value is not None or name in "xy")}


@dataclass(frozen=True)
class Figure:
    """What is drawn. Every value is in the unit of its panel."""

    name: str  # stable, fit for a file name
    title: str
    subtitle: str  # conditions, and what does not vary
    sweep: str
    slice: str  # the same for figures that differ in their quantity alone; "" for one that shows no quantity
    origin: str  # campaign, target and date of the measurement
    panels: tuple[Panel, ...]  # none: there is nothing to draw, and the notes say why
    x_title: str
    x_column: str
    x_values: tuple[float, ...]
    series_title: str  # "" if there is one line
    series: tuple[str, ...]  # names of the lines, in order; [""] if there is one
    with_nodes: bool  # whether values say on which nodes, and whether these are apart from the largest count's
    measures: tuple[str, ...]  # drawn with different dashes: mean, p99; [""] if there is one
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]


def figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """All figures of a campaign, sweep by sweep, with distinct names."""
    found = [*rate_figures(campaign, results), *scaling_figures(campaign, results)]
    order = [sweep.name for sweep in campaign.about.sweeps]
    return _distinct_names(sorted(found, key=lambda figure: order.index(figure.sweep)))


def rate_figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """The figures of a campaign, sweep by sweep, with distinct names.

    Panels are phases, unless a third axis varies: then there is a figure per phase, with a panel per value.
    """
    found: list[Figure] = []
    origin, ramps = formats.origin(campaign), {sweep.name: sweep.ramp for sweep in campaign.about.sweeps}
    for cut in slices(campaign, results):
        phases = _phases(cut.results) if cut.facet else [None]
        for quantity, phase in product(_quantities(cut), phases):
            figure = _figure(cut, quantity, phase, origin, ramps.get(cut.sweep))
            if figure:
                found.append(figure)
    return found


def _quantities(cut: Slice) -> tuple[str, ...]:
    """What is drawn of a slice. Where transfer sizes differ, throughput and IOPS tell two stories of every phase."""
    if cut.kind == "metadata":
        return ("rate",)
    known = parameters()
    varying = (column for column in known if known[column].role != "x" and len(distinct(cut.results, column)) > 1)
    found = (known[column].quantities for column in (cut.x, *varying))
    return next(filter(None, found), ("rate",))


def _figure(cut: Slice, quantity: str, phase: str | None, origin: str, ramp: str | None = None) -> Figure | None:
    """One figure, or None if it would only repeat that there is nothing to draw. ramp: the axis that is climbed."""
    results = [result for result in cut.results if phase in (None, result.phase)]
    lines = _LINES[quantity]
    drawable = [result for result in results if _statistics(result, lines)]
    if quantity in ("latency", "iops") and not drawable:
        return None  # the figure before it says why
    bars = _bars(drawable, quantity)
    ends = _ends(cut, drawable) if cut.x == "nodes" else None
    foreign = None if ends is None else [s for r in drawable if (s := strangers(r, ends[_line(r, cut)][1]))]
    several = bool(findings.several_builds(drawable))
    bends = {} if quantity == "latency" else _knees(cut, results, ramp)
    panels: list[Panel] = []
    marks: list[Mark] = []
    for title, inside in _panels(cut, results, phase):
        if any(result in drawable for result in inside):
            # Panels of one phase share unit and axis, so that they compare at a glance.
            panel, unit = _panel(title, results if phase else inside, quantity, lines, bars)
            for result in inside:
                found = _marks(result, cut, lines, bars, unit, len(panels), ends, several)
                marks += (_bent(_within(mark, panel), bends.get((result.point, result.phase))) for mark in found)
            panels.append(panel)
    return Figure(
        name=figure_name(cut, quantity, phase),
        title=figure_title(cut, quantity, phase),
        subtitle=figure_subtitle(cut, phase),
        sweep=cut.sweep,
        slice=f"{slug(cut.sweep)}.{cut.kind}{cut.suffix}.{cut.x}.{phase or ''}",
        origin=origin,
        panels=tuple(panels),
        x_title=parameters()[cut.x].shown,
        x_column=cut.x,
        x_values=tuple(x for x in distinct(results, cut.x) if not isinstance(x, str)),
        series_title=parameters()[cut.color].shown if cut.color else "",
        series=_series_names(results, cut.color),
        with_nodes=ends is not None,
        measures=tuple(lines),
        marks=tuple(marks),
        notes=(
            *rate_notes(results, drawable, bars, quantity, foreign),
            *unplaced_notes(cut, phase),
            *([CUT] if any(mark.cut for mark in marks) else []),
            *([_KNEES] if bends else []),
        ),
    )


class _Knee(NamedTuple):
    """text: for the tooltip; label: at the rule of the highest line of a panel, else None."""

    text: str
    label: str | None


def _knees(cut: Slice, results: Sequence[PointSummary], ramp: str | None) -> dict[tuple[str, str], _Knee]:
    """(point, phase) -> its mark, of those that are a knee. ramp: the axis that the sweep climbs; its knees are always
    marked, those of other axes only where they can be shown."""
    option = parameters()[cut.x]
    if option.role != "x":
        return {}
    panels: dict[tuple[object, ...], list[tuple[Bend, list[PointSummary]]]] = {}
    for line in _results_of_lines(cut, results).values():
        bend = axes.bend_of(cut.sweep, cut.x, line, line)
        if bend and (bend.shown or option.name == ramp):
            place = (line[0].phase, cut.facet and line[0].parameters[cut.facet])
            panels.setdefault(place, []).append((bend, line))
    found = {}
    for bends in panels.values():
        highest = max(bends, key=lambda one: max(r.headline.mean for r in one[1] if r.headline))[0]
        for bend, line in bends:
            value = bend.values[bend.knee.step]
            at = next(result for result in line if result.headline and (result.count(cut.x) or 1) == value)
            label = f"{100 * SHARE:g} % at {bend.range}" if bend is highest else None
            found[at.point, at.phase] = _Knee(f"knee: {bend.where}", label)
    return found


def _results_of_lines(cut: Slice, results: Sequence[PointSummary]) -> Mapping[tuple[object, ...], list[PointSummary]]:
    found: dict[tuple[object, ...], list[PointSummary]] = {}
    for result in results:
        found.setdefault(_line(result, cut), []).append(result)
    return found


#: A line of a figure against nodes -> its results of the fewest and of the most nodes.
Ends = Mapping[tuple[object, ...], tuple[PointSummary, PointSummary]]


def _line(result: PointSummary, cut: Slice) -> tuple[object, ...]:
    return result.phase, *(result.parameters[axis] for axis in (cut.color, cut.facet) if axis)


def _ends(cut: Slice, drawable: Sequence[PointSummary]) -> Ends:
    found: dict[tuple[object, ...], tuple[PointSummary, PointSummary]] = {}
    for result in sorted(drawable, key=lambda result: result.nodes):
        line = _line(result, cut)
        found[line] = (found.get(line, (result, result))[0], result)
    return found


def _scaling(result: PointSummary, ends: tuple[PointSummary, PointSummary], column: str) -> tuple[str, str, bool]:
    """In a figure against nodes: `Mark.where`, `Mark.scaling` and `Mark.apart`.

    `on node02, among the 4 nodes`, `on node[01-04]`; `92 % of 4 × 1 node`.
    """
    smallest, largest = ends
    fewest, most = (formats.named("nodes", end.nodes) for end in ends)
    apart = bool(strangers(result, largest))
    where = f"on {formats.hosts(result.hosts)}" + (" in turn" if result.in_turn else "")
    if result is not largest:
        where += f", {'not all among' if apart else 'among'} the {most}"
    times = result.nodes / smallest.nodes
    expected = times * smallest.metrics[column].mean
    share = result.metrics[column].mean / expected if expected else 0
    scaling = f"{100 * share:.0f} % of {times:g} × {fewest}" if share and result is not smallest else ""
    return where, scaling, apart


def _panels(cut: Slice, results: Sequence[PointSummary], phase: str | None) -> Iterator[tuple[str, list[PointSummary]]]:
    if phase is None or cut.facet is None:
        for own in _phases(results):
            yield formats.phase(own), [result for result in results if result.phase == own]
    else:
        for value in known_or_not(results, cut.facet):
            inside = [result for result in results if result.parameters[cut.facet] == value]
            yield formats.named(cut.facet, value), inside


def _panel(
    title: str, results: Sequence[PointSummary], quantity: str, lines: Mapping[str, str], bars: str
) -> tuple[Panel, Unit]:
    found = [s for result in results for _, s in _statistics(result, lines)]
    ends = [interval(s, bars) for s in found]
    low, most = min(min(end for end, _ in ends), min(s.low for s in found)), max(s.high for s in found)
    high = max(most, min(max(end for _, end in ends), _ROOM * most))
    log = quantity == "latency" and 0 < low < high / _LOG_FROM
    units = _units(results[0], lines)
    unit = formats.pick(units, math.sqrt(low * high) if log else high)
    ticks = log_ticks(low / unit.size, high / unit.size) if log else linear_ticks(high / unit.size)
    names = {formats.THROUGHPUT: "throughput", formats.IOPS: "IOPS", formats.OPS: "rate", formats.LATENCY: "latency"}
    return Panel(title, unit.name, names[units], ticks, log), unit


def _marks(
    result: PointSummary,
    cut: Slice,
    lines: Mapping[str, str],
    bars: str,
    unit: Unit,
    panel: int,
    ends: Ends | None,
    several: bool,
) -> Iterator[Mark]:
    """The marks of one result; without a figure, a mark without height, at which the line breaks.

    `several`: whether the figure's results are of several builds.
    """
    mark = Mark(
        panel=panel,
        x=result.parameters[cut.x],
        series=formats.parameter(cut.color, result.parameters[cut.color]) if cut.color else "",
        measure="",
        verdict=result.verdict,
        phase=result.phase,
    )
    found = _statistics(result, lines)
    if not found:
        yield from (structs.replace(mark, measure=measure) for measure in lines)
    units = _units(result, lines)
    axes = [axis for axis in (cut.x, cut.color, cut.facet) if axis]
    what = [formats.named(axis, result.parameters[axis]) for axis in axes]
    if several:
        what.append(findings.of_builds(result))
    for measure, statistics in found:
        low, high = interval(statistics, bars)
        y = statistics.median if measure == "p99" else statistics.mean
        column = lines[measure] or result.metric
        nodes = (None, None, None) if ends is None else _scaling(result, ends[_line(result, cut)], column)
        where, scaling, apart = nodes
        yield structs.replace(
            mark,
            measure=measure,
            y=y / unit.size,
            low=max(low, 0) / unit.size,
            high=high / unit.size,
            each=tuple(value / unit.size for value in statistics.values) if statistics.n > 1 else None,
            value=formats.quantity(y, units),
            spread=formats.spread(statistics, units, interval=measure != "p99"),
            what=", ".join(what),
            point=result.point,
            where=where,
            scaling=scaling,
            apart=apart,
        )


def _within(mark: Mark, panel: Panel) -> Mark:
    """A mark whose bar ends where its panel does."""
    end = panel.ticks[-1]
    return structs.replace(mark, high=end, cut=True) if mark.high is not None and mark.high > end else mark


def _bent(mark: Mark, knee: _Knee | None) -> Mark:
    return structs.replace(mark, knee=knee.text, label=knee.label) if knee else mark


def interval(statistics: Metric, bars: str) -> tuple[float, float]:
    """Ends of the error bar, in the column's unit."""
    if bars == "ci95" and statistics.interval is not None:
        return statistics.interval.low, statistics.interval.high
    return statistics.low, statistics.high


def _bars(drawable: Sequence[PointSummary], quantity: str) -> str:
    """Which error bars all results of a figure can have: where an interval says nothing, what was seen.

    A percentile has no interval.
    """
    if all(result.used < 2 for result in drawable):
        return "none"
    if quantity == "latency":
        return "range"
    found = [statistics for result in drawable for _, statistics in _statistics(result, _LINES[quantity])]
    return "ci95" if all(statistics.ci95_share is not None for statistics in found) else "range"


def linear_ticks(largest: float) -> tuple[float, ...]:
    """Three to six round numbers from zero to at least the largest value."""
    largest = largest if largest > 0 else 1.0
    power = 10.0 ** math.floor(math.log10(largest / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if largest <= 5 * power * factor)
    return tuple(step * i for i in range(math.ceil(largest / step) + 1))


def log_ticks(smallest: float, largest: float) -> tuple[float, ...]:
    """Powers of ten from at most the smallest to at least the largest value."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    return tuple(10.0**power for power in range(first, last + 1))


def _statistics(result: PointSummary, lines: Mapping[str, str]) -> list[tuple[str, Metric]]:
    found = ((name, result.metrics.get(column or result.metric)) for name, column in lines.items())
    return [(name, statistics) for name, statistics in found if statistics]


def _units(result: PointSummary, lines: Mapping[str, str]) -> tuple[Unit, ...]:
    return formats.units_of(next(iter(lines.values())) or result.metric, result.kind)


def _phases(results: Sequence[PointSummary]) -> list[str]:
    return sorted({result.phase for result in results}, key=phase_order)


def _series_names(results: Sequence[PointSummary], color: str | None) -> tuple[str, ...]:
    """Names of the lines in the order of their values; results without a value come first."""
    if color is None:
        return ("",)
    found = {result.parameters[color] for result in results}
    ordered = sorted(found, key=lambda value: (value is not None, value))
    return tuple(formats.parameter(color, value) for value in ordered)


def _distinct_names(found: Sequence[Figure]) -> list[Figure]:
    """Figures whose names differ, although sweeps may differ only in what a file name cannot hold."""
    seen: dict[str, int] = {}
    distinct = []
    for figure in found:
        key = figure.name.lower()  # some file systems do not tell cases apart
        seen[key] = seen.get(key, 0) + 1
        distinct.append(figure if seen[key] == 1 else replace(figure, name=f"{figure.name}-{seen[key]}"))
    return distinct


#: What a figure of rates shows: the phase's own metric, or one metric of all its phases.
_RATES = {"throughput": "throughput", "iops": "IOPS"}

BARS = {
    "ci95": "Bars: 95 % confidence interval over the repetitions. Dots: each of them.",
    "range": "Bars: smallest and largest repetition. Dots: each of them.",
    "none": "One repetition each, so there are no error bars.",
}
#: What is said of bars that a panel does not hold.
CUT = "Arrows: the interval goes on above; its width is in the table."


def figure_name(cut: Slice, quantity: str, phase: str | None) -> str:
    """Stable name, fit for a file: `throughput-by-threads.<sweep>`."""
    if quantity in ("latency", "efficiency"):
        what = quantity
    elif cut.kind == "metadata":
        what = "metadata"
    elif quantity in _RATES:
        what = quantity
    else:
        what = "throughput" if "bandwidth_bytes_per_s" in _metrics(cut, phase) else "iops"
    axis = parameters()[cut.x].name.removesuffix("_per_node").replace("_", "-")
    return f"{what}-by-{axis}.{slug(cut.sweep)[:80]}{'.' + phase if phase else ''}{slug(cut.suffix)}"


def figure_title(cut: Slice, quantity: str, phase: str | None) -> str:
    """`Throughput and IOPS against threads per node`, `Random read: IOPS against queue depth`."""
    if quantity == "latency":
        what = "latency"
    elif cut.kind == "metadata":
        what = "metadata rates"
    elif quantity in _RATES:
        what = _RATES[quantity]
    else:
        rates = {"bandwidth_bytes_per_s": "throughput", "ops_per_s": "IOPS"}
        metrics = _metrics(cut, phase)
        what = " and ".join(text for metric, text in rates.items() if metric in metrics)
    against = f"{what} against {parameters()[cut.x].shown}"
    return f"{formats.phase(phase)}: {against}" if phase else against[0].upper() + against[1:]


def figure_subtitle(cut: Slice, phase: str | None = None) -> str:
    """Conditions, and the parameters that do not vary; of one phase, or of all, those that apply to it."""
    drawn = {result.phase for result in cut.results if phase in (None, result.phase)}
    parts = [formats.describe(cut.condition, cut.kind, drawn)]
    options = tools()[cut.condition.tool].options if cut.condition.tool in tools() else {}
    for column, option in parameters().items():
        if (own := options.get(option.name)) and own.phases is not None and not own.phases & drawn:
            continue
        found = distinct([result for result in cut.results if formats.applies(column, result.parameters)], column)
        if cut.kind in option.captions and len(found) == 1 and column not in (cut.x, cut.color, cut.facet):
            parts.append(formats.named(column, found[0]))
    return "; ".join(parts)


def rate_notes(
    results: Sequence[PointSummary],
    drawable: Sequence[PointSummary],
    bars: str,
    quantity: str,
    strangers: Sequence[set[str]] | None,
) -> Iterator[str]:
    """What the error bars are, what is hollow, and what is not drawn, with the reasons.

    `strangers`: for each result that ran on nodes which the largest count did not have, those nodes; None where a
    figure is not against nodes.
    """
    if drawable:
        yield BARS[bars]
        if quantity == "latency" and bars != "none":
            yield "p99: median of the repetitions' 99th percentiles."
    for _, text in findings.unlike_hosts(drawable):
        yield text
    for text in findings.unlike_builds(drawable):
        yield text[0].upper() + text[1:]
    if strangers:
        ran = f"Diamonds: {human_count(len(strangers), 'result')} of nodes that the largest count did not have"
        yield f"{ran} ({formats.hosts(set().union(*strangers))}), so that a difference may be the nodes'."
    elif strangers is not None and len({result.parameters["nodes"] for result in drawable}) > 1:
        yield "Same nodes: smaller counts ran on nodes of the largest one."
    lacking = sum(result.lacking for result in drawable)
    if lacking:
        incomplete = human_count(sum(bool(result.lacking) for result in drawable), "figure")
        yield f"Incomplete: {incomplete} without all repetitions ({lacking} missing or left)."
    yield from verdict_notes(results, drawable)


def verdict_notes(results: Sequence[PointSummary], drawable: Sequence[PointSummary]) -> Iterator[str]:
    """What is hollow, and what is not drawn, with the reasons."""
    hollow = [result for result in drawable if result.verdict != "valid"]
    if hollow:
        yield f"Hollow: {len(hollow)} not valid ({findings.reasons(hollow)})."
    # A result that counts but lacks this figure is the tool's doing, not a verdict.
    unused = [result for result in results if not result.used]
    for state in OUTCOMES:
        own = [result for result in unused if result.state == state]
        if own:
            yield f"Not drawn: {len(own)} {state} ({findings.reasons(own)})."


def unplaced_notes(cut: Slice, phase: str | None = None) -> Iterator[str]:
    """What is not drawn because its value on the horizontal axis is not known."""
    without = [result for result in cut.without if phase in (None, result.phase)]
    if without:
        yield f"Not drawn: {human_count(len(without), 'result')} of unknown {parameters()[cut.x].shown}."


def slug(text: str) -> str:
    """Text as part of a file name: letters, digits, dots, hyphens and underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def _metrics(cut: Slice, phase: str | None) -> set[str]:
    return {result.metric for result in cut.results if phase in (None, result.phase)}


_ABOUT = "100 %: the rate grows as the count does."
_BARS = {
    True: "Bars: 95 % confidence interval of the ratio to the smallest count.",
    False: "Too few repetitions for intervals.",
}


@dataclass(frozen=True)
class Grown:
    """A line of a slice that grows. without: its results that have no figure, where the line breaks."""

    phase: str
    color: Value | None
    facet: Value | None
    scaling: Scaling
    without: tuple[PointSummary, ...]

    @property
    def drawn(self) -> list[PointSummary]:
        return [self.scaling.base, *(step.result for step in self.scaling.steps)]


def scaling_figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """A figure for each slice over node counts."""
    origin = formats.origin(campaign)
    found = []
    for cut in slices(campaign, results):
        if cut.x == "nodes" and (lines := [*_scaling_lines(cut)]):
            found.append(_scaling_figure(cut, lines, origin))
    return found


def _scaling_lines(cut: Slice) -> Iterator[Grown]:
    for phase in sorted({result.phase for result in cut.results}, key=phase_order):
        own = [result for result in cut.results if result.phase == phase and result.headline]
        compared = Rivals(own, own[0].metric) if own else None
        groups: dict[tuple[Value | None, Value | None], list[tuple[int, PointSummary]]] = {}
        for result in own:
            color, facet = (result.parameters[axis] if axis else None for axis in (cut.color, cut.facet))
            groups.setdefault((color, facet), []).append((result.count(cut.x) or 1, result))
        for (color, facet), members in groups.items():
            line = sorted(members, key=lambda one: one[0])
            if compared and (found := axes.scale(cut.x, line, compared)):
                fixed = {axis: value for axis, value in ((cut.color, color), (cut.facet, facet)) if axis}
                without = (r for r in cut.results if r.phase == phase and not r.headline)
                broken = tuple(r for r in without if all(r.parameters[axis] == fixed[axis] for axis in fixed))
                yield Grown(phase, color, facet, found, broken)


def _scaling_figure(cut: Slice, lines: Sequence[Grown], origin: str) -> Figure:
    """One panel with a line for each phase, unless another axis makes the lines: then panels are phases."""
    steps = [step for line in lines for step in line.scaling.steps]
    highest = max([1.0, *(step.efficiency for step in steps)])
    widest = max(step.range[1] if step.range else 0 for step in steps)
    ticks = linear_ticks(100 * max(highest, min(1.25 * highest, widest)))
    panels = list(dict.fromkeys(_panel_title(cut, line) for line in lines))
    marks = [
        mark for line in lines for mark in _scaling_marks(cut, line, panels.index(_panel_title(cut, line)), ticks[-1])
    ]
    return Figure(
        name=figure_name(cut, "efficiency", None),
        title=f"Scaling efficiency over {parameters()[cut.x].shown}",
        subtitle=figure_subtitle(cut),
        sweep=cut.sweep,
        slice="",
        origin=origin,
        panels=tuple(Panel(title, "%", "share of linear growth", ticks, False) for title in panels),
        x_title=parameters()[cut.x].shown,
        x_column=cut.x,
        x_values=tuple(x for x in distinct(cut.results, cut.x) if not isinstance(x, str)),
        series_title=parameters()[cut.color].shown if cut.color else "phase",
        series=tuple(dict.fromkeys(_line_name(cut, line) for line in sorted(lines, key=_place))),
        with_nodes=True,
        measures=("",),
        marks=tuple(marks),
        notes=(
            *_scaling_notes(cut, lines),
            *([CUT] if any(mark.cut for mark in marks) else []),
        ),
    )


def _scaling_notes(cut: Slice, lines: Sequence[Grown]) -> Iterator[str]:
    steps = [step for line in lines for step in line.scaling.steps]
    yield _ABOUT
    yield _BARS[any(step.range for step in steps)]
    strange = [step for step in steps if step.strangers]
    if strange:
        hosts = formats.hosts(set().union(*(step.strangers for step in strange)))
        yield f"Diamonds: {human_count(len(strange), 'result')} without nodes of the smallest count ({hosts})."
    yield from verdict_notes(cut.results, [result for line in lines for result in line.drawn])
    yield from unplaced_notes(cut)


def _panel_title(cut: Slice, line: Grown) -> str:
    facet = formats.named(cut.facet, line.facet) if cut.facet else ""
    return ", ".join(filter(None, (formats.phase(line.phase) if cut.color else "", facet)))


def _line_name(cut: Slice, line: Grown) -> str:
    return formats.parameter(cut.color, line.color) if cut.color else formats.phase(line.phase)


def _place(line: Grown) -> tuple[bool, Value]:
    """Sorting key of lines by their color; a result without a value comes first."""
    return line.color is not None, 0 if line.color is None else line.color


def _scaling_marks(cut: Slice, line: Grown, panel: int, end: float) -> Iterator[Mark]:
    found, smallest = line.scaling, formats.named(cut.x, line.scaling.smallest)
    base = Mark(panel=panel, x=found.smallest, series=_line_name(cut, line), measure="", verdict=found.base.verdict)
    yield _named(structs.replace(base, y=100.0), found.base, "100 %", f"{smallest}, which the others are compared with")
    for step in found.steps:
        low, high = step.range or (None, None)
        mark = structs.replace(
            base,
            x=step.count,
            verdict=step.result.verdict,
            y=100 * step.efficiency,
            low=None if low is None else 100 * low,
            high=None if high is None else min(100 * high, end),
            cut=True if high is not None and 100 * high > end else None,
            apart=bool(step.strangers),
        )
        value = f"{formats.percent(step.efficiency, step.range)} of linear growth"
        yield _named(mark, step.result, value, f"{formats.times(step.speedup)} of {smallest}")
    for result in line.without:
        yield structs.replace(base, x=result.parameters[cut.x], verdict=result.verdict)


def _named(mark: Mark, result: PointSummary, value: str, scaled: str) -> Mark:
    where = f"on {formats.hosts(result.hosts)}" if result.hosts else None
    return structs.replace(mark, value=value, scaling=scaled, where=where)
