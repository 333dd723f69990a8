"""Columns of all tables, with their types and meanings; docs/columns.md is generated from them.

`results.parquet` and `results.csv` have one row per point, repetition and phase. Units are SI base units, and part of
the column's name. An absent value is null (parquet) or an empty field (CSV), never 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, cast

from iosweep.tools import OptionKind, parameters
from iosweep.tools.axes import PHASE_TIME

if TYPE_CHECKING:
    import pyarrow as pa


Type = Literal["string", "int", "float", "bool", "time", "list", "floats"]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str  # includes the unit
    type: Type
    doc: str
    fields: tuple[Column, ...] = ()  # of each element, for a list


#: Reason in the row of a repetition that is left to measure, unless its allocation was refused.
NOT_YET = "not measured yet"


def _table(text: str) -> tuple[Column, ...]:
    """Parse columns from lines `name type meaning`. Indented lines continue a meaning; those that begin with a dot are
    the fields of a list."""
    columns: list[Column] = []
    for line in re.split(r"\n(?! )", text.strip()):
        meaning, *fields = re.split(r"\n +\.", line)
        name, kind, doc = " ".join(meaning.split()).split(" ", 2)
        columns.append(Column(name, cast(Type, kind), doc, _table("\n".join(fields)) if fields else ()))
    return tuple(columns)


_IDENTITY = _table(
    """
campaign string Name of the campaign.
sweeps string Sweeps that contain the point, joined by commas.
point string Id of the point: readable name and a hash of everything that determines it.
repetition int Number of the repetition: from 1, from 1,001 if it confirms; plus 10,000 for each earlier session.
attempt int Number of the try of that repetition that counts, from 1.
phase string Phase: seq_write, seq_read, rand_write, rand_read, seq_mixed, rand_mixed; create, stat, read, delete
  (files); dir_create, dir_stat, dir_rename, dir_delete. Null where a file does not tell.
label string Name of the row in the tool's output: fio's job, IOR's access, mdtest's operation.
kind string data (bytes are moved) or metadata (files are created, looked up, deleted).
tool string Tool that measured: fio, ior or mdtest.
metric string Column with the headline of this phase: bandwidth_bytes_per_s or ops_per_s.
"""
)

#: Kind of an option -> type of its column.
_TYPES: Mapping[OptionKind, Type] = {"size": "int", "count": "int", "flag": "bool", "choice": "string"}

_MEASURED = _table(
    """
segments int IOR: segments of a file, of one block of each rank; only in outputs that others made.
other_options string fio, IOR: options that change I/O and are in no column; only in outputs that others made.
phase_time_s float Seconds asked for; null where a count bounds the phase.
bandwidth_bytes_per_s float Bytes moved per second, reads and writes together; null for metadata.
ops_per_s float I/Os (data) or files (metadata) per second, reads and writes together.
sampled_ops_per_s float fio's `iops avg`: the mean of its samples, which WEKA's page quotes.
sum_of_rates_bytes_per_s float Tools that are started once on each node (fio): sum of the nodes' rates.
  `bandwidth_bytes_per_s` is all bytes over the time from the first node's start to the last one's end.
sum_of_rates_ops_per_s float The same of operations, beside `ops_per_s`.
iterations int Iterations that a tool's own summary is over (`ops_per_s` is then their mean).
min_ops_per_s float Lowest of these iterations.
max_ops_per_s float Highest of these iterations.
stddev_ops_per_s float Standard deviation of these iterations, as the tool prints it.
read_bandwidth_bytes_per_s float The reads' part; null where none are asked for.
write_bandwidth_bytes_per_s float The writes' part; null where none are asked for.
read_ops_per_s float Reads per second; null where none are asked for.
write_ops_per_s float Writes per second; null where none are asked for.
latency_min_s float Lowest latency of an I/O, as its caller waits (fio's lat; of metadata the operation, fio's clat).
latency_mean_s float Mean of these latencies.
latency_p50_s float Their median, from the histogram; a percentile is null with fewer than 10 I/Os beyond it. Reports
  show that of all repetitions' I/Os together; of outputs without histograms the geometric mean of the repetitions.
latency_p95_s float Their 95th percentile.
latency_p99_s float Their 99th percentile.
latency_p99_5_s float Their 99.5th percentile.
latency_p99_9_s float Their 99.9th percentile.
latency_max_s float The highest of them.
completion_latency_mean_s float Mean latency after the submission (fio's clat); null for metadata.
completion_latency_p50_s float Median of these latencies; reports show the geometric mean of the repetitions.
completion_latency_p99_s float Their 99th percentile.
completion_latency_p99_5_s float Their 99.5th percentile, which WEKA's page quotes.
completion_latency_p99_9_s float Their 99.9th percentile.
read_latency_mean_s float Mean latency of the reads alone.
read_latency_p99_s float 99th percentile of the reads alone.
write_latency_mean_s float Mean latency of the writes alone.
write_latency_p99_s float 99th percentile of the writes alone.
bytes_read int Bytes read inside the timing.
bytes_written int Bytes written inside the timing.
passes float How often the phase went over its files: bytes moved / bytes of the files.
ops int I/Os or files inside the timing.
runtime_s float Seconds that the tool timed (IOR: its total, open and close included).
open_s float IOR: seconds of its slowest open; part of `runtime_s`, not of `io_s`.
io_s float IOR: seconds of transfers, which `ops_per_s` is over.
close_s float IOR: seconds of its slowest close.
wall_s float Seconds from the tool's start to its end, start-up included.
start_skew_s float Tools that are started once on each node (fio): seconds from the first node's first I/O to the last
  node's.
verdict string valid, suspect, invalid or missing.
reasons string Why, joined by ' | '. Empty for valid.
left bool The next run measures it: nothing was measured yet, or a second try may cure what makes it suspect or invalid.
precision_grade string How far the repetitions of the point's phase agree: their 95 % interval is within 5 % (A), 10 %
  (B), 20 % (C); null where it is wider, or of fewer than 3 that count. The same in all rows that count.
ci95_half_width_share float Half width of that interval of the headline, as a share of it (docs/statistics.md).
checks_passed int Checks that passed.
checks_failed int Checks that failed.
checks_not_checked int Checks that could not be made (companion table `checks` says why).
confirms bool Fresh repetition of a best point: it had no part in the choice, and makes the headline.
unneeded bool Not measured, because a ramp does not need it (config/README.md).
started time When the phase's command started (UTC).
host string Node that ran the phase; of several the first.
hosts string All nodes that ran the phase, joined by commas, the first one first.
node string Key into the companion table `nodes`: hash of the facts of `host`.
ran_on string Processes of the tool that were seen on each node: `n1:32,n2:32`; null where none was seen.
pinning string enforce, strict: ranks and workers were to be bound; verify: looked at, not bound; off. Null where the
  record does not say (docs/pinning.md).
placement string How they were placed: spread, pack. Null where nothing was bound.
cpus string CPUs that ranks and workers were allowed on when they were looked at (`0-3,8`), on `host`.
reserved_cpus string CPUs that the file system keeps for itself on `host`, siblings included; empty where it keeps
  none, null where that is not known.
began_local string In outputs that others made: when the tool says that it began, by its node's clock, whose time zone
  it does not print (`2026-03-01T12:00:00`).
ended_local string The same of its end.
slurm_job string Slurm job that the phase ran in; null outside Slurm.
session string One run of an allocation: its Slurm job, else when it began (UTC).
session_number int Which of the campaign's sessions, from 1 (config/README.md).
tool_version string Version as the tool prints it.
tool_sha256 string Hash of the tool's binary.
build string Key of the build document: packages, compiler and MPI (`builds/<key>.json`, docs/store.md). Null where the
  record does not say.
target_directory string Directory that names the file system under test.
target_source string Mount source of the target, as /proc/self/mountinfo has it.
target_fstype string Type of the target's file system.
target_layout string Striping of the campaign's directory as the file system shows it, or why not.
command string Command of the phase, quoted for a POSIX shell; where each node has one, the first node's.
raw_sha256 string Hash of the archive of raw output that the figures come from; of an ingested row that of its file.
raw string Path of that archive below results/<campaign>/; of an ingested row where its file was (`archive!member`).
"""
)


@cache
def result_columns() -> tuple[Column, ...]:
    """Columns of results.parquet and results.csv."""
    return (*_IDENTITY, *_parameters(), *_MEASURED)


def _parameters() -> Iterator[Column]:
    """A column for each axis and option of the tools."""
    for option in parameters().values():
        if option is not PHASE_TIME:
            yield Column(option.column, _TYPES[option.kind], option.help)
        if option.name == "threads_per_node":
            yield Column("tasks", "int", "Ranks or workers of all nodes together, as the tool reports them.")


#: Columns of checks.parquet: one row per results row and check.
CHECK_COLUMNS = _table(
    """
point string Id of the point.
repetition int Number of the repetition.
phase string Phase.
check string Name of the check, as docs/report.md has it.
outcome string pass, fail or not checked.
severity string What a fail makes of the row: invalid or suspect.
evidence string What was seen, or why it could not be checked.
"""
)

#: Columns of nodes.parquet: one row per node and distinct set of facts. Null: the value could not be read.
NODE_COLUMNS = _table(
    """
node string Key: hash of the facts.
host string Host name.
kernel string Kernel release.
os string Distribution, as /etc/os-release has it.
cpu_model string CPU model.
cpus int Logical CPUs that are online.
sockets int CPU packages.
threads_per_core int Logical CPUs of a core; more than 1 is hyper-threading.
cpus_allowed string CPUs that the runner may use (its affinity mask).
numa list NUMA nodes.
  .node int Number.
  .cpus string Its CPUs.
  .memory_bytes int Its memory.
cores string CPUs of each core, siblings together (`0,28 1,29`), in the order in which Slurm counts.
socket_cpus string CPUs of each socket (`0-27 28-55`).
reserved_cpus string CPUs that the file system keeps for itself, siblings included; empty where it keeps none. Null with
  `reserved_sources`: there are some, but it is not known which.
reserved_sources list Sources that name reserved CPUs. Null if they were not read.
  .source string Command, file or key of the configuration.
  .cpus string CPUs that it names; null where it does not name them.
  .says string In words.
used_cpus string CPUs that ranks and workers of its results were allowed on when they were looked at. Null where none
  was.
governor string Governor of the CPUs' frequency; several joined by commas.
clocksource string The kernel's clock.
transparent_hugepages string always, madvise or never.
memory_bytes int Main memory.
nics list Network interfaces with a device behind them, and ports of InfiniBand and RoCE adapters.
  .name string Name; of a port as in mlx5_0/1.
  .state string up, down (on, but without a link), off, or another word of the kernel's.
  .speed_bits_per_s int Speed of the link.
  .driver string Driver.
  .numa_node int NUMA node that it is on; null where the machine does not say.
fstype string Type of the target's file system.
mount string The target's mount line.
memory_available_bytes int Memory that programs can get. This and all below may change: as the newest run found it.
target_bytes int Size of the target as df counts: what is used, and what users can have.
target_free_bytes int Free space of the target, for users.
target_inodes int Inodes of the target; null where it counts none.
target_free_inodes int Free inodes of the target, for users.
"""
)

_KEY = _table(
    """
point string Id of the point.
repetition int Number of the repetition.
attempt int Number of the try that counts.
phase string Phase.
host string Node; empty where the tool does not tell nodes apart.
"""
)

#: Columns of series.parquet: one row per results row, node and quantity.
SERIES_COLUMNS = _KEY + _table(
    """
quantity string What it is, with its unit, as a column of the results has it.
begin_s float When the first interval began, in seconds since the first I/O of any node.
interval_s float Length of each interval in seconds.
values floats The quantity in each interval; null where nothing was read.
"""
)

#: Columns of node_rates.parquet: one row per results row and node or worker.
RATE_COLUMNS = _KEY + _table(
    """
worker int Number of the worker on its node, or the rank, from 0; null for the whole node.
bandwidth_bytes_per_s float Bytes that it moved per second.
ops_per_s float I/Os or files per second.
"""
)

#: Columns of histograms.parquet: one row per results row whose tool reports a latency histogram.
HISTOGRAM_COLUMNS = _KEY[:4] + _table(
    """
lowest_s float Upper bound of the first bin in seconds.
factor float How much larger the upper bound of each bin is than that of the one before.
counts floats I/Os in each bin, by what their callers waited; all nodes and workers together.
"""
)

#: Table -> its columns.
TABLES: Mapping[str, Callable[[], tuple[Column, ...]]] = {
    "results.parquet": result_columns,
    "checks.parquet": lambda: CHECK_COLUMNS,
    "nodes.parquet": lambda: NODE_COLUMNS,
    "series.parquet": lambda: SERIES_COLUMNS,
    "node_rates.parquet": lambda: RATE_COLUMNS,
    "histograms.parquet": lambda: HISTOGRAM_COLUMNS,
}


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The columns as an Arrow schema (times are UTC microseconds)."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
        "floats": pa.list_(pa.float64()),
    }

    def field(column: Column) -> pa.Field:
        if column.type == "list":
            return pa.field(column.name, pa.list_(pa.struct([field(element) for element in column.fields])))
        return pa.field(column.name, types[column.type])

    return pa.schema([field(column) for column in columns])
