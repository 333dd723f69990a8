"""How long a phase ran, and whether rates were even: over time, and over nodes and workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from iosweep.details import NodeRate, Series
from iosweep.judge import nodes
from iosweep.judge.findings import (
    NO_OUTPUT,
    NOT_APPLICABLE,
    SHOWN_NODES,
    Seen,
    failed,
    passed,
    per_node,
    unchecked,
)
from iosweep.judge.nodes import summed
from iosweep.node.cpus import parsed
from iosweep.store.record import Finding
from iosweep.tools import CLOCK_S, tools
from iosweep.tools.reading import LEAST_RUNTIME_S, LEAST_TICKS, too_short_to_be_steady
from iosweep.units import human_rate

#: Shares of the requested time that a timed phase must and may run for (fio, 60 s: 0.98 to 1.05); seconds it may
#: exceed it in any case.
SHORTEST, LONGEST, SLACK_S = 0.98, 1.05, 0.1
#: An I/O that takes less does not hang.
HUNG_S = 0.5
#: Excess of the nodes' added rates over the common rate that is allowed.
WINDOW = 0.02


@per_node
def duration(s: Seen) -> Finding:
    """A timed phase ran for the requested time; one with a fixed count or volume long enough for the tool's clock."""
    runtime = s.parsed.figures.get("runtime_s")
    if runtime is None:
        return NO_OUTPUT
    clock_s = s.parsed.evidence.clock_s
    clock = "ms" if clock_s == CLOCK_S else f"{clock_s * 1000:g} ms"
    too_short = f"over after {runtime * 1000:.3g} ms; the tool counts in {clock}"
    if s.point.phase_time_s is None:
        if runtime < LEAST_TICKS * clock_s:
            return failed(f"{too_short}: raise {'files_per_thread' if s.phase.kind == 'metadata' else 'file_size'}")
        return passed(f"{runtime:.3f} s")
    asked = s.point.phase_time_s
    if runtime < SHORTEST * asked:
        return failed(f"ran for {runtime:.2f} s of {asked:.2f} s")
    if runtime < LEAST_TICKS * clock_s:
        return failed(f"{too_short}: raise phase_time")
    return passed(f"{runtime:.2f} s of {asked:.2f} s")


@per_node
def long_enough(s: Seen) -> Finding:
    """A phase with a fixed count or volume took 20 ms or more, so that it is more than clock ticks and barriers."""
    runtime = s.parsed.figures.get("runtime_s")
    if s.point.phase_time_s is not None:
        return NOT_APPLICABLE
    if runtime is None:
        return NO_OUTPUT
    if runtime < LEAST_RUNTIME_S:
        more = "files_per_thread" if s.phase.kind == "metadata" else "file_size"
        return failed(f"over after {runtime * 1000:.3g} ms, which is mostly ticks and barriers: raise {more}")
    return passed(f"{runtime:.3f} s")


@per_node
def overtime(s: Seen) -> Finding:
    """A timed phase did not continue long after its time (slow or hung I/O), but for the flush that was asked for."""
    runtime, asked = s.parsed.figures.get("runtime_s"), s.point.phase_time_s
    if asked is None:
        return NOT_APPLICABLE
    if runtime is None:
        return NO_OUTPUT
    if runtime > max(LONGEST * asked, asked + SLACK_S):
        flushed = s.phase.writes and bool(s.point.options.get("fsync")) and s.parsed.evidence.confirms("fsync")
        # an I/O that hung at the end took as long as the rest of the run
        if flushed and s.parsed.figures.get("latency_max_s", 0.0) < max(runtime - asked, HUNG_S):
            return passed(f"{runtime:.2f} s of {asked:.2f} s, the flush at the end included")
        return failed(f"ran for {runtime:.2f} s where {asked:.2f} s were asked for")
    return passed(f"{runtime:.2f} s of {asked:.2f} s")


def common_window(s: Seen) -> Finding:
    """Nodes on which the tool is started one by one worked at the same time: the sum of their own rates is within 2 %
    of the rate over the whole time, from the first I/O of the first node to the last I/O of the last. For phases with a
    fixed volume only the start counts, because one node finishes before the others.
    """
    if s.point.nodes == 1 or tools()[s.point.tool].mpi:
        return NOT_APPLICABLE
    seen, figures = s.parsed.evidence, s.parsed.figures
    if not seen.each_node:
        return NO_OUTPUT
    if not seen.windows:
        return unchecked(f"{s.parsed.version} does not say when each node began")
    error_s = seen.windows_error_s
    skew_s = figures["start_skew_s"]
    within = f"all began within {skew_s:.3f} s, which may be {error_s:.3f} s off"
    if s.point.phase_time_s is None:
        took_s = max(end for _, end in seen.windows.values()) - min(begin for begin, _ in seen.windows.values())
        if skew_s > WINDOW * took_s + error_s:
            last = max(seen.windows, key=lambda host: seen.windows[host][0])
            return failed(f"the nodes did not work at the same time: {last} began {skew_s:.2f} s after the first")
        return passed(within)
    unit, metric = ("bytes", "bandwidth_bytes_per_s") if s.phase.kind == "data" else ("ops", "ops_per_s")
    rate = figures[metric]
    excess = figures[f"sum_of_rates_{unit}_per_s"] / rate - 1 if rate else 0.0
    uncertainty = (
        error_s * figures["ops_per_s"] / figures["ops"] if rate else 0.0
    )  # error_s as a share of the common time
    if excess > WINDOW + uncertainty:
        began, ended = ({host: window[i] for host, window in seen.windows.items()} for i in (0, 1))
        return failed(
            f"the nodes did not work at the same time: their rates would add up to {excess:.1%} more than what all did;"
            f" {max(began, key=began.__getitem__)} began last, {skew_s:.2f} s after the first, and"
            f" {min(ended, key=ended.__getitem__)} ended {max(ended.values()) - min(ended.values()):.2f} s before the"
            " last"
        )
    return passed(within)


# Even rates


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
    if len(whole.values) < WINDOWS:
        return unchecked(f"{len(whole.values)} rates over time are too few to judge {asked:g} s")
    if not enough(whole.values, whole.interval_s, ops_per_s):
        return unchecked(f"{ops_per_s:.3g} I/Os a second are too few to judge {asked:g} s")
    return passed(f"means of {WINDOWS} windows within {excursion(whole.values):.0%}, none of them still")


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


def _look(one: Series, ops_per_s: float, asked: float, words: Words) -> Shape | None:
    found = stall(one.values, one.interval_s, ops_per_s)
    if found or asked < JUDGED_S:
        return found
    return shape(one.values, one.interval_s, ops_per_s, words)


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
    for what, known in (("node", nodes.nodes(rates)), ("worker", [] if sharing else nodes.workers(rates))):
        lowest = nodes.slowest(known)
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
    middle = median(map(nodes.rate, known))
    if len(known) == 2:
        low, high = sorted(known, key=nodes.rate)
        share = nodes.rate(low) / nodes.rate(high)
        return [f"{_named(what, low)} did {share:.0%} of the other's rate"] if share < SLOW_OF_TWO[what] else []
    deviation = 1.4826 * median(abs(nodes.rate(one) - middle) for one in known)
    most = {"node": SLOW_NODE, "worker": SLOW_WORKER}[what] * middle
    slow = [one for one in known if nodes.rate(one) < min(most, middle - DEVIATIONS * deviation)]
    if len(slow) > max(1, MOST_STRAGGLERS * len(known)):
        return []
    return [f"{_named(what, one)} did {nodes.rate(one) / middle:.0%} of the {what}s' median"
            for one in sorted(slow, key=nodes.rate)]  # fmt: skip


def _named(what: str, one: NodeRate) -> str:
    if what == "node":
        return f"node {one.host}"
    return f"worker {one.worker}" + (f" on {one.host}" if one.host else "")


# The shape of a rate over time


#: Seconds of a phase from which its shape is judged; under it only whether it stood still.
JUDGED_S = 10.0
#: A rate under this share of its usual one is none.
STILL = 0.01
#: A standstill counts from this share of the phase, or from these seconds; never under these seconds and so many I/Os.
STALL_SHARE, STALL_S, LEAST_STALL_S, LEAST_STALL_OPS = 0.1, 5.0, 0.2, 20
#: The excursion that is steady, as a share of the mean (SNIA's test specification has the same), and its windows.
EXCURSION, WINDOWS = 0.2, 10
#: I/Os that a window has to have on average.
LEAST_OPS_OF_WINDOW = 20
#: A level has to hold for this share of the windows, differ by so many deviations within the levels, and be on its side
#: of the middle in so many of them.
LEVEL_SHARE, LEVEL_STEPS, LEVEL_CLEAR = 0.15, 4.0, 0.9
#: A slow start is over after this share of the phase.
START_SHARE = 1 / 3
#: A drift explains so much of the variance.
DRIFT_FIT = 0.75
#: Two modes: so many deviations apart, one this much faster, each with this share of the windows.
MODE_STEPS, MODE_RATIO, MODE_SHARE = 6.0, 1.5, 0.2
#: Windows that shapes are looked for in, at most.
_MOST = 60

Words = Callable[[float], str]


class Shape(NamedTuple):
    """What is unsteady: `kind`, and a sentence with its figures. `ratio`: the lower level to the higher one."""

    kind: str
    text: str
    ratio: float


def stall(values: Sequence[float], interval_s: float, ops_per_s: float) -> Shape | None:
    """The standstills, if they count. `ops_per_s`: of the whole phase, or large I/Os look like stalls."""
    moving = [value for value in values if value > 0]
    if not moving or min(values) > STILL * median(moving):
        return None
    usual, whole_s = median(moving), len(values) * interval_s
    mean = math.fsum(values) / len(values)
    runs, length = [], 0
    for value in (*values, math.inf):
        if value <= STILL * usual:
            length += 1
        elif length:
            runs.append(length * interval_s)
            length = 0
    usual_ops = ops_per_s * (usual / mean)
    counted = [run for run in runs if run > LEAST_STALL_S - interval_s / 10 and run * usual_ops >= LEAST_STALL_OPS]
    if not counted:
        return None
    still_s, longest_s = sum(counted), max(counted)
    if still_s < STALL_SHARE * whole_s - interval_s / 10 and longest_s < STALL_S:
        return None
    times = f", the longest time for {_seconds(longest_s)}" if len(counted) > 1 else ""
    return Shape("stall", f"stood still for {_seconds(still_s)} of {_seconds(whole_s)}{times}", 0.0)


def shape(values: Sequence[float], interval_s: float, ops_per_s: float, words: Words) -> Shape | None:
    """The shape of an unsteady rate, None of a steady one or one that only scatters. `words`: a rate as text."""
    mean = math.fsum(values) / len(values)
    most = int(ops_per_s * interval_s * len(values) / LEAST_OPS_OF_WINDOW)
    if mean <= 0 or most < WINDOWS:
        return None
    few, fine = windows(values, WINDOWS), windows(values, min(_MOST, most))
    modes = _modes(windows(values, most), words)  # in windows of a second, a change within one would be a third level
    if max(few) - min(few) <= EXCURSION * mean:
        return modes
    step_s = interval_s * len(values) / len(fine)
    return _drift(few, words) or _level(fine, step_s, words) or modes


def enough(values: Sequence[float], interval_s: float, ops_per_s: float) -> bool:
    """Whether there are I/Os enough to judge the shape."""
    return len(values) >= WINDOWS and ops_per_s * interval_s * len(values) >= LEAST_OPS_OF_WINDOW * WINDOWS


def excursion(values: Sequence[float]) -> float:
    """By how much the means of WINDOWS windows differ, as a share of the mean."""
    few, mean = windows(values, WINDOWS), fmean(values)
    return (max(few) - min(few)) / mean if mean > 0 else 0.0


def windows(values: Sequence[float], number: int) -> list[float]:
    """The means of so many windows of about the same length; the values where there are no more of them."""
    if len(values) <= number:
        return [*values]
    edges = [len(values) * k // number for k in range(number + 1)]
    return [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def _level(values: Sequence[float], step_s: float, words: Words) -> Shape | None:
    """Another level from some moment on: the one that leaves the least distance to the two medians."""
    least = max(2, math.ceil(LEVEL_SHARE * len(values)))
    best: tuple[float, int, float, float] | None = None
    for k in range(least, len(values) - least + 1):
        before, after = median(values[:k]), median(values[k:])
        rest = math.fsum(abs(v - before) for v in values[:k]) + math.fsum(abs(v - after) for v in values[k:])
        if best is None or rest < best[0]:
            best = rest, k, before, after
    if best is None:
        return None
    _, k, before, after = best
    low, high = sorted((before, after))
    if low > (1 - EXCURSION) * high:
        return None
    middle, above = (low + high) / 2, before > after
    clear = min(
        sum((v > middle) == above for v in values[:k]) / k,
        sum((v < middle) == above for v in values[k:]) / (len(values) - k),
    )
    if high - low < LEVEL_STEPS * _within(values[:k], values[k:]) or clear < LEVEL_CLEAR:
        return None
    ratio, at = low / high if high else 1.0, _seconds(k * step_s)
    if above:
        return Shape("drop", f"fell from {words(before)} to {words(after)} after {at}", ratio)
    if k <= START_SHARE * len(values):
        return Shape("ramp", f"started slowly: {words(before)} for {at}, then {words(after)}", ratio)
    return Shape("rise", f"rose from {words(before)} to {words(after)} after {at}", ratio)


def _drift(values: Sequence[float], words: Words) -> Shape | None:
    """A line that explains most of what differs between windows, and changes by more than the steady excursion."""
    number, mean = len(values), fmean(values)
    center = (number - 1) / 2
    spread = math.fsum((k - center) ** 2 for k in range(number))
    slope = math.fsum((k - center) * v for k, v in enumerate(values)) / spread
    total = math.fsum((v - mean) ** 2 for v in values)
    change = slope * (number - 1) / mean
    residual = total - slope**2 * spread
    if abs(change) < EXCURSION or slope**2 * spread < DRIFT_FIT * total or _one_step(values, residual):
        return None
    start, end = mean - slope * center, mean + slope * center
    verb = "rose" if change > 0 else "fell"
    share = abs(end / start - 1) if start > 0 else math.inf
    by = f" by {share:.0%}" if share < 10 else ""
    low, high = sorted((max(0.0, start), end))
    return Shape(
        "drift", f"{verb} steadily{by} over the phase, from {words(max(0.0, start))} to {words(end)}", low / high
    )


def _one_step(values: Sequence[float], residual: float) -> bool:
    """Whether two levels fit better than a line does."""
    for k in range(1, len(values)):
        before, after = fmean(values[:k]), fmean(values[k:])
        if math.fsum((v - (before if n < k else after)) ** 2 for n, v in enumerate(values)) < residual:
            return True
    return False


def _modes(values: Sequence[float], words: Words) -> Shape | None:
    """Two groups of windows that lie far apart, however they follow each other."""
    ranked = sorted(values)
    least = max(2, math.ceil(MODE_SHARE * len(ranked)))
    found: tuple[float, int] | None = None
    for k in range(least, len(ranked) - least + 1):
        gap = ranked[k] - ranked[k - 1]
        if found is None or gap > found[0]:
            found = gap, k
    if found is None:
        return None
    slow, fast = ranked[: found[1]], ranked[found[1] :]
    low, high = fmean(slow), fmean(fast)
    if high < MODE_RATIO * low or high - low < MODE_STEPS * _within(slow, fast):
        return None
    share = len(slow) / len(ranked)
    return Shape(
        "two modes", f"two modes: {words(low)} for {share:.0%} of the time, {words(high)} otherwise", low / high
    )


def _within(*groups: Sequence[float]) -> float:
    """The standard deviation of values around the mean of their own group."""
    means = [(group, fmean(group)) for group in groups]
    return math.sqrt(math.fsum((v - mean) ** 2 for group, mean in means for v in group) / sum(map(len, groups)))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 20 else f"{seconds:.0f} s"
