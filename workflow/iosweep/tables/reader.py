"""Reading the tables of a campaign and campaign.json, and detecting damage by the sizes and hashes in campaign.json."""

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
from iosweep.errors import Obstacle
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Count, Damaged, Integer, Moment, Part
from iosweep.histograms import Histogram, Series
from iosweep.judge import agreement
from iosweep.judge.findings import split_reasons
from iosweep.node.facts import NodeFacts
from iosweep.node.pinning import CpuSettings
from iosweep.plan.model import ConfigurationFile, SweepFacts, describe_targets
from iosweep.programs.programs import BuildDocument
from iosweep.store.ingested import IngestedFacts
from iosweep.tables.columns import TABLES, arrow_schema, result_columns
from iosweep.tools import parameters, tools

ABOUT, REPORT = "campaign.json", "report.html"
#: Folder of the figures, and an empty file that is written when all of them are complete.
FIGURES, FIGURES_DONE = "figures", "figures.done"
FILES = (*TABLES, "results.csv")
Kind = TypeVar("Kind")
#: Largest table that is read (100,000 results take 250 MB), and number of rows that are converted at a time.
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
    """The size and hash of a table file."""

    bytes: Count
    sha256: str


class TargetDirectory(Part, frozen=True):
    """The directory that was measured."""

    directory: str


class CampaignDocument(Part, frozen=True, kw_only=True):
    """campaign.json."""

    campaign: str
    description: str | None = None
    made: Moment  # when the tables were made
    iosweep_version: str
    plan_digest: str
    seed: Integer
    targets: dict[str, TargetDirectory]  # by name; a single one has the name ""
    limits: dict[str, bool | Integer | float | str | None] = field(default_factory=dict)
    cpus: CpuSettings = CpuSettings()
    sweeps: tuple[SweepFacts, ...]
    accept: tuple[Criterion, ...] = ()
    configuration: tuple[ConfigurationFile, ...] = ()
    jobs: tuple[Job, ...] = ()
    results_of_nodes: dict[str, Count] = field(default_factory=dict)  # key of a node's facts -> number of its rows
    results_on_target: bool = False
    builds: dict[str, BuildDocument] = field(default_factory=dict)
    tables: dict[str, Table]
    damaged: dict[str, str] = field(default_factory=dict)
    ingested: IngestedFacts | None = None  # measured by others: there is no plan; ignore `targets` and `seed`

    @property
    def on(self) -> str:
        """The targets in words (describe_targets)."""
        return describe_targets({name: target.directory for name, target in self.targets.items()})


# Rows of the tables

#: Name of the check that compares the repetitions of a phase (judge/agreement.py). Each of their rows has its finding.
PRECISE = agreement.PRECISE.name

#: Value of a parameter of a point.
Value = bool | int | float | str


class ResultRow(Part, frozen=True, kw_only=True):
    """A row of results.parquet (tables/columns.py)."""

    point: str
    phase: str
    verdict: str
    repetition: int | None = None  # None for a point without repetitions
    reasons: tuple[str, ...] = ()
    left: bool | None = None
    unneeded: bool | None = None
    kind: str
    tool: str
    metric: str
    parameters: dict[str, Value | None]
    figures: dict[str, float]  # float columns that are not null
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
    session_number: int | None = None
    pinning: str | None = None
    placement: str | None = None
    iterations: int | None = None  # that the tool's summary averages
    tool_version: str | None = None
    tool_sha256: str | None = None
    tool_build: str | None = None  # name of the tool's build
    build: str | None = None  # key of the build document
    target_source: str | None = None
    target_fstype: str | None = None
    target_layout: str | None = None
    command: str | None = None
    imprecise: bool = False  # suspect only because its repetitions do not agree
    raw: str | None = None  # archive of raw output; for an ingested row, the file that was read

    @property
    def undisturbed(self) -> bool:
        """Whether no check of this repetition alone failed. `precise` does not count: it needs all repetitions, and the
        runner chooses the best point without it."""
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


#: (point, phase, repetition)
RowKey = tuple[str, str, int]
#: Reads the latency histograms of these rows; of those that have one.
HistogramReader = Callable[[Collection[RowKey]], Mapping[RowKey, Histogram]]


def no_histograms(_: Collection[RowKey]) -> Mapping[RowKey, Histogram]:
    """Stands in for the histograms of rows that have none."""
    return {}


@dataclass(frozen=True)
class Campaign:
    """The tables of `results/<campaign>/` in memory. histograms: reads that table, which few figures need."""

    rows: tuple[ResultRow, ...]
    checks: tuple[CheckRow, ...]
    nodes: tuple[NodeRow, ...]
    about: CampaignDocument  # campaign.json
    histograms: HistogramReader = no_histograms


# Reading


def load(results: Path) -> Campaign:
    """Read `results/<campaign>/`.

    Raises FileNotFoundError, which names the file, if no tables were made; documents.Damaged.
    """
    about = read_about(results)
    shared: dict[tuple[Value | None, ...], dict[str, Value | None]] = {}
    checks = tuple(read_rows(results, "checks.parquet", partial(msgspec.convert, type=CheckRow)))
    rows = read_rows(results, "results.parquet", partial(read_row, builds=about.builds, shared=shared))
    return Campaign(
        rows=tuple(mark_imprecise(rows, checks)),
        checks=checks,
        nodes=tuple(read_rows(results, "nodes.parquet", partial(msgspec.convert, type=NodeRow))),
        about=about,
        histograms=partial(load_histograms, results),
    )


def mark_imprecise(rows: Iterable[ResultRow], checks: Iterable[CheckRow]) -> Iterator[ResultRow]:
    """Set `imprecise` in rows whose only failed check is `precise`."""
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
    """Read the series of one repetition of each phase (all series of a campaign can be gigabytes).

    Raises FileNotFoundError, documents.Damaged.
    """
    series: dict[PhaseKey, list[Series]] = {}

    def read(values: Mapping[str, Any]) -> None:
        key = values["point"], values["phase"]
        if repetitions.get(key) == values["repetition"]:
            figures = tuple(math.nan if value is None else value for value in values["values"])
            attributes = {name: values[name] for name in ("interval_s", "begin_s", "host")}
            series.setdefault(key, []).append(Series(values["quantity"], figures, **attributes))

    read_rows(results, "series.parquet", read, points={point for point, _ in repetitions})
    return series


def load_histograms(results: Path, keys: Collection[RowKey]) -> dict[RowKey, Histogram]:
    """Read the latency histograms of these rows.

    Raises FileNotFoundError, documents.Damaged.
    """
    histograms: dict[RowKey, Histogram] = {}

    def read(values: Mapping[str, Any]) -> None:
        key = values["point"], values["phase"], values["repetition"]
        if key in keys:
            histogram = Histogram.of_table(values["lowest_s"], values["factor"], values["counts"])
            if histogram.total:
                histograms[key] = histogram

    if keys:
        read_rows(results, "histograms.parquet", read, points={point for point, _, _ in keys})
    return histograms


def read_row(
    values: Mapping[str, object],
    builds: Mapping[str, BuildDocument] = NO_BUILDS,
    shared: dict[tuple[Value | None, ...], dict[str, Value | None]] | None = None,
) -> ResultRow:
    """A row of results.parquet, from its columns. shared: parameters of earlier rows, so that repetitions of a phase
    share one object (60,000 rows have 20,000 different ones)."""
    row = msgspec.convert(
        {
            **{name: values[name] for name in _field_columns()},
            "reasons": split_reasons(values["reasons"]),
            "parameters": {name: values[name] for name in (*parameters(), "other_options")},
            "figures": {name: value for name in _float_columns() if (value := values[name]) is not None},
        },
        ResultRow,
    )
    options = row.parameters if shared is None else shared.setdefault(tuple(row.parameters.values()), row.parameters)
    return msgspec.structs.replace(row, parameters=options, tool_build=_build_name(row, builds))


def _build_name(row: ResultRow, builds: Mapping[str, BuildDocument]) -> str | None:
    """Name of the tool's build: hash of its binary, and the MPI that its ranks use. None if nothing was measured."""
    if row.tool_sha256 is None:
        return None
    document = builds.get(row.build or "")
    mpi = document.mpi if document and row.tool in tools() and tools()[row.tool].mpi else None
    return row.tool_sha256[:12] + (f" with MPI {mpi.version}" if mpi else "")


@cache
def _field_columns() -> tuple[str, ...]:
    """Columns that are fields of ResultRow."""
    columns = {column.name for column in result_columns()}
    return tuple(name for name in ResultRow.__struct_fields__ if name in columns)


@cache
def _float_columns() -> tuple[str, ...]:
    return tuple(column.name for column in result_columns() if column.type == "float")


def read_about(results: Path) -> CampaignDocument:
    """Read campaign.json. Raises FileNotFoundError, Damaged."""
    return documents.decode(_read(results, ABOUT), CampaignDocument, results / ABOUT)


def read_rows(
    results: Path,
    name: str,
    read: Callable[[Any], Kind],
    columns: Sequence[str] = (),
    points: Collection[str] | None = None,
) -> list[Kind]:
    """Read a table; returns what `read` makes of each row. Without columns or points: all of them.

    Raises FileNotFoundError, Damaged, also where `read` raises ValueError.
    """
    import pyarrow as pa
    from pyarrow import compute, parquet

    entry = read_about(results).tables.get(name)
    data, file = _read(results, name), results / name
    if wrong := _mismatch(entry, data):
        raise Damaged(file, wrong)
    wanted = [column for column in TABLES[name]() if not columns or column.name in columns]
    try:
        schema = arrow_schema(tuple(wanted))
        stored = parquet.read_schema(pa.BufferReader(data))
        for field in schema:
            if field.name not in stored.names or stored.field(field.name).type != field.type:
                raise Damaged(file, f"it has no column {field.name} of the type {field.type}")
        # read as dictionaries, equal texts are one object; otherwise texts took most of the memory of a report
        texts = [column.name for column in wanted if column.type == "string"]
        rows: list[Kind] = []
        for batch in parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts).iter_batches(
            _BATCH, columns=schema.names
        ):
            if points is not None:
                batch = batch.filter(compute.is_in(batch.column("point"), value_set=pa.array(points, pa.string())))
            values = [_values(batch.column(name)) for name in schema.names]
            rows += [read(dict(zip(schema.names, row, strict=True))) for row in zip(*values, strict=True)]
        return rows
    except Damaged:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(file, f"it cannot be read: {str(error)[:200] or type(error).__name__}") from None


def _values(array: Any) -> list[Any]:
    import pyarrow as pa

    if array.null_count == len(array):  # half of the columns are of options and figures of other tools
        return [None] * len(array)
    if pa.types.is_dictionary(array.type):
        texts = array.dictionary.to_pylist()
        return [None if index is None else texts[index] for index in array.indices.to_pylist()]
    return list(array.to_pylist())


def _read(results: Path, name: str) -> bytes:
    try:
        return safe_paths.read(results, name, _MOST_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = Obstacle(error.strerror or str(error), safe_paths.remedy(error))
        raise Damaged(error.filename or results / name, str(why)) from None


def _mismatch(entry: Table | None, data: bytes) -> str | None:
    """How a file differs from its entry in campaign.json; None if it does not."""
    if entry is None:
        return f"{ABOUT} does not name it"
    if len(data) != entry.bytes:
        return f"it has {len(data):,} bytes and had {entry.bytes:,}"
    return None if hashlib.sha256(data).hexdigest() == entry.sha256 else "its content has changed"


def find_damage(results: Path) -> list[str]:
    """Sentences on damaged tables; none before tables are made."""
    try:
        tables = read_about(results).tables
    except FileNotFoundError:
        return []
    except Damaged as error:
        return [str(error)]
    damage = []
    for name in FILES:
        try:
            if wrong := _mismatch(tables.get(name), _read(results, name)):
                damage.append(str(Damaged(results / name, wrong)))
        except FileNotFoundError:
            damage.append(f"{results / name} is gone")
        except Damaged as error:
            damage.append(str(error))
    return damage
