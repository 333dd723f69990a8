"""A marker that is copied, or moved, does not make another directory ours."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mounts as file_systems
from iosweep.errors import Refused
from iosweep.target import directory as directories
from iosweep.target import removal
from iosweep.target.directory import Place
from targets import OWNER, as_root, make_place, marker_in, mounted

#: Every step that deletes, and the claim.
CALLS: list[Callable[[Path, dict[str, Any]], Any]] = [
    lambda directory, owner: removal.remove_all(Place(str(directory), owner["uuid"])),
    lambda directory, owner: directories.remove_probes(Place(str(directory), owner["uuid"])),
    lambda directory, owner: removal.remove(Place(str(directory), owner["uuid"]), "sets"),
    lambda directory, owner: directories.claim(str(directory), owner),
]
PLACE = {"path": "/t/iosweep-c", "inode": 7, "fsid": "01"}
MARKER = OWNER | {"uuid": "u", "place": PLACE}


@pytest.mark.parametrize(
    ("changed", "seen", "said"),
    [
        ({}, {}, None),
        ({}, {"path": "/other/iosweep-c"}, None),  # mounted elsewhere
        ({}, {"inode": 8}, None),  # FUSE
        ({}, {"fsid": "02"}, None),  # NFS, mounted again
        ({}, {"path": "/x/iosweep-c", "inode": 8}, "was written for /t/iosweep-c, so this is a copy of that"),
        ({}, {"path": "/x/iosweep-c", "fsid": "02"}, "was written for /t/iosweep-c"),  # a snapshot, another disk
        ({"campaign": "d"}, {}, "is of the campaign `d`, whose directory is called iosweep-d"),
        ({"campaign": "\x1b[2J"}, {}, r"is of the campaign `\x1b[2J`"),
        ({"campaign": None}, {}, "is of the campaign `None`"),
        ({"campaign": ["c"]}, {}, "is of the campaign"),
        ({"place": None}, {}, "does not say for which directory it was written"),
        ({"place": {"path": "/t/iosweep-c"}}, {}, "does not say for which directory"),
        ({"place": []}, {}, "does not say for which directory"),
    ],
)
def test_what_a_marker_proves(changed: dict[str, Any], seen: dict[str, Any], said: str | None) -> None:
    found = directories.wrong(MARKER | changed, "iosweep-c", PLACE | seen)
    assert found is None if said is None else found and said in found


def test_an_inode_that_changed_is_a_copy_where_inodes_are_kept() -> None:
    def wrong(**seen: object) -> str | None:
        return directories.wrong(MARKER, "iosweep-c", PLACE | seen, keeps_inodes=True)

    assert wrong() is wrong(fsid="02") is wrong(path="/other/iosweep-c") is None
    assert "another directory of this path, so this is a copy of that, or was restored" in (wrong(inode=8) or "")
    assert "was written for /t/iosweep-c, so this is a copy" in (wrong(inode=8, path="/x/iosweep-c") or "")


def test_an_fsid_that_changed_is_a_snapshot_where_subvolumes_have_their_own() -> None:
    def wrong(**seen: object) -> str | None:
        return directories.wrong(MARKER, "iosweep-c", PLACE | seen, keeps_inodes=True, subvolumes=True)

    assert wrong() is wrong(path="/other/iosweep-c") is None
    assert "another directory of this path, so this is a copy of that, or was restored" in (wrong(fsid="02") or "")
    assert "was written for /t/iosweep-c, so this is a copy" in (wrong(fsid="02", path="/x/iosweep-c") or "")


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    directory = Path(directories.directory_of(str(make_place(tmp_path / "t")), "c"))
    directories.claim(str(directory), OWNER)
    (directory / "sets").mkdir()
    return directory


def uuid(directory: Path) -> str:
    return str(marker_in(str(directory))["uuid"])


def refused(directory: Path, said: str) -> None:
    """No step that deletes goes on, and nothing is claimed."""
    owner = OWNER | {"uuid": uuid(directory)}
    for call in CALLS:
        with pytest.raises(Refused, match=said):
            call(directory, owner)
    assert (directory / "sets").is_dir()


def test_a_copy_is_not_ours(ours: Path, tmp_path: Path) -> None:
    shutil.copytree(ours, tmp_path / "elsewhere" / "iosweep-c")
    refused(tmp_path / "elsewhere" / "iosweep-c", rf"its marker was written for {ours}, so this is a copy of that, or")
    shutil.copytree(ours, ours.with_name("home"))
    refused(
        ours.with_name("home"), r"its marker is of the campaign `c`, whose directory is called iosweep-c; it is left"
    )


def test_a_marker_in_a_directory_of_another_user(ours: Path) -> None:
    victim = ours.with_name("theirs")
    (victim / "sets").mkdir()
    shutil.copy(ours / "iosweep.json", victim)
    refused(victim, "whose directory is called iosweep-c")
    content = marker_in(str(victim)) | {"campaign": "d"}
    (victim / "iosweep.json").write_text(json.dumps(content))
    refused(victim, "whose directory is called iosweep-d")


@pytest.mark.local
@as_root
def test_another_mount_point_is_the_same_place(ours: Path, tmp_path: Path) -> None:
    with mounted("mount", "--bind", str(ours.parent), str(tmp_path / "bound")):
        seen = tmp_path / "bound" / "iosweep-c"
        assert directories.claim(str(seen), OWNER | {"uuid": uuid(ours)}) == uuid(ours)


def test_a_name_that_no_text_can_hold(tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"\xff t")
    place.mkdir()
    directory = str(place / "iosweep-c")
    first = directories.claim(directory, OWNER)
    assert directories.claim(directory, OWNER | {"uuid": first}) == first


def test_a_copy_in_its_place_is_not_ours(ours: Path) -> None:
    """Also with the path that the marker has, and for an agent that has worked in the original."""
    owner = OWNER | {"uuid": uuid(ours)}
    directories.remove_probes(Place(str(ours), owner["uuid"]))
    shutil.copytree(ours, ours.with_name("copy"))
    ours.rename(ours.with_name("away"))
    ours.with_name("copy").rename(ours)
    refused(ours, "written for another directory of this path, so this is a copy of that, or was restored")


@pytest.mark.local
@as_root
def test_a_copy_that_is_mounted_over_the_target_is_not_ours(ours: Path, tmp_path: Path) -> None:
    """On the same disk: neither type nor source differ."""
    shutil.copytree(ours.parent, tmp_path / "backup")
    with mounted("mount", "--bind", str(tmp_path / "backup"), str(ours.parent)):
        refused(ours, "written for another directory of this path, so this is a copy of that, or was restored")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A btrfs."""
    if why := file_systems.missing():
        pytest.skip(why)
    (tmp_path / "b").mkdir()
    with file_systems.btrfs(tmp_path / "b"):
        yield tmp_path / "b"


@pytest.mark.local
def test_a_snapshot_in_its_place_is_not_ours(volume: Path) -> None:
    """It has the path and the inode that the marker names."""
    file_systems.run("btrfs", "subvolume", "create", str(volume / "sv"))
    directory = volume / "sv" / "iosweep-c"
    directories.claim(str(directory), OWNER)
    (directory / "sets").mkdir()
    file_systems.run("btrfs", "subvolume", "snapshot", str(volume / "sv"), str(volume / "backup"))
    (volume / "sv").rename(volume / "original")
    (volume / "backup").rename(volume / "sv")
    refused(directory, "written for another directory of this path, so this is a copy of that, or was restored")
    (volume / "sv").rename(volume / "backup")
    (volume / "original").rename(volume / "sv")
    assert directories.claim(str(directory), OWNER | {"uuid": uuid(directory)}) == uuid(directory)


@pytest.mark.local
def test_a_subvolume_that_is_mounted_again_is_the_same_place(volume: Path, tmp_path: Path) -> None:
    """At its place or at another one, and by another device."""
    file_systems.run("btrfs", "subvolume", "create", str(volume / "sv"))
    directory = volume / "sv" / "iosweep-c"
    owner = OWNER | {"uuid": directories.claim(str(directory), OWNER)}
    file_systems.unmount(volume)
    (tmp_path / "other").write_bytes(bytes(1 << 20))
    taken = subprocess.run(["losetup", "-f", "--show", tmp_path / "other"], capture_output=True, text=True, check=True)
    try:
        file_systems.mount_image(volume)
        assert directories.claim(str(directory), owner) == owner["uuid"]
        file_systems.unmount(volume)
        with mounted("mount", "-o", "loop,subvol=sv", f"{volume}.img", str(tmp_path / "elsewhere")):
            assert directories.claim(f"{tmp_path}/elsewhere/iosweep-c", owner) == owner["uuid"]
    finally:
        file_systems.run("losetup", "-d", taken.stdout.strip())
