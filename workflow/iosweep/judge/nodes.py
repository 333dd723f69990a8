"""The rates of nodes, workers and ranks: how unequal they were, and which a row keeps. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeVar

from iosweep.details import NodeRate, Series
from iosweep.node import ranks
from iosweep.tools import Parsed

Line = TypeVar("Line", Series, NodeRate)

# Rates over time


#: Values of a stored series; workers of a node whose series and whose rates are stored, the slowest and the fastest.
MOST_VALUES, MOST_LINES, MOST_WORKERS = 300, 8, 64


def stored(series: Sequence[Series]) -> tuple[tuple[str, int | None, str, float, float, tuple[float | None, ...]], ...]:
    """The series that a row keeps: host, worker, quantity, begin_s, interval_s, values (with 6 digits)."""
    kept = map(coarser, _kept(series, _mean, MOST_LINES))
    return tuple((s.host, s.worker, s.name, s.begin_s, s.interval_s, tuple(map(_short, s.values))) for s in kept)


def stored_rates(rates: Sequence[NodeRate]) -> tuple[tuple[str, int | None, float | None, float | None], ...]:
    """The rates of nodes and workers that a row keeps: host, worker, bytes per second, operations per second."""
    kept = _kept(rates, rate, MOST_WORKERS)
    return tuple((r.host, r.worker, r.bandwidth_bytes_per_s, r.ops_per_s) for r in kept)


def _short(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


def _kept(lines: Sequence[Line], value: Callable[[Line], float], most: int) -> list[Line]:
    """The lines of whole nodes, and those of the slowest and the fastest workers: of each node half of `most` each."""
    values = {(line.host, line.worker): value(line) for line in lines}
    by_host: dict[str, list[tuple[str, int | None]]] = {}
    for host, worker in sorted(values, key=values.__getitem__):
        if worker is not None:
            by_host.setdefault(host, []).append((host, worker))
    kept: set[tuple[str, int | None]] = set()
    for ranked in by_host.values():
        kept.update(ranked[: most - most // 2], ranked[-(most // 2) :])
    return [line for line in lines if line.worker is None or (line.host, line.worker) in kept]


def _mean(series: Series) -> float:
    """The mean of the values that were read; 0 without any."""
    total = sum(series.values)
    if total == total:  # the common case takes a tenth of the time
        return total / (len(series.values) or 1)
    read = [value for value in series.values if not math.isnan(value)]
    return sum(read) / (len(read) or 1)


def coarser(series: Series, most: int = MOST_VALUES) -> Series:
    """A series with at most so many values, each the mean of several intervals."""
    if len(series.values) <= most:
        return series
    width = -(-len(series.values) // most)
    groups = [series.values[k : k + width] for k in range(0, len(series.values) - width + 1, width)]
    return replace(series, values=tuple(sum(g) / width for g in groups), interval_s=series.interval_s * width)


def summed(series: Sequence[Series]) -> Series | None:
    """The sum of series with the same intervals over the time that all of them cover; None where they do not meet."""
    if len({round(s.interval_s, 6) for s in series}) != 1:
        return None
    step_s = series[0].interval_s
    begin = max(round(s.begin_s / step_s) for s in series)
    shifted = [s.values[begin - round(s.begin_s / step_s) :] for s in series]
    number = min(map(len, shifted))
    values = tuple(map(sum, zip(*(values[:number] for values in shifted), strict=True)))
    return Series(series[0].name, values, step_s, begin * step_s) if values else None


# Rates of nodes and workers


def rate(measured: NodeRate) -> float:
    """Bytes per second, or operations where no bytes are moved."""
    return measured.bandwidth_bytes_per_s or measured.ops_per_s or 0.0


def slowest_share(rates: Sequence[NodeRate]) -> float | None:
    """The lowest rate as a share of the median; None with fewer than two rates, or where most are zero."""
    middle = median(map(rate, rates)) if len(rates) > 1 else 0.0
    return min(map(rate, rates)) / middle if middle else None


def rates_of_run(parsed: Parsed, streams: Mapping[str, bytes], hosts: Sequence[str]) -> Sequence[NodeRate]:
    """Rates of nodes and workers: as the tool reports them, with ranks dealt to their nodes; else as the kernel counted
    each rank.

    hosts: the nodes of the run in their order, over which launchers deal ranks in blocks.
    """
    known = parsed.evidence.node_rates
    if not known:
        return _counted(parsed, ranks.rates(streams.get("progress", b"")), hosts)
    if len(hosts) < 2 or any(r.host or r.worker is None for r in known) or len(known) % len(hosts):
        return known
    per_node = len(known) // len(hosts)
    return _by_node({host: known[k * per_node : (k + 1) * per_node] for k, host in enumerate(hosts)})


def _counted(parsed: Parsed, rates: Mapping[str, Mapping[int, float]], hosts: Sequence[str]) -> Sequence[NodeRate]:
    """Rates of ranks by the bytes that the kernel counted; none unless it counted every rank of every node."""
    if rates.keys() != set(hosts) or sum(map(len, rates.values())) != parsed.evidence.tasks:
        return ()
    moved, ops = parsed.evidence.transferred_bytes or 0, parsed.figures.get("ops", 0.0)
    each = ops / moved if moved else 0.0  # all I/Os of a phase have one size
    return _by_node(
        {host: [NodeRate("", k, rate, rate * each) for k, rate in sorted(rates[host].items())] for host in hosts}
    )


def _by_node(ranks: Mapping[str, Sequence[NodeRate]]) -> Sequence[NodeRate]:
    """Each node with the sum of its ranks, then its ranks, numbered from 0; of a single node only its ranks."""
    if len(ranks) == 1:
        return next(iter(ranks.values()))
    by_node = []
    for host, rates in ranks.items():
        bandwidth, ops = _sum([r.bandwidth_bytes_per_s for r in rates]), _sum([r.ops_per_s for r in rates])
        by_node.append(NodeRate(host, None, bandwidth, ops))
        if len(rates) > 1:
            by_node += [replace(r, host=host, worker=k) for k, r in enumerate(rates)]
    return by_node


def _sum(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return math.fsum(known) if len(known) == len(rates) else None
