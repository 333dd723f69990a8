"""Whether a node, worker or rank was a straggler, and the rates that decide it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from iosweep.histograms import NodeRate
from iosweep.judge.findings import NOT_APPLICABLE, SHOWN_NODES, Observation, failed, passed, unchecked
from iosweep.node import ranks
from iosweep.node.cpus import parse
from iosweep.store.record import Finding
from iosweep.text import human_percent, some
from iosweep.tools import Parsed

#: Share of the median below which a node or worker is a straggler: a worker does fewer I/Os than a node, so its rate
#: varies more by chance.
SLOW = {"node": 0.75, "worker": 0.5}
#: A straggler must also be this many robust standard deviations below the median: the slowest of many is always slow.
DEVIATIONS = 5.0
#: With only two nodes or workers: the same as a share of the faster rate, because two rates show no scatter.
SLOW_OF_TWO = {"node": 0.5, "worker": 0.1}
#: Minimum I/Os per node or worker on average: a rate from 100 I/Os varies by 10 % by chance.
LEAST_OPS = 100
#: If more than this share is slow, the slow ones are a second kind (an older generation of nodes), not stragglers.
MOST_STRAGGLERS = 0.25
#: Minimum seconds of a phase with a fixed count or volume, in which workers stop when they are done: in a shorter phase
#: a scheduler tick is a large part of a worker's time.
LEAST_S = 1.0


def even(s: Observation) -> Finding:
    """No node and no worker was far slower than the others: 75 % of the median (nodes), 50 % (workers) or less, and
    outside their scatter."""
    rates, ops = s.parsed.evidence.node_rates, s.parsed.figures.get("ops", 0.0)
    if s.point.tasks == 1:
        return NOT_APPLICABLE
    if not rates:
        lost = f": {s.parsed.evidence.lost}" if s.parsed.evidence.lost else ""
        return unchecked(f"the rates of single nodes and workers are not known{lost}")
    bounded = s.point.phase_time_s is None or s.phase.kind == "metadata"
    runtime_s = s.parsed.figures["runtime_s"]
    if bounded and runtime_s < LEAST_S:
        return unchecked(f"{runtime_s:.2g} s are too short to compare workers that stop when they are done")
    usable = [node.usable for node in s.run.cpus.nodes if node.usable] if s.run.cpus else []
    sharing = bounded and any(len(parse(cpus)) < s.point.tasks // s.point.nodes for cpus in usable)
    slow, sentences = [], []
    of_nodes = [r for r in rates if r.worker is None]
    of_workers = [r for r in rates if r.worker is not None and not sharing]
    for kind, compared in (("node", of_nodes), ("worker", of_workers)):
        share = slowest_share(compared)
        if share is not None and ops >= LEAST_OPS * len(compared):
            slow += _stragglers(kind, compared)
            sentences.append(f"the slowest of {len(compared)} {kind}s did {human_percent(share)} of their median")
    if slow:
        return failed(some(slow, SHOWN_NODES, separator="; "))
    if sentences:
        return passed("; ".join(sentences))
    if sharing:
        return unchecked("workers share CPUs, and those that finish leave theirs to the others")
    return unchecked(f"{ops:,.0f} I/Os of {s.point.tasks:,} workers are too few to compare them")


def _stragglers(kind: str, rates: Sequence[NodeRate]) -> list[str]:
    """Phrases about nodes or workers that are far slower than the others, the slowest first."""
    ranked = sorted(rates, key=rate)
    names = [
        f"node {r.host}" if r.worker is None else f"worker {r.worker}{f' on {r.host}' * bool(r.host)}" for r in ranked
    ]
    if len(ranked) == 2:
        share = rate(ranked[0]) / rate(ranked[1])
        return [f"{names[0]} did {human_percent(share)} of the other's rate"] if share < SLOW_OF_TWO[kind] else []
    middle = median(map(rate, ranked))
    deviation = 1.4826 * median(abs(rate(r) - middle) for r in ranked)
    limit = min(SLOW[kind] * middle, middle - DEVIATIONS * deviation)
    slow = [
        f"{name} did {human_percent(rate(r) / middle)} of the {kind}s' median"
        for name, r in zip(names, ranked, strict=True)
        if rate(r) < limit
    ]
    return slow if len(slow) <= max(1, MOST_STRAGGLERS * len(ranked)) else []


# The rates of nodes, workers and ranks


def rate(measured: NodeRate) -> float:
    """Bytes per second, or operations per second where no bytes are moved."""
    return measured.bandwidth_bytes_per_s or measured.ops_per_s or 0.0


def slowest_share(rates: Sequence[NodeRate]) -> float | None:
    """The lowest rate as a share of the median; None with fewer than two rates, or if the median is zero."""
    middle = median(map(rate, rates)) if len(rates) > 1 else 0.0
    return min(map(rate, rates)) / middle if middle else None


def rates_of_run(parsed: Parsed, streams: Mapping[str, bytes], hosts: Sequence[str]) -> Sequence[NodeRate]:
    """Rates of nodes and workers: as the tool reports them, with ranks assigned to their nodes; else as the kernel
    counted each rank, if it counted every rank of every node.

    hosts: the nodes of the run, in the order in which launchers place blocks of ranks.
    """
    reported = parsed.evidence.node_rates
    if reported:
        if len(hosts) < 2 or any(r.host or r.worker is None for r in reported) or len(reported) % len(hosts):
            return reported
        per_node = len(reported) // len(hosts)
        by_node = {host: reported[k * per_node : (k + 1) * per_node] for k, host in enumerate(hosts)}
    else:
        counted = ranks.rates(streams.get("progress", b""))
        if counted.keys() != set(hosts) or sum(map(len, counted.values())) != parsed.evidence.tasks:
            return ()
        moved, ops = parsed.evidence.transferred_bytes or 0, parsed.figures.get("ops", 0.0)
        per_byte = ops / moved if moved else 0.0  # all I/Os of a phase have one size
        by_node = {
            host: [NodeRate("", k, rate, rate * per_byte) for k, rate in sorted(counted[host].items())]
            for host in hosts
        }
    if len(by_node) == 1:
        return by_node[hosts[0]]
    rates = []
    for host, of_ranks in by_node.items():
        bandwidth, ops_per_s = (
            None if None in column else math.fsum(column)
            for column in zip(*((r.bandwidth_bytes_per_s, r.ops_per_s) for r in of_ranks), strict=True)
        )
        rates.append(NodeRate(host, None, bandwidth, ops_per_s))
        if len(of_ranks) > 1:
            rates += [replace(r, host=host, worker=k) for k, r in enumerate(of_ranks)]
    return rates
