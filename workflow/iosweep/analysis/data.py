"""The rows that merge wrote for one campaign, typed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from iosweep.details import Histogram, Series
from iosweep.files.documents import Part
from iosweep.node.facts import NodeFacts
from iosweep.programs.builds import BuildDocument
from iosweep.tables import reader
from iosweep.tables.columns import result_columns
from iosweep.tables.reader import CampaignForm
from iosweep.tools import parameters, tools

#: The check that looks at all repetitions of a point's phase together. Its finding is in the row of each of them.
PRECISE = "precise"

#: Value of a parameter of a point.
Value = bool | int | float | str


class PhaseOutcome(Part, frozen=True, kw_only=True):
    """What became of a phase of a repetition. `repetition` is None for a point without any."""

    point: str
    phase: str
    verdict: str
    repetition: int | None = None
    reasons: str | None = None
    left: bool | None = None
    unneeded: bool | None = None


class Row(PhaseOutcome, frozen=True, kw_only=True):
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


class Node(NodeFacts, frozen=True, kw_only=True):
    """A row of nodes.parquet."""

    node: str
    used_cpus: str | None = None


class Run(Part, frozen=True, kw_only=True):
    """Which phase of which repetition a row is of, and of which node or worker."""

    point: str
    repetition: int
    phase: str
    host: str = ""
    worker: int | None = None


class SeriesRow(Run, frozen=True, kw_only=True):
    """A row of series.parquet."""

    quantity: str
    begin_s: float
    interval_s: float
    values: tuple[float | None, ...]

    def series(self) -> Series:
        values = tuple(math.nan if value is None else value for value in self.values)
        return Series(self.quantity, values, self.interval_s, self.begin_s, self.host, self.worker)


class NodeRateRow(Run, frozen=True, kw_only=True):
    """A row of node_rates.parquet."""

    bandwidth_bytes_per_s: float | None = None
    ops_per_s: float | None = None

    @property
    def rate(self) -> float:
        return self.bandwidth_bytes_per_s or self.ops_per_s or 0.0


class HistogramRow(Run, frozen=True, kw_only=True):
    """A row of histograms.parquet."""

    lowest_s: float
    factor: float
    counts: tuple[float | None, ...]


RunKind = TypeVar("RunKind", bound=Run)
#: For rows without build documents.
NO_BUILDS: Mapping[str, BuildDocument] = {}


@dataclass(frozen=True)
class Campaign:
    """One `results/<campaign>/` in memory. `about`: campaign.json."""

    rows: tuple[Row, ...]
    checks: tuple[CheckRow, ...]
    nodes: tuple[Node, ...]
    about: CampaignForm


def load(results: Path) -> Campaign:
    """Read `results/<campaign>/`.

    Raises FileNotFoundError, naming the file, when merge has not written there; documents.Damaged.
    """
    about = reader.about(results)
    alike: dict[tuple[Value | None, ...], dict[str, Value | None]] = {}
    checks = tuple(reader.rows(results, "checks.parquet", partial(msgspec.convert, type=CheckRow)))
    rows = reader.rows(results, "results.parquet", partial(row, builds=about.builds, alike=alike))
    return Campaign(
        rows=tuple(mark_imprecise(rows, checks)),
        checks=checks,
        nodes=tuple(reader.rows(results, "nodes.parquet", partial(msgspec.convert, type=Node))),
        about=about,
    )


def mark_imprecise(rows: Iterable[Row], checks: Iterable[CheckRow]) -> Iterator[Row]:
    """The rows, with `imprecise` set where `precise` is the only check that failed."""
    failed: dict[tuple[str, int | None, str], set[str]] = {}
    for check in checks:
        if check.outcome == "fail":
            failed.setdefault((check.point, check.repetition, check.phase), set()).add(check.check)
    for one in rows:
        imprecise = failed.get((one.point, one.repetition, one.phase)) == {PRECISE}
        yield msgspec.structs.replace(one, imprecise=True) if imprecise else one


def load_series(results: Path, repetitions: Mapping[tuple[str, str], int]) -> tuple[list[SeriesRow], list[NodeRateRow]]:
    """The series and the rates of nodes of one repetition of each (point, phase): all of a campaign's can be gigabytes.

    Raises FileNotFoundError, documents.Damaged.
    """

    def load_kind(table: str, kind: type[RunKind]) -> list[RunKind]:
        def read(values: Mapping[str, Any]) -> RunKind | None:
            wanted = repetitions.get((values["point"], values["phase"])) == values["repetition"] is not None
            return msgspec.convert(values, kind) if wanted else None

        points = {point for point, _ in repetitions}
        return [row for row in reader.rows(results, table, read, points=points) if row is not None]

    return load_kind("series.parquet", SeriesRow), load_kind("node_rates.parquet", NodeRateRow)


def load_latencies(results: Path, counted: Collection[tuple[str, str, int]]) -> dict[tuple[str, str], Histogram]:
    """(point, phase) -> the latencies of these (point, phase, repetition) together.

    Raises FileNotFoundError, documents.Damaged.
    """
    found: dict[tuple[str, str], Histogram] = {}

    def read(values: Mapping[str, object]) -> None:
        if (values["point"], values["phase"], values["repetition"]) in counted:
            row = msgspec.convert(values, HistogramRow)
            own, key = Histogram.of_table(row.lowest_s, row.factor, row.counts), (row.point, row.phase)
            if both := Histogram.merged(filter(None, (found.get(key), own))):
                found[key] = both

    reader.rows(results, "histograms.parquet", read, points={point for point, _, _ in counted})
    return found


def row(
    values: Mapping[str, object],
    builds: Mapping[str, BuildDocument] = NO_BUILDS,
    alike: dict[tuple[Value | None, ...], dict[str, Value | None]] | None = None,
) -> Row:
    """A row of results.parquet, from its columns. alike: the parameters of rows that were read before, which the
    repetitions of a phase share: 60,000 rows have 20,000 of them."""
    made = msgspec.convert(
        {
            **{name: values[name] for name in _others()},
            "parameters": {name: values[name] for name in (*parameters(), "other_options")},
            "figures": {name: value for name in _figures() if (value := values[name]) is not None},
        },
        Row,
    )
    known = made.parameters if alike is None else alike.setdefault(tuple(made.parameters.values()), made.parameters)
    return msgspec.structs.replace(made, parameters=known, tool_build=_name_of_build(made, builds))


def _name_of_build(row: Row, builds: Mapping[str, BuildDocument]) -> str | None:
    """The binary of the tool, and the MPI of a tool whose threads are ranks: another tool in a document is no other
    build. None where nothing was measured."""
    if row.tool_sha256 is None:
        return None
    document = builds.get(row.build or "")
    mpi = document.mpi if document and row.tool in tools() and tools()[row.tool].mpi else None
    return row.tool_sha256[:12] + (f" with MPI {mpi.version}" if mpi else "")


@cache
def _others() -> tuple[str, ...]:
    """Columns that are fields of a row."""
    known = {column.name for column in result_columns()}
    return tuple(name for name in Row.__struct_fields__ if name in known)


@cache
def _figures() -> tuple[str, ...]:
    return tuple(column.name for column in result_columns() if column.type == "float")
