"""The target of a campaign: whether it is there, on which file system, and whether every node can work on it.

Only agents touch it, with a deadline. `unfit` decides; the other functions ask.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import asdict

from iosweep.config.sweeps import Config
from iosweep.errors import (
    AllocationError,
    ExitCode,
    Problem,
    Refused,
    TargetError,
    TargetHangs,
    Unusable,
    cause_of_number,
)
from iosweep.hostlist import alike
from iosweep.hostlist import hosts as named
from iosweep.node import procfs
from iosweep.plan.forecast import Forecast
from iosweep.plan.model import Plan
from iosweep.run.agents import RemoteAgents
from iosweep.run.work import Done, Setup
from iosweep.target import directory as campaign_directory
from iosweep.target import identify, space, trees
from iosweep.target.agent import Agent
from iosweep.target.directory import Place
from iosweep.target.identify import FileSystem

#: Time limit for the target to answer here, or target.deadline if that is shorter.
DEADLINE_S = 5.0
_ON_TARGET = "is on the file system under test; name a directory elsewhere"
#: What a node answers: None if all is well, why it cannot work there, or what it raised.
Answer = str | Exception | None


# Before anything is planned


def problem(configured: Config) -> Problem | None:
    """Why the target cannot be measured on, as far as this machine can see; None if it can."""
    target, document = configured.settings.target, configured.documents[0]
    ours = campaign_directory.name_of(configured.settings.campaign)
    try:
        with Agent(min(DEADLINE_S, target.deadline)) as agent:
            if wrong := agent.call(identify.check_target, target.directory, ours, target.type):
                key, message = wrong
                return document.problem(("target", key), message)
            lock = lock_problem(agent, target.directory, target.lock)
    except (Refused, TargetError, TargetHangs) as error:
        why = error.strerror if isinstance(error, TargetError) else str(error)
        message = f"{json.dumps(target.directory)} cannot be measured on: {why}"
        return document.problem(("target", "directory"), message)
    return document.problem(("target", "lock"), lock) if lock else None


def fstype(directory: str) -> str:
    """The type of a target's file system on this machine; "" where it cannot be seen from here."""
    try:
        with Agent(DEADLINE_S) as agent:
            return agent.call(identify.identify, directory)["fstype"]
    except (Refused, TargetError, TargetHangs):
        return ""


def lock_problem(agent: Agent, directory: str, lock: str | None) -> str | None:
    """Why the directory of the locks would be refused; None if it would not, or there is none."""
    if lock is None:
        return None
    try:
        there = agent.call(identify.identify, lock, "the directory")
        here = agent.call(identify.identify, directory)
    except (Refused, TargetError) as error:
        return f"{lock} cannot be used: {error.strerror if isinstance(error, TargetError) else error}"
    except TargetHangs:
        return f"{lock} does not answer; name another one"
    return f"{lock} {_ON_TARGET}" if identify.same_now(there, here) else None


def check_space(made: Plan, cost: Forecast) -> int:
    """Free bytes of the target. Raises Unusable if the plan does not fit its space, quota or layout; Refused,
    TargetError and TargetHangs if that is not known here."""
    target = made.target.directory
    with Agent(DEADLINE_S) as agent:
        directory = campaign_directory.directory_of(target, made.campaign)
        room, found = agent.call_all((space.read_room, (target,)), (campaign_directory.read_owner, (directory,)))
        present = agent.call(trees.measure_usage, Place(directory, str(found.get("uuid"))))["bytes"] if found else 0
    if not (room["file_system"]["writable"] or found):  # measured elsewhere: target_check would have refused it
        raise Refused(f"user {procfs.user_name(os.getuid())} cannot write to {target} here")
    obstacle = space.too_much(room["space"], present, cost.peak_bytes, cost.inodes, asdict(made.limits))
    obstacle = obstacle or space.over_quota(room["quotas"], max(0, cost.peak_bytes - present), cost.inodes)
    if made.target.layout:
        obstacle = campaign_directory.unsettable(room["file_system"]["fstype"]) or obstacle
    if obstacle:
        raise Unusable(f"does not fit {target}: {obstacle.what}", obstacle.remedy)
    return int(room["space"]["free_bytes"])


# Before anything is prepared


def find(setup: Setup, done: Done) -> FileSystem:
    """Find the target, and see that neither the tools nor the lock are on it; returns its file system, with the source
    that results name it by.

    Results on it are allowed on one machine only, which is noted. Raises AllocationError, Refused.
    """
    directory = setup.plan.target.directory
    facts = _file_system(setup.agent, setup.remote, directory, setup.plan.target.type)
    if way := setup.agent.call(identify.find_open_directory, directory):
        if identify.is_root():
            raise Refused(f"root cannot measure on {directory}: {way}")
        setup.note(way)
    on_root = facts["device"] == Path("/").stat().st_dev
    if on_root:
        _check_mounted(directory, done, facts)
    results = setup.store.path.absolute()
    there = next(path for path in (results, *results.parents) if path.exists())
    if facts["device"] == there.stat().st_dev:
        setup.note("the results are on the file system under test")
    elif on_root:
        setup.note("the target is on the root file system")
    tools_directory = setup.built and str(setup.built.file.absolute().parent.parent)
    for key, path in (("target.lock", setup.plan.target.lock), ("tools.directory", tools_directory)):
        if path and identify.same_now(setup.agent.call(identify.identify, path, key), facts):
            if key == "target.lock" or setup.job:  # a login node may not have seen it
                raise AllocationError(ExitCode.REFUSED, f"{key} {path} {_ON_TARGET}", lasting=True)
            setup.note(f"{key} {path} is on the file system under test")
    ours = campaign_directory.directory_of(directory, setup.plan.campaign)
    if (claimed := setup.store.claimed()) and claimed.directory == ours:
        marked = setup.agent.call(campaign_directory.has_marker, ours, claimed.uuid)
        facts["source"] = identify.same_source(claimed.source, facts, marked)
    return facts


def _check_mounted(directory: str, done: Done, facts: FileSystem) -> None:
    """Refuse a target on the root file system that was on another one: its mount point, without the mount."""
    found = [result.target for repetitions in done.values() for result in repetitions.values()]
    before = {identify.identity(t.facts): (t.source, t.fstype) for t in found if t.directory == directory}
    if before and identify.identity(facts) not in before:
        source, fstype = min(before.values())
        raise AllocationError(
            ExitCode.REFUSED,
            f"the target {directory} is on the root file system now, and was on {source} ({fstype}) when it was"
            " measured; is that mounted? (If this is meant, take another campaign name.)",
        )


# On every node


def _file_system(agent: Agent, remote: RemoteAgents | None, directory: str, wanted: str | None) -> FileSystem:
    """The target's file system, as the first node sees it; every node has to see one of this type. `wanted`:
    target.type. Raises AllocationError; without agents on the nodes Refused, and what Agent.call raises.
    """

    def other_type(facts: FileSystem) -> str | None:
        wrong = identify.wrong_type(directory, facts["fstype"], facts["mount"], wanted)
        return wrong and f"target.type: {wrong}"

    if remote is None:
        here = agent.call(identify.identify, directory)
        if why := other_type(here):
            raise Refused(why)
        return here
    answers = remote.answers(identify.identify, directory)
    if found := unfit({host: a if isinstance(a, Exception) else other_type(a) for host, a in answers.items()}):
        raise found
    first = answers[remote.hosts[0]]
    assert not isinstance(first, Exception)
    return first


def unfit(answers: Mapping[str, Answer]) -> AllocationError | None:
    """The error that the nodes' answers amount to; None if all nodes can work on the target. Pure."""
    bad = {host: _sentence(answer) for host, answer in answers.items() if answer is not None}
    if not bad:
        return None
    fit = [host for host in answers if host not in bad]
    message = "; ".join(f"on {each}" for each in alike(bad))
    if fit:
        message += f"; {named(fit)} can work there"
    hangs = any(isinstance(answer, TargetHangs) for answer in answers.values())
    refused = all(isinstance(answer, str | Refused) for answer in answers.values())
    return AllocationError(
        ExitCode.HANGS if hangs else ExitCode.REFUSED,
        message,
        lasting=refused and len(bad) > 1,  # of a single node it is unknown whether the node or the target is at fault
        nodes=() if len(bad) > 1 and not fit else list(bad),
    )


def _sentence(answer: str | Exception) -> str:
    """An answer without the name of its node."""
    return target_error(answer) if isinstance(answer, TargetError) else str(answer)


def target_error(error: TargetError) -> str:
    """A sentence on an error of the target: what its number means, then the system's words."""
    known = cause_of_number(error.errno)
    return f"{known.text}: {error.strerror}" if known else str(error.strerror)
