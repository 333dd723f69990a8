"""Tables are written whole or not at all, damaged ones are rejected, and a spreadsheet runs nothing of a CSV."""

import errno
import gc
import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow import parquet

import results_factory
from iosweep.commands import cli
from iosweep.files.documents import Damaged, dump, read
from iosweep.files.safe_paths import Folder
from iosweep.tables import reader
from iosweep.tables.columns import CHECK_COLUMNS, NODE_COLUMNS, result_columns
from iosweep.tables.writer import TableWriter, harmless, harmless_array

POINTS = [results_factory.sweep("a", ["rand_read"], {"threads_per_node": [1, 2]})]
PLACE = Path("results/c")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made = results_factory.make(tmp_path / "received", sweeps=POINTS)
    (made / "plans").mkdir()
    return made


# Read back


def test_what_is_not_the_file_that_merge_wrote_is_damaged(results: Path) -> None:
    for name in ("results.parquet", "campaign.json"):
        data = (file := results / name).read_bytes()
        for other in (b"", data + b"x", data[:50] + bytes([data[50] ^ 1]) + data[51:]):
            file.write_bytes(other)
            [said] = reader.find_damage(results)
            assert said.startswith(f"{file} is damaged ("), other
            with pytest.raises(Damaged):
                reader.read_rows(results, "results.parquet", dict)
            file.unlink()
            file.symlink_to("/etc/passwd")
            assert reader.find_damage(results)[0].startswith(f"{file} is damaged (")
            file.unlink()
            file.write_bytes(data)
    for name in reader.FILES:
        data = (results / name).read_bytes()
        (results / name).unlink()
        assert reader.find_damage(results) == [f"{results / name} is gone"]
        (results / name).write_bytes(data)


def test_a_table_of_other_columns_is_rejected_also_where_its_digest_is_right(results: Path) -> None:
    file = results / "results.parquet"
    table = parquet.read_table(file)
    for column, forged in (
        ("verdict", table.drop_columns(["verdict"])),
        ("campaign", table.set_column(0, "campaign", pa.array([1] * len(table)))),
    ):
        parquet.write_table(forged, file)
        results_factory.describe_again(results)
        with pytest.raises(Damaged, match=column):
            reader.read_rows(results, "results.parquet", dict)
    about = read(results / "campaign.json")
    for key in ("sweeps", "tables", "targets", "builds"):
        (results / "campaign.json").write_bytes(dump(about | {key: 5}))
        with pytest.raises(Damaged, match=key):
            reader.read_about(results)


# What a rule writes


@pytest.mark.parametrize(("name", "command"), [("figures", "figures"), ("logs", "page")])
def test_a_link_in_place_of_what_a_rule_writes_is_not_followed(
    results: Path, name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (foreign := tmp_path / "foreign").mkdir()
    theirs = {"a.svg": "theirs", "x.log": "theirs"}
    for file, content in theirs.items():
        (foreign / file).write_text(content)
    (results / name).symlink_to(foreign)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", f"--{command}", str(results), "--log", str(results / "logs/x.log")]) == 1
    assert {file.name: file.read_text() for file in foreign.iterdir()} == theirs


# On a disk that gets full


class Disk:
    """A folder on a disk that takes so many bytes more."""

    path = PLACE

    def __init__(self, room: int):
        self.room = room

    @contextmanager
    def replaced(self, _: str) -> Iterator[Any]:
        disk = self

        class File(io.BytesIO):
            def write(self, data: Any) -> int:
                disk.room -= len(data)
                if disk.room < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(data)

        yield File()


def written(disk: Disk) -> None:
    """Write tables of a campaign, as `make_tables` does."""
    place = cast(Folder, disk)
    with ExitStack() as stack:
        rows = stack.enter_context(TableWriter(place, "results.parquet", result_columns(), "results.csv"))
        others = [
            stack.enter_context(TableWriter(place, "checks.parquet", CHECK_COLUMNS)),
            stack.enter_context(TableWriter(place, "nodes.parquet", NODE_COLUMNS)),
        ]
        rows.add(*(["x" * 30 if name in ("campaign", "point", "verdict") else None] for name in rows.names))
        for one in (rows, *others):
            one.finish()


def test_a_full_disk_is_one_error_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it gets full. A writer that Arrow closes when it is collected must not print a traceback."""
    later: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: later.append(args.exc_value))
    whole = Disk(1 << 30)
    written(whole)
    size = (1 << 30) - whole.room
    files = set()
    for room in (0, 3, 5, *range(1000, size, size // 60), size - 1):
        with pytest.raises(OSError, match="No space left on device") as caught:
            written(Disk(room))
        files.add(Path(caught.value.filename).name)
        del caught
        gc.collect(0)
        assert later == []
    assert files == {"results.parquet", "results.csv", "checks.parquet", "nodes.parquet"}


# For spreadsheets

#: What a spreadsheet drops in front of a formula.
DROPPED = ("  ", "\xa0", "\v", "\f", "\x00", "\ufeff", "\u200b", "\u3000", " \ufeff ")
FORMULAS = ("=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "＝1", "－x", " -5")
OTHERS = ("-5", "+1.5e-3", "-.5", "a=b", "", "fio --name=x", " a=b", "\xa0", -5, 1.5, None, True)


def test_text_like_a_formula_is_escaped_and_other_cells_are_unchanged() -> None:
    for text in (*FORMULAS, *(f"{blank}=1" for blank in DROPPED)):
        assert harmless(text) == f"'{text}"
        assert harmless_array(["a", text, None], pa.array(["a", text, None])).to_pylist() == ["a", f"'{text}", None]
    for cell in OTHERS:
        assert harmless(cell) == cell
        assert harmless_array([cell], pa.array([cell])).to_pylist() == [cell]
