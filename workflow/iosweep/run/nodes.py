"""The nodes of an allocation: what they are like, whether they can measure together, and the CPUs that are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from iosweep.errors import AllocationError, ExitCode
from iosweep.hostlist import hosts
from iosweep.node import pinning, process
from iosweep.node.facts import NodeFacts, collect
from iosweep.programs.path import hash_of
from iosweep.run import remote_agent, target_check
from iosweep.run.binaries import Binaries
from iosweep.run.remote import RemoteAgents
from iosweep.run.request import Setup
from iosweep.store.campaign_documents import Missing, Needs
from iosweep.target import identify
from iosweep.target.identify import FileSystem, may_be_one, volume
from iosweep.tools import tools


@dataclass(frozen=True)
class Nodes:
    """`facts`: host -> what the node is like, the first is ours. `volumes`: names of the target on them."""

    facts: Mapping[str, NodeFacts]
    volumes: tuple[str, ...] = ()


def inspect(setup: Setup, target: FileSystem, binaries: Binaries) -> Nodes:
    """The facts of the nodes. `target`: as the first node sees it.

    Raises AllocationError where a node does not see the target, the tools or the results of the first one.
    """
    directory, kept = setup.plan.target.directory, setup.plan.cpus.reserved
    programs = binaries.versions()
    if (remote := setup.remote) is None:
        space = setup.agent.call(identify.space, directory)
        known = collect(target, space, programs, reserved_cpus=kept)
        return Nodes({known.host: known})
    answers = remote.answers(remote_agent.facts, directory, programs, kept)
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
            # another job may be given other nodes
            raise AllocationError(ExitCode.REFUSED, f"{host} differs from {remote.hosts[0]}: {wrong}", nodes=[host])
    _check_results(setup, remote)
    facts = {host: structs.replace(one.node, host=host) for host, one in seen.items()}
    return Nodes(facts, tuple(sorted({volume(one.target) for one in seen.values()})))


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
    if not may_be_one(here, there):
        return (
            f"the target is on the file system {there['source']} ({there['fstype']}) there, and on {here['source']}"
            f" ({here['fstype']}) on the first node; is it mounted there?"
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


def pin(setup: Setup, nodes: Nodes) -> pinning.Pinning:
    """Decide which CPUs ranks are bound to, and keep ourselves to the usable ones.

    Points with more ranks than CPUs are recorded as missing. Raises Conflict.
    """
    settings, remote = setup.plan.cpus, setup.remote
    decided = pinning.decide(settings, nodes.facts, slurm=remote is not None)
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
