"""Nothing is written or deleted in a directory that is not the one claimed, whatever has its name by now."""

import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import directory as directories
from iosweep.target import trees
from iosweep.target.directory import Place
from targets import OTHER, OWNER, as_root, listing, made, refusal

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")

Steps = dict[str, Callable[[Place], Any]]
#: Every step that works in the directory, those that remove there, and those that only read.
WORKING: Steps = {
    "check": directories.check_marker,
    "ensure": lambda p: made(p, "fresh/x"),
    "examine": lambda p: trees.examine_files(p, [trees.Look("sets/s", ["0.0"], 4)]),
}
REMOVING: Steps = {"remove": lambda p: trees.remove(p, "sets"), "remove_all": trees.remove_all}
READING: Steps = {
    "usage": trees.measure_usage, "parts": trees.list_parts, "count": lambda p: trees.count_files(p, "sets"),
}  # fmt: skip
STEPS = WORKING | REMOVING | READING


def claimed(target: Path) -> Place:
    """Claimed, with a set of two files."""
    directory = directories.directory_of(str(target), "c")
    directories.claim(directory, OWNER)
    found = Place(directory, OWNER["uuid"])
    for name in ("0.0", "1.0"):
        (made(found, "sets/s") / name).write_text("ours")
    return found


@pytest.fixture
def ours(place: Path) -> Place:
    return claimed(place)


def refused(ours: Place, said: str, steps: Steps = STEPS) -> None:
    """None of these steps goes on, and nothing is changed."""
    top = Path(ours.directory).parent
    before = listing(top, all=True)
    for name, step in steps.items():
        assert said in refusal(partial(step, ours)), name
        assert listing(top, all=True) == before, name


def lookalike(directory: Path, marker: bytes | None = None) -> Path:
    """A directory of others, with files by the names of ours, and perhaps with a copy of our marker."""
    (directory / "sets" / "s").mkdir(parents=True)
    (directory / "sets" / "s" / "0.0").write_text("theirs")
    if marker is not None:
        (directory / "iosweep.json").write_bytes(marker)
    return directory


def marker_of(ours: Place) -> bytes:
    return (Path(ours.directory) / "iosweep.json").read_bytes()


# Another directory in its place


def test_another_directory_by_its_name_is_left_alone(ours: Place, tmp_path: Path) -> None:
    """Somebody renames ours, and another one, even another campaign's, has its name."""
    directory = Path(ours.directory)
    directory.rename(tmp_path / "away")
    lookalike(directory)
    refused(ours, "no marker")
    for uuid in (ours.uuid, ""):  # no UUID is not the same as none
        (directory / "iosweep.json").write_text('{"uuid": "another"}' if uuid else '{"uuid": ""}')
        refused(ours._replace(uuid=uuid), "another campaign")
        assert "another campaign" in str(directories.probe(ours._replace(uuid=uuid)))


@as_root
def test_a_directory_that_another_user_owns_is_left_alone(ours: Place) -> None:
    """Its path and its marker are right: another user has put it there, who may write to the target."""
    os.chown(ours.directory, OTHER, OTHER)
    refused(ours, f"belongs to user {OTHER}", WORKING | REMOVING)


# At any moment

#: By these calls a step reaches the file system.
CALLS = ("open", "scandir", "stat", "mkdir", "rename", "unlink", "rmdir", "listdir")
DEEP: Steps = {
    "remove": lambda p: trees.remove(p, "sets/s"),
    "remove_all": REMOVING["remove_all"],
    "ensure": lambda p: made(p, "sets/s/deep"),
    "state": lambda p: directories.probe(p, data=False),
    "claim": lambda p: directories.claim(p.directory, OWNER | {"uuid": p.uuid}),
}


def at_call(number: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Have something happen before a call of the system; returns a function: how many calls there were."""
    counted = itertools.count(1)
    last, busy = 0, False

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal last, busy
            if not busy:
                last = next(counted)
                if last == number:
                    busy = True
                    act()
                    busy = False
            return real(*arguments, **more)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, wrapped(getattr(os, name)))
    return lambda: last


@pytest.mark.parametrize("over", ["", "sets", "sets/s"])
@pytest.mark.parametrize("step", DEEP)
def test_a_link_that_comes_at_any_moment_leads_nowhere(
    tmp_path: Path, step: str, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each call of the system in turn, a directory on the way becomes a link to one of others."""
    for number in itertools.count(1):
        target = tmp_path / f"m{number}"
        target.mkdir()
        ours = claimed(target)
        theirs = lookalike(tmp_path / f"theirs{number}" / "iosweep-c", marker_of(ours))
        before, path = listing(theirs, all=True), Path(ours.directory, over)

        def swap(path: Path = path, theirs: Path = theirs) -> None:
            path.rename(path.with_name("iosweep-away")) if path.exists() else None
            path.symlink_to(theirs / over)

        with monkeypatch.context() as patched:
            calls = at_call(number, swap, patched)
            try:
                DEEP[step](ours)
            except (Refused, OSError):
                pass
            done = calls()
        assert listing(theirs, all=True) == before, f"the link came before call {number}"
        if done < number:
            break
    assert number > 5


def test_the_directory_that_is_removed_at_last_is_the_one_that_was_opened(
    ours: Place, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty directory of somebody else comes to its place while ours is emptied."""
    tree = trees._Removal.remove_tree

    def swap(self: Any, path: str) -> None:
        tree(self, path)
        Path(ours.directory).rename(place / "iosweep-away")
        Path(ours.directory).mkdir()

    monkeypatch.setattr(trees._Removal, "remove_tree", swap)
    trees.remove_all(ours)
    assert Path(ours.directory).exists()
