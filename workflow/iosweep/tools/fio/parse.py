"""fio's JSON of a campaign's own runs -> figures, evidence and problems. Never raises for fio's output.

read.py and read_json.py read files that others made (`iosweep parse`).
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from iosweep.tools import Parsed, Phase
from iosweep.tools.fio.malformed import DAMAGE, Wrong, check_form, sentence, shown

#: column suffix -> fio's percentile key
PERCENTILES = {
    "p50": "50.000000",
    "p95": "95.000000",
    "p99": "99.000000",
    "p99_5": "99.500000",
    "p99_9": "99.900000",
}

#: Direction (`read`, `write`) -> fio's block of it; only those that the phase asks for.
Parts = dict[str, dict[str, Any]]


def parse(stdout: bytes, phase: Phase) -> Parsed:
    """Figures of one local run with group_reporting (one entry in `jobs`).

    Text before the JSON is normal (notes, warnings, `fio: pid=..., err=28/...`) and kept as evidence `messages`.
    Latency is fio's clat in seconds; percentiles are those of fio's own histogram, or, for a mixed phase, of the two
    histograms added up.
    """
    return parsed_parts(stdout, phase)[0]


def parsed_parts(stdout: bytes, phase: Phase) -> tuple[Parsed, Parts]:
    """What `parse` gives, and fio's blocks that it comes from; none where there is a problem."""
    before, found, problem = document(stdout)
    messages = [line for line in before.splitlines() if line.strip()][:20]
    if found is None:
        return Parsed(evidence={"messages": messages}, problems=[problem, *messages[:3]]), {}
    version, jobs = version_of(found), found.get("jobs")
    if not isinstance(jobs, list) or len(jobs) != 1:
        count = len(jobs) if isinstance(jobs, list) else 0
        wrong = f"expected one group of jobs in fio's JSON, found {count}"
        return Parsed(version, {}, {"messages": messages}, [wrong]), {}
    return entry(jobs[0], version, phase, messages)


def entry(job: dict[str, Any], version: str | None, phase: Phase, messages: list[str]) -> tuple[Parsed, Parts]:
    """An entry of `jobs` or `client_stats`: a group of workers on one node."""
    try:
        if not isinstance(job, dict):
            raise Wrong(f"an entry of fio's JSON is {shown(job)}; an object is expected")
        check_form(job)
        figures, evidence, parts = _figures(job, phase, messages)
    except DAMAGE as error:
        return Parsed(version, {}, {"messages": messages}, [sentence(error)]), {}
    return Parsed(version, figures, {**evidence, "messages": messages}, []), parts


def version_of(found: dict[str, Any]) -> str | None:
    return str(found.get("fio version", "")) or None


def document(stdout: bytes) -> tuple[str, dict[str, Any] | None, str]:
    """(text before, the one JSON document or None, what is wrong)"""
    match = re.search(rb"^\{[ \t]*\r?$", stdout, re.MULTILINE)
    if not match:
        text = stdout.decode("utf-8", "replace")
        return text, None, "no JSON in fio's output" if stdout.strip() else "fio printed nothing"
    before = stdout[: match.start()].decode("utf-8", "replace")
    try:
        found = orjson.loads(stdout[match.start() :])
    except orjson.JSONDecodeError:
        try:  # something follows the document, or it is cut
            text = stdout[match.start() :].decode("utf-8", "replace")
            found, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return before, None, "fio's JSON is cut or damaged"
        if re.search(r"^\{", text[end:], re.MULTILINE):
            return before, None, "more than one JSON document in fio's output"
        before += text[end:]
    if not isinstance(found, dict):
        return before, None, "fio's JSON is not an object"
    return before, found, ""


def _figures(job: dict[str, Any], phase: Phase, messages: list[str]) -> tuple[dict[str, Any], dict[str, Any], Parts]:
    # fio counts its file engines' work as reads
    directions = {
        "read": phase.reads or phase.kind == "metadata",
        "write": phase.writes and phase.kind == "data",
    }
    parts = {name: _counted(job[name]) for name, wanted in directions.items() if wanted}
    asked = list(parts.values())
    runtime_s = max(part["runtime"] for part in asked) / 1000
    evidence: dict[str, Any] = {
        "errors": _errors(job, asked, messages),
        "silent_directions": [name for name, wanted in directions.items() if wanted and not job[name]["total_ios"]],
        "unasked_directions": [name for name, wanted in directions.items() if not wanted and job[name]["total_ios"]],
        "worker_seconds": job.get("job_runtime", 0) / 1000,
        "depth_percent": job.get("iodepth_level", {}),
        "rate_times_runtime_bytes": sum(part["bw_bytes"] * part["runtime"] / 1000 for part in asked),
        "transferred_bytes": sum(part["io_bytes"] for part in asked),
    }
    if job.get("job_start"):  # from 3.36 on; ms, on the node's own clock
        evidence["began_s"] = job["job_start"] / 1000
    ops = sum(part["total_ios"] for part in asked)
    figures: dict[str, Any] = {
        "ops": ops,
        "ops_per_s": sum(part["iops"] for part in asked),
        "runtime_s": runtime_s,
    }
    sampled = sum(part.get("iops_mean", 0.0) for part in asked)
    if abs(sampled - figures["ops_per_s"]) <= 0.1 * figures["ops_per_s"]:  # of some groups it is that of one worker
        figures["sampled_ops_per_s"] = sampled
    latencies = {name: latency(part["clat_ns"]) for name, part in parts.items()}
    if phase.kind == "data":
        figures["bandwidth_bytes_per_s"] = float(sum(part["bw_bytes"] for part in asked))
        for name, part in parts.items():
            figures[f"{name}_bandwidth_bytes_per_s"] = float(part["bw_bytes"])
            figures[f"{name}_ops_per_s"] = part["iops"]
            figures["bytes_read" if name == "read" else "bytes_written"] = part["io_bytes"]
            figures |= of_direction(name, latencies[name])
    figures |= next(iter(latencies.values())) if len(parts) == 1 else added_up([p["clat_ns"] for p in asked])
    return figures, evidence, parts


def _counted(part: dict[str, Any]) -> dict[str, Any]:
    """With the number of its latencies, which fio tells from 3.18 on; every I/O is timed."""
    clat = part["clat_ns"]
    return part if "N" in clat else part | {"clat_ns": clat | {"N": part["total_ios"]}}


def of_direction(name: str, times: dict[str, float]) -> dict[str, float]:
    """The columns for one direction of its latency_* columns."""
    return {f"{name}_{key}": times[key] for key in ("latency_mean_s", "latency_p99_s") if key in times}


def _errors(job: dict[str, Any], asked: list[dict[str, Any]], messages: list[str]) -> list[str]:
    """What fio reports as wrong."""
    errors = []
    if job["error"]:
        errors.append(f"error {job['error']}" + (f": {messages[0].strip()[:200]}" if messages else ""))
    short, dropped = (sum(part[name] for part in asked) for name in ("short_ios", "drop_ios"))
    if short or dropped:
        errors.append(f"{short} short and {dropped} dropped I/Os")
    return errors


def latency(part: dict[str, Any]) -> dict[str, float]:
    """latency_* columns of a clat_ns block; empty where nothing was timed (gtod_reduce)."""
    if not part["N"]:
        return {}
    if "bins" in part and sum(part["bins"].values()) != part["N"]:
        raise Wrong("the histogram does not hold every I/O")
    columns = {f"latency_{name}_s": part[name] / 1e9 for name in ("min", "mean", "stddev", "max")}
    percentiles = part.get("percentile", {})
    return columns | {f"latency_{n}_s": percentiles[k] / 1e9 for n, k in PERCENTILES.items() if k in percentiles}


def added_up(parts: list[dict[str, Any]]) -> dict[str, float]:
    """latency_* columns of several clat_ns blocks as if they were one; percentiles only where all have histograms."""
    parts = [part for part in parts if part["N"]]
    if len(parts) < 2:
        return latency(parts[0]) if parts else {}
    total = sum(part["N"] for part in parts)
    mean = sum(part["mean"] * part["N"] for part in parts) / total
    square = sum((part["stddev"] ** 2 + (part["mean"] - mean) ** 2) * part["N"] for part in parts) / total
    columns = {
        "latency_min_s": min(part["min"] for part in parts) / 1e9,
        "latency_mean_s": mean / 1e9,
        "latency_stddev_s": square**0.5 / 1e9,
        "latency_max_s": max(part["max"] for part in parts) / 1e9,
    }
    if all("bins" in part for part in parts):
        columns |= {f"latency_{n}_s": v / 1e9 for n, v in merged_percentiles([p["bins"] for p in parts]).items()}
    return columns


def merged_percentiles(histograms: list[dict[str, int]]) -> dict[str, int]:
    """Percentiles (ns) of histograms added up: the first bin whose cumulative count reaches p/100, as fio does."""
    bins: dict[int, int] = {}
    for histogram in histograms:
        for key, count in histogram.items():
            bins[int(key)] = bins.get(int(key), 0) + count
    total, seen = sum(bins.values()), 0
    wanted = [(name, float(key) / 100 * total) for name, key in PERCENTILES.items()]
    found: dict[str, int] = {}
    for value in sorted(bins):
        seen += bins[value]
        while wanted and seen >= wanted[0][1]:
            found[wanted.pop(0)[0]] = value
    return found
