"""Whether the tool ended well, ran as requested, and moved the bytes that it reports."""

from __future__ import annotations

import signal

from iosweep.errors import cause
from iosweep.judge.checks.timing import SHORTEST
from iosweep.judge.findings import (
    NO_OUTPUT,
    NOT_APPLICABLE,
    REASON_LENGTH,
    Observation,
    failed,
    passed,
    unchecked,
)
from iosweep.node.process import MOST_PRINTED_BYTES
from iosweep.store.record import Finding
from iosweep.text import human_count, printable, some
from iosweep.tools import Parsed, reading, tools
from iosweep.units import human_duration, human_size

#: Signals that come from outside, so that a retry may help: a crash would recur.
FROM_OUTSIDE = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)


def exit_status(s: Observation) -> Finding:
    """The tool could be started, and ended by itself with exit code 0, within its time limit."""
    run = s.run
    if run.left_behind:
        left = some(run.left_behind, 8)
        return failed(f"the target hangs: processes of the tool could not be killed: {left}", True)
    if run.not_run:
        return not_run(run.not_run)
    if run.flooded:
        return failed(f"the tool was killed: it printed more than {human_size(MOST_PRINTED_BYTES)}")
    if run.timed_out:
        return failed(f"the tool was killed after {human_duration(run.wall_s)}: it did not end by itself", True)
    if run.exit_code < 0:
        killed = -run.exit_code
        return failed(f"the tool was killed by signal {killed}", retry=killed in FROM_OUTSIDE)
    if run.exit_code:
        printed = [run.stderr, *(s.parsed.evidence.errors or ()), *s.parsed.evidence.messages]
        why = cause("\n".join([*printed, *s.parsed.problems]))
        line = next((line.strip() for line in run.stderr.splitlines() if line.strip()), "")
        first = f": {line[:200]}" if line else ""
        ended = f"the tool ended with exit code {run.exit_code}{first}"
        return failed(f"{why.text}: {ended}" if why else ended, retry=bool(why and why.retry))
    return passed(f"exit code 0 after {run.wall_s:.2f} s")


def not_run(reason: str) -> Finding:
    """A failure for a tool that was not started. A retry may help unless the cause is permanent."""
    why = cause(reason)
    return failed(f"{why.text}: {reason}" if why else reason, retry=why is None or why.retry)


def output(s: Observation) -> Finding:
    """The tool's output is complete and readable, and of the version that its program says."""
    if s.run.not_run:
        return NOT_APPLICABLE
    if s.parsed.problems:
        return failed("; ".join(s.parsed.problems))
    if s.parsed == Parsed():
        return failed("no output is stored")
    name, version = f"{s.point.tool}-", s.parsed.version
    if s.version not in ("", "unknown") and version and version.removeprefix(name) != s.version.removeprefix(name):
        return failed(f"its output is of {version}, and its program says {s.version}")
    return passed(f"one document of {printable((s.parsed.version or s.point.tool)[:REASON_LENGTH])}")


def tool_errors(s: Observation) -> Finding:
    """The tool reports no error, no short or dropped I/O, and no failed rank."""
    errors = s.parsed.evidence.errors
    if errors is None:
        return NO_OUTPUT
    if errors:
        return failed("the tool reports " + "; ".join(errors))
    return passed("the tool reports no error")


def tool_doubts(s: Observation) -> Finding:
    """The tool printed no line that puts its figures in doubt (IOR and mdtest: partial reads, warnings)."""
    doubts = s.parsed.evidence.doubts
    if doubts is None:
        return NOT_APPLICABLE
    if doubts:
        return failed("; ".join(doubts))
    return passed("no line puts the figures in doubt")


# What was requested


#: Seconds that startup and shutdown may take on a busy node: fio took up to 0.65 s in 99 % of 1,765 phases, many on a
#: busy machine, and 1.6 s at most; a launcher takes longer.
START_S, LAUNCH_S = 2.0, 3.0
#: Additional seconds for each file (opened and closed), and for each rank or worker (forked).
FILE_S, WORKER_S = 0.001, 0.02


def as_asked(s: Observation) -> Finding:
    """The tool reports the options that were asked for: engine, O_DIRECT, flush, direction, sizes, workers, and the
    directory of its files.
    """
    echo = s.parsed.evidence.echo
    if s.parsed == Parsed() or (s.parsed.problems and echo is None):
        return NO_OUTPUT
    if echo is None:
        return unchecked(f"{s.point.tool} does not print its options")
    wrong = [*echo.contradictions]
    arguments = {value for argument in s.run.argv for value in (argument, argument.partition("=")[2])}
    if echo.place is not None and echo.place not in arguments:
        wrong.append(f"{s.point.tool} worked in {echo.place}, which its command does not name")
    if wrong:
        return failed("; ".join(wrong))
    return passed(f"the tool repeats {echo.compared} options and parameters as they were given")


def workers(s: Observation) -> Finding:
    """As many ranks and nodes took part as were requested; every worker ran for the whole time."""
    evidence = s.parsed.evidence
    threads = int(s.point.options["threads_per_node"] or 1)
    if tools()[s.point.tool].mpi:
        ranks, nodes, planned = evidence.tasks, evidence.nodes or s.point.nodes, threads * s.point.nodes
        if ranks is None:
            return unchecked("the tool does not say")
        if ranks != planned:
            hint = "was it built with a different MPI than its launcher?"
            return failed(f"the tool ran with {human_count(ranks, 'rank')} instead of {planned}: {hint}")
        if nodes != s.point.nodes:
            return failed(f"the tool ran on {human_count(nodes, 'node')} instead of {s.point.nodes}")
        ran_on = s.run.ran_on
        if wrong := {host: ranks for host, ranks in ran_on.items() if ranks > threads or (not ranks and threads)}:
            seen_on = ", ".join(f"{ranks} on {host}" for host, ranks in sorted(wrong.items()))
            return failed(f"{human_count(threads, 'rank')} were requested on each node, but {seen_on} were seen")
        return passed(f"{human_count(ranks, 'rank')} on {human_count(nodes, 'node')}, as asked")
    if s.phase.kind == "metadata" or s.point.phase_time_s is None:
        return NOT_APPLICABLE
    if evidence.tasks is not None and evidence.tasks != threads:
        return failed(f"{human_count(evidence.tasks, 'worker')} logged I/O instead of {threads}")
    worker_s = evidence.worker_seconds
    if not worker_s:
        return unchecked("the tool does not say")
    due_s = threads * s.point.nodes * s.point.phase_time_s
    if worker_s < SHORTEST * due_s:
        return failed(
            f"the workers ran for {worker_s:.1f} s in total, not {due_s:.1f} s: some did not start, or ended early"
        )
    return passed(f"{worker_s:.1f} worker seconds of {due_s:.1f}")


def in_flight(s: Observation) -> Finding:
    """No more I/Os were in flight, by rate x mean latency, than workers x queue depth."""
    rate, latency_s = s.parsed.figures["ops_per_s"], s.parsed.figures.get("latency_mean_s")
    if latency_s is None:
        return unchecked("the tool does not time single I/Os")
    requested = s.point.tasks * int(s.point.options.get("queue_depth") or 1)
    runtime_s, clock_s = s.parsed.figures["runtime_s"], s.parsed.evidence.clock_s
    if wrong := reading.too_many_in_flight(rate, latency_s, requested, runtime_s, clock_s):
        return failed(f"rate and latency contradict each other: {wrong}")
    return passed(f"{rate * latency_s:.2f} in flight on average, of {requested} at most")


#: The tool's clock may be ahead by this share of its runtime, the error that a figure may have, plus these seconds: the
#: two clocks are read at slightly different moments.
_AHEAD, _SLACK_S = 0.02, 0.05
#: Share by which it may be behind, besides startup: a busy node also delays the end of a process. A clock at half speed
#: is still detected.
_BEHIND = 0.5
#: A clock is judged slow only if the tool timed at least this multiple of the longest startup.
_COMPARABLE = 4 / 3


def clock(s: Observation) -> Finding:
    """The tool's clock runs as fast as ours: it timed no more than its process took, and not far less."""
    evidence = s.parsed.evidence
    if evidence.timed_s is None:
        return NO_OUTPUT if s.parsed == Parsed() else unchecked("the tool does not say how long it took")
    timed_s, wall_s = evidence.timed_s, s.run.wall_s if evidence.wall_s is None else evidence.wall_s
    if timed_s > wall_s * (1 + _AHEAD) + _SLACK_S:
        return failed(f"the tool timed {timed_s:.2f} s, but its process took only {wall_s:.2f} s: its clock is fast")
    files = s.point.tasks * int(s.point.options.get("files_per_thread") or 1)
    startup_s = (LAUNCH_S if tools()[s.point.tool].mpi else START_S) + WORKER_S * s.point.tasks + FILE_S * files
    times = f"the tool timed {timed_s:.2f} s of the {wall_s:.2f} s that its process took"
    other_s = wall_s - timed_s - evidence.untimed_s
    if other_s <= _BEHIND * timed_s:
        return passed(times)
    if timed_s < _COMPARABLE * startup_s or other_s <= _BEHIND * timed_s + startup_s:
        return unchecked(f"{times}: too short to tell, because its start-up may take up to {human_duration(startup_s)}")
    return failed(f"{times}: its clock is slow, it was stopped, or it did not time all of its work", retry=True)


# Amounts


def direction(s: Observation) -> Finding:
    """I/O went in the directions that the phase asks for, and in no other."""
    evidence = s.parsed.evidence
    if evidence.silent_directions is None:
        return NOT_APPLICABLE if s.phase.kind == "metadata" and s.parsed != Parsed() else NO_OUTPUT
    if evidence.silent_directions:
        return failed(f"the tool did no {' and no '.join(evidence.silent_directions)}")
    if evidence.unasked_directions:
        return failed(f"the tool did a {' and a '.join(evidence.unasked_directions)}, which the phase does not ask for")
    return passed(f"{s.parsed.figures['ops']:,} operations")


def arithmetic(s: Observation) -> Finding:
    """The tool's figures agree with each other: bytes = rate x time = operations x transfer size."""
    evidence, figures = s.parsed.evidence, s.parsed.figures
    if s.phase.kind == "metadata" and figures:
        if evidence.transferred_bytes is None:
            return unchecked(f"{s.point.tool} prints rates, and no times")
        rate = figures["ops"] / figures["runtime_s"] if figures["runtime_s"] else 0.0
        if abs(rate - figures["ops_per_s"]) > 0.02 * rate:
            return failed(
                f"{figures['ops']:,} operations in {figures['runtime_s']:.3f} s are not {figures['ops_per_s']:,.0f}/s"
            )
        return passed("operations = rate x time")
    moved = evidence.transferred_bytes
    if moved is None:
        return NO_OUTPUT
    by_rate, by_ops = evidence.rate_times_runtime_bytes, figures["ops"] * int(s.point.options["transfer_size"] or 0)
    # times have the resolution of the tool's clock
    slack = 0.01 + 2 * evidence.clock_s / max(figures["runtime_s"], 0.001)
    if abs(by_rate - moved) > slack * moved or abs(by_ops - moved) > slack * moved:
        return failed(f"{moved:,} bytes moved, but rate x time is {by_rate:,.0f} and operations x size {by_ops:,}")
    return passed("bytes = rate x time = operations x transfer size")


def volume(s: Observation) -> Finding:
    """A phase with a fixed volume moved that volume exactly once."""
    if s.point.phase_time_s is not None:
        return NOT_APPLICABLE
    moved, requested = s.parsed.evidence.transferred_bytes, s.point.volume_bytes
    if moved is None:
        return NO_OUTPUT
    if moved != requested:
        return failed(f"{moved:,} bytes were moved, not {requested:,}")
    return passed(f"{human_size(moved)} moved")


def queue_depth(s: Observation) -> Finding:
    """The requested queue depth was reached: by the tool's own count, by rate x mean latency, and without a wait at the
    submission of each I/O (libaio without O_DIRECT). At depth 1 the I/Os took the workers' time, as far as they did not
    compute.
    """
    depth = int(s.point.options.get("queue_depth") or 1)
    levels = s.parsed.evidence.depth_percent
    if depth == 1:
        return failed(few) if (few := _few_in_flight(s, depth)) else NOT_APPLICABLE
    if not levels:
        return unchecked("the tool does not say")
    if s.point.options.get("ioengine") == "libaio" and not s.point.options.get("o_direct"):
        # buffered I/O blocks at submission with libaio, unless it is cached
        figures = s.parsed.figures
        total_s, completion_s = (figures.get(name) for name in ("latency_mean_s", "completion_latency_mean_s"))
        waits = ""
        if total_s is not None and completion_s is not None:
            waits = reading.waits_at_submission(figures["ops_per_s"], total_s, completion_s, s.point.tasks)
        if waits:
            return failed(waits)
        return unchecked("without O_DIRECT libaio waits for each I/O, and fio's own queue says nothing")
    # fio's levels are 1, 2, 4 ... >=64; each counts the I/Os from its depth up to the next level
    level = min(1 << (depth.bit_length() - 1), 64)
    reached = sum(percent for name, percent in levels.items() if int(name.lstrip(">=")) >= level)
    if reached < 50:
        return failed(f"only {reached:.0f} % of the I/Os reached the requested queue depth of {depth}")
    if few := _few_in_flight(s, depth):
        return failed(few)
    return passed(f"{reached:.0f} % of the I/O at depth {level} or more")


#: Minimum share of the requested I/Os in flight: with fewer, half the depth would measure the same.
_LEAST_IN_FLIGHT = 0.5


def _few_in_flight(s: Observation, depth: int) -> str:
    """A sentence if fewer than half of the requested I/Os were in flight; empty if not, or if unknown.

    No I/O is in flight during the flush at the end, which is part of the runtime: for a timed phase, only the requested
    time counts; a phase with a fixed volume and a flush is not judged.
    """
    mean_s, runtime_s = (s.parsed.figures.get(name) for name in ("latency_mean_s", "runtime_s"))
    time_s = s.point.phase_time_s
    if not mean_s or not runtime_s or (time_s is None and s.phase.writes and s.point.options.get("fsync")):
        return ""
    worker_s = s.parsed.evidence.worker_seconds / s.point.tasks or runtime_s
    issuing_s = min(worker_s, time_s) if time_s else worker_s
    computing = s.parsed.evidence.computing if depth == 1 else 0.0
    reached, requested = s.parsed.figures["ops"] * mean_s / issuing_s, s.point.tasks * depth
    if reached >= (_LEAST_IN_FLIGHT - computing) * requested:
        return ""
    return f"only {reached:.1f} I/Os were in flight on average instead of {requested:.0f}"


def plausible(s: Observation) -> Finding:
    """Throughput does not exceed the bandwidth of the nodes' links (target.node_bandwidth)."""
    links = s.target.node_bandwidth
    rate = s.parsed.figures.get("bandwidth_bytes_per_s")
    if not links or rate is None:
        return unchecked("target.node_bandwidth is not given") if not links else NO_OUTPUT
    if rate > links * s.point.nodes:
        return failed(f"{human_size(rate)}/s is faster than the links ({human_size(links * s.point.nodes)}/s): a cache")
    return passed(f"{human_size(rate)}/s of {human_size(links * s.point.nodes)}/s")
