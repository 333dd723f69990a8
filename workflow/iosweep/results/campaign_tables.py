"""All tables of a campaign and campaign.json, written together: of a store (merge.py), or of what others measured
(ingest/tables.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from iosweep.files import documents, safe_paths
from iosweep.results import merged_tables
from iosweep.results.columns import CHECK_COLUMNS, result_columns
from iosweep.results.compared import Compared
from iosweep.results.node_columns import NODE_COLUMNS
from iosweep.results.repeated import Row
from iosweep.results.row_blocks import Companions
from iosweep.results.series_columns import HISTOGRAM_COLUMNS, PART_COLUMNS, SERIES_COLUMNS
from iosweep.results.table_writer import ChecksWriter, SeriesWriter, TableWriter


class CampaignTables:
    """Context manager: the files take their names at the end of the block, campaign.json last, or none of them does.

    `finish` must be the last call in the block.
    """

    def __init__(self, results: Path):
        self._results = results
        self.built: Counter[object] = Counter()  # key of a build document -> rows

    def __enter__(self) -> Self:
        with ExitStack() as files:  # entered first, renamed last: campaign.json describes the tables
            place = files.enter_context(safe_paths.folder(self._results, make=True))
            self._about = files.enter_context(place.replaced(merged_tables.ABOUT))
            self._rows = files.enter_context(
                TableWriter(place, "results.parquet", result_columns(), "results.csv"),
            )
            self._checks = files.enter_context(ChecksWriter(place, "checks.parquet", CHECK_COLUMNS))
            self._nodes = files.enter_context(TableWriter(place, "nodes.parquet", NODE_COLUMNS))
            self._series = files.enter_context(SeriesWriter(place, "series.parquet", SERIES_COLUMNS))
            self._parts = files.enter_context(TableWriter(place, "parts.parquet", PART_COLUMNS))
            self._histograms = files.enter_context(TableWriter(place, "histograms.parquet", HISTOGRAM_COLUMNS))
            self._files = files.pop_all()
        return self

    def add(self, row: Row) -> None:
        """Add a row with its findings: those of all checks in order, or none for a missing row."""
        values = row.values
        self.built[values.get("build")] += 1
        self._rows.add(tuple(map(values.get, self._rows.names)))
        key = (values["point"], values["repetition"], values["phase"])
        self._checks.add_findings(key, [found for _, found in row.findings])

    def unfit(self, values: Mapping[str, object]) -> str | None:
        """Why the values of a row do not fit into the table of results, or None if they do."""
        return self._rows.unfit(tuple(map(values.get, self._rows.names)))

    def add_compared(self, found: Compared) -> None:
        """Add many rows with their findings."""
        for counted in found.rows.column("build").value_counts().to_pylist():
            self.built[counted["values"]] += counted["counts"]
        self._rows.add_batch(found.rows)
        keys = [found.rows.column(name).filter(found.measured) for name in ("point", "repetition", "phase")]
        if len(keys[0]):
            self._checks.add_arrays(keys, found.outcomes, found.evidence)

    def add_companions(self, found: Companions) -> None:
        """Add rows of the companion tables."""
        self._series.add_series(found.series)
        self._parts.add_batch(found.parts)
        self._histograms.add_batch(found.histograms)

    def add_node(self, name: str, known: Mapping[str, object]) -> str | None:
        """Add the facts of a node; returns why they do not fit into the table, and were left out, else None."""
        row = (name, *map(known.get, self._nodes.names[1:]))
        if (wrong := self._nodes.unfit(row)) is None:
            self._nodes.add(row)
        return wrong

    def finish(self, about: Callable[[], Mapping[str, object]]) -> None:
        """Write what remains, and campaign.json: `about` with the sizes and hashes of the tables."""
        tables = {
            name: table
            for writer in (self._rows, self._checks, self._nodes, self._series, self._parts, self._histograms)
            for name, table in writer.finish().items()
        }
        self._about.write(documents.dump({**about(), "tables": tables}, indent=True))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)
