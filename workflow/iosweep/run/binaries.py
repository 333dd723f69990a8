"""The programs that an allocation measures with: the tools' binaries, and the mpiexec that starts their ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from iosweep.errors import AllocationError, ExitCode, Obstacle
from iosweep.judge import remaining
from iosweep.plan.launchers import Mpiexec, candidates
from iosweep.plan.model import Point
from iosweep.programs import builds
from iosweep.programs.path import Program, UnusableTool, find, sha256
from iosweep.run.launching import Commands, needs_mpiexec
from iosweep.run.request import Setup
from iosweep.store.campaign_documents import Missing, Needs
from iosweep.store.store import BESIDE_BUILD, fits_build
from iosweep.tools import tools


@dataclass(frozen=True)
class Binaries:
    """`programs`: tool -> its binary, for the tools that can be used. `mpiexec`: None if none is needed or found."""

    programs: Mapping[str, Program]
    mpiexec: Mpiexec | None

    def hashes(self) -> dict[str, str]:
        return {name: program.sha256 for name, program in self.programs.items()}

    def versions(self) -> dict[str, tuple[str, str]]:
        """name -> path and version, mpiexec included."""
        every = {name: (program.path, program.version) for name, program in self.programs.items()}
        return every | ({"mpiexec": (self.mpiexec.path, self.mpiexec.version)} if self.mpiexec else {})


def find_all(setup: Setup) -> Binaries:
    """Find the programs. Points that lack one are recorded as missing. Raises AllocationError for another build."""
    launcher, search = setup.request.launcher, setup.search
    used = sorted({point.tool for point in setup.allocation.points})
    asked = {name: find(tools()[name], setup.agent.run, search) for name in used}
    found = {name: program for name, program in asked.items() if isinstance(program, Program)}
    mpiexec = needs_mpiexec(launcher, [tools()[name] for name in found], search)

    def lacks(point: Point) -> Missing | None:
        """The needs of a point that this machine does not meet."""
        if lacking := launcher.lacks(point):
            return Missing(msgspec.convert(lacking[0], Needs), lacking[1])
        if isinstance(program := asked[point.tool], UnusableTool):
            sha = sha256(point.tool, search) if program.lasting else None
            return Missing(Needs(tool=point.tool, sha256=sha), program.reason)
        if tools()[point.tool].mpi and isinstance(mpiexec, Obstacle):
            reason = f"the launcher {launcher.name} cannot be used: {mpiexec}"
            return Missing(Needs(mpiexec=tuple(candidates(search, launcher.manager))), reason)
        return None

    stored = setup.store.missing()
    out_of_time = {point: known for point, known in stored.items() if remaining.out_of_time(known, setup.plan)}
    lacking = {point.id: missing for point in setup.allocation.points if (missing := lacks(point))}
    setup.set_missing(lacking)
    for point in setup.allocation.points:
        if point.id not in lacking:
            setup.store.set_missing(point.id, out_of_time.get(point.id))
    if setup.built and (other := [p.path for t, p in found.items() if p.sha256 != setup.built.hashes().get(t)]):
        raise AllocationError(
            ExitCode.REFUSED,
            f"{other[0]} is not the file that {setup.built.file} says; remove {setup.built.file}, and the next run"
            " verifies the tools anew",
            lasting=True,
        )
    return Binaries(found, None if isinstance(mpiexec, Obstacle) else mpiexec)


def start(setup: Setup, commands: Commands, used: Iterable[str]) -> None:
    """Start ranks of the tools that are used; points of those that do not start are recorded as missing."""
    needs = Needs(launcher=setup.request.launcher.name)
    for name in sorted(used):
        if tools()[name].mpi and (reason := commands.no_start(tools()[name])):
            points = [point.id for point in setup.allocation.points if point.tool == name]
            setup.set_missing(dict.fromkeys(points, Missing(needs, reason)))


def keep_build(setup: Setup, binaries: Binaries) -> str:
    """Store the builds of the programs; returns the key of their document."""
    built = setup.built
    document = built.document if built else builds.of_path(binaries.programs, binaries.mpiexec)
    key = builds.key(document)
    setup.store.put("builds", key, document)
    if built:
        for name in BESIDE_BUILD:
            original = (built.file.parent / "environment" / name).read_bytes()
            if fits_build(document, name, original):  # it may have been damaged since
                setup.store.keep(f"builds/{key}.{name}", original)
    return key
