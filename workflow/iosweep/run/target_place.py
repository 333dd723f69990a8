"""Which file system the target is on, and what must not be on the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosweep.errors import AllocationError, ExitCode
from iosweep.programs.spack.built import on_target
from iosweep.run import target_check
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.request import Setup
from iosweep.run.work import Done
from iosweep.target import filesystem, identify
from iosweep.target.identify import FileSystem


@dataclass(frozen=True)
class TargetPlace:
    """`facts`: what identifies the target here (target.identify). `recorded`: what results keep of them."""

    facts: FileSystem
    recorded: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """The file system as locks name it."""
        return filesystem.identity(self.facts)

    @property
    def name(self) -> str:
        """The file system as results name it."""
        return filesystem.volume(self.recorded)


def find(setup: Setup, done: Done) -> TargetPlace:
    """Find the target, and see that neither the tools nor the lock are on it. Raises AllocationError, Refused.

    Results on it are allowed on one machine only, which is noted.
    """
    directory = setup.plan.target["directory"]
    facts = target_check.file_system(setup.agent, setup.remote, directory, setup.plan.target.get("type"))
    kept = CampaignDirectory(setup.plan, setup.store, setup.agent)
    # not by the fsid, which may change with each mount (NFS, XFS on a device mapper)
    name = filesystem.known_as(facts, kept.seen_as, kept.is_there())
    found = TargetPlace(facts, {k: facts[k] for k in ("source", "fstype", "fsid")} | {"volume": name})
    with_results = facts["device"] == results_device(setup.store.path)
    if facts["device"] == Path("/").stat().st_dev:
        _check_mounted(directory, done, found.recorded)
        if not with_results:
            setup.note("the target is on the root file system")
    if setup.built:
        _check_tools(setup, facts)
    if with_results:
        setup.note("the results are on the file system under test")
    lock = setup.plan.target["lock"]
    if lock and filesystem.identity(setup.agent.call(identify.identify, lock, "target.lock")) == found.identity:
        raise AllocationError(
            ExitCode.REFUSED,
            f"target.lock {lock} is on the file system under test; name a directory elsewhere",
            lasting=True,
        )
    return found


def _check_mounted(directory: str, done: Done, facts: Mapping[str, Any]) -> None:
    """Refuse a target on the root file system that was on another one: its mount point, without the mount."""
    found = [result.target for repetitions in done.values() for result in repetitions.values()]
    before = {filesystem.volume(t.facts): (t.source, t.fstype) for t in found if t.directory == directory}
    if before and filesystem.volume(facts) not in before:
        source, fstype = min(before.values())
        raise AllocationError(
            ExitCode.REFUSED,
            f"the target {directory} is on the root file system now, and was on {source} ({fstype}) when it was"
            " measured; is that mounted? (If this is meant, take another campaign name.)",
        )


def _check_tools(setup: Setup, facts: FileSystem) -> None:
    """Refuse tools on the file system under test: a login node may not have seen it."""
    assert setup.built
    directory = setup.built.file.absolute().parent.parent
    there = setup.agent.call(identify.identify, str(directory), "tools.directory")
    if wrong := on_target(facts, there, directory, setup.job is not None, setup.plan.campaign):
        refused, sentence = wrong
        if refused:
            raise AllocationError(ExitCode.REFUSED, sentence, lasting=True)
        setup.note(sentence)


def results_device(results: Path) -> int:
    """Device that the results are on, or will be."""
    return next(p for p in (results.absolute(), *results.absolute().parents) if p.exists()).stat().st_dev
