"""Temporary files of killed writers are removed, young ones and other files stay."""

import os
from pathlib import Path

import pytest

import mounts
from iosweep.results import temporary_files

#: No process has this number.
NONE = 4_194_305
HASH = "0123456789ab"
OURS = [
    f".results.csv.{NONE}.tmp",
    f".report.html.{NONE}.tmp",
    f".target.json.{NONE}.tmp",
    f"plans/.{HASH}.json.{NONE}.tmp",
    f"manifests/.2-nodes.jsonl.{NONE}.tmp",
    f"refusals/.1-node.json.{NONE}.tmp",
    f"figures/.a.svg.{NONE}.tmp",
    f"sets/.a.json.{NONE}.tmp",
]
FOREIGN = [".draft.tmp", f"notes/.results.csv.{NONE}.tmp", f"points/.results.csv.{NONE}.tmp"]


def old(results: Path, name: str) -> Path:
    """A file that was not changed for long."""
    file = results / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(name)
    os.utime(file, (0, 0))
    return file


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made = tmp_path / "c"
    made.mkdir()
    return made


def there(results: Path) -> set[str]:
    return {str(file.relative_to(results)) for file in results.rglob("*.tmp")}


def test_only_our_temporary_files_are_removed(results: Path) -> None:
    for name in OURS + FOREIGN:
        old(results, name)
    young = results / f".results.parquet.{NONE}.tmp"
    young.touch()
    temporary_files.remove(results)
    assert there(results) == {*FOREIGN, young.name}


def test_links_and_other_file_types_stay(results: Path) -> None:
    file = old(results, f".results.csv.{NONE}.tmp")
    os.link(file, results / "second name")
    (results / f".report.html.{NONE}.tmp").symlink_to(file)
    (results / f".nodes.parquet.{NONE}.tmp").mkdir()
    before = there(results)
    temporary_files.remove(results)
    assert there(results) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="root: only root gives files away")
def test_files_of_other_users_stay(results: Path) -> None:
    file = old(results, f".results.csv.{NONE}.tmp")
    os.chown(file, 12345, 12345)
    temporary_files.remove(results)
    assert file.exists()


def test_a_link_in_place_of_a_folder_is_not_followed(results: Path, tmp_path: Path) -> None:
    file = old(tmp_path / "foreign", f".{HASH}.json.{NONE}.tmp")
    (results / "plans").symlink_to(file.parent)
    temporary_files.remove(results)
    assert file.exists()


@pytest.mark.local
@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
def test_no_mount_point_is_crossed(results: Path, tmp_path: Path) -> None:
    file = old(tmp_path / "foreign", f".{HASH}.json.{NONE}.tmp")
    (results / "plans").mkdir()
    mounts.run("mount", "--bind", str(file.parent), str(results / "plans"))
    try:
        temporary_files.remove(results)
    finally:
        mounts.unmount(results / "plans")
    assert file.exists()


def test_missing_results(tmp_path: Path) -> None:
    temporary_files.remove(tmp_path / "c")
