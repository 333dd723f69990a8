"""Entries of the JSON of fio before 3.18 in the layout that 3.18 and later have.

What changed (from fio's sources and outputs): `N`, how many I/Os were timed, is new in 3.18. Before 3.2 there is no
`bw_bytes`. Before 3.0 latencies are `clat`, `slat` and `lat` in whole microseconds; before 2.21 `io_bytes` is KiB.
Lists of percentiles are filled up with `"0.00" : 0`.

Before 2.2.9 nothing in the JSON tells in which unit the run time is (`elapsed` is new then, and `total_ios` in 2.1.14),
and outputs of 2.1.11 were seen with microseconds, from which fio had computed rates 1000 times too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iosweep.tools.fio import job_settings
from iosweep.tools.fio.malformed import Wrong

#: the first release whose layout is the one that read_json expects
TODAY = (3, 18)
#: the first with nanoseconds, and the first with engines whose operations are files and no bytes
_NANOSECONDS = (3, 0)
FILE_ENGINES = (3, 2)
_DIRECTIONS = ("read", "write", "trim", "mixed")
_US = 1000.0
#: fio cuts off what is less than a KiB: below this many, rates are off by more than 0.1 %
_FEW_KIB = 1000


def grain_ns(release: tuple[int, int]) -> float:
    """How far a latency may be from what was measured, because fio cut it off."""
    return _US if release < _NANOSECONDS else 0.0


def unreadable(document: Mapping[str, Any], release: tuple[int, int]) -> str:
    """Why a document of this release cannot be read at all; empty where it can be."""
    if release >= _NANOSECONDS:
        return ""
    if release < (2, 1):
        return "what its JSON means is not known here"
    if "client_stats" in document:
        return "of fio 2 only local runs are read, no client mode"
    told_when = all("elapsed" in entry for entry in document["jobs"])
    return "" if told_when else "nothing in its JSON tells whether its run times are ms or us (2.2.9 and later do)"


def modern(entry: Mapping[str, Any], release: tuple[int, int], size: int | None) -> dict[str, Any]:
    """An entry as 3.18 would have printed it, as far as it is told. `size`: of its I/Os, where there is one."""
    changed = {
        name: _direction(part, release, size) if name in _DIRECTIONS and isinstance(part, Mapping) else part
        for name, part in entry.items()
    }
    if release < _NANOSECONDS:
        longest = max(job_settings.number(entry[name], "runtime") for name in _DIRECTIONS if name in entry) / 1000
        if longest > job_settings.number(entry, "elapsed") + 1:
            raise Wrong(f"its run time of {longest:.0f} s would be more than the {entry['elapsed']} s that fio ran")
    return changed


def _direction(part: Mapping[str, Any], release: tuple[int, int], size: int | None) -> dict[str, Any]:
    ops = job_settings.number(part, "total_ios")
    microseconds = release < _NANOSECONDS
    changed = dict(part)
    for name in ("slat", "clat", "lat"):
        if microseconds:
            if f"{name}_ns" in part:
                raise Wrong("latencies are told in a layout that is not of this version")
            changed[f"{name}_ns"] = _timed(changed.pop(name), ops, _US)
        elif f"{name}_ns" in part:
            changed[f"{name}_ns"] = _timed(part[f"{name}_ns"], ops, 1.0)
    if release < (2, 21):
        if "io_kbytes" in part:
            raise Wrong("bytes are told in a layout that is not of this version")
        kibibytes = int(job_settings.number(part, "io_bytes"))
        exact = int(ops) * size if size else 0
        if 0 < kibibytes < _FEW_KIB and exact >> 10 != kibibytes:
            raise Wrong(f"{kibibytes} KiB, of which fio counts whole ones: too few for a rate")
        changed["io_bytes"] = exact if exact >> 10 == kibibytes else kibibytes << 10
    return changed


def _timed(block: Mapping[str, Any], ops: float, unit_ns: float) -> dict[str, Any]:
    """A block of latencies in ns with N; not timed (all 0) has N 0."""
    changed = dict(block)
    if "N" in block and unit_ns != 1.0:
        raise Wrong("a block of latencies holds what does not belong there")
    for name in ("min", "max", "mean", "stddev"):
        changed[name] = job_settings.number(block, name) * unit_ns
    changed.setdefault("N", int(ops) if changed["max"] > 0 else 0)
    if "percentile" in block:
        known = {key: job_settings.number(block["percentile"], key) for key in block["percentile"]}
        if known.pop("0.00", 0):
            raise Wrong("the percentiles are told in a layout that is not of this version")
        changed["percentile"] = {key: value * unit_ns for key, value in known.items()}
    if "bins" in block and unit_ns != 1.0:
        # their keys are numbers of bins (2.8 to 2.21) with three constants of fio's among them (up to 2.16)
        counts = [job_settings.number(block["bins"], key) for key in block["bins"] if not key.startswith("FIO_")]
        if sum(counts) != changed["N"]:
            raise Wrong("the histogram does not hold every I/O")
        del changed["bins"]
    return changed
