"""How a sweep scales with nodes: a figure of the share of linear growth. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import structs

from iosweep.analysis import axes, formats, headline
from iosweep.analysis.axes import Scaling, Slice, slices
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.headline import Failed
from iosweep.analysis.summary import PointSummary, distinct, phase_order
from iosweep.report import captions
from iosweep.report.figures import Figure, Mark, Panel, linear_ticks
from iosweep.text import human_count
from iosweep.tools import parameters

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


def figures(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """A figure for each slice over node counts."""
    fails, origin = headline.failed_checks(campaign.checks), formats.origin(campaign)
    found = []
    for cut in slices(campaign, results):
        if cut.x == "nodes" and (lines := [*_lines(cut, fails)]):
            found.append(_figure(cut, lines, origin))
    return found


def _lines(cut: Slice, fails: Failed) -> Iterator[Grown]:
    for phase in sorted({result.phase for result in cut.results}, key=phase_order):
        own = [result for result in cut.results if result.phase == phase and result.headline]
        compared = headline.rivals(own, own[0].metric, fails) if own else None
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


def _figure(cut: Slice, lines: Sequence[Grown], origin: str) -> Figure:
    """One panel with a line for each phase, unless another axis makes the lines: then panels are phases."""
    steps = [step for line in lines for step in line.scaling.steps]
    highest = max([1.0, *(step.efficiency for step in steps)])
    widest = max(step.range[1] if step.range else 0 for step in steps)
    ticks = linear_ticks(100 * max(highest, min(1.25 * highest, widest)))
    panels = list(dict.fromkeys(_panel(cut, line) for line in lines))
    marks = [mark for line in lines for mark in _marks(cut, line, panels.index(_panel(cut, line)), ticks[-1])]
    return Figure(
        name=captions.name(cut, "efficiency", None),
        title=f"Scaling efficiency over {parameters()[cut.x].shown}",
        subtitle=captions.subtitle(cut),
        sweep=cut.sweep,
        slice="",
        origin=origin,
        panels=tuple(Panel(title, "%", "share of linear growth", ticks, False) for title in panels),
        x_title=parameters()[cut.x].shown,
        x_column=cut.x,
        x_values=tuple(x for x in distinct(cut.results, cut.x) if not isinstance(x, str)),
        series_title=parameters()[cut.color].shown if cut.color else "phase",
        series=tuple(dict.fromkeys(_series(cut, line) for line in sorted(lines, key=_place))),
        with_nodes=True,
        measures=("",),
        marks=tuple(marks),
        notes=(
            *_notes(cut, lines),
            *([captions.CUT] if any(mark.cut for mark in marks) else []),
        ),
    )


def _notes(cut: Slice, lines: Sequence[Grown]) -> Iterator[str]:
    steps = [step for line in lines for step in line.scaling.steps]
    yield _ABOUT
    yield _BARS[any(step.range for step in steps)]
    strange = [step for step in steps if step.strangers]
    if strange:
        hosts = formats.hosts(set().union(*(step.strangers for step in strange)))
        yield f"Diamonds: {human_count(len(strange), 'result')} without nodes of the smallest count ({hosts})."
    yield from captions.of_verdicts(cut.results, [result for line in lines for result in line.drawn])
    yield from captions.without_place(cut)


def _panel(cut: Slice, line: Grown) -> str:
    facet = formats.named(cut.facet, line.facet) if cut.facet else ""
    return ", ".join(filter(None, (formats.phase(line.phase) if cut.color else "", facet)))


def _series(cut: Slice, line: Grown) -> str:
    return formats.parameter(cut.color, line.color) if cut.color else formats.phase(line.phase)


def _place(line: Grown) -> tuple[bool, Value]:
    """Sorting key of lines by their color; a result without a value comes first."""
    return line.color is not None, 0 if line.color is None else line.color


def _marks(cut: Slice, line: Grown, panel: int, end: float) -> Iterator[Mark]:
    found, smallest = line.scaling, formats.named(cut.x, line.scaling.smallest)
    base = Mark(panel=panel, x=found.smallest, series=_series(cut, line), measure="", verdict=found.base.verdict)
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
