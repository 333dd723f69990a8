"""How long the phase ran, and whether all nodes ran at the same time."""

from __future__ import annotations

from iosweep.judge.checks.finding import NO_OUTPUT, NOT_APPLICABLE, Seen, failed, passed, per_node, unchecked
from iosweep.store.record import Finding
from iosweep.tools import CLOCK_S, tools
from iosweep.tools.reading import LEAST_RUNTIME_S, LEAST_TICKS

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
