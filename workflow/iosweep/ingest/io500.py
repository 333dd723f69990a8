"""IO500: its own summary as a second witness of the figures that its outputs give, and its score. Pure.

IO500 runs IOR, mdtest and a parallel find, and prints each phase in GiB/s or kIOPS. Its score is the square root of
bandwidth x metadata: the geometric means of the 4 IOR phases in GiB/s, and of the 7 mdtest phases and find in kIOPS
(IO500's rules, https://io500.org/about; github.com/IO500/io500, src/main.c). Of several iterations it takes the
highest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from iosweep.store.ingested import Io500Figure, Io500Run, Io500Score, difference
from iosweep.text import shortened
from iosweep.tools.reading import Reading

#: Phase -> what its output calls the figure: IOR's access, or the phase of mdtest; none of find.
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
    """What a file of IO500's says: phase -> figure in its unit, and the score."""

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
