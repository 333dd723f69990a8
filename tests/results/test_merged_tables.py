"""Reading tables back: damaged ones are rejected."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import mounts
import results_factory
from iosweep.commands import cli
from iosweep.files.documents import Damaged, dump, read
from iosweep.results import merged_tables

#: What cannot be made where this is a link; files are replaced.
LINKED = ("figures", "figures")
POINTS = [results_factory.sweep("a", ["rand_read"], {"threads_per_node": [1, 2]})]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made = results_factory.make(tmp_path / "received", sweeps=POINTS)
    (made / "plans").mkdir()
    return made


def forge(results: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table so that campaign.json agrees."""
    file = results / "results.parquet"
    parquet.write_table(change(parquet.read_table(file)), file)
    results_factory.describe_again(results)


def test_our_tables_are_read(results: Path) -> None:
    assert {row["verdict"] for row in merged_tables.rows(results, "results.parquet", dict, ["verdict"])} == {"valid"}
    assert merged_tables.damage(results) == []


def test_size_mismatch_names_both_sizes(results: Path) -> None:
    file = results / "results.parquet"
    size = file.stat().st_size
    assert size > 1000
    file.write_bytes(file.read_bytes() + b"x" * 1000)
    assert f"it has {size + 1000:,} bytes and had {size:,}" in merged_tables.damage(results)[0]


@pytest.mark.parametrize("kind", ["pipe", "link", "device", "directory", "emptied", "gone on", "other"])
@pytest.mark.parametrize("name", ["results.parquet", "campaign.json", "nodes.parquet"])
def test_other_object_in_place_of_a_table(
    results: Path, name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = results / name
    data = file.read_bytes()
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/etc/passwd")
    elif kind == "device":
        if os.geteuid():
            pytest.skip("root: only root makes devices")
        os.mknod(file, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    elif kind == "directory":
        file.mkdir()
    else:
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        file.write_bytes({"emptied": b"", "gone on": data + b"x", "other": changed}[kind])
    assert cli.main(["show", str(results), "--all"]) == 1
    said = capsys.readouterr().err
    assert f"{file} is damaged (" in said
    assert said.count("\n") == 1
    assert str(file) in merged_tables.damage(results)[0]


@pytest.mark.parametrize(
    "change",
    [lambda t: t.drop_columns(["verdict"]), lambda t: t.set_column(0, "campaign", pa.array([1] * len(t)))],
)
def test_table_with_other_columns_is_rejected(results: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    forge(results, change)
    with pytest.raises(Damaged, match=r"results\.parquet is damaged \(it has no column (verdict|campaign) of the type"):
        merged_tables.rows(results, "results.parquet", dict)


def test_garbage_with_a_matching_hash_is_rejected(results: Path) -> None:
    (results / "results.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    results_factory.describe_again(results)
    with pytest.raises(Damaged, match="it cannot be read"):
        merged_tables.rows(results, "results.parquet", dict)


@pytest.mark.parametrize("key", ["sweeps", "tables", "target", "builds"])
def test_campaign_json_with_a_wrong_key_is_rejected(results: Path, key: str) -> None:
    about = read(results / "campaign.json")
    (results / "campaign.json").write_bytes(dump(about | {key: 5}))
    with pytest.raises(Damaged, match=rf"campaign.json is damaged \({key}: expected"):
        merged_tables.about(results)


@pytest.mark.parametrize("name", merged_tables.FILES)
def test_a_table_that_is_gone_is_made_again(results: Path, name: str) -> None:
    (results / name).unlink()
    assert merged_tables.damage(results) == [f"{results / name} is gone"]


@pytest.mark.local
@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
def test_a_mount_over_a_figure_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = results_factory.make(tmp_path)
    assert cli.main(["report", "--figures", str(results)]) == 0
    figure = next((results / "figures").glob("*.png"))
    (tmp_path / "other").touch()
    mounts.run("mount", "--bind", str(tmp_path / "other"), str(figure))
    try:
        assert cli.main(["report", "--figures", str(results)]) == 1
    finally:
        mounts.unmount(figure)
    said = f"cannot be made: {figure} is a mount point, which is left alone; what was measured is stored: unmount it"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["figures", "figures.done", "report.html", "logs"])
def test_a_link_in_place_of_what_a_rule_writes_is_not_followed(results: Path, name: str, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for precious in ("a.svg", "figures.log"):
        (foreign / precious).write_text("theirs")
    aim = foreign if name in ("figures", "logs") else foreign / "a.svg"
    (results / name).symlink_to(aim)
    for command in ("figures", "page"):
        log = str(results / "logs" / f"{command}.log")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            fails = name == "logs" or (name, command) == LINKED
            assert cli.main(["report", f"--{command}", str(results), "--log", log]) == fails
    assert {file.name: file.read_text() for file in foreign.iterdir()} == {
        "a.svg": "theirs",
        "figures.log": "theirs",
    }


@pytest.mark.local
@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
def test_mounted_figures_are_not_touched(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "a.svg").write_text("theirs")
    (results / "figures").mkdir()
    mounts.run("mount", "--bind", str(foreign), str(results / "figures"))
    try:
        assert cli.main(["report", "--figures", str(results)]) == 1
    finally:
        mounts.unmount(results / "figures")
    assert "figures is a mount point, which is left alone" in capsys.readouterr().err
    assert [file.name for file in foreign.iterdir()] == ["a.svg"]
