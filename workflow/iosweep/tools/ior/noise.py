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
    r"incorrect data|data check error|fsync\(.*\) failed|partial (read|write)\(\)|inconsistent file size"
    r"|could not create|unable to create|more tasks requested|too many retries|returned EOF|bad termination"
    r"|\bassert(ion)?\b.*fail|fatal error|segmentation fault|bus error|no space left|input/output error"
    r"|permission denied|exited on signal|noticed that process|mpi_abort|\babort(ed)?\(|srun: error|slurmstepd: error"
    r"|due to time limit|oom.kill|invalid argument|invalid options|unrecognized parameter|stale file handle"
    r"|WARNING: .*(fail|could not|cannot|unable|invalid|overflow|not supported|error)",
    re.IGNORECASE,
)
#: as they stand: "errors" and "failed" are in harmless lines, too
_SHOUTED = re.compile(r"\bERROR\b|\bFAILED\b|\bKilled\b|\bTerminated\b|\bAborted\b")


def bad(line: str) -> bool:
    """Whether a line that is no part of a result says that something went wrong."""
    if _HARMLESS.match(line):
        return False
    return bool(_SAID.search(line) or _SHOUTED.search(line))


def consequence(line: str) -> bool:
    """Whether a bad line is what follows from another: how MPI ends, or a transfer that goes on."""
    return bool(re.search(r"abort|assertion|termination|terminated|partial", line, re.IGNORECASE))
