"""What was moved: directions, volumes, rates, queue depth."""

from __future__ import annotations

from iosweep.judge.checks.finding import NO_OUTPUT, NOT_APPLICABLE, Seen, failed, passed, per_node, unchecked
from iosweep.store.record import Finding
from iosweep.tools import Parsed, reading
from iosweep.units import human_size


@per_node
def direction(s: Seen) -> Finding:
    """I/O went in the directions that the phase asks for, and in no other."""
    seen = s.parsed.evidence
    if seen.silent_directions is None:
        return NOT_APPLICABLE if s.phase.kind == "metadata" and s.parsed != Parsed() else NO_OUTPUT
    if seen.silent_directions:
        return failed(f"no {' and no '.join(seen.silent_directions)} was done")
    if seen.unasked_directions:
        return failed(f"a {' and a '.join(seen.unasked_directions)} was done that the phase does not ask for")
    return passed(f"{s.parsed.figures['ops']:,} operations")


@per_node
def arithmetic(s: Seen) -> Finding:
    """The tool's figures agree with each other: bytes = rate x time = operations x transfer size."""
    seen, figures = s.parsed.evidence, s.parsed.figures
    if s.phase.kind == "metadata" and figures:
        if seen.transferred_bytes is None:
            return unchecked(f"{s.point.tool} prints rates, and no times")
        rate = figures["ops"] / figures["runtime_s"] if figures["runtime_s"] else 0.0
        if abs(rate - figures["ops_per_s"]) > 0.02 * rate:
            return failed(
                f"{figures['ops']:,} operations in {figures['runtime_s']:.3f} s are not {figures['ops_per_s']:,.0f}/s"
            )
        return passed("operations = rate x time")
    moved = seen.transferred_bytes
    if moved is None:
        return NO_OUTPUT
    by_rate, by_ops = seen.rate_times_runtime_bytes, figures["ops"] * int(s.point.options["transfer_size"] or 0)
    # the times have the resolution of the tool's clock
    slack = 0.01 + 2 * seen.clock_s / max(figures["runtime_s"], 0.001)
    if abs(by_rate - moved) > slack * moved or abs(by_ops - moved) > slack * moved:
        return failed(f"{moved:,} bytes moved, but rate x time is {by_rate:,.0f} and operations x size {by_ops:,}")
    return passed("bytes = rate x time = operations x transfer size")


@per_node
def volume(s: Seen) -> Finding:
    """A phase with a fixed volume moved that volume exactly once."""
    if s.phase.kind == "metadata" or s.point.phase_time_s is not None:
        return NOT_APPLICABLE
    moved = s.parsed.evidence.transferred_bytes
    if moved is None:
        return NO_OUTPUT
    o = s.point.options
    files = int(o["threads_per_node"] or 1) * s.point.nodes * int(o.get("files_per_thread") or 1)
    asked = files * int(o["file_size"] or 0)
    if moved != asked:
        return failed(f"{moved:,} bytes were moved, not {asked:,}")
    return passed(f"{human_size(moved)} moved")


@per_node
def queue_depth(s: Seen) -> Finding:
    """The requested queue depth was reached: by the tool's own count, by rate x mean latency, and without a wait at the
    submission of each I/O (libaio without O_DIRECT). At depth 1 the I/Os took the workers' time, as far as they did not
    compute.
    """
    depth = int(s.point.options.get("queue_depth") or 1)
    levels = s.parsed.evidence.depth_percent
    if s.phase.kind == "metadata":
        return NOT_APPLICABLE
    if depth == 1:
        return failed(few) if (few := _few_in_flight(s, depth)) else NOT_APPLICABLE
    if not levels:
        return unchecked("the tool does not say")
    if s.point.options.get("ioengine") == "libaio" and not s.point.options.get("o_direct"):
        return _waits(s)
    # fio's levels: 1, 2, 4 ... >=64; each counts what was from there up to the next
    level = min(1 << (depth.bit_length() - 1), 64)
    reached = sum(percent for name, percent in levels.items() if int(name.lstrip(">=")) >= level)
    if reached < 50:
        return failed(f"queue depth {depth} was asked for, but only {reached:.0f} % of the I/O had it")
    if few := _few_in_flight(s, depth):
        return failed(few)
    return passed(f"{reached:.0f} % of the I/O at depth {level} or more")


#: Share of the I/Os that were asked for that must be in flight, for the depth to mean something.
_LEAST_IN_FLIGHT = 0.5


def _few_in_flight(s: Seen, depth: int) -> str:
    """Why fewer than half of the I/Os that were asked for were in flight, or nothing (also where that is not known).

    A flush at the end is part of the run time, and no I/O is in flight then: of a timed phase, only the time asked for
    counts; of a volume that is flushed, nothing is said.
    """
    mean_s, runtime_s = (s.parsed.figures.get(name) for name in ("latency_mean_s", "runtime_s"))
    time_s = s.point.phase_time_s
    if not mean_s or not runtime_s or (time_s is None and s.phase.writes and s.point.options.get("fsync")):
        return ""
    workers = int(s.point.options["threads_per_node"] or 1) * s.point.nodes
    worker_s = s.parsed.evidence.worker_seconds / workers or runtime_s
    issuing_s = min(worker_s, time_s) if time_s else worker_s
    computing = s.parsed.evidence.computing if depth == 1 else 0.0
    found, asked = s.parsed.figures["ops"] * mean_s / issuing_s, workers * depth
    if found >= (_LEAST_IN_FLIGHT - computing) * asked:
        return ""
    return f"{found:.1f} I/Os were in flight on average, where {asked:.0f} were asked for"


def _waits(s: Seen) -> Finding:
    """Whether libaio without O_DIRECT waited for each I/O when it submitted it, as it does unless all is cached."""
    figures = s.parsed.figures
    whole_s, after_s = (figures.get(name) for name in ("latency_mean_s", "completion_latency_mean_s"))
    unknown = "without O_DIRECT libaio waits for each I/O, and fio's own queue says nothing"
    if whole_s is None or after_s is None:
        return unchecked(unknown)
    workers = int(s.point.options["threads_per_node"] or 1) * s.point.nodes
    if waiting := reading.waits_at_submission(figures["ops_per_s"], whole_s, after_s, workers):
        return failed(waiting)
    return unchecked(unknown)


def plausible(s: Seen) -> Finding:
    """Throughput does not exceed the bandwidth of the nodes' links (target.node_bandwidth)."""
    if s.phase.kind == "metadata":
        return NOT_APPLICABLE
    links = s.target.node_bandwidth
    rate = s.parsed.figures.get("bandwidth_bytes_per_s")
    if not links or rate is None:
        return unchecked("target.node_bandwidth is not given" if not links else "no output to look at")
    if rate > links * s.point.nodes:
        return failed(f"{human_size(rate)}/s exceeds the {human_size(links * s.point.nodes)}/s of the links: a cache")
    return passed(f"{human_size(rate)}/s of {human_size(links * s.point.nodes)}/s")
