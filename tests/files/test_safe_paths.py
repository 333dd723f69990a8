"""Files below a directory that others may have prepared."""

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import mounts
from iosweep.files import safe_paths


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A directory of somebody else, with a file."""
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "precious").write_bytes(b"theirs")
    return tmp_path / "foreign"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_written_whole_with_the_folders_above_it_and_not_for_others_to_write(root: Path) -> None:
    mask = os.umask(0o027)
    try:
        safe_paths.write(root, "a/b/c.json", b"1")
        safe_paths.write(root, "a/b/c.json", b"23")
    finally:
        os.umask(mask)
    assert safe_paths.read(root, "a/b/c.json") == b"23"
    assert names(root / "a" / "b") == ["c.json"]
    assert stat.S_IMODE((root / "a/b/c.json").stat().st_mode) == 0o640
    mask = os.umask(0)
    try:
        safe_paths.write(root, "a/d/e", b"")
    finally:
        os.umask(mask)
    assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("a/d", "a/d/e")] == [0o775, 0o664]
    with safe_paths.folder(root) as place, contextlib.suppress(RuntimeError), place.replaced("x") as file:
        file.write(b"new")
        raise RuntimeError  # a write that fails leaves nothing
    assert names(root) == ["a"]


def test_a_file_is_on_disk_before_it_has_its_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real, replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        done.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        real(handle)

    def renamed(source: str, aim: str, **where: int) -> None:
        done.append(f"rename to {aim}")
        replace(source, aim, **where)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", renamed)
    safe_paths.write(root, "x", b"1")
    assert done == [f"sync .x.{os.getpid()}.tmp", "rename to x", "sync results"]


def test_a_link_in_place_of_a_file_or_a_tree_is_replaced_or_removed_itself(root: Path, foreign: Path) -> None:
    (root / "x").symlink_to(foreign / "precious")
    (root / f".x.{os.getpid()}.tmp").symlink_to(foreign / "precious")
    safe_paths.write(root, "x", b"ours")
    assert not (root / "x").is_symlink()
    (root / "scratch").symlink_to(foreign)
    with safe_paths.folder(root) as there:
        there.remove_tree("scratch")
    assert {name: (root / name).read_bytes() for name in names(root)} == {"x": b"ours"}
    assert (foreign / "precious").read_bytes() == b"theirs"


def test_a_link_in_place_of_a_folder_is_not_followed(root: Path, foreign: Path, tmp_path: Path) -> None:
    (root / "a").symlink_to(foreign)
    for act in (
        lambda: safe_paths.write(root, "a/precious", b"ours"),
        lambda: safe_paths.read(root, "a/precious"),
        lambda: safe_paths.remove(root, "a/precious"),
        lambda: safe_paths.open_log(root / "a/precious", root),
    ):
        with pytest.raises(OSError, match="not followed") as error:
            act()
        assert error.value.filename == str(root / "a")
    assert (foreign / "precious").read_bytes() == b"theirs"
    (tmp_path / "link").symlink_to(root)  # the directory itself may be reached through one
    safe_paths.write(tmp_path / "link", "b/x", b"1")
    assert (root / "b/x").read_bytes() == b"1"


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_what_is_not_a_file_is_named_and_never_waited_for(root: Path, foreign: Path, kind: str) -> None:
    there = root / "x"
    make: dict[str, Callable[[], object]] = {
        "link": lambda: there.symlink_to(foreign / "precious"),
        "pipe": lambda: os.mkfifo(there),
        "directory": there.mkdir,
    }
    make[kind]()
    with pytest.raises(OSError, match=kind) as error:
        safe_paths.read(root, "x")
    assert error.value.filename == str(there)
    if kind in ("pipe", "link"):
        with pytest.raises(OSError, match=kind):
            safe_paths.open_log(root / "x", root)


def test_no_more_is_read_than_allowed(root: Path) -> None:
    safe_paths.write(root, "x", b"12345")
    assert safe_paths.read(root, "x", most=5) == b"12345"
    with pytest.raises(OSError, match="at most 4"):
        safe_paths.read(root, "x", most=4)
    with pytest.raises(FileNotFoundError):
        safe_paths.read(root, "y")
    with pytest.raises(NotADirectoryError):
        safe_paths.write(root, "x/y", b"")


def test_nothing_above_is_named(root: Path) -> None:
    for name in ("../x", "a/../../x", "/etc/x"):
        with pytest.raises(ValueError, match="not below"):
            safe_paths.write(root, name, b"")
    assert names(root) == []


@pytest.mark.local
@pytest.mark.skipif(bool(mounts.missing()), reason=mounts.missing() or "")
def test_what_is_mounted_in_a_tree_is_left_alone(root: Path, foreign: Path) -> None:
    (there := root / "scratch/inner").mkdir(parents=True)
    mounts.run("mount", "--bind", str(foreign), str(there))
    try:
        with pytest.raises(OSError, match="a mount point"), safe_paths.folder(root) as folder:
            folder.remove_tree("scratch")
    finally:
        mounts.unmount(there)
    assert (foreign / "precious").read_bytes() == b"theirs"


def test_a_tree_is_removed_and_links_are_not_followed(root: Path, foreign: Path) -> None:
    place = root / "scratch"
    place.mkdir()
    (place / "link").symlink_to(foreign)
    (place / "closed" / "inner").mkdir(parents=True)
    (place / "closed" / "inner" / "file").touch()
    (place / "closed" / "inner").chmod(0)
    (place / "closed").chmod(0)
    with safe_paths.folder(root) as there:
        there.remove_tree("scratch")
        there.remove_tree("scratch")
    assert names(root) == []
    assert (foreign / "precious").read_bytes() == b"theirs"
