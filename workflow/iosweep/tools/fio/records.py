"""fio's JSON as records, of 3.18 and newer: the fields that are read; fio prints others beside them.

Latencies are in ns, `runtime` in ms, `bw_bytes` in bytes/s. `lat` is what a caller waits, from before the submission to
the completion; its part after the submission is `clat`: without O_DIRECT an I/O may be done before it counts as
submitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, TypeVar

import msgspec

from iosweep.files.documents import misfit
from iosweep.histograms import LAST_BIN_NS, SLOWER_IOS, Histogram, bin_of

#: Largest whole number of the tables.
LARGEST = 2**63 - 1
#: Job name of fio's sum over all reports of client mode, also over unlike tests.
ALL_CLIENTS = "All clients"
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Number = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Kind = TypeVar("Kind")


class Wrong(ValueError):
    """A sentence on figures that cannot be trusted."""


class Latencies(msgspec.Struct, frozen=True):
    """A block such as `clat_ns`."""

    min: Number
    max: Number
    mean: Number
    count: Count = msgspec.field(name="N")
    percentile: dict[str, Number] = {}
    bins: dict[str, Count] | None = None  # json+ only


class Direction(msgspec.Struct, frozen=True):
    """`read` or `write` of an entry."""

    total_ios: Count
    io_bytes: Count
    bw_bytes: Count
    iops: Number
    runtime: Count
    short_ios: Count
    drop_ios: Count
    clat_ns: Latencies
    lat_ns: Latencies | None = None
    iops_mean: Number = 0.0


class Flushes(msgspec.Struct, frozen=True):
    """`sync` of an entry."""

    lat_ns: Latencies | None = None


class SteadyState(msgspec.Struct, frozen=True):
    attained: int = 0


class Entry(msgspec.Struct, frozen=True):
    """An entry of `jobs` or `client_stats`: a job, or several that were merged."""

    jobname: str
    error: Count
    groupid: Count = 0
    hostname: str = ""
    port: Count = 0
    job_runtime: Count | None = None  # of all workers together
    job_start: Count | None = None  # ms since 1970, from 3.36 on
    read: Direction | None = None
    write: Direction | None = None
    iodepth_level: dict[str, Number] | None = None  # `1`, `2` ... `>=64` -> percent
    sync: Flushes = Flushes()
    steadystate: SteadyState = SteadyState()
    usr_cpu: Number = 0.0  # percent of job_runtime
    sys_cpu: Number = 0.0
    options: dict[str, str] | None = msgspec.field(default=None, name="job options")

    def direction(self, name: str) -> Direction:
        """`read` or `write`. Raises Wrong where it is missing."""
        part: Direction | None = getattr(self, name)
        if part is None:
            raise Wrong(f"`{name}` is missing in the JSON (with unified_rw_reporting=1 it is: run with 0 or both)")
        return part


class Document(msgspec.Struct, frozen=True):
    """fio's JSON. `jobs` of a local run, `client_stats` of a run in client mode."""

    version: str = msgspec.field(default="", name="fio version")
    time: str = ""  # the date of the report by the clock of its node
    jobs: list[Entry] | None = None
    client_stats: list[Entry] | None = None
    global_options: dict[str, str | int] | list[dict[str, str | int]] = msgspec.field(default={}, name="global options")


class Host(msgspec.Struct, frozen=True):
    """A node in `hosts` of Streams. Times are seconds."""

    host: str
    started: float
    ended: float
    clock_offset_s: float
    clock_error_s: float
    exit_code: int | None


#: Exceptions from the values of a document (Wrong is one): keys that are not numbers, numbers that are too large.
UNREADABLE = (ValueError, ArithmeticError)


def reason(error: BaseException) -> str:
    """The reason why a document could not be read, without the words of an exception."""
    return str(error) if isinstance(error, Wrong) else "the JSON does not have the form that fio writes"


#: column suffix -> fio's percentile key
PERCENTILES = {
    "p50": "50.000000",
    "p95": "95.000000",
    "p99": "99.000000",
    "p99_5": "99.500000",
    "p99_9": "99.900000",
}
#: column suffix -> I/Os that tell the percentile.
_LEAST = {name: round(SLOWER_IOS * 100 / (100 - float(key))) for name, key in PERCENTILES.items()}
_OF_COMPLETION = ("mean", "p50", "p99", "p99_5", "p99_9")


def latency_columns(parts: Mapping[str, Sequence[Direction]], files: bool) -> dict[str, float]:
    """latency_* and completion_latency_* of all reports of each direction, and of the directions one by one.

    Of file engines (`files`) fio times the operation as `clat` alone: that is what a caller waits. Raises Wrong.
    """
    every = [part for reports in parts.values() for part in reports]
    if files:
        return _of([part.clat_ns for part in every])
    found: dict[str, float] = {}
    for name, reports in parts.items():
        own = _of([part.lat_ns for part in reports])
        found |= {f"{name}_{key}": own[key] for key in ("latency_mean_s", "latency_p99_s") if key in own}
    completed = _of([part.clat_ns for part in every])
    found |= {f"completion_{key}": completed[key] for n in _OF_COMPLETION if (key := f"latency_{n}_s") in completed}
    return found | _of([part.lat_ns for part in every])


def latency_histogram(parts: Iterable[Direction], files: bool) -> Histogram | None:
    """The time that callers waited, in all these reports; None where a report has no histogram.

    Raises ValueError for a bin that is none.
    """
    counts: dict[int, int] = {}
    for part in parts:
        block = part.clat_ns if files else part.lat_ns
        if block is None or block.bins is None:
            return None
        for number, count in zip(map(_bin, block.bins), block.bins.values(), strict=True):
            counts[number] = counts.get(number, 0) + count
    return Histogram.of_bins(counts)


@lru_cache(4096)  # fio has 1,856
def _bin(key: str) -> int:
    latency_ns = int(key)
    if not 0 <= latency_ns <= LARGEST:
        raise Wrong("the histogram has a latency that is out of range")
    return bin_of(latency_ns)


def _of(blocks: Sequence[Latencies | None]) -> dict[str, float]:
    """latency_* columns of some blocks as if they were one; empty where nothing, or not all, was timed (gtod_reduce).

    Percentiles are those that fio prints for a block, or of the histograms of several if all have one.
    """
    timed = [block for block in blocks if block and block.count]
    if not timed or None in blocks:
        return {}
    if any(block.bins is not None and sum(block.bins.values()) != block.count for block in timed):
        raise Wrong("the histogram does not hold every I/O")
    total = sum(block.count for block in timed)
    if len(timed) == 1:
        percentiles = {n: timed[0].percentile[k] for n, k in PERCENTILES.items() if k in timed[0].percentile}
    else:
        bins = [block.bins for block in timed if block.bins is not None]
        percentiles = merged_percentiles(bins) if len(bins) == len(timed) else {}
    return {
        "latency_min_s": min(block.min for block in timed) / 1e9,
        "latency_mean_s": sum(block.mean * block.count for block in timed) / total / 1e9,
        "latency_max_s": max(block.max for block in timed) / 1e9,
        **{
            f"latency_{name}_s": value / 1e9
            for name, value in percentiles.items()
            if total >= _LEAST[name] and value < LAST_BIN_NS
        },
    }


def merged_percentiles(histograms: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Percentiles (ns) of histograms added up: the first bin whose cumulative count reaches p/100, as fio does."""
    bins: dict[int, int] = {}
    for histogram in histograms:
        for key, count in histogram.items():
            bins[int(key)] = bins.get(int(key), 0) + count
    total, seen = sum(bins.values()), 0
    wanted = [(name, float(key) / 100 * total) for name, key in PERCENTILES.items()]
    found: dict[str, float] = {}
    for value in sorted(bins):
        seen += bins[value]
        while wanted and seen >= wanted[0][1]:
            found[wanted.pop(0)[0]] = value
    return found


DOCUMENT = msgspec.json.Decoder(Document)
#: wekatester's: a document for each of its job files.
OF_FILES = msgspec.json.Decoder(dict[str, Document])
#: fio indents its JSON, so that only the document itself begins and ends with a brace in the first column; others may
#: write it into one line.
_BEGIN = re.compile(rb"^\{", re.MULTILINE)
_END = re.compile(rb"(?:\n|^\{.*)\}[ \t]*\r?$", re.MULTILINE)
_VERSION = re.compile(rb'"fio version"\s*:\s*"(fio-(\d{1,6})\.(\d{1,6})[^"\n\x80-\xff]{0,40})"')
_OLDEST = (3, 18)
_TEXT_REPORT = re.compile(rb": \(groupid=\d+, jobs=\d+\): err=")


def read_document(stdout: bytes) -> tuple[list[str], Document | None, str]:
    """(lines around the JSON document, the document or None, the error in it)"""
    lines, parts = split_documents(stdout)
    if len(parts) > 1:
        return lines, None, "more than one JSON document in fio's output"
    if not parts:
        return lines, None, no_document(stdout)
    found = decoded(parts[0], DOCUMENT)
    return (lines, None, found) if isinstance(found, str) else (lines, found, "")


def split_documents(text: bytes) -> tuple[list[str], list[bytes]]:
    """(the lines of a text that are outside of JSON documents, the documents)"""
    begins = [match.start() for match in _BEGIN.finditer(text)] or [0] * text.lstrip().startswith(b"{")
    lines, parts = _lines(text[: begins[0]] if begins else text), []
    for begin, end in pairwise([*begins, len(text)]):
        last = _END.search(text, begin, end)
        parts.append(text[begin : last.end() if last else end])
        lines += _lines(text[last.end() : end]) if last else []
    return lines, parts


def no_document(text: bytes) -> str:
    if _TEXT_REPORT.search(text):
        return "not read: a text report of fio, and no JSON"
    return "no JSON in fio's output" if text.strip() else "fio printed nothing"


def decoded(part: bytes, decoder: msgspec.json.Decoder[Kind]) -> Kind | str:
    """A JSON document, or why it cannot be read."""
    version = _VERSION.search(part)
    if version and (int(version[2]), int(version[3])) < _OLDEST:
        return f"not read: JSON of {version[1].decode()}; that of fio-3.18 and newer is"
    try:
        return decoder.decode(part)
    except msgspec.ValidationError as error:
        return f"fio's JSON has another form: {misfit(error)}"
    except (ValueError, RecursionError):
        return "fio's JSON is cut or damaged"


def _lines(text: bytes) -> list[str]:
    return [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
