"""The formats of `iosweep parse`. Documents are written as they come: memory does not grow with their number."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

from iosweep.commands.terminal import to_json
from iosweep.files import safe_paths
from iosweep.ingest.documents import SCHEMA, Document
from iosweep.ingest.walk import Skipped
from iosweep.results import safe_csv
from iosweep.results.columns import result_columns

FORMATS = ("json", "ndjson", "csv", "parquet")


class Writer:
    """Takes the documents in order, and at the end the files that were not read, each with whether it was asked for."""

    def add(self, document: Document) -> None:
        raise NotImplementedError

    def end(self, skipped: list[tuple[Skipped, bool]]) -> None:
        """Tables have no place for them: the command says them."""


class _Json(Writer):
    """One document of all: see docs/parsing.md."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._before = f'{{\n  "schema": {SCHEMA},\n  "documents": ['  # the next document; first what begins all

    def add(self, document: Document) -> None:
        self._to.write(f"{self._before}\n    {_indented(document.as_json(), 4)}")
        self._before = ","

    def end(self, skipped: list[tuple[Skipped, bool]]) -> None:
        listed = [
            {"file": one.name, "severity": "invalid" if asked else "note", "text": f"{one.name} {one.reason}"}
            for one, asked in skipped
        ]
        self._to.write("\n  ],\n" if self._before == "," else f"{self._before}],\n")
        self._to.write(f'  "skipped": {_indented(listed, 2)}\n}}\n')


def _indented(value: object, by: int) -> str:
    return to_json(value).rstrip("\n").replace("\n", "\n" + " " * by)


class _Ndjson(Writer):
    """A row on each line, with the columns that its tool's output may tell."""

    def __init__(self, to: TextIO) -> None:
        self._to = to

    def add(self, document: Document) -> None:
        for row in document.table_rows():
            self._to.write(to_json(row, indent=False))


class _Csv(Writer):
    """The result table's columns, as results.csv has them."""

    def __init__(self, to: TextIO) -> None:
        self._columns = [column.name for column in result_columns()]
        self._csv = csv.DictWriter(to, self._columns, lineterminator="\n")
        self._csv.writeheader()

    def add(self, document: Document) -> None:
        for row in document.table_rows():
            self._csv.writerow({name: _cell(row.get(name)) for name in self._columns})


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else safe_csv.harmless(value)


def _typed(kind: str, value: object) -> object:
    return datetime.fromisoformat(value) if kind == "time" and isinstance(value, str) else value


@contextmanager
def _parquet(path: Path) -> Iterator[Writer]:
    from iosweep.results.table_writer import TableWriter  # late: pyarrow takes a second

    columns = result_columns()

    class _Parquet(Writer):
        def add(self, document: Document) -> None:
            for row in document.table_rows():
                table.add(tuple(_typed(column.type, row.get(column.name)) for column in columns))

    with safe_paths.folder(path.parent) as place, TableWriter(place, path.name, columns) as table:
        yield _Parquet()
        table.finish()


@contextmanager
def writer(form: str, path: Path | None) -> Iterator[Writer]:
    """A writer of a format to a file, which is whole or not there, or to standard output (None).

    Raises OSError where the file cannot be written.
    """
    if form == "parquet":
        if path is None:
            raise ValueError("a parquet file has a name")
        with _parquet(path) as made:
            yield made
        return
    with ExitStack() as stack:
        if path is None:
            to = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
            stack.callback(to.detach)  # which writes the rest, and leaves standard output open
        else:
            place = stack.enter_context(safe_paths.folder(path.parent))
            to = io.TextIOWrapper(stack.enter_context(place.replaced(path.name)), encoding="utf-8", newline="")
            stack.callback(to.detach)
        yield {"json": _Json, "ndjson": _Ndjson, "csv": _Csv}[form](to)
