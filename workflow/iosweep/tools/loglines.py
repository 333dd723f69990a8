"""Lines of a log that may be of interest, found in time proportional to the log: some logs are 100 MB of messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iosweep.tools.reading import ProblemSeverity

_CHUNK = 1 << 18
#: Digits, and the letters of hexadecimal numbers, are all 0. Of bytes: str.translate takes ten times as long.
_NUMBERS = bytes.maketrans(b"123456789abcdef", b"0" * 15)

#: What a launcher puts before each line: `3: ` (srun -l) or `[1,3]<stderr>:` (mpirun --tag-output), in lower case.
LABEL = r"(?:\d{1,9}: ?|\[\d{1,9},\d{1,9}\]<std(?:out|err)>: ?)?"
#: Open MPI: host and process
_PROCESS = r"(?:\[[\w.-]{1,255}:\d{1,9}\] (?:\[\[\d{1,9},\d{1,9}\],\d{1,9}\] )?)"
#: What launchers and MPI libraries say of their own options and devices, in lower case, from the start of the line:
#: a path or a host name inside another message cannot match.
_NOTICE = re.compile(
    LABEL + "(?:"
    r"no openfabrics connection schemes reported\b"
    r"|warning: there was an error initializing an openfabrics device\b"
    r"|warning: it appears that your openfabrics subsystem is configured to\b"
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
    r"|(?:srun|slurmstepd): error: ignoring "
    r"|(?:srun|slurmstepd): error: [a-z_][a-z0-9_]*=.{0,200} invalid\. ignoring\.\.\.$"
    ")"
)
#: How a launcher ends, in lower case.
_ENDS = (
    "termination", "exited on signal", "noticed that process", "mpi_abort", "abort(", "aborted", "killed", "terminated",
    "segmentation fault", "bus error", "due to time limit", "oom-kill", "oom_kill", "oom kill", "out of memory",
    "srun: error", "slurmstepd: error", "cancelled at", "process received signal",
)  # fmt: skip


def marked(text: str, words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each line of the text that is not empty, and whether it contains one of the lower-case words, in any case.

    A word is looked for in single lines only where it is in the 256 KiB around them.
    """
    for chunk in _chunks(text):
        lower = chunk.lower()
        present = [word for word in words if word in lower]
        if not present:
            for line in chunk.split("\n"):
                if line:
                    yield line, False
            continue
        for line, low in zip(chunk.split("\n"), lower.split("\n"), strict=True):
            if not line:
                continue
            found = False
            for word in present:
                if word in low:
                    found = True
                    break
            yield line, found


def _chunks(text: str) -> Iterator[str]:
    """The text in parts that end at the end of a line, without that line's newline."""
    at = 0
    while at < len(text):
        end = text.find("\n", at + _CHUNK)
        if end < 0:
            end = len(text)
        yield text[at:end]
        at = end + 1


def has(low: str, words: Sequence[str]) -> bool:
    return any(word in low for word in words)


def notice(low: str) -> bool:
    """Whether a lower-case line is of a launcher or an MPI library, on its own options and devices.

    The signs of a bad run come first: a notice can quote a path or an error of the system.
    """
    return bool(_NOTICE.match(low.strip()))


def about_the_end(line: str) -> bool:
    """Whether a line says how processes ended: it is about the run before it, although that has printed its last."""
    low = line.lower()
    return has(low, _ENDS) and not notice(low)


@dataclass
class Said:
    """A line and what it says, and how many of its kind there are: as many ranks say the same."""

    severity: ProblemSeverity
    line: str
    meaning: str = ""
    count: int = 1


class Heard:
    """Judges lines one after the other. A kind of line, numbers aside, is judged and kept once.

    `judge`: a line -> its severity and meaning, or None where it says nothing.
    """

    def __init__(self, judge: Callable[[str], tuple[ProblemSeverity, str] | None]) -> None:
        self._judge = judge
        self._said: dict[bytes, Said | None] = {}

    def take(self, line: str) -> None:
        kind = line.encode("utf-8", "replace").translate(_NUMBERS)
        if kind not in self._said:
            found = self._judge(line)
            self._said[kind] = Said(found[0], line, found[1]) if found else None
        elif said := self._said[kind]:
            said.count += 1

    def add(self, other: Heard) -> None:
        """Take what others said that was not said here."""
        self._said = {**other._said, **self._said}

    def __iter__(self) -> Iterator[Said]:
        return iter([said for said in self._said.values() if said])
