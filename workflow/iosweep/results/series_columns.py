"""Columns of the companion tables series.parquet, parts.parquet and histograms.parquet."""

from __future__ import annotations

from iosweep.results.column import Column

#: Values of all series of the table. Merge leaves out those of workers, and then others, that would be beyond it.
MOST_TABLE_VALUES = 20_000_000

_KEY: tuple[Column, ...] = (
    Column("point", "string", "Id of the point."),
    Column("repetition", "int", "Number of the repetition."),
    Column("attempt", "int", "Number of the try that counts."),
    Column("phase", "string", "Phase."),
    Column("host", "string", "Node; empty where the tool does not tell nodes apart."),
    Column("worker", "int", "Number of the worker on its node, or the rank, from 0; null for the whole node."),
)

#: One row per row of the results, node or worker, and quantity.
SERIES_COLUMNS: tuple[Column, ...] = (
    *_KEY,
    Column("quantity", "string", "What it is, with its unit, as a column of the results has it."),
    Column("begin_s", "float", "When the first interval began, in seconds since the first I/O of any node."),
    Column("interval_s", "float", "Length of each interval in seconds."),
    Column("values", "floats", "The quantity in each interval; null where nothing was read."),
)

#: One row per row of the results, and node or worker.
PART_COLUMNS: tuple[Column, ...] = (
    *_KEY,
    Column("bandwidth_bytes_per_s", "float", "Bytes that it moved per second."),
    Column("ops_per_s", "float", "I/Os or files per second."),
    Column("latency_mean_s", "float", "Mean latency of its I/Os in seconds."),
    Column("began_s", "float", "When its I/O began, in seconds since the first I/O of any node."),
    Column("ended_s", "float", "When its I/O ended."),
)

#: One row per row of the results whose tool has a histogram of its latencies.
HISTOGRAM_COLUMNS: tuple[Column, ...] = (
    *_KEY[:4],
    Column("lowest_s", "float", "Upper bound of the first bin in seconds."),
    Column("factor", "float", "How much larger the upper bound of each bin is than that of the one before."),
    Column("counts", "floats", "I/Os in each bin, by what their callers waited; all nodes and workers together."),
)
