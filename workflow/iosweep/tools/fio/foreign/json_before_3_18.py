"""Entries of the JSON of fio before 3.18 in the layout that 3.18 and later have.

What changed (from fio's sources and outputs): `N`, how many I/Os were timed, is new in 3.18. Before 3.2 there is no
`bw_bytes`. Before 3.0 latencies are `clat`, `slat` and `lat` in whole microseconds; before 2.21 `io_bytes` is KiB.
Lists of percentiles are filled up with `"0.00" : 0`.

Before 2.2.9 nothing in the JSON tells in which unit the run time is (`elapsed` is new then, and `total_ios` in 2.1.14),
and outputs of 2.1.11 were seen with microseconds, from which fio had computed rates 1000 times too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from iosweep.tools.fio.json_records import Direction, Entry, Latencies, Wrong, printed

#: the first release whose layout is the one that read_json expects
TODAY = (3, 18)
#: the first with nanoseconds, and the first with engines whose operations are files and no bytes
_NANOSECONDS = (3, 0)
FILE_ENGINES = (3, 2)
_US = 1000.0
#: fio cuts off what is less than a KiB: below this many, rates are off by more than 0.1 %
_FEW_KIB = 1000


def grain_ns(release: tuple[int, int]) -> float:
    """How far a latency may be from what was measured, because fio cut it off."""
    return _US if release < _NANOSECONDS else 0.0


def unreadable(entries: Sequence[Mapping[str, object]], client: bool, release: tuple[int, int]) -> str:
    """Why a document of this release cannot be read at all; empty where it can be."""
    if release >= _NANOSECONDS:
        return ""
    if release < (2, 1):
        return "what its JSON means is not known here"
    if client:
        return "of fio 2 only local runs are read, no client mode"
    elapsed = all("elapsed" in entry for entry in entries)
    return "" if elapsed else "nothing in its JSON tells whether its run times are ms or us (2.2.9 and later do)"


def modern(entry: Entry, release: tuple[int, int], size: int | None) -> Entry:
    """An entry as 3.18 would have printed it, as far as possible. `size`: of its I/Os, where there is one."""
    if release < _NANOSECONDS:
        longest_s = max((part.runtime for part in entry.directions.values()), default=0) / 1000
        elapsed_s = printed(entry.elapsed, "elapsed")
        if longest_s > elapsed_s + 1:
            raise Wrong(f"its run time of {longest_s:.0f} s would be more than the {elapsed_s} s that fio ran")
    changed = {name: _direction(part, release, size) for name, part in entry.directions.items()}
    return msgspec.structs.replace(entry, **changed)


def _direction(part: Direction, release: tuple[int, int], size: int | None) -> Direction:
    blocks: dict[str, Latencies] = {}
    for name in ("slat", "clat", "lat"):
        block: Latencies | None = getattr(part, f"{name}_ns")
        if release < _NANOSECONDS:
            if block:
                raise Wrong("latencies have the layout of another version")
            blocks[f"{name}_ns"] = _timed(printed(getattr(part, name), name), part.total_ios, _US)
        elif block:
            blocks[f"{name}_ns"] = _timed(block, part.total_ios, 1.0)
    part = msgspec.structs.replace(part, **blocks)
    if release >= (2, 21):
        return part
    if part.io_kbytes is not None:
        raise Wrong("bytes have the layout of another version")
    kibibytes, exact = part.io_bytes, part.total_ios * size if size else 0
    if 0 < kibibytes < _FEW_KIB and exact >> 10 != kibibytes:
        raise Wrong(f"{kibibytes} KiB, of which fio counts whole ones: too few for a rate")
    return msgspec.structs.replace(part, io_bytes=exact if exact >> 10 == kibibytes else kibibytes << 10)


def _timed(block: Latencies, ops: int, unit_ns: float) -> Latencies:
    """A block of latencies in ns with its count: of all I/Os, or of none where all latencies are 0."""
    microseconds = unit_ns != 1.0
    if microseconds and block.count >= 0:
        raise Wrong("a block of latencies holds what does not belong there")
    count = block.count if block.count >= 0 else ops if block.max > 0 else 0
    percentile = dict(block.percentile)
    if percentile.pop("0.00", 0):
        raise Wrong("the percentiles have the layout of another version")
    bins = block.bins
    if bins is not None and microseconds:
        # the keys are numbers of bins (2.8 to 2.21) with three constants of fio's among them (up to 2.16)
        if sum(number for key, number in bins.items() if not key.startswith("FIO_")) != count:
            raise Wrong("the histogram does not hold every I/O")
        bins = None
    return Latencies(
        min=block.min * unit_ns,
        max=block.max * unit_ns,
        mean=block.mean * unit_ns,
        stddev=block.stddev * unit_ns,
        count=count,
        percentile={key: value * unit_ns for key, value in percentile.items()},
        bins=bins,
    )
