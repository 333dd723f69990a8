"""The campaign's directory on the target: what is ours, and that nothing else is ever touched."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep import target
from iosweep.target import Refused

OWNER = {"uuid": None, "uid": 1000, "host": "h", "results": "/home/me/results/c", "campaign": "c"}
SIZE = 8192


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The target, with somebody else's files beside ours."""
    (tmp_path / "t" / "theirs" / "deep").mkdir(parents=True)
    (tmp_path / "t" / "theirs" / "deep" / "precious").write_text("x")
    (tmp_path / "t" / "precious").write_text("y")
    return tmp_path / "t"


@pytest.fixture
def ours(place: Path) -> str:
    directory = target.directory_of(str(place), "c")
    target.claim(directory, OWNER)
    return directory


@pytest.fixture(autouse=True)
def nothing_of_theirs_changes(place: Path) -> Iterator[None]:
    before = listing(place)
    yield
    assert listing(place) == before


def listing(place: Path) -> list[tuple[Any, ...]]:
    """Everything on the target but ours: names, types, modes, contents, times."""
    found = []
    for path in sorted(place.rglob("*")):
        if not path.relative_to(place).parts[0].startswith("iosweep-"):
            s = path.lstat()
            found.append(
                (path, s.st_mode, s.st_mtime_ns, s.st_ino, path.read_bytes() if stat.S_ISREG(s.st_mode) else b"")
            )
    return found


def names(directory: str | Path) -> list[str]:
    return sorted(f.name for f in Path(directory).iterdir())


def marker(directory: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(directory) / "iosweep.json").read_text())
    return found


# Ours or not


def test_a_fresh_directory(place: Path) -> None:
    directory = target.directory_of(str(place), "c")
    assert directory == f"{place}/iosweep-c"
    uuid = target.claim(directory, OWNER)
    assert marker(directory) == OWNER | {"uuid": uuid}
    assert stat.S_IMODE(Path(directory).stat().st_mode) == 0o700


def test_ours_again(ours: str) -> None:
    uuid = marker(ours)["uuid"]
    assert target.claim(ours, OWNER) == uuid  # the same user, host and results: we were killed before we noted it
    assert target.claim(ours, OWNER | {"uuid": uuid}) == uuid
    # results that were moved, another host or user of a group: the UUID tells
    moved = {"uuid": uuid, "uid": 7, "host": "other", "results": "/elsewhere", "campaign": "c"}
    assert target.claim(ours, moved) == uuid
    assert marker(ours) == OWNER | {"uuid": uuid}


@pytest.mark.parametrize("change", [{"uid": 7}, {"host": "other"}, {"results": "/elsewhere"}])
@pytest.mark.parametrize("uuid", [None, "11111111-1111-1111-1111-111111111111"])
def test_another_campaigns(ours: str, change: dict[str, Any], uuid: str | None) -> None:
    with pytest.raises(Refused, match=r"\(results in /home/me/results/c on h, user id 1000\)"):
        target.claim(ours, OWNER | change | {"uuid": uuid})


@pytest.mark.parametrize("content", ["", "not json", "[1]", "\udcff", '"text"', "null"])
def test_a_marker_that_is_not_ours(place: Path, content: str) -> None:
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "iosweep.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(Refused, match="the marker iosweep"):
        target.claim(str(directory), OWNER)


@pytest.mark.parametrize("content", ["{}", '{"uuid": null}', '{"uid": 5}', '{"uuid": "", "uid": 1000, "host": "h"}'])
def test_a_marker_without_a_uuid_is_nobodys(place: Path, content: str) -> None:
    # our own UUID is not known yet: nothing and nothing must not be the same
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "iosweep.json").write_text(content)
    with pytest.raises(Refused, match="belongs to another campaign"):
        target.claim(str(directory), OWNER)


def test_a_marker_that_is_a_link_or_a_directory(place: Path) -> None:
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "iosweep.json").symlink_to(place / "precious")
    with pytest.raises(Refused, match="cannot be read"):
        target.claim(str(directory), OWNER)
    (directory / "iosweep.json").unlink()
    (directory / "iosweep.json").mkdir()
    with pytest.raises(Refused, match="cannot be read"):
        target.claim(str(directory), OWNER)


def test_files_without_a_marker_are_left_alone(place: Path) -> None:
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "file").write_text("x")
    with pytest.raises(Refused, match=r"exists, but has no marker iosweep.json of ours; it is left alone"):
        target.claim(str(directory), OWNER)
    assert [f.name for f in directory.iterdir()] == ["file"]


def test_an_empty_directory_is_adopted(place: Path) -> None:
    # somebody made it for us, with a striping of its own
    (place / "iosweep-c").mkdir()
    assert target.claim(f"{place}/iosweep-c", OWNER)


def test_a_kill_while_the_marker_was_written_does_not_lock_us_out(place: Path) -> None:
    (place / "iosweep-c").mkdir()
    (place / "iosweep-c" / "iosweep.json.tmp").write_text('{"uu')
    uuid = target.claim(f"{place}/iosweep-c", OWNER)
    assert [f.name for f in (place / "iosweep-c").iterdir()] == ["iosweep.json"]
    assert marker(f"{place}/iosweep-c")["uuid"] == uuid


@pytest.mark.parametrize("aim", ["theirs", "nowhere", "precious"])
def test_a_link_in_its_place_is_not_followed(place: Path, aim: str) -> None:
    (place / "iosweep-c").symlink_to(place / aim)
    for touch in (
        lambda d: target.claim(d, OWNER), lambda d: target.ensure(d, "x", True), lambda d: target.remove(d, "deep"),
        lambda d: target.count(d, "deep"), lambda d: target.examine(d, "deep", ["precious"], 1, True), target.usage,
    ):  # fmt: skip
        with pytest.raises(Refused, match="is a symbolic link; it is not followed"):
            touch(f"{place}/iosweep-c")


# Below it

#: What the system says of a link where a directory must be.
DIRECTORY = "Not a directory|Too many levels of symbolic links"

NAMES = ["a", "a/b/c", "a b", "a\nb", "$HOME;*", "\u00e4", "..a", "a\udcff"]


@pytest.mark.parametrize("below", NAMES)
def test_make_empty_and_remove(ours: str, below: str) -> None:
    made = Path(target.ensure(ours, below, False))
    assert made == Path(ours) / below
    (made / "f").write_text("x")
    target.ensure(ours, below, False)
    assert target.count(ours, below) == 1
    target.ensure(ours, below, True)
    assert target.count(ours, below) == 0
    (made / "deep").mkdir()
    assert target.remove(ours, below) == 1
    assert not made.exists()
    assert target.remove(ours, below) == 0
    assert marker(ours)


@pytest.mark.parametrize("below", ["..", "../theirs", "a/../..", "a/..", ".", "", "a/.", "a/", "../iosweep-c"])
def test_no_way_out(ours: str, below: str) -> None:
    (Path(ours) / "a").mkdir()
    with pytest.raises(Refused, match="names nothing below"):
        target.remove(ours, below)
    if below not in ("", "a/"):  # those two are the directory itself, and `a`
        for touch in (lambda: target.ensure(ours, below, False), lambda: target.count(ours, below)):
            with pytest.raises(Refused, match="names nothing below"):
                touch()
    assert names(ours) == ["a", "iosweep.json"]


def test_files_are_counted_in_all_directories_below(ours: str, place: Path) -> None:
    top = Path(target.ensure(ours, "fresh/p-r1", True))
    for name in ("a", "b/c", "b/d", "b/e f/g\nh", "b/e f/\udcff"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("x")
    assert target.count(ours, "fresh/p-r1") == 5
    assert target.count(ours, "fresh") == 5
    assert target.count(ours, "fresh/p-r1/b/e f") == 2
    # nothing but regular files, and nothing through a link: neither theirs nor ours a second time
    (top / "b" / "empty").mkdir()
    (top / "b" / "theirs").symlink_to(place / "theirs")
    (top / "b" / "above").symlink_to(top)
    (top / "b" / "file").symlink_to(top / "a")
    os.mkfifo(top / "b" / "pipe")
    handles = len(list(Path("/proc/self/fd").iterdir()))
    assert target.count(ours, "fresh/p-r1") == 5
    assert len(list(Path("/proc/self/fd").iterdir())) == handles
    with pytest.raises(FileNotFoundError):
        target.count(ours, "fresh/p-r2")


def test_many_directories_in_each_other_are_counted(ours: str) -> None:
    # as mdtest makes them for trees
    deep = Path(target.ensure(ours, "/".join(["d"] * 60), True))
    (deep / "f").write_text("x")
    assert target.count(ours, "d") == 1


def test_links_inside_are_not_followed(ours: str, place: Path) -> None:
    (Path(ours) / "way").symlink_to(place / "theirs")
    for below in ("way", "way/deep"):
        for touch in (target.remove, target.count):
            with pytest.raises(OSError, match=DIRECTORY):
                touch(ours, below)
        for empty in (True, False):
            with pytest.raises(OSError, match=DIRECTORY):
                target.ensure(ours, below, empty)
        with pytest.raises(OSError, match=DIRECTORY):
            target.examine(ours, below, ["precious"], 1, True)
    # in a tree that is removed, only the link goes
    target.ensure(ours, "tree", False)
    (Path(ours) / "tree" / "way").symlink_to(place / "theirs")
    (Path(ours) / "tree" / "file").symlink_to(place / "precious")
    assert target.count(ours, "tree") == 0
    assert target.usage(ours)["files"] == 2  # the marker and one link, not what they lead to
    assert target.remove(ours, "tree") == 2


def test_usage(ours: str) -> None:
    before = target.usage(ours)
    (Path(ours) / "f").write_bytes(bytes(1 << 20))
    os.sync()
    after = target.usage(ours)
    assert after["files"] - before["files"] == 1
    assert after["bytes"] - before["bytes"] >= 1 << 20
    assert target.usage(ours + "-none") == {"bytes": 0, "files": 0}


# Files to work on


@pytest.fixture
def data(ours: str) -> Path:
    directory = Path(target.ensure(ours, "set", True))
    for name in ("0.0", "1.0"):
        (directory / name).write_bytes(b"x" * SIZE)
    return directory


def examine(ours: str, holes: bool = False, files: int = 2) -> dict[str, Any]:
    return target.examine(ours, "set", [f"{n}.0" for n in range(files)], SIZE, holes)


def test_complete_files(ours: str, data: Path) -> None:
    newest = max(f.stat().st_mtime_ns for f in data.iterdir())
    assert examine(ours) == {"wrong": [], "changed_ns": newest, "holes": "not looked at"}
    assert names(data) == ["0.0", "1.0"]


@pytest.mark.parametrize(
    ("harm", "wrong"),
    [
        (lambda f: f.unlink(), "0.0 is missing"),
        (lambda f: f.write_bytes(b"x" * 100), "0.0 has 100 of 8192 bytes"),
        (lambda f: f.write_bytes(b"x" * 2 * SIZE), "0.0 has 16384 of 8192 bytes"),
        (lambda f: (f.unlink(), f.mkdir()), "0.0 is not a regular file"),
        (lambda f: (f.unlink(), f.symlink_to(f.parent / "1.0")), "0.0 is not a regular file"),
        (lambda f: (f.unlink(), os.mkfifo(f)), "0.0 is not a regular file"),
    ],
)
def test_incomplete_files(ours: str, data: Path, harm: Any, wrong: str) -> None:
    harm(data / "0.0")
    assert examine(ours, holes=True)["wrong"] == [wrong]


def test_no_more_than_five_sentences(ours: str, data: Path) -> None:
    assert len(examine(ours, files=100)["wrong"]) == 5


def test_no_directory(ours: str) -> None:
    assert examine(ours)["wrong"] == ["the directory is not there"]


def test_holes(ours: str, data: Path) -> None:
    if examine(ours, holes=True)["holes"] != "none":
        pytest.skip("holes: this file system shows none")
    (data / "1.0").unlink()
    with (data / "1.0").open("wb") as file:
        file.truncate(SIZE)
    found = examine(ours, holes=True)
    assert (found["wrong"], found["holes"]) == (["1.0 has unwritten extents"], "found")
    assert names(data) == ["0.0", "1.0"]  # nothing is left of the probe


def test_a_file_system_that_hides_its_holes(ours: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # as many network file systems and ramfs do: the end of the file is the first hole
    monkeypatch.setattr(target.os, "lseek", lambda handle, at, how: os.fstat(handle).st_size)
    with (data / "1.0").open("wb") as file:
        file.truncate(SIZE)
    found = examine(ours, holes=True)
    assert found["wrong"] == []
    assert found["holes"].startswith("hidden: this file system shows no holes")


def test_which_file_system(place: Path) -> None:
    found = target.identify(str(place))
    assert found["writable"]
    assert not target.identify("/proc/sys")["writable"]  # where nobody makes a directory, not even root
    assert found == target.identify(str(place / "theirs"))
    assert found["fstype"] in found["mount"]
    (place / "iosweep-link").symlink_to(place)  # the target itself may be a link: the user named it
    assert target.identify(str(place / "iosweep-link")) == found
    space = target.space(str(place))
    assert space["free_bytes"] > 0


@pytest.mark.parametrize(
    ("name", "wrong"), [("none", "does not exist; is the file system mounted?"), ("precious", "is not a directory")]
)
def test_no_target(place: Path, name: str, wrong: str) -> None:
    with pytest.raises(Refused, match=wrong):
        target.identify(str(place / name))
