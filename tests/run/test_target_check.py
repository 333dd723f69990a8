"""Whether the target can be measured on: looked at before a plan is run, and asked of all nodes while it runs."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from campaign import TEXT, document, make, problems, read
from iosweep import dag
from iosweep.errors import AllocationError, ConfigError, ExitCode, Obstacle, Refused, TargetError, TargetHangs
from iosweep.jobs.profile import Profile
from iosweep.node.procfs import user_name
from iosweep.plan.forecast import forecast_of
from iosweep.run import preflight
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.preflight import Answer, unfit
from iosweep.target import directory as directories
from iosweep.target import identify, space
from iosweep.target.agent import Agent
from iosweep.target.directory import Place
from machine import InProcess

# Answers of nodes

GONE = TargetError(errno.ENOTCONN, f"{os.strerror(errno.ENOTCONN)}: /mnt/t/iosweep-c")
AWAY = "/mnt/t/iosweep-c is no longer there; is the file system still mounted?"
HANGS, LATE = TargetHangs("no progress for 27 s"), TargetHangs("no answer for 30 s in probe")
REFUSED, OK = ExitCode.REFUSED, None
#: Answers of n1, n2 ...; exit code, whether it lasts, and the nodes that another job is to be kept off.
ANSWERS: list[tuple[list[Answer], ExitCode, bool, tuple[str, ...]]] = [
    ([OK, AWAY], REFUSED, False, ("n2",)),
    ([OK, GONE], REFUSED, False, ("n2",)),
    ([GONE, GONE], REFUSED, False, ()),  # the servers may come back
    ([AWAY, AWAY], REFUSED, True, ()),
    ([Refused("not ours"), AWAY], REFUSED, True, ()),
    ([AWAY, GONE], REFUSED, False, ()),
    ([AWAY], REFUSED, False, ("n1",)),  # another job may be given another node
    ([OK, HANGS], ExitCode.HANGS, False, ("n2",)),  # the agent there can say so itself
    ([OK, LATE, AWAY], ExitCode.HANGS, False, ("n2", "n3")),
]


def test_which_nodes_cannot_work_and_whether_that_lasts(snapshot: SnapshotAssertion) -> None:
    told = []
    for answers, code, lasting, nodes in ANSWERS:
        found = unfit({f"n{k}": answer for k, answer in enumerate(answers, 1)})
        assert found is not None
        assert (found.code, found.lasting, tuple(found.nodes)) == (code, lasting, nodes), answers
        told.append(str(found))
    assert unfit({"n1": OK, "n2": OK}) is None
    assert "\n".join(told) == snapshot


PLACE = Place("/mnt/t/iosweep-c", "7")


class RemoteAgents:
    """As iosweep.run.agents.RemoteAgents: nodes with these answers."""

    def __init__(self, *answers: Answer):
        self._answers = {f"n{k}": answer for k, answer in enumerate(answers, 1)}
        self.hosts = tuple(self._answers)
        self.asked: dict[str, Any] = {}

    def answers(self, operation: object, each: dict[str, Any]) -> dict[str, Answer]:
        assert operation in (directories.probe, directories.check_marker)
        self.asked = each
        return {host: self._answers[host] for host in each}


def directory(remote: Any) -> CampaignDirectory:
    found: Any = CampaignDirectory.__new__(CampaignDirectory)
    found._remote, found.path, found.uuid = remote, *PLACE
    return found  # type: ignore[no-any-return]


def test_every_node_is_asked_by_a_name_of_its_own() -> None:
    """Because all look at the same time."""
    remote = RemoteAgents(OK, OK)
    directory(remote).check_usable()
    assert remote.asked == {node: (PLACE, node, True) for node in ("n1", "n2")}
    for answers, node in (((OK, AWAY), "n2"), ((GONE, OK), "n1")):
        with pytest.raises(AllocationError) as caught:
            directory(RemoteAgents(*answers)).check_usable()
        assert tuple(caught.value.nodes) == (node,)


def test_the_nodes_that_start_a_tool_are_asked_right_before() -> None:
    """Something may be mounted over the directory on one node alone."""
    remote = RemoteAgents(OK, OK, Refused("/mnt/t/iosweep-c is a mount point; it is left alone"))
    directory(remote).check_unchanged(["n1", "n2"])
    assert remote.asked == dict.fromkeys(("n1", "n2"), (PLACE,))
    with pytest.raises(AllocationError, match="on n3: "):
        directory(remote).check_unchanged(["n1", "n2", "n3"])


# Before anything is planned or run


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent that looks is this process."""
    monkeypatch.setattr(preflight, "Agent", InProcess)


def wrong(place: Path, directory: Path | str, more: str = "") -> str | None:
    """What is wrong with a target, as `line: key: message`."""
    text = TEXT.replace("{directory: /scratch/me}", f"{{directory: '{directory}', deadline: 30s{more}}}")
    found = preflight.find_target_problems(read(place, text), "ours")
    return str(found[0]).replace(f"{place}/x.yaml:", "") if found else None


def test_targets_on_one_file_system_have_to_fit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = document(axes=None)
    del made["target"]
    made["targets"] = {name: {"directory": str(tmp_path)} for name in ("a", "b")}
    plan, room = make(tmp_path, made), space.read_room(str(tmp_path))
    peak = forecast_of(plan, targets=["a"]).peak_bytes
    devices: Iterator[str] = iter(())

    def read_room(_: str) -> space.Room:
        facts = identify.FileSystem({**room["file_system"], "mounted": next(devices)})
        return {"file_system": facts, "space": room["space"] | {"free_bytes": 15 * peak, "used_bytes": 0}, "quotas": []}

    monkeypatch.setattr(preflight.space, "read_room", read_room)
    for apart in (True, False):  # one target needs less than 10 %, both need more
        devices = iter(["8:1", "8:2" if apart else "8:1"])
        found = preflight.check_space(plan)
        assert {name: isinstance(room, Obstacle) for name, room in found.items()} == {"a": not apart, "b": not apart}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A place with a target, and with what is none."""
    (tmp_path / "scratch" / "bench").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "scratch" / "typo.yaml").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("scratch/bench")
    return tmp_path


def test_a_target_that_is_there_is_looked_at_and_left_as_it_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    there = str(identify.identify(str(place))["fstype"])
    for directory, more in (
        (place / "scratch/bench", ""),
        (place / "link", ""),
        ("scratch/bench", ""),
        (place / "scratch/bench", f", type: {there}"),
        (place / "scratch/bench", ", lock: /dev/shm"),
    ):
        assert wrong(place, directory, more) is None, directory
    assert list((place / "scratch/bench").iterdir()) == []


def test_a_target_that_cannot_be_measured_on_is_an_error_of_the_configuration(
    place: Path, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = [
        "scrtch/bench", "scratch/bnch", "scratch/other", "scratch/typo", "file", "file/below", "dangling", "loop",
    ]  # fmt: skip
    told = {name: wrong(place, place / name) for name in directories}
    told["not writable"] = wrong(place, "/proc/sys")  # not even root can make a directory there
    told |= {
        f"lock {name}": wrong(place, place / "scratch/bench", f", lock: '{place}/{name}'")
        for name in ("none", "file", "scratch")
    }
    told["type"] = wrong(place, place / "scratch/bench", ", type: lustre")
    (place / "scratch/other/iosweep-quick").mkdir(parents=True)
    (place / "scratch/other/iosweep-quick/data").write_text("")
    told["a foreign directory"] = wrong(place, place / "scratch/other")
    told["no type"] = problems(place, TEXT.replace("me}", "me, type: 'a b'}"))[0]
    monkeypatch.chdir(place)
    told["relative"] = (wrong(place, "scratch/bnch") or "").removeprefix("x.yaml:")
    keys = {name: (text or "").split(": ")[:2] for name, text in told.items()}
    for name, (line, key) in keys.items():
        word = name.split()[-1] if name.startswith("lock") or name.endswith("type") else ""
        expected = {"": "directory", "type": "type"}.get(word, "lock")
        assert (line, key) == ("2", f"target.{expected}"), name
    here = identify.identify(str(place))
    user = {str(place): "PLACE", f"user {user_name(os.getuid())} ": "user me ", str(here["mount"]): "MOUNT",
            f"`{here['fstype']}`": "`TYPE`"}  # fmt: skip
    text = "\n".join(f"{name}: {said}" for name, said in told.items())
    for known, shown in user.items():
        text = text.replace(known, shown)
    assert text == snapshot


def test_the_machine_that_measures_needs_the_target_and_a_login_node_does_not(tmp_path: Path) -> None:
    read(tmp_path, TEXT)
    here, login = (
        dag.load(
            tmp_path / "x.yaml", tmp_path / "results", Profile(given={"launcher": "srun"} if slurm else {}, slurm=slurm)
        )
        for slurm in (False, True)
    )
    assert any("target.directory" in line for line in here.notes()) and not login.notes()
    with pytest.raises(ConfigError, match=r"target\.directory"):
        here.start()
    assert not (tmp_path / "results").exists()


@pytest.mark.local
def test_tools_may_open_as_many_files_as_the_hard_limit_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with Agent() as agent:
            done = agent.run(["sh", "-c", "ulimit -Sn"], 60.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert int(done.stdout) == min(hard, 1 << 20) > 256
