"""What is in the campaign's directory on the target: nothing else is ever touched, however it is entangled."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iosweep.target import trees
from iosweep.target.trees import Stamps
from targets import as_root, at, made, marker_in, mounted, names, refusal

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")

SIZE = 8192
#: What a removal says that found nothing.
NOTHING: dict[str, Any] = {"files": 0, "directories": 0, "bytes": 0, "wrong": []}
NO_DIRECTORY = "not followed"
#: Names that a shell, a line, an option or a text would stumble over.
NAMES = ["a", "a/b/c", "a b", "a\nb", "$HOME;*", "-rf", "..a", "a\udcff", "x" * 255]


def test_directories_of_any_name_are_made_counted_and_removed(ours: str) -> None:
    for below in NAMES:
        top = made(at(ours), f"sets/{below}")
        assert top == Path(ours) / "sets" / below
        (top / "f").write_text("x")
        made(at(ours), f"sets/{below}")
        assert trees.count_files(at(ours), f"sets/{below}") == 1, below
        (top / "deep").mkdir()
        found = trees.remove(at(ours), f"sets/{below}")
        assert found == NOTHING | {"files": 1, "directories": 2, "bytes": 4096}, below
        assert not top.exists()
        for gone in (f"sets/{below}", f"sets/{below}/x/y"):
            assert trees.remove(at(ours), gone) == NOTHING
    assert marker_in(ours)


def test_no_name_leads_out_of_the_directory(ours: str) -> None:
    made(at(ours), "fresh/x")
    steps: dict[str, Callable[[str], object]] = {
        "remove": lambda below: trees.remove(at(ours), below),
        "ensure": lambda below: made(at(ours), below),
        "count": lambda below: trees.count_files(at(ours), below),
    }
    for name, step in steps.items():
        for below in ("..", "../theirs", "fresh/../..", "fresh/..", ".", "fresh/.", "../iosweep-c", "", "fresh/"):
            if below in ("", "fresh/") and name in ("ensure", "count"):  # the directory itself, and `fresh`
                continue
            assert "names nothing below" in refusal(partial(step, below)), (name, below)
    assert names(ours) == ["fresh", "iosweep.json"]
    assert names(Path(ours) / "fresh") == ["x"]


def test_files_are_counted_below_and_not_through_links(ours: str, place: Path) -> None:
    top = made(at(ours), "fresh/p-r1")
    for name in ("a", "b/c", "b/d", "b/e f/g\nh", "b/e f/\udcff"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("x")
    # nothing but regular files, and nothing through a link: neither theirs nor ours a second time
    (top / "b" / "empty").mkdir()
    (top / "b" / "theirs").symlink_to(place / "theirs")
    (top / "b" / "above").symlink_to(top)
    (top / "b" / "file").symlink_to(top / "a")
    os.mkfifo(top / "b" / "pipe")
    found = [trees.count_files(at(ours), below) for below in ("fresh/p-r1", "fresh", "fresh/p-r1/b/e f")]
    assert found == [5, 5, 2]
    assert not [handle for handle in Path("/proc/self/fd").iterdir() if os.path.realpath(handle).startswith(ours)]
    with pytest.raises(FileNotFoundError):
        trees.count_files(at(ours), "fresh/p-r2")


def test_a_link_inside_is_not_followed_and_in_a_removal_only_the_link_goes(ours: str, place: Path) -> None:
    (Path(ours) / "way").symlink_to(place / "theirs")
    made(at(ours), "sets/x")
    for below in ("way", "way/deep"):
        for touch in (
            lambda b: trees.count_files(at(ours), b),
            lambda b: made(at(ours), b),
            lambda b: trees.examine_files(at(ours), [trees.Look(b, ["precious"], 1)]),
        ):
            with pytest.raises(OSError, match=NO_DIRECTORY):
                touch(below)
        assert NO_DIRECTORY in trees.remove(at(ours), below)["wrong"][0]
    # entries of a tree that lead away, or are no files
    top = Path(ours) / "sets" / "x"
    (top / "away").symlink_to(place / "theirs")
    (top / "file").symlink_to(place / "precious")
    (top / "up").symlink_to("..")
    os.mkfifo(top / "pipe")
    os.link(place / "precious", top / "theirs")  # another name of their file
    before = (place / "precious").stat()
    done = trees.remove(at(ours), "sets")
    assert (done["files"], done["directories"], done["wrong"]) == (5, 2, [])
    assert (place / "precious").stat().st_ino == before.st_ino


# Files to work on


@pytest.fixture
def data(ours: str) -> Path:
    directory = made(at(ours), "set")
    for name in ("0.0", "1.0"):
        (directory / name).write_bytes(b"x" * SIZE)
    return directory


def examine(ours: str, holes: bool = False) -> dict[str, Any]:
    return trees.examine_files(at(ours), [trees.Look("set", ["0.0", "1.0"], SIZE, holes)])[0]


def test_complete_files_are_looked_at_and_left_as_they_are(ours: str, data: Path) -> None:
    found = examine(ours)
    assert (found["wrong"], found["holes"]) == ([], "not looked at")
    assert found["stamps"]["last_ns"] == max(f.stat().st_mtime_ns for f in data.iterdir())
    assert examine(ours) == found
    assert names(data) == ["0.0", "1.0"]


@pytest.mark.parametrize(
    ("harm", "wrong"),
    [
        (lambda f: f.unlink(), "missing"),
        (lambda f: f.write_bytes(b"x" * (SIZE - 1)), f"{SIZE - 1} of {SIZE}"),
        (lambda f: f.write_bytes(b"x" * 2 * SIZE), f"{2 * SIZE} of {SIZE}"),
        (lambda f: (f.unlink(), f.symlink_to(f.parent / "1.0")), "not a regular file"),
        (lambda f: (f.unlink(), os.mkfifo(f)), "not a regular file"),
        (lambda f: os.link(f, f.parent.parent / "other"), "hard link"),  # by which others could change it
        (lambda f: [g.unlink() for g in f.parent.iterdir()] and f.parent.rmdir(), "the directory is not there"),
    ],
)
def test_files_that_are_not_complete_are_named(ours: str, data: Path, harm: Any, wrong: str) -> None:
    harm(data / "0.0")
    [found] = examine(ours)["wrong"]
    assert wrong in found
    assert found.startswith(("0.0 ", "the directory"))


def test_unwritten_extents_are_found_where_the_file_system_shows_them(
    ours: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (data / "1.0").open("wb") as file:
        file.truncate(SIZE)
    seek, hidden = os.lseek, False

    def shows(handle: int, at: int, how: int) -> int:
        """The end of the file is the first hole where they are hidden, as in ramfs and many network file systems."""
        size = os.fstat(handle).st_size
        sparse = size > SIZE or os.fstat(handle).st_blocks == 0
        return seek(handle, at, how) if how != os.SEEK_HOLE else 0 if sparse and not hidden else size

    monkeypatch.setattr(trees.os, "lseek", shows)
    found = examine(ours, holes=True)
    assert (found["wrong"], found["holes"]) == (["1.0 has unwritten extents"], "found")
    hidden = True
    found = examine(ours, holes=True)
    assert found["wrong"] == []
    assert found["holes"].startswith("hidden")
    assert names(data) == ["0.0", "1.0"]  # nothing is left of the probe


S = 10**9


def stamps(mtime_s: float = 900) -> Stamps:
    """A look at files, the last of which was written then."""
    return {"written": round(mtime_s * S), "last_ns": round(mtime_s * S), "last": "1.0"}


@pytest.mark.parametrize(
    ("before", "after", "local", "outcome"),
    [
        (900, 900, True, False),
        (900, 1001, True, True),
        # a network file system: times may be seen late, and its clock may differ
        (900, 900, False, False),
        (999, 1002, False, False),
        (999, 1002.1, False, True),
        (880, 1001, False, False),
        (879.9, 1001, False, True),  # long settled
    ],
)
def test_two_looks_tell_whether_files_changed(before: float, after: float, local: bool, outcome: bool) -> None:
    """The first look was at 1,000 s."""
    assert bool(trees.changed(stamps(before), stamps(after), 1000 * S, local)) == outcome


# Removing


def tree(top: Path, directories: int, files: int) -> int:
    """Directories of files, and as many in each; returns how many files there are."""
    for a in range(directories):
        for b in range(directories):
            (top / f"{a}" / f"{b}").mkdir(parents=True)
            for f in range(files):
                (top / f"{a}" / f"{b}" / f"{f}").touch()
    return directories * directories * files


def test_a_whole_tree_is_removed_also_one_of_more_names_than_are_held(
    ours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "_BATCH", 7)
    files = tree(Path(ours) / "sets", 5, 20)
    (Path(ours) / "sets" / "0" / "f").write_bytes(bytes(SIZE))
    os.link(Path(ours) / "sets" / "0" / "f", Path(ours) / "another")  # its bytes stay
    done = trees.remove(at(ours), "sets")
    assert done == NOTHING | {"files": files + 1, "directories": 5 * 5 + 5 + 1}
    assert names(ours) == ["another", "iosweep.json"]


def test_the_marker_goes_last(ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a removal leaves that was killed is still ours."""
    files, unlink = tree(Path(ours) / "sets", 2, 10), os.unlink
    place = at(ours)

    def killed(name: str, *, dir_fd: int | None = None) -> None:
        if name in ("7", "iosweep.json"):
            raise KeyboardInterrupt
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(trees.os, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        trees.remove_all(place)
    assert marker_in(ours)["uuid"] == place.uuid
    monkeypatch.undo()
    assert 0 < trees.remove_all(place)["files"] <= files
    assert not Path(ours).exists()


@pytest.mark.local
@as_root
@pytest.mark.parametrize("kind", ["another", "same"])
def test_a_removal_leaves_mount_points_alone(ours: str, place: Path, kind: str) -> None:
    tree(Path(ours) / "sets", 2, 3)
    where = made(at(ours), "sets/x/mounted")
    mount = ("-t", "tmpfs", "tmpfs") if kind == "another" else ("--bind", str(place / "theirs"))
    with mounted("mount", *mount, str(where)):
        inside = names(where)
        for done in (trees.remove(at(ours), "sets"), trees.remove_all(at(ours))):
            assert [wrong.partition(":")[0] for wrong in done["wrong"]] == ["sets/x/mounted"]
        assert names(where) == inside
        assert names(Path(ours) / "sets") == ["x"]
        assert trees.measure_usage(at(ours))["files"] == 1
        assert marker_in(ours)
    assert trees.remove(at(ours), "sets") == NOTHING | {"directories": 3}


def test_a_removal_leaves_what_others_made_alone(ours: str) -> None:
    """In the campaign's directory itself, by names that we do not give, and files beside the directories of a part."""
    (made(at(ours), "sets/x") / "file").touch()
    (Path(ours) / "sets" / "README").touch()
    (Path(ours) / "notes.txt").touch()
    (Path(ours) / "theirs").mkdir()
    done = trees.remove_all(at(ours))
    assert (len(done["wrong"]), done["files"]) == (3, 1)
    assert names(ours) == ["iosweep.json", "notes.txt", "sets", "theirs"]
    assert names(Path(ours) / "sets") == ["README"]
