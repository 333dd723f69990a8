"""Reads the files of one run of fio that others made: the reader behind `iosweep parse fio`.

JSON (json, json+, `normal,json`; json_report.py) or fio's classic text report (text_runs.py). Lines around them
(stderr, notes, signals) is looked through for what spoils a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from iosweep.tools.fio.foreign import json_report, text_runs
from iosweep.tools.fio.foreign.rows import Found
from iosweep.tools.fio.json_records import UNREADABLE, reason
from iosweep.tools.reading import MOST_JSON, Cell, Job, Reading, ReadingProblem

#: What fio prints when a run is spoiled, also where its exit code is 0. Repetitions are bounded: a line may be long.
#: Each with words that are in every such line, which are looked for first.
_SPOILED = tuple(
    (sign, re.compile(pattern), words)
    for sign, pattern, words in (
        ("fio: terminating", r"fio: terminating on signal (\d+)", "fio was interrupted (signal {})"),
        ("client: host=", r"client: host=(\S{1,255}) disconnected", "host {} disconnected"),
        (
            " error: failed",
            r"(?<!\S)(\S{1,255}) error: failed to setup shm",
            "host {} refused: failed to setup shm segment",
        ),
        ("failed to setup", r"(?<! error: )failed to setup shm()", "a host refused: failed to setup shm segment"),
        ("fio: failed", r"fio: failed to connect to (\S{1,255})", "no connection to {}"),
        ("fio: failed", r"fio: failed to resolve <(.{0,255}?)>", "host {} cannot be resolved"),
        (
            "fio: client/",
            r"fio: client/server version mismatch \((.{0,255}?)\)",
            "client and server are of different versions ({})",
        ),
        (
            "fio: server",
            r"fio: server (bad crc on command)",
            "client and server do not understand each other ({})",
        ),
        ("fio: pid=", r"fio: pid=\d{1,20}, err=([1-9].{0,400})", "a worker failed: err={}"),
        ("fio: io_u", r"fio: io_u error on file (.{0,400})", "an I/O failed: {}"),
        ("Bad option", r"Bad option <(.{0,400}?)>", "fio refused the option {}"),
        ("fio: job ", r"fio: (job .{0,400} dropped)", "fio refused a section: {}"),
        ("fio: unable", r"fio: (unable to open .{0,400})", "fio did not start: {}"),
        ("fio: engine", r"fio: (engine \S{1,255} not loadable)", "fio did not start: {}"),
        ("fio: output", r"fio: (output file open error.{0,400})", "fio did not start: {}"),
        ("fio: file", r"fio: (file creation disallowed.{0,400})", "a file was not there: {}"),
        ("fio: ENOSPC", r"fio: (ENOSPC on laying out file)", "the file system was full: {}"),
    )
)

#: runs of empty lines, which say nothing and take time
_BLANK = ("\n" * 64, "\n" * 8, "\n" * 3)
#: characters of a line before and after that which are looked at
_LONGEST = 1000
#: lines with each of these words that are looked at, and different ones that are given: a full target makes as many as
#: there are I/Os
_LOOKED_AT, _MOST_MESSAGES = 1000, 20

_BEGIN = re.compile(r'\{[ \t]*(?:\n|\Z|")')
#: an object on a line of its own that has none of these is a launcher's, and no JSON of fio's
_FIO = ("fio version", "jobs", "client_stats")
_CUT = "the JSON is cut or damaged"
_NAMED = re.compile(r'"fio version"[ \t]{0,9}:')
#: lines that occur in JSON only: outside of a document they are a piece of one
_PIECE = re.compile(r'(?:\A|\n)[ \t]*(?:"[^"\n]*"[ \t]*:|[\]}],?[ \t]*(?=\n|\Z))')


def read(files: Mapping[str, bytes], exit_code: int | None) -> Reading:
    """Rows of the runs in some files (name -> content: stdout, an --output file, stderr), and what is wrong with them.

    What spoils one entry makes its row invalid (without figures) or suspect. What speaks against a run as a whole (exit
    code, signal, host that is missing, damaged or contradicting files) makes all of its rows suspect. Pure; raises
    nothing whatever the files hold.
    """
    try:
        found = _read(files, exit_code)
    except Exception:  # Tool.read promises to raise nothing
        found = Found(problems=[ReadingProblem("invalid", "the files do not have the form that fio writes")])
    rows = [_utf8_row(row) for row in found.rows]
    sums = [
        replace(one, row=_utf8_row(one.row), doubts=tuple(map(_utf8, one.doubts)), job=one.job and _utf8_job(one.job))
        for one in found.sums
    ]
    jobs = {at: _utf8_job(job) for at, job in found.jobs.items()}
    problems = [replace(problem, text=_utf8(problem.text)) for problem in dict.fromkeys(found.problems)]
    return Reading(found.version and _utf8(found.version), rows, problems, sums, jobs)


def _utf8_row(row: Mapping[str, Cell]) -> dict[str, Cell]:
    return {key: _utf8(value) if isinstance(value, str) else value for key, value in row.items()}


def _utf8_job(job: Job) -> Job:
    return replace(job, options=tuple(map(_utf8, job.options)))


def _utf8(text: str) -> str:
    """JSON can hold halves of characters, which no encoding has."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _read(files: Mapping[str, bytes], exit_code: int | None) -> Found:
    documents: dict[str, object] = {}  # by their text: stdout kept twice is one
    outside: list[str] = []
    doubts: list[str] = []
    holders = 0
    for name, content in files.items():
        text = content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
        for many in _BLANK:
            text = text.replace(many, "\n\n")
        inside, around, problem = _documents(text)
        holders += bool(inside.keys() - documents.keys())
        documents |= inside
        outside += [around] if around not in outside else []
        doubts += [f"{name}: {problem}"] if problem else []
    if not any(content.strip() for content in files.values()):
        doubts.append("fio printed nothing")
    doubts += _messages("\n".join(outside))
    if exit_code:
        doubts.append(f"fio ended with exit code {exit_code}")
    found = Found()
    try:
        if documents:
            found, runs = json_report.runs(list(documents.values()))
            if holders > 1 and runs > 1:
                doubts.append(f"{runs} runs are in {holders} files that were given as those of one")
        else:
            found = text_runs.rows("\n".join(outside))
    except UNREADABLE as error:
        found.doubt([reason(error)])
    if not found.rows and not found.problems and not doubts:
        doubts.append("no report of fio, neither JSON nor text")
    found.doubt(doubts)
    return found


def _messages(text: str) -> list[str]:
    """What fio's own lines say went wrong."""
    found: list[str] = []
    more = 0
    for sign, pattern, words in _SPOILED:
        different: dict[str, None] = {}
        at = text.find(sign)
        for _ in range(_LOOKED_AT):
            if at < 0:
                break
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            first = max(at - _LONGEST, 0)
            line = text[text.rfind("\n", first, at) + 1 or first : min(end, at + _LONGEST)]
            if match := pattern.search(line):
                different[words.format(match[1].strip())] = None
            at = text.find(sign, end)
        more += (text.count(sign, at) if at >= 0 else 0) + max(len(different) - _MOST_MESSAGES, 0)
        found += list(different)[:_MOST_MESSAGES]
    return [*dict.fromkeys(found), *([f"and {more} more lines like these"] if more and found else [])]


def _documents(text: str) -> tuple[dict[str, object], str, str]:
    """(fio's JSON documents in one file by their text, the text around them, what is wrong)"""
    documents: dict[str, object] = {}
    outside: list[str] = []
    at = 0
    decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse)
    while (start := _begin(text, at)) >= 0:
        outside.append(text[at:start])
        end = _log_line(text, start)
        if end:
            outside.append(text[start:end])
            at = end
            continue
        if len(text) - start > MOST_JSON:
            return {}, "".join(outside), f"more than {MOST_JSON >> 20} MiB from where JSON begins"
        try:
            document, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            contradicts = isinstance(error, _TwiceError)
            return documents, "".join(outside), str(error) if contradicts else _CUT
        whole = text[start:at]
        if text[at : at + 1] not in ("", "\n", " "):
            return documents, "".join(outside), _CUT
        if "\n" in whole or any(key in document for key in _FIO):
            documents[whole] = document
        else:
            outside.append(whole)
    around = "".join([*outside, text[at:]])
    if _NAMED.search(around):
        return (
            documents,
            around,
            "there is JSON of fio's that does not begin on a line of its own, or is a part of more",
        )
    return documents, around, "a piece of JSON without its document" if _PIECE.search(around) else ""


def _log_line(text: str, start: int) -> int:
    """Where the line ends, if it is an object of its own and none of fio's; else 0."""
    end = text.find("\n", start)
    line = text[start : end if end > 0 else len(text)]
    known = not line.endswith("}") or any(f'"{key}"' in line for key in _FIO)
    return 0 if known else start + len(line)


def _begin(text: str, at: int) -> int:
    """Where the next object begins that is the first thing in its line; -1 without any."""
    if (at == 0 or text[at - 1] == "\n") and _BEGIN.match(text, at):
        return at
    while (line := text.find("\n{", at)) >= 0:
        if _BEGIN.match(text, line + 1):
            return line + 1
        at = line + 1
    return -1


#: options that no column depends on: where a command line has several, the last one counts, as for fio
_LAST_COUNTS = ("size", "directory", "filename")


class _TwiceError(ValueError):
    """A key with two values."""


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose keys may be repeated with the same value, as fio does."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    first: dict[str, object] = {}
    for key, value in pairs:
        if key not in _LAST_COUNTS and first.setdefault(key, value) != value:
            raise _TwiceError(f"the JSON contradicts itself: {key[:100]!r} is given twice with different values")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")
