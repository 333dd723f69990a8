"""Figures of two campaigns on one another: those of the results that both planned. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from iosweep.analysis import formats
from iosweep.analysis.aggregate import Result
from iosweep.analysis.versus import Versus
from iosweep.report import knee_marks
from iosweep.report.figures import Figure, Mark, Panel, figures, linear_ticks, log_ticks

#: Size of a unit of a panel, in SI base units.
_UNITS = {
    unit.name: unit.size for units in (formats.THROUGHPUT, formats.IOPS, formats.OPS, formats.LATENCY) for unit in units
}


def overlaid(versus: Versus) -> list[Figure]:
    """The figures of the first campaign's sweeps, with both campaigns in each, and the panels that both have.

    Where a figure has one line, campaigns differ in color, otherwise in dashes and shapes. A line breaks where its
    campaign has no figure.
    """
    pairs = versus.found.matching.pairs
    other = [replace(pair.b, point=pair.a.point, parameters=pair.a.parameters) for pair in pairs]
    first, second = (_figures(versus, results) for results in ([pair.a for pair in pairs], other))
    return [
        _together(figure, second[name], versus.names)
        for name, figure in first.items()
        if name in second and set(_titles(figure)) & set(_titles(second[name]))
    ]


def _figures(versus: Versus, results: Sequence[Result]) -> Mapping[str, Figure]:
    column = versus.found.column
    measure = ("p99" if "p99" in column else "mean") if "latency" in column else ""
    found = {}
    for figure in figures(versus.a.campaign, results):
        if measure in figure.measures:
            marks = tuple(mark for mark in figure.marks if mark.measure == measure)
            found[figure.name] = replace(figure, marks=marks)
    return found


def _titles(figure: Figure) -> list[str]:
    return [panel.title for panel in figure.panels]


def _together(a: Figure, b: Figure, names: tuple[str, str]) -> Figure:
    others = {panel.title: panel for panel in b.panels}
    panels = [_panel(one, others[one.title]) for one in a.panels if one.title in others]
    several = len(a.series) > 1
    marks = [mark for figure, name in zip((a, b), names, strict=True) for mark in _marks(figure, name, panels, several)]
    return replace(
        a,
        subtitle=f"{names[0]} and {names[1]}: {a.subtitle}",
        origin=f"{a.origin} Compared: {', '.join(names)}.",
        panels=tuple(panels),
        series_title=a.series_title if several else "campaign",
        series=a.series if several else names,
        with_nodes=False,
        measures=names if several else ("",),
        marks=tuple(marks),
        notes=tuple(_notes(a, b, names)),
    )


def _panel(a: Panel, b: Panel) -> Panel:
    """The panel that both fit in: that of the higher figures, further down where an axis is logarithmic."""
    high, other = sorted((a, b), key=lambda panel: -panel.ticks[-1] * _UNITS[panel.unit])
    if not (a.log and b.log):
        return high if not high.log else replace(high, log=False, ticks=linear_ticks(high.ticks[-1]))
    scale = _UNITS[other.unit] / _UNITS[high.unit]
    return replace(high, ticks=log_ticks(min(high.ticks[0], other.ticks[0] * scale), high.ticks[-1]))


def _marks(figure: Figure, name: str, panels: Sequence[Panel], several: bool) -> Iterator[Mark]:
    places = {panel.title: i for i, panel in enumerate(panels)}
    for mark in figure.marks:
        own = figure.panels[mark.panel]
        if (place := places.get(own.title)) is None:
            continue
        scale = _UNITS[own.unit] / _UNITS[panels[place].unit]
        yield structs.replace(
            mark,
            panel=place,
            series=mark.series if several else name,
            measure=name if several else "",
            y=None if mark.y is None else mark.y * scale,
            low=None if mark.low is None else mark.low * scale,
            high=None if mark.high is None else mark.high * scale,
            each=None if mark.each is None else tuple(value * scale for value in mark.each),
            what=", ".join(filter(None, ["" if several else name, mark.what])),
            where=None,
            scaling=None,
            apart=None,
            knee=None,
            label=None,
        )


def _notes(a: Figure, b: Figure, names: tuple[str, str]) -> Iterator[str]:
    """What is true of both, then what is of one alone; knees are not marked here."""
    a, b = (replace(own, notes=tuple(note for note in own.notes if note != knee_marks.NOTE)) for own in (a, b))
    yield from (note for note in a.notes if note in b.notes)
    for figure, others, name in ((a, b, names[0]), (b, a, names[1])):
        yield from (f"{name}: {note}" for note in figure.notes if note not in others.notes)
