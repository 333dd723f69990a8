"""What is different in the text reports of fio 2 (2.1 to 2.21), and what must be known before its numbers count.

Up to 2.16 `KB` may be 1024 or 1000 bytes (option kb_base), so that bytes count only where the operations say which.
The run time was seen in microseconds instead of milliseconds (2.1.11), with rates computed from it that are 1000 times
too small: a report whose I/Os fill less than a hundredth of its time is not taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from iosweep.tools.fio.foreign.rounded import Rounded
from iosweep.tools.fio.foreign.text_reports import Report
from iosweep.tools.fio.json_records import Wrong

#: less than this share of the time with an I/O in flight: the unit of the time may be another one
_IDLE = 0.01
_GROUPS = 5


def is_old(line: re.Match[str]) -> bool:
    """Is this a direction's line as up to 2.16 (`io=..., bw=..., iops=..., runt=...`)?"""
    return line.re.groups == _GROUPS


def prints_remainders(report: Report, version: str | None) -> bool:
    """May the digits after the point be a remainder and not a fraction? Up to 2.19; 3.0 is the first with `iops`."""
    lines = [match for (_, kind), matches in report.lines.items() if kind == "direction" for match in matches]
    if version:
        return version.startswith("fio-2.")
    issued = report.one("issued")
    no_iops = not any(kind == "iops" for _, kind in report.lines)
    return any(map(is_old, lines)) or bool(issued and issued[0].startswith("issued rwt:") and no_iops)


def rates(line: re.Match[str], ops: int, size: int | None, runtime_s: float) -> list[Rounded]:
    """Bytes per second from `bw=` and from `io=`; none where nothing tells which KB is meant. Raises Wrong."""
    both = [
        [Rounded.of(line[3], binary, True), Rounded.of(line[2], binary, True).over(runtime_s)]
        for binary in (True, False)
    ]
    if not both[0][0].agrees(both[0][1]) and not both[1][0].agrees(both[1][1]):
        raise Wrong("bandwidth, bytes and time do not agree")
    if size:
        exact = Rounded(ops * size / runtime_s, 0.0)
        for pair in both:
            if all(rate.agrees(exact) for rate in pair):
                return pair
        raise Wrong(f"{ops} operations of {size} bytes are not the bytes that are printed")
    # a power of two, with one of the two KB only
    powers = [pair for pair in both if any(_power(rate, ops, runtime_s) for rate in pair[1:])]
    return powers[0] if len(powers) == 1 else []


def _power(rate: Rounded, ops: int, runtime_s: float) -> bool:
    low, high = ((rate.value + sign * rate.ulp) * runtime_s / ops for sign in (-1, 1))
    return any(low <= 1 << power <= high for power in range(9, 31))


def check_unit(report: Report, counts: Iterable[tuple[str, int]], runtime_s: float, workers: int) -> None:
    """Raises Wrong where nothing shows that the run time is in milliseconds."""
    busy = 0.0
    for name, ops in counts:
        line = report.one("latency lat", name) or report.one("latency clat", name)
        if not line:
            raise Wrong("without latencies nothing shows whether its run time is ms or us")
        busy += ops * float(line[5]) * {"usec": 1e-6, "msec": 1e-3}.get(line[2], 0.0)
    if busy < _IDLE * runtime_s * workers:
        raise Wrong(
            f"its I/Os took {busy:.3g} s of {runtime_s * workers:.3g} s: nothing shows whether its run time is ms or us"
        )


def block(told: str) -> int | None:
    """Bytes of `4K-4K`, `512-512`; None for a range."""
    low, _, high = told.partition("-")
    match = re.fullmatch(r"(\d+)([KMG]?)", low)
    if not match or low != high:
        return None
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
