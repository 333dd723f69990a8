"""Lines of a log that may be of interest, found in time proportional to the log: some logs are 100 MB of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iosweep.tools import ProblemSeverity

_CHUNK = 1 << 18
#: Digits, and the letters of hexadecimal numbers, are all 0. Of bytes: str.translate takes ten times as long.
_NUMBERS = bytes.maketrans(b"123456789abcdef", b"0" * 15)

#: What launchers and MPI libraries say of their own options and devices, in lower case.
_NOTICES = (
    "openfabrics", "open mpi", "mca_", "mca:", "mca parameter", "btl_openib", "help message", "libibverbs",
    "librdmacm", "/dev/ipath", "psm can't open",
)  # fmt: skip
_LAUNCHERS = ("srun: error", "slurmstepd: error")
_HEEDLESS = ("ignoring", "conflicting option")
#: How a launcher ends, in lower case.
_ENDS = (
    "termination", "exited on signal", "noticed that process", "mpi_abort", "abort(", "aborted", "killed", "terminated",
    "segmentation fault", "bus error", "due to time limit", "oom-kill", "oom_kill", "oom kill", "out of memory",
    "srun: error", "slurmstepd: error", "cancelled at",
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
    """Whether a lower-case line contains one of the words."""
    return any(word in low for word in words)


def notice(low: str) -> bool:
    """Whether a lower-case line is of a launcher or an MPI library, on its own options and devices."""
    return has(low, _NOTICES) or (has(low, _LAUNCHERS) and has(low, _HEEDLESS))


def about_the_end(line: str) -> bool:
    """Whether a line says how processes ended: it is about the run before it, although that has printed its last."""
    low = line.lower()
    return has(low, _ENDS) and not notice(low)


@dataclass
class Said:
    """A line and what it says, and how many of its kind there are at its place: as many ranks say the same."""

    at: int
    severity: ProblemSeverity
    line: str
    meaning: str = ""
    count: int = 1


class Heard:
    """Judges lines one after the other. A kind of line, numbers aside, is judged once, and kept once for a place.

    `judge`: a line -> its severity and meaning, or None where it says nothing.
    """

    _KINDS = 10_000  # that are remembered

    def __init__(self, judge: Callable[[str], tuple[ProblemSeverity, str] | None]) -> None:
        self._judge = judge
        self._kinds: dict[bytes, tuple[ProblemSeverity, str] | None] = {}
        self._said: dict[tuple[int, bytes], Said] = {}

    def take(self, at: int, place: int, line: str) -> Said | None:
        """A line, its number, and a number that is the same for lines without a result between them.

        Returns what it says where that is the first of its kind at the place.
        """
        kind = line.encode("utf-8", "replace").translate(_NUMBERS)
        if said := self._said.get((place, kind)):
            said.count += 1
            return None
        try:
            found = self._kinds[kind]
        except KeyError:
            found = self._judge(line)
            if len(self._kinds) < self._KINDS:
                self._kinds[kind] = found
        if found is None:
            return None
        new = self._said[place, kind] = Said(at, found[0], line, found[1])
        return new

    def __iter__(self) -> Iterator[Said]:
        return iter(sorted(self._said.values(), key=lambda said: said.at))
