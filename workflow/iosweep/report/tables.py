"""Tables: mdtest's rates by operation, coverage, checks, builds of the tools. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from iosweep.analysis import findings, formats
from iosweep.analysis.axes import axes_of, split
from iosweep.analysis.data import PRECISE, Campaign, CheckRow, Row, Value
from iosweep.analysis.summary import Metric, PointSummary, distinct, known_or_not, of_points, phase_order
from iosweep.config.sweeps import Repetitions
from iosweep.judge.findings import ROOTS
from iosweep.plan.model import SweepFacts
from iosweep.programs.builds import BuildDocument, BuiltProgram, Checkout
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


@dataclass(frozen=True)
class Table:
    sources: tuple[str, ...]  # the sweeps or suites that it is of
    title: str  # which of several of them; else ""
    about: str  # how all of it was measured; else ""
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]  # what is marked or absent, with the reasons


_NOTHING = Cell("", (), "")


def metadata_tables(campaign: Campaign, results: Sequence[PointSummary]) -> list[Table]:
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


#: Outcomes of a point, those that need attention last.
_OUTCOMES = ("valid", "unneeded", "left", "missing", "suspect", "invalid")

#: Point, phase and repetition.
Phase = tuple[str, str, int | None]


@dataclass(frozen=True)
class Check:
    """One check over all rows of the results."""

    name: str
    severity: str
    counts: Mapping[str, int]  # outcome -> findings
    failed: tuple[tuple[str, int], ...]  # commonest evidence of a fail, with counts
    not_checked: tuple[tuple[str, int], ...]  # commonest reasons, with counts

    @property
    def open(self) -> bool:
        """Whether it failed or could not be made somewhere."""
        return bool(self.counts.get("fail") or self.counts.get("not checked"))


def summarize_checks(checks: Iterable[CheckRow]) -> list[Check]:
    """Per check how often it passed, failed, could not be made or did not apply: causes of failures first, then the
    most doubtful."""
    by_name: dict[str, list[CheckRow]] = {}
    for row in once_each(checks):
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
        # checks whose failure explains others come before those, however many fail
        cause = ROOTS.index(check.name) if check.counts["fail"] and check.name in ROOTS else len(ROOTS)
        return cause, -check.counts["fail"], -check.counts["not checked"], check.name

    return sorted(found, key=key)


def not_checked(checks: Iterable[CheckRow]) -> tuple[int, int]:
    """How many checks could not be made, of how many that applied."""
    outcomes = Counter(row.outcome for row in once_each(checks))
    return outcomes["not checked"], outcomes.total() - outcomes["not applicable"]


def once_each(checks: Iterable[CheckRow]) -> Iterator[CheckRow]:
    """What the checks have found, each once: that ten repetitions do not agree is one finding, not ten."""
    seen = set()
    for row in checks:
        key = (row.point, row.phase, row.outcome, row.evidence)
        if row.check != PRECISE or key not in seen:
            yield row
        if row.check == PRECISE:
            seen.add(key)


def _commonest(rows: Iterable[CheckRow], outcome: str) -> tuple[tuple[str, int], ...]:
    return tuple(findings.commonest(row.evidence or "" for row in rows if row.outcome == outcome)[:3])


def open_checks(checks: Iterable[CheckRow], texts: dict[str, int]) -> dict[Phase, list[int]]:
    """Checks that failed or could not be made, and what kept others off. Other passes are counted, not carried."""
    found: dict[Phase, list[int]] = {}
    for row in checks:
        if row.outcome in ("fail", "not checked") or (row.check, row.outcome) == ("exclusive", "pass"):
            key = (row.point, row.phase, row.repetition)
            evidence = f", {row.evidence}" if row.evidence else ""
            text = f"{row.check}: {row.outcome}{evidence}"
            found.setdefault(key, []).append(texts.setdefault(text, len(texts)))
    return found


@dataclass(frozen=True)
class Coverage:
    """What of a sweep is measured. counts: outcome -> points, which have that of their worst phase; reasons: of the
    outcomes that are not valid, the worst first."""

    sweep: str
    counts: Mapping[str, int]
    reasons: Mapping[str, str]


def coverage(sweeps: Iterable[SweepFacts], results: Iterable[PointSummary]) -> list[Coverage]:
    """The points of each sweep by outcome."""
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
            reasons[state] = findings.reasons(own)
    return Coverage(sweep.name, counts, reasons)


@dataclass(frozen=True)
class Build:
    """A build of one tool."""

    name: str  # as the table of results calls it
    tool: str
    version: str
    origin: tuple[str, ...]  # lines
    mpi: tuple[str, ...]  # lines; none where its threads are no ranks
    sha256: str
    results: int
    documents: tuple[str, ...]  # keys of the build documents that have it


@dataclass(frozen=True)
class SpackBuild:
    """A build document of Spack."""

    key: str
    about: str
    changed: tuple[str, ...]  # checkouts that are not what their commit says


@dataclass(frozen=True)
class Builds:
    """The section of the page."""

    sentence: str
    rows: tuple[Build, ...]
    spack: tuple[SpackBuild, ...]

    @property
    def with_mpi(self) -> bool:
        """Whether a tool is among them whose threads are MPI ranks."""
        return any(row.mpi for row in self.rows)


def builds(campaign: Campaign, results: Sequence[PointSummary]) -> Builds | None:
    """The builds that results are of, tool by tool; None where nothing was measured."""
    measured: dict[tuple[str, str], list[Row]] = {}  # (tool, name of the build) -> rows
    for row in campaign.rows:
        if row.tool_build:
            measured.setdefault((row.tool, row.tool_build), []).append(row)
    if not measured:
        return None
    known = campaign.about.builds
    rows = [_build(*key, own, known, results) for key, own in sorted(measured.items(), key=_by_tool_and_time)]
    return Builds(_sentence(rows), tuple(rows), tuple(_spack_builds(known)))


def _by_tool_and_time(measured: tuple[tuple[str, str], Sequence[Row]]) -> tuple[str, datetime]:
    (tool, _), rows = measured
    return tool, min(row.started or datetime.max.replace(tzinfo=UTC) for row in rows)


def programs(campaign: Campaign) -> list[str]:
    """Tools with their versions for the first screen: `fio 3.37 (Spack)`."""
    spack = {key for key, build in campaign.about.builds.items() if build.provider == "spack"}
    found = dict.fromkeys(
        formats.program(row.tool, row.tool_version) + (" (Spack)" if row.build in spack else "")
        for row in campaign.rows
        if row.tool_version is not None
    )
    return list(found)


def _build(
    tool: str,
    name: str,
    rows: Sequence[Row],
    builds: dict[str, BuildDocument],
    results: Sequence[PointSummary],
) -> Build:
    keys = tuple(dict.fromkeys(row.build for row in rows if row.build in builds))
    document = builds[keys[0]] if keys else None
    program = document.tools.get(tool) if document else None
    return Build(
        name=name,
        tool=formats.tool(tool),
        version=formats.version(tool, rows[0].tool_version or ""),
        origin=tuple(_origin(document, program)) if document and program else ("not recorded",),
        mpi=tuple(_mpi(document)) if formats.is_mpi(tool) else (),
        sha256=rows[0].tool_sha256 or "",
        results=sum(result.tool == tool and name in result.builds for result in results),
        documents=keys,
    )


def _origin(build: BuildDocument, program: BuiltProgram) -> Iterator[str]:
    if build.provider == "spack":
        yield f"Spack: {program.package}"
    else:
        yield program.path + (", a script: what it starts is not recorded" if program.script else "")
        yield _package(program.package)


def _mpi(build: BuildDocument | None) -> Iterator[str]:
    mpi = build.mpi if build else None
    if build is None or mpi is None:
        yield "not known"
    else:
        yield ", ".join(filter(None, (mpi.path, mpi.version)))
        yield _package(mpi.package)


def _package(name: str | None) -> str:
    return f"package {name}" if name else "of no package"


def _spack_builds(builds: dict[str, BuildDocument]) -> Iterator[SpackBuild]:
    for key, build in builds.items():
        if build.provider == "spack" and build.spack and build.repository:
            spack, packages = build.spack, build.repository
            checkouts = {f"Spack {spack.version}": spack, f"packages {packages.pin}": packages}
            yield SpackBuild(
                key=key,
                about=" with ".join(map(_checkout, checkouts, checkouts.values())),
                changed=tuple(f"The checkout of {title} in {c.path}" for title, c in checkouts.items() if c.changed),
            )


def _checkout(title: str, checkout: Checkout) -> str:
    return title + (f" (commit {checkout.commit})" if checkout.commit else "")


def _sentence(rows: Sequence[Build]) -> str:
    """Whether all figures of a tool come from one build."""
    counts = Counter(row.tool for row in rows)
    several, single = ([t for t, count in counts.items() if (count > 1) == more] for more in (True, False))
    parts = []
    if several:
        each = " each" if len(several) > 1 else ""
        which = "which may differ; the table of results says which is of which"
        parts.append(f"Figures of {formats.listing(several)} come from several builds{each}, {which}.")
    if single:
        each = " each" if len(single) > 1 else ""
        parts.append(f"All figures of {formats.listing(single)} come from one build{each}.")
    return " ".join(parts)


def repetitions(settings: Repetitions) -> str:
    """How often the points of a sweep are repeated, in words."""
    low, high, until = settings.min, settings.max, settings.half_width
    text = str(low) if low == high else f"{low} to {high}"
    if until is not None:
        text += f", until the 95 % confidence interval is within ± {100 * until:g} %"
    return text
