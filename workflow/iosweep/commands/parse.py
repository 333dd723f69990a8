"""`iosweep parse`: output files of a tool as JSON, with the columns of the result table."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from iosweep.commands.terminal import to_json
from iosweep.config.scalars import unknown
from iosweep.tools import tools
from iosweep.tools.reading import Reading, ReadingProblem

#: Size limit of a file: the output of a tool is smaller.
MOST_BYTES = 256 << 20

#: First bytes of files that are not text as the tools write it, and what such a file is.
_NO_TEXT = {b"\x1f\x8b": "compressed (gzip); unpack it first", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

CLEAN, PROBLEMS, USAGE = 0, 1, 2


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("tool", help="the tool that wrote the files: fio, ior or mdtest")
    parser.add_argument(
        "file", nargs="+", type=Path, help="output of the tool as text, JSON or CSV, or - for standard input"
    )
    parser.add_argument("--one-run", action="store_true", help="judge all files together, as outputs of one run")
    parser.add_argument("--exit-code", type=int, metavar="N", help="exit code of the tool; default: unknown")


def run(arguments: Namespace) -> int:
    """Print a document per file, or one for all of them together; returns the exit code.

    0: no problem, or notes only; 1: an invalid or a suspect figure in any of the files; 2: usage.
    """
    tool, files = arguments.tool, arguments.file
    if tool not in tools():
        print(f"iosweep parse: {unknown('tool', tool, tools())}", file=sys.stderr)
        return USAGE
    if list(map(str, files)).count("-") > 1:
        print("iosweep parse: standard input, `-`, can be read once only", file=sys.stderr)
        return USAGE
    groups = [files] if arguments.one_run else [[file] for file in files]
    contents: dict[Path, bytes] = {}
    for file in files:
        try:
            with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as handle:
                contents[file] = handle.read(MOST_BYTES + 1)
            if len(contents[file]) > MOST_BYTES:
                raise OSError(0, f"is larger than {MOST_BYTES >> 20} MiB, which no output of {tool} is")
        except OSError as error:
            print(f"iosweep parse: {file}: {error.strerror}", file=sys.stderr)
            return USAGE
    status = CLEAN
    for group in groups:
        read = {_name(file): contents[file] for file in group}
        reading = of(tool, read, arguments.exit_code)
        if any(problem.severity != "note" for problem in reading.problems):
            status = PROBLEMS
        sys.stdout.buffer.write(to_json(document(tool, list(read), reading)).encode())
    sys.stdout.flush()
    return status


def _name(file: Path) -> str:
    """The name of a file for people and for JSON, which cannot carry bytes that are not UTF-8."""
    return os.fsencode(file).decode("utf-8", "backslashreplace")


def of(tool: str, files: Mapping[str, bytes], exit_code: int | None) -> Reading:
    """The outputs of one run: name -> content."""
    plain = {name: data.removeprefix(b"\xef\xbb\xbf") for name, data in files.items()}  # an editor's mark
    strange = [
        ReadingProblem("invalid", f"{name} is {what}")
        for name, data in plain.items()
        for start, what in _NO_TEXT.items()
        if data.startswith(start)
    ]
    return Reading(None, [], strange) if strange else tools()[tool].read(plain, exit_code)


def document(tool: str, files: Sequence[str], reading: Reading) -> dict[str, object]:
    """Rows have columns of the result table (columns.py) and `verdict`. `row` of a problem is an index, or None."""
    return {
        "files": files,
        "tool": tool,
        "version": reading.version,
        "rows": [{**row, "verdict": reading.verdict(index)} for index, row in enumerate(reading.rows)],
        "problems": [{"severity": p.severity, "row": p.row, "text": p.text} for p in reading.problems],
    }
