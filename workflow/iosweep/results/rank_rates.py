"""The own rates of MPI ranks, and of the nodes that they ran on. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from iosweep.node import progress
from iosweep.own_rate import OwnRate
from iosweep.tools import Parsed


def of_run(parsed: Parsed, streams: Mapping[str, bytes], hosts: Sequence[str]) -> Sequence[OwnRate]:
    """The own rates that the tool reports, those of ranks by their nodes; or else what the kernel counted of each rank.

    hosts: the nodes of the run in their order, over which launchers deal ranks in blocks.
    """
    known = parsed.evidence.own_rates
    if not known:
        return _counted(parsed, progress.rates(streams.get("progress", b"")), hosts)
    if len(hosts) < 2 or any(one.host or one.worker is None for one in known) or len(known) % len(hosts):
        return known
    per_node = len(known) // len(hosts)
    return _by_node({host: known[k * per_node : (k + 1) * per_node] for k, host in enumerate(hosts)})


def _counted(parsed: Parsed, rates: Mapping[str, Mapping[int, float]], hosts: Sequence[str]) -> Sequence[OwnRate]:
    """Those of ranks whose bytes the kernel counted; none unless every rank of every node was."""
    if rates.keys() != set(hosts) or sum(map(len, rates.values())) != parsed.evidence.tasks:
        return ()
    moved, ops = parsed.evidence.transferred_bytes or 0, parsed.figures.get("ops", 0.0)
    each = ops / moved if moved else 0.0  # all I/Os of a phase have one size
    return _by_node(
        {host: [OwnRate("", k, rate, rate * each) for k, rate in sorted(rates[host].items())] for host in hosts}
    )


def _by_node(ranks: Mapping[str, Sequence[OwnRate]]) -> Sequence[OwnRate]:
    """Each node with the sum of its ranks, and these with their numbers on it; of a single node its ranks."""
    if len(ranks) == 1:
        return next(iter(ranks.values()))
    found = []
    for host, own in ranks.items():
        bandwidth, ops = _sum([one.bandwidth_bytes_per_s for one in own]), _sum([one.ops_per_s for one in own])
        found.append(OwnRate(host, None, bandwidth, ops))
        found += [replace(one, host=host, worker=k) for k, one in enumerate(own)] if len(own) > 1 else []
    return found


def _sum(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return math.fsum(known) if len(known) == len(rates) else None
