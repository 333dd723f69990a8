"""Reads the tables that merge wrote, and finds damage in them, in the report and in the figures.

The results may be damaged or foreign: sizes and hashes are compared with campaign.json, forms and limits are checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from iosweep.errors import Obstacle
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Damaged, Document
from iosweep.files.fields import FigureName, Sha256
from iosweep.results import table_values
from iosweep.results.campaign_form import CampaignForm, Table
from iosweep.results.column import Column
from iosweep.results.columns import CHECK_COLUMNS, arrow_schema, result_columns
from iosweep.results.node_columns import NODE_COLUMNS
from iosweep.results.series_columns import HISTOGRAM_COLUMNS, MOST_TABLE_VALUES, PART_COLUMNS, SERIES_COLUMNS

ABOUT, REPORT = "campaign.json", "report.html"
#: Folder of the figures, the file in it with the names and hashes of those that we made, and the file that is written
#: when all are made.
FIGURES, FIGURES_MADE, FIGURES_DONE = "figures", "made.json", "figures.done"
#: Folder of the tables and the report of a campaign that is being measured.
LIVE = "live"
#: Folder of what merge keeps of each result for the next merge (row_cache), and its files: the code that judged, and a
#: hash of the content.
JUDGED, JUDGED_FILE = "judged", re.compile(r"([0-9a-f]{12})-[0-9a-f]{16}\.rows|clock")
#: Folder of the files that say that something was made again.
REPAIRS = "repairs"
TABLES: Mapping[str, Callable[[], tuple[Column, ...]]] = {
    "results.parquet": result_columns,
    "checks.parquet": lambda: CHECK_COLUMNS,
    "nodes.parquet": lambda: NODE_COLUMNS,
    "series.parquet": lambda: SERIES_COLUMNS,
    "parts.parquet": lambda: PART_COLUMNS,
    "histograms.parquet": lambda: HISTOGRAM_COLUMNS,
}
FILES = (*TABLES, "results.csv")
Kind = TypeVar("Kind")
#: Last line of the report: the hash of all bytes before it.
_SEAL = b"<!-- sha256 %s -->\n"
_SEAL_BYTES = len(_SEAL) - len(b"%s") + 64
#: Columns that every row has.
_NEVER_NULL = frozenset({"campaign", "sweeps", "point", "phase", "tool", "kind", "metric", "verdict"})
#: 100,000 results are 250 MB, and their checks have 20 million cells.
_MOST_BYTES, _MOST_CELLS, _BATCH = 1 << 30, 60_000_000, 4_000
#: Values in the lists of all rows: 10,000 nodes have 3 million. Each takes 50 times the memory of a cell.
_MOST_IN_LISTS = 6_000_000
#: Maximum bytes of the text of all rows. A file that has a text once can have it in each row.
_MOST_TEXT = 1 << 30
#: Compressions with a limited ratio: 1 byte becomes 24 at most.
_COMPRESSIONS = frozenset({"SNAPPY", "UNCOMPRESSED"})


class FiguresMade(Document, frozen=True):
    """figures/made.json: the figures that we made, file name -> SHA-256."""

    figures: dict[FigureName, Sha256]


def about(results: Path) -> CampaignForm:
    """campaign.json. Raises FileNotFoundError, Damaged."""
    return documents.decode(_read(results, ABOUT), CampaignForm, results / ABOUT)


def rows(
    results: Path,
    name: str,
    read: Callable[[Any], Kind],
    columns: Sequence[str] = (),
    points: Collection[str] | None = None,
) -> list[Kind]:
    """The rows of a table with these columns or all, as `read` returns each. points: of these only; None: of all.

    Raises FileNotFoundError, Damaged, also where `read` raises ValueError.
    """
    known = about(results).tables.get(name)
    data, file = _read(results, name), results / name
    if wrong := _unlike(known, data):
        raise Damaged(file, wrong)
    return _rows(file, data, read, [c for c in TABLES[name]() if not columns or c.name in columns], points)


def _read(results: Path, name: str) -> bytes:
    try:
        return safe_paths.read(results, name, _MOST_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = Obstacle(error.strerror or str(error), safe_paths.remedy(error))
        raise Damaged(error.filename or results / name, str(why)) from None


def _unlike(known: Table | None, data: bytes) -> str | None:
    """Why a file is not the one that merge wrote, None if it is."""
    if known is None:
        return f"{ABOUT} does not name it"
    if len(data) != known.bytes:
        return f"it has {len(data):,} bytes and had {known.bytes:,}"
    return _changed(known.sha256, data)


def _rows(
    file: Path,
    data: bytes,
    read: Callable[[Any], Kind],
    columns: Sequence[Column],
    points: Collection[str] | None = None,
) -> list[Kind]:
    import pyarrow as pa
    from pyarrow import compute, parquet

    try:
        opened = parquet.ParquetFile(pa.BufferReader(data))
        if wrong := _strange(opened, columns):
            raise Damaged(file, wrong)
        # As dictionaries, texts take no more memory than the file has, and their size is known before they are copied.
        texts = parquet.ParquetFile(pa.BufferReader(data), read_dictionary=_texts(opened))
        form = arrow_schema(tuple(columns))
        found: list[Kind] = []
        size = 0
        for coded in texts.iter_batches(_BATCH, columns=form.names):
            size += sum(map(_text_bytes, coded.columns))
            if size > _MOST_TEXT:
                raise Damaged(file, f"its rows have more than {_MOST_TEXT:,} bytes of text")
            batch = coded.select(form.names).cast(form)
            for column in _NEVER_NULL.intersection(batch.schema.names):
                if batch.column(column).null_count:
                    raise Damaged(file, f"column {column} has rows without a value")
            if why := table_values.wrong(columns, [batch.column(column.name) for column in columns]):
                raise Damaged(file, why)
            if points is not None:
                kept = compute.is_in(batch.column("point"), value_set=pa.array(points, pa.string()))
                batch, coded = batch.filter(kept), coded.filter(kept)
            found += map(read, _dicts(batch, coded))
        return found
    except Damaged:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise Damaged(file, f"it cannot be read: {str(error)[:200] or type(error).__name__}") from None


def _dicts(batch: Any, coded: Any) -> Iterator[dict[str, object]]:
    """The rows of a batch. coded: the same with texts as dictionaries, so that rows with the same text share one
    object: one for each row took most of the memory of a report of 60,000 rows."""
    names = batch.schema.names
    columns = [_values(batch.column(name), coded.column(name)) for name in names]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _values(array: Any, coded: Any) -> list[Any]:
    import pyarrow as pa

    if array.null_count == len(array):
        return [None] * len(array)
    if pa.types.is_dictionary(coded.type) and pa.types.is_string(array.type):
        known = coded.dictionary.to_pylist()
        return [None if index is None else known[index] for index in coded.indices.to_pylist()]
    if not array.null_count and pa.types.is_floating(array.type):
        return list(array.to_numpy(zero_copy_only=False).tolist())
    return list(array.to_pylist())


def _texts(opened: Any) -> list[str]:
    """The paths of the columns with text in a parquet file."""
    schema = opened.schema
    return [one.path for one in map(schema.column, range(len(schema))) if one.physical_type == "BYTE_ARRAY"]


def _text_bytes(array: Any) -> int:
    """The bytes of all texts in an Arrow array of any type, of which those with text are dictionaries."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_list(array.type):
        return _text_bytes(array.flatten())
    if pa.types.is_struct(array.type):
        return sum(map(_text_bytes, array.flatten()))
    if not pa.types.is_dictionary(array.type):
        return 0
    lengths = compute.binary_length(array.dictionary).cast(pa.int64())
    return compute.sum(lengths.take(array.indices)).as_py() or 0


def _strange(opened: Any, columns: Sequence[Column]) -> str | None:
    """Why a parquet file is not one of ours according to its metadata, None if it is."""
    if opened.metadata.num_rows * len(columns) > _MOST_CELLS:
        return f"it has {opened.metadata.num_rows:,} rows, too many"
    groups = [opened.metadata.row_group(number) for number in range(opened.metadata.num_row_groups)]
    parts = [group.column(number) for group in groups for number in range(group.num_columns)]
    floats = {column.name for column in columns if column.type == "floats"}
    lists = [part for part in parts if "." in part.path_in_schema]
    in_series = sum(part.num_values for part in lists if part.path_in_schema.partition(".")[0] in floats)
    inner = sum(part.num_values for part in lists) - in_series
    if inner > _MOST_IN_LISTS or in_series > MOST_TABLE_VALUES:
        return f"its lists have {inner + in_series:,} values, too many"
    there = opened.schema_arrow
    for field in arrow_schema(tuple(columns)):
        if there.get_field_index(field.name) < 0:
            return f"column {field.name} is not there once"
        if there.field(field.name).type != field.type:
            return f"column {field.name} is {there.field(field.name).type}, not {field.type}"
    return next(
        (f"its compression is {one.compression}" for one in parts if one.compression not in _COMPRESSIONS), None
    )


def damage(results: Path) -> list[str]:
    """Damage of everything that merge, page and figures wrote, as sentences.

    A missing table is damage where a page or figures were made of it: Snakemake does not make it again by itself.
    """
    made = any(os.path.lexists(results / name) for name in (REPORT, FIGURES_DONE))
    try:
        tables = about(results)
    except FileNotFoundError:
        return [f"{results / ABOUT} is gone"] if made else []
    except Damaged as error:
        return [str(error)]
    return [*tables_damage(results, tables, gone=made), *pages_damage(results)]


def tables_damage(results: Path, tables: CampaignForm, gone: bool = False) -> list[str]:
    """Damage of the tables, as sentences. `gone`: a missing table is damage, too."""
    found = (
        _damage(results, name, partial(_unlike, tables.tables.get(name)), f"{results / name} is gone" if gone else None)
        for name in FILES
    )
    return [*filter(None, found)]


def _damage(results: Path, name: str, wrong: Callable[[bytes], str | None], gone: str | None = None) -> str | None:
    """A sentence on the damage of a file, None if it is intact. `gone`: what to return if it is missing."""
    try:
        reason = wrong(_read(results, name))
        return str(Damaged(results / name, reason)) if reason else None
    except FileNotFoundError:
        return gone
    except Damaged as error:
        return str(error)


def pages_damage(results: Path) -> list[str]:
    """Damage of the report and the figures, as sentences; a missing report is none."""
    found = [_damage(results, REPORT, _broken_seal)]
    try:
        made = figures_made(results)
        if made is None and os.path.lexists(results / FIGURES_DONE):
            found.append(f"{results / FIGURES / FIGURES_MADE} is gone")
    except Damaged as error:
        made = None
        found.append(str(error))
    for name, digest in (made or {}).items():
        file = f"{FIGURES}/{name}"
        found.append(_damage(results, file, partial(_changed, digest), f"{results / file} is gone"))
    return [*filter(None, found)]


def _broken_seal(page: bytes) -> str | None:
    sealed_again = sealed(page[:-_SEAL_BYTES])
    return None if page == sealed_again else "its content is not what the hash in its last line says"


def _changed(digest: str, data: bytes) -> str | None:
    return None if hashlib.sha256(data).hexdigest() == digest else "its content has changed"


def sealed(page: bytes) -> bytes:
    """The report with its hash as the last line."""
    return page + _SEAL % hashlib.sha256(page).hexdigest().encode()


def figures_made(results: Path) -> dict[str, str] | None:
    """File name -> SHA-256 of the figures that we made; None if no file says so. Raises Damaged."""
    file = f"{FIGURES}/{FIGURES_MADE}"
    try:
        return documents.decode(_read(results, file), FiguresMade, results / file).figures
    except FileNotFoundError:
        return None


def last_repair(results: Path) -> str:
    """The name of the last repair of the tables; empty if there was none, or it is unreadable."""
    try:
        return about(results).repair
    except (FileNotFoundError, Damaged):
        return ""


def repair(results: Path) -> tuple[str, list[str]]:
    """(name, damage): the name of the last repair, or that of the next one if something is damaged.

    A name is the hash of the last name, the damage and the repairs that there are: it stays the same until a repair is
    recorded, and none is used twice. The last name alone does not do: campaign.json has it, and may be what is damaged.
    """
    last, found = last_repair(results), damage(results)
    if not found:
        return last, found
    return hashlib.sha256(json.dumps([last, found, _repairs(results)]).encode()).hexdigest()[:12], found


def _repairs(results: Path) -> list[str]:
    """The names of the repairs that were recorded."""
    try:
        with safe_paths.folder(results, REPAIRS) as place:
            return [name for name in place.names() if not name.startswith(".")]
    except OSError:
        return []
