"""Grids of the page: heat maps of phases, and the figures of every quantity that the switches show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from iosweep.analysis import formats, grids, titles
from iosweep.analysis.aggregate import Result
from iosweep.analysis.formats import Unit
from iosweep.analysis.grids import NOT_ASKED, Grid
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.report import vega_lite
from iosweep.tools import parameters

#: Shades of a heat map, from the lowest to the highest figure.
SHADES = 9
#: Cells of all heat maps that the page carries.
MOST_CELLS = 3000

#: What the switches offer: key -> (title, column).
QUANTITIES = {
    "throughput": ("throughput", "bandwidth_bytes_per_s"),
    "iops": ("IOPS", "ops_per_s"),
    "mean": ("mean latency", "latency_mean_s"),
    "p50": ("p50", "latency_p50_s"),
    "p99": ("p99", "latency_p99_s"),
    "p99.9": ("p99.9", "latency_p99_9_s"),
}


class Quantity(Struct, frozen=True):
    """A quantity of all results, in SI base units, None where there is none; for the page's script.

    low, high: the smallest and the largest repetition, None where there is one. units: name, size, smallest figure.
    """

    title: str
    units: list[tuple[str, float, float]]
    metadata_units: list[tuple[str, float, float]]
    y: list[float | None]
    low: list[float | None]
    high: list[float | None]


@dataclass(frozen=True)
class Cell:
    """A cell of a heat map. `row`: the number of its result in the table; `shade`: from 0 to SHADES - 1; `tip`: what is
    to know of one that is not valid."""

    row: int | None
    text: str
    shade: int | None
    outcome: str
    tip: str


@dataclass(frozen=True)
class HeatMap:
    """A phase over two axes; one unit and one scale for all maps of a phase of a sweep."""

    title: str
    phase: str
    unit: str
    x_title: str
    y_title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def of(
    sweeps: Iterable[SweepFacts], results: Sequence[Result], place: Callable[[Result], int]
) -> tuple[dict[str, list[HeatMap]], list[str]]:
    """Sweep -> its heat maps, and the sweeps whose maps would make the page too large. place: number of a result."""
    found: dict[str, list[HeatMap]] = {}
    left_out, room = [], MOST_CELLS
    for sweep in sweeps:
        own = grids.heat(sweep, results)
        cells = sum(len(grid.x_values) * len(grid.y_values) for grid in own)
        if cells > room:
            left_out.append(sweep.name)
        elif own:
            room -= cells
            found[sweep.name] = [_map(grid, [g for g in own if g.phase == grid.phase], place) for grid in own]
    return found, left_out


def _map(grid: Grid, alike: Iterable[Grid], place: Callable[[Result], int]) -> HeatMap:
    known = [result for one in alike for row in one.rows for result in row if result]
    figures = [result.headline.mean for result in known if result.headline]
    units = formats.units_of(known[0].metric, known[0].kind)
    highest = max(figures, default=0.0)
    unit = formats.pick(units, highest)
    rows = tuple(
        (
            titles.parameter(grid.y or "", y),
            tuple(
                _cell(result, place, unit, highest, _where(grid, x, y))
                for x, result in zip(grid.x_values, row, strict=True)
            ),
        )
        for y, row in zip(grid.y_values, grid.rows, strict=True)
    )
    return HeatMap(
        title=", ".join(filter(None, (titles.phase(grid.phase), grid.fixed))),
        phase=grid.phase,
        unit=unit.name,
        x_title=parameters()[grid.x].shown,
        y_title=parameters()[grid.y or ""].shown,
        columns=tuple(titles.parameter(grid.x, x) for x in grid.x_values),
        rows=tuple(rows),
    )


def _where(grid: Grid, x: object, y: object) -> str:
    pairs = ((grid.y, y), (grid.x, x))
    return ", ".join(
        titles.named(axis, value) for axis, value in pairs if axis and isinstance(value, int | float | str)
    )


def _cell(result: Result | None, place: Callable[[Result], int], unit: Unit, highest: float, where: str) -> Cell:
    if result is None:
        return Cell(None, "", None, NOT_ASKED, f"{where}: not asked")
    row, figure = place(result), result.headline
    why = "" if result.state == "valid" else f"{result.state}: {'; '.join(result.reasons) or 'no reason given'}"
    if figure is None:
        return Cell(row, "", None, result.state, f"{where}. {why}")
    text = formats.number(figure.mean / unit.size)
    return Cell(row, text, shade(figure.mean, highest), result.state, f"{where}. {why}" if why else "")


def shade(figure: float, highest: float) -> int:
    """The shade of a figure on a scale from zero to the highest one."""
    return max(0, min(SHADES - 1, int(SHADES * figure / highest))) if highest > 0 else 0


def style() -> str:
    """CSS of the shades: the palette of the figures, the same on light and dark ground."""
    colors = enumerate(vega_lite.palette(SHADES))
    return "".join(
        f".h{i} {{ background: {color}; color: {'#000' if i >= SHADES // 2 else '#fff'}; }}\n" for i, color in colors
    )


def quantities(results: Sequence[Result]) -> dict[str, Quantity]:
    """The quantities that any result has, for the switches."""
    found = {}
    for key, (title, column) in QUANTITIES.items():
        if any(column in result.statistics for result in results):
            several = [s if (s := result.statistics.get(column)) and s.n > 1 else None for result in results]
            found[key] = Quantity(
                title,
                _units(column, "data"),
                _units(column, "metadata"),
                [_short(result.typical(column)) for result in results],
                [_short(s.low) if s else None for s in several],
                [_short(s.high) if s else None for s in several],
            )
    return found


def _units(column: str, kind: str) -> list[tuple[str, float, float]]:
    return [(unit.name, unit.size, unit.least) for unit in formats.units_of(column, kind)]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
