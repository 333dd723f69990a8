"""Quality and provenance of the figures: checks, coverage, builds of the tools. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from iosweep.analysis import caveats, formats
from iosweep.analysis.summary import PointSummary, count_results
from iosweep.config.sweeps import RepetitionRule
from iosweep.judge.findings import ROOTS
from iosweep.plan.model import SweepFacts
from iosweep.tables.reader import PRECISE, Campaign, CheckRow, ResultRow

# checks and coverage

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


def count_coverage(sweeps: Iterable[SweepFacts], results: Sequence[PointSummary]) -> dict[str, dict[str, int]]:
    """Sweep -> outcome -> number of results."""
    of_point = {point: list(members) for point, members in groupby(results, lambda result: result.point)}
    return {sweep.name: count_results(r for point in sweep.points for r in of_point.get(point, ())) for sweep in sweeps}


@dataclass(frozen=True)
class Build:
    """A build of a tool."""

    name: str  # as in the table of results
    tool: str
    version: str
    origin: str  # `Spack: fio@3.37`, `/usr/bin/fio`
    mpi: str  # empty for a tool without MPI
    sha256: str
    results: int  # number of results
    documents: tuple[str, ...]  # keys of the build documents


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
        origin = "not recorded"
        if document and program:
            script = ", a script: what it starts is not recorded" if program.script else ""
            origin = f"Spack: {program.package}" if document.provider == "spack" else f"{program.path}{script}"
        mpi = ""
        if formats.is_mpi(tool):
            used = document.mpi if document else None
            mpi = ", ".join(filter(None, (used.path, used.version, used.package))) if used else "not known"
        listed.append(
            Build(
                name=name,
                tool=formats.tool(tool),
                version=formats.version(tool, rows[0].tool_version or ""),
                origin=origin,
                mpi=mpi,
                sha256=rows[0].tool_sha256 or "",
                results=sum(result.tool == tool and name in result.builds for result in results),
                documents=keys,
            )
        )
    return listed


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
        f"{formats.tool(row.tool)} {formats.version(row.tool, row.tool_version)}"
        + (" (Spack)" if row.build in spack else "")
        for row in campaign.rows
        if row.tool_version is not None
    )
    return list(found)


def describe_repetitions(settings: RepetitionRule) -> str:
    """`3 to 10, until the 95 % confidence interval is within ± 5 %, in each of 2 sessions`"""
    low, high, until = settings.min, settings.max, settings.half_width
    text = str(low) if low == high else f"{low} to {high}"
    if until is not None:
        text += f", until the 95 % confidence interval is within ± {100 * until:g} %"
    return text + (f", in each of {settings.sessions} sessions" if settings.sessions > 1 else "")
