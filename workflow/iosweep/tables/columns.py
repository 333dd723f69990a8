"""The columns of all tables: merge writes them, the report reads them, docs/columns.md is made from them.

`results.parquet` and `results.csv` have one row per point, repetition and phase. Units are SI base units and stand in
the name. An absent value is null (parquet) or an empty field (CSV), never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from iosweep.tools import OptionKind, parameters
from iosweep.tools.axes import PHASE_TIME

if TYPE_CHECKING:
    import pyarrow as pa


Type = Literal["string", "int", "float", "bool", "time", "list", "floats"]


@dataclass(frozen=True)
class Column:
    """A column: its name (with the unit), its type and what it means. A list's elements have fields of their own."""

    name: str
    type: Type
    doc: str
    fields: tuple[Column, ...] = ()


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
        "Phase: seq_write, seq_read, rand_write, rand_read, seq_mixed, rand_mixed; create, stat, read, delete (files);"
        " dir_create, dir_stat, dir_rename, dir_delete."
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
    Column(
        "other_options",
        "string",
        "fio, IOR: options that change I/O and are in no column; only in outputs that others made. Unlike ones are"
        " other points.",
    ),
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


_NEWEST = "As the newest run found it."

#: Companion table nodes.parquet: one row per node and distinct set of facts. Null is what could not be read.
NODE_COLUMNS: tuple[Column, ...] = (
    Column("node", "string", "Key: hash of the facts."),
    Column("host", "string", "Host name."),
    Column("kernel", "string", "Kernel release."),
    Column("os", "string", "Distribution, as /etc/os-release has it."),
    Column("cpu_model", "string", "CPU model."),
    Column("cpus", "int", "Logical CPUs that are online."),
    Column("sockets", "int", "CPU packages."),
    Column("threads_per_core", "int", "Logical CPUs of a core; more than 1 is hyper-threading."),
    Column("cpus_allowed", "string", "CPUs that the runner may use (its affinity mask)."),
    Column(
        "numa",
        "list",
        "NUMA nodes.",
        (
            Column("node", "int", "Number."),
            Column("cpus", "string", "Its CPUs."),
            Column("memory_bytes", "int", "Its memory."),
        ),
    ),
    Column(
        "cores", "string", "CPUs of each core, siblings together (`0,28 1,29`), in the order in which Slurm counts."
    ),
    Column("socket_cpus", "string", "CPUs of each socket (`0-27 28-55`)."),
    Column(
        "reserved_cpus",
        "string",
        "CPUs that the file system keeps for itself, siblings included; empty where it keeps none. Null with"
        " `reserved_sources`: there are some, but it is not known which.",
    ),
    Column(
        "reserved_sources",
        "list",
        "Sources that name reserved CPUs. Null if they were not read.",
        (
            Column("source", "string", "Command, file or key of the configuration."),
            Column("cpus", "string", "CPUs that it names; null where it does not name them."),
            Column("says", "string", "In words."),
        ),
    ),
    Column(
        "used_cpus",
        "string",
        "CPUs that ranks and workers of its results were allowed on when they were looked at. Null where none was.",
    ),
    Column("governor", "string", "Governor of the CPUs' frequency; several joined by commas."),
    Column("clocksource", "string", "The kernel's clock."),
    Column("transparent_hugepages", "string", "always, madvise or never."),
    Column("memory_bytes", "int", "Main memory."),
    Column(
        "nics",
        "list",
        "Network interfaces with a device behind them, and ports of InfiniBand and RoCE adapters.",
        (
            Column("name", "string", "Name; of a port as in mlx5_0/1."),
            Column("state", "string", "up, down (on, but without a link), off, or another word of the kernel's."),
            Column("speed_bits_per_s", "int", "Speed of the link."),
            Column("driver", "string", "Driver."),
            Column("cpus", "string", "CPUs that are near it, as the kernel says."),
            Column("numa_node", "int", "NUMA node that it is on; null where the machine does not say."),
        ),
    ),
    Column("fstype", "string", "Type of the target's file system."),
    Column("mount", "string", "The target's mount line."),
    # these may differ between runs: facts.VOLATILE
    Column("memory_available_bytes", "int", f"Memory that programs can get. {_NEWEST}"),
    Column("load_1_min", "float", f"Load average over 1 minute, before anything is measured. {_NEWEST}"),
    Column("load_5_min", "float", f"Over 5 minutes. {_NEWEST}"),
    Column("load_15_min", "float", f"Over 15 minutes. {_NEWEST}"),
    Column("read_at", "string", f"When these facts were read, in local time with its offset. {_NEWEST}"),
    Column("target_bytes", "int", f"Size of the target as df counts: what is used, and what users can have. {_NEWEST}"),
    Column("target_free_bytes", "int", f"Free space of the target, for users. {_NEWEST}"),
    Column("target_inodes", "int", f"Inodes of the target; null where it counts none. {_NEWEST}"),
    Column("target_free_inodes", "int", f"Free inodes of the target, for users. {_NEWEST}"),
    Column(
        "tools",
        "list",
        f"Programs that measure. {_NEWEST}",
        (
            Column("name", "string", "Tool, or mpiexec."),
            Column("path", "string", "Where it was found."),
            Column("version", "string", "Version as it prints it."),
        ),
    ),
)

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
RATE_COLUMNS: tuple[Column, ...] = (
    *_KEY,
    Column("bandwidth_bytes_per_s", "float", "Bytes that it moved per second."),
    Column("ops_per_s", "float", "I/Os or files per second."),
)

#: One row per row of the results whose tool has a histogram of its latencies.
HISTOGRAM_COLUMNS: tuple[Column, ...] = (
    *_KEY[:4],
    Column("lowest_s", "float", "Upper bound of the first bin in seconds."),
    Column("factor", "float", "How much larger the upper bound of each bin is than that of the one before."),
    Column("counts", "floats", "I/Os in each bin, by what their callers waited; all nodes and workers together."),
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
            return pa.field(column.name, pa.list_(pa.struct([field(own) for own in column.fields])))
        return pa.field(column.name, types[column.type])

    return pa.schema([field(column) for column in columns])


def markdown() -> str:
    """docs/columns.md."""
    parts = [
        "# Columns\n",
        "For readers of `results.parquet` and `results.csv`: every column, with its type and unit.\n",
        "Made by `scripts/generate` from `workflow/iosweep/tables/columns.py`. "
        "An absent value is null in the parquet file and an empty field in the CSV, never 0. "
        "In the CSV, text that begins with `=`, `+`, `-`, `@` (or their full-width forms), also behind blanks and "
        "invisible characters, or with a tab or a line break, and is not a number, has an apostrophe in front, because "
        "a spreadsheet would take it for a formula; "
        "the parquet file has it as it was measured. "
        "This holds where the file is opened with the comma as its separator: with `;`, as in some languages, a "
        "spreadsheet splits text that contains `;=`, and what follows may be a formula.\n",
    ]
    for title, columns in (
        ("results.parquet, results.csv: one row per point, repetition and phase", result_columns()),
        ("checks.parquet: one row per row of the results and check", CHECK_COLUMNS),
        ("nodes.parquet: one row per node and set of facts", NODE_COLUMNS),
        ("series.parquet: one row per row of the results, node or worker, and quantity", SERIES_COLUMNS),
        ("node_rates.parquet: one row per row of the results, and node or worker", RATE_COLUMNS),
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
