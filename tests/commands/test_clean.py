"""`iosweep clean`: what is shown, what goes, what is refused, and that no result is touched."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import locks
from iosweep.commands import cli
from iosweep.errors import Busy, TargetHangs, Unanswered
from iosweep.files import documents
from iosweep.slurm import query
from iosweep.store.store import Store
from iosweep.target import directory as directories
from iosweep.target import identify, lock, trees
from iosweep.target.agent import Agent
from machine import InProcess
from targets import OWNER, as_root, at, listing, made, make_place, marker_in, names

Capture = pytest.CaptureFixture[str]


class Left:
    """A campaign that has been measured, with something left on the target."""

    def __init__(self, place: Path, name: str = "c"):
        self.results = place / "results" / name
        self.known = self.results / "targets" / f"iosweep-{name}.json"
        self.target = make_place(place / "t") if not (place / "t").exists() else place / "t"
        self.directory = directories.directory_of(str(self.target), name)
        self.file_system = identify.identity(identify.identify(str(self.target)))
        (self.results / "plans").mkdir(parents=True)
        (self.results / "points").mkdir()
        (self.results / "points" / "r001-1.json").write_text("{}")
        owner = OWNER | {"user": "me", "results": str(self.results), "campaign": name}
        directories.claim(self.directory, owner)
        self.know(uuid=owner["uuid"])
        Store(self.results).mark()
        for file in ("sets/fio-read-1m-1/0.0", "sets/fio-read-1m-1/1.0", "fresh/p-r1/0.0"):
            folder = made(at(self.directory), file.rpartition("/")[0])
            (folder / Path(file).name).write_bytes(bytes(1 << 20))

    def know(self, **changed: Any) -> None:
        known = {"directory": self.directory, "deadline": 60.0, "layout": None, "lock": None} | changed
        known = {"campaign": self.results.name, "file_system": self.file_system, "source": "x", "tidied": False} | known
        self.known.parent.mkdir(exist_ok=True)
        self.known.write_bytes(documents.dump(known))

    def know_again(self, **changed: Any) -> None:
        self.know(**{"uuid": marker_in(self.directory)["uuid"]} | changed)

    def stored(self) -> dict[str, bytes]:
        ours = ("lock", self.known.name, "iosweep.json")
        files = (file for file in self.results.rglob("*") if file.is_file() and file.name not in ours)
        return {str(file): file.read_bytes() for file in files}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    """With an agent of its own, and no Slurm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lock, "MACHINE", locks.own())
    monkeypatch.setattr(query, "ask", lambda *_, **__: "")
    return Left(tmp_path)


@pytest.fixture
def left(there: Left, monkeypatch: pytest.MonkeyPatch) -> Left:
    """The agent is in this process."""
    monkeypatch.setattr(Agent, "call", InProcess.call)
    return there


def clean(*arguments: str) -> int:
    return cli.main(["clean", *arguments])


@pytest.fixture
def refuses(left: Left, capsys: Capture) -> Callable[..., str]:
    """Runs the preview and the removal: both refuse, change nothing on the target, and say so on stderr alone."""

    def refuses(*arguments: str, code: int = 1) -> str:
        before = listing(left.target, all=True)
        said = ""
        for yes in ([], ["--yes"]):
            assert clean(*arguments or ("c",), *yes) == code
            told = capsys.readouterr()
            assert (told.out, bool(told.err)) == ("", True)
            assert listing(left.target, all=True) == before
            said = told.err
        return said

    return refuses


def test_what_is_left_is_shown_and_goes_with_yes_alone_and_the_results_stay(
    left: Left, capsys: Capture, snapshot: SnapshotAssertion
) -> None:
    os.sync()
    whole, theirs, stored = listing(left.target, all=True), listing(left.target), left.stored()
    assert clean("c") == 0
    assert listing(left.target, all=True) == whole
    assert clean("--yes", str(left.results)) == 0
    assert (listing(left.target), names(left.target)) == (theirs, ["precious", "theirs"])
    assert left.stored() == stored
    assert json.loads(left.known.read_text())["tidied"] is True
    for again in (["--yes"], []):
        assert clean("c", *again) == 0
    said = capsys.readouterr()
    assert said.err == ""
    text = said.out.replace(str(left.target.parent), "PLACE")
    assert re.sub(r"in [\d.]+ m?s$|is on .*\)$", "...", text, flags=re.MULTILINE) == snapshot


def test_several_campaigns_are_cleaned_each_by_its_own_marker_or_not_at_all(left: Left, tmp_path: Path) -> None:
    another, third = Left(tmp_path, "d"), Left(tmp_path, "e")
    another.know(uuid="another")
    assert clean("--yes", "c", "none") == 1  # a name is not known
    third.known.rename(tmp_path / "away")
    assert clean("--yes", "e") == 0  # nothing was measured
    assert marker_in(left.directory) and marker_in(third.directory)
    (tmp_path / "away").rename(third.known)
    assert clean("--yes", "c", "d", "e") == 1
    assert [Path(one.directory).exists() for one in (left, another, third)] == [False, True, False]


def test_damaged_results_remove_nothing(left: Left, refuses: Callable[..., str]) -> None:
    wrong: list[dict[str, Any]] = [
        {"uuid": None}, {"uuid": 5}, {"directory": None}, {"directory": "iosweep-c"}, {"directory": "/home/me"},
        {"campaign": "d"}, {"deadline": 0}, {"deadline": True}, {"lock": 5},
        {"directory": left.directory + "\x1b[2J"},
    ]  # fmt: skip
    for known in wrong:
        left.know_again(**known)
        said = refuses()
        assert "iosweep-c.json is damaged" in said, known
        assert "\x1b" not in said
    file = left.known
    for content in (b"", bytes(500), b'{"direct', b"[]"):
        file.write_bytes(content)
        assert "iosweep-c.json is damaged" in refuses(), content
    left.know_again()
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")
    assert "symbolic link" in refuses()


def test_what_is_not_ours_is_left_alone(left: Left, refuses: Callable[..., str]) -> None:
    left.know(uuid="11111111-1111-1111-1111-111111111111")
    assert "belongs to another campaign" in refuses()
    left.know_again()
    marker = (Path(left.directory) / "iosweep.json").rename(left.target / "away")
    assert "has no marker" in refuses()
    marker.rename(Path(left.directory) / "iosweep.json")
    Path(left.directory).rename(left.target / "moved")
    Path(left.directory).symlink_to("moved")
    assert "is a symbolic link" in refuses()


def test_foreign_entries_are_left_alone_and_named(left: Left, capsys: Capture) -> None:
    directory = Path(left.directory)
    foreign = ["iosweep.json.saved", "notes.txt", "\x1b[2J\n\udcff"]
    for name in foreign:
        (directory / name).write_text("mine")
    (directory / "thesis").mkdir()
    (directory / "thesis" / "precious").write_text("x")
    (directory / "fresh" / "p-r1" / "fine").write_text("made by a tool")
    assert clean("c") == 0
    said = capsys.readouterr()
    assert "  notes.txt" in said.out and r"  \x1b[2J\n\udcff " in said.out
    assert "\x1b" not in said.out + said.err
    assert clean("--yes", "c") == 1
    told = capsys.readouterr().err.splitlines()
    left_out = [line.split(": ")[1] for line in told if line.startswith("not removed: ")]
    assert sorted(left_out) == sorted([*foreign[:2], r"\x1b[2J\n\udcff", "thesis"])
    assert names(directory) == sorted(["iosweep.json", "thesis", *foreign])
    for name in foreign:
        (directory / name).unlink()
    shutil.rmtree(directory / "thesis")
    assert clean("--yes", "c") == 0
    assert not directory.exists()


@as_root
def test_root_removes_no_directory_of_another_user(left: Left, refuses: Callable[..., str]) -> None:
    """Root with a copy of the user's results."""
    os.chown(left.directory, 12345, 12345)
    assert "user 12345" in refuses()


def test_a_copy_of_the_results_cleans_once_the_original_is_gone(left: Left, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(left.results, tmp_path / "copy")
    assert clean("--yes", str(tmp_path / "copy")) == 1
    assert Path(left.directory).exists() and str(left.results) in capsys.readouterr().err
    shutil.rmtree(left.results)
    assert clean(str(tmp_path / "copy")) == 0
    assert f"(results in {left.results} on h" in capsys.readouterr().out  # whose it is
    assert clean("--yes", str(tmp_path / "copy")) == 0
    assert not Path(left.directory).exists()


def test_results_in_what_is_removed_are_not_removed(left: Left, refuses: Callable[..., str]) -> None:
    inside = Path(left.directory) / "sets" / "fio-read-1m-1" / "results" / "c"
    shutil.copytree(left.results, inside)
    assert "move them" in refuses(str(inside))


def test_not_mounted_is_not_gone(left: Left, refuses: Callable[..., str]) -> None:
    """It may be there again tomorrow."""
    left.know_again(file_system="wekafs backend/fs")
    assert "on another file system" in refuses()  # there, with its marker: a copy
    away = Path(left.directory).rename(left.target / "iosweep-away")
    assert "mounted?" in refuses()
    away.rename(left.directory)
    left.know_again(directory=f"{left.target}/gone/iosweep-c")
    assert "mounted?" in refuses()


# Who is at work


def test_nothing_is_removed_while_it_is_measured(left: Left, capsys: Capture) -> None:
    with Store(left.results).locked():
        held = (left.results / "lock").read_bytes()
        assert clean("c", "--yes") == 1
        assert (left.results / "lock").read_bytes() == held
    assert f"process {os.getpid()} " in capsys.readouterr().err
    (left.results / "lock").unlink()
    (left.results / "lock").mkdir()
    assert clean("--yes", "c") == 1
    assert "cannot be locked" in capsys.readouterr().err
    assert marker_in(left.directory)


def test_nothing_is_removed_while_another_campaign_measures_the_file_system(
    left: Left, tmp_path: Path, capsys: Capture
) -> None:
    facts = identify.identify(str(left.target))
    (tmp_path / "locks").mkdir()
    for directory in (None, str(tmp_path / "locks")):
        left.know_again(lock=directory)
        with lock.exclude(directory, facts, lock.Owner("other", "/r")):
            assert clean("--yes", "c") == 1
        assert "campaign other" in capsys.readouterr().err
        assert marker_in(left.directory)
    left.know_again(lock=str(tmp_path / "none"))
    assert clean("--yes", "c") == 0  # a campaign that is long over
    assert "exclusion not checked" in capsys.readouterr().err
    assert not Path(left.directory).exists()


#: The comment of its jobs in Slurm, which may wait and hold no lock yet.
COMMENT = query.comment("c", "2-nodes")


@pytest.fixture
def squeue(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what squeue answers."""
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: "/bin/true" if name == "squeue" else which(name, **more))

    def answers(*lines: str, wrong: str = "") -> None:
        def ask(*_: object, **__: object) -> str:
            if wrong:
                raise Unanswered("squeue failed", wrong)
            return "\n".join(lines) + "\n"

        monkeypatch.setattr(query, "ask", ask)

    return answers


def test_nothing_is_removed_while_jobs_of_it_wait(
    left: Left, tmp_path: Path, capsys: Capture, squeue: Callable[..., None]
) -> None:
    line = f"12|PENDING|me|2||N/A|N/A|N/A|(null)|Priority|x|{tmp_path}|{COMMENT}"
    squeue(line, line.replace("12|PENDING", "13|RUNNING"))
    assert clean("--yes", "c") == 1
    assert "12 (pending), 13 (running)" in capsys.readouterr().err
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "results").symlink_to(left.results.parent)  # results behind a link
    squeue(line.replace(str(tmp_path), str(tmp_path / "work")))
    assert clean("--yes", str(tmp_path / "work" / "results" / "c")) == 1
    assert marker_in(left.directory)
    squeue(line + "_cc", line.replace(str(tmp_path), "/elsewhere"), line.replace("PENDING", "COMPLETED"))
    capsys.readouterr()
    assert clean("--yes", "c") == 0
    assert capsys.readouterr().err == ""


def test_a_slurm_that_does_not_answer_is_noted(
    left: Left, tmp_path: Path, capsys: Capture, squeue: Callable[..., None]
) -> None:
    squeue(wrong="no controller")
    assert clean("--yes", "c") == 0
    assert "not seen" in capsys.readouterr().err
    Left(tmp_path, "d")
    squeue(wrong="squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host")  # no cluster
    assert clean("--yes", "d") == 0
    assert capsys.readouterr().err == ""


# How it ends


def test_ctrl_c_stops_it_and_it_goes_on_the_next_time(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(agent: Agent, operation: Any, *arguments: Any, **more: Any) -> Any:
        if operation is trees.remove_all:
            (Path(left.directory) / "fresh" / "p-r1" / "0.0").unlink()
            raise KeyboardInterrupt
        return InProcess.call(agent, operation, *arguments, **more)

    monkeypatch.setattr(Agent, "call", interrupted)
    assert clean("--yes", "c") == 130
    assert marker_in(left.directory)
    monkeypatch.setattr(Agent, "call", InProcess.call)
    assert clean("--yes", "c") == 0
    assert not Path(left.directory).exists()


def test_of_a_target_that_hangs_nothing_is_removed(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: object, **__: object) -> None:
        raise TargetHangs("no answer")

    monkeypatch.setattr(Agent, "call", hangs)
    assert clean("--yes", "c") == 4
    monkeypatch.setattr(Agent, "call", InProcess.call)
    assert marker_in(left.directory)


def test_results_and_target_are_locked_while_files_go(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, seen = identify.identify(str(left.target)), []

    def call(agent: Agent, operation: Any, *arguments: Any, **more: Any) -> Any:
        if operation is trees.remove_all:
            seen.append(lock.holder(left.results / lock.NAME))
            with pytest.raises(Busy), lock.exclude(None, facts, lock.Owner("other", "/r")):
                pass
        return InProcess.call(agent, operation, *arguments, **more)

    monkeypatch.setattr(Agent, "call", call)
    assert clean("--yes", "c") == 0
    assert seen and all(seen)
