"""What the options and counters of an entry of fio's JSON tell about how it ran, and whether they agree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from iosweep.tools.fio.foreign import json_before_3_18
from iosweep.tools.fio.foreign.rows import Part, Row, of_one_node, phase_and_kind
from iosweep.tools.fio.json_records import ALL_CLIENTS, LARGEST, Document, Entry, Wrong, printed
from iosweep.tools.reading import Job, too_short_to_be_steady
from iosweep.units import parse_size

_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: a timed run that is shorter or longer than this share of what was asked for was interrupted, or waited
_SHORTEST, _LONGEST = 0.98, 1.05
#: of a section whose own options fio does not print (client mode, from the second on) the global ones tell only this
_STILL_GLOBAL = ("ioengine", "runtime", "time_based", "numjobs")
#: a time that ends a run does so at most this long after whole seconds (ms are printed, I/Os in flight are awaited)
_AFTER_S = 0.02
#: sizes that end a run are multiples of it
_SIZE = 64 << 20
#: options that hold a job's rate down
_LIMITS = ("rate", "rate_iops", "thinktime")
#: key in the options of such a section
NOT_PRINTED = ""
#: options that do not change what a job does to the storage
_NO_WORK = frozenset((
    "name", "description", "group_reporting", "write_bw_log", "write_lat_log", "write_hist_log", "write_iops_log",
    "log_avg_msec", "log_hist_msec", "log_max_value", "log_offset", "log_unix_epoch", "per_job_logs", "disk_util",
    "randseed", "stonewall", "hostname", "port", "clat_percentiles", "lat_percentiles", "slat_percentiles",
    "percentile_list",
))  # fmt: skip
#: option -> the column that has its value, if the row has that
_COLUMNS = {
    "rw": "phase", "readwrite": "phase", "bs": "transfer_size_bytes", "blocksize": "transfer_size_bytes",
    "iodepth": "queue_depth", "numjobs": "tasks", "direct": "o_direct", "ioengine": "ioengine",
    "filesize": "file_size_bytes", "runtime": "phase_time_s",
}  # fmt: skip
#: characters of an option
_OPTION = 200
#: characters of a job's name that fio prints
_NAME = 127


def options(document: Document[dict[str, object]], entry: Entry) -> dict[str, str]:
    """Options as far as they are printed for this entry, its own over the global ones."""
    shared = document.global_options
    if isinstance(shared, list):  # from 3.39 on, one for each host
        own = (entry.hostname, entry.port)
        shared = next((one for one in shared if (one.get("hostname"), one.get("port")) == own), {})
    known = {name: str(value) for name, value in shared.items()}
    if entry.options is None:
        return {name: known[name] for name in _STILL_GLOBAL if name in known} | {NOT_PRINTED: "yes"}
    return {**known, **entry.options}


def job(name: str, options: Mapping[str, str], row: Row) -> Job:
    """What the options of an entry tell that its row does not have; its name alone where they are not printed."""
    if not options or NOT_PRINTED in options:
        return Job((f"name={name}"[:_OPTION],))
    held = {option for option, column in _COLUMNS.items() if column in row and ":" not in options.get(option, "")}
    others = sorted(options.keys() - held - _NO_WORK)
    return Job(tuple(f"{option}={options[option]}"[:_OPTION] for option in others), whole=True)


class Workers(NamedTuple):
    """Workers of an entry: `tasks` if it is known, `merged` and `missing` as sentences where they apply."""

    tasks: int | None = None
    merged: str = ""
    missing: str = ""


def workers(
    entry: Entry, active: Sequence[str], options: Mapping[str, str], release: tuple[int, int], siblings: int
) -> Workers:
    """How many workers an entry is of, by its options and by the sum of the workers' seconds.

    `merged`: the entry adds up workers of other sections. `missing`: workers of its section have no entry.
    """
    asked = count(options, "numjobs")
    missing = ""
    if siblings > 1 and asked != siblings and NOT_PRINTED not in options:
        missing = f"{siblings} reports of workers, where numjobs={asked or 'not given'}"
    own = 1 if siblings > 1 else asked
    if (release < (3, 20) and entry.job_runtime is None) or not active:
        return Workers(own or None, missing=missing)
    worked = printed(entry.job_runtime, "job_runtime")
    # reads that verify come after the writes; else both directions share the time
    if "verify" in options:
        window = entry.direction("read").runtime + entry.direction("write").runtime
    else:
        window = max(entry.direction(name).runtime for name in active)
    if worked > (own or 1) * (window + 1) * 1.01 + 1:
        if NOT_PRINTED in options:
            return Workers(missing=missing)
        merged = (
            f"the entry adds up the time of about {worked / max(window, 1):.0f} workers, but numjobs is"
            f" {own or 'not given'}: group_reporting merged sections, whose options may differ"
        )
        return Workers(merged=merged, missing=missing)
    busy = worked > (0.9 if "runtime" in options else 0.5) * (own or 1) * (window - 1)
    return Workers((own or None) if busy else None, missing=missing)


class Asked(NamedTuple):
    """What an entry was to do. `options`: as far as they are its own; `row`: columns of its parameters; `size`: bytes
    of an I/O, None where it is not one size; `depth`: 0 where it is not printed."""

    options: Mapping[str, str]
    row: Row
    workers: Workers
    size: int | None
    depth: int


def asked(entry: Entry, options: dict[str, str], release: tuple[int, int], siblings: int) -> Asked:
    """What the options ask an entry to do. Raises Wrong where they are not its own, or contradict each other."""
    worked = [name for name, part in entry.directions.items() if name != "trim" and part.total_ios]
    own = workers(entry, worked, options, release, siblings)
    # fio cuts the name of a job, but not the option; merged sections may have the options of any of them
    foreign = options.get("name", entry.jobname)[:_NAME] != entry.jobname[:_NAME]
    if (foreign and not own.merged) or entry.jobname == ALL_CLIENTS:
        raise Wrong(f'its options are those of "{options.get("name", "no job")[:_NAME]}"')
    bytes_each, in_flight = transfer_size(options), 0
    if own.merged:
        options = {NOT_PRINTED: "yes", **{name: options[name] for name in ("verify", "ramp_time") if name in options}}
        bytes_each = None
    else:
        in_flight = depth(entry, options)
    engine, rw = options.get("ioengine"), options.get("rw", options.get("readwrite"))
    row = phase_and_kind(rw, engine, "write" in worked or release < json_before_3_18.FILE_ENGINES)
    row |= {"tasks": own.tasks} if own.tasks else {}
    row |= {"ioengine": engine} if engine else {}
    if row.get("kind") == "data":
        row |= {"transfer_size_bytes": bytes_each} if bytes_each else {}
        row |= {"queue_depth": in_flight} if in_flight and entry.iodepth_level is not None else {}
        row |= {"file_size_bytes": known} if (known := size(options.get("filesize"))) else {}
        row |= {"o_direct": options["direct"] != "0"} if "direct" in options else {}
    return Asked(options, row, own, bytes_each, in_flight)


def unmeasured(entry: Entry, found: Asked) -> Row:
    """The columns of an entry whose figures cannot be used, so that it is a row of its point: a timed job, and one that
    the time asked for ended, have that time."""
    row, asked_s = found.row | of_one_node(found.row), _seconds(found.options)
    ran_s = max((part.runtime / 1000 for part in entry.directions.values()), default=0.0)
    if asked_s and ("time_based" in found.options or ran_s >= _SHORTEST * asked_s):
        row["phase_time_s"] = asked_s
    return row


def transfer_size(options: Mapping[str, str]) -> int | None:
    """Bytes of an I/O; None where they are not printed, or differ."""
    return size(options.get("bs", options.get("blocksize")))


def phase_time(ran_s: float, parts: Mapping[str, Part], entry: Entry, options: Mapping[str, str]) -> tuple[Row, str]:
    """(phase_time_s where the time asked for bounded the run; why the run did not take that time, or nothing)."""
    if not (asked_s := _seconds(options)):
        return {}, ""
    if ran_s > _LONGEST * asked_s:
        return {"phase_time_s": asked_s}, f"ran for {ran_s:.2f} s of {asked_s:.2f} s"
    if ran_s >= _SHORTEST * asked_s:
        return {"phase_time_s": asked_s}, ""
    moved = sum(part.bytes_moved or 0 for part in parts.values())
    whole, workers = size(options.get("io_size", options.get("size"))), count(options, "numjobs") or 1
    complete = "time_based" not in options and whole and moved in (whole, whole * workers)
    steady = "steadystate" in options and entry.steadystate.attained == 1
    return {}, "" if complete or steady else f"ran for {ran_s:.2f} s of {asked_s:.2f} s: interrupted"


def too_short(row: Row, options: Mapping[str, str]) -> str:
    """Why a run does not tell whether its rate stays the same, or nothing.

    Without the options (a text report has none) a time ended a run of whole seconds, unless it moved such an amount of
    data as one asks for.
    """
    if isinstance(asked_s := row.get("phase_time_s"), float):
        return too_short_to_be_steady(asked_s)
    if "runtime" in options or (options and NOT_PRINTED not in options):
        return ""
    runtime_s, tasks = float(row["runtime_s"]), int(row.get("tasks", 1))
    whole_s = int(runtime_s)
    moved = int(row["ops"]) * int(row.get("transfer_size_bytes", 0))
    by_size = moved and not moved % (tasks * _SIZE)
    short = too_short_to_be_steady(whole_s)
    if not short or not whole_s or runtime_s - whole_s > _AFTER_S or by_size:
        return ""
    return f"ran for {runtime_s:.3f} s, as with runtime={whole_s}: {short}"


def limits(options: Mapping[str, str]) -> str:
    """Which options keep the rate below what the storage can do; nothing without any."""
    set_ = [f"{name}={options[name]}" for name in _LIMITS if options.get(name, "0").strip("0, ")]
    return f"{', '.join(set_)[:100]} limits the rate" if set_ else ""


def whole_latencies(options: Mapping[str, str]) -> bool:
    """Whether all I/Os of the time were timed and no rate was held down, so that Little's law holds."""
    return not limits(options) and options.get("ramp_time", "0").strip("0s") == "" and NOT_PRINTED not in options


def issuing_s(runtime_s: float, options: Mapping[str, str], writes: bool) -> float | None:
    """Seconds in which I/Os were issued; None where a flush of unknown length is part of the run time."""
    asked_s = _seconds(options)
    flushed = writes and any(options.get(name, "0") != "0" for name in ("end_fsync", "fsync_on_close"))
    if flushed and not ("time_based" in options and asked_s):
        return None
    return min(runtime_s, asked_s) if asked_s else runtime_s


def _seconds(options: Mapping[str, str]) -> float | None:
    """The run time asked for; None where there is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|)", options.get("runtime", ""))
    return float(match[1]) * _SECONDS[match[2]] or None if match else None


def depth(entry: Entry, options: Mapping[str, str]) -> int:
    """Queue depth asked for; 0 where it is not printed."""
    option = count(options, "iodepth") or 0
    # with a latency target it is what fio came to, else the option, also of sections whose options are not printed
    used = 0 if entry.latency_target else entry.latency_depth
    if option and used and option != used:
        raise Wrong(f"the queue depth is given as {option} and as {used}")
    return used or option


def count(options: Mapping[str, str], name: str) -> int | None:
    """An option that counts something (`4`, `1k`); None where it is not printed. Raises Wrong for anything else."""
    if name not in options:
        return None
    try:
        found = parse_size(options[name])
    except ValueError:
        raise Wrong(f'the option {name} is "{options[name][:60]}"; a whole number is expected') from None
    if found > LARGEST:
        raise Wrong(f"the option {name} is more than 64 bits hold")
    return found


def size(value: str | None) -> int | None:
    try:
        return parse_size(value) or None
    except ValueError:
        return None  # ranges, splits, one for each direction: no single size
