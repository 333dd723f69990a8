"""Whether rates were even: over time, and over nodes and workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean, median

from iosweep.details import NodeRate, Series
from iosweep.judge import node_rates, steadiness
from iosweep.judge.checks.finding import NO_OUTPUT, NOT_APPLICABLE, SHOWN_NODES, Seen, failed, passed, unchecked
from iosweep.judge.series import summed
from iosweep.judge.steadiness import JUDGED_S, Shape
from iosweep.node.cpus import parsed
from iosweep.store.record import Finding
from iosweep.tools.reading import too_short_to_be_steady
from iosweep.units import human_rate

#: A drop of a single node among several counts from this ratio on: with many nodes, chance makes smaller ones.
NODE_RATIO = 0.5
#: Node and worker: share of the median under which a straggler is one, and the deviations that it has to be away.
SLOW_NODE, SLOW_WORKER, DEVIATIONS = 0.75, 0.5, 5.0
#: The same of one of two, as a share of the other.
SLOW_OF_TWO = {"node": 0.5, "worker": 0.1}
#: I/Os that each has to have on average, and the share of all that stragglers are at most.
LEAST_OPS, MOST_STRAGGLERS = 100, 0.25
#: Phases that a count or a volume bounds, and in which a worker that is through stops, have to take so many seconds: in
#: shorter ones a tick of the scheduler is a large part of a worker's time.
LEAST_S = 1.0


def steady(s: Seen) -> Finding:
    """The rate of a timed phase stayed the same: no standstill, slow start, drop, drift or second mode. Phases under
    limits.shortest_phase are too short to judge it."""
    asked = s.point.phase_time_s
    if asked is None or s.phase.kind == "metadata":
        return NOT_APPLICABLE
    ops_per_s = s.parsed.figures.get("ops_per_s")
    if not ops_per_s:
        return NO_OUTPUT
    too_short = f"phases of {asked:g} s are too short to judge steadiness"
    nodes = _of_nodes(s)
    unsteady = _unsteady(s, nodes, ops_per_s, asked) if nodes else []
    if unsteady:
        return failed("; ".join(unsteady[:SHOWN_NODES]))
    if short := too_short_to_be_steady(asked, s.shortest_s):
        return failed(f"{short} (limits.shortest_phase)")
    if not nodes:
        none = f"{s.point.tool} left no rates over time{_why_none(s)}"
        return unchecked(f"{too_short}, and {none}" if asked < JUDGED_S else none)
    whole = nodes[0] if len(nodes) == 1 else summed(nodes) or nodes[0]
    if asked < JUDGED_S:
        return unchecked(f"{too_short}; it did not stand still")
    if len(whole.values) < steadiness.WINDOWS:
        return unchecked(f"{len(whole.values)} rates over time are too few to judge {asked:g} s")
    if not steadiness.enough(whole.values, whole.interval_s, ops_per_s):
        return unchecked(f"{ops_per_s:.3g} I/Os a second are too few to judge {asked:g} s")
    return passed(
        f"means of {steadiness.WINDOWS} windows within {steadiness.excursion(whole.values):.0%}, none of them still"
    )


def _unsteady(s: Seen, nodes: Sequence[Series], ops_per_s: float, asked: float) -> list[str]:
    """What is unsteady, in words: of all nodes together, else of single ones, where only large changes count."""
    words = partial(human_rate, of_bytes=s.phase.kind == "data")
    whole = nodes[0] if len(nodes) == 1 else summed(nodes)
    if whole and (found := _look(whole, ops_per_s, asked, words)):
        return [found.text]
    if len(nodes) == 1:
        return []
    single = [(one.host, _look(one, ops_per_s / len(nodes), asked, words)) for one in nodes]
    return [f"{host}: {found.text}" for host, found in single if found and found.ratio < NODE_RATIO]


def _look(one: Series, ops_per_s: float, asked: float, words: steadiness.Words) -> Shape | None:
    found = steadiness.stall(one.values, one.interval_s, ops_per_s)
    if found or asked < JUDGED_S:
        return found
    return steadiness.shape(one.values, one.interval_s, ops_per_s, words)


def _of_nodes(s: Seen) -> list[Series]:
    """Each node's progress over the phase: as the tool logged it, else as the node counted its I/O."""
    own = [one for one in s.parsed.evidence.series if one.worker is None]
    if logged := [one for one in own if one.name in ("bandwidth_bytes_per_s", "ops_per_s")]:
        return [one for one in logged if len(one.values) > 1]
    return _counted(s, own)


def _counted(s: Seen, own: Sequence[Series]) -> list[Series]:
    """The counters of the nodes' clients or devices, while I/O was timed, where they saw what the tool moved.

    Not of buffered writes, which the kernel writes back when it likes.
    """
    runtime_s, moved = s.parsed.figures.get("runtime_s", 0.0), s.parsed.evidence.transferred_bytes or 0
    if s.phase.writes and not s.point.options.get("o_direct"):
        return []
    direction = "read" if s.phase.reads else "written"
    for source in ("client", "device"):
        found = []
        for one in own:
            if one.name != f"{source}_{direction}_bytes_per_s":
                continue
            begin = max(0, round((s.run.wall_s - runtime_s - one.begin_s) / one.interval_s) + 1)
            end = round((s.run.wall_s - one.begin_s) / one.interval_s) - 1
            values = one.values[begin:end]
            if len(values) > 1 and all(value == value for value in values):
                found.append(Series(one.name, values, one.interval_s, one.begin_s + begin * one.interval_s, one.host))
        seen = sum(fmean(one.values) for one in found) * runtime_s
        if len(found) == s.point.nodes and 0.5 * moved <= seen <= 2 * moved:
            return found
    return []


def _why_none(s: Seen) -> str:
    if s.parsed.evidence.lost:
        return f": {s.parsed.evidence.lost}"
    return ", and the node's own counters do not show its I/O" if s.parsed.evidence.series else ""


def even(s: Seen) -> Finding:
    """No node and no worker was far slower than the others: at 75 % of the median (nodes), 50 % (workers) or less, and
    apart from what the others scatter."""
    rates = s.parsed.evidence.own_rates
    if s.point.tasks == 1:
        return NOT_APPLICABLE
    if not s.parsed.figures:
        return NO_OUTPUT
    bounded = s.point.phase_time_s is None or s.phase.kind == "metadata"
    runtime_s = s.parsed.figures.get("runtime_s", 0.0)
    if rates and bounded and runtime_s < LEAST_S:
        return unchecked(f"{runtime_s:.2g} s are too short to compare workers that stop when they are through")
    sharing = bounded and _share_cpus(s)
    slow, shown, ops = [], [], s.parsed.figures.get("ops", 0.0)
    for what, known in (("node", node_rates.nodes(rates)), ("worker", [] if sharing else node_rates.workers(rates))):
        lowest = node_rates.slowest(known)
        if not lowest or ops < LEAST_OPS * len(known):
            continue
        slow += _stragglers(what, known)
        shown.append(f"the slowest of {len(known)} {what}s did {lowest.share:.0%} of their median")
    if slow:
        more = f"; and {len(slow) - SHOWN_NODES} more" if len(slow) > SHOWN_NODES else ""
        return failed("; ".join(slow[:SHOWN_NODES]) + more)
    if not rates:
        lost = f": {s.parsed.evidence.lost}" if s.parsed.evidence.lost else ""
        return unchecked(f"the rates of single nodes and workers are not known{lost}")
    if not shown and sharing:
        return unchecked("workers share CPUs, and those that are through leave them to the others")
    if not shown:
        return unchecked(f"{ops:,.0f} I/Os of {s.point.tasks:,} workers are too few to compare them")
    return passed("; ".join(shown))


def _share_cpus(s: Seen) -> bool:
    """Whether a node is known to have had fewer CPUs for the workers than workers."""
    seen = s.run.cpus
    usable = [node.usable for node in seen.nodes if node.usable] if seen else []
    return any(len(parsed(cpus)) < s.point.tasks // s.point.nodes for cpus in usable)


def _stragglers(what: str, known: Sequence[NodeRate]) -> list[str]:
    """Those that are far slower than the others, in words, the slowest first."""
    middle = median(map(node_rates.rate, known))
    if len(known) == 2:
        low, high = sorted(known, key=node_rates.rate)
        share = node_rates.rate(low) / node_rates.rate(high)
        return [f"{_named(what, low)} did {share:.0%} of the other's rate"] if share < SLOW_OF_TWO[what] else []
    deviation = 1.4826 * median(abs(node_rates.rate(one) - middle) for one in known)
    most = {"node": SLOW_NODE, "worker": SLOW_WORKER}[what] * middle
    slow = [one for one in known if node_rates.rate(one) < min(most, middle - DEVIATIONS * deviation)]
    if len(slow) > max(1, MOST_STRAGGLERS * len(known)):
        return []
    return [f"{_named(what, one)} did {node_rates.rate(one) / middle:.0%} of the {what}s' median"
            for one in sorted(slow, key=node_rates.rate)]  # fmt: skip


def _named(what: str, one: NodeRate) -> str:
    if what == "node":
        return f"node {one.host}"
    return f"worker {one.worker}" + (f" on {one.host}" if one.host else "")
