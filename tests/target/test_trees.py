"""What is in the campaign's directory on the target: nothing else is ever touched, however it is entangled."""

import json
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import protocol, removal, trees
from iosweep.target.directory import DIRECTORY, Place
from targets import as_root, as_user, at, everybodys, marker_in, mounted, names

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")


SIZE = 8192
#: What a removal says that found nothing.
NOTHING: dict[str, Any] = {
    "files": 0, "directories": 0, "bytes": 0, "linked": 0, "left": False, "wrong": [],
    "foreign": 0,
}  # fmt: skip


#: What the system says of a link where a directory must be.
NO_DIRECTORY = "is a symbolic link or no directory, and is not followed"

NAMES = ["a", "a/b/c", "a b", "a\nb", "$HOME;*", "\u00e4", "..a", "a\udcff"]


@pytest.mark.parametrize("below", NAMES)
def test_make_empty_and_remove(ours: str, below: str) -> None:
    made = Path(trees.ensure(at(ours), below))
    assert made == Path(ours) / below
    (made / "f").write_text("x")
    trees.ensure(at(ours), below)
    assert trees.count(at(ours), below) == 1
    (made / "deep").mkdir()
    assert removal.remove(at(ours), below) == NOTHING | {"files": 1, "directories": 2, "bytes": 4096}
    assert not made.exists()
    assert removal.remove(at(ours), below) == NOTHING
    assert removal.remove(at(ours), f"{below}/x/y") == NOTHING
    assert marker_in(ours)


@pytest.mark.parametrize("below", ["..", "../theirs", "a/../..", "a/..", ".", "", "a/.", "a/", "../iosweep-c"])
def test_no_way_out(ours: str, below: str) -> None:
    (Path(ours) / "a").mkdir()
    with pytest.raises(Refused, match="names nothing below"):
        removal.remove(at(ours), below)
    if below not in ("", "a/"):  # those two are the directory itself, and `a`
        for touch in (lambda: trees.ensure(at(ours), below), lambda: trees.count(at(ours), below)):
            with pytest.raises(Refused, match="names nothing below"):
                touch()
    assert names(ours) == ["a", "iosweep.json"]


def test_files_are_counted_in_all_directories_below(ours: str, place: Path) -> None:
    top = Path(trees.ensure(at(ours), "fresh/p-r1"))
    for name in ("a", "b/c", "b/d", "b/e f/g\nh", "b/e f/\udcff"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("x")
    assert trees.count(at(ours), "fresh/p-r1") == 5
    assert trees.count(at(ours), "fresh") == 5
    assert trees.count(at(ours), "fresh/p-r1/b/e f") == 2
    # nothing but regular files, and nothing through a link: neither theirs nor ours a second time
    (top / "b" / "empty").mkdir()
    (top / "b" / "theirs").symlink_to(place / "theirs")
    (top / "b" / "above").symlink_to(top)
    (top / "b" / "file").symlink_to(top / "a")
    os.mkfifo(top / "b" / "pipe")
    handles = len(list(Path("/proc/self/fd").iterdir()))
    assert trees.count(at(ours), "fresh/p-r1") == 5
    assert len(list(Path("/proc/self/fd").iterdir())) == handles
    with pytest.raises(FileNotFoundError):
        trees.count(at(ours), "fresh/p-r2")


def test_links_inside_are_not_followed(ours: str, place: Path) -> None:
    (Path(ours) / "way").symlink_to(place / "theirs")
    for below in ("way", "way/deep"):
        for touch in (removal.remove, trees.count):
            with pytest.raises(OSError, match=NO_DIRECTORY):
                touch(at(ours), below)
        with pytest.raises(OSError, match=NO_DIRECTORY):
            trees.ensure(at(ours), below)
        with pytest.raises(OSError, match=NO_DIRECTORY):
            trees.examine(at(ours), [trees.Look(below, ["precious"], 1)])
    # in a tree that is removed, only the link goes
    trees.ensure(at(ours), "tree")
    (Path(ours) / "tree" / "way").symlink_to(place / "theirs")
    (Path(ours) / "tree" / "file").symlink_to(place / "precious")
    assert trees.count(at(ours), "tree") == 0
    assert trees.usage(at(ours))["files"] == 4  # the marker and three links, not what they lead to
    assert removal.remove(at(ours), "tree")["files"] == 2
    with pytest.raises(OSError, match=NO_DIRECTORY):
        removal.remove(at(ours), "way")
    (Path(ours) / "tree").mkdir()
    (Path(ours) / "tree" / "x").mkdir()
    with pytest.raises(OSError, match=NO_DIRECTORY):
        trees.keep(at(ours), "way/deep", "x")


def test_usage(ours: str) -> None:
    before = trees.usage(at(ours))
    (Path(ours) / "f").write_bytes(bytes(1 << 20))
    os.sync()
    after = trees.usage(at(ours))
    assert after["files"] - before["files"] == 1
    assert after["bytes"] - before["bytes"] >= 1 << 20
    assert trees.usage(at(ours + "-none")) == {"bytes": 0, "files": 0}


# Files to work on


@pytest.fixture
def data(ours: str) -> Path:
    directory = Path(trees.ensure(at(ours), "set"))
    for name in ("0.0", "1.0"):
        (directory / name).write_bytes(b"x" * SIZE)
    return directory


def examine(ours: str, holes: bool = False, files: int = 2) -> dict[str, Any]:
    return trees.examine(at(ours), [trees.Look("set", [f"{n}.0" for n in range(files)], SIZE, holes)])[0]


def test_complete_files(ours: str, data: Path) -> None:
    found = examine(ours)
    assert (found["wrong"], found["holes"]) == ([], "not looked at")
    assert found["stamps"]["last_ns"] == max(f.stat().st_ctime_ns for f in data.iterdir())
    assert examine(ours) == found
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
    monkeypatch.setattr(trees.os, "lseek", lambda handle, at, how: os.fstat(handle).st_size)
    with (data / "1.0").open("wb") as file:
        file.truncate(SIZE)
    found = examine(ours, holes=True)
    assert found["wrong"] == []
    assert found["holes"].startswith("hidden: this file system shows no holes")


# Removing


def tree(top: Path, directories: int, files: int) -> int:
    """Directories of files, and as many in each; returns how many files there are."""
    for a in range(directories):
        for b in range(directories):
            (top / f"{a}" / f"{b}").mkdir(parents=True)
            for f in range(files):
                (top / f"{a}" / f"{b}" / f"{f}").touch()
    return directories * directories * files


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """A file system that takes its time to remove a file; which threads have waited for it."""
    waited = set()
    unlink = os.unlink

    def slowly(name: str, *, dir_fd: int | None = None) -> None:
        time.sleep(0.002)
        waited.add(threading.get_ident())
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(trees.os, "unlink", slowly)
    return waited


def test_all_of_a_tree(ours: str) -> None:
    files = tree(Path(ours) / "sets", 5, 10)
    (Path(ours) / "sets" / "0" / "f").write_bytes(bytes(SIZE))
    os.link(Path(ours) / "sets" / "0" / "f", Path(ours) / "another")  # its bytes stay
    done = removal.remove(at(ours), "sets")
    assert done == NOTHING | {"files": files + 1, "directories": 5 * 5 + 5 + 1, "linked": 1}
    assert names(ours) == ["another", "iosweep.json"]


def test_more_than_is_held_at_a_time(ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_HELD", 7)
    files = tree(Path(ours) / "sets", 10, 20)
    assert removal.remove(at(ours), "sets") == NOTHING | {"files": files, "directories": 111}


def test_many_at_a_time_where_it_is_slow_and_one_where_it_is_not(ours: str, slow: set[int]) -> None:
    files = tree(Path(ours) / "sets", 3, 100)
    assert removal.remove(at(ours), "sets", None, 4)["files"] == files
    assert 2 <= len(slow) <= 4
    slow.clear()
    tree(Path(ours) / "sets", 2, 10)
    removal.remove(at(ours), "sets", None, 1)
    assert len(slow) == 1


def test_as_long_as_it_may(ours: str, slow: set[int]) -> None:
    files = tree(Path(ours) / "sets", 3, 40)
    gone = 0
    for _ in range(files):
        done = removal.remove(at(ours), "sets", 0.1, 2)
        gone += done["files"]
        if not done["left"]:
            break
        assert done["files"] < files / 2
        assert trees.count(at(ours), "sets") == files - gone
    assert gone == files
    assert names(ours) == ["iosweep.json"]
    (Path(ours) / "sets" / "empty").mkdir(parents=True)
    assert removal.remove(at(ours), "sets", 0.0) == NOTHING | {"left": True}


def test_deeper_than_any_path(ours: str) -> None:
    """Few directories are open at a time, and no name is as long as the whole way."""
    levels = 1200
    handle = os.open(Path(trees.ensure(at(ours), "sets/x")), DIRECTORY)
    for _ in range(levels):
        os.close(os.open("f", os.O_CREAT, dir_fd=handle))
        os.mkdir("a-directory", dir_fd=handle)
        inner = os.open("a-directory", DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 130, limit[1]))
    try:
        assert trees.count(at(ours), "sets") == levels
        assert trees.usage(at(ours))["files"] == levels + 1
        done = removal.remove(at(ours), "sets")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert done == NOTHING | {"files": levels, "directories": levels + 2}
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_names_of_all_kinds(ours: str) -> None:
    for name in ("a\nb", "\udcff", "-rf", "$HOME;*", " ", "x" * 255):
        (Path(trees.ensure(at(ours), f"sets/{name}")) / name).touch()
    assert removal.remove(at(ours), "sets") == NOTHING | {"files": 6, "directories": 7}


def test_links_and_other_entries_than_files(ours: str, place: Path) -> None:
    top = Path(trees.ensure(at(ours), "sets/x"))
    (top / "away").symlink_to(place / "theirs")
    (top / "up").symlink_to("..")
    (top / "nowhere").symlink_to("nowhere")
    os.mkfifo(top / "pipe")
    os.link(place / "precious", top / "theirs")  # another name of their file
    before = (place / "precious").stat()
    done = removal.remove(at(ours), "sets")
    assert (done["files"], done["directories"], done["wrong"]) == (5, 2, [])
    assert (place / "precious").stat().st_ino == before.st_ino


@pytest.mark.local
@as_root
@pytest.mark.parametrize("kind", ["another", "same"])
def test_mount_points_are_left_alone(ours: str, place: Path, kind: str) -> None:
    tree(Path(ours) / "sets", 2, 3)
    where = Path(trees.ensure(at(ours), "sets/x/mounted"))
    mount = ("-t", "tmpfs", "tmpfs") if kind == "another" else ("--bind", str(place / "theirs"))
    with mounted("mount", *mount, str(where)):
        inside = names(where)
        for done in (removal.remove(at(ours), "sets"), removal.remove_all(at(ours))):
            assert done["wrong"] == ["sets/x/mounted: a mount point, it is left alone"]
        assert names(where) == inside
        assert names(Path(ours) / "sets") == ["x"]
        assert trees.usage(at(ours))["files"] == 1
        assert marker_in(ours)
    assert removal.remove(at(ours), "sets") == NOTHING | {"directories": 3}


@pytest.mark.local
@as_root
def test_what_cannot_be_removed_stays_and_the_rest_goes() -> None:
    with everybodys() as place:
        ours = f"{place}/iosweep-c"
        said = as_user(
            "import sys; from pathlib import Path; d = sys.argv[1]; p = Place(d, directory.claim(d, {owner}))\n"
            "for x in ('closed/x', 'fixed/x', 'open/x'): (Path(trees.ensure(p, 'sets/' + x)) / 'f').touch()\n"
            "os.unlink(d + '/sets/fixed/x/f')\n"
            "os.chmod(d + '/sets/closed', 0); os.chmod(d + '/sets/fixed', 0o500)\n"
            "print(json.dumps([removal.remove(p, 'sets'), trees.usage(p)]))",
            ours,
        )
        done, usage = json.loads(said)
        assert sorted(done.pop("wrong")) == ["sets/closed: Permission denied", "sets/fixed/x: Permission denied"]
        assert done | {"wrong": []} == NOTHING | {"files": 1, "directories": 2}
        assert names(Path(ours) / "sets") == ["closed", "fixed"]
        assert usage["files"] == 1  # the marker; what is closed cannot be seen


def test_it_tells_of_its_progress(ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tree(Path(ours) / "sets", 3, 20)
    beats: list[int] = []
    monkeypatch.setattr(protocol, "_listeners", [lambda: beats.append(1)])
    for touch in (
        lambda: trees.count(at(ours), "sets"), lambda: trees.usage(at(ours)), lambda: removal.remove(at(ours), "sets"),
        lambda: trees.examine(at(ours), [trees.Look("", [str(n) for n in range(files)], 1, False)]),
    ):  # fmt: skip
        beats.clear()
        touch()
        assert len(beats) >= files


# Everything


def test_the_directory_itself(ours: str, place: Path) -> None:
    files = tree(Path(ours) / "sets", 2, 2)
    (Path(ours) / "iosweep.json.tmp").touch()
    assert trees.parts(at(ours)) == ["iosweep.json.tmp", "sets"]
    assert trees.usage(at(ours), "sets")["files"] == files
    assert trees.usage(at(ours), "iosweep.json.tmp") == {"bytes": 0, "files": 1}
    assert trees.usage(at(ours))["files"] == files + 2
    done = removal.remove_all(at(ours))
    assert (done["files"], done["directories"]) == (files + 2, 8)
    assert names(place) == ["precious", "theirs"]
    assert removal.remove_all(Place(ours, "any")) == NOTHING


@pytest.mark.parametrize("uuid", ["another", ""])
def test_not_that_of_another(ours: str, uuid: str) -> None:
    (Path(ours) / "sets").mkdir()
    with pytest.raises(Refused, match="belongs to another campaign"):
        removal.remove_all(Place(ours, uuid))
    (Path(ours) / "iosweep.json").unlink()
    with pytest.raises(Refused, match="has no marker"):
        removal.remove_all(Place(ours, uuid))
    assert names(ours) == ["sets"]


def test_the_marker_goes_last(ours: str, slow: set[int]) -> None:
    files = tree(Path(ours) / "sets", 3, 10)
    uuid = marker_in(ours)["uuid"]
    gone = 0
    while (done := removal.remove_all(Place(ours, uuid), 0.03, 1))["left"]:
        gone += done["files"]
        assert marker_in(ours)["uuid"] == uuid
    assert gone > 0
    assert gone + done["files"] == files + 1
    assert not Path(ours).exists()


# Keeping


def test_put_aside(ours: str) -> None:
    assert trees.keep(at(ours), "fresh/p-r1", "p-r1") is None
    for number, expected in enumerate(["kept/p-r1", "kept/p-r1-2", "kept/p-r1-3"]):
        (Path(trees.ensure(at(ours), "fresh/p-r1")) / str(number)).touch()
        assert trees.keep(at(ours), "fresh/p-r1", "p-r1") == expected
        assert names(Path(ours) / expected) == [str(number)]
    assert names(Path(ours) / "fresh") == []


@pytest.mark.parametrize(
    ("below", "name"),
    [
        ("fresh/x", "../x"),
        ("fresh/x", ".."),
        ("fresh/x", ""),
        ("..", "x"),
        ("fresh/..", "x"),
        ("../theirs", "x"),
        ("", "x"),
    ],
)
def test_nothing_foreign_is_put_aside(ours: str, below: str, name: str) -> None:
    trees.ensure(at(ours), "fresh/x")
    with pytest.raises(Refused, match="names nothing below"):
        trees.keep(at(ours), below, name)
    assert names(Path(ours) / "fresh") == ["x"]


def test_not_through_a_link(ours: str, place: Path) -> None:
    trees.ensure(at(ours), "fresh/x")
    (Path(ours) / "kept").symlink_to(place / "theirs")
    with pytest.raises(OSError, match=NO_DIRECTORY):
        trees.keep(at(ours), "fresh/x", "x")
    assert names(Path(ours) / "fresh") == ["x"]
