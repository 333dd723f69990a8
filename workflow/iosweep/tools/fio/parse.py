"""fio's JSON (json and json+) to figures, evidence and problems. Never raises for what fio may print."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from iosweep.tools import Parsed, Phase

#: column suffix -> fio's percentile key
PERCENTILES = {
    "p50": "50.000000",
    "p95": "95.000000",
    "p99": "99.000000",
    "p99_5": "99.500000",
    "p99_9": "99.900000",
}


def parse(stdout: bytes, phase: Phase) -> Parsed:
    """Figures of one local run with group_reporting (one entry in `jobs`).

    Text before the JSON is normal (notes, warnings, `fio: pid=..., err=28/...`) and kept as evidence `messages`.
    Latency is fio's clat in seconds; percentiles are those of fio's own histogram, or, for a mixed phase, of the two
    histograms added up.
    """
    before, document, problem = _document(stdout)
    messages = [line for line in before.splitlines() if line.strip()][:20]
    if document is None:
        return Parsed(evidence={"messages": messages}, problems=[problem, *messages[:3]])
    version = str(document.get("fio version", "")) or None
    try:
        figures, evidence, problems = _figures(document, phase, messages)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return Parsed(version, {}, {"messages": messages}, [f"fio's JSON lacks what is expected: {error!r}"])
    return Parsed(version, figures, {**evidence, "messages": messages}, problems)


def _document(stdout: bytes) -> tuple[str, dict[str, Any] | None, str]:
    """(text before, the one JSON document or None, what is wrong)"""
    match = re.search(rb"^\{[ \t]*\r?$", stdout, re.MULTILINE)
    if not match:
        text = stdout.decode("utf-8", "replace")
        return text, None, "no JSON in fio's output" if stdout.strip() else "fio printed nothing"
    before = stdout[: match.start()].decode("utf-8", "replace")
    try:
        document = orjson.loads(stdout[match.start() :])
    except orjson.JSONDecodeError:
        try:  # something follows the document, or it is cut
            text = stdout[match.start() :].decode("utf-8", "replace")
            document, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return before, None, "fio's JSON is cut or damaged"
        if re.search(r"^\{", text[end:], re.MULTILINE):
            return before, None, "more than one JSON document in fio's output"
        before += text[end:]
    if not isinstance(document, dict):
        return before, None, "fio's JSON is not an object"
    return before, document, ""


def _figures(
    document: dict[str, Any], phase: Phase, messages: list[str]
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or len(jobs) != 1:
        found = len(jobs) if isinstance(jobs, list) else 0
        return {}, {}, [f"expected one group of jobs in fio's JSON, found {found}"]
    job = jobs[0]
    # fio counts its file engines' work as reads
    directions = {
        "read": phase.reads or phase.kind == "metadata",
        "write": phase.writes and phase.kind == "data",
    }
    asked = [job[name] for name, wanted in directions.items() if wanted]
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
    ops = sum(part["total_ios"] for part in asked)
    figures: dict[str, Any] = {
        "ops": ops,
        "ops_per_s": sum(part["iops"] for part in asked),
        "runtime_s": runtime_s,
    }
    sampled = sum(part.get("iops_mean", 0.0) for part in asked)
    if abs(sampled - figures["ops_per_s"]) <= 0.1 * figures["ops_per_s"]:  # of some groups it is that of one worker
        figures["sampled_ops_per_s"] = sampled
    # before 3.18 there is no N; every I/O is timed
    clat = {n: {"N": job[n]["total_ios"]} | job[n]["clat_ns"] for n, wanted in directions.items() if wanted}
    latencies = {name: latency(part) for name, part in clat.items()}
    if phase.kind == "data":
        figures["bandwidth_bytes_per_s"] = float(sum(part["bw_bytes"] for part in asked))
        for name, times in latencies.items():
            part = job[name]
            figures[f"{name}_bandwidth_bytes_per_s"] = float(part["bw_bytes"])
            figures[f"{name}_ops_per_s"] = part["iops"]
            figures["bytes_read" if name == "read" else "bytes_written"] = part["io_bytes"]
            for key in ("mean", "p99"):
                if f"latency_{key}_s" in times:
                    figures[f"{name}_latency_{key}_s"] = times[f"latency_{key}_s"]
    if len(asked) == 1:
        (only,) = latencies.values()
        figures |= only
    else:
        figures |= added_up(list(clat.values()))
    return figures, evidence, []


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
        raise ValueError("the histogram does not hold every I/O")
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
