"""That nothing is written or deleted in a directory that is not the one claimed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import directory as directories
from iosweep.target import identify, mounts, removal, trees
from iosweep.target.directory import Opened, Place
from iosweep.target.identify import identity
from targets import OTHER, OWNER, as_root, listing, mounted, names

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")


@pytest.fixture
def ours(place: Path) -> Place:
    """Claimed, with a set of two files."""
    directory = directories.directory_of(str(place), "c")
    uuid = directories.claim(directory, OWNER)
    found = Place(directory, uuid, identity(identify.identify(str(place))))
    for name in ("0.0", "1.0"):
        (Path(trees.ensure(found, "sets/s")) / name).write_text("ours")
    return found


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    yield
    directories._seen.clear()


#: Every step that works in the directory, and those that remove there.
WORKING: dict[str, Any] = {
    "check": directories.check,
    "ensure": lambda p: trees.ensure(p, "fresh/x"),
    "keep": lambda p: trees.keep(p, "sets/s", "s"),
    "examine": lambda p: trees.examine(p, [trees.Look("sets/s", ["0.0"], 4)]),
}
REMOVING: dict[str, Any] = {
    "remove": lambda p: removal.remove(p, "sets"),
    "remove_all": removal.remove_all,
    "remove_probes": directories.remove_probes,
}
READING: dict[str, Any] = {"usage": trees.usage, "parts": trees.parts, "count": lambda p: trees.count(p, "sets")}
STEPS = WORKING | REMOVING | READING


# Another directory in its place


@pytest.mark.parametrize("step", STEPS)
def test_another_directory_has_its_name(ours: Place, tmp_path: Path, step: str) -> None:
    """Somebody renames ours, and another one, even another campaign's, has its name."""
    directory = Path(ours.directory)
    directory.rename(tmp_path / "away")
    directory.mkdir()
    (directory / "sets" / "s").mkdir(parents=True)
    (directory / "sets" / "s" / "0.0").write_text("theirs")
    before = listing(directory.parent, all=True)
    with pytest.raises(Refused, match="has no marker"):
        STEPS[step](ours)
    assert listing(directory.parent, all=True) == before
    (directory / "iosweep.json").write_text('{"uuid": "another"}')
    before = listing(directory.parent, all=True)
    with pytest.raises(Refused, match="belongs to another campaign"):
        STEPS[step](ours)
    assert listing(directory.parent, all=True) == before
    assert "belongs to another campaign" in str(directories.state(ours))


@pytest.mark.local
@as_root
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["another", "same"])
def test_a_mount_over_it(ours: Place, tmp_path: Path, step: str, kind: str) -> None:
    """With a copy of all that is ours, marker included: of the same file system, and on another one."""
    copy = tmp_path / "copy"
    copy.mkdir()
    own = (Path(ours.directory) / "iosweep.json").read_bytes()
    mount = ("-t", "tmpfs", "tmpfs") if kind == "another" else ("--bind", str(copy))
    with mounted("mount", *mount, ours.directory):
        (Path(ours.directory) / "sets" / "s").mkdir(parents=True)
        (Path(ours.directory) / "sets" / "s" / "0.0").write_text("theirs")
        (Path(ours.directory) / "iosweep.json").write_bytes(own)
        before = listing(Path(ours.directory))
        with pytest.raises(Refused, match="is a mount point"):
            STEPS[step](ours)
        assert listing(Path(ours.directory)) == before
    assert names(f"{ours.directory}/sets/s") == ["0.0", "1.0"]


@pytest.mark.local
@as_root
@pytest.mark.parametrize("known", [True, False], ids=["same agent", "new agent"])
def test_a_mount_over_the_target(ours: Place, place: Path, known: bool) -> None:
    """The copy of the directory on another file system has the marker, too."""
    if known:
        directories.check(ours)
    else:
        directories._seen.clear()
    own = (Path(ours.directory) / "iosweep.json").read_bytes()
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(place)):
        (Path(ours.directory) / "sets").mkdir(parents=True)
        (Path(ours.directory) / "iosweep.json").write_bytes(own)
        for step in STEPS.values():
            with pytest.raises(Refused, match=r"is on another file system than when it began \(tmpfs .*and it was"):
                step(ours)
        assert names(ours.directory) == ["iosweep.json", "sets"]
    directories.check(ours)


@pytest.mark.local
@as_root
@pytest.mark.parametrize("step", STEPS)
def test_a_mount_that_goes_while_a_step_looks(
    ours: Place, place: Path, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the target, with a copy of the directory, on the same file system. What kind that is cannot be seen then."""
    shutil.copytree(ours.directory, tmp_path / "lair" / "iosweep-c")
    before = listing(tmp_path / "lair", all=True)
    path, calls = directories._path, []

    def late(handle: int) -> str:
        found = path(handle)
        calls.append(found)
        if len(calls) == 1:
            subprocess.run(["umount", "-l", str(place)], check=True)
        return found

    monkeypatch.setattr(directories, "_path", late)
    subprocess.run(["mount", "--bind", str(tmp_path / "lair"), str(place)], check=True)
    with pytest.raises(Refused, match="was unmounted meanwhile"):
        STEPS[step](ours)
    assert listing(tmp_path / "lair", all=True) == before


@pytest.mark.local
@as_root
def test_mounted_again(tmp_path: Path) -> None:
    """The same file system by another mount: that is no other one."""
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "m")):
        directory = f"{tmp_path}/m/iosweep-c"
        found = Place(directory, directories.claim(directory, OWNER), identity(identify.identify(f"{tmp_path}/m")))
        directories.check(found)
        with mounted("mount", "--bind", f"{tmp_path}/m", f"{tmp_path}/m"):
            trees.ensure(found, "sets/s")
        assert names(directory) == ["iosweep.json", "sets"]


@pytest.mark.local
@as_root
def test_another_file_system_with_the_numbers_of_the_old_one(tmp_path: Path) -> None:
    """After an unmount the kernel gives number of device and of mount to the next one; the copy has the marker."""
    place, copy = tmp_path / "m", tmp_path / "copy"
    directory = f"{place}/iosweep-c"
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(place)):
        found = Place(directory, directories.claim(directory, OWNER), identity(identify.identify(str(place))))
        trees.ensure(found, "sets/s")
        before = _numbers(directory)
        directories.check(found)
        shutil.copytree(directory, copy)
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(place)):
        shutil.copytree(copy, directory)
        for step in STEPS.values():
            with pytest.raises(Refused, match="is on another file system than when it began"):
                step(found)
        after = _numbers(directory)
    if before != after:
        pytest.skip("the kernel gave other numbers")


def _numbers(directory: str) -> tuple[int, int]:
    opened = os.open(directory, os.O_PATH)
    try:
        return os.fstat(opened).st_dev, mounts.mount_of(opened)
    finally:
        os.close(opened)


@pytest.mark.local
@as_root
def test_a_file_mounted_over_one_of_ours(ours: Place, place: Path) -> None:
    """A tool would write to it, and it cannot be removed: it is left alone, and named."""
    file = f"{ours.directory}/sets/s/0.0"
    subprocess.run(["mount", "--bind", str(place / "precious"), file], check=True)
    try:
        for step in WORKING.values():
            with pytest.raises(Refused, match=r"`sets/s/0.0` in .*iosweep-c is a mount point; it is left alone"):
                step(ours)
        for step in (REMOVING["remove"], REMOVING["remove_all"]):
            assert step(ours)["wrong"] == ["sets/s/0.0: a mount point, it is left alone"]
        assert names(f"{ours.directory}/sets/s") == ["0.0"]
        assert trees.parts(ours) == ["sets"]
    finally:
        subprocess.run(["umount", file], check=True)
    assert removal.remove_all(ours)["wrong"] == []


@pytest.mark.local
@as_root
@pytest.mark.parametrize("over", ["sets", "sets/s"])
def test_what_is_mounted_on_the_way_is_not_emptied(ours: Place, tmp_path: Path, over: str) -> None:
    """A bind mount: the device is the same. What is named for removal is in it, or is it."""
    theirs = tmp_path / "theirs"
    (theirs / "s").mkdir(parents=True)
    (theirs / "s" / "0.0").write_text("precious")
    with mounted("mount", "--bind", str(theirs), f"{ours.directory}/{over}"):
        with pytest.raises(Refused, match=f"`{Path(over).name}` in .* is a mount point; it is left alone"):
            removal.remove(ours, "sets/s")
        assert (theirs / "s" / "0.0").read_text() == "precious"
    assert names(f"{ours.directory}/sets/s") == ["0.0", "1.0"]


def test_a_file_to_read_with_a_second_name(ours: Place, tmp_path: Path) -> None:
    """Whoever has the other name could change what is read."""
    os.link(f"{ours.directory}/sets/s/0.0", tmp_path / "other")
    [found] = trees.examine(ours, [trees.Look("sets/s", ["0.0", "1.0"], 4, False)])
    assert found["wrong"] == ["0.0 has another name as well (a hard link)"]


@as_root
@pytest.mark.parametrize("step", WORKING | REMOVING)
def test_a_directory_that_another_user_owns(ours: Place, step: str) -> None:
    """Its path and its marker are right: another user has put it there, who may write to the target."""
    os.chown(ours.directory, OTHER, OTHER)
    before = listing(Path(ours.directory))
    with pytest.raises(Refused, match=f"belongs to user {OTHER}, and root measures only in what is root's"):
        STEPS[step](ours)
    assert listing(Path(ours.directory)) == before


@pytest.mark.local
@as_root
def test_names_in_the_table_of_mounts(ours: Place) -> None:
    for name in ("a b", "a\tb", "a\nb", "a\\b", "a#b", "\u00e4", "a\udcff"):
        inside = Path(trees.ensure(ours, f"sets/{name}/in side"))
        with mounted("mount", "-t", "tmpfs", "tmpfs", str(inside)), Opened(ours, tools=False) as found:
            assert found.mounts == [f"sets/{name}/in side"]
    directories.check(ours)


def test_what_is_removed_at_last_is_what_was_opened(ours: Place, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory of somebody else comes to its place while ours is emptied."""
    empty = removal._Removal.empty

    def swap(self: Any, *arguments: Any, **more: Any) -> None:
        empty(self, *arguments, **more)
        Path(ours.directory).rename(place / "iosweep-away")
        Path(ours.directory).mkdir()

    monkeypatch.setattr(removal._Removal, "empty", swap)
    removal.remove_all(ours)
    assert Path(ours.directory).exists()


# Who may put one there


@pytest.mark.parametrize(
    ("mode", "root", "said"),
    [
        (0o755, True, ""),
        (0o1777, True, ""),
        (0o775, True, "its group can write to"),
        (0o2775, True, "its group can write to"),
        (0o3775, True, ""),
        (0o777, True, "everybody can write to"),
        (0o2775, False, ""),  # a project directory
        (0o1777, False, ""),
        (0o777, False, "everybody can write to"),
    ],
)
@pytest.mark.parametrize("where", ["target", "above"])
def test_who_may_write_on_the_way(
    tmp_path: Path, mode: int, root: bool, said: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identify, "is_root", lambda: root)
    target = tmp_path / "above" / "target"
    target.mkdir(parents=True)
    shared = target if where == "target" else target.parent
    shared.chmod(mode)
    found = identify.open_way(str(target)) or ""
    assert found.startswith(f"{said} {shared} (mode {mode:04o}, owner " if said else "")
    assert bool(found) == bool(said)


def test_the_way_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "target").mkdir(parents=True)
    (tmp_path / "real").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "target")
    assert "everybody can write to" in (identify.open_way(str(tmp_path / "link")) or "")
