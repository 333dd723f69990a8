"""Which builds of the tools the figures come from, and where these are from. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iosweep.report import formats, titles
from iosweep.report.data import Campaign, Row
from iosweep.report.summary import Result

_PROVIDERS = {"spack": "Spack"}


@dataclass(frozen=True)
class Build:
    """A build of one tool."""

    name: str  # as the table of results calls it
    tool: str
    version: str
    origin: tuple[str, ...]  # where it is from, in lines
    mpi: tuple[str, ...]  # the same of its MPI; none where its threads are no ranks
    sha256: str
    results: int
    documents: tuple[str, ...]  # keys of the build documents that have it


@dataclass(frozen=True)
class Made:
    """What Spack built at once."""

    key: str
    about: str
    changed: tuple[str, ...]  # checkouts that are not what their commit says
    packages: tuple[str, ...]


@dataclass(frozen=True)
class Builds:
    """The section of the page."""

    sentence: str
    rows: tuple[Build, ...]
    made: tuple[Made, ...]

    @property
    def with_mpi(self) -> bool:
        """Whether a tool is among them whose threads are MPI ranks."""
        return any(row.mpi for row in self.rows)


def of(campaign: Campaign, results: Sequence[Result]) -> Builds | None:
    """The builds that results are of, tool by tool; None where nothing was measured."""
    measured: dict[tuple[str, str], list[Row]] = {}  # (tool, name of the build) -> rows
    for row in campaign.rows:
        if row["tool_build"]:
            measured.setdefault((row["tool"], row["tool_build"]), []).append(row)
    if not measured:
        return None
    documents = campaign.about["builds"]
    rows = [_build(*which, own, documents, results) for which, own in sorted(measured.items(), key=_first)]
    made = [_made(key, document) for key, document in documents.items() if document["provider"] == "spack"]
    return Builds(_sentence(rows), tuple(rows), tuple(made))


def programs(campaign: Campaign) -> list[str]:
    """Tools with their versions for the first screen: `fio 3.37 (Spack)`."""
    found = dict.fromkeys(
        (row["tool"], row["tool_version"], _provider(campaign.about["builds"].get(row["build"])))
        for row in campaign.rows
        if row["tool_version"] is not None
    )
    return [titles.program(tool, version) + (f" ({by})" if by else "") for tool, version, by in found]


def _provider(document: Mapping[str, Any] | None) -> str:
    return _PROVIDERS.get(document["provider"], "") if document else ""


def _first(found: tuple[tuple[str, str], Sequence[Row]]) -> tuple[str, Any]:
    """Sorting key: by tool, then by time."""
    (tool, _), rows = found
    return tool, min(row["started"] for row in rows)


def _build(tool: str, name: str, rows: Sequence[Row], documents: Mapping[str, Any], results: Sequence[Result]) -> Build:
    keys = tuple(dict.fromkeys(row["build"] for row in rows if row["build"] in documents))
    document = documents[keys[0]] if keys else {}
    program = document.get("tools", {}).get(tool)
    return Build(
        name=name,
        tool=titles.tool(tool),
        version=titles.version(tool, rows[0]["tool_version"]),
        origin=tuple(_origin(document, program)) if program else ("not recorded",),
        mpi=tuple(_mpi(document.get("mpi"))) if titles.is_mpi(tool) else (),
        sha256=rows[0]["tool_sha256"],
        results=sum(result.tool == tool and name in result.builds for result in results),
        documents=keys,
    )


def _origin(document: Mapping[str, Any], program: Mapping[str, Any]) -> Iterator[str]:
    if document["provider"] == "spack":
        yield f"Spack: {program['package']}"
        yield ", ".join(filter(None, (document["compiler"], document["target"], document["os"])))
    else:
        yield program["path"] + (", a script: what it starts is not recorded" if program.get("script") else "")
        yield _package(program["package"])


def _mpi(mpi: Mapping[str, Any] | None) -> Iterator[str]:
    if mpi is None:
        yield "not known"
    elif "external" not in mpi:
        yield ", ".join(filter(None, (mpi["path"], mpi["version"])))
        yield _package(mpi["package"])
    else:
        yield mpi["package"]
        if mpi["path"] and f"@{mpi['version']}" not in mpi["package"]:
            yield f"its mpiexec says {mpi['version']}"
        if mpi["external"]:
            yield f"the site's, in {mpi['external']}"


def _package(name: str | None) -> str:
    return f"package {name}" if name else "of no package"


def _made(key: str, document: Mapping[str, Any]) -> Made:
    spack, repository = document["spack"], document["repository"]
    checkouts = {f"Spack {spack['version']}": spack, f"packages {repository['pin']}": repository}
    told = [title + (f" (commit {one['commit']})" if one["commit"] else "") for title, one in checkouts.items()]
    return Made(
        key=key,
        about=" with ".join(told),
        changed=tuple(
            f"The checkout of {title} in {one['path']}" for title, one in checkouts.items() if one["changed"]
        ),
        packages=tuple(
            f"{one['name']}@{one['version']}"
            + (f" (the site's, in {one['external']})" if one["external"] else f"/{one['hash'][:7]}")
            for one in document["packages"]
        ),
    )


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
