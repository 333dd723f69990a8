"""Whether the tool did what was asked for, as far as it says so itself, in the time that it says."""

from __future__ import annotations

from collections.abc import Sequence

from iosweep.judge.checks.finding import NO_OUTPUT, NOT_APPLICABLE, Seen, failed, passed, per_node, unchecked
from iosweep.store.record import Finding
from iosweep.tools import Parsed, reading
from iosweep.units import human_duration

#: Seconds that start-up and end may take on a busy node, and of ranks that a launcher starts; and more for each file
#: and each rank or worker. fio took up to 0.65 s in 99 % of 1,765 phases, many on a busy machine, and 1.6 s at most.
START_S, LAUNCH_S, FILE_S, WORKER_S = 2.0, 3.0, 0.001, 0.02


@per_node
def as_asked(s: Seen) -> Finding:
    """The options that the tool reports are those that were asked for: engine, O_DIRECT, flush, direction, sizes,
    workers, and where its files are.
    """
    echo = s.parsed.evidence.echo
    if s.parsed == Parsed() or (s.parsed.problems and echo is None):
        return NO_OUTPUT
    if echo is None:
        return unchecked(f"{s.point.tool} does not print its options")
    wrong = [*echo.contradictions]
    if echo.place is not None and not _names(s.run.argv, echo.place):
        wrong.append(f"{s.point.tool} worked in {echo.place}, which its command does not name")
    if wrong:
        return failed("; ".join(wrong))
    return passed(f"the tool repeats {echo.compared} options and parameters as they were given")


def _names(argv: Sequence[str], place: str) -> bool:
    """Whether an argument, or the value of one, is this."""
    return any(place in (argument, argument.partition("=")[2]) for argument in argv)


@per_node
def in_flight(s: Seen) -> Finding:
    """No more I/Os were in flight, by rate x mean latency, than workers x queue depth."""
    rate, latency_s = (s.parsed.figures.get(name) for name in ("ops_per_s", "latency_mean_s"))
    if s.phase.kind == "metadata":
        return NOT_APPLICABLE
    if rate is None:
        return NO_OUTPUT
    if latency_s is None:
        return unchecked("the tool does not time single I/Os")
    asked = int(s.point.options["threads_per_node"] or 1) * s.point.nodes * int(s.point.options.get("queue_depth") or 1)
    runtime_s, clock_s = s.parsed.figures["runtime_s"], s.parsed.evidence.clock_s
    if wrong := reading.too_many_in_flight(rate, latency_s, asked, runtime_s, clock_s):
        return failed(f"rate and latency contradict each other: {wrong}")
    return passed(f"{rate * latency_s:.2f} in flight on average, {asked} at most were asked for")


#: Shares of its run time by which the tool's clock may be ahead, and behind, start-up aside; seconds that it may be
#: ahead in any case.
_AHEAD, _BEHIND, _SLACK_S = 0.02, 0.5, 0.05
#: A tool must time so many times what its start-up may take for its clock to be judged slow.
_COMPARABLE = 4 / 3


@per_node
def clock(s: Seen) -> Finding:
    """The tool's clock goes as ours: it timed no more than its process took, and not far less."""
    seen = s.parsed.evidence
    if seen.timed_s is None:
        return NO_OUTPUT if s.parsed == Parsed() else unchecked("the tool does not say how long it took")
    timed_s, wall_s = seen.timed_s, s.run.wall_s if seen.wall_s is None else seen.wall_s
    if timed_s > wall_s * (1 + _AHEAD) + _SLACK_S:
        return failed(f"the tool timed {timed_s:.2f} s, and all of it took {wall_s:.2f} s: its clock is fast")
    o = s.point.options
    workers = int(o["threads_per_node"] or 1) * s.point.nodes
    files = workers * int(o.get("files_per_thread") or 1)
    most_s = (LAUNCH_S if seen.mpi else START_S) + WORKER_S * workers + FILE_S * files
    beside = f"the tool timed {timed_s:.2f} s of the {wall_s:.2f} s of its process"
    match _slow(timed_s, wall_s - timed_s - seen.untimed_s, most_s):
        case None:
            return unchecked(f"{beside}, which is too short beside its start-up (up to {human_duration(most_s)})")
        case True:
            still_s = max((moved.still_s for moved in s.run.moved.values()), default=0.0)
            if not _slow(timed_s, wall_s - timed_s - seen.untimed_s - still_s, most_s):
                return failed(f"{beside}: our agent there stood still for {still_s:.2f} s (stopped?)", curable=True)
            return failed(f"{beside}: its clock is slow, or it did not time all that it did")
    return passed(beside)


def _slow(timed_s: float, beside_s: float, start_s: float) -> bool | None:
    """Whether the tool's clock is slow: it timed so much, and `beside_s` more went by, of which `start_s` may be its
    start-up and end. None: too short to tell."""
    if beside_s <= _BEHIND * timed_s:
        return False
    return True if timed_s >= _COMPARABLE * start_s and beside_s > _BEHIND * timed_s + start_s else None
