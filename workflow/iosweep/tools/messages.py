"""Messages of IOR and mdtest beside their results, and their files with a line for each rank. Pure.

A line makes figures invalid or suspect, or is a note. Both tools are one program, and print the same messages; logs of
100 MB exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from iosweep.histograms import LARGEST_RATE
from iosweep.tools.reading import ProblemSeverity

#: Prefix that a launcher adds to each line: `3: ` (srun -l) or `[1,3]<stderr>:` (mpirun --tag-output), in lower case.
_LABEL = r"(?:\d{1,9}: ?|\[\d{1,9},\d{1,9}\]<std(?:out|err)>: ?)?"
#: Open MPI: host and process
_PROCESS = r"(?:\[[\w.-]{1,255}:\d{1,9}\] (?:\[\[\d{1,9},\d{1,9}\],\d{1,9}\] )?)"
#: Messages of launchers and MPI libraries on their options and devices, in lower case, from the start of the line:
#: a path or a host name inside another message cannot match.
_NOTICE = re.compile(
    _LABEL + "(?:"
    r"no openfabrics connection schemes reported\b"
    r"|warning: there was an error initializing an openfabrics device\b"
    r"|warning: it appears that your openfabrics subsystem is configured to\b"
    r"|warning: there are more than one active ports on host\b"
    r"|warning: no preset parameters were found for the device that open mpi\b"
    r"|warning: open mpi will create a shared memory backing file\b"
    r"|warning: linux kernel cma support was requested via the btl_"
    r"|warning: a deprecated mca (?:variable|parameter)\b"
    r"|the openfabrics \(openib\) btl failed to initialize\b"
    r"|note: you can turn off this warning by setting the mca parameter\b"
    rf"|{_PROCESS}\d{{1,9}} more process(?:es have| has) sent help message help-"
    rf"|{_PROCESS}?set mca parameter \"\w+\" to 0 to see all help / error messages$"
    rf"|{_PROCESS}?\w{{0,20}}mca_base_component_repository_open: unable to open "
    rf"|{_PROCESS}?mca: base: components?_\w+: "
    rf"|{_PROCESS}?error: [\w./-]+\.c:\d+ - mca_coll_\w+_comm_query\(\) [\w ]*init failed$"
    r"|libibverbs: warning: "
    r"|librdmacm: (?:warning: |fatal: (?:no rdma devices found|unable to get rdma device list))"
    r"|(?:[\w.:-]{1,255} )?(?:psm )?can't open /dev/(?:ipath|hfi1)"
    r"|[\w.:-]{1,255}(?: [\w.:-]{1,255})?: the /dev/(?:ipath|hfi1)\w* device failed to appear after [\d.]+ seconds"
    r"|srun: cluster configuration lacks support for cpu binding"
    r"|(?:srun|slurmstepd): error: ignoring "
    r"|(?:srun|slurmstepd): error: [a-z_][a-z0-9_]*=.{0,200} invalid\. ignoring\.\.\.$"
    ")"
)


def notice(low: str) -> bool:
    """Whether a lower-case line is a message of a launcher or an MPI library on its options and devices.

    The signs of a bad run come first: a notice can quote a path or an error of the system.
    """
    return bool(_NOTICE.match(low.strip()))


#: Messages of srun on all tasks when one has failed, before or after the error of that task.
_SRUN = re.compile("srun: (error: .* with exit code|Terminating StepId|Job step aborted)")


def cause_in(output: bytes) -> str:
    """The line that names the cause: the last of an MPICH error stack, else the first without notices and srun."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip(" -\t")]
    lines = sorted((line for line in lines if not notice(line.lower())), key=lambda line: bool(_SRUN.match(line)))
    stack = [line for line in lines if re.match(r"\w+\(\d+\)\.*: \S", line)]
    return next(iter((*stack[-1:], *lines)), "")[:200]


#: Maps digits and hexadecimal letters to 0: lines that differ only in numbers are of one kind.
_NUMBERS = bytes.maketrans(b"123456789abcdef", b"0" * 15)


@dataclass
class Message:
    """A line beside the results, what it means, and how many lines of its kind there are: many ranks say the same."""

    severity: ProblemSeverity
    line: str
    meaning: str
    count: int = 1

    def __str__(self) -> str:
        more = f" (first of {self.count:,} such lines)" if self.count > 1 else ""
        return f"{self.meaning}: {quote(self.line)}{more}"


class Messages:
    """The messages among some lines, one for each kind of line."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, Message | None] = {}

    def take(self, line: str) -> None:
        """Judge a line that is no part of a result."""
        low = line.lower()
        if not any(word in low for word in WORDS):
            return
        kind = line.encode("utf-8", "replace").translate(_NUMBERS)
        if kind in self._kinds:
            if known := self._kinds[kind]:
                known.count += 1
            return
        found = judged(line)
        self._kinds[kind] = Message(found[0], line, found[1]) if found else None

    def add(self, other: Messages) -> None:
        """Take the messages of other lines."""
        self._kinds = {**other._kinds, **self._kinds}

    def __iter__(self) -> Iterator[Message]:
        """One message for each meaning: the first, with the count of all."""
        found: dict[str, Message] = {}
        for message in filter(None, self._kinds.values()):
            if known := found.get(message.meaning):
                known.count += message.count
            else:
                found[message.meaning] = replace(message)
        return iter(found.values())


#: Every line that matters contains one of these, in upper or lower case.
WORDS = (
    "warning", "error", "fail", "incorrect data", "partial ", "inconsistent file", "could not", "unable to", "invalid",
    "more tasks", "too many", "returned eof", "bad termination", "segmentation", "bus error", "no space left",
    "permission denied", "stale file", "quota exceeded", "read-only file", "not connected", "timed out",
    "noticed that process", "exited on signal", "mpi_abort", "abort(", "aborted", "assert", "killed", "terminated",
    "time limit", "cancelled at", "oom", "out of memory", "unrecognized parameter", "received signal",
)  # fmt: skip
_HARMLESS = re.compile(
    r"(?:Command line|test filename|Path|Machine|FS|Began|StartTime|Writing output to)\s*:?\s"  # these hold names
    r"|\"[^\"]*\": "  # of a damaged JSON, which is a problem of its own
    r"|(?:ior )?WARNING: (?:Read bytes is 0|unable to use realpath\(\)|Not a \w+ file system"
    r"|unable to statv?fs\(\)|\S+ backend is deprecated use |assuming POSIX-based backend for "
    r'|The file ".*" exists already and will be (?:overwritten|deleted)$'
    r"|(?:Expected|Stat\(\) of) aggregate file size|Using actual aggregate bytes moved|[Mm]aybe caused by deadline)"
)
#: in lower case, from the start of the line: a path inside another message cannot match
_NOTE = re.compile(
    _LABEL + r"(?:(?:ior )?warning: )?(?:could not read (?:back the )?stonewall|cannot open hints file"
    r"|fsync\(\) (?:only available|not supported) in "
    r"|(?:\w+ )?returned error during statv?fs\b)"  # only the line "FS:" is about that
)


#: Of directories alone: each file that is not removed has a line of its own.
NOT_REMOVED = "directories were not removed, because something is left in them"
_ENDED = "processes ended before their time"
#: Meaning of a line that makes figures invalid -> its pattern; the first that is found counts.
_INVALID = {
    "options were not understood": r"[Ii]nvalid argument: -|[Ii]nvalid options|Error, argument|[Uu]nrecognized param",
    "directories of an earlier run were in the way, or could not be made": (
        r"[Cc]ould not create|WARNING: unable to create (?:tree )?directory"
    ),
    "the test directory could not be made": r"Unable to create test directory",
    "data was read back wrong": r"ERROR: verifying the data|[Ii]ncorrect data|[Dd]ata check error|FAILED comparison",
    NOT_REMOVED: r"WARNING: [Uu]nable to remove directory ",
    "operations failed that are counted all the same": (
        r"WARNING: unable to (?:stat|create|open|read|write|remove|rename|mknode|verify) "
        r"|WARNING: Unable to (?:create|remove) |[Tt]oo many retries|(?:unlink|rename)\(\) of file .* failed"
    ),
    "data was not made durable": r"fsync\([^()]*\) failed",
    "reads were not whole": r"returned EOF",
    "the run failed": r"^(?:ior )?ERROR\b|: FAILED in |[Mm]ore tasks requested",
    _ENDED: (
        r"BAD TERMINATION|MPI_Abort|MPI_ABORT|\bAbort(?:ed)?\(|\b[Aa]ssert(?:ion)?\b.*[Ff]ail|\bassert \("
        r"|Segmentation fault|Bus error|Killed \(signal|exited on signal|noticed that process|[Ff]atal error"
        r"|[Pp]rocess received signal|DUE TO TIME LIMIT|CANCELLED AT|oom.kill|Out Of Memory"
        r"|\b(?:Killed|Terminated|Aborted)$"
    ),
    "the system refused operations": (
        r"No space left on device|Disk quota exceeded|(?:Remote I/O|Input/output) error|Stale file handle"
        r"|Read-only file system|Transport endpoint is not connected|Permission denied|Invalid argument"
    ),
}
_SIGNS = {meaning: re.compile(pattern) for meaning, pattern in _INVALID.items()}
#: How launchers speak of a failed run; notices begin alike.
_OF_LAUNCHERS = re.compile(r"srun: error: .*task|slurmstepd: error|Connection timed out")
_PARTIAL = re.compile(r"partial (?:read|write)\(\)|inconsistent file size", re.IGNORECASE)
_WARNING = re.compile(r"^(?:ior )?WARNING: ")
_FAILED = re.compile(r"\b(?:errors?|fail(?:ed|ure))\b", re.IGNORECASE)


def judged(line: str) -> tuple[ProblemSeverity, str] | None:
    """The severity of a line that is no part of a result, and its meaning; None where it says nothing."""
    if _HARMLESS.match(line):
        return None
    for meaning, pattern in _SIGNS.items():
        if pattern.search(line):
            return "invalid", meaning
    low = line.lower()
    if _NOTE.match(low.strip()) or notice(low):
        return "note", "beside the figures is"
    if _OF_LAUNCHERS.search(line):
        return "invalid", _ENDED
    if _PARTIAL.search(line):
        return "suspect", "reads or writes were not whole at first, and were gone on with"
    if _WARNING.match(line):
        return "suspect", "a warning"
    return ("suspect", "the output speaks of errors") if _FAILED.search(line) else None


def quote(line: str) -> str:
    """A line of the output for a sentence: printable, at most 200 characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in line.strip())[:200]


#: Longest line that is read, on average: mdtest 4.0's have 600 characters.
_LINE_BYTES = 2048


def rank_column(document: bytes, name: str, tasks: int, access: str = "") -> list[float]:
    """The positive values of a column by rank, from the first to the last; none unless each rank has one.

    access: only lines with this in their column `access`.
    """
    if len(document) > (tasks + 2) * _LINE_BYTES:
        return []
    names, rows = _table(document)
    found: dict[str, float] = {}
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        if access and cells.get("access") != access:
            continue
        try:
            value = float(cells[name])
        except (KeyError, ValueError):
            continue
        rank = cells.get("rank", "")
        if rank in found or not 0 < value <= LARGEST_RATE:
            return []
        found[rank] = value
    found.pop("all", None)  # mdtest's line of all ranks together
    wanted = list(map(str, range(tasks)))
    return [found[rank] for rank in wanted] if found.keys() == set(wanted) else []


def rank_total(document: bytes, name: str) -> float | None:
    """The value in mdtest's line of all ranks together."""
    names, rows = _table(document)
    cells = next((dict(zip(names, row, strict=False)) for row in rows if row[0] == "all"), {})
    try:
        return float(cells.get(name, ""))
    except ValueError:
        return None


@lru_cache(1)  # each phase of mdtest reads the same table
def _table(document: bytes) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    lines = document.decode("utf-8", "replace").splitlines()
    return (lines[0].split(","), [line.split(",") for line in lines[1:]]) if lines else ((), ())
