"""The nodes' answers about the target, and the error that they amount to."""

import errno
import os
from typing import Any

import pytest

from iosweep.errors import AllocationError, ExitCode, Refused, TargetError, TargetHangs
from iosweep.run.remote import Silent
from iosweep.run.target_check import Answer, _file_system, before_tools, check, unfit
from iosweep.target import directory as directories
from iosweep.target.directory import Place

GONE = TargetError(errno.ENOTCONN, f"{os.strerror(errno.ENOTCONN)}: /mnt/t/iosweep-c")
NO_SERVER = "the target's client or server is gone: Transport endpoint is not connected: /mnt/t/iosweep-c"
AWAY = "/mnt/t/iosweep-c is no longer there; is the file system still mounted?"


@pytest.mark.parametrize(
    ("answers", "message", "hangs", "lasting", "nodes"),
    [
        ({"n1": None, "n2": AWAY}, f"on n2: {AWAY}; n1 can work there", False, False, ("n2",)),
        ({"n1": None, "n2": GONE}, f"on n2: {NO_SERVER}; n1 can work there", False, False, ("n2",)),
        ({"n1": GONE, "n2": GONE}, f"on n1, n2: {NO_SERVER}", False, False, ()),  # the servers may come back
        ({"n1": AWAY, "n2": AWAY}, f"on n1, n2: {AWAY}", False, True, ()),
        ({"n1": Refused("not ours"), "n2": AWAY}, f"on n1: not ours; on n2: {AWAY}", False, True, ()),
        ({"n1": AWAY, "n2": GONE}, f"on n1: {AWAY}; on n2: {NO_SERVER}", False, False, ()),
        ({"n1": AWAY}, f"on n1: {AWAY}", False, False, ("n1",)),  # another job may be given another node
        (  # the agent there can say so itself
            {"n1": None, "n2": TargetHangs("the target does not answer: no progress for 27 s")},
            "on n2: the target does not answer: no progress for 27 s; n1 can work there",
            True, False, ("n2",),
        ),
        (
            {"n1": None, "n2": Silent("nothing for 30 s (state)"), "n3": AWAY},
            "on n2: the target, or the agent there, does not answer: nothing for 30 s (state);"
            f" on n3: {AWAY}; n1 can work there",
            True, False, ("n2", "n3"),
        ),
    ],
)  # fmt: skip
def test_nodes_that_cannot_work(
    answers: dict[str, Answer], message: str, hangs: bool, lasting: bool, nodes: tuple[str, ...]
) -> None:
    found = unfit(answers)
    assert found is not None
    code = ExitCode.HANGS if hangs else ExitCode.REFUSED
    assert (str(found), found.code, found.lasting, found.nodes) == (message, code, lasting, nodes)


def test_nodes_that_can() -> None:
    assert unfit({"n1": None, "n2": None}) is None


PLACE = Place("/mnt/t/iosweep-c", "7")


class Directory:
    """As iosweep.run.campaign_directory.CampaignDirectory, with an answer of its own."""

    place = PLACE

    def __init__(self, answer: Answer):
        self._answer = answer

    def check(self) -> None:
        if isinstance(self._answer, Exception):
            raise self._answer

    def state(self, data: bool) -> Answer:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class RemoteAgents:
    """As iosweep.run.remote.RemoteAgents: nodes with these answers."""

    def __init__(self, answers: dict[str, Answer]):
        self.hosts, self._others = ("n1", *answers), answers
        self.asked: dict[str, Any] = {}

    def answers(self, operation: object, each: dict[str, Any]) -> dict[str, Answer]:
        assert operation in (directories.state, directories.check)
        self.asked = each
        return {host: self._others[host] for host in each}


def test_every_node_is_asked() -> None:
    remote: Any = RemoteAgents({"n2": None, "n3": None})
    directory: Any = Directory(None)
    check(directory, remote)
    # by a name of its own, because all look at the same time
    assert remote.asked == {node: (PLACE, node, True) for node in ("n2", "n3")}
    remote = RemoteAgents({"n2": AWAY, "n3": None})
    with pytest.raises(AllocationError) as caught:
        check(directory, remote)
    assert caught.value.nodes == ("n2",)
    directory = Directory(GONE)
    remote = RemoteAgents({"n2": None})
    with pytest.raises(AllocationError) as caught:  # the others are asked all the same
        check(directory, remote)
    assert caught.value.nodes == ("n1",)


def test_the_nodes_that_start_a_tool_are_asked_right_before() -> None:
    """Something may be mounted over the directory on one node alone."""
    over = Refused("/mnt/t/iosweep-c is a mount point; it is left alone")
    remote: Any = RemoteAgents({"n2": None, "n3": over})
    directory: Any = Directory(None)
    before_tools(directory, remote, ["n1", "n2"])
    assert remote.asked == {"n2": (PLACE,)}
    with pytest.raises(AllocationError, match="on n3: /mnt/t/iosweep-c is a mount point"):
        before_tools(directory, remote, ["n1", "n2", "n3"])
    before_tools(directory, None, [""])
    directory = Directory(over)
    with pytest.raises(Refused, match="is a mount point"):
        before_tools(directory, None, [""])


@pytest.mark.parametrize(("answer", "raised"), [(AWAY, Refused), (GONE, TargetError), (TargetHangs("x"), TargetHangs)])
def test_a_machine_without_agents_on_nodes(answer: Answer, raised: type[Exception]) -> None:
    directory: Any = Directory(answer)
    with pytest.raises(raised):
        check(directory, None)


class Nodes:
    """Agent of the first node, and agents of all: each answers what it sees of the target."""

    def __init__(self, seen: dict[str, Any]):
        self.hosts = list(seen)
        self._seen = seen

    def call(self, operation: object, directory: str) -> Any:
        if isinstance(found := self._seen[self.hosts[0]], Exception):
            raise found
        return found

    def answers(self, operation: object, directory: str) -> dict[str, Any]:
        return self._seen


@pytest.mark.parametrize(
    ("n1", "n2", "nodes"),
    [
        ("ext4", "lustre", ("n1",)),  # not mounted on the first node
        (Refused("the target /mnt/t does not exist"), "lustre", ("n1",)),
        (Refused("the target /mnt/t does not exist"), "ext4", None),  # nor on the other
        ("ext4", "ext4", None),
    ],
)
def test_a_first_node_without_the_target(n1: Any, n2: Any, nodes: tuple[str, ...] | None) -> None:
    seen = {
        host: answer if isinstance(answer, Exception) else {"fstype": answer, "mount": "none"}
        for host, answer in (("n1", n1), ("n2", n2))
    }
    with pytest.raises(AllocationError) as found:
        _file_system(Nodes(seen), Nodes(seen), "/mnt/t", "lustre")  # type: ignore[arg-type]
    assert found.value.lasting is (nodes is None)
    assert found.value.nodes == (nodes or ())
