"""Lines that say that a run is bad, whatever its exit code and figures look like."""

from __future__ import annotations

import re

_HARMLESS = re.compile(
    r"(Command line|test filename|Path|Machine|FS|Began|StartTime|Writing output to)\s*:?\s"  # these hold names
    r'|WARNING: The file ".*" exists already and will be (overwritten|deleted)$'
    r"|\"[^\"]*\": .*"  # of a damaged JSON, which is told
)
#: any case
_SAID = re.compile(
    r"incorrect data|data check error|partial (read|write)\(\)|inconsistent file size"
    r"|could not create|unable to create|more tasks requested|too many retries|returned EOF|bad termination"
    r"|fatal error|segmentation fault|bus error|no space left|input/output error"
    r"|permission denied|exited on signal|noticed that process|mpi_abort|\babort(ed)?\(|srun: error|slurmstepd: error"
    r"|due to time limit|oom.kill|invalid argument|invalid options|unrecognized parameter|stale file handle",
    re.IGNORECASE,
)
#: any case: the second somewhere behind the first (one pattern of both takes quadratic time on long lines)
_FOLLOWED = tuple(
    (re.compile(first, re.IGNORECASE), re.compile(second, re.IGNORECASE))
    for first, second in (
        (r"fsync\(", r"\) failed"),
        (r"\bassert(ion)?\b", "fail"),
        ("WARNING: ", "fail|could not|cannot|unable|invalid|overflow|not supported|error"),
    )
)
#: as they stand: "errors" and "failed" are in harmless lines, too
_SHOUTED = re.compile(r"\bERROR\b|\bFAILED\b|\bKilled\b|\bTerminated\b|\bAborted\b")


def bad(line: str) -> bool:
    """Whether a line that is no part of a result says that something went wrong."""
    if _HARMLESS.match(line):
        return False
    if _SAID.search(line) or _SHOUTED.search(line):
        return True
    return any((start := first.search(line)) and second.search(line, start.end()) for first, second in _FOLLOWED)


def consequence(line: str) -> bool:
    """Whether a bad line is what follows from another: how MPI ends, or a transfer that goes on."""
    return bool(re.search(r"abort|assertion|termination|terminated|partial", line, re.IGNORECASE))
