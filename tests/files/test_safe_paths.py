"""Files below a directory that others may have prepared."""

import contextlib
import os
import stat
import subprocess
from pathlib import Path

import pytest

import mounts
from iosweep.files import safe_paths

ROOT_ONLY = pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A directory of somebody else, with a file."""
    made = tmp_path / "foreign"
    made.mkdir()
    (made / "precious").write_bytes(b"theirs")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "results"
    made.mkdir()
    return made


def test_a_file_is_written_whole_with_the_folders_above_it(root: Path) -> None:
    safe_paths.write(root, "a/b/c.json", b"1")
    safe_paths.write(root, "a/b/c.json", b"23")
    assert safe_paths.read(root, "a/b/c.json") == b"23"
    assert _names(root / "a" / "b") == ["c.json"]
    assert stat.S_IMODE((root / "a/b/c.json").stat().st_mode) == 0o666 & ~_umask()


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_an_error_of_the_system(root: Path, name: str) -> None:
    """It may come from a document; ValueError would end a command in a traceback."""
    with safe_paths.folder(root) as place:
        for use in (
            *(place.status, place.size, place.obstacle, place.open, place.read, place.remove, place.remove_tree),
            *(lambda name: place.write(name, b""), lambda name: place.rename("x", name), place.append),
            lambda name: place.folder(name, make=True).__enter__(),
        ):
            with pytest.raises(OSError, match="no file can have this name") as caught:
                use(name)
            assert name in str(caught.value.filename)
    assert _names(root) == []


def test_what_is_written_is_on_disk_before_it_has_its_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_fails_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    safe_paths.write(root, "x", b"old")
    with safe_paths.folder(root) as place, contextlib.suppress(RuntimeError), place.replaced("x") as file:
        file.write(b"new")
        raise RuntimeError
    assert _names(root) == ["x"]
    assert (root / "x").read_bytes() == b"old"


def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(root: Path, foreign: Path) -> None:
    (root / "x").symlink_to(foreign / "precious")
    (root / f".x.{os.getpid()}.tmp").symlink_to(foreign / "precious")
    safe_paths.write(root, "x", b"ours")
    assert (root / "x").read_bytes() == b"ours"
    assert not (root / "x").is_symlink()
    assert (foreign / "precious").read_bytes() == b"theirs"


def test_a_link_in_place_of_a_folder_is_not_followed(root: Path, foreign: Path) -> None:
    (root / "a").symlink_to(foreign)
    for act in (
        lambda: safe_paths.write(root, "a/precious", b"ours"),
        lambda: safe_paths.read(root, "a/precious"),
        lambda: safe_paths.remove(root, "a/precious"),
        lambda: safe_paths.append(root, "a/precious"),
    ):
        with pytest.raises(OSError, match="a symbolic link, which is not followed") as error:
            act()
        assert error.value.filename == str(root / "a")
    assert (foreign / "precious").read_bytes() == b"theirs"


def test_the_directory_itself_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    safe_paths.write(tmp_path / "link", "a/x", b"1")
    assert (root / "a/x").read_bytes() == b"1"


@pytest.mark.parametrize("kind", ["link", "pipe", "socket", "device", "directory"])
def test_what_is_not_a_file_is_named_and_never_waited_for(root: Path, foreign: Path, kind: str) -> None:
    import socket

    there = root / "x"
    if kind == "link":
        there.symlink_to(foreign / "precious")
    elif kind == "pipe":
        os.mkfifo(there)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(there))
    elif kind == "device":
        if os.geteuid():
            pytest.skip("root: only root makes devices")
        os.mknod(there, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    else:
        there.mkdir()
    with pytest.raises(OSError, match=kind) as error:
        safe_paths.read(root, "x")
    assert error.value.filename == str(there)
    if kind in ("pipe", "link"):
        with pytest.raises(OSError, match=kind):
            safe_paths.append(root, "x")


def test_a_file_in_place_of_a_folder_is_named(root: Path) -> None:
    (root / "a").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="a file, not a directory"):
        safe_paths.write(root, "a/x", b"")


def test_no_more_is_read_than_allowed(root: Path) -> None:
    safe_paths.write(root, "x", b"12345")
    assert safe_paths.read(root, "x", most=5) == b"12345"
    with pytest.raises(OSError, match="5 bytes, and at most 4 are read"):
        safe_paths.read(root, "x", most=4)
    with pytest.raises(FileNotFoundError):
        safe_paths.read(root, "y")


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x"])
def test_nothing_above_is_named(root: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not below"):
        safe_paths.write(root, name, b"")


@pytest.mark.local
def test_a_tree_of_any_depth_is_removed_and_links_are_not_followed(root: Path, foreign: Path) -> None:
    place = root / "scratch"
    place.mkdir()
    (place / "link").symlink_to(foreign)
    (place / "closed" / "inner").mkdir(parents=True)
    (place / "closed" / "inner" / "file").write_bytes(b"")
    (place / "closed" / "inner").chmod(0)
    (place / "closed").chmod(0)
    subprocess.run(["sh", "-c", "for i in $(seq 1500); do mkdir d; cd -P d; touch f; done"], cwd=place, check=True)
    with safe_paths.folder(root) as there:
        there.remove_tree("scratch")
        there.remove_tree("scratch")
    assert _names(root) == []
    assert (foreign / "precious").read_bytes() == b"theirs"


def test_a_link_in_place_of_a_tree_is_removed_itself(root: Path, foreign: Path) -> None:
    (root / "scratch").symlink_to(foreign)
    with safe_paths.folder(root) as there:
        there.remove_tree("scratch")
    assert _names(root) == []
    assert (foreign / "precious").read_bytes() == b"theirs"


@pytest.mark.local
@ROOT_ONLY
@pytest.mark.parametrize("where", ["scratch", "scratch/inner", "scratch/inner/deep"])
def test_what_is_mounted_in_a_tree_is_left_alone(root: Path, foreign: Path, where: str) -> None:
    (root / where).mkdir(parents=True)
    mounts.run("mount", "--bind", str(foreign), str(root / where))
    try:
        with pytest.raises(OSError, match="a mount point, which is left alone"), safe_paths.folder(root) as there:
            there.remove_tree("scratch")
    finally:
        mounts.unmount(root / where)
    assert (foreign / "precious").read_bytes() == b"theirs"


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
