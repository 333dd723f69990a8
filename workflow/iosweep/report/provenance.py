"""Where figures come from: builds of the tools with their origin, repetitions of the sweeps. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from iosweep.analysis import formats
from iosweep.analysis.data import Campaign, Row
from iosweep.analysis.summary import PointSummary
from iosweep.plan.model import RepetitionFacts
from iosweep.programs.builds import BuiltProgram
from iosweep.store import campaign_documents
from iosweep.store.campaign_documents import Checkout


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
    builds: dict[str, campaign_documents.Build],
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


def _origin(build: campaign_documents.Build, program: BuiltProgram) -> Iterator[str]:
    if build.provider == "spack":
        yield f"Spack: {program.package}"
    else:
        yield program.path + (", a script: what it starts is not recorded" if program.script else "")
        yield _package(program.package)


def _mpi(build: campaign_documents.Build | None) -> Iterator[str]:
    mpi = build.mpi if build else None
    if build is None or mpi is None:
        yield "not known"
    else:
        yield ", ".join(filter(None, (mpi.path, mpi.version)))
        yield _package(mpi.package)


def _package(name: str | None) -> str:
    return f"package {name}" if name else "of no package"


def _spack_builds(builds: dict[str, campaign_documents.Build]) -> Iterator[SpackBuild]:
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


def repetitions(settings: RepetitionFacts) -> str:
    """How often the points of a sweep are repeated, in words."""
    low, high, until = settings.min, settings.max, settings.until_ci95_half_width
    text = str(low) if low == high else f"{low} to {high}"
    if until is not None:
        text += f", until the 95 % confidence interval is within ± {100 * until:g} %"
    return text
