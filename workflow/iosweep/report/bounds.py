"""How much the page carries, and what is left out of a campaign that has more. Pure.

A page of everything would take minutes to make and to open for a campaign of 60,000 rows. All of it is in the tables
and in figures/, and the page says where it has only a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from iosweep.analysis.grids import Cover
from iosweep.report import benchmark_tables, scaling_figures
from iosweep.report.figures import Figure, Mark
from iosweep.text import human_count

#: Maximum size of a report.
MOST_BYTES = 8_000_000

Item = TypeVar("Item")


@dataclass(frozen=True)
class Limits:
    """What a page has at most. marks: of all figures; cells: of the maps of coverage; dots: of the strips of the run
    order; tables: of each kind; rows, columns: of each of them."""

    results: int = 4_000
    marks: int = 9_000
    figures: int = 100
    cells: int = 12_000
    dots: int = 12_000
    tables: int = 60
    rows: int = 100
    columns: int = 40

    def halved(self) -> Limits:
        """For a page that is too large nonetheless: texts of results have any length."""
        return replace(self, **{own.name: max(8, getattr(self, own.name) // 2) for own in fields(self)})


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of them (at least two), evenly chosen, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / (max(most, 2) - 1)
    return [items[round(i * step)] for i in range(max(most, 2))]


def drawings(figures: Iterable[Figure], limits: Limits) -> list[Figure]:
    """The figures of the page. Those with the most marks have fewer of them, and the last of many figures none."""
    found = list(figures)
    sizes = [len(figure.marks) for figure in found if figure.panels][: limits.figures]
    cap = _cap(sizes, limits.marks)
    drawn = 0
    for i, figure in enumerate(found):
        if figure.panels:
            drawn += 1
            found[i] = thinned(figure, cap) if drawn <= limits.figures else _elsewhere(figure)
    return found


def _cap(sizes: Iterable[int], most: int) -> int:
    """The largest size such that no more than `most` remain if each is cut down to it."""
    left, room = sorted(sizes), most
    while left:
        if left[0] * len(left) > room:
            return room // len(left)
        room -= left.pop(0)
    return most


def thinned(figure: Figure, most: int) -> Figure:
    """A figure with about so many marks: fewer values of the horizontal axis, with the ends, and as far as there is
    room the highest value of each panel and the knees. One whose lines alone are more is not drawn."""
    if len(figure.marks) <= most:
        return figure
    at: dict[object, list[Mark]] = {}
    for mark in figure.marks:
        at.setdefault(mark.x, []).append(mark)
    values = [x for x in figure.x_values if x in at]
    each = max(map(len, at.values()))
    if len(values) < len(at) or most < 2 * each:  # an axis of words, or too many lines
        return _elsewhere(figure)
    highest = _highest(figure)
    chosen = _kept(figure, values, highest, most // each)
    among = ", the highest of each panel among them" if chosen.issuperset(highest) else ""
    told = f"Drawn here: {len(chosen):,} of {len(values):,} values of {figure.x_title}{among}; {_file(figure)} all."
    return replace(
        figure,
        marks=tuple(mark for mark in figure.marks if mark.x in chosen),
        x_values=tuple(x for x in figure.x_values if x in chosen),
        notes=(*figure.notes, told),
    )


def _highest(figure: Figure) -> list[object]:
    """Where each measure of each panel has its highest value."""
    best: dict[tuple[int, str], Mark] = {}
    for mark in figure.marks:
        key = mark.panel, mark.measure
        if mark.y is not None and (key not in best or mark.y > (best[key].y or 0)):
            best[key] = mark
    return [mark.x for mark in best.values()]


def _kept(figure: Figure, values: Sequence[float], highest: Sequence[object], most: int) -> set[object]:
    wanted = [values[0], values[-1], *highest, *(mark.x for mark in figure.marks if mark.knee)]
    chosen: set[object] = set(list(dict.fromkeys(wanted))[: max(2, most)])
    rest = [x for x in values if x not in chosen]
    return chosen | set(spread(rest, most - len(chosen)) if most - len(chosen) > 1 else ())


def _file(figure: Figure) -> str:
    return f"figures/{figure.name}.svg has"


def _elsewhere(figure: Figure) -> Figure:
    told = f"Not drawn here, which would make this page too large: {_file(figure)} it."
    return replace(figure, panels=(), marks=(), notes=(*figure.notes, told))


def scaling(found: dict[str, list[scaling_figures.Table]], limits: Limits) -> dict[str, list[scaling_figures.Table]]:
    """The tables of scaling efficiency: of some of the counts, and of the first lines."""
    room, cut = limits.tables, {}
    for sweep, tables in found.items():
        cut[sweep] = [_scaling(table, limits) for table in tables[:room]]
        room -= len(cut[sweep])
    return cut


def _scaling(table: scaling_figures.Table, limits: Limits) -> scaling_figures.Table:
    places = spread(range(len(table.columns)), limits.columns)
    rows = spread(table.rows, limits.rows)
    cut = [
        f"{len(own):,} of {human_count(len(whole), one)}"
        for own, whole, one in ((places, table.columns, "count"), (rows, table.rows, "line"))
        if len(own) < len(whole)
    ]
    note = f"Shown: {' and '.join(cut)}, evenly chosen." if cut else ""
    return replace(
        table,
        columns=tuple(table.columns[i] for i in places),
        rows=tuple((name, tuple(cells[i] for i in places)) for name, cells in rows),
        note=" ".join(filter(None, (table.note, note))),
    )


def tables(found: Sequence[benchmark_tables.Table], limits: Limits) -> list[benchmark_tables.Table]:
    """Tables of one kind: the first ones, with some of their rows. The last one says how many are left out."""
    cut = [_table(table, limits) for table in found[: limits.tables]]
    if cut and len(cut) < len(found):
        left = human_count(len(found) - len(cut), "more table")
        cut[-1] = replace(cut[-1], notes=(*cut[-1].notes, f"Left out: {left}; results.parquet has their figures."))
    return cut


def _table(table: benchmark_tables.Table, limits: Limits) -> benchmark_tables.Table:
    """Columns stay: titles span them, and a table of any width fits where it is."""
    rows = spread(table.rows, limits.rows)
    if len(rows) == len(table.rows):
        return table
    note = f"Shown: {len(rows):,} of {human_count(len(table.rows), 'row')}, evenly chosen."
    return replace(table, rows=tuple(rows), notes=(*table.notes, note))


def maps(found: Iterable[Cover], most: int, limits: Limits) -> dict[str, int]:
    """Sweep -> how many of its maps of coverage are drawn, `most` at most."""
    room, shown = limits.cells, {}
    for one in found:
        shown[one.sweep] = 0
        for grid, _ in one.grids[:most]:
            cells = len(grid.x_values) * len(grid.y_values)
            if cells > room:
                break
            room -= cells
            shown[one.sweep] += 1
    return shown
