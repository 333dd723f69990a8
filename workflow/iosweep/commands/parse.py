"""`iosweep parse`: outputs of tools that others made, as JSON with rows in columns of the result table."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands.terminal import say, to_json
from iosweep.errors import CommandError, ExitCode
from iosweep.ingest import outputs
from iosweep.ingest.outputs import File
from iosweep.judge.findings import join_reasons
from iosweep.store.ingested import MOST_FILE_BYTES
from iosweep.tools.reading import Reading

#: Version of the JSON document. It changes if a key is removed or redefined, not if one is added.
SCHEMA = 3


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="+", help="output of fio, IOR or mdtest; a directory with such files; or - for standard input"
    )


def run(arguments: Namespace) -> int:
    """Print the readings of all files; returns the exit code.

    0: no problem, or notes only; 1: an invalid or a suspect figure, or a path that cannot be read; 2: usage.
    """
    if arguments.path.count("-") > 1:
        raise CommandError("standard input, `-`, can be read once only", ExitCode.USAGE)
    documents: list[dict[str, object]] = []
    skipped: list[dict[str, str]] = []
    clean = True
    for path in arguments.path:
        standard = path == "-"
        for file in [File("-", sys.stdin.buffer.read(MOST_FILE_BYTES))] if standard else outputs.files(Path(path)):
            read = file.reason or outputs.readings(file.data)
            if isinstance(read, str):
                skipped.append({"file": file.name, "text": f"{file.name} {read}"})
                if file.name in (path, outputs.shown(path)):
                    clean = False
                    say(f"iosweep parse: {file.name} {read}", file=sys.stderr)
                continue
            documents += [_document(file, tool, reading) for tool, reading in read.items()]
            clean &= all(problem.severity == "note" for reading in read.values() for problem in reading.problems)
    sys.stdout.write(to_json({"schema": SCHEMA, "documents": documents, "skipped": skipped}))
    return int(not clean)


def _document(file: File, tool: str, reading: Reading) -> dict[str, object]:
    """The rows and problems of a file. `row` of a problem is an index, or None if it concerns the whole file."""
    return {
        "file": file.name,
        "sha256": file.sha256,
        "tool": tool,
        "rows": [
            {**row, "verdict": reading.verdict(index), "reasons": join_reasons(reading.reasons(index))}
            for index, row in enumerate(reading.rows)
        ],
        "problems": [
            {"severity": problem.severity, "row": problem.row, "text": problem.text} for problem in reading.problems
        ],
    }
