"""What the options and counters of an entry of fio's JSON tell about how it ran, and whether they agree."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from iosweep.tools.fio.malformed import LARGEST, Wrong, shown
from iosweep.tools.fio.rows import Part, Row
from iosweep.units import parse_size

_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: a timed run that is shorter or longer than this share of what was asked for was interrupted, or waited
_SHORTEST, _LONGEST = 0.98, 1.05
#: of a section whose own options fio does not print (client mode, from the second on) the global ones tell only this
_STILL_GLOBAL = ("ioengine", "runtime", "time_based", "numjobs")
#: options that hold a job's rate down
_LIMITS = ("rate", "rate_iops", "thinktime")
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


class Workers(NamedTuple):
    """Workers of an entry: `tasks` if it is known, `merged` and `missing` as sentences where they apply."""

    tasks: Mapping[str, Any] = MappingProxyType({})
    merged: str = ""
    missing: str = ""


def workers(
    entry: Mapping[str, Any], active: Sequence[str], options: Mapping[str, str], release: tuple[int, int], siblings: int
) -> Workers:
    """How many workers an entry is of, by its options and by the sum of the workers' seconds.

    `merged`: the entry adds up workers of other sections. `missing`: workers of its section have no entry.
    """
    asked = count(options, "numjobs")
    missing = ""
    if siblings > 1 and asked != siblings and NOT_TOLD not in options:
        missing = f"{siblings} reports of workers, where numjobs={asked or 'not given'}"
    here = 1 if siblings > 1 else asked
    known: Row = {"tasks": here} if here else {}
    if (release < (3, 20) and "job_runtime" not in entry) or not active:
        return Workers(known, missing=missing)
    worked = number(entry, "job_runtime")
    windows = [number(entry[name], "runtime") for name in active]
    # reads that verify come after the writes; else both directions share the time
    window = sum(number(entry[name], "runtime") for name in ("read", "write")) if "verify" in options else max(windows)
    if worked > (here or 1) * (window + 1) * 1.01 + 1:
        if NOT_TOLD in options:
            return Workers(missing=missing)
        merged = (
            f"the entry adds up the time of about {worked / max(window, 1):.0f} workers, but numjobs is"
            f" {here or 'not given'}: group_reporting merged sections, whose options may differ"
        )
        return Workers(merged=merged, missing=missing)
    busy = worked > (0.9 if "runtime" in options else 0.5) * (here or 1) * (window - 1)
    return Workers(known if busy else {}, missing=missing)


def phase_time(
    ran_s: float, parts: Mapping[str, Part], entry: Mapping[str, Any], options: Mapping[str, str]
) -> tuple[Row, str]:
    """(phase_time_s where the time asked for bounded the run; why the run did not take that time, or nothing)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|)", options.get("runtime", ""))
    if not match or not (asked_s := float(match[1]) * _SECONDS[match[2]]):
        return {}, ""
    if ran_s > _LONGEST * asked_s:
        return {"phase_time_s": asked_s}, f"ran for {ran_s:.2f} s of {asked_s:.2f} s"
    if ran_s >= _SHORTEST * asked_s:
        return {"phase_time_s": asked_s}, ""
    moved = sum(part.bytes_moved or 0 for part in parts.values())
    whole, workers = size(options.get("io_size", options.get("size"))), count(options, "numjobs") or 1
    complete = "time_based" not in options and whole and moved in (whole, whole * workers)
    steady = "steadystate" in options and entry.get("steadystate", {}).get("attained") == 1
    return {}, "" if complete or steady else f"ran for {ran_s:.2f} s of {asked_s:.2f} s: interrupted"


def limits(options: Mapping[str, str]) -> str:
    """Which options keep the rate below what the storage can do; nothing without any."""
    set_ = [f"{name}={options[name]}" for name in _LIMITS if options.get(name, "0").strip("0, ")]
    return f"{', '.join(set_)[:100]} limits the rate" if set_ else ""


def depth(entry: Mapping[str, Any], options: Mapping[str, str]) -> int:
    """Queue depth asked for; 0 where it is not told."""
    option = count(options, "iodepth") or 0
    # with a latency target it is what fio came to, else the option, also of sections whose options are not told
    told = int(number(entry, "latency_depth", 0)) if not entry.get("latency_target") else 0
    if option and told and option != told:
        raise Wrong(f"the queue depth is given as {option} and as {told}")
    return told or option


def count(options: Mapping[str, str], name: str) -> int | None:
    """An option that counts something (`4`, `1k`); None where it is not told. Raises Wrong where it is no number."""
    if name not in options:
        return None
    try:
        found = parse_size(options[name])
    except ValueError:
        raise Wrong(f"the option {name} is {shown(options[name])}; a whole number is expected") from None
    if found > LARGEST:
        raise Wrong(f"the option {name} is more than 64 bits hold")
    return found


def size(value: str | None) -> int | None:
    try:
        return parse_size(value) or None
    except ValueError:
        return None  # ranges, splits, one for each direction: no single size


def number(part: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """A number from 0. Raises Wrong where it is missing or something else."""
    value = part.get(key, default)
    if (type(value) is int and 0 <= value <= LARGEST) or (type(value) is float and 0 <= value < math.inf):
        return value
    if value is None and key not in part:
        raise Wrong(f"`{key}` is missing in the JSON")
    if type(value) is int and value > LARGEST:
        raise Wrong(f"`{key}` is more than 64 bits hold")
    raise Wrong(f"`{key}` is {shown(value)}; a number from 0 is expected")
