"""Tables on a disk that gets full."""

import errno
import gc
import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from iosweep.files import safe_paths
from iosweep.files.safe_paths import Folder
from iosweep.results.columns import CHECK_COLUMNS, NODE_COLUMNS, result_columns
from iosweep.results.table_writer import ChecksWriter, TableWriter

PLACE = Path("results/c")


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
    """Write all tables of a campaign, as merge does."""
    place = cast(Folder, disk)
    with ExitStack() as stack:
        rows = stack.enter_context(TableWriter(place, "results.parquet", result_columns(), "results.csv"))
        others = [
            stack.enter_context(ChecksWriter(place, "checks.parquet", CHECK_COLUMNS)),
            stack.enter_context(TableWriter(place, "nodes.parquet", NODE_COLUMNS)),
        ]
        rows.add(tuple("x" * 30 if name in ("campaign", "point", "verdict") else None for name in rows.names))
        for one in (rows, *others):
            one.finish()


def test_a_full_disk_is_one_error_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it gets full. A writer that Arrow closes when it is collected must not print a traceback."""
    later: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: later.append(args.exc_value))
    whole = Disk(1 << 30)
    written(whole)
    files = set()
    for room in range(0, (1 << 30) - whole.room, 97):
        with pytest.raises(OSError, match="No space left on device") as caught:
            written(Disk(room))
        files.add(caught.value.filename)
        del caught
        gc.collect(0)
        assert later == []
    assert files == {
        str(PLACE / name) for name in ("results.parquet", "results.csv", "checks.parquet", "nodes.parquet")
    }


@pytest.mark.parametrize("step", ["write", "flush"])
def test_an_error_of_a_disk_names_the_file(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's error of a full disk has no path."""

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write() -> None:
        with safe_paths.folder(tmp_path) as place, place.replaced("x.json") as file:
            if step == "write":
                full()
            monkeypatch.setattr(os, "fsync", lambda _: full())
            file.write(b"x")

    with pytest.raises(OSError, match="No space") as caught:
        write()
    assert caught.value.filename == str(tmp_path / "x.json")
