"""IO500: its own summary as a second witness of the figures that its outputs give, and its score. Pure.

IO500 runs IOR, mdtest and a parallel find, and prints each phase in GiB/s or kIOPS. Its score is the square root of
bandwidth x metadata: the geometric means of the 4 IOR phases in GiB/s, and of the 7 mdtest phases and find in kIOPS
(IO500's rules, https://io500.org/about; github.com/IO500/io500, src/main.c). Its scripts up to 2020 print GiB/s as
`GB/s`. Of several iterations it takes the highest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from iosweep.results.ingested import SAME, Io500Figure, Io500Run, Io500Score, compared, same
from iosweep.text import human_count, shortened
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
_RESULT = re.compile(
    rf"\[RESULT[^\]]{{0,20}}\]\s+(?:(?:BW|IOPS)\s+phase\s+\d+\s+)?([a-z][a-z0-9_-]{{2,40}})\s+{_NUMBER}\s+"
    r"(?:GiB/s|GB/s|kIOPS|kiops)"
)
_SCORE = re.compile(
    rf"\[SCORE ?\]\s+Bandwidth\s+{_NUMBER}\s+Gi?B/s\s*:\s*IOPS\s+{_NUMBER}\s+k\w+\s*:\s*TOTAL\s+{_NUMBER}"
)
_SECTION = re.compile(r"\[([A-Za-z][A-Za-z0-9_-]{1,40})\]")
_PAIR = re.compile(rf"(score|MD|BW|SCORE)\s*=\s*{_NUMBER}")
_SIGNS = (b"[RESULT", b"[SCORE")


class _Printed(float):
    """A figure, and how far what was rounded to it may be: half a unit of its last decimal, of which older scripts
    print three."""

    error: float = 0.0

    @classmethod
    def of(cls, text: str) -> _Printed:
        found = cls(text)
        digits, _, exponent = text.partition("e")
        if decimals := len(digits.partition(".")[2]):
            found.error = 0.501 * 10.0 ** (int(exponent or 0) - decimals)
        return found


@dataclass
class Summary:
    """What a file of IO500's says: phase -> figure in its unit, and the score."""

    figures: dict[str, float] = field(default_factory=dict)
    score: Io500Score | None = None
    invalid: bool = False


def looks_like(data: bytes) -> bool:
    """Whether a file may be a summary of IO500."""
    return any(sign in data for sign in _SIGNS)


def summary(data: bytes) -> Summary:
    """The figures of result_summary.txt, result.txt, or a log that has them."""
    found = Summary()
    section = ""
    parts: dict[str, float] = {}
    for raw in data.decode("utf-8", "replace").split("\n"):
        line = raw[:_LONGEST].strip()
        if match := _RESULT.match(line):
            found.figures[_phase(match[1])] = _Printed.of(match[2])
        elif match := _SCORE.match(line):
            bandwidth, metadata, total = map(float, match.groups())
            found.score = Io500Score(bandwidth=bandwidth, metadata=metadata, total=total)
        elif match := _SECTION.fullmatch(line):
            section = _phase(match[1])
        elif section and (match := _PAIR.match(line)):
            if match[1] == "score":
                found.figures[section] = _Printed.of(match[2])
            elif section == "SCORE":
                parts[match[1]] = float(match[2])
        found.invalid |= "INVALID]" in line and ("SCORE" in line or "RESULT" in line)
    if found.score is None and {"MD", "BW", "SCORE"} <= parts.keys():
        found.score = Io500Score(bandwidth=parts["BW"], metadata=parts["MD"], total=parts["SCORE"])
    return found


def _phase(name: str) -> str:
    return name.replace("_", "-")


def phase_of(path: str) -> str | None:
    """The phase that a file is named after: `ior-easy-write`, or as older versions have it `ior_easy_write`."""
    stem = _phase(_base(path).partition(".")[0].lower())
    return stem if stem in SCORED else None


def workload_of(path: str, tool: str) -> str:
    """`ior-hard` of an output of a tool that is named after one of its phases; "" of others."""
    found = (phase_of(path) or "").rpartition("-")[0]
    return found if found.startswith(f"{tool}-") else ""


def _base(path: str) -> str:
    return re.split(r"[/!]", path)[-1]


def directory_of(path: str) -> str:
    return path[: len(path) - len(_base(path))].rstrip("/!")


def score(figures: Mapping[str, float]) -> Io500Score | None:
    """The score of figures in IO500's units; None where one of its phases is missing."""
    if any(phase not in figures for phase in SCORED):
        return None
    bandwidth = _geometric_mean([figures[phase] for phase in BANDWIDTH])
    metadata = _geometric_mean([figures[phase] for phase in (*METADATA, FIND)])
    return Io500Score(bandwidth=bandwidth, metadata=metadata, total=math.sqrt(bandwidth * metadata))


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if all(value > 0 for value in values) else 0.0


def runs(summaries: Sequence[tuple[str, Summary]], outputs: Iterable[tuple[str, Reading]]) -> list[Io500Run]:
    """The runs of IO500 among some files (path, content).

    An output belongs to the nearest summary at or above it. A summary without outputs, above one run, is a copy of it.
    """
    known: dict[str, list[Summary]] = {}
    for path, one in summaries:
        if one.figures.keys() & set(SCORED):
            known.setdefault(directory_of(path), []).append(one)
    of_phase: dict[str, dict[str, list[tuple[str, Reading]]]] = {directory: {} for directory in known}
    for path, reading in outputs:
        if (phase := phase_of(path)) and (above := _nearest(path, known)) is not None:
            of_phase[above].setdefault(phase, []).append((path, reading))
    for directory in [one for one in known if not of_phase[one]]:
        below = [one for one in known if of_phase[one] and _below(one, directory)]
        if len(below) == 1:
            known[below[0]] += known.pop(directory)
    return [_run(directory, ones, of_phase[directory]) for directory, ones in known.items()]


def _nearest(path: str, known: Container[str]) -> str | None:
    """The nearest of some directories that a file is in, at any depth."""
    above = directory_of(path)
    while above not in known:
        if not above:
            return None
        above = directory_of(above)
    return above


def _below(path: str, directory: str) -> bool:
    return not directory or path.startswith((f"{directory}/", f"{directory}!"))


def _run(
    directory: str, summaries: Sequence[Summary], outputs: Mapping[str, Sequence[tuple[str, Reading]]]
) -> Io500Run:
    remarks: list[str] = []
    read: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for phase in SCORED:
        figure, reasons[phase] = _figure(phase, outputs.get(phase, ())) if outputs and phase != FIND else (None, "")
        if figure is not None:
            read[phase] = figure
    if not outputs:
        remarks.append("there is no output of its phases")
    witness, others = _witness(summaries, read)
    if others:
        remarks.append(f"{human_count(others, 'summary', 'summaries')} of another run beside it: not compared")
    published, its_score = witness.figures, witness.score
    figures = [_compared(phase, published.get(phase), read.get(phase), reasons[phase]) for phase in SCORED]
    again = score(published)
    if again and its_score and not _follows(its_score.total, published):
        remarks.append(
            f"its published score is {its_score.total:.6g}, and that of its published figures {again.total:.6g}"
        )
    if witness.invalid:
        remarks.append("IO500 itself calls the run, or a phase of it, [INVALID]")
    own = score({**read, FIND: published[FIND]}) if FIND in published else None
    if own:
        remarks.append("the score takes `find` as published: it is no output of fio, IOR or mdtest")
    return Io500Run(
        directory=directory,
        figures=tuple(figures),
        published=its_score,
        score=own,
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _witness(summaries: Sequence[Summary], read: Mapping[str, float]) -> tuple[Summary, int]:
    """(the summary that agrees best with what was read, completed by others that agree with it; how many do not)"""

    def agreeing(one: Summary) -> int:
        return sum(_same(one.figures[phase], read[phase]) for phase in read.keys() & one.figures.keys())

    ordered = sorted(summaries, key=agreeing, reverse=True)
    witness, others = Summary(), 0
    for one in ordered:
        if any(not _same(witness.figures[phase], one.figures[phase]) for phase in witness.figures.keys() & one.figures):
            others += 1
            continue
        witness = Summary(
            {**one.figures, **witness.figures}, witness.score or one.score, witness.invalid or one.invalid
        )
    return witness, others


def _figure(phase: str, outputs: Sequence[tuple[str, Reading]]) -> tuple[float | None, str]:
    """(the figure of a phase in IO500's unit, why there is none)"""
    if not outputs:
        return None, "no output of this phase is there"
    nearest = min(path.count("/") + path.count("!") for path, _ in outputs)
    chosen = [(path, reading) for path, reading in outputs if path.count("/") + path.count("!") == nearest]
    if len(chosen) > 1:
        return None, f"{len(chosen)} files are outputs of this phase"
    path, reading = chosen[0]
    values = []
    for index, row in enumerate(reading.rows):
        if reading.verdict(index) == "invalid":
            continue
        if phase in BANDWIDTH and row.get("label") == BANDWIDTH[phase]:
            values.append((row.get("bandwidth_bytes_per_s"), 1 << 30))
        elif phase in METADATA and row.get("phase") == METADATA[phase]:
            values.append((row.get("max_ops_per_s", row.get("ops_per_s")), 1000))
    known = [value / unit for value, unit in values if isinstance(value, int | float)]
    if known:
        return max(known), ""
    why = next((p.text for p in reading.problems if p.severity == "invalid"), "its output has no such figure")
    return None, shortened(why.removeprefix(f"{path}: "), _LONGEST)


def _compared(phase: str, published: float | None, read: float | None, why: str) -> Io500Figure:
    unit = "GiB/s" if phase in BANDWIDTH else "kIOPS"
    difference = why
    if published is None and not why:
        difference = "not in its summary"
    elif published is not None and read is not None and not _same(published, read):
        difference = compared(published, read)
    plain = None if published is None else float(published)
    return Io500Figure(phase=phase, unit=unit, published=plain, read=read, difference=difference)


def _same(one: float, other: float) -> bool:
    """Whether two figures are one, to 0.1 % or as far as they are printed."""
    return same(one, other, max(_error(one), _error(other)))


def _error(figure: float) -> float:
    return figure.error if isinstance(figure, _Printed) else 0.0


def _follows(total: float, figures: Mapping[str, float]) -> bool:
    """Whether a score is that of figures, to 0.1 % or as far as these are printed."""
    lowest = score({phase: max(figure - _error(figure), 0.0) for phase, figure in figures.items()})
    highest = score({phase: figure + _error(figure) for phase, figure in figures.items()})
    return not (lowest and highest) or (1 - SAME) * lowest.total <= total <= (1 + SAME) * highest.total
