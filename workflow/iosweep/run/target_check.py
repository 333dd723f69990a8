"""Whether every node of an allocation can work on the target: `unfit` decides, `look` asks the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iosweep.causes import cause
from iosweep.errors import Refused, TargetError, TargetHangs
from iosweep.run.campaign_directory import Directory
from iosweep.run.remote import RemoteAgents, Silent
from iosweep.text import some

#: What a node answers: None if all is well, why it cannot work there, or what it raised.
Answer = str | Exception | None


class Unfit(Exception):
    """Nodes that cannot work on the target; the message names them.

    `hangs`: it does not answer. `lasting`: no node can work there, so another job cannot either. `nodes`: those that
    another job should not be given.
    """

    def __init__(self, message: str, hangs: bool = False, lasting: bool = False, nodes: tuple[str, ...] = ()):
        self.hangs, self.lasting, self.nodes = hangs, lasting, nodes
        super().__init__(message)


def look(directory: Directory, remote: RemoteAgents | None, data: bool = True) -> None:
    """See that the campaign's directory can be written and read on every node. `data`: as target.state has it.

    Raises Unfit where there are agents on the nodes; without, Refused and what Agent.call raises.
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
        each = {host: (directory.place, host, data) for host in others}
        answers |= remote.answers("state", each=each)
    if found := unfit(answers):
        raise found


def before_tools(directory: Directory, remote: RemoteAgents | None, hosts: Sequence[str]) -> None:
    """See that the campaign's directory is what it was on every node that is about to start a tool in it.

    Raises as `look` does.
    """
    directory.check()
    if remote is None or not (others := [host for host in hosts if host != remote.hosts[0]]):
        return
    if found := unfit(remote.answers("check", each=dict.fromkeys(others, (directory.place,)))):
        raise found


def unfit(answers: Mapping[str, Answer]) -> Unfit | None:
    """What the answers of the nodes mean; None if all can work there. Pure."""
    reasons: dict[str, list[str]] = {}
    for host, answer in answers.items():
        if answer is not None:
            reasons.setdefault(_sentence(answer), []).append(host)
    if not reasons:
        return None
    fit = [host for host, answer in answers.items() if answer is None]
    bad = tuple(host for host in answers if host not in fit)
    message = "; ".join(f"on {some(hosts, 4)}: {reason}" for reason, hosts in reasons.items())
    if fit:
        message += f"; {some(fit, 4)} can work there"
    hangs = any(isinstance(answer, TargetHangs) for answer in answers.values())
    refused = all(isinstance(answer, str | Refused) for answer in answers.values())
    # of a single node it cannot be seen whether it is the node's fault or the target's
    return Unfit(message, hangs, refused and len(bad) > 1, () if len(bad) > 1 and not fit else bad)


def _sentence(answer: str | Exception) -> str:
    """An answer without the name of its node."""
    if isinstance(answer, Silent):
        return f"the target, or the agent there, does not answer: {answer}"
    if isinstance(answer, TargetError):
        why = cause(str(answer))
        return f"{why.text}: {answer.strerror}" if why else str(answer.strerror)
    return str(answer)
