"""What the files of one run of fio say to a person who has only those: the reader behind `iosweep parse fio`.

JSON (json, json+, `normal,json`; read_json.py) or fio's classic text report (read_text.py). What stands around them
(stderr, notes, signals) is looked through for what spoils a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from iosweep.tools import Reading, ReadingProblem
from iosweep.tools.fio import read_json, read_text
from iosweep.tools.fio.rows import Row

#: What fio prints when a run is spoiled, also where its exit code is 0. Repetitions are bounded: a line may be long.
_SPOILED = tuple(
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"fio: terminating on signal (\d+)", "fio was interrupted (signal {})"),
        (r"client: host=(\S{1,255}) disconnected", "host {} disconnected"),
        (r"(?<!\S)(\S{1,255}) error: failed to setup shm", "host {} refused: failed to setup shm segment"),
        (r"failed to setup shm()", "a host refused: failed to setup shm segment"),
        (r"fio: failed to connect to (\S{1,255})", "no connection to {}"),
        (r"fio: failed to resolve <(.{0,255}?)>", "host {} cannot be resolved"),
        (r"fio: client/server version mismatch \((.{0,255}?)\)", "client and server are of different versions ({})"),
        (r"fio: server (bad crc on command)", "client and server do not understand each other ({})"),
        (r"fio: pid=\d{1,20}, err=([1-9].{0,400})", "a worker failed: err={}"),
        (r"fio: io_u error on file (.{0,400})", "an I/O failed: {}"),
        (r"Bad option <(.{0,400}?)>", "fio refused the option {}"),
        (r"fio: (job .{0,400} dropped)", "fio refused a section: {}"),
        (r"fio: (unable to open .{0,400})", "fio did not start: {}"),
        (r"fio: (engine \S{1,255} not loadable)", "fio did not start: {}"),
        (r"fio: (output file open error.{0,400})", "fio did not start: {}"),
        (r"fio: (file creation disallowed.{0,400})", "a file was not there: {}"),
        (r"fio: (ENOSPC on laying out file)", "the file system was full: {}"),
    )
)

#: what any of these begins with, so that most lines are looked at once
_MAYBE = re.compile(r"fio: |client: host=|failed to setup shm|Bad option <")

_BEGIN = re.compile(r'^\{[ \t]*(?:$|")', re.MULTILINE)
#: an object on a line of its own that has none of these is a launcher's, and no JSON of fio's
_FIO = ("fio version", "jobs", "client_stats")
_CUT = "the JSON is cut or damaged"
_NAMED = re.compile(r'"fio version"[ \t]{0,9}:')
#: what only stands in JSON: outside of a document it is a piece of one
_PIECE = re.compile(r'^[ \t]*(?:"[^"\n]*"[ \t]*:|[\]}],?[ \t]*$)', re.MULTILINE)


def read(files: Mapping[str, bytes], exit_code: int | None) -> Reading:
    """Rows of one run from its files (name -> content: stdout, an --output file, stderr), and what is wrong with them.

    What spoils the run as a whole (exit code, signal, host that is missing, damaged or contradicting files) leaves no
    row; what spoils one entry leaves that one out. Pure; raises nothing whatever the files hold.
    """
    documents: dict[str, dict[str, Any]] = {}  # by their text: stdout kept twice is one
    outside: list[str] = []
    problems: list[str] = []
    for name, content in files.items():
        text = content.decode("utf-8", "replace").replace("\r\n", "\n").removeprefix("\ufeff")
        found, around, problem = _documents(text)
        documents |= found
        outside += [around] if around not in outside else []
        problems += [f"{name}: {problem}"] if problem else []
    if not any(content.strip() for content in files.values()):
        problems.append("fio printed nothing")
    problems += _messages("\n".join(outside))
    if exit_code:
        problems.append(f"fio ended with exit code {exit_code}")
    version, rows, wrong = _reports(list(documents.values()), outside, bool(problems))
    clean = [] if problems else rows
    return Reading(version, clean, [ReadingProblem("invalid", text) for text in dict.fromkeys([*problems, *wrong])])


def _reports(
    documents: list[dict[str, Any]], outside: list[str], damaged: bool
) -> tuple[str | None, list[Row], list[str]]:
    if len(documents) > 1:
        several = f"{len(documents)} JSON documents: reports in between or several runs; give one run's files at a time"
        return None, [], [several]
    try:
        if documents:
            return read_json.rows(documents[0])
        version, rows, problems = read_text.rows("\n".join(outside))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        return None, [], [f"fio's output lacks what is expected: {error!r}"]
    if rows or problems or damaged:
        return version, rows, problems
    return version, [], ["no report of fio, neither JSON nor text"]


def _messages(text: str) -> list[str]:
    """What fio's own lines say went wrong."""
    found: list[str] = []
    for line in text.splitlines():
        for pattern, sentence in _SPOILED if _MAYBE.search(line) else ():
            if match := pattern.search(line):
                found.append(sentence.format(match[1].strip()))
                break
    return list(dict.fromkeys(found))


def _documents(text: str) -> tuple[dict[str, dict[str, Any]], str, str]:
    """(fio's JSON documents in one file by their text, the text around them, what is wrong)"""
    documents: dict[str, dict[str, Any]] = {}
    outside: list[str] = []
    at = 0
    decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse)
    while match := _BEGIN.search(text, at):
        outside.append(text[at : match.start()])
        try:
            document, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            contradicts = isinstance(error, _TwiceError)
            return documents, "".join(outside), str(error) if contradicts else _CUT
        whole = text[match.start() : at]
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


#: options that no column depends on: where a command line has several, the last one counts, as for fio
_LAST_COUNTS = ("size", "directory", "filename")


class _TwiceError(ValueError):
    """A key with two values."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys may stand twice (fio does that) if they say the same."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in _LAST_COUNTS and isinstance(value, str):
            found[key] = value
        elif found.setdefault(key, value) != value:
            raise _TwiceError(f"the JSON contradicts itself: {key!r} stands twice with different values")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")
