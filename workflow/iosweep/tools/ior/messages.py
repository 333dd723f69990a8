"""Lines beside IOR's results, and what they say about them: invalid, suspect, a note, or nothing."""

from __future__ import annotations

import re

from iosweep.tools.loglines import LABEL, has, notice
from iosweep.tools.reading import ProblemSeverity

#: A line that says anything contains one of these, in any case.
WORDS = (
    "warning", "error", "fail", "incorrect data", "partial ", "inconsistent file", "could not", "unable to", "invalid",
    "more tasks", "too many", "returned eof", "bad termination", "segmentation", "no space left", "permission denied",
    "stale file", "quota exceeded", "read-only file", "not connected", "timed out", "noticed that process",
    "exited on signal", "mpi_abort", "abort(", "aborted", "killed", "terminated", "time limit", "oom", "out of memory",
    "unrecognized parameter", "received signal",
)  # fmt: skip

_HARMLESS = re.compile(
    r"(Command line|test filename|Path|Machine|FS|Began|StartTime|Writing output to)\s*:?\s"  # these hold names
    r'|WARNING: The file ".*" exists already and will be (overwritten|deleted)$'
    r"|\"[^\"]*\": .*"  # of a damaged JSON, which is a problem of its own
)
#: IOR does without the fsync that it was asked for
_FSYNC_OFF = re.compile(r"fsync\(\) (?:only available in|not supported in) .{1,80}Using value of 0\b")
#: in lower case, from the start of the line: a path inside another message cannot match
_NOTE = re.compile(
    LABEL + r"(?:(?:ior )?warning: )?(?:fsync\(\) (?:only available|not supported) in "
    r"|(?:\w+ )?returned error during statv?fs\b"  # only the line "FS:" is about that
    r"|could not read (?:back the )?stonewall|cannot open hints file)"
)
_INVALID = (
    "incorrect data", "data check error", "could not create", "unable to create", "more tasks requested",
    "too many retries", "returned eof", "bad termination", "fatal error", "segmentation fault", "bus error",
    "no space left", "input/output error", "remote i/o error", "disk quota exceeded", "read-only file system",
    "endpoint is not connected", "permission denied", "exited on signal", "noticed that process", "mpi_abort", "abort(",
    "aborted(", "process received signal", "due to time limit", "oom-kill", "oom_kill", "oom kill",
    "out of memory", "invalid argument", "invalid options", "unrecognized parameter", "stale file handle",
)  # fmt: skip
#: signs that notices of launchers and MPI libraries have, too
_INVALID_UNLESS_NOTICE = ("srun: error", "slurmstepd: error", "connection timed out")
_SUSPECT = ("partial read()", "partial write()", "inconsistent file size")
#: behind WARNING
_WARNED = ("fail", "could not", "cannot", "unable", "invalid", "overflow", "not supported", "error")
#: "errors" and "failed" are in harmless lines, too
_SHOUTED = re.compile(r"\b(?:ERROR|FAILED|Killed|Terminated|Aborted)\b")
_FAILED = re.compile(r"\b(?:errors?|fail(?:ed|ure))\b")


def judged(line: str) -> tuple[ProblemSeverity, str] | None:
    """What a line that is no part of a result says about the run's figures; None where it says nothing."""
    if _HARMLESS.match(line):
        return None
    low = line.lower()
    if has(low, _INVALID) or _SHOUTED.search(line):
        return "invalid", ""
    if ") failed" in low.partition("fsync(")[2] or "fail" in low.partition("assert")[2]:
        return "invalid", ""
    if _NOTE.match(low.strip()) or notice(low):
        return "note", ""
    if has(low, _INVALID_UNLESS_NOTICE):
        return "invalid", ""
    if has(low, _SUSPECT) or has(low.partition("warning: ")[2], _WARNED):
        return "suspect", ""
    return ("suspect", "") if ("error" in low or "fail" in low) and _FAILED.search(low) else None


def switched_off(line: str) -> str:
    """What IOR says that it does without though it was asked for: `fsync` or `o_direct`; empty where it does not."""
    if _FSYNC_OFF.search(line):
        return "fsync"
    return "o_direct" if "WARNING: cannot use O_DIRECT" in line else ""
