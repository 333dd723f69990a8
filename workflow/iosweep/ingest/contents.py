"""What a file that others made holds: outputs of tools, a summary of IO500, or neither. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import orjson

from iosweep.ingest import detect, io500
from iosweep.ingest.detect import NotOurs
from iosweep.results.ingested import IO500
from iosweep.results.reasons import bare
from iosweep.text import printable, shortened
from iosweep.tools import tools
from iosweep.tools.reading import MOST_JSON, Cell, Job, Reading, ReadingProblem, Sum

#: How JSON begins that is one document of fio's, and needs no look inside.
_FIO_ALONE = re.compile(rb'\s*\{\s*"fio version"')
#: Documents of fio's in a file that holds several, and objects in objects that are looked at.
_MOST_DOCUMENTS, _DEEP = 10_000, 4
#: Characters between two values of JSON that may be blank.
_BLANKS = 1000
#: Characters of a reason.
_LONGEST = 200


class Contents(NamedTuple):
    """What a file says. `readings`: one for each tool whose output it holds."""

    readings: Sequence[Reading] = ()
    summary: io500.Summary | None = None

    @property
    def rows(self) -> int:
        return sum(len(reading.rows) for reading in self.readings)


class Reasons:
    """Why some things were left out, counted; reasons that differ in numbers only are one."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._texts: dict[str, str] = {}

    def add(self, reason: str) -> None:
        text = printable(shortened(reason, _LONGEST))
        self._counts[self._texts.setdefault(bare(text), text)] += 1

    def found(self) -> dict[str, int]:
        """Reason -> how often, the most frequent one first."""
        return dict(self._counts.most_common())


def why_no_row(name: str, content: Contents) -> str:
    """Why a file that has a tool's output gives no row: its first problem, without the file's own name."""
    texts = (problem.text for reading in content.readings for problem in reading.problems)
    return next(texts, "it has no result").removeprefix(f"{name}: ").removeprefix(f"{name} ")


def kinds(data: bytes) -> tuple[str, ...] | NotOurs:
    """The tools whose output a file holds, and IO500; or why there is none."""
    found = detect.tool(data)
    tool = (found.tool, *found.also) if isinstance(found, detect.Detected) else ()
    summary = (IO500,) if io500.looks_like(data) else ()
    if isinstance(found, NotOurs) and not summary:
        return found
    return (*tool, *summary)


def read(name: str, data: bytes, kinds: Sequence[str]) -> Contents:
    """The content of a file of these kinds. Raises nothing, whatever it holds."""
    known = [kind for kind in kinds if kind in tools()]
    readings = [reading(name, data, tool) for tool in known]
    return Contents(readings, io500.summary(data) if IO500 in kinds else None)


def reading(name: str, data: bytes, tool: str, exit_code: int | None = None) -> Reading:
    """What a tool's reader says of a file, of which fio's may be documents inside another one."""
    data = data.removeprefix(detect.MARK)
    parts = list(_documents(data)) if tool == "fio" else []
    return _joined([tools()[tool].read({name: part}, exit_code) for part in parts or [data]])


def _documents(data: bytes) -> Iterator[bytes]:
    """fio's documents in JSON that holds several, as wekatester's result file does; nothing where it is not such.

    That file is {name of the job file: fio's document}. It is opened to append: two runs in one minute make two objects
    (github.com/weka/wekatester, wekatester.py).
    """
    if data.lstrip()[:1] not in (b"{", b"[") or _FIO_ALONE.match(data):
        return
    try:
        outer = [orjson.loads(data)]
    except orjson.JSONDecodeError:
        outer = _in_a_row(data)
    if any(isinstance(one, dict) and "fio version" in one for one in outer):
        return  # fio's own, also several one after the other: the reader's work
    for count, document in enumerate(_inside(outer, _DEEP + 1)):
        if count == _MOST_DOCUMENTS:
            return
        yield orjson.dumps(document)


def _in_a_row(data: bytes) -> list[object]:
    """JSON values one after the other; none where there is something else."""
    if len(data) > MOST_JSON:
        return []
    text, decoder, at = data.decode("utf-8", "replace").strip(), json.JSONDecoder(), 0
    found: list[object] = []
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        found.append(value)
        at += len(text[at : at + _BLANKS]) - len(text[at : at + _BLANKS].lstrip())
    return found


def _inside(value: object, deep: int) -> Iterator[object]:
    if isinstance(value, dict) and "fio version" in value:
        yield value
    elif deep and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _inside(inner, deep - 1)


def _joined(readings: Sequence[Reading]) -> Reading:
    """Several readings as one; what concerns a reading as a whole concerns its own rows."""
    if len(readings) == 1:
        return readings[0]
    rows: list[dict[str, Cell]] = []
    problems: list[ReadingProblem] = []
    sums: list[Sum] = []
    jobs: dict[int, Job] = {}
    for reading in readings:
        first = len(rows)
        rows += map(dict, reading.rows)
        for problem in reading.problems:
            if problem.row is not None:
                problems.append(replace(problem, row=problem.row + first))
            elif problem.severity == "suspect":
                problems += [replace(problem, row=first + index) for index in range(len(reading.rows))]
            else:
                problems.append(problem)
        jobs |= {first + at: job for at, job in reading.jobs.items()}
        sums += [replace(one, parts=tuple(part + first for part in one.parts)) for one in reading.sums]
    return Reading(next((one.version for one in readings if one.version), None), rows, problems, sums, jobs)
