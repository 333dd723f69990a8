"""Reads the tables of a campaign and campaign.json, and finds damage: another size or hash than campaign.json names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import field

from iosweep.config.criteria import Criterion
from iosweep.errors import Obstacle
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Count, Damaged, Integer, Moment, Part
from iosweep.node.pinning import CpuSettings
from iosweep.plan.model import ConfigurationFile, SweepFacts
from iosweep.programs.builds import BuildDocument
from iosweep.store.ingested import IngestedFacts
from iosweep.tables.columns import TABLES, Column, arrow_schema

ABOUT, REPORT = "campaign.json", "report.html"
#: Folder of the figures, and an empty file that is written when all are made.
FIGURES, FIGURES_DONE = "figures", "figures.done"
FILES = (*TABLES, "results.csv")
Kind = TypeVar("Kind")
#: 100,000 results are 250 MB.
_MOST_BYTES, _BATCH = 1 << 30, 4_000


class Job(Part, frozen=True, kw_only=True):
    """A Slurm job that measured."""

    job: str
    launcher: str
    hosts: tuple[str, ...]
    node_counts: tuple[Count, ...]
    points: Count
    repetitions: Count
    started: Moment
    ended: Moment


class Table(Part, frozen=True):
    """A file of the tables."""

    bytes: Count
    sha256: str


class Target(Part, frozen=True):
    """The directory that was measured."""

    directory: str


class CampaignForm(Part, frozen=True, kw_only=True):
    """campaign.json. `made`: when; `results_of_nodes`: key of a node's facts -> its rows."""

    campaign: str
    description: str | None = None
    made: Moment
    iosweep_version: str
    plan_digest: str
    seed: Integer
    target: Target
    limits: dict[str, bool | Integer | float | str | None]
    cpus: CpuSettings = CpuSettings()
    sweeps: tuple[SweepFacts, ...]
    accept: tuple[Criterion, ...] = ()
    configuration: tuple[ConfigurationFile, ...]
    jobs: tuple[Job, ...]
    results_of_nodes: dict[str, Count]
    results_on_target: bool = False
    builds: dict[str, BuildDocument]
    tables: dict[str, Table]
    damaged: dict[str, str] = field(default_factory=dict)
    ingested: IngestedFacts | None = None  # others measured it: there is no plan, and `target` and `seed` say nothing


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
    """Why a file is not the one that `iosweep tables` wrote, None if it is."""
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
    """Damage of the tables, as sentences; none before they are made."""
    try:
        tables = about(results).tables
    except FileNotFoundError:
        return []
    except Damaged as error:
        return [str(error)]
    found = []
    for name in FILES:
        try:
            if wrong := _unlike(tables.get(name), _read(results, name)):
                found.append(str(Damaged(results / name, wrong)))
        except FileNotFoundError:
            found.append(f"{results / name} is gone")
        except Damaged as error:
            found.append(str(error))
    return found
