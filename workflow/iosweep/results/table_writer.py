"""Writes the tables of a campaign: parquet, the same as CSV, and the size and hash of each file."""

from __future__ import annotations

import hashlib
import io
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
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

#: Rows are written in batches, so that memory does not grow with the campaign: so many rows of a table, of one with
#: lists, and of checks, are a row group of their own, whatever pieces they come in.
_BATCH, _LIST_BATCH, _CHECKS_BATCH = 10_000, 20_000, 100_000


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

    def __init__(
        self, place: Folder, parquet: str, columns: tuple[Column, ...], csv: str | None = None, batch: int | None = None
    ):
        self.schema, self._columns = arrow_schema(columns), columns
        self._batch = batch or _BATCH
        self._rows: list[tuple[Any, ...]] = []
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0  # rows in them
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
                self._writers.append(make(file, self.schema))
            self._stack = files.pop_all()
        return self

    def unfit(self, row: tuple[Any, ...]) -> str | None:
        """Why a row does not fit the table's types, or None if it does."""
        try:
            found = arrays([row], list(self.schema))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return f"it does not fit into the table: {error}"
        return table_values.wrong(self._columns, found)

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row, its values in the order of `names`."""
        self._rows.append(row)
        if len(self._rows) >= self._batch:
            self._flush()

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows that Arrow has already."""
        self._flush()
        self._take(batch)

    def finish(self) -> dict[str, Table]:
        """Write the remaining rows; returns file name -> its size and hash."""
        self._flush()
        if self._waiting:
            self._write_group(pa.Table.from_batches(self._batches, self.schema))
        for writer in self._writers:
            writer.close()
        return {name: file.described() for name, file in zip(self._names, self._files, strict=True)}

    def _flush(self) -> None:
        """The rows that were added one by one, as a batch."""
        if self._rows:
            self._take(pa.RecordBatch.from_arrays(arrays(self._rows, list(self.schema)), schema=self.schema))
            self._rows.clear()

    def _take(self, batch: pa.RecordBatch) -> None:
        """Write what is full, always of the same number of rows: the file does not depend on the batches."""
        self._batches.append(batch)
        self._waiting += batch.num_rows
        if self._waiting < self._batch:
            return
        table = pa.Table.from_batches(self._batches, self.schema)
        full = self._waiting // self._batch * self._batch
        for begin in range(0, full, self._batch):
            self._write_group(table.slice(begin, self._batch))
        self._batches = table.slice(full).to_batches()
        self._waiting -= full

    def _write_group(self, table: pa.Table) -> None:
        whole = table.combine_chunks()  # pages begin where chunks do
        parquet, *csv = self._writers
        parquet.write_table(whole, row_group_size=self._batch)
        for writer in csv:
            harmless = [safe_csv.harmless_array(column.combine_chunks()) for column in whole.columns]
            writer.write_table(pa.Table.from_arrays(harmless, schema=self.schema))

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


class ChecksWriter(TableWriter):
    """Writes the table of checks. Arrow repeats five of its seven columns, at a third of the time of Python."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...]):
        super().__init__(place, parquet, columns, batch=_CHECKS_BATCH)
        self._keys: list[tuple[Any, ...]] = []
        self._findings: list[Finding] = []

    def add_findings(self, key: tuple[Any, ...], findings: Sequence[Finding]) -> None:
        """Add the findings of the row with this key: those of all checks in order, or none for a missing row."""
        if findings:
            self._keys.append(key)
            self._findings += findings
        if len(self._findings) >= self._batch:
            self._flush()

    def add_arrays(self, keys: Sequence[pa.Array], outcomes: pa.Array, evidence: pa.Array) -> None:
        """Add the findings of many rows. keys: a value of each of the three columns for each row; the other arrays have
        those of all checks of the first row, of the second ..."""
        self._flush()
        self._take(self._batch_of(keys, outcomes, evidence))

    def _flush(self) -> None:
        if not self._keys:
            return
        keys = arrays(self._keys, list(self.schema)[:3])
        outcomes, evidence = (pa.array([f[i] for f in self._findings], pa.string()) for i in (0, 1))
        self._take(self._batch_of(keys, outcomes, evidence))
        self._keys.clear()
        self._findings.clear()

    def _batch_of(self, keys: Sequence[pa.Array], outcomes: pa.Array, evidence: pa.Array) -> pa.RecordBatch:
        rows, each = len(keys[0]), len(OF_A_ROW)
        which = pa.array(np.repeat(np.arange(rows, dtype=np.int32), each))
        checks = pa.array(np.tile(np.arange(each, dtype=np.int32), rows))
        names, severities = (
            pa.array(values, pa.string()).take(checks)
            for values in ([c.name for c in OF_A_ROW], [c.severity for c in OF_A_ROW])
        )
        repeated = [key.take(which) for key in keys]
        return pa.RecordBatch.from_arrays([*repeated, names, outcomes, severities, evidence], schema=self.schema)


class ListRows:
    """Rows of a table whose last column is a list of floats, handed to Arrow as one array of doubles."""

    def __init__(self, columns: tuple[Column, ...]):
        self._schema = arrow_schema(columns)
        self._rows: list[tuple[Any, ...]] = []
        self._values, self._ends = array("d"), array("i", [0])

    def append(self, row: tuple[Any, ...], values: Sequence[float]) -> None:
        """Add a row with its list."""
        self._rows.append(row)
        self._values.extend(values)
        self._ends.append(len(self._values))

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self) -> pa.RecordBatch:
        """All rows."""
        values = pa.Array.from_buffers(pa.float64(), len(self._values), [None, pa.py_buffer(self._values)])
        fits = pc.less_equal(pc.abs(values), table_values.MOST)  # NaN does not, nor what a damaged stream may hold
        if fits.true_count < len(fits):
            values = pc.if_else(fits, values, None)
        ends = pa.Array.from_buffers(pa.int32(), len(self._ends), [None, pa.py_buffer(self._ends)])
        lists = pa.ListArray.from_arrays(ends, values)
        fields = list(self._schema)[:-1]
        found = arrays(self._rows, fields) if self._rows else [pa.array([], field.type) for field in fields]
        return pa.RecordBatch.from_arrays([*found, lists], schema=self._schema)


class SeriesWriter(TableWriter):
    """Writes the table of series."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...]):
        super().__init__(place, parquet, columns, batch=_LIST_BATCH)
        self._written = 0

    def add_series(self, batch: pa.RecordBatch) -> None:
        """Add series, workers' only while the table is half full."""
        lengths = pc.list_value_length(batch.column("values"))
        size = pc.sum(lengths).as_py() or 0
        if self._written + size > MOST_TABLE_VALUES // 2:
            batch, size = self._fitting(batch, lengths.to_pylist())
        self._written += size
        if batch.num_rows:
            self.add_batch(batch)

    def _fitting(self, batch: pa.RecordBatch, lengths: Sequence[int]) -> tuple[pa.RecordBatch, int]:
        """Those that there is room for, one after the other, and the number of their values."""
        written, kept = self._written, []
        for alone, length in zip(batch.column("worker").is_null().to_pylist(), lengths, strict=True):
            fits = written + length <= MOST_TABLE_VALUES // (1 if alone else 2)
            written += length if fits else 0
            kept.append(fits)
        return batch.filter(pa.array(kept, pa.bool_())), written - self._written


def arrays(rows: Sequence[tuple[Any, ...]], fields: Sequence[Any]) -> list[Any]:
    """Rows as Arrow arrays, one per column."""
    return [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), fields, strict=True)]
