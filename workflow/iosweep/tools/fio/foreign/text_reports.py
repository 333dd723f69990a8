"""The lines of fio's classic text report (2.1 to 3.x), one report after the other.

The grammar is strict, because a report repeats little: every line inside one must be known and
stand once. `All clients` comes as a report too, with its head alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from iosweep.tools.fio.json_records import ALL_CLIENTS, Wrong

_N = r"\s*(\d+(?:\.\d+)?[KkMGTP]?)"
JOB = re.compile(
    r"(?:<(?P<host>[^>]+)> )?(?P<label>\S.*): \(g=(?P<group>\d+)\): rw=(?P<rw>\w+), bs="
    r"(?:\(R\) (?P<read>\S+), \(W\) (?P<write>\S+), \(T\) \S+|"
    r"(?P<read_2>\w+-\w+)/(?P<write_2>\w+-\w+)(?:/\w+-\w+)?),"  # up to 2.16
    r" ioengine=(?P<engine>\S+), iodepth=(?P<depth>\d+)"
)
_HEAD = re.compile(
    r"(?P<label>\S.*): \(groupid=(?P<group>\d+), jobs=(?P<jobs>\d+)\): err=\s*(?P<error>\d+)(?: \(.*\))?"
    r": pid=(?P<pid>\d+): (?P<ended>.*)"
)
#: the lines of a report, in any order; `many` may stand more than once
_BODY = {
    name: re.compile(pattern)
    for name, pattern in {
        "direction": rf"(read|write|trim|mixed): IOPS={_N}, BW={_N}(i?B|i?bit)/s \(\S+?(?:B|bit)/s\)"
        rf"\({_N}(i?)B/(\d+)msec\)(?:; \d+ zone resets)?",
        # up to 2.16
        "direction 2": rf"(read|write|trim|mixed)\s*: io={_N}B, bw={_N}B/s, iops={_N}, runt=\s*(\d+)msec",
        "latency": rf"(slat|clat|lat) \((nsec|usec|msec|sec)\): min={_N}, max={_N}, avg={_N}, stdev={_N}",
        "percentiles": r"(clat|lat|slat) percentiles \((nsec|usec|msec|sec)\):",
        "percents": r"\|(?:\s*\d+\.\d+th=\[\s*\d+\],?)+",
        "bw": rf"bw \(\s*\w+\s*/s\s*\): min={_N}, max={_N}, per={_N}%, avg={_N}, stdev={_N}(?:, samples={_N})?",
        "iops": rf"iops\s*: min={_N}, max={_N}, avg={_N}, stdev={_N}, samples={_N}",
        "many": r"lat \((?:nsec|usec|msec)\)\s*: .*%",
        "sync": r"fsync/fdatasync/sync_file_range:|sync \(\w+\): min=.*|sync percentiles \(\w+\):",
        "cpu": r"cpu\s*: usr=.*",
        "depths": r"IO depths\s*: (\S+=[\d.]+%(?:, |$))+",
        "submit": r"submit\s*: \S+=[\d.]+%.*",
        "complete": r"complete\s*: \S+=[\d.]+%.*",
        "steady": r"steadystate\s*: attained=(yes|no), .*",
        "issued": r"issued rwts?: total=(\d+),(\d+),(\d+)(?:,\d+)?,? short=([\d,]+) dropped=([\d,]+)",
        "issued 2": r"issued\s*: total=r=(\d+)/w=(\d+)/d=(\d+), short=([rwd=\d/]+)(?:, drop=([rwd=\d/]+))?",
    }.items()
}  # fmt: skip
#: by the first two characters of a line, so that each is tried for few of the above
_BY_START: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _name, _starts in {
    "direction": "re wr tr mi", "direction 2": "re wr tr mi", "latency": "sl cl la", "percentiles": "cl la sl",
    "percents": "|", "bw": "bw", "iops": "io", "many": "la", "sync": "fs sy", "cpu": "cp", "depths": "IO",
    "submit": "su", "complete": "co", "steady": "st", "issued": "is", "issued 2": "is",
}.items():  # fmt: skip
    for _start in _starts.split():
        _BY_START.setdefault(_start, []).append((_name, _BODY[_name]))
_TAIL = re.compile(r"latency\s*: target=(\d+), window=\d+, percentile=[\d.]+%, depth=(\d+)")
_ERRORS = re.compile(r"errors\s*: total=([1-9]\d*).*")
#: the first two characters of those that have no groupid
_PIECE_STARTS = frozenset({*_BY_START, "er"})
#: lines that fio prints are shorter
_LONGEST, _TOO_LONG = 1000, "\n..."
#: starts of lines that only a report has: outside of one, or not as above, they are pieces
_PIECE = re.compile(
    r"(read|write|trim|mixed)\s*: (IOPS|io)=|[sc]?lat (\(|percentiles)|\| +\d+\.\d+th=|bw +\(|iops +:|cpu +:|"
    r"IO depths|(submit|complete) +:|issued (rwts?)? *:|latency +:|.*\(groupid=\d|errors +: "
)


@dataclass
class Report:
    """The lines of one report by kind; those of a direction under its name."""

    head: re.Match[str]
    lines: dict[tuple[str, str], list[re.Match[str]]] = field(default_factory=dict)
    direction: str = ""
    block: str = ""  # whose percentiles follow
    at: int = 0  # which of the lines it begins with
    text: list[str] = field(default_factory=list)
    wrong: str = ""  # why nothing in it counts

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from other reports of its run."""
        return self.head["label"], self.head["group"], self.head["pid"]

    def add(self, kind: str, match: re.Match[str]) -> None:
        """Raises Wrong for a line that is repeated or out of place."""
        if kind in ("many", "submit", "complete", "steady"):
            return
        if kind == "sync" or (self.direction == "sync" and kind == "percents"):
            self.direction = "sync"
            return
        if kind == "direction":
            self.direction, self.block = match[1], ""
        elif kind == "percentiles":
            self.block = match[1]
        key = (
            f"{kind} {match[1]}"
            if kind in ("latency", "percentiles")
            else f"{kind} {self.block}"
            if kind == "percents"
            else kind
        )
        inside = kind in ("direction", "latency", "percentiles", "percents", "bw", "iops")
        if (inside and self.direction in ("", "sync")) or (kind == "percents" and not self.block):
            raise Wrong(f"a line is out of place: {match[0]}")
        known = self.lines.setdefault((self.direction if inside else "", key), [])
        if known and kind != "percents":
            raise Wrong(f"a line is repeated: {match[0]}")
        known.append(match)
        if kind != "percents" and kind != "percentiles":
            self.block = ""

    def one(self, kind: str, direction: str = "") -> re.Match[str] | None:
        return next(iter(self.lines.get((direction, kind), [])), None)


def plain(line: str) -> str:
    """A line without indentation, and without the marks of a Markdown page that quotes line by line.

    One that is longer than any of a report comes out so that it matches none.
    """
    if "`" in line:
        line = re.sub(r"(?<!\w)_|_(?!\w)", "", re.sub(r"[`*]", "", line))
    line = line.strip()
    return line if len(line) <= _LONGEST else line[:100] + _TOO_LONG


def reports(lines: Iterable[str]) -> Iterator[Report | str]:
    """The reports, and as sentences what is in no report although it can only be of one.

    A report with lines that are missing, doubled or unknown says so in `wrong`.
    """
    report: Report | None = None
    tail: Report | None = None
    broken = False  # in the rest of a report that is wrong
    for at, line in enumerate(lines):
        start = "|" if line[:1] == "|" else line[:2]
        if "(groupid=" in line and (head := _HEAD.fullmatch(line)):
            if report:
                report.wrong = "the report is cut or damaged"
                yield report
            report, tail, broken = Report(head, at=at, text=[line]), None, False
        elif report and report.head["label"] == ALL_CLIENTS:
            if start == "is":
                yield report
                report = None
        elif report and line:
            report.text.append(line)
            try:
                for kind, pattern in _BY_START.get(start, ()):
                    if match := pattern.fullmatch(line):
                        report.add(kind.removesuffix(" 2"), match)
                        break
                else:
                    raise Wrong(f"a line that does not belong into the report: {line[:80]}")
            except Wrong as wrong:
                report.wrong, broken = str(wrong), not line.startswith("issued")
                yield report
                report = None
                continue
            if kind.startswith("issued"):
                tail, report = report, None
                yield tail
        elif tail and start == "la" and (match := _TAIL.fullmatch(line)):
            tail.lines[("", "tail")], tail = [match], None
        elif tail and start == "er" and (match := _ERRORS.fullmatch(line)):
            tail.wrong = f"{match[1]} I/Os failed"
        elif start == "Ru" and line.startswith("Run status"):
            tail, broken = None, False
        elif not broken and (start in _PIECE_STARTS or "(groupid=" in line) and _PIECE.match(line):
            yield f"a piece of a report without the rest: {line[:80]}"
            broken = True
    if report:
        report.wrong = "the report is cut or damaged"
        yield report
