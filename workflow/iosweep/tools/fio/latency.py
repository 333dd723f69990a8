"""latency_* columns (seconds) from fio's blocks of completion latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iosweep.tools.fio.json_records import Latencies, Wrong

#: column suffix -> fio's percentile key
PERCENTILES = {
    "p50": "50.000000",
    "p95": "95.000000",
    "p99": "99.000000",
    "p99_5": "99.500000",
    "p99_9": "99.900000",
}


def of_direction(name: str, times: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}_{key}": times[key] for key in ("latency_mean_s", "latency_p99_s") if key in times}


def columns(blocks: Sequence[Latencies]) -> dict[str, float]:
    """latency_* columns of some blocks as if they were one; empty where nothing was timed (gtod_reduce).

    Percentiles are those that fio prints for a block, or of the histograms of several if all have one. Raises Wrong.
    """
    timed = [block for block in blocks if block.count]
    if not timed:
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
        **{f"latency_{name}_s": value / 1e9 for name, value in percentiles.items()},
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
