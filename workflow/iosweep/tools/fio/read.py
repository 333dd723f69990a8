"""What the files of one run of fio say to a person who has only those: the reader behind `iosweep parse fio`.

JSON (json, json+, `normal,json`; read_json.py) or fio's classic text report (read_text.py). What stands around them
(stderr, notes, signals) is looked through for what spoils a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from iosweep.tools import Reading
from iosweep.tools.fio import read_json, read_text
from iosweep.tools.fio.rows import Row

#: What fio prints when a run is spoiled, also where its exit code is 0.
_SPOILED = tuple(
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"fio: terminating on signal (\d+)", "fio was interrupted (signal {})"),
        (r"client: host=(\S+) disconnected", "host {} disconnected"),
        (r"(\S+) error: failed to setup shm", "host {} refused: failed to setup shm segment"),
        (r"failed to setup shm()", "a host refused: failed to setup shm segment"),
        (r"fio: failed to connect to (\S+)", "no connection to {}"),
        (r"fio: failed to resolve <(.*?)>", "host {} cannot be resolved"),
        (r"fio: client/server version mismatch \((.*?)\)", "client and server are of different versions ({})"),
        (r"fio: server (bad crc on command)", "client and server do not understand each other ({})"),
        (r"fio: pid=\d+, err=([1-9]\d*.*)", "a worker failed: err={}"),
        (r"fio: io_u error on file (.*)", "an I/O failed: {}"),
        (r"Bad option <(.*?)>", "fio refused the option {}"),
        (r"fio: (job .* dropped)", "fio refused a section: {}"),
        (r"fio: (unable to open .*)", "fio did not start: {}"),
        (r"fio: (engine \S+ not loadable)", "fio did not start: {}"),
        (r"fio: (output file open error.*)", "fio did not start: {}"),
        (r"fio: (file creation disallowed.*)", "a file was not there: {}"),
        (r"fio: (ENOSPC on laying out file)", "the file system was full: {}"),
    )
)

_BEGIN = re.compile(r'^\{[ \t]*(?:$|"fio version")', re.MULTILINE)
#: what only stands in JSON: outside of a document it is a piece of one
_PIECE = re.compile(r'^[ \t]*(?:"[^"\n]*"[ \t]*:|[\]}],?[ \t]*$)', re.MULTILINE)


def read(files: Mapping[str, bytes], exit_code: int | None) -> Reading:
    """Rows of one run from its files (name -> content: stdout, an --output file, stderr), and what is wrong with them.

    What spoils the run as a whole (exit code, signal, host that is missing, damaged or contradicting files) leaves no
    row; what spoils one entry leaves that one out. Pure; raises nothing whatever the files hold.
    """
    documents: list[dict[str, Any]] = []
    outside: list[str] = []
    problems: list[str] = []
    for name, content in files.items():
        text = content.decode("utf-8", "replace").replace("\r\n", "\n")
        found, around, problem = _documents(text)
        documents += [document for document in found if document not in documents]  # stdout kept twice is one
        outside.append(around)
        problems += [f"{name}: {problem}"] if problem else []
    if not any(content.strip() for content in files.values()):
        problems.append("fio printed nothing")
    problems += _messages("\n".join(outside))
    if exit_code:
        problems.append(f"fio ended with exit code {exit_code}")
    version, rows, wrong = _reports(documents, outside, bool(problems))
    clean = [] if problems else rows
    return Reading(version, clean, list(dict.fromkeys([*problems, *wrong])))


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
        for pattern, sentence in _SPOILED:
            if match := pattern.search(line):
                found.append(sentence.format(match[1].strip()))
                break
    return list(dict.fromkeys(found))


def _documents(text: str) -> tuple[list[dict[str, Any]], str, str]:
    """(JSON documents of one file, the text around them, what is wrong)"""
    documents: list[dict[str, Any]] = []
    around, at = "", 0
    decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse)
    while match := _BEGIN.search(text, at):
        around += text[at : match.start()]
        try:
            document, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            contradicts = isinstance(error, _TwiceError)
            return documents, around, str(error) if contradicts else "the JSON is cut or damaged"
        if text[at : at + 1] not in ("", "\n", " "):
            return documents, around, "the JSON is cut or damaged"
        documents.append(document)
    around += text[at:]
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
