"""The campaign's directory on the target: what is kept, its layout, its space, and which file system it is on."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from campaign import SWEEP
from iosweep.config.sweep_file import read
from iosweep.errors import ExitCode, Refused, TargetError
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.run import campaign_directory as directories
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.store.record import MeasuredTarget
from iosweep.store.store import Store
from iosweep.target.agent import OPERATIONS
from machine import Scripted

READ: dict[str, Any] = SWEEP | {"axes": {}, "phases": ["rand_read"]}
#: Two points that write new files.
NEW = SWEEP | {"phases": ["seq_write"], "options": {"file_size": "1m", "transfer_size": "64k", "write_mode": "new"}}


def paths(directory: Path) -> list[str] | None:
    """Directories of files below it, by what they are for; None if it does not exist."""
    if not directory.exists():
        return None
    return sorted({str(f.parent.relative_to(directory)) for f in directory.rglob("*") if f.is_file()} - {"."})


@pytest.mark.parametrize(("keep", "stays"), [("none", None), ("data_sets", ["sets/fio-read-256k-1"])])
def test_new_files_go_and_data_sets_may_stay(tmp_path: Path, keep: str, stays: list[str] | None) -> None:
    made = Scripted(tmp_path, keep=keep, sweeps=[NEW, READ | {"name": "r"}])
    made.machine.play({"when": "seq_write.*--numjobs=2", "entry": {"error": 5}})
    made.measure()
    assert [r["verdict"] for r in made.rows() if r["phase"] == "seq_write"].count("invalid") == 1
    assert paths(made.ours) == stays


def test_data_sets_are_kept_until_nothing_is_left(made: Scripted) -> None:
    made.configure(SWEEP | {"phases": ["rand_read"]})
    made.measure("--only", "1t")
    assert paths(made.ours) == ["sets/fio-read-256k-1"]
    made.measure()
    assert not made.ours.exists()


def test_the_next_run_removes_what_the_last_one_could_not(tmp_path: Path) -> None:
    """A runner killed at its end: nothing is left to measure, but files are on the target."""
    made = Scripted(tmp_path, READ, keep="data_sets")
    made.measure()
    made.keep = "none"
    made.configure(READ)
    stored = made.files()
    made.measure()
    assert (made.ours.exists(), made.files()) == (False, stored)


def test_a_campaign_that_has_left_files_on_another_target_is_refused(tmp_path: Path) -> None:
    made = Scripted(tmp_path, READ, keep="data_sets")
    made.measure()
    (tmp_path / "elsewhere").mkdir()
    left, made.target = made.ours, tmp_path / "elsewhere"
    made.configure(READ)
    assert str(left) in made.measure(code=ExitCode.REFUSED)
    assert list(made.target.iterdir()) == []


def test_results_that_would_be_removed_with_the_files_are_refused(made: Scripted) -> None:
    made.ours.mkdir()
    made.results.parent.symlink_to(made.ours)
    assert "inside the campaign's directory" in made.measure(code=ExitCode.REFUSED)


# Layout: no file system here has one that can be set, so the agent is a stand-in that remembers what it is asked.


class Asked:
    """A stand-in for the agent of a target. `marker`: the directory is ours. Free space and the size of what is removed
    are set."""

    source, free, removed = "mgs:/fs", 1 << 40, 0
    results = Path("results")

    def __init__(self, marker: bool = False):
        self.calls: list[tuple[Any, ...]] = []
        self.marker = marker

    def call(self, function: Callable[..., object], *arguments: Any) -> Any:
        operation = function.__name__
        assert operation in OPERATIONS
        self.calls.append((operation, *arguments[1:]))
        removed = {"files": 1, "directories": 0, "bytes": self.removed, "left": False, "wrong": []}
        space = {"used_bytes": 0, "free_bytes": self.free, "used_inodes": 0, "free_inodes": 0}
        file_system = {"fstype": "lustre", "source": self.source, "fsid": "0", "device": 7, "real": "/t"}
        known = {
            "measure_usage": {"bytes": 0, "files": 0},
            "read_room": {"file_system": file_system, "space": space, "quotas": []},
            "read_owner": {"results": str(self.results)},
            "claim": "some-uuid",
            "has_marker": self.marker,
            "identify": file_system,
        }
        return {"remove": removed, "read_layout": "stripe_count: 4", **known}.get(operation)

    def asked(self, *operations: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] in operations]


def claimed(place: Path, layout: Any, agent: Asked, on: str = "") -> CampaignDirectory:
    place.mkdir(exist_ok=True)
    file = place / "c.yaml"
    target = {"directory": on or str(place / "t"), "layout": layout}
    file.write_bytes(msgspec.json.encode({"campaign": "c", "target": target, "sweeps": [SWEEP]}))
    made = make_plan(read(file))
    stand_in: Any = agent
    directory = CampaignDirectory(made, Store(place / "results"), stand_in)
    facts: Any = {"fstype": "lustre", "source": agent.source, "fsid": "0", "device": 7, "real": "/t"}
    directory.examine(facts)
    directory.check_room(forecast.forecast_of(made))
    directory.claim()
    return directory


def test_a_copy_of_the_results_does_not_go_on_where_the_original_measures(tmp_path: Path) -> None:
    original = claimed(tmp_path, "inherit", Asked())
    agent = Asked(marker=True)
    agent.results = tmp_path / "results"
    shutil.copytree(agent.results, tmp_path / "copy/results")
    with pytest.raises(Refused, match="is a copy of"):
        claimed(tmp_path / "copy", "inherit", agent, original.settings.directory)
    assert agent.asked("claim", "remove") == []


def test_a_copy_of_the_directory_on_another_file_system_is_left_alone(tmp_path: Path) -> None:
    claimed(tmp_path, "inherit", Asked())
    agent = Asked(marker=True)
    agent.source = "mgs:/other"
    with pytest.raises(Refused, match="on another file system than when it was measured"):
        claimed(tmp_path, "inherit", agent)
    assert agent.asked("claim", "remove") == []


def test_a_layout_is_set_and_read_back_and_an_inherited_one_only_read(tmp_path: Path) -> None:
    agent = Asked()
    directory = claimed(tmp_path, ["-c", "4"], agent)
    assert agent.asked("claim", "set_layout", "read_layout")[1:] == [
        ("set_layout", "lustre", ["-c", "4"]),
        ("read_layout", "lustre"),
    ]
    facts: Any = {"source": "mgs:/fs", "fstype": "lustre", "fsid": "0", "mount": "mgs:/fs on /t type lustre (rw)"}
    assert directory.recorded(facts) == MeasuredTarget(
        directory=str(tmp_path / "t"), layout=("-c", "4"), layout_is="stripe_count: 4", **facts
    )
    agent = Asked()
    claimed(tmp_path / "inherits", "inherit", agent)
    assert agent.asked("set_layout", "read_layout") == [("read_layout", "lustre")]


def test_a_changed_layout_needs_new_files(tmp_path: Path) -> None:
    claimed(tmp_path, ["-c", "4"], Asked())
    for layout, changed in ((["-c", "4"], False), (["-c", "8"], True), (["-c", "8"], False)):
        agent = Asked(marker=True)
        claimed(tmp_path, layout, agent)
        # "fresh" goes at each start; what is kept stays as it was written
        assert [part for _, part, *_ in agent.asked("remove")] == ["fresh", "sets"] * changed + ["fresh"]


# Space


def test_another_file_system_with_the_same_device_number_is_not_written_to(tmp_path: Path) -> None:
    """The kernel reuses the number after an unmount."""
    agent = Asked()
    directory = claimed(tmp_path, "inherit", agent)
    directory.may_write(1, 1)
    agent.source = "mgs:/other"
    with pytest.raises(Refused, match="another file system"):
        directory.may_write(1, 1)


def test_a_full_target_is_named(tmp_path: Path) -> None:
    agent = Asked()
    directory = claimed(tmp_path, "inherit", agent)
    agent.free = 100
    with pytest.raises(Refused) as refused:
        directory.may_write(1 << 20, 1)
    assert str(refused.value).startswith(f"{directory.path}: 1.0 MiB more are needed")


def test_deleted_files_are_waited_for_until_they_are_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Asked()
    directory = claimed(tmp_path, "inherit", agent)
    agent.free, agent.removed = 10 << 30, 1000 << 30
    directory.remove("fresh/p-r1")

    def later(_: float) -> None:
        agent.free = 1 << 40

    monkeypatch.setattr(directories, "time", SimpleNamespace(**vars(time) | {"sleep": later}))
    directory.may_write(100 << 30, 1)


def test_targets_on_one_file_system_share_its_space(tmp_path: Path) -> None:
    """Together they may use a tenth of it."""
    agent = Asked()
    directory, other = (claimed(tmp_path / name, "inherit", agent) for name in ("a", "b"))
    agent.free = 100 << 30
    directory.may_write(9 << 30, 1)
    other.present_bytes = 5 << 30
    directory.may_write(9 << 30, 1)  # another file system
    directory.together = [directory, other]
    with pytest.raises(Refused, match=r"14\.0 GiB are needed"):
        directory.may_write(9 << 30, 1)
    directory.may_write(4 << 30, 1)


@pytest.mark.parametrize(("number", "stops"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)])
def test_a_target_without_room_for_a_directory_ends_the_run(tmp_path: Path, number: int, stops: bool) -> None:
    class Full(Asked):
        def call(self, function: Callable[..., object], *arguments: Any) -> Any:
            if function.__name__ == "make_directories":
                raise TargetError(number, os.strerror(number))
            return super().call(function, *arguments)

    directory = claimed(tmp_path, "inherit", Full())
    with pytest.raises(Refused if stops else TargetError):
        directory.prepare(["fresh/p-r1"], 1 << 20, 1, True)
