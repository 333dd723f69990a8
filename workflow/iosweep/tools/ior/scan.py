"""One file of IOR's output -> its runs as they are printed, not judged, and what is printed between results."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from iosweep.tools.ior import messages
from iosweep.tools.ior.json_summary import Inside, pieces
from iosweep.tools.ior.records import Moved, Remark, Run
from iosweep.tools.ior.text_output import Reader
from iosweep.tools.loglines import Said, about_the_end
from iosweep.tools.reading import ProblemSeverity


@dataclass
class Scanned:
    """One file: its runs in order, and what is printed between results, each with the runs it may belong to."""

    name: str
    runs: list[Run] = field(default_factory=list)
    said: list[tuple[range, Said]] = field(default_factory=list)  # which runs; empty: all that there are
    off: list[tuple[range, tuple[str, str]]] = field(default_factory=list)  # what is off, and the line
    moved: list[tuple[range, Moved]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    is_log: bool = False


def with_remarks(run: Run, heard: Sequence[Said]) -> Run:
    """The run with what lines beside its results say."""
    remarks = remarks_on(heard)
    wrong = tuple(remark.text for remark in remarks if remark.severity == "invalid")
    others = tuple(remark for remark in remarks if remark.severity != "invalid")
    return replace(run, problems=(*run.problems, *wrong), remarks=(*run.remarks, *others))


def remarks_on(heard: Sequence[Said]) -> list[Remark]:
    by_severity: dict[ProblemSeverity, list[Said]] = {}
    for said in heard:
        by_severity.setdefault(said.severity, []).append(said)
    return [Remark(severity, f"IOR or MPI says: {_some(lines)}") for severity, lines in by_severity.items()]


def _some(lines: Sequence[Said]) -> str:
    """A few of the lines for a sentence: causes before what followed from them."""
    counts: Counter[str] = Counter()
    for said in lines:
        counts[said.line[:160]] += said.count
    different = sorted(counts, key=messages.consequence)
    more = counts.total() - min(len(different), 3)
    return "; ".join(different[:3]) + (f" (and {more} more)" if more else "")


def scan(name: str, content: bytes) -> Scanned:
    """The runs of one file in their order."""
    reader = Reader(name)
    for piece in pieces(name, content.decode("utf-8", "replace").replace("\r\n", "\n")):
        if isinstance(piece, Inside):
            reader.inside(piece)
        elif isinstance(piece, str):
            reader.text(piece)
        else:
            for run in piece:
                reader.document(run)
    reader.end()
    segments = reader.segments
    ends = [segment.last for segment in segments]

    def owners(at: int, line: str = "") -> range:
        """Runs that a line may be of: between two, either of them, where neither the line nor a run says which.

        A run that printed `Finished` says no more: only how its processes ended may follow. A table that did not
        finish and has no result was ended by what follows it.
        """
        first = bisect_left(ends, at)  # runs that were over by then
        if first < len(segments) and segments[first].first <= at:
            return range(first, first + 1)
        before, after = max(first - 1, 0), min(first + 1, len(segments))
        if line and 0 < first < len(segments):
            if segments[before].over:
                return range(before, first) if about_the_end(line) else range(first, after)
            if segments[before].layout == "table" and not segments[before].results:
                return range(before, first)
        return range(before, after)

    return Scanned(
        name,
        [segment.made(reader.mixed) for segment in segments],
        [(owners(said.at, said.line), said) for said in reader.heard],
        [(owners(at, line), (what, line)) for at, what, line in reader.off],
        [(owners(at), moved) for at, moved in reader.moved],
        reader.refused,
        reader.is_log or any(s.layout == "table" for s in segments),
    )
