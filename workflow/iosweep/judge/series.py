"""What the tables keep of series and of the rates of nodes and workers: bounded, however many there were. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from iosweep.details import NodeRate, Series

#: Values of a series, and workers of a node with rows of their own: the slowest and the fastest.
MOST_VALUES, MOST_WORKERS = 300, 64


def stored(series: Sequence[Series]) -> tuple[tuple[str, int | None, str, float, float, tuple[float | None, ...]], ...]:
    """The series that a row keeps: host, worker, quantity, begin_s, interval_s, values (with 6 digits)."""
    chosen = _workers([(one.host, one.worker, _mean(one)) for one in series])
    kept = (coarser(one) for one in series if one.worker is None or (one.host, one.worker) in chosen)
    return tuple((s.host, s.worker, s.name, s.begin_s, s.interval_s, tuple(map(_short, s.values))) for s in kept)


def stored_rates(rates: Sequence[NodeRate]) -> tuple[tuple[str, int | None, float | None, float | None], ...]:
    """The rates of nodes and workers that a row keeps: host, worker, bytes per second, operations per second."""
    chosen = _workers([(one.host, one.worker, one.bandwidth_bytes_per_s or one.ops_per_s or 0.0) for one in rates])
    kept = (one for one in rates if one.worker is None or (one.host, one.worker) in chosen)
    return tuple((rate.host, rate.worker, rate.bandwidth_bytes_per_s, rate.ops_per_s) for rate in kept)


def _short(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


def _workers(known: Sequence[tuple[str, int | None, float]]) -> set[tuple[str, int | None]]:
    """The workers that are kept, of (host, worker, rate)."""
    hosts: dict[str, dict[int, float]] = {}
    for host, worker, rate in known:
        if worker is not None:
            hosts.setdefault(host, {}).setdefault(worker, rate)
    chosen: set[tuple[str, int | None]] = set()
    for host, workers in hosts.items():
        ranked = sorted(workers, key=lambda worker: workers[worker]) if len(workers) > MOST_WORKERS else [*workers]
        half = MOST_WORKERS // 2
        names = ranked if len(ranked) <= MOST_WORKERS else [*ranked[:half], *ranked[-half:]]
        chosen.update((host, worker) for worker in names)
    return chosen


def _mean(series: Series) -> float:
    """The mean of what was read; 0 where nothing was."""
    total = sum(series.values)
    if total == total:
        return total / (len(series.values) or 1)
    read = [value for value in series.values if not math.isnan(value)]
    return sum(read) / (len(read) or 1)


def coarser(series: Series, most: int = MOST_VALUES) -> Series:
    """The same with at most so many values: each the mean of as many intervals."""
    if len(series.values) <= most:
        return series
    width = -(-len(series.values) // most)
    groups = [series.values[k : k + width] for k in range(0, len(series.values) - width + 1, width)]
    return replace(series, values=tuple(sum(g) / width for g in groups), interval_s=series.interval_s * width)


def summed(series: Sequence[Series]) -> Series | None:
    """The sum of some series of the same intervals while all of them were read; None where they do not meet."""
    if len({round(one.interval_s, 6) for one in series}) != 1:
        return None
    step_s = series[0].interval_s
    begin = max(round(one.begin_s / step_s) for one in series)
    shifted = [one.values[begin - round(one.begin_s / step_s) :] for one in series]
    number = min(map(len, shifted))
    values = tuple(map(sum, zip(*(own[:number] for own in shifted), strict=True)))
    return Series(series[0].name, values, step_s, begin * step_s) if values else None
