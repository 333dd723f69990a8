"""Lines beside IOR's results, and what they say about them: invalid, suspect, a note, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from iosweep.tools import ProblemSeverity
from iosweep.tools.loglines import shape

#: A line that says anything contains one of these, in any case.
WORDS = (
    "warning", "error", "fail", "incorrect data", "partial ", "inconsistent file", "could not", "unable to", "invalid",
    "more tasks", "too many", "returned eof", "bad termination", "segmentation", "no space left", "permission denied",
    "stale file", "quota exceeded", "read-only file", "not connected", "timed out", "noticed that process",
    "exited on signal", "mpi_abort", "abort(", "aborted", "killed", "terminated", "time limit", "oom", "out of memory",
    "unrecognized parameter",
)  # fmt: skip

_HARMLESS = re.compile(
    r"(Command line|test filename|Path|Machine|FS|Began|StartTime|Writing output to)\s*:?\s"  # these hold names
    r'|WARNING: The file ".*" exists already and will be (overwritten|deleted)$'
    r"|\"[^\"]*\": .*"  # of a damaged JSON, which is a problem of its own
)
#: IOR does without the fsync that it was asked for
_FSYNC_OFF = re.compile(r"fsync\(\) (?:only available in|not supported in) .{1,80}Using value of 0\b")
#: it does without O_DIRECT, too
_O_DIRECT_OFF = re.compile(r"WARNING: cannot use O_DIRECT", re.IGNORECASE)
#: any case; these say nothing against a figure
_NOTES = re.compile(
    r"fsync\(\) (?:only available|not supported) in "
    r"|returned error during statv?fs|unable to (?:use )?statv?fs"  # only the line "FS:" is about that
    r"|could not read (?:back )?(?:the )?stonewall"
    r"|cannot open hints file"
    # launchers and MPI libraries on their own options and devices
    r"|(?:srun|slurmstepd): error: .*(?:\bignor|conflicting option)"
    r"|openfabrics|/dev/ipath|\bPSM\b|\bopen mpi\b|\bbtl_|\bmca[ _:]|help message|libibverbs|librdmacm",
    re.IGNORECASE,
)
#: any case
_SAID = re.compile(
    r"incorrect data|data check error"
    r"|could not create|unable to create|more tasks requested|too many retries|returned EOF|bad termination"
    r"|fatal error|segmentation fault|bus error|no space left"
    r"|input/output error|remote I/O error|disk quota exceeded|read-only file system|endpoint is not connected"
    r"|permission denied|exited on signal|noticed that process|mpi_abort|\babort(ed)?\(|srun: error|slurmstepd: error"
    r"|due to time limit|oom.kill|out of memory|invalid argument|invalid options|unrecognized parameter"
    r"|stale file handle|connection timed out",
    re.IGNORECASE,
)
#: any case: the second somewhere behind the first (one pattern of both takes quadratic time on long lines)
_FOLLOWED = tuple(
    (re.compile(first, re.IGNORECASE), re.compile(second, re.IGNORECASE))
    for first, second in ((r"fsync\(", r"\) failed"), (r"\bassert(ion)?\b", "fail"))
)
_DOUBTFUL = tuple(
    (re.compile(first, re.IGNORECASE), re.compile(second, re.IGNORECASE))
    for first, second in (
        (r"partial (read|write)\(\)|inconsistent file size", ""),
        ("WARNING: ", "fail|could not|cannot|unable|invalid|overflow|not supported|error"),
        (r"\berrors?\b|\bfail(ed|ure)\b", ""),
    )
)
#: as they stand: "errors" and "failed" are in harmless lines, too
_SHOUTED = re.compile(r"\bERROR\b|\bFAILED\b|\bKilled\b|\bTerminated\b|\bAborted\b")
#: how a launcher ends: about the run before the line, although that has printed its last
_ENDED = re.compile(
    r"termination|exited on signal|noticed that process|mpi_abort|\babort|killed|terminated|segmentation fault"
    r"|bus error|due to time limit|oom.kill|out of memory|(?:srun|slurmstepd): error",
    re.IGNORECASE,
)


def judged(line: str) -> ProblemSeverity | None:
    """What a line that is no part of a result says about the run's figures; None where it says nothing."""
    if _HARMLESS.match(line):
        return None
    if _NOTES.search(line):
        return "note"
    if _SAID.search(line) or _SHOUTED.search(line) or _either(_FOLLOWED, line):
        return "invalid"
    return "suspect" if _either(_DOUBTFUL, line) else None


def _either(pairs: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...], line: str) -> bool:
    return any((start := first.search(line)) and second.search(line, start.end()) for first, second in pairs)


def switched_off(line: str) -> str:
    """What IOR says that it does without though it was asked for: `fsync` or `o_direct`; empty where it does not."""
    if _FSYNC_OFF.search(line):
        return "fsync"
    return "o_direct" if _O_DIRECT_OFF.search(line) else ""


def about_the_end(line: str) -> bool:
    """Whether a line says how processes ended."""
    return bool(_ENDED.search(line))


def consequence(line: str) -> bool:
    """Whether a bad line is what follows from another: how MPI ends, or a transfer that goes on."""
    return bool(re.search(r"abort|assertion|termination|terminated|partial", line, re.IGNORECASE))


@dataclass
class Said:
    """A line, and how many of its kind there are at its place (loglines.shape)."""

    at: int
    severity: ProblemSeverity
    line: str
    count: int = 1


class Heard:
    """Judges lines one after the other. A kind of line is judged once, and kept once for each place."""

    _KINDS = 10_000  # that are remembered

    def __init__(self) -> None:
        self._severities: dict[str, ProblemSeverity | None] = {}
        self._said: dict[tuple[int, str], Said] = {}

    def take(self, at: int, place: int, line: str) -> None:
        """A line, its number, and a number that is the same for lines without a result between them."""
        kind = shape(line)
        if said := self._said.get((place, kind)):
            said.count += 1
            return
        try:
            severity = self._severities[kind]
        except KeyError:
            severity = judged(line)
            if len(self._severities) < self._KINDS:
                self._severities[kind] = severity
        if severity:
            self._said[place, kind] = Said(at, severity, line)

    def __iter__(self) -> Iterator[Said]:
        return iter(sorted(self._said.values(), key=lambda said: said.at))
