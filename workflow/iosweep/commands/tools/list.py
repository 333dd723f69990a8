"""`iosweep tools list`: the tools that are built, or on PATH."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence

from iosweep.commands import campaigns
from iosweep.config import sweep_file
from iosweep.errors import Obstacle, Unusable
from iosweep.plan import launchers
from iosweep.plan.launchers import Mpiexec
from iosweep.programs import builds
from iosweep.programs.find import Program, UnusableTool, find
from iosweep.programs.spack import built, request
from iosweep.target.agent import Agent
from iosweep.tools import tools

#: Name, version, path, and the package that it came with, or why the tool cannot be used.
Row = tuple[str, str, str, str]


def add_arguments(parser: ArgumentParser) -> None:
    campaigns.add_configfile(parser)
    parser.add_argument("--provider", choices=("spack", "path"), help=SUPPRESS)
    parser.set_defaults(action=run)


def run(arguments: Namespace) -> int:
    """Print the tools of a configuration; 0 if all that were built, or any that are on PATH, are there, else 1."""
    configured = sweep_file.read(arguments.configfile)
    if (configured.tools.provider or arguments.provider or "path") == "path":
        rows = _on_path()
        _print(rows)
        return 0 if any(version for _, version, _, _ in rows) else 1
    place = request.read(configured).place
    try:
        there = built.read(place.file)
    except Unusable as error:
        print(f"iosweep: {error}", file=sys.stderr)
        return 1
    if there is None:
        print(f"{place.file} is not there: the tools are not built yet; `snakemake tools` builds them", file=sys.stderr)
        return 1
    _print(_built(there))
    print(f"for a shell: . {place.script}")
    return 0


def _on_path() -> list[Row]:
    with Agent() as agent:
        found = {name: find(tool, agent.run) for name, tool in tools().items()}
        return [_row(name, one) for name, one in (found | {"mpiexec": launchers.mpiexec()}).items()]


def _row(name: str, found: Program | Mpiexec | UnusableTool | Obstacle) -> Row:
    if isinstance(found, Program | Mpiexec):
        return name, found.version, found.path, builds.package_of(found.path) or "of no package"
    return name, "", "", str(found) if isinstance(found, Obstacle) else found.reason


def _built(there: built.Built) -> list[Row]:
    rows = [(name, t.version or "", t.path, t.package or "") for name, t in there.content.tools.items()]
    if mpi := there.content.mpi:
        rows.append(("mpi", mpi.version or "", mpi.path or "no mpiexec", mpi.package or ""))
    return rows


def _print(rows: Sequence[Row]) -> None:
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)).rstrip())
