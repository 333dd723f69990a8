"""fio's logs of bandwidth over time: which are asked for, and how they are read. Pure.

Each worker writes a log of its own when it ends: lines of `ms, KiB/s, direction, ...`. A thread of fio's main process
makes an entry of each worker and direction at every tick, from the I/O that completed since the tick before (sources of
3.20 and 3.42). Where nothing completed there is no entry. A tick may be late, and then stands for more than an
interval; what came after the last tick is not logged.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from iosweep.histograms import Series
from iosweep.tools import Step

#: Stream of the logs, and the names of their files, with `*` for the number of the worker, from 1.
STREAM, FILES = "series", "series_bw.*.log"
#: Intervals of a phase at least, and the longest interval in seconds; but never more than MOST intervals.
INTERVALS, LONGEST_S, MOST = 20, 1.0, 300
#: Shortest interval in seconds.
SHORTEST_S = 0.01
#: A gap of so many intervals between two entries is looked at: were ticks late, or did nothing complete?
_GAP = 1.9
#: Quantity of the series.
NAME = "bandwidth_bytes_per_s"

_HEAD = re.compile(rb"^==> series_bw\.(\d{1,6})\.log <==\n", re.MULTILINE)
_decoder = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0, le=2**53)]])


class Unreadable(ValueError):
    """Logs are not as fio writes them."""


class Log(NamedTuple):
    """The logs of a node: its series; worker, from 0 -> the bytes that it moved until the last entry of any."""

    node: Series
    moved_bytes: dict[int, float]
    covered_s: float


def interval_s(time_s: float) -> float:
    """Seconds of an interval in a phase of `time_s` seconds: whole milliseconds."""
    wanted = max(SHORTEST_S, min(time_s / INTERVALS, LONGEST_S), time_s / MOST)
    return math.ceil(wanted * 1000 - 1e-6) / 1000


def options(step: Step) -> list[str]:
    """Arguments for the logs. Phases that no time bounds have none: their intervals could not be chosen."""
    if step.time_s is None or step.phase.kind != "data":
        return []
    name = FILES.partition("_")[0]
    return [f"--write_bw_log={name}", f"--log_avg_msec={interval_s(step.time_s) * 1000:.0f}", "--per_job_logs=1"]


def workers(stream: bytes) -> int | None:
    """How many workers have a log; None where there is none."""
    return len(set(_HEAD.findall(stream))) or None


def read(stream: bytes, time_s: float, runtime_s: float, moved_bytes: float, host: str = "") -> Log | None:
    """The logs of a node, whose files Tool.outputs joined. None where they have no entry. Raises Unreadable.

    time_s: of the phase; runtime_s, moved_bytes: of the node, as fio reports them.
    """
    logs = _logs(stream)
    if not any(log.times for log in logs.values()) or time_s <= 0 or runtime_s <= 0:
        return None
    step_s = interval_s(time_s)
    number = max(1, min(MOST, int(min(time_s, runtime_s) / step_s + 0.01)))
    cells = _even([*logs.values()], number, step_s, runtime_s, moved_bytes)
    if not cells[0]:
        return None
    node = Series(NAME, tuple(map(sum, zip(*cells, strict=True))), step_s, 0.0, host)
    moved = {worker - 1: sum(own) * step_s for worker, own in zip(logs, cells, strict=True)}
    return Log(node, moved, len(cells[0]) * step_s)


class _Entries(NamedTuple):
    """A worker's log: times in ms, rates in KiB/s, directions."""

    times: list[int]
    rates: list[int]
    directions: list[int]


def _logs(stream: bytes) -> dict[int, _Entries]:
    """Number of a worker -> its log. Raises Unreadable."""
    before, *parts = _HEAD.split(stream)
    if before:
        raise Unreadable("they do not begin with the name of a log")
    found: dict[int, _Entries] = {}
    for number, text in zip(map(int, parts[0::2]), parts[1::2], strict=True):
        try:
            values = _decoder.decode(b"[" + text.rstrip().replace(b"\n", b",") + b"]")
        except msgspec.DecodeError:
            raise Unreadable(f"that of worker {number} holds what is no entry") from None
        lines = text.count(b"\n")
        fields, rest = divmod(len(values), lines) if lines else (3, len(values))
        times = values[0::fields] if fields else []
        if text[-1:] not in (b"", b"\n") or rest or fields < 3 or times != sorted(times):
            raise Unreadable(f"that of worker {number} is cut, or its entries are not in order")
        found[number] = _Entries(times, values[1::fields], values[2::fields])
    return dict(sorted(found.items()))


def _even(
    logs: Sequence[_Entries], number: int, step_s: float, runtime_s: float, moved_bytes: float
) -> list[list[float]]:
    """Bytes/s of each worker in each even interval, of any logs. Intervals at the end are left out if nothing was
    logged of them."""
    ticks: list[float] = []  # of fio, in seconds; entries of the same tick count as its first
    for at_ms in sorted({at for log in logs for at in log.times}):
        if not ticks or at_ms / 1000 > ticks[-1] + step_s / 2:
            ticks.append(at_ms / 1000)
    last_s = ticks[-1]
    spans = [_spans(log, ticks, step_s) for log in logs]
    late = _ticks_were_late(spans, moved_bytes, last_s, runtime_s, step_s)
    cells = [_cells(own, late, number, step_s) for own in spans]
    rest_s = number * step_s - last_s
    if rest_s > 0.1 * step_s:
        missing = moved_bytes - sum(map(sum, cells)) * step_s
        if rest_s < _GAP * step_s or missing > moved_bytes * rest_s / runtime_s / 2:
            return [own[: int(last_s / step_s + 0.1)] for own in cells]
    return cells


#: Begin and end of the time that an entry covers, its rate, and how much later it begins if no tick was late.
_Span = tuple[float, float, float, float]


def _spans(log: _Entries, ticks: Sequence[float], step_s: float) -> list[_Span]:
    """The span of each entry: the time since the tick before it, of whichever worker."""
    spans: list[_Span] = []
    before = [0.0, 0.0, 0.0]
    for at_ms, rate, direction in zip(*log, strict=True):
        at, direction = at_ms / 1000, min(direction, 2)
        begin = before[direction]
        if at - begin > _GAP * step_s:
            look = bisect_right(ticks, at - step_s / 2) - 1
            begin = max(begin, ticks[look] if look >= 0 else 0.0)
        spans.append((begin, at, rate * 1024.0, max(0.0, at - begin - step_s) if at - begin > _GAP * step_s else 0.0))
        before[direction] = at
    return spans


def _ticks_were_late(
    spans: Sequence[Sequence[_Span]], moved_bytes: float, last_s: float, runtime_s: float, step_s: float
) -> bool:
    """Whether gaps in all logs are late ticks during steady work, not idle time. The bytes that were moved decide."""
    if not any(skipped for own in spans for _, _, _, skipped in own):
        return True
    least = sum(rate * (end - begin - skipped) for own in spans for begin, end, rate, skipped in own)
    more = sum(rate * skipped for own in spans for _, _, rate, skipped in own)
    rest_s = runtime_s - last_s
    tail = moved_bytes * rest_s / runtime_s if runtime_s > 0 and rest_s < _GAP * step_s else 0.0
    return moved_bytes - tail - least > more / 2


def _cells(spans: Sequence[_Span], late: bool, number: int, step_s: float) -> list[float]:
    """Bytes/s in each of `number` even intervals."""
    cells = [0.0] * number
    for begin, end, rate, skipped in spans:
        if skipped and not late:
            begin += skipped
        first, last = int(begin / step_s), int(end / step_s)
        if first == last:
            if first < number:
                cells[first] += rate * (end - begin)
            continue
        for cell in range(first, min(last + 1, number)):
            cells[cell] += rate * (min(end, (cell + 1) * step_s) - max(begin, cell * step_s))
    return [moved / step_s for moved in cells]
