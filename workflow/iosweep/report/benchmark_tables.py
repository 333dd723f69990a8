"""Summary tables of metadata rates, as mdtest has them: operations down, an axis across. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iosweep.analysis import caveats, formats, titles
from iosweep.analysis.aggregate import Result, Statistics, distinct, known_or_not, of_points, phase_order
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.slices import axes_of, split
from iosweep.tools.axes import NODES
from iosweep.tools.mdtest.options import OPTIONS, ROWS


@dataclass(frozen=True)
class Cell:
    """A figure with its unit, and smaller lines below it. Without a figure, `value` is ""."""

    value: str
    lines: tuple[str, ...]
    verdict: str  # "" where nothing was asked for
    minor: bool = False  # beside the figure that matters


@dataclass(frozen=True)
class TableRow:
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    sources: tuple[str, ...]  # the sweeps that it is of
    title: str  # which of several of them; else ""
    about: str  # how all of it was measured; else ""
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]  # what is marked or absent, with the reasons


_NOTHING = Cell("", (), "")


def metadata(campaign: Campaign, results: Sequence[Result]) -> list[Table]:
    """Rates of mdtest: operations down, an axis across; a table for each sweep and each combination of other axes."""
    conditions = titles.conditions(results)
    columns = _mdtest_columns()
    found = []
    for sweep in campaign.about.sweeps:
        points = set(sweep.points)
        mine = [r for r in of_points(results) if r.point in points and (r.tool, r.kind) == ("mdtest", "metadata")]
        for condition in dict.fromkeys(conditions[result.point] for result in mine):
            own = [result for result in mine if conditions[result.point] == condition]
            varying = [axis for axis in columns if axis in axes_of(sweep) and len(distinct(own, axis)) > 1]
            across = varying[0] if varying else "nodes"
            for fixed, part in split(own, varying[1:]):
                table = _metadata(sweep.name, titles.describe(condition, "metadata"), part, across, fixed)
                found += [table] if table else []
    return joined(found)


def _mdtest_columns() -> list[str]:
    """Axes in the order in which one makes the columns: the first that varies. Each combination of the others has its
    own table."""
    return [NODES.column, *(option.column for option in OPTIONS.values())]


def _metadata(
    sweep: str, condition: str, results: Sequence[Result], across: str, fixed: Mapping[str, Value | None]
) -> Table | None:
    values = known_or_not(results, across)
    shown = [value for value in values if any(_at(r, across, value) and r.headline for r in results)]
    if not shown:
        return None  # the first screen says why there are no figures
    alone = len(shown) == 1
    columns = tuple(titles.named(across, value) for value in shown)
    if alone:
        columns = tuple(
            name for name, figure in _APART.items() if any((f := r.headline) and figure(f) for r in results)
        )
    rows = []
    for phase in sorted({result.phase for result in results}, key=phase_order):
        own = [result for result in results if result.phase == phase]
        here = [next((result for result in own if _at(result, across, value)), None) for value in shown]
        cells = tuple(_apart(here[0], name) for name in columns) if alone else tuple(map(_stacked, here))
        rows.append(TableRow(ROWS.get(phase, titles.phase(phase)), cells))
    place = {name: known_or_not(results, name) for name in _mdtest_columns() if name != across and name not in fixed}
    if alone:
        place = {across: shown, **place}
    same = ((name, found[0]) for name, found in place.items() if len(found) == 1)
    told = (titles.named(name, value) for name, value in same if value is not None or name == across)
    return Table(
        sources=(sweep,),
        title=", ".join(titles.named(name, value) for name, value in fixed.items()),
        about="; ".join([condition, *told]),
        columns=columns,
        rows=tuple(rows),
        notes=tuple(notes(results)),
    )


#: Columns of a table of one value of its axis: those of mdtest, and what tells how sure the mean is.
_APART: dict[str, Callable[[Statistics], str]] = {
    "max": lambda found: formats.number(found.high) if found.sd is not None else "",
    "min": lambda found: formats.number(found.low) if found.sd is not None else "",
    "mean": lambda found: formats.number(found.mean),
    "std dev": lambda found: "" if found.sd is None else formats.number(found.sd),
    "95 % CI": lambda found: f"± {100 * found.ci95_share:.1f} %" if found.ci95_share is not None else "",
    "n": lambda found: str(found.n * found.iterations),
}


def _apart(result: Result | None, name: str) -> Cell:
    """The cell of one of _APART. The mean carries the verdict."""
    if name == "mean":
        return replace(_stacked(result), lines=())
    found = result.headline if result else None
    return Cell(_APART[name](found), (), "", minor=True) if found else _NOTHING


def _stacked(result: Result | None) -> Cell:
    """The mean, and below it the confidence interval, smallest, largest and standard deviation."""
    if result is None:
        return _NOTHING
    found = result.headline
    if found is None:
        return Cell("", (), result.verdict)
    lines = []
    if found.sd is None:
        lines.append("one repetition")
    else:
        if found.ci95_share is not None:
            lines.append(f"± {100 * found.ci95_share:.1f} % (95 % CI)")
        lines.append(f"min {formats.number(found.low)}, max {formats.number(found.high)}")
        of = " iterations" if found.iterations > 1 else ""
        lines.append(f"std dev {formats.number(found.sd)} (n = {found.n * found.iterations}{of})")
    return Cell(formats.number(found.mean), tuple(lines), result.verdict)


def joined(tables: Iterable[Table]) -> list[Table]:
    """Tables that say the same, as those of sweeps that share their points, are one of several sources."""
    found: dict[Table, tuple[str, ...]] = {}
    for table in tables:
        bare = replace(table, sources=())
        found[bare] = found.get(bare, ()) + table.sources
    return [replace(table, sources=sources) for table, sources in found.items()]


def _at(result: Result, column: str, value: Value | None) -> bool:
    return result.parameters[column] == value


def notes(results: Sequence[Result]) -> Iterator[str]:
    """What is not valid, and why; and what is a mean over unlike things."""
    for _, text in caveats.unlike_hosts(results):
        yield text
    for text in caveats.unlike_builds(results):
        yield text[0].upper() + text[1:]
    for verdict in ("suspect", "invalid", "missing"):
        own = [result for result in results if result.verdict == verdict]
        if own:
            yield f"{caveats.VERDICT_SYMBOLS[verdict]} {len(own)} {verdict} ({caveats.reasons(own)})."
