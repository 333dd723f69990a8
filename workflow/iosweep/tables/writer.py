"""Writing the tables of a campaign: parquet files, the results also as CSV, and campaign.json with the size and hash of
each file. The rows come from a store (make.py) or from outputs of others (ingest/foreign_campaign.py)."""

from __future__ import annotations

import fcntl
import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from iosweep.files import documents, safe_paths
from iosweep.files.safe_paths import Folder
from iosweep.judge.agreement import COMPARED, PRECISE, SEVERITIES, Agreements, agree
from iosweep.store.record import Finding, JudgedPhase
from iosweep.tables.columns import TABLES, Column, arrow_schema
from iosweep.tables.reader import ABOUT, FILES, Table

#: Rows of a row group: limits the memory that rows take.
_BATCH = 10_000
#: Column of the results -> value.
Values = dict[str, Any]

#: Characters that spreadsheets ignore at the start of a cell: control, blank and zero-width (for Python and RE2).
_DROPPED = r"\x00-\x20\x7f-\xa0\xad" + "\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
_SIGNS = "-=+@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH COMMERCIAL AT}\N{FULLWIDTH HYPHEN-MINUS}"
#: Start of a formula (OWASP).
_FORMULA = re.compile(rf"^(?:[{_DROPPED}]*[{_SIGNS}]|[\t\r\n])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class _HashedFile(io.RawIOBase):
    """A file that computes its size and hash as it is written."""

    def __init__(self, file: BinaryIO, path: Path):
        self._file, self._path, self._hash, self._size, self._ignores = file, path, hashlib.sha256(), 0, False

    def writable(self) -> bool:
        return True

    def ignore(self) -> None:
        """Ignore further writes: a failed pyarrow writer writes again when it is garbage-collected."""
        self._ignores = True

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            if self._ignores:
                return view.nbytes
            with safe_paths.named(self._path):
                self._file.write(view)
            self._hash.update(view)
            self._size += view.nbytes
            return view.nbytes

    def entry(self) -> Table:
        """The file's entry in campaign.json."""
        return Table(self._size, self._hash.hexdigest())


class TableWriter:
    """Context manager that writes rows to a parquet file, and optionally to a CSV file, renamed into place on exit."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...], csv: str | None = None):
        self.schema, self.names = arrow_schema(columns), [column.name for column in columns]
        self._columns: list[list[Any]] = [[] for _ in columns]
        self._place, self._file_names = place, [parquet, *([csv] if csv else [])]

    def __enter__(self) -> Self:
        with ExitStack() as files:
            self._files = [
                _HashedFile(files.enter_context(self._place.replaced(name)), self._place.path / name)
                for name in self._file_names
            ]
            for file in self._files:
                files.callback(file.ignore)
            # a dictionary of measured figures, which hardly repeat, takes more time than it saves space
            texts = [field.name for field in self.schema if pa.types.is_string(field.type)]
            parquet, *csv = self._files
            options = {"use_dictionary": texts, "write_statistics": False}
            self._writers: list[Any] = []  # kept alive until their files ignore writes
            self._writers.append(pa.parquet.ParquetWriter(parquet, self.schema, **options))
            self._writers += (pa.csv.CSVWriter(file, self.schema) for file in csv)
            self._stack = files.pop_all()
        return self

    def add(self, *columns: Iterable[Any]) -> None:
        """Add rows, column by column."""
        for column, values in zip(self._columns, columns, strict=True):
            column += values
        if len(self._columns[0]) >= _BATCH:
            self._flush()

    def finish(self) -> dict[str, Table]:
        """Write the remaining rows; returns file name -> its size and hash."""
        self._flush()
        for writer in self._writers:
            writer.close()
        return {name: file.entry() for name, file in zip(self._file_names, self._files, strict=True)}

    def _flush(self) -> None:
        """Write a row group."""
        if not self._columns[0]:
            return
        parquet, *csv = self._writers
        arrays = list(map(pa.array, self._columns, self.schema.types))
        parquet.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
        for writer in csv:
            safe = list(map(harmless_array, self._columns, arrays))
            writer.write_table(pa.Table.from_arrays(safe, schema=self.schema))
        for column in self._columns:
            column.clear()

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


#: A results row: its values in the order of the columns. 100,000 such lists fit into memory.
Cells = list[Any]


class CampaignTables:
    """Context manager that writes all tables. At the end of the block the files are renamed into place, campaign.json
    last; if the block raises, none is.

    `finish` must be the last call in the block.
    """

    def __init__(self, results: Path):
        self._results = results

    def __enter__(self) -> Self:
        with ExitStack() as files:  # entered first, renamed last: campaign.json describes the tables
            place = files.enter_context(safe_paths.folder(self._results, make=True))
            _take_turns(place)
            self._about = files.enter_context(place.replaced(ABOUT))
            self._tables: dict[str, TableWriter] = {}
            for name, columns in TABLES.items():
                csv = "results.csv" if name == "results.parquet" else None
                self._tables[name] = files.enter_context(TableWriter(place, name, columns(), csv))
            self._names = self._tables["results.parquet"].names
            self._compared = [(name, self._names.index(name)) for name in COMPARED]
            self._files = files.pop_all()
        return self

    def cells(self, values: Values) -> Cells:
        """The cells of a results row. `add` takes them when its repetitions can be compared."""
        return list(map(values.get, self._names))

    def mark_left(self, rows: Iterable[Cells]) -> None:
        """Mark results rows that the next run measures again."""
        for cells in rows:
            cells[self._names.index("left")] = True

    def add(self, rows: Sequence[Cells], agreements: Agreements) -> None:
        """Add results rows, each with the finding of `precise` on its repetitions."""
        for cells in rows:
            values = {name: cells[index] for name, index in self._compared}
            if finding := agree(values, agreements):
                self.add_findings(values, {PRECISE.name: finding})
                for name, index in self._compared:
                    cells[index] = values[name]
        for first in range(0, len(rows), _BATCH):
            self._tables["results.parquet"].add(*zip(*rows[first : first + _BATCH], strict=True))

    def add_findings(self, values: Values, findings: Mapping[str, Finding]) -> None:
        """Add the findings of a results row to checks.parquet."""
        self._tables["checks.parquet"].add(
            *([values[name]] * len(findings) for name in ("point", "repetition", "phase")),
            findings,
            [finding.outcome for finding in findings.values()],
            map(SEVERITIES.__getitem__, findings),
            [finding.evidence for finding in findings.values()],
        )

    def add_companions(self, values: Values, row: JudgedPhase) -> None:
        """Add the rows of the companion tables that belong to a results row."""
        self.add_findings(values, row.findings)
        key = [values[name] for name in ("point", "repetition", "attempt", "phase")]
        for name, rows in (
            ("series.parquet", row.series),
            ("node_rates.parquet", row.node_rates),
            ("histograms.parquet", [row.histogram] if row.histogram else []),
        ):
            if rows:
                self._tables[name].add(*([value] * len(rows) for value in key), *zip(*rows, strict=True))

    def add_node(self, name: str, facts: Mapping[str, object]) -> None:
        nodes = self._tables["nodes.parquet"]
        nodes.add([name], *([facts.get(column)] for column in nodes.names[1:]))

    def finish(self, about: Mapping[str, object]) -> None:
        """Write the remaining rows, then campaign.json: `about` with the sizes and hashes of the tables."""
        tables = {name: table for writer in self._tables.values() for name, table in writer.finish().items()}
        self._about.write(documents.dump({**about, "tables": tables}, indent=True))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)


def _take_turns(place: Folder) -> None:
    """Wait until no other process writes the tables, and remove what killed processes have left. Closing the folder
    ends the lock."""
    try:
        fcntl.flock(place.handle, fcntl.LOCK_EX)
    except OSError:  # NFS locks no directories
        return
    for name in place.names():
        if (match := safe_paths.TEMPORARY.fullmatch(name)) and match["name"] in (ABOUT, *FILES):
            place.remove(name)


def harmless(cell: object) -> object:
    """The cell, with an apostrophe in front if its text begins like a formula and is not a number."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def harmless_array(column: Sequence[Any], array: pa.Array) -> pa.Array:
    """Apply `harmless` to the array of a column. Not by pyarrow.compute, whose import takes as long as 100 rows."""
    if not pa.types.is_string(array.type) or all(harmless(cell) is cell for cell in set(column)):
        return array
    return pa.array(map(harmless, column), array.type)
