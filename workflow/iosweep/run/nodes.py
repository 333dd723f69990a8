"""The nodes of an allocation: the programs that measure there, what the nodes are like, whether they can measure
together, and the CPUs that are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import structs

from iosweep.errors import AllocationError, ExitCode, Obstacle
from iosweep.hostlist import hosts
from iosweep.judge import remaining
from iosweep.node import pinning, process
from iosweep.node.facts import NodeFacts, collect
from iosweep.plan.model import Point
from iosweep.programs import programs
from iosweep.programs.programs import Mpiexec, Program, candidates, find, hash_of, sha256
from iosweep.run import agents, target_check
from iosweep.run.agents import RemoteAgents
from iosweep.run.launch import Commands, needs_mpiexec
from iosweep.run.work import Setup
from iosweep.store.record import Missing, Needs
from iosweep.store.store import BESIDE_BUILD, fits_build
from iosweep.target import identify
from iosweep.target.identify import FileSystem, identity
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


def find_programs(setup: Setup) -> Binaries:
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
        if isinstance(program := asked[point.tool], Obstacle):
            sha = sha256(point.tool, search) if program.lasting else None
            return Missing(Needs(tool=point.tool, sha256=sha), str(program))
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


def check_launcher(setup: Setup, commands: Commands, used: Iterable[str]) -> None:
    """Start ranks of each tool that is used; points of a tool whose ranks do not start are recorded as missing."""
    needs = Needs(launcher=setup.request.launcher.name)
    for name in sorted(used):
        if tools()[name].mpi and (reason := commands.no_start(tools()[name])):
            points = [point.id for point in setup.allocation.points if point.tool == name]
            setup.set_missing(dict.fromkeys(points, Missing(needs, reason)))


def keep_build(setup: Setup, binaries: Binaries) -> str:
    """Store the builds of the programs; returns the key of their document."""
    built = setup.built
    document = built.document if built else programs.path_build(binaries.programs, binaries.mpiexec)
    key = programs.build_key(document)
    setup.store.put("builds", key, document)
    if built:
        for name in BESIDE_BUILD:
            original = (built.file.parent / "environment" / name).read_bytes()
            if fits_build(document, name, original):  # it may have been damaged since
                setup.store.keep(f"builds/{key}.{name}", original)
    return key


def inspect(setup: Setup, target: FileSystem, binaries: Binaries) -> dict[str, NodeFacts]:
    """host -> what the node is like, the first is ours. `target`: as the first node sees it.

    Raises AllocationError where a node does not see the target, the tools or the results of the first one.
    """
    directory, kept = setup.plan.target.directory, setup.plan.cpus.reserved
    programs = binaries.versions()
    if (remote := setup.remote) is None:
        space = setup.agent.call(identify.read_space, directory)
        known = collect(target, space, reserved_cpus=kept)
        return {known.host: known}
    answers = remote.answers(agents.facts, directory, programs, kept)
    failed = {host: answer if isinstance(answer, Exception) else None for host, answer in answers.items()}
    if unfit := target_check.unfit(failed):
        raise unfit
    seen = {host: answer for host, answer in answers.items() if not isinstance(answer, Exception)}
    hashes = binaries.hashes()
    for host, one in seen.items():
        for name, libraries in one.absent.items():
            lacks = f"{name} cannot run on {host}: {', '.join(libraries)} is not found there"
            raise AllocationError(ExitCode.REFUSED, lacks, nodes=[host])
        if wrong := other_target(target, one.target) or other_build(hashes, one.builds):
            if setup.built and one.builds != hashes:
                wrong += f"; is tools.directory ({setup.built.file.parent.parent}) mounted there?"
            # another job may be given other nodes, unless each has a disk of this name
            each_own = identity(target) != identity(one.target) and target["source"] == one.target["source"]
            differs = f"{host} differs from {remote.hosts[0]}: {wrong}"
            raise AllocationError(ExitCode.REFUSED, differs, lasting=each_own, nodes=[host])
    _check_results(setup, remote)
    return {host: structs.replace(one.node, host=host) for host, one in seen.items()}


def _check_results(setup: Setup, remote: RemoteAgents) -> None:
    """Raise AllocationError where a node does not see the results."""
    results = setup.store.path.absolute()
    ours = str(results / "plans" / f"{setup.plan.digest}.json")
    if away := [host for host, theirs in remote.call(hash_of, ours).items() if theirs != hash_of(ours)]:
        raise AllocationError(
            ExitCode.REFUSED,
            f"{hosts(away)}: the results {results} do not exist there; every node must see the directory that"
            " snakemake runs in",
            nodes=away,
        )


def other_target(here: FileSystem, there: FileSystem) -> str | None:
    """Why a node cannot measure on the target of the first one, or None. Pure."""
    if identity(here) != identity(there):
        return (
            f"the target is on the file system {there['source']} ({there['fstype']}) there, and on {here['source']}"
            f" ({here['fstype']}) on the first node; is it mounted there, and shared?"
        )
    return None if there["writable"] else "the target cannot be written to from there"


def other_build(builds: Mapping[str, str], found: Mapping[str, str | None]) -> str | None:
    """Which tool is not the same on a node as on the first one, or None. Pure."""
    for tool, build in builds.items():
        if found.get(tool) is None:
            return f"{tool} does not exist there under the same path"
        if found[tool] != build:
            return f"{tool} is a different build there"
    return None


def pin(setup: Setup, nodes: Mapping[str, NodeFacts]) -> pinning.Pinning:
    """Decide which CPUs ranks are bound to, and keep ourselves to the usable ones.

    Points with more ranks than CPUs are recorded as missing. Raises Conflict.
    """
    settings, remote = setup.plan.cpus, setup.remote
    decided = pinning.decide(settings, nodes, slurm=remote is not None)
    for note in decided.notes:
        setup.request.reporter.say(note)
    if decided.mode in pinning.BINDS:
        usable = {host: sorted(cpus) for host, cpus in decided.usable_of.items()}
        if remote:
            remote.call(process.keep_to, each={host: [cpus] for host, cpus in usable.items()})
        here = next(iter(usable.values()))
        setup.agent.call(process.keep_to, here)
        process.keep_to(here)
    setup.set_missing(
        {
            point.id: Missing(Needs(cpus=settings), reason)
            for point in setup.allocation.points
            if tools()[point.tool].mpi and (reason := decided.lacks(point.tasks // point.nodes))
        }
    )
    return decided
