"""Writes the tables of a campaign: parquet, the same as CSV, and the size and hash of each file."""

from __future__ import annotations

import hashlib
import io
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from iosweep.files import safe_paths
from iosweep.files.safe_paths import Folder
from iosweep.results import safe_csv, table_values
from iosweep.results.campaign_form import Table
from iosweep.results.checks import OF_A_ROW
from iosweep.results.checks.finding import Finding
from iosweep.results.column import Column
from iosweep.results.columns import arrow_schema
from iosweep.results.series_columns import MOST_TABLE_VALUES
from iosweep.series import Series

#: Rows are written in batches, so that memory does not grow with the campaign; series by the number of their values.
_BATCH, _SERIES_BATCH = 10_000, 500_000


class _Hashed(io.RawIOBase):
    """A file that is written, with its size and hash."""

    def __init__(self, file: BinaryIO, path: Path):
        self._file, self._path, self._hash, self._size, self._over = file, path, hashlib.sha256(), 0, False

    def writable(self) -> bool:
        return True

    def ignore(self) -> None:
        """Ignore further writes: a failed pyarrow writer writes again when it is garbage-collected."""
        self._over = True

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            if self._over:
                return view.nbytes
            with safe_paths.named(self._path):
                self._file.write(view)
            self._hash.update(view)
            self._size += view.nbytes
            return view.nbytes

    def described(self) -> Table:
        """The entry of the file in campaign.json."""
        return Table(self._size, self._hash.hexdigest())


class TableWriter:
    """Context manager that writes a parquet file, and optionally the same rows as CSV, renamed into place on exit."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...], csv: str | None = None):
        self._schema, self._columns = arrow_schema(columns), columns
        self._rows: list[tuple[Any, ...]] = []
        self._place, self._names = place, [parquet, *([csv] if csv else [])]
        self.names = [column.name for column in columns]

    def __enter__(self) -> Self:
        with ExitStack() as files:
            self._files = [
                _Hashed(files.enter_context(self._place.replaced(name)), self._place.path / name)
                for name in self._names
            ]
            for file in self._files:
                files.callback(file.ignore)
            self._writers: list[Any] = []  # one that was made may not be collected before its file ignores it
            for make, file in zip((pa.parquet.ParquetWriter, pa.csv.CSVWriter), self._files, strict=False):
                self._writers.append(make(file, self._schema))
            self._stack = files.pop_all()
        return self

    def unfit(self, row: tuple[Any, ...]) -> str | None:
        """Why a row does not fit the table's types, or None if it does."""
        try:
            arrays = _arrays([row], list(self._schema))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return f"it does not fit into the table: {error}"
        return table_values.wrong(self._columns, arrays)

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row, its values in the order of `names`."""
        self._rows.append(row)
        if len(self._rows) >= _BATCH:
            self._flush()

    def finish(self) -> dict[str, Table]:
        """Write the remaining rows; returns file name -> its size and hash."""
        self._flush()
        for writer in self._writers:
            writer.close()
        return {name: file.described() for name, file in zip(self._names, self._files, strict=True)}

    def _flush(self) -> None:
        if not self._rows:
            return
        self._write(_arrays(self._rows, list(self._schema)))
        self._rows.clear()

    def _write(self, arrays: list[Any]) -> None:
        parquet, *csv = self._writers
        parquet.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        for writer in csv:
            harmless = [safe_csv.harmless_array(array) for array in arrays]
            writer.write_table(pa.Table.from_arrays(harmless, schema=self._schema))

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


class ChecksWriter(TableWriter):
    """Writes the table of checks. Arrow repeats five of its seven columns, at a third of the time of Python."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...]):
        super().__init__(place, parquet, columns)
        self._keys: list[tuple[Any, ...]] = []
        self._findings: list[Finding] = []

    def add_findings(self, key: tuple[Any, ...], findings: Sequence[Finding]) -> None:
        """Add the findings of the row with this key: those of all checks in order, or none for a missing row."""
        if findings:
            self._keys.append(key)
            self._findings += findings
        if len(self._findings) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if not self._keys:
            return
        rows = len(self._keys)
        which = pa.array([row for row in range(rows) for _ in OF_A_ROW], pa.int32())
        keys = [array.take(which) for array in _arrays(self._keys, list(self._schema)[:3])]
        names, severities = (
            pa.array(values * rows, pa.string())
            for values in ([c.name for c in OF_A_ROW], [c.severity for c in OF_A_ROW])
        )
        outcomes, evidence = (pa.array([f[i] for f in self._findings], pa.string()) for i in (0, 1))
        self._write([*keys, names, outcomes, severities, evidence])
        self._keys.clear()
        self._findings.clear()


class ListWriter(TableWriter):
    """Writes a table whose last column is a list of floats, handed to Arrow as one array of doubles."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...]):
        super().__init__(place, parquet, columns)
        self._values, self._ends = array("d"), array("i", [0])

    def append(self, row: tuple[Any, ...], values: Sequence[float]) -> None:
        """Add a row with its list."""
        self._rows.append(row)
        self._values.extend(values)
        self._ends.append(len(self._values))
        if len(self._values) >= _SERIES_BATCH:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        values = pa.Array.from_buffers(pa.float64(), len(self._values), [None, pa.py_buffer(self._values)])
        fits = pc.less_equal(pc.abs(values), table_values.MOST)  # NaN does not, nor what a damaged stream may hold
        if fits.true_count < len(fits):
            values = pc.if_else(fits, values, None)
        ends = pa.Array.from_buffers(pa.int32(), len(self._ends), [None, pa.py_buffer(self._ends)])
        lists = pa.ListArray.from_arrays(ends, values)
        self._write([*_arrays(self._rows, list(self._schema)[:-1]), lists])
        self._rows.clear()
        self._values, self._ends = array("d"), array("i", [0])


class SeriesWriter(ListWriter):
    """Writes the table of series."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...]):
        super().__init__(place, parquet, columns)
        self._written = 0

    def add_series(self, key: tuple[Any, ...], series: Sequence[Series]) -> None:
        """Add the series of the row with this key, workers' only while the table is half full."""
        for one in series:
            room = MOST_TABLE_VALUES // (1 if one.worker is None else 2)
            if self._written + len(one.values) <= room:
                self._written += len(one.values)
                self.append((*key, one.host, one.worker, one.name, one.begin_s, one.interval_s), one.values)


def _arrays(rows: Sequence[tuple[Any, ...]], fields: Sequence[Any]) -> list[Any]:
    """Rows as Arrow arrays, one per column."""
    return [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), fields, strict=True)]
