"""fio's JSON of a campaign's own runs -> figures, evidence and problems. Never raises for what fio prints.

`foreign` reads files that others made (`iosweep parse`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from iosweep.files.documents import misfit
from iosweep.tools import Evidence, Parsed, Phase
from iosweep.tools.fio import echo, latency
from iosweep.tools.fio.json_records import UNREADABLE, Direction, Document, Entry, printed, reason

#: Direction (`read`, `write`) -> fio's block of it; only those that the phase asks for.
Parts = Mapping[str, Direction]

_decoder = msgspec.json.Decoder(Document[Entry])
#: fio indents its JSON, so that only the document itself begins and ends with a brace alone. To look for a line break
#: instead of `^` takes a fiftieth of the time, and merge reads 100,000 documents.
_BEGIN = re.compile(rb"^\{[ \t]*\r?$", re.MULTILINE)
_END = re.compile(rb"\n\}[ \t]*\r?$", re.MULTILINE)


def parse(stdout: bytes, phase: Phase, asked: echo.Options | None = None) -> tuple[Parsed, Parts]:
    """Figures of one local run with group_reporting (one entry in `jobs`), and fio's blocks that they come from.

    `asked`: options of the command, to compare with. Text before the JSON is normal (notes, warnings, `fio: pid=...,
    err=28/...`) and kept as evidence `messages`.
    Percentiles are those of fio's own histogram, or, for a mixed phase, of the two histograms added up.
    """
    lines, found, problem = document(stdout)
    messages = lines[:20]
    if found is None:
        return Parsed(evidence=Evidence(messages=messages), problems=[problem, *messages[:3]]), {}
    jobs = found.jobs or []
    if len(jobs) != 1:
        wrong = f"expected one group of jobs in fio's JSON, found {len(jobs)}"
        return Parsed(found.version or None, {}, Evidence(messages=messages), [wrong]), {}
    return of_entry(jobs[0], found.version, phase, messages, asked)


def document(stdout: bytes) -> tuple[list[str], Document[Entry] | None, str]:
    """(lines around the one JSON document, the document or None, what is wrong with it)"""
    match = _BEGIN.search(stdout)
    if not match:
        return _lines(stdout), None, "no JSON in fio's output" if stdout.strip() else "fio printed nothing"
    last = _END.search(stdout, match.end())
    end = last.end() if last else len(stdout)
    lines = _lines(stdout[: match.start()])
    if re.search(rb"^\{", stdout[end:], re.MULTILINE):
        return lines, None, "more than one JSON document in fio's output"
    try:
        return lines + _lines(stdout[end:]), _decoder.decode(stdout[match.start() : end]), ""
    except msgspec.ValidationError as error:
        return lines, None, f"fio's JSON has another form: {misfit(error)}"
    except (ValueError, RecursionError):
        return lines, None, "fio's JSON is cut or damaged"


def _lines(text: bytes) -> list[str]:
    return [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]


def of_entry(
    job: Entry, version: str, phase: Phase, messages: Sequence[str], asked: echo.Options | None
) -> tuple[Parsed, Parts]:
    """An entry of `jobs` or `client_stats`: a group of workers on one node."""
    # fio counts its file engines' work as reads
    wanted = {"read": phase.reads or phase.kind == "metadata", "write": phase.writes and phase.kind == "data"}
    try:
        directions = {name: job.direction(name) for name in wanted}
        parts = {name: part for name, part in directions.items() if wanted[name]}
        figures = _figures(parts, phase)
        latencies = latency.histogram(parts.values(), phase.kind == "metadata")
    except UNREADABLE as error:
        return Parsed(version or None, {}, Evidence(messages=messages), [reason(error)]), {}
    evidence = Evidence(
        errors=_errors(job, list(parts.values()), messages),
        silent_directions=[name for name, part in parts.items() if not part.total_ios],
        unasked_directions=[n for n, part in directions.items() if not wanted[n] and part.total_ios],
        worker_seconds=(job.job_runtime or 0) / 1000,
        depth_percent=job.iodepth_level or {},
        rate_times_runtime_bytes=sum((part.bw_bytes or 0) * part.runtime / 1000 for part in parts.values()),
        transferred_bytes=sum(part.io_bytes for part in parts.values()),
        began_s=job.job_start / 1000 if job.job_start else None,
        messages=messages,
        echo=echo.compare(asked, job.options),
        timed_s=figures["runtime_s"],
        latencies=latencies,
    )
    return Parsed(version or None, figures, evidence, []), parts


def _figures(parts: Parts, phase: Phase) -> dict[str, float]:
    asked = list(parts.values())
    figures: dict[str, float] = {
        "ops": sum(part.total_ios for part in asked),
        "ops_per_s": sum(part.iops for part in asked),
        "runtime_s": max(part.runtime for part in asked) / 1000,
    }
    sampled = sum(part.iops_mean for part in asked)
    # for some groups of jobs fio's iops_mean is that of one worker: then it is left out
    if abs(sampled - figures["ops_per_s"]) <= 0.1 * figures["ops_per_s"]:
        figures["sampled_ops_per_s"] = sampled
        if len(asked) == 1 and asked[0].iops_samples > 1 and sampled:
            figures["within_run_sd_share"] = asked[0].iops_stddev / sampled
    if phase.kind == "data":
        figures["bandwidth_bytes_per_s"] = 0.0
        for name, part in parts.items():
            rate = float(printed(part.bw_bytes, "bw_bytes"))
            figures["bandwidth_bytes_per_s"] += rate
            figures[f"{name}_bandwidth_bytes_per_s"] = rate
            figures[f"{name}_ops_per_s"] = part.iops
            figures["bytes_read" if name == "read" else "bytes_written"] = part.io_bytes
    return figures | latency.columns({name: [part] for name, part in parts.items()}, phase.kind == "metadata")


def _errors(job: Entry, asked: Sequence[Direction], messages: Sequence[str]) -> list[str]:
    errors = []
    if job.error:
        errors.append(f"error {job.error}" + (f": {messages[0].strip()[:200]}" if messages else ""))
    short, dropped = sum(part.short_ios for part in asked), sum(part.drop_ios for part in asked)
    if short or dropped:
        errors.append(f"{short} short and {dropped} dropped I/Os")
    return errors
