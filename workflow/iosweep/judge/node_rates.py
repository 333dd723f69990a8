"""The own rates of nodes, workers and MPI ranks, and how unequal they were in a phase. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import NamedTuple

from iosweep.details import NodeRate
from iosweep.judge.series import summed
from iosweep.node import ranks
from iosweep.tools import Evidence, Parsed


class Slowest(NamedTuple):
    """The slowest of the nodes or of the workers, and its rate as a fraction of the median of all."""

    one: NodeRate
    share: float

    @property
    def name(self) -> str:
        """`n1`, `n1/5`, or `5` where the tool does not tell nodes apart."""
        if self.one.worker is None:
            return self.one.host
        return f"{self.one.host}/{self.one.worker}" if self.one.host else str(self.one.worker)


def rate(one: NodeRate) -> float:
    """Its bytes per second, or operations where it moves none."""
    return one.bandwidth_bytes_per_s or one.ops_per_s or 0.0


def nodes(rates: Sequence[NodeRate]) -> list[NodeRate]:
    return [one for one in rates if one.worker is None]


def workers(rates: Sequence[NodeRate]) -> list[NodeRate]:
    return [one for one in rates if one.worker is not None]


def slowest(rates: Sequence[NodeRate]) -> Slowest | None:
    """The slowest; None of fewer than two, or where most did nothing."""
    if len(rates) < 2:
        return None
    middle = median(map(rate, rates))
    one = min(rates, key=rate)
    return Slowest(one, rate(one) / middle) if middle else None


def columns(evidence: Evidence) -> Mapping[str, str | float | None]:
    """The columns of the results that say how even a phase was, over nodes, workers and time."""
    found: dict[str, str | float | None] = {}
    for name, rates in (("node", nodes(evidence.own_rates)), ("worker", workers(evidence.own_rates))):
        if lowest := slowest(rates):
            found |= {f"slowest_{name}": lowest.name, f"slowest_{name}_share": lowest.share}
    own = ("bandwidth_bytes_per_s", "ops_per_s")
    whole = [one for one in evidence.series if one.worker is None and one.name in own]
    together = whole[0] if len(whole) == 1 else summed(whole) if whole else None
    if together and len(together.values) > 1 and (mean := fmean(together.values)) > 0:
        squares = math.fsum((value - mean) ** 2 for value in together.values)  # pstdev takes four times as long
        found["rate_deviation"] = math.sqrt(squares / len(together.values)) / mean
    return found


def rates_of_run(parsed: Parsed, streams: Mapping[str, bytes], hosts: Sequence[str]) -> Sequence[NodeRate]:
    """The own rates that the tool reports, those of ranks by their nodes; or else what the kernel counted of each rank.

    hosts: the nodes of the run in their order, over which launchers deal ranks in blocks.
    """
    known = parsed.evidence.own_rates
    if not known:
        return _counted(parsed, ranks.rates(streams.get("progress", b"")), hosts)
    if len(hosts) < 2 or any(one.host or one.worker is None for one in known) or len(known) % len(hosts):
        return known
    per_node = len(known) // len(hosts)
    return _by_node({host: known[k * per_node : (k + 1) * per_node] for k, host in enumerate(hosts)})


def _counted(parsed: Parsed, rates: Mapping[str, Mapping[int, float]], hosts: Sequence[str]) -> Sequence[NodeRate]:
    """Those of ranks whose bytes the kernel counted; none unless every rank of every node was."""
    if rates.keys() != set(hosts) or sum(map(len, rates.values())) != parsed.evidence.tasks:
        return ()
    moved, ops = parsed.evidence.transferred_bytes or 0, parsed.figures.get("ops", 0.0)
    each = ops / moved if moved else 0.0  # all I/Os of a phase have one size
    return _by_node(
        {host: [NodeRate("", k, rate, rate * each) for k, rate in sorted(rates[host].items())] for host in hosts}
    )


def _by_node(ranks: Mapping[str, Sequence[NodeRate]]) -> Sequence[NodeRate]:
    """Each node with the sum of its ranks, and these with their numbers on it; of a single node its ranks."""
    if len(ranks) == 1:
        return next(iter(ranks.values()))
    found = []
    for host, own in ranks.items():
        bandwidth, ops = _sum([one.bandwidth_bytes_per_s for one in own]), _sum([one.ops_per_s for one in own])
        found.append(NodeRate(host, None, bandwidth, ops))
        found += [replace(one, host=host, worker=k) for k, one in enumerate(own)] if len(own) > 1 else []
    return found


def _sum(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return math.fsum(known) if len(known) == len(rates) else None
