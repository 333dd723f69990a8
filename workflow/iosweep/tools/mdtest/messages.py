"""What lines of mdtest's output, or of what started it, say: figures are invalid or suspect, or it is a note."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from iosweep.tools.loglines import LABEL, Said, notice
from iosweep.tools.reading import ProblemSeverity


def _apart(first: str, second: str) -> str:
    """A pattern for `first` and somewhere after it `second`, which reads a line of many `first` only once."""
    return f"{first}(?:(?!{first}).)*{second}"


#: mdtest's warnings that do not touch a figure
_HARMLESS = re.compile(
    r"(?:ior )?WARNING: (?:Read bytes is 0"
    r"|unable to use realpath\(\)|unable to statv?fs\(\)"  # only the line "FS:" is about that
    r"|\S+ backend is deprecated use |assuming POSIX-based backend for "
    # IOR's alone, of its own runs in the same log
    r"|(?:Expected|Stat\(\) of) aggregate file size|Using actual aggregate bytes moved|[Mm]aybe caused by deadline"
    r"|inconsistent file size by different tasks)"
)
#: Open MPI frames its own messages by lines of dashes
FRAME = re.compile(r"-{60,}")
#: A line that says anything contains one of these, in any case.
WORDS = (
    "warning", "error", "fail", "invalid options", "could not create", "unable to", "partial ", "prematurely",
    "bad termination", "mpi_abort", "abort(", "assert", "killed", "exited on signal", "time limit", "cancelled at",
    "oom", "out of memory", "no space left", "quota exceeded", "stale file", "read-only file", "not connected",
    "segmentation", "bus error", "received signal",
)  # fmt: skip
#: in lower case, from the start of the line: a path inside another message cannot match
_NOTE = re.compile(
    LABEL + r"(?:(?:ior )?warning: )?(?:could not read stonewall status file"
    r"|(?:\w+ )?returned error during statv?fs\b)"  # only the line "FS:" is about that
)

#: Of directories alone: each file that is not removed has a line of its own.
NOT_REMOVED = "directories were not removed, because something is left in them"
_ENDED = "processes ended before their time"
_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("mdtest did not understand its options", re.compile(r"Error invalid argument|Invalid options|Error, argument")),
    (
        "directories of an earlier run were in the way, or could not be made",
        re.compile(r"could not create directory|WARNING: unable to create (?:tree )?directory"),
    ),
    ("the test directory could not be made", re.compile(r"Unable to create test directory")),
    ("data was read back wrong", re.compile(r"ERROR: verifying the data")),
    (NOT_REMOVED, re.compile(r"WARNING: [Uu]nable to remove directory ")),
    (
        "operations failed that mdtest counted all the same",
        re.compile(
            r"WARNING: unable to (?:stat|create|open|read|write|remove|rename|mknode|verify) "
            r"|WARNING: Unable to (?:create|remove) "
            "|" + _apart(r"(?:unlink|rename)\(\) of file ", " failed"),
        ),
    ),
    ("data was not made durable", re.compile(r"fsync\([^()]*\) failed")),
    ("reads were not whole", re.compile(r"returned EOF prematurely")),
    ("mdtest failed", re.compile(r"^(?:ior )?ERROR:|: FAILED in ")),
    (
        _ENDED,
        re.compile(
            r"BAD TERMINATION|MPI_Abort|MPI_ABORT|\bAbort\(|\bAssertion\b|\bassert \(|Segmentation fault|Bus error"
            r"|Killed \(signal|exited on signal|[Pp]rocess received signal|DUE TO TIME LIMIT|CANCELLED AT|oom.kill"
            "|Out Of Memory"
        ),
    ),
    (
        "the system refused operations",
        re.compile(
            r"(?:No space left on device|Disk quota exceeded|Input/output error|Stale file handle"
            r"|Read-only file system|Transport endpoint is not connected)"
        ),
    ),
)
#: notices of srun name tasks, too
_OF_SRUN = re.compile(_apart("srun: error: ", "task"))
_PARTIAL = "reads or writes were not whole at first, and were gone on with"
_WARNS = "mdtest warns"
_SPEAKS = "the output speaks of errors"
_BESIDE = "beside the figures is"
_WARNING = re.compile(r"^(?:ior )?WARNING: ")
_FAILED = re.compile(r"\b(?:errors?|fail(?:ed|ure))\b")


def judged(line: str) -> tuple[ProblemSeverity, str] | None:
    """The severity of a line and what it means, or None where it says nothing."""
    if _HARMLESS.match(line):
        return None
    low = line.lower()
    for meaning, pattern in _SIGNS:
        if pattern.search(line):
            return "invalid", meaning
    if _NOTE.match(low.strip()) or notice(low):
        return "note", _BESIDE
    if _OF_SRUN.search(line):
        return "invalid", _ENDED
    if "partial read()" in low or "partial write()" in low:
        return "suspect", _PARTIAL
    if _WARNING.match(line):
        return "suspect", _WARNS
    return ("suspect", _SPEAKS) if ("error" in low or "fail" in low) and _FAILED.search(low) else None


def said(heard: Iterable[Said]) -> Iterator[tuple[ProblemSeverity, str]]:
    """What lines say, a severity and a sentence for each kind."""
    seen: dict[str, list[Said]] = {}
    for one in heard:
        seen.setdefault(one.meaning, []).append(one)
    for meaning, found in seen.items():
        count = sum(one.count for one in found)
        more = f" (first of {count} such lines)" if count > 1 else ""
        yield found[0].severity, f"{meaning}: {quote(found[0].line)}{more}"


def quote(line: str) -> str:
    """A line of the output inside a sentence: short, on one line, without what separates reasons."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in line.strip())
    return printable.replace(" | ", " / ")[:200]
