"""Whether the tool ended well, and what it printed of errors and doubts."""

from __future__ import annotations

import signal

from iosweep.errors import Cause, cause
from iosweep.judge.checks.finding import NO_OUTPUT, NOT_APPLICABLE, REASON_LENGTH, Seen, failed, passed
from iosweep.judge.reasons import REASONS
from iosweep.node.process import MOST_BYTES
from iosweep.store.record import Finding
from iosweep.text import printable, some
from iosweep.tools import Parsed
from iosweep.units import human_duration, human_size

#: Signals that others send; those of a crash would come again.
FROM_OUTSIDE = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)


def exit_status(s: Seen) -> Finding:
    """The tool could be started, and ended by itself with exit code 0, within its time limit."""
    run = s.run
    if run.left_behind:
        left = some(run.left_behind, 8)
        return failed(f"the target hangs: processes of the tool could not be killed: {left}", True)
    if run.not_run:
        return not_run(run.not_run)
    if run.flooded:
        return failed(f"the tool was killed: it printed more than {human_size(MOST_BYTES)}")
    if run.timed_out:
        return failed(f"the tool was killed after {human_duration(run.wall_s)}: it did not end by itself", True)
    if run.exit_code < 0:
        killed = -run.exit_code
        return failed(f"the tool was killed by signal {killed}", curable=killed in FROM_OUTSIDE)
    if run.exit_code:
        printed = [run.stderr, *(s.parsed.evidence.errors or ()), *s.parsed.evidence.messages]
        why = cause("\n".join([*printed, *s.parsed.problems]))
        return failed(
            f"{_because(why)}the tool ended with exit code {run.exit_code}{_first(run.stderr)}",
            curable=bool(why and why.curable),
        )
    return passed(f"exit code 0 after {run.wall_s:.2f} s")


def not_run(reason: str) -> Finding:
    """A fail for a tool that was not started. Another try may help unless the reason is a cause that lasts."""
    why = cause(reason)
    return failed(_because(why) + reason, curable=why is None or why.curable)


def output(s: Seen) -> Finding:
    """The tool's output is complete and readable, and of the version that its program says."""
    if s.run.not_run:
        return NOT_APPLICABLE
    if s.parsed.problems:
        return failed("; ".join(s.parsed.problems))
    if s.parsed == Parsed():
        return failed("no output is stored")
    name, said = f"{s.point.tool}-", s.parsed.version
    if s.version not in ("", "unknown") and said and said.removeprefix(name) != s.version.removeprefix(name):
        return failed(f"its output is of {said}, and its program says {s.version}")
    return passed(f"one document of {printable((s.parsed.version or s.point.tool)[:REASON_LENGTH])}")


def tool_errors(s: Seen) -> Finding:
    """The tool reports no error: none of its own, no short or dropped I/O, no failed rank."""
    errors = s.parsed.evidence.errors
    if errors is None:
        return NO_OUTPUT
    if errors:
        return failed("the tool reports " + "; ".join(errors).replace(REASONS, " / "))
    return passed("the tool reports no error")


def tool_doubts(s: Seen) -> Finding:
    """The tool printed no line that puts its figures in doubt (IOR and mdtest: partial reads, warnings)."""
    doubts = s.parsed.evidence.doubts
    if doubts is None:
        return NOT_APPLICABLE
    if doubts:
        return failed("; ".join(doubts).replace(REASONS, " / "))
    return passed("no line puts the figures in doubt")


def _because(why: Cause | None) -> str:
    return f"{why.text}: " if why else ""


def _first(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f": {line[:200].replace(REASONS, ' / ')}" if line else ""
