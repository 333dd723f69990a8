"""The campaign's directory on the target: what is kept, the pause after a deletion, the layout."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from campaign import SWEEP, Allocation
from iosweep.config.sweep_file import read
from iosweep.errors import Refused
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.results.record import Target
from iosweep.results.store import Store
from iosweep.run import campaign_directory as directories
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.target.agent import Agent
from records import plain_records_of
from targets import as_root, listing, mounted

#: Two points that write new files; the one with two workers fails when they are there.
FAILS = SWEEP | {"phases": ["seq_write"], "options": {"file_size": "64m", "transfer_size": "1m", "write_mode": "new"}}
FAIL = 'case "$*" in *--numjobs=2*) "$fio" "$@"; exit 7;; esac; exec "$fio" "$@"'


def paths(directory: Path) -> list[str]:
    """Directories of files below it, by what they are for."""
    return sorted({str(f.parent.relative_to(directory)) for f in directory.rglob("*") if f.is_file()} - {"."})


@pytest.mark.local
@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("keep", ["none", "failed", "all"])
def test_what_is_kept_when_all_is_measured(tmp_path: Path, keep: str) -> None:
    made = Allocation(tmp_path, keep=keep)
    made.configure(sweeps=[FAILS, SWEEP | {"name": "r", "axes": {}, "phases": ["rand_read"]}])
    made.fake(FAIL)
    output = made.measure()
    first, second = (p.id for p in made.plan.points if p.phases == ("seq_write",))
    sets = ["sets/fio-read-256k-1"]
    assert (paths(made.ours) if made.ours.exists() else None) == {
        "none": None,
        "failed": [f"kept/{second}-r001-1/seq_write"],
        "all": [f"kept/{point}-r001-1/seq_write" for point in sorted((first, second))] + sets,
    }[keep]
    assert ("removed from the target: " in output) == (keep != "all")
    if keep == "failed":  # and what does not fail leaves nothing: then it is gone altogether
        assert "removed from the target: 1 file, 256 KiB (target.keep: failed)" in output
    assert [r["point"] for r in made.rows() if r["verdict"] == "invalid"] == [second]


@pytest.mark.local
@pytest.mark.usefixtures("fio")
def test_nothing_is_kept_if_nothing_failed(tmp_path: Path) -> None:
    made = Allocation(tmp_path, FAILS, keep="failed")
    made.measure()
    assert not made.ours.exists()


@pytest.mark.local
@pytest.mark.usefixtures("fio")
def test_data_sets_are_kept_until_nothing_is_left(tmp_path: Path) -> None:
    made = Allocation(tmp_path, SWEEP | {"phases": ["rand_read"]})
    made.measure("--only", "1t")
    assert paths(made.ours) == ["sets/fio-read-256k-1"]
    made.measure()
    assert not made.ours.exists()


@as_root
@pytest.mark.local
@pytest.mark.usefixtures("fio")
def test_a_copy_on_another_file_system(tmp_path: Path) -> None:
    """Neither a run with nothing left to measure removes it, nor one with something left works in it."""
    made = Allocation(tmp_path, SWEEP | {"axes": {}, "phases": ["rand_read"]}, keep="all")
    made.measure()
    shutil.copytree(made.target, tmp_path / "backup")
    with mounted("mount", "-t", "tmpfs", "backup", str(made.target)):
        shutil.copytree(tmp_path / "backup", made.target, dirs_exist_ok=True)
        before = listing(made.target, all=True)
        made.keep = "none"
        made.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]})
        assert "note: not removed: " in made.measure()
        made.configure(SWEEP | {"phases": ["rand_read"]})
        assert "is on another file system than when it was measured (tmpfs backup " in made.measure(code=3)
        assert listing(made.target, all=True) == before
    made.measure()
    assert not made.ours.exists()


@pytest.mark.local
@pytest.mark.usefixtures("fio")
def test_a_stopped_run_reports_what_it_leaves(tmp_path: Path) -> None:
    made = Allocation(tmp_path, SWEEP | {"axes": {}, "phases": ["rand_read"]})
    made.fake('case "$*" in *--name=rand_read*) touch "$0";; esac; exec "$fio" "$@"')  # as an update does
    output = made.measure(code=3)
    assert "note: 256 KiB stay on the target for the next run; `iosweep clean c` removes them" in output
    assert paths(made.ours) == ["sets/fio-read-256k-1"]


@pytest.mark.local
@pytest.mark.usefixtures("fio")
def test_the_next_run_removes_what_the_last_one_could_not(tmp_path: Path) -> None:
    """A runner killed at its end: nothing is left to measure, but files are on the target."""
    made = Allocation(tmp_path, SWEEP | {"axes": {}, "phases": ["rand_read"]}, keep="all")
    made.measure()
    made.keep = "none"
    made.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]})
    stored = made.files()
    made.measure()
    assert not made.ours.exists()
    assert made.files() == stored


@pytest.mark.local
@pytest.mark.usefixtures("fio")
def test_time_to_settle_after_a_deletion(tmp_path: Path) -> None:
    made = Allocation(tmp_path)
    made.configure(FAILS, target={"settle": "500ms"})
    made.measure()
    settled = [
        run["settled_s"]
        for point in made.plan.points
        for _, r in plain_records_of(made.store, point.id)
        for run in r["phases"]
    ]
    assert settled.count(None) == 1  # the first: nothing had been deleted
    [waited] = [s for s in settled if s is not None]
    assert 0.5 <= waited < 30


@pytest.mark.local
@pytest.mark.usefixtures("fio")
def test_a_campaign_that_moves_to_another_target(tmp_path: Path) -> None:
    made = Allocation(tmp_path, SWEEP | {"axes": {}}, keep="all")
    made.measure()
    (tmp_path / "elsewhere").mkdir()
    made.target = tmp_path / "elsewhere"
    made.configure(SWEEP | {"axes": {}})
    assert f"this campaign has left {made.ours} on another target; `iosweep clean c --yes` removes it" in made.measure(
        code=3
    )
    assert list(made.target.iterdir()) == []


# Layout: no file system here has one that can be set, so the agent is a stand-in that remembers what it is asked.


class Asked:
    """A stand-in for the agent of a target of some type. `marker`: the directory is ours."""

    source = "mgs:/fs"

    def __init__(self, marker: bool = False):
        self.calls: list[tuple[Any, ...]] = []
        self.marker = marker

    def call(self, function: Callable[..., object], *arguments: Any) -> Any:
        operation = function.__name__
        self.calls.append((operation, *arguments[1:]))
        removed = {"files": 0, "directories": 0, "bytes": 0, "left": False, "wrong": []}
        space = {"used_bytes": 0, "free_bytes": 1 << 40, "used_inodes": 0, "free_inodes": 0}
        file_system = {"fstype": "ext4", "source": self.source, "fsid": "0", "device": 7}
        known = {
            "usage": {"bytes": 0, "files": 0},
            "room": {"file_system": file_system, "space": space, "quotas": []},
            "claim": "some-uuid",
            "ours": self.marker,
            "identify": file_system,
        }
        return {"remove": removed, "remove_all": removed, "read_layout": "stripe_count: 4", **known}.get(operation)

    def asked(self, *operations: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] in operations]


class Space(Asked):
    """A stand-in for the agent of a target whose free space is set. What is removed has a size."""

    free, used, removed = 1 << 40, 0, 0

    def call(self, function: Callable[..., object], *arguments: Any) -> Any:
        answer, operation = super().call(function, *arguments), function.__name__
        if operation == "room":
            return answer | {"space": answer["space"] | {"free_bytes": self.free, "used_bytes": self.used}}
        return answer | {"files": 1, "bytes": self.removed} if operation == "remove" else answer


def claimed(
    place: Path, layout: Any, agent: Asked, fstype: str = "lustre", source: str = "mgs:/fs"
) -> CampaignDirectory:
    place.mkdir(exist_ok=True)
    file = place / "c.yaml"
    target = {"directory": str(place / "t"), "layout": layout}
    file.write_bytes(msgspec.json.encode({"campaign": "c", "target": target, "sweeps": [SWEEP]}))
    made = make_plan(read(file))
    stand_in: Any = agent
    directory = CampaignDirectory(made, Store(place / "results"), stand_in)
    directory.claim(fstype, "ext4 mgs:/fs", f"{fstype} {source}", forecast.of(made))
    return directory


def test_a_layout_is_set_and_read_back(tmp_path: Path) -> None:
    agent = Asked()
    directory = claimed(tmp_path, ["-c", "4"], agent)
    assert agent.asked("claim", "set_layout", "read_layout")[1:] == [
        ("set_layout", "lustre", ["-c", "4"]),
        ("read_layout", "lustre"),
    ]
    facts: Any = {"source": "mgs:/fs", "fstype": "lustre", "fsid": "0", "mount": "mgs:/fs on /t type lustre (rw)"}
    assert directory.recorded(facts, "lustre /fs") == Target(
        directory=str(tmp_path / "t"), layout=("-c", "4"), layout_is="stripe_count: 4", volume="lustre /fs", **facts
    )


def test_an_inherited_layout_is_read_only(tmp_path: Path) -> None:
    agent = Asked()
    claimed(tmp_path, "inherit", agent)
    assert agent.asked("set_layout", "read_layout") == [("read_layout", "lustre")]


def test_the_trash_of_moosefs_keeps_nothing_of_ours(tmp_path: Path) -> None:
    for source, asked in (("mfs#m1:9421", [("keep_nothing",)]), ("s1:/dfs", [])):
        agent = Asked()
        claimed(tmp_path / source.partition(":")[0], "inherit", agent, "fuse", source)
        assert agent.asked("keep_nothing") == asked


def test_a_changed_layout_needs_new_files(tmp_path: Path) -> None:
    claimed(tmp_path, ["-c", "4"], Asked())
    for layout, removed in ((["-c", "4"], []), (["-c", "8"], [("remove_all",)]), (["-c", "8"], [])):
        agent = Asked(marker=True)
        claimed(tmp_path, layout, agent)
        assert agent.asked("remove_all") == removed


def test_probes_are_removed_if_files_are_kept(tmp_path: Path) -> None:
    agent = Asked()
    directory = claimed(tmp_path, "inherit", agent)
    directory._target = structs.replace(directory._target, keep="failed")
    call = agent.call
    agent.call = lambda function, *rest: ["kept"] if function.__name__ == "parts" else call(function, *rest)  # type: ignore[method-assign]
    directory.tidy_up()
    assert agent.asked("remove_probes", "remove_all") == [("remove_probes",)]


def test_a_layout_that_cannot_be_set_here(tmp_path: Path) -> None:
    agent = Asked()
    with pytest.raises(Refused, match=r"can be set on lustre and beegfs, and the target is ext4; leave it out"):
        claimed(tmp_path, ["-c", "4"], agent, "ext4")
    assert agent.asked("claim", "set_layout") == []


def test_the_stand_in_has_real_operations_only() -> None:
    from iosweep.target.agent import OPERATIONS

    assert {
        "usage",
        "room",
        "claim",
        "ours",
        "remove",
        "remove_all",
        "read_layout",
        "set_layout",
    } <= set(OPERATIONS)
    assert "remove_probes" in OPERATIONS
    assert callable(Agent.call)


# Space


def test_another_file_system_with_the_same_device_number(tmp_path: Path) -> None:
    """The kernel reuses the number after an unmount."""
    agent = Space()
    directory = claimed(tmp_path, "inherit", agent)
    directory.may_write(1, 1)
    agent.source = "other:/fs"
    with pytest.raises(Refused, match="is on another file system than when it began; is the target still mounted"):
        directory.may_write(1, 1)


def test_a_file_system_that_reports_no_size_is_asked_again(tmp_path: Path) -> None:
    """As MooseFS does while its data servers are down: another job may find them up."""
    agent = Space()
    directory = claimed(tmp_path, "inherit", agent)
    agent.free = 0
    with pytest.raises(Refused, match="it reports 0 bytes in all; are its data servers up"):
        directory.may_write(1, 1)
    directory.may_write(0, 1)


def test_deleted_files_that_do_not_become_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "FREED_S", 0)
    monkeypatch.setattr(directories.time, "sleep", lambda _: None)
    agent = Space()
    directory = claimed(tmp_path, "inherit", agent)
    agent.free, agent.used = 10 << 30, 1014 << 30
    with pytest.raises(Refused) as caught:  # others may have written that
        directory.may_write(100 << 30, 1)
    assert "did not become free" not in str(caught.value)
    agent.removed = 1000 << 30
    directory.remove("fresh/p-r1")
    with pytest.raises(Refused) as caught:
        directory.may_write(100 << 30, 1)
    assert str(caught.value).endswith(
        "make room, or measure less. 1000 GiB of the 1000 GiB that this run has deleted did not become free: the file"
        " system may keep deleted files for a time (trash, snapshots). Empty its trash, or wait until it has; the next"
        " run goes on from there"
    )


def test_what_others_write_after_deleted_files_became_free_is_theirs(tmp_path: Path) -> None:
    agent = Space()
    directory = claimed(tmp_path, "inherit", agent)
    agent.free, agent.used = 1 << 40, 1 << 40
    directory.may_write(1 << 30, 1)
    agent.removed = 900 << 30
    directory.remove("fresh/p-r1")  # the space of it is free again
    directory.may_write(1 << 30, 1)
    agent.free, agent.used = 100 << 30, 1948 << 30
    with pytest.raises(Refused) as caught:
        directory.may_write(200 << 30, 1)
    assert "did not become free" not in str(caught.value)


def test_waiting_for_deleted_files_to_become_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Space()
    directory = claimed(tmp_path, "inherit", agent)
    agent.free, agent.removed = 10 << 30, 1000 << 30
    directory.remove("fresh/p-r1")

    def later(_: float) -> None:
        agent.free = 1 << 40

    monkeypatch.setattr(directories.time, "sleep", later)
    directory.may_write(100 << 30, 1)
