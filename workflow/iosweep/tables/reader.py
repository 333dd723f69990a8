"""Reads the tables of a campaign and campaign.json, and finds damage: another size or hash than campaign.json names."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import field

from iosweep.config.criteria import Criterion
from iosweep.details import Histogram, Series
from iosweep.errors import Obstacle
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Count, Damaged, Integer, Moment, Part
from iosweep.judge import agreement
from iosweep.node.facts import NodeFacts
from iosweep.node.pinning import CpuSettings
from iosweep.plan.model import ConfigurationFile, SweepFacts
from iosweep.programs.programs import BuildDocument
from iosweep.store.ingested import IngestedFacts
from iosweep.tables.columns import TABLES, Column, arrow_schema, result_columns
from iosweep.tools import parameters, tools

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


class TargetDirectory(Part, frozen=True):
    """The directory that was measured."""

    directory: str


class CampaignDocument(Part, frozen=True, kw_only=True):
    """campaign.json. `made`: when; `results_of_nodes`: key of a node's facts -> its rows."""

    campaign: str
    description: str | None = None
    made: Moment
    iosweep_version: str
    plan_digest: str
    seed: Integer
    target: TargetDirectory
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


# rows of the tables

#: Name of the check of all repetitions of a phase together (judge/agreement.py). Each of their rows has its finding.
PRECISE = agreement.PRECISE.name

#: Value of a parameter of a point.
Value = bool | int | float | str


class RowVerdict(Part, frozen=True, kw_only=True):
    """The outcome of a phase of a repetition. repetition: None for a point without repetitions."""

    point: str
    phase: str
    verdict: str
    repetition: int | None = None
    reasons: str | None = None
    left: bool | None = None
    unneeded: bool | None = None


class ResultRow(RowVerdict, frozen=True, kw_only=True):
    """A row of results.parquet (tables/columns.py)."""

    kind: str
    tool: str
    metric: str
    parameters: dict[str, Value | None]
    figures: dict[str, float]  # columns of floats that have a value
    sweeps: str = ""
    confirms: bool | None = None
    checks_passed: int | None = None
    checks_failed: int | None = None
    checks_not_checked: int | None = None
    started: datetime | None = None
    host: str | None = None
    hosts: str | None = None
    slurm_job: str | None = None
    session: str | None = None
    pinning: str | None = None
    placement: str | None = None
    iterations: int | None = None  # that the tool's own summary is over
    tool_version: str | None = None
    tool_sha256: str | None = None
    tool_build: str | None = None  # name of the tool's build
    build: str | None = None  # key of the build document
    target_source: str | None = None
    target_fstype: str | None = None
    target_layout: str | None = None
    command: str | None = None
    imprecise: bool = False  # its repetitions do not agree, and that alone makes it suspect
    raw: str | None = None  # the archive of its raw output; of an ingested row its file

    @property
    def undisturbed(self) -> bool:
        """Whether it is not in doubt by itself. `precise` is checked when all repetitions are there, and the runner has
        chosen the best point without it."""
        return self.verdict == "valid" or self.imprecise


class CheckRow(Part, frozen=True, kw_only=True):
    """A row of checks.parquet."""

    point: str
    phase: str
    check: str
    outcome: str
    severity: str
    repetition: int | None = None
    evidence: str | None = None


class NodeRow(NodeFacts, frozen=True, kw_only=True):
    """A row of nodes.parquet."""

    node: str
    used_cpus: str | None = None


#: For rows without build documents.
NO_BUILDS: Mapping[str, BuildDocument] = {}


@dataclass(frozen=True)
class Campaign:
    """One `results/<campaign>/` in memory. `about`: campaign.json."""

    rows: tuple[ResultRow, ...]
    checks: tuple[CheckRow, ...]
    nodes: tuple[NodeRow, ...]
    about: CampaignDocument


# reading


def load(results: Path) -> Campaign:
    """Read `results/<campaign>/`.

    Raises FileNotFoundError, naming the file, where no tables were made; documents.Damaged.
    """
    about = read_about(results)
    alike: dict[tuple[Value | None, ...], dict[str, Value | None]] = {}
    checks = tuple(read_rows(results, "checks.parquet", partial(msgspec.convert, type=CheckRow)))
    rows = read_rows(results, "results.parquet", partial(read_row, builds=about.builds, alike=alike))
    return Campaign(
        rows=tuple(mark_imprecise(rows, checks)),
        checks=checks,
        nodes=tuple(read_rows(results, "nodes.parquet", partial(msgspec.convert, type=NodeRow))),
        about=about,
    )


def mark_imprecise(rows: Iterable[ResultRow], checks: Iterable[CheckRow]) -> Iterator[ResultRow]:
    """The rows, with `imprecise` set where `precise` is the only check that failed."""
    failed: dict[tuple[str, int | None, str], set[str]] = {}
    for check in checks:
        if check.outcome == "fail":
            failed.setdefault((check.point, check.repetition, check.phase), set()).add(check.check)
    for row in rows:
        imprecise = failed.get((row.point, row.repetition, row.phase)) == {PRECISE}
        yield msgspec.structs.replace(row, imprecise=True) if imprecise else row


#: (point, phase)
PhaseKey = tuple[str, str]


def load_series(results: Path, repetitions: Mapping[PhaseKey, int]) -> dict[PhaseKey, list[Series]]:
    """The series of one repetition of each phase: all of a campaign's can be gigabytes.

    Raises FileNotFoundError, documents.Damaged.
    """
    series: dict[PhaseKey, list[Series]] = {}

    def read(values: Mapping[str, Any]) -> None:
        key = values["point"], values["phase"]
        if repetitions.get(key) == values["repetition"]:
            figures = tuple(math.nan if value is None else value for value in values["values"])
            place = {name: values[name] for name in ("interval_s", "begin_s", "host", "worker")}
            series.setdefault(key, []).append(Series(values["quantity"], figures, **place))

    read_rows(results, "series.parquet", read, points={point for point, _ in repetitions})
    return series


def load_latencies(results: Path, counted: Collection[tuple[str, str, int]]) -> dict[PhaseKey, Histogram]:
    """The latencies of these (point, phase, repetition), merged for each phase.

    Raises FileNotFoundError, documents.Damaged.
    """
    merged: dict[PhaseKey, Histogram] = {}

    def read(values: Mapping[str, Any]) -> None:
        key = values["point"], values["phase"]
        if (*key, values["repetition"]) in counted:
            histogram = Histogram.of_table(values["lowest_s"], values["factor"], values["counts"])
            if both := Histogram.merged(filter(None, (merged.get(key), histogram))):
                merged[key] = both

    read_rows(results, "histograms.parquet", read, points={point for point, _, _ in counted})
    return merged


def read_row(
    values: Mapping[str, object],
    builds: Mapping[str, BuildDocument] = NO_BUILDS,
    alike: dict[tuple[Value | None, ...], dict[str, Value | None]] | None = None,
) -> ResultRow:
    """A row of results.parquet, from its columns. alike: the parameters of rows that were read before, which the
    repetitions of a phase share: 60,000 rows have 20,000 of them."""
    made = msgspec.convert(
        {
            **{name: values[name] for name in _others()},
            "parameters": {name: values[name] for name in (*parameters(), "other_options")},
            "figures": {name: value for name in _figures() if (value := values[name]) is not None},
        },
        ResultRow,
    )
    known = made.parameters if alike is None else alike.setdefault(tuple(made.parameters.values()), made.parameters)
    return msgspec.structs.replace(made, parameters=known, tool_build=_name_of_build(made, builds))


def _name_of_build(row: ResultRow, builds: Mapping[str, BuildDocument]) -> str | None:
    """Name of a build: the binary of the tool, and the MPI that its ranks use; other tools in the document do not
    count. None where nothing was measured."""
    if row.tool_sha256 is None:
        return None
    document = builds.get(row.build or "")
    mpi = document.mpi if document and row.tool in tools() and tools()[row.tool].mpi else None
    return row.tool_sha256[:12] + (f" with MPI {mpi.version}" if mpi else "")


@cache
def _others() -> tuple[str, ...]:
    """Columns that are fields of a row."""
    known = {column.name for column in result_columns()}
    return tuple(name for name in ResultRow.__struct_fields__ if name in known)


@cache
def _figures() -> tuple[str, ...]:
    return tuple(column.name for column in result_columns() if column.type == "float")


def read_about(results: Path) -> CampaignDocument:
    """campaign.json. Raises FileNotFoundError, Damaged."""
    return documents.decode(_read(results, ABOUT), CampaignDocument, results / ABOUT)


def read_rows(
    results: Path,
    name: str,
    read: Callable[[Any], Kind],
    columns: Sequence[str] = (),
    points: Collection[str] | None = None,
) -> list[Kind]:
    """The rows of a table with these columns or all, as `read` returns each. points: of these only; None: of all.

    Raises FileNotFoundError, Damaged, also where `read` raises ValueError.
    """
    known = read_about(results).tables.get(name)
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
        rows: list[Kind] = []
        for batch in parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts).iter_batches(
            _BATCH, columns=form.names
        ):
            if points is not None:
                batch = batch.filter(compute.is_in(batch.column("point"), value_set=pa.array(points, pa.string())))
            values = [_values(batch.column(name)) for name in form.names]
            rows += [read(dict(zip(form.names, row, strict=True))) for row in zip(*values, strict=True)]
        return rows
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


def find_damage(results: Path) -> list[str]:
    """Damage of the tables, as sentences; none before they are made."""
    try:
        tables = read_about(results).tables
    except FileNotFoundError:
        return []
    except Damaged as error:
        return [str(error)]
    damage = []
    for name in FILES:
        try:
            if wrong := _unlike(tables.get(name), _read(results, name)):
                damage.append(str(Damaged(results / name, wrong)))
        except FileNotFoundError:
            damage.append(f"{results / name} is gone")
        except Damaged as error:
            damage.append(str(error))
    return damage
