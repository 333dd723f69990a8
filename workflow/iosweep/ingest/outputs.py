"""Files of others: the tools that wrote them, told by content alone, and their readings.

IO500 runs IOR, mdtest and a parallel find, and prints each phase in GiB/s or kIOPS: a second witness of the figures of
its outputs. Its score is the square root of bandwidth x metadata: the geometric means of the 4 IOR phases in GiB/s, and
of the 7 mdtest phases and find in kIOPS (IO500's rules, https://io500.org/about; github.com/IO500/io500, src/main.c).
Of several iterations it takes the highest."""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iosweep.store.ingested import Io500Figure, Io500Run, Io500Score, difference
from iosweep.text import printable, shortened
from iosweep.tools import tools
from iosweep.tools.reading import Reading

#: Bytes of a file: no output of a tool is larger.
MOST_BYTES = 256 << 20
#: Lines that a tool prints once or twice a run: of more, a file is no log.
MOST_SIGNS = 100_000
#: Bytes at the beginning of an archive, an image or a database that have a zero byte; a cut log may have some later.
_HEAD = 512


@dataclass(frozen=True)
class File:
    """A file. `name`: its path for people and for JSON, which cannot carry bytes that are not UTF-8. `reason`: why it
    is not read, as the rest of a sentence that begins with its name: `is a symbolic link`."""

    name: str
    data: bytes = b""
    reason: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def readings(self) -> dict[str, Reading] | str:
        """What the reader of each tool says whose output it holds, the first one in it first (a job's log may have
        several); or why there is none."""
        return self.reason or readings(self.data)


def shown(path: str | Path) -> str:
    return printable(os.fsencode(path).decode("utf-8", "backslashreplace"))


def files(path: Path) -> Iterator[File]:
    """The files of a path in the order of their names, each read when it is its turn. Below the path itself no link is
    followed. Raises nothing: a path that is not there is skipped with the system's words."""
    if not path.is_dir():
        yield _read(path, follow=True)
        return
    unread: list[OSError] = []
    for directory, below, names in os.walk(path, onerror=unread.append):
        below.sort()
        for name in sorted(names):
            yield _read(Path(directory, name), follow=False)
    for error in unread:
        yield File(shown(error.filename), reason=f"cannot be read: {error.strerror}")


def _read(path: Path, follow: bool) -> File:
    name = shown(path)
    try:
        status = path.stat() if follow else path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return File(name, reason="is a symbolic link")
        if not stat.S_ISREG(status.st_mode):
            return File(name, reason="is no regular file")
        if status.st_size > MOST_BYTES:
            return File(name, reason=f"is larger than {MOST_BYTES >> 20} MiB, which no output of a tool is")
        return File(name, path.read_bytes())
    except OSError as error:
        return File(name, reason=f"cannot be read: {error.strerror or error}")


def readings(data: bytes) -> dict[str, Reading] | str:
    """`File.readings` of the content of a file."""
    text = data.removeprefix(b"\xef\xbb\xbf")  # what an editor may write in front of UTF-8
    if not text.strip():
        return "is empty"
    if b"\0" in text[:_HEAD] or text.startswith((b"PK", b"\x1f\x8b", b"BZh")):
        return "is not plain text: unpack an archive first"
    found = {name: [re.search(sign, text) for sign in tool.signs] for name, tool in tools().items()}
    if any(len(re.findall(sign, text)) > MOST_SIGNS for tool in tools().values() for sign in tool.signs):
        return f"has more than {MOST_SIGNS:,} runs"
    at = {name: min(match.start() for match in matches if match) for name, matches in found.items() if any(matches)}
    if not at:
        *others, last = tools()
        return f"has no output of {', '.join(others)} or {last}"
    return {name: tools()[name].read(text) for name in sorted(at, key=at.__getitem__)}


# IO500


#: Phase -> the name of its figure in the output: IOR's access, or the phase of mdtest. `find` has no output.
BANDWIDTH = {
    "ior-easy-write": "write",
    "ior-easy-read": "read",
    "ior-hard-write": "write",
    "ior-hard-read": "read",
}
METADATA = {
    "mdtest-easy-write": "create",
    "mdtest-easy-stat": "stat",
    "mdtest-easy-delete": "delete",
    "mdtest-hard-write": "create",
    "mdtest-hard-stat": "stat",
    "mdtest-hard-read": "read",
    "mdtest-hard-delete": "delete",
}
FIND = "find"
SCORED = (*BANDWIDTH, *METADATA, FIND)

_LONGEST = 500  # characters of a line that are looked at
_NUMBER = r"(\d{1,15}(?:\.\d{1,15})?(?:e-\d{1,3})?)(?!\S)"
_RESULT = re.compile(rf"\[RESULT[^\]]{{0,20}}\]\s+([a-z][a-z0-9-]{{2,40}})\s+{_NUMBER}\s+(?:GiB/s|kIOPS)")
_SCORE = re.compile(
    rf"\[SCORE ?\]\s+Bandwidth\s+{_NUMBER}\s+GiB/s\s*:\s*IOPS\s+{_NUMBER}\s+k\w+\s*:\s*TOTAL\s+{_NUMBER}"
)


@dataclass
class Summary:
    """A summary of IO500: phase -> figure in its unit, and the score."""

    figures: dict[str, float] = field(default_factory=dict)
    score: Io500Score | None = None
    invalid: bool = False


def summary(data: bytes) -> Summary | None:
    """The figures of result_summary.txt, or of a log that has them; None where a file has none."""
    if b"[RESULT" not in data and b"[SCORE" not in data:
        return None
    found = Summary()
    for raw in data.decode("utf-8", "replace").split("\n"):
        line = raw[:_LONGEST].strip()
        if match := _RESULT.match(line):
            found.figures[match[1]] = float(match[2])
        elif match := _SCORE.match(line):
            bandwidth, metadata, total = map(float, match.groups())
            found.score = Io500Score(bandwidth=bandwidth, metadata=metadata, total=total)
        found.invalid |= "INVALID]" in line and ("SCORE" in line or "RESULT" in line)
    return found


def phase_of(path: str) -> str | None:
    """The phase that a file is named after: `ior-easy-write`."""
    stem = path.rpartition("/")[2].partition(".")[0].lower()
    return stem if stem in SCORED else None


def workload_of(path: str, tool: str) -> str:
    """`ior-hard` of an output of a tool that is named after one of its phases; "" of others."""
    found = (phase_of(path) or "").rpartition("-")[0]
    return found if found.startswith(f"{tool}-") else ""


def score(figures: Mapping[str, float]) -> Io500Score | None:
    """The score of figures in IO500's units; None where one of its phases is missing."""
    if any(phase not in figures for phase in SCORED):
        return None
    bandwidth = _geometric_mean([figures[phase] for phase in BANDWIDTH])
    metadata = _geometric_mean([figures[phase] for phase in (*METADATA, FIND)])
    return Io500Score(bandwidth=bandwidth, metadata=metadata, total=math.sqrt(bandwidth * metadata))


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if all(value > 0 for value in values) else 0.0


def runs(summaries: Iterable[tuple[str, Summary]], outputs: Iterable[tuple[str, Reading]]) -> list[Io500Run]:
    """The runs of IO500 among some files (path, content). An output belongs to the nearest summary at or above it. Of
    several summaries in a directory the first counts; one without outputs counts where no other has any."""
    known: dict[str, Summary] = {}
    for path, summary in summaries:
        if summary.figures.keys() & set(SCORED):
            known.setdefault(path.rpartition("/")[0], summary)
    of_phase: dict[str, dict[str, list[tuple[str, Reading]]]] = {directory: {} for directory in known}
    for path, reading in outputs:
        if (phase := phase_of(path)) and (above := _nearest(path, known)) is not None:
            of_phase[above].setdefault(phase, []).append((path, reading))
    with_outputs = [directory for directory, phases in of_phase.items() if phases]
    return [_run(directory, known[directory], of_phase[directory]) for directory in with_outputs or known]


def _nearest(path: str, known: Container[str]) -> str | None:
    """The nearest of some directories that a file is in, at any depth."""
    above = path.rpartition("/")[0]
    while above not in known:
        if not above:
            return None
        above = above.rpartition("/")[0]
    return above


def _run(directory: str, summary: Summary, outputs: Mapping[str, Sequence[tuple[str, Reading]]]) -> Io500Run:
    remarks = [] if outputs else ["there is no output of its phases"]
    if summary.invalid:
        remarks.append("IO500 itself calls the run, or a phase of it, [INVALID]")
    read: dict[str, float] = {}
    figures = []
    for phase in SCORED:
        published, figure, reason = summary.figures.get(phase), None, ""
        if outputs and phase != FIND:
            figure, reason = _figure(phase, outputs.get(phase, ()))
        if figure is not None:
            read[phase] = figure
        figures.append(
            Io500Figure(
                phase=phase,
                unit="GiB/s" if phase in BANDWIDTH else "kIOPS",
                published=published,
                read=figure,
                difference=reason or difference(published, figure),
            )
        )
    computed = score({**read, FIND: summary.figures[FIND]}) if FIND in summary.figures else None
    if computed:
        remarks.append("the score takes `find` as published: it is no output of fio, IOR or mdtest")
    return Io500Run(
        directory=directory,
        figures=tuple(figures),
        published=summary.score,
        score=computed,
        remarks=tuple(remarks),
    )


def _figure(phase: str, outputs: Sequence[tuple[str, Reading]]) -> tuple[float | None, str]:
    """(the figure of a phase in IO500's unit, why there is none)"""
    if not outputs:
        return None, "no output of this phase is there"
    nearest = min(path.count("/") for path, _ in outputs)
    chosen = [reading for path, reading in outputs if path.count("/") == nearest]
    if len(chosen) > 1:
        return None, f"{len(chosen)} files are outputs of this phase"
    (reading,) = chosen
    column, unit = ("bandwidth_bytes_per_s", 1 << 30) if phase in BANDWIDTH else ("max_ops_per_s", 1000)
    of_phase = ("label", BANDWIDTH[phase]) if phase in BANDWIDTH else ("phase", METADATA[phase])
    values = [
        value / unit
        for index, row in enumerate(reading.rows)
        if reading.verdict(index) != "invalid"
        and row.get(of_phase[0]) == of_phase[1]
        and isinstance(value := row.get(column), int | float)
    ]
    if values:
        return max(values), ""
    why = next((p.text for p in reading.problems if p.severity == "invalid"), "its output has no such figure")
    return None, shortened(why, _LONGEST)
