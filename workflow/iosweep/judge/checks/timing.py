"""How long a phase ran, whether all nodes ran at the same time, and whether its rate was steady."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, linear_regression

from iosweep.histograms import Series, summed
from iosweep.judge.findings import NO_OUTPUT, NOT_APPLICABLE, Observation, failed, passed, unchecked
from iosweep.store.record import Finding
from iosweep.text import human_percent
from iosweep.tools import CLOCK_S, tools
from iosweep.tools.reading import LEAST_RUNTIME_S, LEAST_TICKS, too_short_to_be_steady

#: Minimum and maximum runtime of a timed phase, as shares of the requested time: fio took 0.98 to 1.05 of 60 s.
SHORTEST, LONGEST = 0.98, 1.05
#: Seconds by which any phase may exceed its time: in a phase of one second a tick is a large share.
SLACK_S = 0.1
#: An I/O that takes less than this is not hung: a busy disk takes that long.
HUNG_S = 0.5
#: Nodes may begin or end this share of the common time apart: it lowers the figure by as much, and a figure from
#: iosweep may differ by 2 % from that of the same command run by hand.
WINDOW = 0.02


def duration(s: Observation) -> Finding:
    """A timed phase ran for the requested time; a phase with a fixed count or volume ran long enough for the tool's
    clock."""
    runtime = s.parsed.figures["runtime_s"]
    clock_s = s.parsed.evidence.clock_s
    clock = "ms" if clock_s == CLOCK_S else f"{clock_s * 1000:g} ms"
    too_short = f"it took only {runtime * 1000:.3g} ms, and the tool counts in {clock}"
    if s.point.phase_time_s is None:
        if runtime < LEAST_TICKS * clock_s:
            return failed(f"{too_short}: raise {'files_per_thread' if s.phase.kind == 'metadata' else 'file_size'}")
        return passed(f"{runtime:.3f} s")
    requested_s = s.point.phase_time_s
    if runtime < SHORTEST * requested_s:
        return failed(f"ran for {runtime:.2f} s of {requested_s:.2f} s")
    if runtime < LEAST_TICKS * clock_s:
        return failed(f"{too_short}: raise phase_time")
    return passed(f"{runtime:.2f} s of {requested_s:.2f} s")


def long_enough(s: Observation) -> Finding:
    """A phase with a fixed count or volume took 20 ms or more, so that it is more than clock ticks and barriers."""
    runtime = s.parsed.figures["runtime_s"]
    if s.point.phase_time_s is not None:
        return NOT_APPLICABLE
    if runtime < LEAST_RUNTIME_S:
        more = "files_per_thread" if s.phase.kind == "metadata" else "file_size"
        return failed(f"it took only {runtime * 1000:.3g} ms, mostly clock ticks and barriers: raise {more}")
    return passed(f"{runtime:.3f} s")


def overtime(s: Observation) -> Finding:
    """A timed phase did not continue long after its time (slow or hung I/O), but for the flush that was asked for."""
    runtime, requested_s = s.parsed.figures["runtime_s"], s.point.phase_time_s
    if requested_s is None:
        return NOT_APPLICABLE
    if runtime > max(LONGEST * requested_s, requested_s + SLACK_S):
        flushed = s.phase.writes and bool(s.point.options.get("fsync")) and s.parsed.evidence.confirms("fsync")
        # an I/O that hung at the end took as long as the rest of the run
        if flushed and s.parsed.figures.get("latency_max_s", 0.0) < max(runtime - requested_s, HUNG_S):
            return passed(f"{runtime:.2f} s of {requested_s:.2f} s, the flush at the end included")
        return failed(f"ran for {runtime:.2f} s instead of {requested_s:.2f} s")
    return passed(f"{runtime:.2f} s of {requested_s:.2f} s")


def common_window(s: Observation) -> Finding:
    """Where the tool is started once on each node, the nodes worked at the same time: they began, and if the phase is
    timed ended, within 2 % of the time from the first I/O of any node to the last."""
    if s.point.nodes == 1 or tools()[s.point.tool].mpi:
        return NOT_APPLICABLE
    evidence = s.parsed.evidence
    if not evidence.each_node:
        return NO_OUTPUT
    if not evidence.windows:
        return unchecked(f"{s.parsed.version} does not say when each node began")
    begins = {host: begin for host, (begin, _) in evidence.windows.items()}
    ends = {host: end for host, (_, end) in evidence.windows.items()}
    first, last = min(ends, key=ends.__getitem__), max(begins, key=begins.__getitem__)
    skew_s, error_s = begins[last] - min(begins.values()), evidence.windows_error_s
    early_s = max(ends.values()) - ends[first] if s.point.phase_time_s is not None else 0.0
    if max(skew_s, early_s) > WINDOW * (max(ends.values()) - min(begins.values())) + error_s:
        apart = f"{last} began {skew_s:.2f} s after the first"
        if early_s > skew_s:
            apart = f"{first} ended {early_s:.2f} s before the last"
        return failed(f"the nodes did not work at the same time: {apart}")
    return passed(f"all began within {skew_s:.3f} s, which may be {error_s:.3f} s off")


#: Steady state as in SNIA's Performance Test Specification: number of rounds, their maximum excursion, and the maximum
#: slope of a line through them, as shares of the mean.
WINDOWS, EXCURSION, SLOPE = 5, 0.20, 0.10
#: Minimum I/Os per window on average: by chance its mean then varies by at most 5 %.
LEAST_OPS_OF_WINDOW = 400


def steady(s: Observation) -> Finding:
    """The rate of a timed phase stayed the same: the means of five windows differ by at most 20 %, and a line through
    them changes by at most 10 %. Phases under limits.shortest_phase are too short to judge it."""
    requested_s, ops_per_s = s.point.phase_time_s, s.parsed.figures["ops_per_s"]
    if requested_s is None:
        return NOT_APPLICABLE
    if short := too_short_to_be_steady(requested_s, s.shortest_s):
        return failed(f"{short} (limits.shortest_phase)")
    if short := too_short_to_be_steady(requested_s):
        return unchecked(short)
    total = summed(_series_of_nodes(s))
    if not total:
        why = f": {s.parsed.evidence.lost}" if s.parsed.evidence.lost else ""
        if not why and s.parsed.evidence.series:
            why = ", and the node's own counters do not show its I/O"
        return unchecked(f"{s.point.tool} left no rates over time{why}")
    values = total.values
    if len(values) < WINDOWS or ops_per_s * requested_s < LEAST_OPS_OF_WINDOW * WINDOWS:
        return unchecked(f"{ops_per_s:.3g} I/Os per second for {requested_s:g} s are too few to judge steadiness")
    edges = [len(values) * k // WINDOWS for k in range(WINDOWS + 1)]
    means = [fmean(values[a:b]) for a, b in pairwise(edges)]
    mean = fmean(means) or 1.0
    excursion = (max(means) - min(means)) / mean
    slope = linear_regression(range(WINDOWS), means).slope * (WINDOWS - 1) / mean
    changes = (
        f"means of {WINDOWS} windows differ by {human_percent(excursion)} (limit {human_percent(EXCURSION)}), their"
        f" trend over the phase is {human_percent(slope, '+')} (limit {human_percent(SLOPE)})"
    )
    if excursion > EXCURSION or abs(slope) > SLOPE:
        return failed(f"the rate was not steady: {changes}")
    return passed(changes)


def _series_of_nodes(s: Observation) -> list[Series]:
    """Each node's rate over the phase: as the tool logged it, else as counters of the node's client or devices saw it
    while I/O was timed.

    Counters are not used for buffered writes, which the kernel writes back at any time, nor where they saw less than
    half or more than twice the bytes that the tool moved.
    """
    series = s.parsed.evidence.series
    if logged := [each for each in series if each.name in ("bandwidth_bytes_per_s", "ops_per_s")]:
        return [each for each in logged if len(each.values) > 1]
    runtime_s, moved = s.parsed.figures.get("runtime_s", 0.0), s.parsed.evidence.transferred_bytes or 0
    if s.phase.writes and not s.point.options.get("o_direct"):
        return []
    for source in ("client", "device"):
        name = f"{source}_{'read' if s.phase.reads else 'written'}_bytes_per_s"
        timed = [_while_timed(each, s.run.wall_s, runtime_s) for each in series if each.name == name]
        counted = [each for each in timed if len(each.values) > 1 and not any(map(math.isnan, each.values))]
        seen_bytes = sum(fmean(each.values) for each in counted) * runtime_s
        if len(counted) == s.point.nodes and 0.5 * moved <= seen_bytes <= 2 * moved:
            return counted
    return []


def _while_timed(series: Series, wall_s: float, runtime_s: float) -> Series:
    """The part of a series while the tool timed I/O, which it does at the end of its process."""
    first = max(0, round((wall_s - runtime_s - series.begin_s) / series.interval_s) + 1)
    end = round((wall_s - series.begin_s) / series.interval_s) - 1
    begin_s = series.begin_s + first * series.interval_s
    return replace(series, values=series.values[first:end], begin_s=begin_s)
