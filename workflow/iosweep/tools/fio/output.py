"""fio's JSON (json and json+, local and client mode) -> figures, evidence and problems. Pure, and never raises.

`parse` is for campaigns, which know what they asked for; `read` is for files of others (`iosweep ingest`), whose
options tell what ran. Both read 3.18 and newer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from iosweep.tools import CLOCK_S, Echo, Evidence, Parsed, Phase, contradictions
from iosweep.tools.fio.command import ENGINE, PHASES, RW
from iosweep.tools.fio.records import (
    ALL_CLIENTS,
    DOCUMENT,
    OF_FILES,
    UNREADABLE,
    Direction,
    Document,
    Entry,
    Wrong,
    decoded,
    latency_columns,
    latency_histogram,
    no_document,
    read_document,
    reason,
    split_documents,
)
from iosweep.tools.reading import (
    Cell,
    ProblemSeverity,
    Reading,
    ReadingProblem,
    local_date,
    too_many_in_flight,
    too_short,
    too_short_to_be_steady,
    waits_at_submission,
)
from iosweep.units import LARGEST_SIZE

#: Direction (`read`, `write`) of the phase -> its block in fio's JSON.
Parts = Mapping[str, Direction]
#: The report of a node: figures and evidence, and the blocks of fio's JSON that they come from.
NodeReport = tuple[Parsed, Parts]
Options = Mapping[str, str]


def parse(stdout: bytes, phase: Phase, asked: Options | None = None) -> NodeReport:
    """Figures of one local run with group_reporting (one entry in `jobs`), and fio's blocks that they come from.

    `asked`: options of the command, to compare with. Text before the JSON is normal (notes, warnings, `fio: pid=...,
    err=28/...`) and kept as evidence `messages`.
    Percentiles are those of fio's own histogram, or, for a mixed phase, of the two histograms added up.
    """
    lines, found, problem = read_document(stdout)
    messages = lines[:20]
    if found is None:
        return Parsed(evidence=Evidence(messages=messages), problems=[problem, *messages[:3]]), {}
    jobs = found.jobs or []
    if len(jobs) != 1:
        wrong = f"expected one group of jobs in fio's JSON, found {len(jobs)}"
        return Parsed(found.version or None, {}, Evidence(messages=messages), [wrong]), {}
    return of_entry(jobs[0], found.version, phase, messages, asked)


def of_entry(
    job: Entry, version: str, phase: Phase, messages: Sequence[str], asked: Options | None
) -> tuple[Parsed, Parts]:
    """An entry of `jobs` or `client_stats`: a group of workers on one node."""
    # fio counts its file engines' work as reads
    wanted = {"read": phase.reads or phase.kind == "metadata", "write": phase.writes and phase.kind == "data"}
    try:
        directions = {name: job.direction(name) for name in wanted}
        parts = {name: part for name, part in directions.items() if wanted[name]}
        figures = figures_of([parts], phase)
        latencies = latency_histogram(parts.values(), phase.kind == "metadata")
    except UNREADABLE as error:
        return Parsed(version or None, {}, Evidence(messages=messages), [reason(error)]), {}
    errors = []
    if job.error:
        errors.append(f"error {job.error}" + (f": {messages[0].strip()[:200]}" if messages else ""))
    short, dropped = sum(part.short_ios for part in parts.values()), sum(part.drop_ios for part in parts.values())
    if short or dropped:
        errors.append(f"{short} short and {dropped} dropped I/Os")
    evidence = Evidence(
        errors=errors,
        silent_directions=[name for name, part in parts.items() if not part.total_ios],
        unasked_directions=[n for n, part in directions.items() if not wanted[n] and part.total_ios],
        worker_seconds=(job.job_runtime or 0) / 1000,
        depth_percent=job.iodepth_level or {},
        computing=job.usr_cpu / (job.usr_cpu + job.sys_cpu) if job.usr_cpu else 0.0,
        rate_times_runtime_bytes=sum(part.bw_bytes * part.runtime / 1000 for part in parts.values()),
        transferred_bytes=sum(part.io_bytes for part in parts.values()),
        began_s=job.job_start / 1000 if job.job_start else None,
        messages=messages,
        echo=compared(asked, job.options),
        timed_s=figures["runtime_s"],
        latencies=latencies,
    )
    return Parsed(version or None, figures, evidence, []), parts


def figures_of(nodes: Sequence[Parts], phase: Phase, window_s: float | None = None) -> dict[str, float]:
    """Figures of one node or several: rates over the window from the first I/O of any to the last. Without it they are
    the sums of the nodes' own, as fio and WEKA's page have them."""
    directions = {name: [parts[name] for parts in nodes] for name in nodes[0]}
    every = [part for parts in directions.values() for part in parts]
    figures: dict[str, float] = {
        "ops": sum(part.total_ios for part in every),
        "ops_per_s": sum(part.iops for part in every),
        "runtime_s": max(part.runtime for part in every) / 1000,
    }
    sampled = sum(part.iops_mean for part in every)
    # for some groups of jobs fio's iops_mean is that of one worker: then it is left out
    if abs(sampled - figures["ops_per_s"]) <= 0.1 * figures["ops_per_s"]:
        figures["sampled_ops_per_s"] = sampled
    if phase.kind == "data":
        figures["bandwidth_bytes_per_s"] = float(sum(part.bw_bytes for part in every))
        for name, parts in directions.items():
            figures[f"{name}_bandwidth_bytes_per_s"] = float(sum(part.bw_bytes for part in parts))
            figures[f"{name}_ops_per_s"] = sum(part.iops for part in parts)
            figures["bytes_read" if name == "read" else "bytes_written"] = sum(part.io_bytes for part in parts)
    figures |= latency_columns(directions, phase.kind == "metadata")
    if not window_s:
        return figures
    figures |= {"sum_of_rates_ops_per_s": figures["ops_per_s"], "ops_per_s": figures["ops"] / window_s}
    if phase.kind == "data":
        figures["sum_of_rates_bytes_per_s"] = figures["bandwidth_bytes_per_s"]
        for name, parts in directions.items():
            figures[f"{name}_ops_per_s"] = sum(part.total_ios for part in parts) / window_s
            figures[f"{name}_bandwidth_bytes_per_s"] = sum(part.io_bytes for part in parts) / window_s
        figures["bandwidth_bytes_per_s"] = sum(figures[f"{name}_bandwidth_bytes_per_s"] for name in directions)
    return figures


# -- what fio says of its options --------------------------------------------------------------------------------------

#: Options of a command that `job options` does not have, that differ from run to run, or that change no I/O.
_NOT_COMPARED = frozenset(
    ("eta", "output-format", "name", "directory", "randseed", "cpus_allowed", "cpus_allowed_policy", "disk_util",
     "clocksource", "lat_percentiles", "clat_percentiles", "write_bw_log", "log_avg_msec", "per_job_logs")
)  # fmt: skip
#: Option of a point -> fio's option that does it, where that is 1.
_CONFIRMS = {"o_direct": "direct", "fsync": "end_fsync"}


def asked_for(argv: Sequence[str]) -> Options:
    """The options with a value of a command, which fio prints as they were given; without one it prints none."""
    pairs = [argument.removeprefix("--").split("=", 1) for argument in argv if "=" in argument]
    return {name: value for name, value in pairs if name not in _NOT_COMPARED}


def compared(asked: Options | None, told: Options | None) -> Echo | None:
    """How `job options` differ from what was asked for; None where fio printed none (some servers in client mode)."""
    if asked is None or told is None:
        return None
    # a flag has no value: it is printed in client mode only
    used = {name: value for name, value in told.items() if name in asked or (value and name not in _NOT_COMPARED)}
    confirmed = frozenset(own for own, name in _CONFIRMS.items() if told.get(name) == "1")
    return Echo(contradictions("fio", asked, used), confirmed, len(asked), told.get("directory"))


# -- files of others ---------------------------------------------------------------------------------------------------

Row = dict[str, Cell]
#: Messages of fio about a spoiled run. Its exit code may be 0.
_SPOILED = re.compile(
    r"fio: (?:terminating on signal|failed to |client/server version mismatch|server bad crc|pid=\d+, err=[1-9]"
    r"|pid=\d+, got signal|io_u error|job .* dropped|unable to open|engine \S+ not loadable|output file open error"
    r"|file creation disallowed|ENOSPC)|client: host=\S+ disconnected|failed to setup shm|Bad option <"
)
#: Lines of a job file.
_SECTION = re.compile(r"\s*\[([^\]]+)\]\s*$")
_OPTION = re.compile(r"\s*([a-z_0-9]+)\s*(?:=\s*(.*?)\s*)?$")
_ALIASES = {"readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange", "nr_files": "nrfiles"}
#: The group of a report that belongs to none: -1 in 32 bits. fio reserves such places for sections.
_NO_GROUP = 0xFFFFFFFF
#: Milliseconds since 1970 at the end of the last year that a date can have.
_LAST_MS = 253_402_300_799_000
#: fio's engines for directories (3.36), which no phase has.
_DIRECTORIES = ("dircreate", "dirstat", "dirdelete")
#: A timed run that is shorter or longer than this share of what was asked for was interrupted, or waited.
_SHORTEST, _LONGEST = 0.98, 1.05
#: Options that make writes durable inside the timing.
_FLUSHING = ("end_fsync", "fsync", "fdatasync", "fsync_on_close", "sync")
_OFF = re.compile(r"(?:0[a-z]*,?)+|none")
#: Option -> the column that holds it, unless its value does not fit the column.
_COLUMNS = {"bs": "transfer_size_bytes", "iodepth": "queue_depth", "size": "file_size_bytes",
            "filesize": "file_size_bytes", "rwmixread": "read_percent", "rwmixwrite": "read_percent"}  # fmt: skip
#: Options that columns hold, or that change no I/O: places, seeds, logs, output.
_NO_CONDITIONS = _NOT_COMPARED | frozenset(
    ("rw", "direct", "buffered", "ioengine", "numjobs", "runtime", "time_based", "filename", "filename_format",
     "hostname", "port", "opendir", "offset", "description", "randrepeat", "allrandrepeat", "allow_file_create",
     "unlink", "thread", "create_serialize", "exitall", "exitall_on_error", "group_reporting", "new_group",
     "stonewall", "exec_prerun", "exec_postrun", "write_lat_log", "write_iops_log", "write_hist_log",
     "log_hist_msec", "log_max_value", "log_offset", "log_unix_epoch", "percentile_list", "slat_percentiles",
     "status_interval", "bwavgtime", "iopsavgtime", "unified_rw_reporting", "unit_base")
)  # fmt: skip
#: Options that hold a job's rate down.
_LIMITS = ("rate", "rate_iops", "thinktime", "read_iolog", "flow", "verify")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class _Report(NamedTuple):
    """An entry with its options over the global ones, and the columns of its parameters."""

    entry: Entry
    options: Options
    phase: Phase
    parameters: Row


def read(data: bytes) -> Reading:
    """The rows and problems of a file.

    Reports of workers (without group_reporting) and of clients that did the same at the same time are one row: counts
    and rates are added up, and percentiles come from the histograms of json+, added up bin by bin.
    """
    lines, parts = split_documents(data)
    spoiled = [f"fio says: {line.strip()[:200]}" for line in dict.fromkeys(lines) if _SPOILED.search(line)][:3]
    sections = _sections(lines)
    documents: list[Document | str] = []
    for part in parts:
        if b'"fio version"' not in part:
            continue
        document = decoded(part, DOCUMENT)
        if isinstance(document, Document) and not document.version:
            several = decoded(part, OF_FILES)
            documents += [several] if isinstance(several, str) else several.values()
        else:
            documents.append(document)
    documents = documents or [no_document(data)]
    runs = [
        ([], [ReadingProblem("invalid", one)]) if isinstance(one, str) else _read_document(one, sections)
        for one in documents
    ]
    reading = Reading.of_runs(runs)
    severity: ProblemSeverity = "suspect" if reading.rows else "invalid"
    return replace(reading, problems=[*reading.problems, *(ReadingProblem(severity, text) for text in spoiled)])


def _sections(lines: Iterable[str]) -> dict[str, Options]:
    """The sections of job files, without [global], which is in the JSON; none that is there twice and differs."""
    found: dict[str, list[dict[str, str]]] = {}
    section: dict[str, str] | None = None
    for line in lines:
        if match := _SECTION.match(line):
            section = {}
            found.setdefault(match[1], []).append(section)
        elif section is not None and (match := _OPTION.match(line)):
            section[_ALIASES.get(match[1], match[1])] = match[2] or ""
    return {name: every[0] for name, every in found.items() if every.count(every[0]) == len(every)}


def _read_document(document: Document, sections: Mapping[str, Options]) -> tuple[list[Row], list[ReadingProblem]]:
    """Its rows and problems."""
    rows: list[Row] = []
    problems: list[ReadingProblem] = []
    entries = document.jobs if document.client_stats is None else document.client_stats
    used = [entry for entry in entries or () if entry.groupid != _NO_GROUP or entry.jobname]
    works: list[tuple[list[Entry], list[_Report], str]] = []  # entries that did the same; why that is not known
    alike: dict[object, list[_Report]] = {}
    for entry in (entry for entry in used if entry.jobname != ALL_CLIENTS):
        try:
            report = _report(document, entry, sections.get(entry.jobname, {}))
        except UNREADABLE as error:
            works.append(([entry], [], reason(error)))
            continue
        idle = not any(part.total_ios for part in (entry.read, entry.write) if part)
        if not (idle and _given(report.options, "create_only")):  # a section that only lays out files
            alike.setdefault((entry.groupid, *sorted(report.parameters.items())), []).append(report)
    works += [([report.entry for report in reports], reports, "") for reports in alike.values()]
    for entries_alike, reports, wrong in works:
        labels = list(dict.fromkeys(entry.jobname for entry in entries_alike))
        identity: Row = {"tool": "fio", "tool_version": document.version, "label": ", ".join(labels[:3]), "nodes": 1}
        if hosts := list(dict.fromkeys(entry.hostname for entry in entries_alike if entry.hostname)):
            identity |= {"host": hosts[0], "hosts": ",".join(hosts), "nodes": len(hosts)}
        doubts: list[str] = []
        try:
            if wrong:
                raise Wrong(wrong)
            row = _row(reports, doubts)
        except UNREADABLE as error:
            row = reports[0].parameters if reports else {}
            problems.append(ReadingProblem("invalid", f"{labels[0]}: {reason(error)}", len(rows)))
        problems += [ReadingProblem("suspect", f"{labels[0]}: {text}", len(rows)) for text in doubts if text]
        if flushes := [block for one in reports if (block := one.entry.sync.lat_ns) and block.count]:
            mean_s = sum(one.mean * one.count for one in flushes) / sum(one.count for one in flushes) / 1e9
            flushed = f"a flush took {mean_s * 1000:.3g} ms on average, which is not in latency_*"
            problems.append(ReadingProblem("note", f"{labels[0]}: {flushed}", len(rows)))
        if ended := local_date(document.time):
            identity["ended_local"] = ended
        starts = [entry.job_start for entry in entries_alike if entry.job_start]  # from 3.36 on
        if starts and max(starts) <= _LAST_MS:
            started = datetime.fromtimestamp(min(starts) / 1000, UTC)
            identity["started"] = started.isoformat(timespec="milliseconds")
        rows.append(identity | row)
    if not rows:
        return [], [*problems, ReadingProblem("invalid", "no job was reported")]
    # hosts that did not report, as fio tells from 3.39 on: it ends with exit code 0 where a host refused
    hosts_asked = document.global_options if isinstance(document.global_options, list) else []
    lost = {(host.get("hostname"), host.get("port")) for host in hosts_asked}
    lost -= {(entry.hostname, entry.port) for entry in used}
    texts = sorted(f"{host} (port {port}) did not report" for host, port in lost)
    return rows, [*problems, *(ReadingProblem("suspect", text) for text in texts)]


def _report(document: Document, entry: Entry, section: Options) -> _Report:
    """`section`: its options in a job file, for client mode, where fio prints those of the first section only."""
    if document.client_stats is not None and not entry.options and not section:
        raise Wrong(
            "fio did not print the options of this job: what ran is not known; put its job file before the JSON"
        )
    shared = document.global_options
    if isinstance(shared, list):  # from 3.39 on, one for each host
        host = entry.hostname, entry.port
        shared = next((one for one in shared if (one.get("hostname"), one.get("port")) == host), {})
    job = entry.options or section
    # in the order in which fio takes them
    options = {**{name: str(value) for name, value in shared.items() if name not in job}, **job}
    engine = options.get("ioengine", "")
    if engine in ENGINE.values():
        phase = PHASES[next(name for name, known in ENGINE.items() if known == engine)]
        parameters: Row = {"phase": phase.name, "kind": "metadata", "metric": phase.metric, "ioengine": engine}
    else:
        phase = _data_phase(options)
        parameters = _parameters(options, phase)
    told = _NO_CONDITIONS | {name for name, column in _COLUMNS.items() if column in parameters}
    others = sorted((name, value) for name, value in options.items() if name not in told)
    # options that change I/O and have no column: sections or runs that differ in them are separate rows
    parameters["other_options"] = " ".join(f"{name}={value}" if value else name for name, value in others)
    return _Report(entry, options, phase, parameters)


def _data_phase(options: Options) -> Phase:
    """The phase of a data job. Raises Wrong for jobs that are not read."""
    rw, engine = options.get("rw", "read").replace("readwrite", "rw"), options.get("ioengine")
    share = options.get("percentage_random", "100")
    strange = {"latency_target": options["latency_target"]} if _given(options, "latency_target") else {}
    if engine in _DIRECTORIES:
        strange["ioengine"] = engine
    if rw not in RW.values():  # `randread:8` is mostly sequential
        strange["rw"] = rw
    if rw.startswith("rand") and set(share.split(",")) != {"100"}:
        strange["percentage_random"] = share
    for name, value in strange.items():
        raise Wrong(f"not read: jobs with {name}={value}")
    if rw.endswith("rw") and (alone := {"100": "read", "0": "write"}.get(str(_read_percent(options)))):
        rw = rw.replace("rw", alone)  # 0 % or 100 % is no mix
    return PHASES[next(name for name, known in RW.items() if known == rw)]


def _parameters(options: Options, phase: Phase) -> Row:
    """Columns of a data job, with fio's own defaults for what its options do not have."""
    split = "bssplit" in options or "bsrange" in options
    size, whole = _size(options, "filesize"), _size(options, "size")
    last = _last(options, "direct", "buffered")
    found: Mapping[str, Cell | None] = {
        "phase": phase.name,
        "kind": "data",
        "metric": phase.metric,
        "transfer_size_bytes": None if split else _size(options, "bs", 4096),
        "queue_depth": _size(options, "iodepth", 1),
        "file_size_bytes": size or (whole // max(_size(options, "nrfiles") or 1, 1) if whole else None),
        "ioengine": options.get("ioengine"),
        "o_direct": _given(options, last) == (last == "direct"),
        "fsync": any(_given(options, name) for name in _FLUSHING) if phase.writes else None,
        "read_percent": _read_percent(options) if phase.reads and phase.writes else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _last(options: Options, name: str, other: str) -> str:
    """The name of a setting with two names that takes effect: the last one given."""
    return next((one for one in reversed([*options]) if one in (name, other)), name)


def _read_percent(options: Options) -> int | None:
    last = _last(options, "rwmixread", "rwmixwrite")
    percent = _size(options, last, 50)
    return 100 - percent if percent is not None and last == "rwmixwrite" else percent


def _size(options: Options, name: str, default: int | None = None) -> int | None:
    """A size or a count; None for a range, a split, a percentage, or a size for each direction. `kib` is 1000."""
    if name not in options:
        return default
    if not (match := re.fullmatch(r"(\d{1,19})(?:([kmgtp])(ib|i|b)?)?", options[name].lower())):
        return None
    size = int(match[1]) * (1000 if match[3] == "ib" else 1024) ** " kmgtp".index(match[2] or " ")
    return size if size <= LARGEST_SIZE else None


def _given(options: Options, name: str) -> bool:
    """Whether an option is on: a flag may have no value."""
    return not _OFF.fullmatch(options.get(name, "0"))


def _asked_s(options: Options) -> float | None:
    """The run time asked for; None where there is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|)", options.get("runtime", ""))
    return float(match[1]) * _SECONDS[match[2]] or None if match else None


def _row(reports: Sequence[_Report], doubts: list[str]) -> Row:
    """The columns of a workload. Reasons to doubt them are appended to `doubts`. Raises Wrong."""
    options, phase, parameters = reports[0].options, reports[0].phase, reports[0].parameters
    each_host = Counter((one.entry.hostname, one.entry.port) for one in reports)
    workers = (_size(options, "numjobs") or 1) if max(each_host.values()) == 1 else 1  # of an entry
    nodes = [_checked(one, workers) for one in reports]
    figures = figures_of([parts for _, parts in nodes], phase)
    runtimes = [parsed.figures["runtime_s"] for parsed, _ in nodes]
    if max(runtimes) - min(runtimes) > 0.02 * max(runtimes):
        span = f"{min(runtimes):.2f} to {max(runtimes):.2f} s"
        doubts.append(f"the {len(nodes)} reports ran for {span}: their rates, which are added up, are of other times")
    tasks, hosts = workers * len(reports), len({one.entry.hostname for one in reports})
    row: Row = {**parameters, **figures, "tasks": tasks}
    row |= {} if tasks % hosts else {"threads_per_node": tasks // hosts}
    asked_s, ran_s = _asked_s(options), figures["runtime_s"]
    if asked_s and (_given(options, "time_based") or ran_s >= _SHORTEST * asked_s):
        row["phase_time_s"] = asked_s
    for short in too_short(ran_s, CLOCK_S, "it", 0):
        if short.severity == "invalid":
            raise Wrong(short.text)
        doubts.append(short.text)
    doubts += _doubts(row, reports[0])
    # timed workers run for the same time; those that a size ends do one by one
    least = 0.9 if "phase_time_s" in row else 0.75
    if any(0 < parsed.evidence.worker_seconds < least * workers * ran_s for parsed, _ in nodes):
        doubts.append(f"not all of {workers} workers ran for the whole time: some ended early, or did not run")
    return row


def _checked(report: _Report, workers: int) -> NodeReport:
    """An entry's figures. Raises Wrong where they cannot be used."""
    entry = report.entry
    if entry.error:
        raise Wrong(f"fio reports error {entry.error}")
    node = parsed, parts = of_entry(entry, "", report.phase, [], None)
    if wrong := [*parsed.problems, *(parsed.evidence.errors or ())]:
        raise Wrong(wrong[0])
    if silent := parsed.evidence.silent_directions:
        raise Wrong(f"no {' and no '.join(silent)} was done")
    unasked = parsed.evidence.unasked_directions
    if unasked and not _given(report.options, "verify"):
        raise Wrong(f"{' and '.join(unasked)} was done that the job does not ask for")
    window, total = max(part.runtime for part in parts.values()), entry.job_runtime or 0
    if _given(report.options, "verify"):  # which reads after the writes
        window = entry.direction("read").runtime + entry.direction("write").runtime
    if total > workers * (window + 1) * 1.01 + 1:
        raise Wrong(
            f"the entry adds up the time of about {total / max(window, 1):.1f} workers, and numjobs is {workers}:"
            " group_reporting merged sections, whose options may differ"
        )
    # a worker that was killed has operations, and neither bytes nor time
    moved, size = parsed.evidence.transferred_bytes or 0, report.parameters.get("transfer_size_bytes")
    by_ops = parsed.figures["ops"] * size if isinstance(size, int) else moved
    slack = 0.01 + 2 * CLOCK_S / max(parsed.figures["runtime_s"], CLOCK_S)
    if any(abs(other - moved) > slack * moved for other in (parsed.evidence.rate_times_runtime_bytes, by_ops)):
        raise Wrong("bytes, operations, rate and time do not agree")
    return node


def _doubts(row: Row, first: _Report) -> Iterator[str]:
    """Doubts about the figures of a row. Raises Wrong where rate and latency contradict each other."""
    options, ran_s, asked_s = first.options, float(row["runtime_s"]), _asked_s(first.options)
    limits = [f"{name}={options[name]}" for name in _LIMITS if _given(options, name)]
    if limits:
        yield f"{', '.join(limits)[:100]} limits the rate"
    if asked_s and ran_s > _LONGEST * asked_s:
        yield f"ran for {ran_s:.2f} s of {asked_s:.2f} s"
    timed = _given(options, "time_based") and not first.entry.steadystate.attained
    if asked_s and timed and ran_s < _SHORTEST * asked_s:
        yield f"ran for {ran_s:.2f} s of {asked_s:.2f} s: interrupted"
    if first.phase.kind == "metadata":
        return
    if isinstance(phase_time_s := row.get("phase_time_s"), float):
        yield too_short_to_be_steady(phase_time_s)
    depth, engine, levels = row.get("queue_depth"), options.get("ioengine", "the engine"), first.entry.iodepth_level
    if not isinstance(depth, int) or not levels:
        return
    level = min(1 << (depth.bit_length() - 1), 64)
    reached = sum(percent for name, percent in levels.items() if int(name.lstrip(">=")) >= level)
    if depth > 1 and reached < 50:
        yield f"asked for depth {depth}, which {engine} had in {reached:.0f} % of its I/O"
    rate, latency_s, completion_s = (
        row.get(name) for name in ("ops_per_s", "latency_mean_s", "completion_latency_mean_s")
    )
    if limits or _given(options, "ramp_time") or not (isinstance(rate, float) and isinstance(latency_s, float)):
        return
    tasks = int(row["tasks"])
    if wrong := too_many_in_flight(rate, latency_s, tasks * depth, ran_s, CLOCK_S):
        raise Wrong(f"rate and latency contradict each other: {wrong}")
    if depth > 1 and engine == "libaio" and not row["o_direct"] and isinstance(completion_s, float):
        yield waits_at_submission(rate, latency_s, completion_s, tasks)
