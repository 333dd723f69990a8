"""What each queue depth gains and costs: figure and latency of every phase, with their change. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import Result, distinct, phase_order
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.slices import Slice, slices, split
from iosweep.report.benchmark_tables import Cell, Table, TableRow, joined, notes
from iosweep.tools.axes import QUEUE_DEPTH

_DEPTH = QUEUE_DEPTH.column
#: Means of one direction of mixed I/O.
_PARTS = (("read_latency_mean_s", "reads"), ("write_latency_mean_s", "writes"))


def of(campaign: Campaign, results: Sequence[Result]) -> list[Table]:
    """A table for each sweep over queue depth and each combination of its other axes: depths down, phases across."""
    return joined([table for one in slices(campaign, results) if one.x == _DEPTH for table in _tables(one)])


def _tables(one: Slice) -> Iterator[Table]:
    others = [axis for axis in (one.color, one.facet) if axis]
    for fixed, own in split(one.results, others):
        depths = [depth for depth in distinct(own, _DEPTH) if any(r.headline for r in own if _at(r, depth))]
        if len(depths) < 2:
            continue  # nothing to compare
        phases = sorted({result.phase for result in own if result.headline}, key=phase_order)
        found = {(result.phase, result.parameters[_DEPTH]): result for result in own}
        rows = []
        for depth, before in zip(depths, [None, *depths], strict=False):
            pairs = ((found.get((phase, depth)), found.get((phase, before))) for phase in phases)
            rows.append(TableRow(f"{depth}", tuple(_cell(*pair) for pair in pairs)))
        about = [titles.describe(one.condition, one.kind, phases), *_same(own, set(others))]
        yield Table(
            sources=(one.sweep,),
            title=", ".join(titles.named(axis, value) for axis, value in fixed.items()),
            about="; ".join(about),
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
    return f"{100 * (sum(own) / len(own) / (sum(other) / len(other)) - 1):+.0f} %"


def _at(result: Result, depth: Value) -> bool:
    return result.parameters[_DEPTH] == depth
