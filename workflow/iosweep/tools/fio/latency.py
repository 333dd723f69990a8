"""Latency columns (seconds) from fio's blocks of latencies.

`latency_*` is fio's `lat`, which is what a caller waits: from before the submission to the completion. Its part after
the submission, fio's `clat`, has columns of its own: without O_DIRECT an I/O may be done before it counts as submitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from iosweep.histogram import Histogram, bin_of, made
from iosweep.tools.fio.json_records import LARGEST, Latencies, Wrong

#: column suffix -> fio's percentile key
PERCENTILES = {
    "p50": "50.000000",
    "p95": "95.000000",
    "p99": "99.000000",
    "p99_5": "99.500000",
    "p99_9": "99.900000",
}
#: I/Os that must be slower than a percentile: of fewer, it is the luck of a few.
_BEYOND = 10
#: column suffix -> I/Os that tell the percentile: p99.9 needs 10,000.
_LEAST = {name: round(_BEYOND * 100 / (100 - float(key))) for name, key in PERCENTILES.items()}
_OF_COMPLETION = ("mean", "p50", "p99", "p99_5", "p99_9")


class Timed(Protocol):
    """A direction whose I/Os were timed, in ns, with their count; None: not timed in this way."""

    @property
    def whole(self) -> Latencies | None: ...
    @property
    def completion(self) -> Latencies | None: ...


def columns(parts: Mapping[str, Sequence[Timed]], files: bool) -> dict[str, float]:
    """latency_* and completion_latency_* of all reports of each direction, and of the directions one by one.

    Of file engines (`files`) fio times the operation as `clat` alone: that is what a caller waits. Raises Wrong.
    """
    every = [part for reports in parts.values() for part in reports]
    if files:
        return _of([part.completion for part in every])
    found: dict[str, float] = {}
    for name, reports in parts.items():
        own = _of([part.whole for part in reports])
        found |= {f"{name}_{key}": own[key] for key in ("latency_mean_s", "latency_p99_s") if key in own}
    completed = _of([part.completion for part in every])
    found |= {f"completion_{key}": completed[key] for n in _OF_COMPLETION if (key := f"latency_{n}_s") in completed}
    return found | _of([part.whole for part in every])


def histogram(parts: Iterable[Timed], files: bool) -> Histogram | None:
    """What callers waited, in all these reports; None where one has no histogram. `files` as in `columns`.

    Raises ValueError for a bin that is none.
    """
    counts: dict[int, int] = {}
    for part in parts:
        block = part.completion if files else part.whole
        if block is None or block.bins is None:
            return None
        for number, count in zip(map(_bin, block.bins), block.bins.values(), strict=True):
            counts[number] = counts.get(number, 0) + count
    return made(counts)


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
        mean, stddev = timed[0].mean, timed[0].stddev
        percentiles = {n: timed[0].percentile[k] for n, k in PERCENTILES.items() if k in timed[0].percentile}
    else:
        mean = sum(block.mean * block.count for block in timed) / total
        stddev = (sum((b.stddev**2 + (b.mean - mean) ** 2) * b.count for b in timed) / total) ** 0.5
        bins = [block.bins for block in timed if block.bins is not None]
        percentiles = merged_percentiles(bins) if len(bins) == len(timed) else {}
    return {
        "latency_min_s": min(block.min for block in timed) / 1e9,
        "latency_mean_s": mean / 1e9,
        "latency_stddev_s": stddev / 1e9,
        "latency_max_s": max(block.max for block in timed) / 1e9,
        **{f"latency_{name}_s": value / 1e9 for name, value in percentiles.items() if total >= _LEAST[name]},
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
