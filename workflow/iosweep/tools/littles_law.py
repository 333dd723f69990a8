"""How many I/Os were in flight, by Little's law: rate x mean latency. Pure; for campaigns and `iosweep parse`."""

from __future__ import annotations

#: Share of what was asked for that may be exceeded: of a worker's time no I/O takes more than all, but rates and times
#: are rounded, and times to whole ticks of the tool's clock.
_EXCESS = 0.05
_TICKS = 2
#: Share of the workers' time in the submission of I/Os from which on they wait there.
_SUBMITTING = 0.5
#: Share of what was asked for that must be reached, for the depth to mean something.
_LEAST = 0.5


def too_many(ops_per_s: float, latency_s: float, asked: float, runtime_s: float, clock_s: float) -> str:
    """Why this rate and mean latency cannot be with `asked` I/Os in flight at most (workers x depth); else nothing."""
    found = ops_per_s * latency_s
    if found <= asked * (1 + _EXCESS + _TICKS * clock_s / max(runtime_s, clock_s)):
        return ""
    return (
        f"{ops_per_s:,.0f} I/Os a second of {latency_s * 1e6:,.1f} µs each are {found:.1f} in flight,"
        f" and {asked:.0f} were asked for"
    )


def too_few(taken_s: float, asked: float, seconds: float, computing: float = 0.0) -> str:
    """Why `asked` I/Os, which took `taken_s` together, were not in flight for these seconds in which I/Os were issued;
    else nothing. `computing`: the share of its time that a worker may have had nothing in flight, at depth 1."""
    found = taken_s / seconds if seconds else 0.0
    if found >= (_LEAST - computing) * asked:
        return ""
    return f"{found:.1f} I/Os were in flight on average, where {asked:.0f} were asked for"


def waits(ops_per_s: float, latency_s: float, completion_s: float, workers: int) -> str:
    """Why a queue depth means nothing: the workers wait at the submission of each I/O; else nothing.

    libaio does so without O_DIRECT, and its own count of I/Os in flight says that the depth was reached.
    """
    share = ops_per_s * (latency_s - completion_s) / workers
    if share < _SUBMITTING:
        return ""
    return (
        f"the workers spent {min(share, 1):.0%} of their time submitting I/Os: without O_DIRECT libaio waits for each,"
        " whatever the queue depth"
    )
