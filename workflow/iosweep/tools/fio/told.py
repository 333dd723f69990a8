"""What the options and counters of an entry of fio's JSON tell about how it ran, and whether they agree."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from iosweep.tools.fio.rows import LARGEST, Part, Row, Wrong
from iosweep.units import parse_size

_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: a timed run that is shorter or longer than this share of what was asked for was interrupted, or waited
_SHORTEST, _LONGEST = 0.98, 1.05
#: of a section whose own options fio does not print (client mode, from the second on) the global ones tell only this
_STILL_GLOBAL = ("ioengine", "runtime", "time_based", "numjobs")
#: key in the options of such a section
NOT_TOLD = ""


def options(document: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, str]:
    """Options as far as they are told for this entry, its own over the global ones."""
    shared = document.get("global options") or {}
    if isinstance(shared, list):  # from 3.39 on, one for each host
        here = (entry.get("hostname"), entry.get("port"))
        shared = next((one for one in shared if (one.get("hostname"), one.get("port")) == here), {})
    if "job options" not in entry:
        return {name: str(shared[name]) for name in _STILL_GLOBAL if name in shared} | {NOT_TOLD: "yes"}
    return {name: str(value) for name, value in {**shared, **entry["job options"]}.items()}


def tasks(
    entry: Mapping[str, Any], active: Sequence[str], options: Mapping[str, str], release: tuple[int, int], siblings: int
) -> Row:
    """Workers of the entry, where they are told and agree with the sum of the workers' seconds."""
    told = int(options["numjobs"]) if "numjobs" in options else None
    if siblings > 1 and told != siblings and NOT_TOLD not in options:
        raise Wrong(f"{siblings} reports of workers, where numjobs={told or 'not told'}")
    here = 1 if siblings > 1 else told
    if release < (3, 20) and "job_runtime" not in entry:
        return {"tasks": here} if here else {}
    worked = number(entry, "job_runtime")
    windows = [number(entry[name], "runtime") for name in active]
    # reads that verify come after the writes; else both directions share the time
    window = sum(number(entry[name], "runtime") for name in ("read", "write")) if "verify" in options else max(windows)
    if worked > (here or 1) * (window + 1) * 1.01 + 1:
        if NOT_TOLD in options:
            return {}
        raise Wrong(
            f"the entry adds up the time of about {worked / max(window, 1):.0f} workers, but numjobs is"
            f" {here or 'not told'}: group_reporting merged sections, or an option is missing"
        )
    timed = "runtime" in options
    return {"tasks": here} if here and worked > (0.9 if timed else 0.5) * here * (window - 1) else {}


def phase_time(ran_s: float, parts: Mapping[str, Part], entry: Mapping[str, Any], options: Mapping[str, str]) -> Row:
    """phase_time_s, where the time asked for bounded the run."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|)", options.get("runtime", ""))
    if not match or not (asked_s := float(match[1]) * _SECONDS[match[2]]):
        return {}
    if ran_s > _LONGEST * asked_s:
        raise Wrong(f"ran for {ran_s:.2f} s of {asked_s:.2f} s")
    if ran_s >= _SHORTEST * asked_s:
        return {"phase_time_s": asked_s}
    moved = sum(part.bytes_moved or 0 for part in parts.values())
    whole, workers = size(options.get("io_size", options.get("size"))), int(options.get("numjobs", "1"))
    complete = "time_based" not in options and whole and moved in (whole, whole * workers)
    steady = "steadystate" in options and entry.get("steadystate", {}).get("attained") == 1
    if not complete and not steady:
        raise Wrong(f"ran for {ran_s:.2f} s of {asked_s:.2f} s: interrupted")
    return {}


def depth(entry: Mapping[str, Any], options: Mapping[str, str]) -> int:
    """Queue depth asked for; 0 where it is not told."""
    option = int(options["iodepth"]) if "iodepth" in options else 0
    # with a latency target it is what fio came to, else the option, also of sections whose options are not told
    told = int(number(entry, "latency_depth", 0)) if not entry.get("latency_target") else 0
    if option and told and option != told:
        raise Wrong(f"the queue depth is told as {option} and as {told}")
    return told or option


def size(value: str | None) -> int | None:
    try:
        return parse_size(value) or None
    except ValueError:
        return None  # ranges, splits, one for each direction: no single size


def number(part: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = part[key] if default is None else part.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise Wrong(f"{key} is {value!r}")
    if isinstance(value, int) and value > LARGEST:
        raise Wrong(f"{key} is more than 64 bits hold")
    return value
