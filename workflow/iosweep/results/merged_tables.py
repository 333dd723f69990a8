"""Reads the tables that merge wrote, and finds damage in them: another size or hash than campaign.json names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from iosweep.errors import Obstacle
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Damaged
from iosweep.results.campaign_form import CampaignForm, Table
from iosweep.results.columns import TABLES, Column, arrow_schema

ABOUT, REPORT = "campaign.json", "report.html"
#: Folder of the figures, and the file that names those that we made, written when all are.
FIGURES, FIGURES_DONE = "figures", "figures.done"
#: Folder of the files that say that something was made again.
REPAIRS = "repairs"
FILES = (*TABLES, "results.csv")
Kind = TypeVar("Kind")
#: 100,000 results are 250 MB.
_MOST_BYTES, _BATCH = 1 << 30, 4_000


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
    return None if hashlib.sha256(data).hexdigest() == known.sha256 else "its content has changed"


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
        form = arrow_schema(tuple(columns))
        there = parquet.read_schema(pa.BufferReader(data))
        for field in form:
            if field.name not in there.names or there.field(field.name).type != field.type:
                raise Damaged(file, f"it has no column {field.name} of the type {field.type}")
        # as dictionaries, rows with the same text share one object, which else took most of the memory of a report
        texts = [column.name for column in columns if column.type == "string"]
        found: list[Kind] = []
        for batch in parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts).iter_batches(
            _BATCH, columns=form.names
        ):
            if points is not None:
                batch = batch.filter(compute.is_in(batch.column("point"), value_set=pa.array(points, pa.string())))
            values = [_values(batch.column(name)) for name in form.names]
            found += [read(dict(zip(form.names, row, strict=True))) for row in zip(*values, strict=True)]
        return found
    except Damaged:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(file, f"it cannot be read: {str(error)[:200] or type(error).__name__}") from None


def _values(array: Any) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        known = array.dictionary.to_pylist()
        return [None if index is None else known[index] for index in array.indices.to_pylist()]
    return list(array.to_pylist())


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
    return tables_damage(results, tables, gone=made)


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
