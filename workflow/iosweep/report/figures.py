"""Results -> figures and their content. Pure; vega_lite.py draws them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from msgspec import Struct, structs

from iosweep.analysis import axes, findings, formats
from iosweep.analysis.axes import Bend, Slice, slices, strangers
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.formats import Unit
from iosweep.analysis.summary import Metric, PointSummary, distinct, known_or_not, phase_order
from iosweep.judge.knee import SHARE
from iosweep.report import captions
from iosweep.tools import parameters

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
    return distinct_names(found)


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
        name=captions.name(cut, quantity, phase),
        title=captions.title(cut, quantity, phase),
        subtitle=captions.subtitle(cut, phase),
        sweep=cut.sweep,
        slice=f"{captions.slug(cut.sweep)}.{cut.kind}{cut.suffix}.{cut.x}.{phase or ''}",
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
            *captions.notes(results, drawable, bars, quantity, foreign),
            *captions.without_place(cut, phase),
            *([captions.CUT] if any(mark.cut for mark in marks) else []),
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
    expected = times * smallest.statistics[column].mean
    share = result.statistics[column].mean / expected if expected else 0
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
    found = ((name, result.statistics.get(column or result.metric)) for name, column in lines.items())
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


def distinct_names(found: Sequence[Figure]) -> list[Figure]:
    """Figures whose names differ, although sweeps may differ only in what a file name cannot hold."""
    seen: dict[str, int] = {}
    distinct = []
    for figure in found:
        key = figure.name.lower()  # some file systems do not tell cases apart
        seen[key] = seen.get(key, 0) + 1
        distinct.append(figure if seen[key] == 1 else replace(figure, name=f"{figure.name}-{seen[key]}"))
    return distinct
