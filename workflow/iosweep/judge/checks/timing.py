"""How long a phase ran, and whether rates were even: over time, and over nodes and workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby, pairwise
from statistics import fmean, median
from typing import NamedTuple

from iosweep.details import NodeRate, Series
from iosweep.judge import nodes, statistics
from iosweep.judge.findings import NO_OUTPUT, NOT_APPLICABLE, SHOWN_NODES, Observation, failed, passed, unchecked
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


def duration(s: Observation) -> Finding:
    """A timed phase ran for the requested time; a phase with a fixed count or volume ran long enough for the tool's
    clock."""
    runtime = s.parsed.figures["runtime_s"]
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


def long_enough(s: Observation) -> Finding:
    """A phase with a fixed count or volume took 20 ms or more, so that it is more than clock ticks and barriers."""
    runtime = s.parsed.figures["runtime_s"]
    if s.point.phase_time_s is not None:
        return NOT_APPLICABLE
    if runtime < LEAST_RUNTIME_S:
        more = "files_per_thread" if s.phase.kind == "metadata" else "file_size"
        return failed(f"over after {runtime * 1000:.3g} ms, which is mostly ticks and barriers: raise {more}")
    return passed(f"{runtime:.3f} s")


def overtime(s: Observation) -> Finding:
    """A timed phase did not continue long after its time (slow or hung I/O), but for the flush that was asked for."""
    runtime, asked = s.parsed.figures["runtime_s"], s.point.phase_time_s
    if asked is None:
        return NOT_APPLICABLE
    if runtime > max(LONGEST * asked, asked + SLACK_S):
        flushed = s.phase.writes and bool(s.point.options.get("fsync")) and s.parsed.evidence.confirms("fsync")
        # an I/O that hung at the end took as long as the rest of the run
        if flushed and s.parsed.figures.get("latency_max_s", 0.0) < max(runtime - asked, HUNG_S):
            return passed(f"{runtime:.2f} s of {asked:.2f} s, the flush at the end included")
        return failed(f"ran for {runtime:.2f} s where {asked:.2f} s were asked for")
    return passed(f"{runtime:.2f} s of {asked:.2f} s")


def common_window(s: Observation) -> Finding:
    """Where the tool is started once on each node, the nodes worked at the same time: the sum of their rates is within
    2 % of the rate over the time from the first I/O of any node to the last. For phases with a fixed volume only the
    start counts.
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
    unsure = error_s * figures["ops_per_s"] / figures["ops"] if rate else 0.0  # error_s as a share of the common time
    if excess > WINDOW + unsure:
        last = max(seen.windows, key=lambda host: seen.windows[host][0])
        first = min(seen.windows, key=lambda host: seen.windows[host][1])
        return failed(
            f"the nodes did not work at the same time: their rates would add up to {excess:.1%} more than what all did;"
            f" {last} began last, {skew_s:.2f} s after the first, and {first} ended first"
        )
    return passed(within)


# Steady rates


def steady(s: Observation) -> Finding:
    """The rate of a timed phase stayed the same: no standstill, slow start, drop, drift or second mode. Phases under
    limits.shortest_phase are too short to judge it."""
    asked, ops_per_s = s.point.phase_time_s, s.parsed.figures["ops_per_s"]
    if asked is None:
        return NOT_APPLICABLE
    by_node = _series_of_nodes(s)
    whole = summed(by_node)
    if unsteady := _unsteady(s, by_node, whole, ops_per_s, asked):
        return failed("; ".join(unsteady[:SHOWN_NODES]))
    if short := too_short_to_be_steady(asked, s.shortest_s):
        return failed(f"{short} (limits.shortest_phase)")
    if not whole:
        return unchecked(f"{s.point.tool} left no rates over time{_why_none(s)}")
    if asked < JUDGED_S:
        return unchecked(f"phases of {asked:g} s are too short to judge steadiness; it did not stand still")
    if len(whole.values) < WINDOWS or ops_per_s * asked < LEAST_OPS_OF_WINDOW * WINDOWS:
        figures = f"{len(whole.values)} rates over time of {ops_per_s:.3g} I/Os a second"
        return unchecked(f"{figures} are too few to judge {asked:g} s")
    few = windows(whole.values, WINDOWS)
    spread = (max(few) - min(few)) / fmean(few) if fmean(few) > 0 else 0.0
    return passed(f"means of {WINDOWS} windows within {spread:.0%}, none of them still")


def _unsteady(
    s: Observation, by_node: Sequence[Series], whole: Series | None, ops_per_s: float, asked: float
) -> list[str]:
    """Unsteady rates in words: of all nodes together, else of single nodes, where only large changes count."""
    words = partial(human_rate, of_bytes=s.phase.kind == "data")

    def judge(series: Series, ops_per_s: float) -> Shape | None:
        still = stall(series.values, series.interval_s, ops_per_s)
        if still or asked < JUDGED_S:
            return still
        return shape(series.values, series.interval_s, ops_per_s, words)

    if whole and (unsteady := judge(whole, ops_per_s)):
        return [unsteady.text]
    if len(by_node) < 2:
        return []
    shapes = [(series.host, judge(series, ops_per_s / len(by_node))) for series in by_node]
    return [f"{host}: {unsteady.text}" for host, unsteady in shapes if unsteady and unsteady.ratio < NODE_RATIO]


def _series_of_nodes(s: Observation) -> list[Series]:
    """Each node's progress over the phase: as the tool logged it, else as counters of the node's client or devices saw
    it while I/O was timed.

    Counters are not used for buffered writes, which the kernel writes back when it likes, nor where they saw less than
    half or more than twice of what the tool moved.
    """
    series = [each for each in s.parsed.evidence.series if each.worker is None]
    if logged := [each for each in series if each.name in ("bandwidth_bytes_per_s", "ops_per_s")]:
        return [each for each in logged if len(each.values) > 1]
    runtime_s, moved = s.parsed.figures.get("runtime_s", 0.0), s.parsed.evidence.transferred_bytes or 0
    if s.phase.writes and not s.point.options.get("o_direct"):
        return []
    for source in ("client", "device"):
        name = f"{source}_{'read' if s.phase.reads else 'written'}_bytes_per_s"
        timed = [_within_timing(each, s.run.wall_s, runtime_s) for each in series if each.name == name]
        counted = [each for each in timed if len(each.values) > 1 and not any(map(math.isnan, each.values))]
        seen_bytes = sum(fmean(each.values) for each in counted) * runtime_s
        if len(counted) == s.point.nodes and 0.5 * moved <= seen_bytes <= 2 * moved:
            return counted
    return []


def _within_timing(series: Series, wall_s: float, runtime_s: float) -> Series:
    """The part of a series while the tool timed I/O, which it does at the end of its process."""
    begin = max(0, round((wall_s - runtime_s - series.begin_s) / series.interval_s) + 1)
    end = round((wall_s - series.begin_s) / series.interval_s) - 1
    return Series(
        series.name,
        series.values[begin:end],
        series.interval_s,
        series.begin_s + begin * series.interval_s,
        series.host,
    )


def _why_none(s: Observation) -> str:
    if s.parsed.evidence.lost:
        return f": {s.parsed.evidence.lost}"
    return ", and the node's own counters do not show its I/O" if s.parsed.evidence.series else ""


# Even rates


#: Node and worker: share of the median below which it is a straggler, and robust deviations below the median.
SLOW_NODE, SLOW_WORKER, DEVIATIONS = 0.75, 0.5, 5.0
#: Of two nodes or two workers: share of the faster one under which the other is a straggler.
SLOW_OF_TWO = {"node": 0.5, "worker": 0.1}
#: I/Os that each has to have on average, and the share of all that stragglers are at most.
LEAST_OPS, MOST_STRAGGLERS = 100, 0.25
#: Phases that a count or a volume bounds, and in which a worker that is through stops, have to take so many seconds: in
#: shorter ones a tick of the scheduler is a large part of a worker's time.
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
        return unchecked(f"{runtime_s:.2g} s are too short to compare workers that stop when they are through")
    sharing = bounded and _share_cpus(s)
    slow, shown = [], []
    of_nodes = [r for r in rates if r.worker is None]
    of_workers = [r for r in rates if r.worker is not None and not sharing]
    for what, known in (("node", of_nodes), ("worker", of_workers)):
        share = nodes.slowest_share(known)
        if share is not None and ops >= LEAST_OPS * len(known):
            slow += _stragglers(what, known)
            shown.append(f"the slowest of {len(known)} {what}s did {share:.0%} of their median")
    if slow:
        more = f"; and {len(slow) - SHOWN_NODES} more" if len(slow) > SHOWN_NODES else ""
        return failed("; ".join(slow[:SHOWN_NODES]) + more)
    if shown:
        return passed("; ".join(shown))
    if sharing:
        return unchecked("workers share CPUs, and those that are through leave them to the others")
    return unchecked(f"{ops:,.0f} I/Os of {s.point.tasks:,} workers are too few to compare them")


def _share_cpus(s: Observation) -> bool:
    """Whether a node is known to have had fewer CPUs for the workers than workers."""
    usable = [node.usable for node in s.run.cpus.nodes if node.usable] if s.run.cpus else []
    return any(len(parsed(cpus)) < s.point.tasks // s.point.nodes for cpus in usable)


def _stragglers(what: str, known: Sequence[NodeRate]) -> list[str]:
    """Nodes or workers that are far slower than the others, in words, the slowest first."""
    ranked = sorted(known, key=nodes.rate)
    if len(known) == 2:
        share = nodes.rate(ranked[0]) / nodes.rate(ranked[1])
        return [f"{_named(ranked[0])} did {share:.0%} of the other's rate"] if share < SLOW_OF_TWO[what] else []
    middle = median(map(nodes.rate, known))
    deviation = 1.4826 * median(abs(nodes.rate(r) - middle) for r in known)
    limit = min({"node": SLOW_NODE, "worker": SLOW_WORKER}[what] * middle, middle - DEVIATIONS * deviation)
    slow = [r for r in ranked if nodes.rate(r) < limit]
    if len(slow) > max(1, MOST_STRAGGLERS * len(known)):
        return []
    return [f"{_named(r)} did {nodes.rate(r) / middle:.0%} of the {what}s' median" for r in slow]


def _named(rate: NodeRate) -> str:
    if rate.worker is None:
        return f"node {rate.host}"
    return f"worker {rate.worker}" + (f" on {rate.host}" if rate.host else "")


# The shape of a rate over time


#: Seconds of a phase from which its shape is judged; under it only whether it stood still.
JUDGED_S = 10.0
#: A rate under this share of the usual rate is a standstill.
STILL = 0.01
#: A standstill counts from this share of the phase, or from these seconds; never under these seconds and so many I/Os.
STALL_SHARE, STALL_S, LEAST_STALL_S, LEAST_STALL_OPS = 0.1, 5.0, 0.2, 20
#: The excursion that is steady, as a share of the mean (SNIA's test specification has the same), and its windows.
EXCURSION, WINDOWS = 0.2, 10
#: I/Os that a window has to have on average, and windows that levels are looked for in, at most.
LEAST_OPS_OF_WINDOW, MOST_WINDOWS = 20, 60
#: Each of two levels has this share of the windows; they differ by so many deviations of the windows within them.
LEVEL_SHARE, LEVEL_STEPS = 0.15, 4.0
#: The same of two modes, which take turns, and how much faster the faster mode is.
MODE_STEPS, MODE_RATIO = 6.0, 1.5
#: A slow start is over after this share of the phase.
START_SHARE = 1 / 3
#: A drift explains so much of the variance.
DRIFT_FIT = 0.75
#: A change of a single node among several counts from this ratio on: with many nodes, chance makes smaller ones.
NODE_RATIO = 0.5

Words = Callable[[float], str]


class Shape(NamedTuple):
    """An unsteady rate in words, and the ratio of its lower level to its higher level."""

    text: str
    ratio: float


def stall(values: Sequence[float], interval_s: float, ops_per_s: float) -> Shape | None:
    """The standstills, if they count. `ops_per_s`: of the whole phase, or large I/Os look like stalls."""
    moving = [value for value in values if value > 0]
    if not moving or min(values) > STILL * median(moving):
        return None
    usual, whole_s = median(moving), len(values) * interval_s
    usual_ops = ops_per_s * usual / fmean(values)
    runs_s = [sum(interval_s for _ in run) for still, run in groupby(values, lambda v: v <= STILL * usual) if still]
    counted = [run for run in runs_s if run > LEAST_STALL_S - interval_s / 10 and run * usual_ops >= LEAST_STALL_OPS]
    still_s, longest_s = sum(counted), max(counted, default=0.0)
    if not counted or (still_s < STALL_SHARE * whole_s - interval_s / 10 and longest_s < STALL_S):
        return None
    times = f", the longest time for {_seconds(longest_s)}" if len(counted) > 1 else ""
    return Shape(f"stood still for {_seconds(still_s)} of {_seconds(whole_s)}{times}", 0.0)


def shape(values: Sequence[float], interval_s: float, ops_per_s: float, words: Words) -> Shape | None:
    """The shape of an unsteady rate; None if the rate is steady, or only scatters. words: formats a rate."""
    most = int(ops_per_s * interval_s * len(values) / LEAST_OPS_OF_WINDOW)
    if fmean(values) <= 0 or most < WINDOWS:
        return None
    few, fine = windows(values, WINDOWS), windows(values, min(MOST_WINDOWS, most))
    modes = _modes(windows(values, most), words)  # in windows of a second, a change within one would be a third level
    if max(few) - min(few) <= EXCURSION * fmean(few):
        return modes
    return _level(fine, interval_s * len(values) / len(fine), words) or _drift(few, words) or modes


def windows(values: Sequence[float], number: int) -> list[float]:
    """The means of so many windows of about the same length; the values where there are no more of them."""
    if len(values) <= number:
        return [*values]
    edges = [len(values) * k // number for k in range(number + 1)]
    return [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def _level(values: Sequence[float], step_s: float, words: Words) -> Shape | None:
    """Another level from some moment on."""
    if (k := _split(values, LEVEL_STEPS)) is None:
        return None
    before, after, at = fmean(values[:k]), fmean(values[k:]), _seconds(k * step_s)
    ratio = min(before, after) / max(before, after)
    if ratio > 1 - EXCURSION:
        return None
    if before > after:
        return Shape(f"fell from {words(before)} to {words(after)} after {at}", ratio)
    if k <= START_SHARE * len(values):
        return Shape(f"started slowly: {words(before)} for {at}, then {words(after)}", ratio)
    return Shape(f"rose from {words(before)} to {words(after)} after {at}", ratio)


def _modes(values: Sequence[float], words: Words) -> Shape | None:
    """Two groups of windows that lie far apart, however they follow each other."""
    ranked = sorted(values)
    if ranked[-1] < MODE_RATIO * ranked[0] or (k := _split(ranked, MODE_STEPS)) is None:
        return None
    low, high = fmean(ranked[:k]), fmean(ranked[k:])
    if high < MODE_RATIO * low:
        return None
    text = f"two modes: {words(low)} for {k / len(ranked):.0%} of the time, {words(high)} otherwise"
    return Shape(text, low / high)


def _split(values: Sequence[float], steps: float) -> int | None:
    """Where a row splits into two levels, None where they do not differ by so many deviations within them."""
    number, mean = len(values), fmean(values)
    if (split := statistics.best_split(values, max(2, math.ceil(LEVEL_SHARE * number)))) is None:
        return None
    at, between = split
    distance = math.sqrt(between * number / (at * (number - at)))
    within = math.sqrt(max(0.0, sum((value - mean) ** 2 for value in values) - between) / number)
    return at if distance > 0 and distance >= steps * within else None


def _drift(values: Sequence[float], words: Words) -> Shape | None:
    """A line that explains most of the variance between windows, and changes by more than the steady excursion."""
    center, mean = (len(values) - 1) / 2, fmean(values)
    spread = math.fsum((k - center) ** 2 for k in range(len(values)))
    slope = math.fsum((k - center) * v for k, v in enumerate(values)) / spread
    total = math.fsum((v - mean) ** 2 for v in values)
    if abs(2 * slope * center) < EXCURSION * mean or slope**2 * spread < DRIFT_FIT * total:
        return None
    start, end = max(0.0, mean - slope * center), mean + slope * center
    verb = "rose" if slope > 0 else "fell"
    return Shape(
        f"{verb} steadily over the phase, from {words(start)} to {words(end)}", min(start, end) / max(start, end)
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 20 else f"{seconds:.0f} s"
