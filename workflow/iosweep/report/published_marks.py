"""Published figures in figures: a cross beside the result that compares, or a line without a place on the axis. Pure.

What does not compare is not drawn; the section of references says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from msgspec import structs

from iosweep.analysis import formats, references
from iosweep.analysis.aggregate import Result
from iosweep.analysis.data import Campaign
from iosweep.analysis.references import Beside
from iosweep.config.published import Reference
from iosweep.report.figures import Figure, Mark, Panel, linear_ticks, log_ticks
from iosweep.report.references import ratio_text
from iosweep.tools import parameters

#: An axis ends at this multiple of its highest tick at the latest: a published figure further up would press all others
#: flat, and is said in the caption.
_REACH = 3.0
#: What a panel shows -> measure of its marks -> column.
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "throughput": {"": "bandwidth_bytes_per_s"},
    "IOPS": {"": "ops_per_s"},
    "rate": {"": "ops_per_s"},
    "latency": {"mean": "latency_mean_s", "p99": "latency_p99_s"},
}
_UNITS = {u.name: u.size for units in (formats.THROUGHPUT, formats.IOPS, formats.OPS, formats.LATENCY) for u in units}


class Published(NamedTuple):
    """value: in the SI base unit of its column; conditions: names of the axes and options that the source gives."""

    value: float
    name: str  # beside the mark: `aws`
    printed: str  # `AWS: 8.9 GiB/s`
    source: str
    share: str
    conditions: frozenset[str]


#: (point, phase, column) -> what compares with that figure.
Known = Mapping[tuple[str, str, str], Sequence[Published]]


def of(campaign: Campaign, results: Sequence[Result]) -> Known:
    """All published figures that compare with a result. Ratios within a source are no figures to draw."""
    found: dict[tuple[str, str, str], list[Published]] = {}
    for reference in campaign.about.references:
        for one in references.beside(reference, results, campaign.about.sweeps):
            if one.result and one.ratio and not one.reason and not one.published.relative_to:
                key = (one.result.point, one.result.phase, one.published.about.column)
                found.setdefault(key, []).append(_published(reference, one))
    return found


def _published(reference: Reference, one: Beside) -> Published:
    figure = one.published
    system = reference.systems.get(figure.system, figure.system) if figure.system else ""
    return Published(
        figure.value,
        figure.system or reference.name,
        f"{system or reference.name}: {figure.printed}",
        reference.source,
        ratio_text(figure, one.ratio) if one.ratio else "",
        frozenset((*figure.where, *figure.setup)),
    )


def drawn(figure: Figure, known: Known) -> Figure:
    """A figure with what compares with its results; its axes reach up to that, within limits."""
    if not known or not figure.panels:
        return figure
    own = [_of_mark(mark, figure.panels[mark.panel], known) for mark in figure.marks]
    if not any(own):
        return figure
    panels = tuple(_reaching(panel, _values(figure, own, number)) for number, panel in enumerate(figure.panels))
    axis = parameters()[figure.x_column].name
    marks, beyond, sources = [], dict[str, None](), dict[str, None]()
    for mark, found in zip(figure.marks, own, strict=True):
        size, end = _UNITS.get(panels[mark.panel].unit, 1.0), panels[mark.panel].ticks[-1]
        inside = [one for one in found if one.value / size <= end]
        beyond |= dict.fromkeys(f"{one.printed} ({mark.what})" for one in found if one not in inside)
        sources |= dict.fromkeys(one.source for one in inside)
        marks.append(_with(mark, inside, size, axis) if inside else mark)
    return replace(
        figure, panels=panels, marks=tuple(marks), notes=(*figure.notes, *_notes(marks, list(sources), list(beyond)))
    )


def _notes(marks: Sequence[Mark], sources: Sequence[str], beyond: Sequence[str]) -> Iterator[str]:
    kinds = {across for mark in marks for across in mark.across or ()}
    looks = {False: "crosses", True: "dashed lines where the source does not say where on this axis"}
    if kinds:
        how = " and ".join(looks[kind] for kind in sorted(kinds))
        yield f"Published figures that compare ({how}): {'; '.join(sources)}."
    if beyond:
        yield f"Published, beyond this axis: {'; '.join(beyond)}."


def _of_mark(mark: Mark, panel: Panel, known: Known) -> Sequence[Published]:
    column = _COLUMNS.get(panel.quantity, {}).get(mark.measure)
    return known.get((mark.point or "", mark.phase, column), ()) if column else ()


def _values(figure: Figure, own: Sequence[Sequence[Published]], number: int) -> list[float]:
    """The published values of a panel, in its unit."""
    size = _UNITS.get(figure.panels[number].unit, 1.0)
    there = zip(figure.marks, own, strict=True)
    return [one.value / size for mark, found in there if mark.panel == number for one in found]


def _reaching(panel: Panel, values: Sequence[float]) -> Panel:
    end = panel.ticks[-1]
    near = [value for value in values if value <= _REACH * end]
    if panel.log and near and (min(near) < panel.ticks[0] or max(near) > end):
        return replace(panel, ticks=log_ticks(min(*near, panel.ticks[0]), max(*near, end)))
    return replace(panel, ticks=linear_ticks(max(near))) if not panel.log and near and max(near) > end else panel


def _with(mark: Mark, found: Sequence[Published], size: float, axis: str) -> Mark:
    return structs.replace(
        mark,
        there=tuple(one.value / size for one in found),
        named=tuple(f"{one.name} {mark.measure}".rstrip() for one in found),
        printed=tuple(one.printed for one in found),
        source=tuple(f"published: {one.source}; {one.share}" for one in found),
        across=tuple(axis not in one.conditions for one in found),
    )
