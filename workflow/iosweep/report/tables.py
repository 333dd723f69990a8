"""Tables: mdtest's rates by operation, coverage, checks, builds of the tools. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iosweep.analysis import caveats, formats
from iosweep.analysis.slices import axes_of, split
from iosweep.analysis.summary import (
    PointSummary,
    distinct,
    distinct_or_unknown,
    merge_point_parameters,
    phase_order,
)
from iosweep.config.sweeps import RepetitionRule
from iosweep.judge.findings import ROOTS
from iosweep.plan.model import SweepFacts
from iosweep.programs.programs import BuildDocument, BuiltProgram
from iosweep.tables.reader import PRECISE, Campaign, CheckRow, ResultRow, Value
from iosweep.tools.axes import NODES
from iosweep.tools.mdtest.command import OPTIONS
from iosweep.tools.mdtest.output import ROWS


@dataclass(frozen=True)
class Cell:
    """A figure with its unit, "" without one, and smaller lines below it. verdict: "" if nothing was measured."""

    value: str
    lines: tuple[str, ...]
    verdict: str


@dataclass(frozen=True)
class TableRow:
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """sources: names of its sweeps, or its suite; title: distinguishes several tables of the same sources, else "";
    about: conditions and parameters of all figures."""

    sources: tuple[str, ...]
    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


def make_metadata_tables(campaign: Campaign, results: Sequence[PointSummary]) -> list[Table]:
    """Rates of mdtest by operation (rows) and an axis (columns): a table for each sweep and value of other axes."""
    conditions = formats.conditions(results)
    measured = [r for r in merge_point_parameters(results) if (r.tool, r.kind) == ("mdtest", "metadata")]
    tables: dict[Table, tuple[str, ...]] = {}  # table without sources -> its sources: sweeps may share points
    for sweep in campaign.about.sweeps:
        points = set(sweep.points)
        mine = [result for result in measured if result.point in points]
        for condition in dict.fromkeys(conditions[result.point] for result in mine):
            own = [result for result in mine if conditions[result.point] == condition]
            varying = [axis for axis in _AXES if axis in axes_of(sweep) and len(distinct(own, axis)) > 1]
            for fixed, part in split(own, varying[1:]):
                condition_text = formats.describe(condition, "metadata")
                if table := _metadata(condition_text, part, varying[0] if varying else "nodes", fixed):
                    tables[table] = (*tables.get(table, ()), sweep.name)
    return [replace(table, sources=sources) for table, sources in tables.items()]


#: Candidates for the columns: the first axis that varies. Each combination of the other axes has its own table.
_AXES = [NODES.column, *(option.column for option in OPTIONS.values())]


def _metadata(
    condition: str, results: Sequence[PointSummary], across: str, fixed: Mapping[str, Value | None]
) -> Table | None:
    by_place = {(result.phase, result.parameters[across]): result for result in reversed(results)}
    measured = {value for (_, value), result in by_place.items() if result.headline}
    shown = [value for value in distinct_or_unknown(results, across) if value in measured]
    if not shown:
        return None  # the first screen says why there are no figures
    rows = [
        TableRow(ROWS.get(phase, formats.phase(phase)), tuple(_cell(by_place.get((phase, value))) for value in shown))
        for phase in sorted({result.phase for result in results}, key=phase_order)
    ]
    place = {name: distinct_or_unknown(results, name) for name in _AXES if name != across and name not in fixed}
    same = [
        formats.named(name, values[0]) for name, values in place.items() if len(values) == 1 and values[0] is not None
    ]
    return Table(
        sources=(),
        title=", ".join(formats.named(name, value) for name, value in fixed.items()),
        about="; ".join([condition, *same]),
        columns=tuple(formats.named(across, value) for value in shown),
        rows=tuple(rows),
    )


def _cell(result: PointSummary | None) -> Cell:
    """The mean, and below it confidence interval, smallest and largest repetition, and standard deviation."""
    if result is None:
        return Cell("", (), "")
    metric = result.headline
    if metric is None:
        return Cell("", (), result.verdict)
    lines = []
    if metric.sd is None:
        lines.append("one repetition")
    else:
        if metric.ci95_share is not None:
            lines.append(f"± {100 * metric.ci95_share:.1f} % (95 % CI)")
        lines.append(f"min {formats.number(metric.low)}, max {formats.number(metric.high)}")
        iterations = " iterations" if metric.iterations > 1 else ""
        lines.append(f"std dev {formats.number(metric.sd)} (n = {metric.n * metric.iterations}{iterations})")
    return Cell(formats.number(metric.mean), tuple(lines), result.verdict)


# checks and coverage

#: Outcomes of a point, the most urgent last.
_OUTCOMES = ("valid", "unneeded", "left", "missing", "suspect", "invalid")

#: Point, phase and repetition.
Phase = tuple[str, str, int | None]


@dataclass(frozen=True)
class Check:
    """A check over all rows of the results."""

    name: str
    severity: str
    counts: Mapping[str, int]  # outcome -> findings
    failed: tuple[tuple[str, int], ...]  # commonest evidence of a fail, with counts
    not_checked: tuple[tuple[str, int], ...]  # commonest reasons, with counts

    @property
    def open(self) -> bool:
        """Whether it failed or could not be made in any row."""
        return bool(self.counts.get("fail") or self.counts.get("not checked"))


def summarize_checks(checks: Iterable[CheckRow]) -> list[Check]:
    """Count the outcomes of each check: failed checks that explain others come first, then by number of failures."""
    by_name: dict[str, list[CheckRow]] = {}
    for row in drop_repeated(checks):
        by_name.setdefault(row.check, []).append(row)
    found = [
        Check(
            name=name,
            severity=rows[0].severity,
            counts=Counter(row.outcome for row in rows),
            failed=_commonest(rows, "fail"),
            not_checked=_commonest(rows, "not checked"),
        )
        for name, rows in by_name.items()
    ]

    def key(check: Check) -> tuple[int, int, int, str]:
        # a failed check that explains other failures comes before them, whatever the numbers
        cause = ROOTS.index(check.name) if check.counts["fail"] and check.name in ROOTS else len(ROOTS)
        return cause, -check.counts["fail"], -check.counts["not checked"], check.name

    return sorted(found, key=key)


def count_not_checked(checks: Iterable[CheckRow]) -> tuple[int, int]:
    """(number of checks that could not be made, number of checks that applied)."""
    outcomes = Counter(row.outcome for row in drop_repeated(checks))
    return outcomes["not checked"], outcomes.total() - outcomes["not applicable"]


def drop_repeated(checks: Iterable[CheckRow]) -> Iterator[CheckRow]:
    """Yield each finding once: disagreement of ten repetitions is a single finding."""
    seen = set()
    for row in checks:
        key = (row.point, row.phase, row.outcome, row.evidence)
        if row.check != PRECISE or key not in seen:
            yield row
        if row.check == PRECISE:
            seen.add(key)


def _commonest(rows: Iterable[CheckRow], outcome: str) -> tuple[tuple[str, int], ...]:
    return tuple(caveats.rank([row.evidence or ""] for row in rows if row.outcome == outcome)[:3])


def find_open_checks(checks: Iterable[CheckRow]) -> dict[Phase, list[str]]:
    """Checks that failed or could not be made, and what excluded other campaigns, in words."""
    opened: dict[Phase, list[str]] = {}
    for row in checks:
        if row.outcome in ("fail", "not checked") or (row.check, row.outcome) == ("exclusive", "pass"):
            evidence = f", {row.evidence}" if row.evidence else ""
            key = row.point, row.phase, row.repetition
            opened.setdefault(key, []).append(f"{row.check}: {row.outcome}{evidence}")
    return opened


@dataclass(frozen=True)
class Coverage:
    """The points of a sweep. counts: outcome -> points, by their worst phase; reasons: of outcomes other than valid,
    worst first."""

    sweep: str
    counts: Mapping[str, int]
    reasons: Mapping[str, str]


def count_coverage(sweeps: Iterable[SweepFacts], results: Iterable[PointSummary]) -> list[Coverage]:
    """Count the points of each sweep by outcome."""
    phases: dict[str, list[PointSummary]] = {}
    for result in results:
        phases.setdefault(result.point, []).append(result)
    states = {point: max((one.state for one in own), key=_OUTCOMES.index) for point, own in phases.items()}
    return [_coverage(sweep, phases, states) for sweep in sweeps]


def _coverage(sweep: SweepFacts, phases: Mapping[str, Sequence[PointSummary]], states: Mapping[str, str]) -> Coverage:
    counts = Counter(states[point] for point in sweep.points if point in states)
    reasons = {}
    for state in _OUTCOMES[:0:-1]:
        own = [one for point in sweep.points if states.get(point) == state for one in phases[point]]
        if own := [one for one in own if one.state == state]:
            reasons[state] = caveats.join_reasons(own)
    return Coverage(sweep.name, counts, reasons)


@dataclass(frozen=True)
class Build:
    """A build of a tool. name: as in the table of results; mpi: empty for a tool without MPI;
    results: number of results; documents: keys of the build documents."""

    name: str
    tool: str
    version: str
    origin: str
    mpi: str
    sha256: str
    results: int
    documents: tuple[str, ...]


def describe_builds(campaign: Campaign, results: Sequence[PointSummary]) -> list[Build]:
    """The builds behind the results, tool by tool."""
    measured: dict[tuple[str, str], list[ResultRow]] = {}  # (tool, name of the build) -> rows
    for row in campaign.rows:
        if row.tool_build:
            measured.setdefault((row.tool, row.tool_build), []).append(row)
    known, listed = campaign.about.builds, []
    for (tool, name), rows in sorted(measured.items(), key=lambda item: item[0][0]):
        keys = tuple(dict.fromkeys(row.build for row in rows if row.build in known))
        document = known[keys[0]] if keys else None
        program = document.tools.get(tool) if document else None
        build = Build(
            name=name,
            tool=formats.tool(tool),
            version=formats.version(tool, rows[0].tool_version or ""),
            origin=_origin(document, program),
            mpi=_mpi(document) if formats.is_mpi(tool) else "",
            sha256=rows[0].tool_sha256 or "",
            results=sum(result.tool == tool and name in result.builds for result in results),
            documents=keys,
        )
        listed.append(build)
    return listed


def _origin(document: BuildDocument | None, program: BuiltProgram | None) -> str:
    """`Spack: fio@3.37`, `/usr/bin/fio, package fio 3.33`"""
    if document is None or program is None:
        return "not recorded"
    if document.provider == "spack":
        return f"Spack: {program.package}"
    script = "a script: what it starts is not recorded" if program.script else ""
    return ", ".join(filter(None, (program.path, script, _package(program.package))))


def _mpi(document: BuildDocument | None) -> str:
    mpi = document.mpi if document else None
    return ", ".join(filter(None, (mpi.path, mpi.version, _package(mpi.package)))) if mpi else "not known"


def _package(name: str | None) -> str:
    return f"package {name}" if name else "of no package"


def describe_spack_builds(campaign: Campaign) -> Iterator[tuple[str, str, list[str]]]:
    """(key of a Spack build document, versions of Spack and packages, checkouts with uncommitted changes)."""
    for key, document in campaign.about.builds.items():
        if document.provider == "spack" and document.spack and document.repository:
            spack, packages = document.spack, document.repository
            checkouts = {f"Spack {spack.version}": spack, f"packages {packages.pin}": packages}
            about = " with ".join(
                title + (f" (commit {made.commit})" if made.commit else "") for title, made in checkouts.items()
            )
            changed = [f"The checkout of {title} in {made.path}" for title, made in checkouts.items() if made.changed]
            yield key, about, changed


def name_programs(campaign: Campaign) -> list[str]:
    """Tools with their versions: `fio 3.37 (Spack)`."""
    spack = {key for key, document in campaign.about.builds.items() if document.provider == "spack"}
    found = dict.fromkeys(
        formats.program(row.tool, row.tool_version) + (" (Spack)" if row.build in spack else "")
        for row in campaign.rows
        if row.tool_version is not None
    )
    return list(found)


def describe_repetitions(settings: RepetitionRule) -> str:
    """`3 to 10, until the 95 % confidence interval is within ± 5 %`"""
    low, high, until = settings.min, settings.max, settings.half_width
    text = str(low) if low == high else f"{low} to {high}"
    if until is not None:
        text += f", until the 95 % confidence interval is within ± {100 * until:g} %"
    return text
