"""What each queue depth gains and costs: figure and latency of every phase, with their change. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import Result, distinct, of_points, phase_order
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.slices import axes_of, split
from iosweep.analysis.titles import Conditions
from iosweep.plan import contests
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.report.benchmark_tables import Cell, Table, TableRow, joined, notes
from iosweep.text import percent_change
from iosweep.tools import parameters
from iosweep.tools.axes import QUEUE_DEPTH

_DEPTH = QUEUE_DEPTH.column
#: Means of one direction of mixed I/O.
_PARTS = (("read_latency_mean_s", "reads"), ("write_latency_mean_s", "writes"))


def of(campaign: Campaign, results: Sequence[Result]) -> list[Table]:
    """A table for each sweep over queue depth and each combination of its other axes: depths down, phases across."""
    return joined([table for sweep in campaign.about.sweeps for table in _of_sweep(sweep, results)])


def _of_sweep(sweep: SweepFacts, results: Sequence[Result]) -> Iterator[Table]:
    axes, points = axes_of(sweep), set(sweep.points)
    if _DEPTH not in axes:
        return
    conditions = titles.conditions(results)
    mine = [result for result in of_points(results) if result.point in points and result.kind == "data"]
    groups: dict[Conditions, list[Result]] = {}
    for result in mine:
        groups.setdefault(contests.of_phase(conditions[result.point], result.phase), []).append(result)
    for condition, group in _with_reads(groups):
        known = parameters()
        others = [name for name in known if name in axes - {_DEPTH} and known[name].role != "condition"]
        varying = [name for name in others if len(distinct(group, name)) > 1]
        for fixed, own in split(group, varying):
            if table := _table(sweep.name, condition, fixed, own):
                yield table


def _with_reads(groups: Mapping[Conditions, list[Result]]) -> Iterator[tuple[Conditions, list[Result]]]:
    """Reads beside the writes of the same tool, where all of these were made in one way."""
    writes = [condition for condition in groups if condition.write_mode is not None]
    for condition, own in groups.items():
        alike = [one for one in writes if (one.tool, one.o_direct) == (condition.tool, condition.o_direct)]
        if condition.write_mode is None and len(alike) == 1:
            continue
        reads = [one for one in groups if one.write_mode is None and len(alike) == 1 and one != condition]
        reads = [one for one in reads if (one.tool, one.o_direct) == (condition.tool, condition.o_direct)]
        yield condition, [*own, *(result for one in reads for result in groups[one])]


def _table(sweep: str, condition: Conditions, fixed: Mapping[str, Value | None], own: Sequence[Result]) -> Table | None:
    depths = [depth for depth in distinct(own, _DEPTH) if any(r.headline for r in own if _at(r, depth))]
    if len(depths) < 2:
        return None  # nothing to compare
    phases = sorted({result.phase for result in own if result.headline}, key=phase_order)
    found = {(result.phase, result.parameters[_DEPTH]): result for result in own}
    rows = []
    for depth, before in zip(depths, [None, *depths[:-1]], strict=True):
        pairs = ((found.get((phase, depth)), found.get((phase, before))) for phase in phases)
        rows.append(TableRow(f"{depth}", tuple(_cell(*pair) for pair in pairs)))
    return Table(
        sources=(sweep,),
        title=", ".join(titles.named(axis, value) for axis, value in fixed.items()),
        about="; ".join([titles.describe(condition, "data", phases), *_same(own, set(fixed))]),
        columns=tuple(titles.phase(phase) for phase in phases),
        rows=tuple(rows),
        notes=tuple(notes(own)),
    )


def _same(results: Sequence[Result], but: set[str]) -> Iterator[str]:
    """What all points have in common, in words."""
    for column in ("nodes", "threads_per_node", "transfer_size_bytes", "read_percent"):
        values = distinct(results, column)
        if column not in but and len(values) == 1:
            yield titles.named(column, values[0])


def _cell(result: Result | None, before: Result | None) -> Cell:
    """The figure; below it its change, and the mean latency with its change."""
    if result is None:
        return Cell("", (), "")
    if result.headline is None:
        return Cell("", (), result.verdict)
    value = formats.quantity(result.headline.mean, formats.units_of(result.metric, result.kind))
    lines = [_change(result, before, result.metric)]
    parts = [(name, *_mean(result, before, column)) for column, name in _PARTS]
    if all(latency for _, latency, _ in parts):
        lines += [f"{name} {latency}{change and f', {change}'}" for name, latency, change in parts]
    else:
        latency, change = _mean(result, before, "latency_mean_s")
        lines.append(f"latency {latency}{change and f', {change}'}" if latency else "")
    return Cell(value, tuple(filter(None, lines)), result.verdict)


def _mean(result: Result, before: Result | None, column: str) -> tuple[str, str]:
    """(a mean latency, its change from the depth before); "" where they are not known."""
    values = result.values(column)
    text = formats.quantity(sum(values) / len(values), formats.LATENCY) if values else ""
    return text, _change(result, before, column)


def _change(result: Result, before: Result | None, column: str) -> str:
    """`+63 %`"""
    own, other = result.values(column), before.values(column) if before else []
    if not own or not other or not sum(other):
        return ""
    return f"{percent_change(sum(own) / len(own) / (sum(other) / len(other)) - 1, 0)} %"


def _at(result: Result, depth: Value) -> bool:
    return result.parameters[_DEPTH] == depth
