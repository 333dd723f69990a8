"""Summary tables as the sources have them: mdtest's rates by operation, and the results of WEKA's seven tests. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iosweep.analysis import findings, formats
from iosweep.analysis.axes import axes_of, split
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.summary import Metric, PointSummary, distinct, known_or_not, of_points, phase_order
from iosweep.text import human_count
from iosweep.tools.axes import NODES
from iosweep.tools.mdtest.command import OPTIONS, ROWS


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
    about: str = ""  # how it was measured, where that differs from row to row
    scaled: bool = False


@dataclass(frozen=True)
class Table:
    sources: tuple[str, ...]  # the sweeps or suites that it is of
    title: str  # which of several of them; else ""
    about: str  # how all of it was measured; else ""
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]  # what is marked or absent, with the reasons
    groups: tuple[tuple[str, int], ...] = ()  # titles above the columns, with how many they span

    @property
    def scaled(self) -> bool:
        """Whether a row of it was made to fit a smaller machine."""
        return any(row.scaled for row in self.rows)


_NOTHING = Cell("", (), "")

# mdtest


def metadata(campaign: Campaign, results: Sequence[PointSummary]) -> list[Table]:
    """Rates of mdtest: operations down, an axis across; a table for each sweep and each combination of other axes."""
    conditions = formats.conditions(results)
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
                table = _metadata(sweep.name, formats.describe(condition, "metadata"), part, across, fixed)
                found += [table] if table else []
    return joined(found)


def _mdtest_columns() -> list[str]:
    """Axes in the order in which one makes the columns: the first that varies. Each combination of the others has its
    own table."""
    return [NODES.column, *(option.column for option in OPTIONS.values())]


def _metadata(
    sweep: str, condition: str, results: Sequence[PointSummary], across: str, fixed: Mapping[str, Value | None]
) -> Table | None:
    values = known_or_not(results, across)
    shown = [value for value in values if any(_at(r, across, value) and r.headline for r in results)]
    if not shown:
        return None  # the first screen says why there are no figures
    alone = len(shown) == 1
    columns = tuple(formats.named(across, value) for value in shown)
    if alone:
        columns = tuple(
            name for name, figure in _APART.items() if any((f := r.headline) and figure(f) for r in results)
        )
    rows = []
    for phase in sorted({result.phase for result in results}, key=phase_order):
        own = [result for result in results if result.phase == phase]
        here = [next((result for result in own if _at(result, across, value)), None) for value in shown]
        cells = tuple(_apart(here[0], name) for name in columns) if alone else tuple(map(_stacked, here))
        rows.append(TableRow(ROWS.get(phase, formats.phase(phase)), cells))
    place = {name: known_or_not(results, name) for name in _mdtest_columns() if name != across and name not in fixed}
    if alone:
        place = {across: shown, **place}
    same = ((name, found[0]) for name, found in place.items() if len(found) == 1)
    told = (formats.named(name, value) for name, value in same if value is not None or name == across)
    return Table(
        sources=(sweep,),
        title=", ".join(formats.named(name, value) for name, value in fixed.items()),
        about="; ".join([condition, *told]),
        columns=columns,
        rows=tuple(rows),
        notes=tuple(notes(results)),
    )


#: Columns of a table of one value of its axis: those of mdtest, and what tells how sure the mean is.
_APART: dict[str, Callable[[Metric], str]] = {
    "max": lambda found: formats.number(found.high) if found.sd is not None else "",
    "min": lambda found: formats.number(found.low) if found.sd is not None else "",
    "mean": lambda found: formats.number(found.mean),
    "std dev": lambda found: "" if found.sd is None else formats.number(found.sd),
    "95 % CI": lambda found: f"± {100 * found.ci95_share:.1f} %" if found.ci95_share is not None else "",
    "n": lambda found: str(found.n * found.iterations),
}


def _apart(result: PointSummary | None, name: str) -> Cell:
    """The cell of one of _APART. The mean carries the verdict."""
    if name == "mean":
        return replace(_stacked(result), lines=())
    found = result.headline if result else None
    return Cell(_APART[name](found), (), "", minor=True) if found else _NOTHING


def _stacked(result: PointSummary | None) -> Cell:
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


# WEKA

#: The suites that hold WEKA's tests.
_SUITES = ("weka", "everything")

#: Title, sweep of the suite, phases (the first one that the sweep has counts), and the figures that the table shows.
_TESTS = (
    ("Read throughput", "read-throughput", ("seq_read", "rand_read"), "throughput"),
    ("Write throughput", "write-throughput", ("seq_write", "rand_write"), "throughput"),
    ("Read IOPS", "read-iops", ("rand_read", "seq_read"), "iops"),
    ("Write IOPS", "write-iops", ("rand_write", "seq_write"), "iops"),
    ("Read latency", "read-latency", ("rand_read", "seq_read"), "latency"),
    ("Write latency", "write-latency", ("rand_write", "seq_write"), "latency"),
    ("Creates", "metadata", ("create",), "operations"),
    ("Stats", "metadata", ("stat",), "operations"),
    ("Deletes", "metadata", ("delete",), "operations"),
)

_GIB, _US = 2**30, 1e-6


def weka(campaign: Campaign, results: Sequence[PointSummary]) -> list[Table]:
    """The summary of WEKA's performance tests: a table for each suite that has them, node counts across."""
    return joined([table for suite in _SUITES if (table := _weka(campaign, results, suite))])


def _weka(campaign: Campaign, results: Sequence[PointSummary], suite: str) -> Table | None:
    sweeps = {s.name.removeprefix(f"{suite}."): s for s in campaign.about.sweeps if s.suite == suite}
    tests = []  # (title, figures, scaled, results)
    for title, name, phases, told in _TESTS:
        if name in sweeps:
            points = set(sweeps[name].points)
            mine = [result for result in results if result.point in points and result.phase in phases]
            phase = next((phase for phase in phases if any(result.phase == phase for result in mine)), None)
            tests.append((title, told, sweeps[name].scaled, [result for result in mine if result.phase == phase]))
    everything = [result for *_, own in tests for result in own]
    nodes = sorted({result.nodes for result in everything if result.headline})
    if not nodes:
        return None  # the first screen says why there are no figures
    conditions = formats.conditions(results)
    rows = []
    for title, told, scaled, own in tests:
        for condition in dict.fromkeys(conditions[result.point] for result in own):
            alike = [result for result in own if conditions[result.point] == condition]
            rows.append(_test(title, told, scaled, alike, nodes))
    alone = nodes.count(1)
    groups = (("Single client", alone), ("Aggregated cluster", len(nodes) - alone))
    return Table(
        sources=(suite,),
        title="",
        about="",
        columns=tuple(human_count(count, "client") for count in nodes),
        rows=tuple(rows),
        notes=tuple(notes(everything)),
        groups=tuple(group for group in groups if group[1]),
    )


def _test(title: str, told: str, scaled: bool, results: Sequence[PointSummary], nodes: Iterable[int]) -> TableRow:
    """A row of what was measured in one way; where points differ in more than their nodes, each cell names its own."""
    condition = formats.conditions(results)[results[0].point]
    places = dict.fromkeys(formats.brief(result, nodes=False) for result in results)
    column = {"throughput": "bandwidth_bytes_per_s", "latency": "latency_mean_s"}.get(told, "ops_per_s")
    found = {count: [result for result in results if result.nodes == count] for count in nodes}
    best = {count: _best(told, column, here) for count, here in found.items()}
    cells = []
    for count, here in found.items():
        if (shown := best[count]) is None:
            cells.append(Cell("", (), here[0].verdict) if here else _NOTHING)
            continue
        value, *lines = _TOLD[told](shown, shown.statistics[column])
        if count > 1 and told != "latency":
            lines.insert(-1, _per_client(shown, best.get(1), column))
        if len(places) > 1:
            of = f"best of {len(here)}: " if len(here) > 1 else ""
            lines.append(of + formats.brief(shown, nodes=False))
        cells.append(Cell(value, tuple(lines), shown.verdict))
    about = formats.describe(condition, results[0].kind, {result.phase for result in results})
    return TableRow(title, tuple(cells), about if len(places) > 1 else f"{about}; {next(iter(places))}", scaled)


def _best(told: str, column: str, results: Sequence[PointSummary]) -> PointSummary | None:
    """The best valid result; the best of the others only where none is valid."""
    sign = -1 if told == "latency" else 1
    measured = [result for result in results if column in result.statistics]
    return max(measured, key=lambda r: (r.verdict == "valid", sign * r.statistics[column].mean), default=None)


def _per_client(result: PointSummary, alone: PointSummary | None, column: str) -> str:
    """`9.70 GiB/s per client, 91 % of one alone`: the share is the scaling efficiency."""
    each = result.statistics[column].mean / result.nodes
    unit, size = ("GiB/s", _GIB) if column == "bandwidth_bytes_per_s" else ("ops/s", 1)
    share = f", {100 * each / alone.statistics[column].mean:.0f} % of one alone" if alone else ""
    return f"{formats.number(each / size)} {unit} per client{share}"


def _throughput(_: PointSummary, found: Metric) -> tuple[str, ...]:
    return f"{formats.number(found.mean / _GIB)} GiB/s", formats.spread(found, formats.THROUGHPUT)


def _iops(result: PointSummary, found: Metric) -> tuple[str, ...]:
    sampled = result.typical("sampled_ops_per_s")
    beside = [] if sampled is None else [f"(fio's iops avg: {formats.number(sampled)})"]
    return f"{formats.number(found.mean)} ops/s", *beside, formats.spread(found, formats.OPS)


def _latency(result: PointSummary, found: Metric) -> tuple[str, ...]:
    """What a caller waits; below it fio's clat, which WEKA's page gives as latency."""
    mean, tail = (result.typical(f"completion_latency_{name}_s") for name in ("mean", "p99_5"))
    below = [] if mean is None else [f"completion (clat): {formats.number(mean / _US)} µs avg."]
    below += [] if tail is None else [f"99.5 % completed under {formats.number(tail / _US)} µs (clat)"]
    return f"{formats.number(found.mean / _US)} µs avg.", *below, formats.spread(found, formats.LATENCY)


_TOLD: dict[str, Callable[[PointSummary, Metric], tuple[str, ...]]] = {
    "throughput": _throughput,
    "iops": _iops,
    "latency": _latency,
    "operations": _iops,
}


def joined(tables: Iterable[Table]) -> list[Table]:
    """Tables that say the same, as those of sweeps that share their points, are one of several sources."""
    found: dict[Table, tuple[str, ...]] = {}
    for table in tables:
        bare = replace(table, sources=())
        found[bare] = found.get(bare, ()) + table.sources
    return [replace(table, sources=sources) for table, sources in found.items()]


def _at(result: PointSummary, column: str, value: Value | None) -> bool:
    return result.parameters[column] == value


def notes(results: Sequence[PointSummary]) -> Iterator[str]:
    """What is not valid, and why; and what is a mean over unlike things."""
    for _, text in findings.unlike_hosts(results):
        yield text
    for text in findings.unlike_builds(results):
        yield text[0].upper() + text[1:]
    for verdict in ("suspect", "invalid", "missing"):
        own = [result for result in results if result.verdict == verdict]
        if own:
            yield f"{findings.VERDICT_SYMBOLS[verdict]} {len(own)} {verdict} ({findings.reasons(own)})."
