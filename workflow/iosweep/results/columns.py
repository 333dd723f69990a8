"""The one table of the result table's columns: merge writes it, the report reads it, docs/columns.md is made from it.

`results.parquet` and `results.csv` have one row per point, repetition and phase. Units are SI base units and stand in
the name. An absent value is null (parquet) or an empty field (CSV), never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from iosweep.results.column import Column, Type
from iosweep.results.node_columns import NODE_COLUMNS
from iosweep.results.series_columns import HISTOGRAM_COLUMNS, PART_COLUMNS, SERIES_COLUMNS
from iosweep.tools import OptionKind, parameters
from iosweep.tools.axes import PHASE_TIME

if TYPE_CHECKING:
    import pyarrow as pa


#: The reason of a row whose repetition is still to be measured, where nothing stopped its allocation.
NOT_YET = "not measured yet"

_LATENCY = "Latency of one I/O in seconds, as its caller waits (fio's lat; of metadata the operation, fio's clat)"
_COMPLETION = "The part of it after the submission (fio's clat)"
_ENOUGH = "from the histogram; null with fewer than 10 I/Os beyond it"

_IDENTITY: tuple[Column, ...] = (
    Column("campaign", "string", "Name of the campaign."),
    Column("sweeps", "string", "Sweeps that contain the point, joined by commas."),
    Column("point", "string", "Id of the point: readable name and a hash of everything that determines it."),
    Column("repetition", "int", "Number of the repetition, from 1."),
    Column("attempt", "int", "Number of the try of that repetition whose figures these are, from 1."),
    Column(
        "phase",
        "string",
        "Phase: seq_write, seq_read, rand_write, rand_read, rand_mixed; create, stat, read, delete (files);"
        " dir_create, dir_stat, dir_rename, dir_delete; tree_create, tree_delete (only in what `iosweep parse` reads)."
        " Null where a file does not tell.",
    ),
    Column("label", "string", "What the tool's own output calls the row: fio's job, IOR's access, mdtest's operation."),
    Column("kind", "string", "data (bytes are moved) or metadata (files are created, looked up, deleted)."),
    Column("tool", "string", "Tool that measured: fio, ior or mdtest."),
    Column("metric", "string", "Column that is this phase's headline: bandwidth_bytes_per_s or ops_per_s."),
)

#: What a column holds, by the kind of its option.
_TYPES: Mapping[OptionKind, Type] = {"size": "int", "count": "int", "flag": "bool", "choice": "string"}

_MEASURED: tuple[Column, ...] = (
    Column("segments", "int", "IOR: segments of a file, of one block of each rank; only in outputs that others made."),
    Column("phase_time_s", "float", "Seconds asked for; null where a count bounds the phase."),
    # figures
    Column(
        "bandwidth_bytes_per_s",
        "float",
        "Bytes moved per second, reads and writes together; null for metadata.",
    ),
    Column("ops_per_s", "float", "I/Os (data) or files (metadata) per second, reads and writes together."),
    Column(
        "sampled_ops_per_s",
        "float",
        "fio's `iops avg`: the mean of its samples, which WEKA's page quotes. `ops_per_s` is operations / time.",
    ),
    Column(
        "sum_of_rates_bytes_per_s",
        "float",
        "Tools that are started once on each node (fio), on several nodes: the nodes' own rates added up."
        " `bandwidth_bytes_per_s` is all bytes over the time from the first node's start to the last one's end.",
    ),
    Column("sum_of_rates_ops_per_s", "float", "The same of operations, beside `ops_per_s`."),
    Column(
        "within_run_sd_share",
        "float",
        "Standard deviation of fio's samples of IOPS within the run, as a share of their mean; of one node that only"
        " reads or only writes.",
    ),
    Column("iterations", "int", "Iterations that a tool's own summary is over (`ops_per_s` is then their mean)."),
    Column("min_ops_per_s", "float", "Lowest of these iterations."),
    Column("max_ops_per_s", "float", "Highest of these iterations."),
    Column("stddev_ops_per_s", "float", "Standard deviation of these iterations, as the tool prints it."),
    Column("read_bandwidth_bytes_per_s", "float", "The reads' part; null where none are asked for."),
    Column("write_bandwidth_bytes_per_s", "float", "The writes' part; null where none are asked for."),
    Column("read_ops_per_s", "float", "Reads per second; null where none are asked for."),
    Column("write_ops_per_s", "float", "Writes per second; null where none are asked for."),
    Column("latency_min_s", "float", f"{_LATENCY}: smallest."),
    Column("latency_mean_s", "float", f"{_LATENCY}: arithmetic mean."),
    Column("latency_stddev_s", "float", f"{_LATENCY}: standard deviation."),
    Column("latency_p50_s", "float", f"{_LATENCY}: median, {_ENOUGH}."),
    Column("latency_p95_s", "float", f"{_LATENCY}: 95th percentile, {_ENOUGH}."),
    Column("latency_p99_s", "float", f"{_LATENCY}: 99th percentile, {_ENOUGH}."),
    Column("latency_p99_5_s", "float", f"{_LATENCY}: 99.5th percentile, {_ENOUGH}."),
    Column("latency_p99_9_s", "float", f"{_LATENCY}: 99.9th percentile, {_ENOUGH}."),
    Column("latency_max_s", "float", f"{_LATENCY}: largest."),
    Column("completion_latency_mean_s", "float", f"{_COMPLETION}: arithmetic mean; null for metadata."),
    Column("completion_latency_p50_s", "float", f"{_COMPLETION}: median."),
    Column("completion_latency_p99_s", "float", f"{_COMPLETION}: 99th percentile."),
    Column("completion_latency_p99_5_s", "float", f"{_COMPLETION}: 99.5th percentile, which WEKA's page quotes."),
    Column("completion_latency_p99_9_s", "float", f"{_COMPLETION}: 99.9th percentile."),
    Column("read_latency_mean_s", "float", "Mean latency of the reads alone."),
    Column("read_latency_p99_s", "float", "99th percentile of the reads alone."),
    Column("write_latency_mean_s", "float", "Mean latency of the writes alone."),
    Column("write_latency_p99_s", "float", "99th percentile of the writes alone."),
    Column("bytes_read", "int", "Bytes read inside the timing."),
    Column("bytes_written", "int", "Bytes written inside the timing."),
    Column("passes", "float", "How often the phase went over its files: bytes moved / bytes of the files."),
    Column("ops", "int", "I/Os or files inside the timing."),
    Column("runtime_s", "float", "Seconds that the tool timed (IOR: its total, open and close included)."),
    Column("open_s", "float", "IOR: seconds of its slowest open; part of `runtime_s`, not of `io_s`."),
    Column("io_s", "float", "IOR: seconds of transfers, which `ops_per_s` is over."),
    Column("close_s", "float", "IOR: seconds of its slowest close."),
    Column("wall_s", "float", "Seconds from the tool's start to its end, start-up included."),
    Column(
        "start_skew_s",
        "float",
        "Tools that are started once on each node (fio), on several nodes: seconds from the first node's start of I/O"
        " to the last one's.",
    ),
    Column("rate_deviation", "float", "Standard deviation of the rate over time, as a fraction of its mean."),
    Column("slowest_node", "string", "Node with the lowest rate of its own; null on one node."),
    Column("slowest_node_share", "float", "Its rate as a fraction of the median of the nodes."),
    Column("slowest_worker", "string", "Worker with the lowest rate: `n1/5`, or the number alone on one node."),
    Column("slowest_worker_share", "float", "Its rate as a fraction of the median of the workers."),
    # verdict
    Column(
        "settled_s", "float", "Time that had passed since iosweep last deleted files on the target; null if it had not."
    ),
    Column("verdict", "string", "valid, suspect, invalid or missing."),
    Column("reasons", "string", "Why, joined by ' | '. Empty for valid."),
    Column(
        "left",
        "bool",
        "The next run measures it: true only where the verdict is missing and no tool, node or time limit prevents it.",
    ),
    Column(
        "precision_grade",
        "string",
        "How far the repetitions of the point's phase agree: their 95 % interval is within 5 % (A), 10 % (B), 20 % (C);"
        " null where it is wider, or of fewer than 3 that count. The same in all rows of a point's phase that count.",
    ),
    Column(
        "ci95_half_width_share",
        "float",
        "Half width of that interval of the phase's headline, as a share of it (docs/statistics.md).",
    ),
    Column("checks_passed", "int", "Checks that passed."),
    Column("checks_failed", "int", "Checks that failed."),
    Column("checks_not_checked", "int", "Checks that could not be made (companion table `checks` says why)."),
    Column(
        "confirms", "bool", "Fresh repetition of a best point: it had no part in the choice, and makes the headline."
    ),
    Column("unneeded", "bool", "Not measured, because a ramp does not need it (config/README.md)."),
    # provenance
    Column("started", "time", "When the phase's command started (UTC)."),
    Column("host", "string", "Node that ran the phase; of several the first."),
    Column("hosts", "string", "All nodes that ran the phase, joined by commas, the first one first."),
    Column("node", "string", "Key into the companion table `nodes`: hash of the facts of `host`."),
    Column(
        "ran_on",
        "string",
        "Processes of the tool that were seen on each node while it ran: `n1:32,n2:32`; null where none was seen.",
    ),
    Column(
        "pinning",
        "string",
        "enforce, strict: ranks and workers were to be bound; verify: looked at, not bound; off. Null where the record"
        " does not say (docs/pinning.md).",
    ),
    Column("placement", "string", "How they were placed: spread, pack, near_nic. Null where nothing was bound."),
    Column(
        "cpus", "string", "CPUs that ranks and workers were allowed on when they were looked at (`0-3,8`), on `host`."
    ),
    Column(
        "reserved_cpus",
        "string",
        "CPUs that the file system keeps for itself on `host`, siblings included; empty where it keeps none, null where"
        " it is not known.",
    ),
    Column("cpu_looks", "int", "Smallest number of looks at processes and threads on any node."),
    Column(
        "began_local",
        "string",
        "In outputs that others made: when the tool says that it began, by its node's clock, whose time zone it does"
        " not print (`2026-03-01T12:00:00`).",
    ),
    Column("ended_local", "string", "The same of its end."),
    Column("slurm_job", "string", "Slurm job that the phase ran in; null outside Slurm."),
    Column(
        "session",
        "string",
        "One run of an allocation: its Slurm job, else when it began (UTC). Repetitions of one session share what"
        " differs between sessions.",
    ),
    Column("tool_version", "string", "Version as the tool prints it."),
    Column("tool_sha256", "string", "Hash of the tool's binary."),
    Column(
        "build",
        "string",
        "Key of the build document: packages, compiler and MPI of what measured (`builds/<key>.json`, docs/store.md)."
        " Null where the record does not say.",
    ),
    Column("target_directory", "string", "Directory that names the file system under test."),
    Column("target_source", "string", "Mount source of the target, as /proc/self/mountinfo has it."),
    Column("target_fstype", "string", "Type of the target's file system."),
    Column("target_layout", "string", "Striping of the campaign's directory as the file system shows it, or why not."),
    Column(
        "command",
        "string",
        "Command of the phase, quoted for a POSIX shell; of a tool that is started once on each node, the first one's.",
    ),
    Column(
        "raw_sha256",
        "string",
        "Hash of the archive of raw output that the figures come from; of an ingested row that of its file.",
    ),
    Column(
        "raw",
        "string",
        "Path of that archive below results/<campaign>/; of an ingested row where its file was (`archive!member`).",
    ),
)


@cache
def result_columns() -> tuple[Column, ...]:
    """Columns of results.parquet and results.csv."""
    return (*_IDENTITY, *_parameters(), *_MEASURED)


def _parameters() -> Iterator[Column]:
    """A column for each axis and option of the tools."""
    for option in parameters().values():
        if option is not PHASE_TIME:
            yield Column(option.column, _TYPES[option.kind], option.meaning)
        if option.name == "threads_per_node":
            yield Column("tasks", "int", "Ranks or workers of all nodes together, as the tool reports them.")


#: Columns of checks.parquet: one row per row of the results and check.
CHECK_COLUMNS: tuple[Column, ...] = (
    Column("point", "string", "Id of the point."),
    Column("repetition", "int", "Number of the repetition."),
    Column("phase", "string", "Phase."),
    Column("check", "string", "Name of the check, as docs/report.md has it."),
    Column("outcome", "string", "pass, fail, not checked or not applicable."),
    Column("severity", "string", "What a fail makes of the row: invalid or suspect."),
    Column("evidence", "string", "What was seen, or why it could not be checked."),
)


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
            return pa.field(column.name, pa.list_(pa.struct([field(own) for own in column.fields])))
        return pa.field(column.name, types[column.type])

    return pa.schema([field(column) for column in columns])


def markdown() -> str:
    """docs/columns.md."""
    parts = [
        "# Columns\n",
        "For readers of `results.parquet` and `results.csv`: every column, with its type and unit.\n",
        "Made by `iosweep generate` from `workflow/iosweep/results/columns.py`. "
        "An absent value is null in the parquet file and an empty field in the CSV, never 0. "
        "In the CSV, text that begins with `=`, `+`, `-`, `@` (or their full-width forms), also behind blanks and "
        "invisible characters, or with a tab or a line break, and is not a number, has an apostrophe in front, because "
        "a spreadsheet would take it for a formula; "
        "the parquet file has it as it was measured. `iosweep plan --csv` and `show --csv` do the same. "
        "This holds where the file is opened with the comma as its separator: with `;`, as in some languages, a "
        "spreadsheet splits text that contains `;=`, and what follows may be a formula.\n",
    ]
    for title, columns in (
        ("results.parquet, results.csv: one row per point, repetition and phase", result_columns()),
        ("checks.parquet: one row per row of the results and check", CHECK_COLUMNS),
        ("nodes.parquet: one row per node and set of facts", NODE_COLUMNS),
        ("series.parquet: one row per row of the results, node or worker, and quantity", SERIES_COLUMNS),
        ("parts.parquet: one row per row of the results, and node or worker", PART_COLUMNS),
        ("histograms.parquet: one row per row of the results with a histogram of its latencies", HISTOGRAM_COLUMNS),
    ):
        parts.append(f"## {title}\n")
        parts.append("| column | type | meaning |\n|---|---|---|")
        parts.append("\n".join(_lines(columns)) + "\n")
    return "\n".join(parts)


def _lines(columns: tuple[Column, ...], within: str = "") -> Iterator[str]:
    for column in columns:
        yield f"| `{within}{column.name}` | {column.type} | {column.doc} |"
        yield from _lines(column.fields, f"{column.name}[].")
