"""Whether the target exists, checked before anything is planned or run."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from campaign import TEXT, problems, read
from iosweep import dag
from iosweep.commands import cli, plan_table
from iosweep.errors import ConfigError
from iosweep.plan.expand import make_plan
from iosweep.run import target_check
from iosweep.target import agent, identify

pytestmark = pytest.mark.local


def wrong(place: Path, directory: Path | str, more: str = "") -> str | None:
    """What is wrong with a target, as `line: key: message`."""
    text = TEXT.replace("{directory: /scratch/me}", f"{{directory: '{directory}', deadline: 30s{more}}}")
    found = target_check.problem(read(place, text))
    return str(found).replace(f"{place}/x.yaml:", "") if found else None


def test_a_target_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "link").symlink_to("bench")
    assert wrong(tmp_path, tmp_path / "bench") is None
    assert wrong(tmp_path, tmp_path / "link") is None
    assert list((tmp_path / "bench").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("scrtch/bench", "{place} is there, and has no `scrtch`; did you mean {place}/scratch/bench?"),
        ("scratch/bnch", "{place}/scratch is there, and has no `bnch`; did you mean {place}/scratch/bench?"),
        ("scratch/other", "{place}/scratch is there, and has no `other`; is the file system mounted?"),
        ("scratch/typo", "{place}/scratch is there, and has no `typo`; is the file system mounted?"),  # a file is near
        ("file/below", "{place}/file is a symbolic link that leads nowhere, or is not a directory"),
        ("dangling", "{place}/dangling is a symbolic link that leads nowhere, or is not a directory"),
    ],
)
def test_a_target_that_is_not_there(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "scratch" / "bench").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "scratch" / "typo.yaml").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    found = wrong(tmp_path, tmp_path / name)
    expected = f'2: target.directory: "{tmp_path / name}" does not exist: {said.format(place=tmp_path)}'
    assert found is not None and found.startswith(expected)


def test_a_relative_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench").mkdir()
    assert wrong(tmp_path, "bench") is None
    assert f"did you mean {tmp_path}/bench?" in (wrong(tmp_path, "bnch") or "")


def test_a_target_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not a directory" in (wrong(tmp_path, tmp_path / "file") or "")


def test_a_target_that_cannot_be_written_to(tmp_path: Path) -> None:
    """A place where not even root can make a directory."""
    found = wrong(tmp_path, "/proc/sys")
    assert found is not None
    assert found.startswith('2: target.directory: "/proc/sys" cannot be measured on: user ')
    assert "cannot write to /proc/sys (mode 0555, owner root); give that user write permission" in found


def test_a_campaigns_directory_that_is_there_already(tmp_path: Path) -> None:
    """Root has made it for the user."""
    closed: Any = {"writable": False}
    assert identify._closed(tmp_path, closed, "iosweep-quick") is not None
    (tmp_path / "iosweep-quick").mkdir()
    assert identify._closed(tmp_path, closed, "iosweep-quick") is None


def test_a_lock_that_a_run_would_refuse(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "file").write_text("")

    def said(lock: Path) -> str | None:
        return wrong(tmp_path, tmp_path, f", lock: '{lock}'")

    assert said(tmp_path / "none") == f"2: target.lock: {tmp_path}/none does not exist; make it, or name another one"
    assert (
        said(tmp_path / "file") == f"2: target.lock: {tmp_path}/file is not a directory; make it, or name another one"
    )
    on_target = f"2: target.lock: {tmp_path}/locks is on the file system under test; name a directory elsewhere"
    assert said(tmp_path / "locks") == on_target
    assert wrong(tmp_path, tmp_path, ", lock: /dev/shm") is None


def test_a_target_that_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    found = wrong(tmp_path, tmp_path / "loop")
    assert found == (
        f'2: target.directory: "{tmp_path}/loop" cannot be measured on: {os.strerror(40)}: {tmp_path}/loop'
    )


def test_a_target_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = "import os, time; os.write(0, b'\\n'); time.sleep(600)"
    monkeypatch.setattr(agent.Agent, "argv", (sys.executable, "-c", starts))
    monkeypatch.setattr(target_check, "DEADLINE_S", 0.1)
    found = wrong(tmp_path, tmp_path)
    assert found is not None
    assert "does not answer: no progress for 0.1 s while looking whether it is there" in found


def test_a_target_of_another_type(tmp_path: Path) -> None:
    there = str(identify.identify(str(tmp_path))["fstype"])
    assert wrong(tmp_path, tmp_path, f", type: {there}") is None
    found = wrong(tmp_path, tmp_path, ", type: lustre")
    assert found is not None
    assert found.startswith(f"2: target.type: `lustre` is expected, and {tmp_path} is on `{there}` (")


@pytest.mark.parametrize(
    ("fstype", "wanted", "same"),
    [
        ("lustre", "lustre", True),
        ("nfs4", "nfs", True),
        ("nfs", "nfs4", False),
        ("fuse.glusterfs", "glusterfs", True),
        ("fuse.glusterfs", "fuse.glusterfs", True),
        ("ext4", "lustre", False),
        ("wekafs", "weka", False),
    ],
)
def test_types(fstype: str, wanted: str, same: bool) -> None:
    found = identify.wrong_type("/t", fstype, "x on /t", wanted)
    said = f"`{wanted}` is expected, and /t is on `{fstype}` (x on /t); is the file system mounted?"
    assert found == (None if same else said)


def test_an_invalid_type(tmp_path: Path) -> None:
    text = TEXT.replace("me}", "me, type: 'a b'}")
    assert problems(tmp_path, text) == [
        '2: target.type: "a b" is not a type of a file system; write it as /proc/self/mountinfo does, for example'
        " lustre or wekafs"
    ]


def test_the_workflow_looks_only_where_it_is_asked_to(tmp_path: Path) -> None:
    read(tmp_path, TEXT)
    file, results = tmp_path / "x.yaml", tmp_path / "results"
    assert dag.load(file, results).left  # a login node need not have the target
    with pytest.raises(ConfigError, match=r"target\.directory"):
        dag.load(file, results, look=True)
    assert not results.exists()


@pytest.fixture
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="iosweep-plan-", dir="/dev/shm") as place:
        yield Path(place)


def test_a_plan_with_criteria_says_that_its_target_is_memory(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    accept = 'accept: {read_iops: ">= 5k"}\n'
    for directory, said in ((memory, True), (tmp_path / "away", False)):
        text = TEXT.replace("/scratch/me", str(directory)) + accept
        (tmp_path / "x.yaml").write_text(text)
        cli.main(["plan", "x.yaml"])
        line = "all criteria will be undecided: the target is memory (tmpfs)"
        assert (line in capsys.readouterr().out) == said


def test_a_target_that_others_may_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root is kept from other users; a user gets one line."""
    bench = tmp_path / "open" / "bench"
    bench.mkdir(parents=True)
    text = TEXT.replace("{directory: /scratch/me}", f"{{directory: '{bench}'}}")
    bench.parent.chmod(0o777)
    who = f"everybody can write to {bench.parent} (mode 0777, owner "
    for root in (True, False):
        monkeypatch.setattr(identify, "is_root", lambda root=root: root)
        said = f'2: target.directory: "{bench}" cannot be measured on by root: {who}'
        assert str(wrong(tmp_path, bench)).startswith(said) == root
    assert str(plan_table.open_way(make_plan(read(tmp_path, text)))).startswith(who)
    bench.parent.chmod(0o1777)
    assert plan_table.open_way(make_plan(read(tmp_path, text))) is None
