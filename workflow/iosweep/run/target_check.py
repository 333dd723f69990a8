"""Whether every node of an allocation can work on the target: `unfit` decides, the others ask the nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from iosweep.errors import AllocationError, ExitCode, Refused, TargetError, TargetHangs
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.outcome import target_error
from iosweep.run.remote import RemoteAgents, Silent
from iosweep.target import handle, identify, ownership, probe
from iosweep.target.agent import Agent
from iosweep.target.identify import FileSystem, is_type, other_type
from iosweep.text import some

#: Time until one node sees what another one has made: the longest time that NFS caches names (30 s), and a margin.
NAME_CACHE_S = 35.0
#: What a node answers: None if all is well, why it cannot work there, or what it raised.
Answer = str | Exception | None


def file_system(agent: Agent, remote: RemoteAgents | None, directory: str, wanted: str | None) -> FileSystem:
    """What identifies the target's file system on the first node (target.identify). `wanted`: target.type.

    Raises AllocationError, Refused if it is not there or of another type.
    """
    try:
        facts: FileSystem = agent.call(identify.identify, directory)
        if not (wrong := _other_type(facts, directory, wanted)):
            return facts
        refused = Refused(wrong)
    except Refused as error:
        refused = error
    if remote:  # another job may be given other nodes, unless no node of this one has the target
        answers = remote.answers(identify.identify, directory).items()
        if found := unfit(
            {h: a if isinstance(a, Exception) else _other_type(a, directory, wanted) for h, a in answers}
        ):
            raise found
    raise refused


def _other_type(facts: FileSystem, directory: str, wanted: str | None) -> str | None:
    if not wanted or is_type(facts["fstype"], wanted):
        return None
    return f"target.type: {other_type(wanted, directory, facts)}"


def check(directory: CampaignDirectory, remote: RemoteAgents | None, data: bool = True) -> None:
    """See that the campaign's directory can be written and read on every node. `data`: as in target/probe.py.

    Raises AllocationError where there are agents on the nodes; without, Refused and what Agent.call raises.
    """
    if remote is None:
        if why := directory.state(data):
            raise Refused(why)
        return
    first, *others = remote.hosts
    answers: dict[str, Answer] = {}
    try:
        answers[first] = directory.state(data)
    except (TargetHangs, TargetError, Refused) as error:
        answers[first] = error
    if others:
        # each under a name of its own, because all nodes write at the same time
        answers |= remote.answers(probe.state, each={host: (directory.place, host, data) for host in others})
    if found := unfit(answers):
        raise found


def before_tools(directory: CampaignDirectory, remote: RemoteAgents | None, hosts: Sequence[str]) -> None:
    """See that the campaign's directory is unchanged on every node that is about to start a tool in it.

    Raises as `check` does.
    """
    directory.check()
    if remote is None or not (others := [host for host in hosts if host != remote.hosts[0]]):
        return
    if found := unfit(remote.answers(handle.check, each=dict.fromkeys(others, (directory.place,)))):
        raise found


def check_shared(directory: CampaignDirectory, remote: RemoteAgents) -> None:
    """See that every node sees our directory: each may have a file system of its own by the same name.

    Raises AllocationError.
    """
    end = time.monotonic() + NAME_CACHE_S
    while True:
        answers = remote.answers(ownership.ours, directory.path, directory.uuid)
        away = [host for host, there in answers.items() if there is False]
        hangs = any(isinstance(answer, TargetHangs) for answer in answers.values())
        found = unfit({h: None if a is True else a or f"{directory.path} is not there" for h, a in answers.items()})
        if not found:
            return
        late = time.monotonic() > end
        if hangs or (late and len(away) < sum(a is not True for a in answers.values())):
            raise found
        if late:
            everywhere = len(away) == len(remote.hosts) - 1  # else another job may be given other nodes
            raise AllocationError(
                ExitCode.REFUSED,
                f"{', '.join(away)}: {directory.path}, made by {remote.hosts[0]}, does not exist there; the target is"
                " on another file system of the same name: is it mounted, and shared by all nodes?",
                lasting=everywhere,
                nodes=() if everywhere else away,
            )
        time.sleep(0.5)


def unfit(answers: Mapping[str, Answer]) -> AllocationError | None:
    """The error that the nodes' answers amount to; None if all nodes can work on the target. Pure."""
    reasons: dict[str, list[str]] = {}
    for host, answer in answers.items():
        if answer is not None:
            reasons.setdefault(_sentence(answer), []).append(host)
    if not reasons:
        return None
    fit = [host for host, answer in answers.items() if answer is None]
    bad = [host for host, answer in answers.items() if answer is not None]
    message = "; ".join(f"on {some(hosts, 4)}: {reason}" for reason, hosts in reasons.items())
    if fit:
        message += f"; {some(fit, 4)} can work there"
    hangs = any(isinstance(answer, TargetHangs) for answer in answers.values())
    refused = all(isinstance(answer, str | Refused) for answer in answers.values())
    return AllocationError(
        ExitCode.HANGS if hangs else ExitCode.REFUSED,
        message,
        lasting=refused and len(bad) > 1,  # of a single node it is unknown whether the node or the target is at fault
        nodes=() if len(bad) > 1 and not fit else bad,
    )


def _sentence(answer: str | Exception) -> str:
    """An answer without the name of its node."""
    if isinstance(answer, Silent):
        return f"the target, or the agent there, does not answer: {answer}"
    return target_error(answer) if isinstance(answer, TargetError) else str(answer)
