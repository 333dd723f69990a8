"""Preparing an allocation: the nodes, the CPUs and the campaign's directory that its repetitions use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from iosweep.errors import AllocationError, ExitCode
from iosweep.node import node_facts
from iosweep.plan import forecast
from iosweep.run import binaries, nodes, target_check
from iosweep.run.binaries import Binaries
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.datasets import DataSets
from iosweep.run.launching import Commands
from iosweep.run.repetition import Context
from iosweep.run.work import Work
from iosweep.target import identify, lock
from iosweep.tools import tools

#: Below the results: the working directory of tools.
SCRATCH = "scratch"


def prepare(
    work: Work, found: Binaries, place: target_check.TargetPlace, exclusion: lock.Exclusion, budget: Budget
) -> Context:
    """Make the campaign's directory ours, and keep what the nodes are like; returns what repetitions share.

    Nothing is written to the target before all nodes are known to fit.
    """
    setup = work.setup
    seen = nodes.inspect(setup, place.facts, found)
    pinned = nodes.pin(setup, seen)
    todo = work.left()
    counts = work.expected()
    for text in work.outdated(todo, found.programs):
        setup.request.reporter.say(text)
    setup.request.reporter.begin(setup.allocation, sum(counts.values()), work.seconds(counts))
    directory = _claim(work, place, counts)
    if setup.remote:
        target_check.check_shared(directory, setup.remote)
    target_check.check(directory, setup.remote)
    directory.seen([place.volume, identify.volume(place.facts), *seen.volumes])
    for known in seen.facts.values():
        setup.store.put("nodes", node_facts.key(known), known)
    commands = Commands(
        setup.agent,
        setup.request.launcher,
        setup.store.path / SCRATCH,
        found.mpiexec,
        found.programs,
        setup.job.id if setup.job else None,
        setup.remote,
        pinned,
    )
    sets = DataSets(
        setup.agent,
        directory,
        setup.store,
        [work.points[point] for point in counts],
        commands.run,
        budget,
        lambda hosts: target_check.before_tools(directory, setup.remote, hosts),
    )
    return Context(
        plan=setup.plan,
        store=setup.store,
        agent=setup.agent,
        directory=directory,
        sets=sets,
        commands=commands,
        programs=found.programs,
        nodes=seen.facts,
        target=directory.recorded(place.facts, place.volume),
        exclusive=exclusion.now,
        pinning=pinned,
        build=binaries.keep_build(setup, found),
        spent=budget.spent,
        session=commands.job or datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _claim(work: Work, place: target_check.TargetPlace, counts: Mapping[str, int]) -> CampaignDirectory:
    """Make the campaign's directory on the target, or see that it is ours. Raises AllocationError, Refused."""
    setup = work.setup
    directory = CampaignDirectory(setup.plan, setup.store, setup.agent)
    if identify.holds(place.facts, directory.path, setup.store.path):
        raise AllocationError(
            ExitCode.REFUSED,
            f"the results {setup.store.path} are inside the campaign's directory {directory.path}",
            lasting=True,
        )
    if wrong := directory.copied(place.facts):
        raise AllocationError(ExitCode.REFUSED, wrong, lasting=True)
    # checked when the plan was made, too; but a relative path is another directory here
    for tool in sorted({work.points[point].tool for point in counts}):
        if wrong := tools()[tool].check_directory(directory.path):
            raise AllocationError(ExitCode.REFUSED, f"{tool} cannot work in {directory.path}: it {wrong}", lasting=True)
    peak = forecast.of(setup.plan, {setup.allocation.name: counts})
    directory.claim(place.facts["fstype"], place.identity, place.volume, peak)
    return directory
