"""`iosweep parse`: outputs of tools that others made, as JSON or a table with the columns of the result table."""

from __future__ import annotations

import csv
import io
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from iosweep.commands.terminal import say, to_json
from iosweep.errors import CommandError
from iosweep.files import safe_paths
from iosweep.ingest import outputs
from iosweep.ingest.outputs import Found, Skipped
from iosweep.results import safe_csv
from iosweep.results.columns import result_columns
from iosweep.results.reasons import REASONS
from iosweep.text import human_count
from iosweep.tools.reading import Reading

#: Version of the JSON document. It changes where a key goes or means something else, not where one is added.
SCHEMA = 2
CLEAN, PROBLEMS, USAGE = 0, 1, 2

Row = Mapping[str, object]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="+", help="output of fio, IOR or mdtest; a directory with such files; or - for standard input"
    )
    parser.add_argument("--format", choices=("json", "csv"), default="json", help="default: json")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file instead of standard output")


def run(arguments: Namespace) -> int:
    """Write what the paths hold; returns the exit code.

    0: no problem, or notes only; 1: an invalid or a suspect figure, or a path that cannot be read; 2: usage.
    """
    if arguments.path.count("-") > 1:
        raise CommandError("standard input, `-`, can be read once only", USAGE)
    documents: list[dict[str, object]] = []
    rows: list[Row] = []
    skipped: list[Skipped] = []
    clean = True
    for path in arguments.path:
        for one in _files(path):
            read = one.reason if isinstance(one, Skipped) else outputs.readings(one.data)
            if isinstance(read, str):
                skipped.append(Skipped(one.name, read))
                if one.name in (path, outputs.shown(path)):
                    clean = False
                    say(f"iosweep parse: {one.name} {read}", file=sys.stderr)
                continue
            assert isinstance(one, Found)
            for tool, reading in read.items():
                own = list(rows_of(one, tool, reading))
                rows += own or [_row(one, {"tool": tool}, "invalid", _lost(reading))]
                documents.append(_document(one, tool, reading, own))
                clean &= all(problem.severity == "note" for problem in reading.problems)
    others = [{"file": one.name, "text": f"{one.name} {one.reason}"} for one in skipped]
    text = to_json({"schema": SCHEMA, "documents": documents, "skipped": others})
    _write(text if arguments.format == "json" else _table(rows), arguments.output)
    if len(documents) + len(skipped) > len(arguments.path):
        verdicts = Counter(row["verdict"] for row in rows)
        said = ", ".join(f"{verdicts[name]:,} {name}" for name in ("valid", "suspect", "invalid"))
        counts = human_count(len(documents), "output"), human_count(len(rows), "row"), said
        say("{}, {} ({}); {}".format(*counts, human_count(len(skipped), "other file")), file=sys.stderr)
    return CLEAN if clean else PROBLEMS


def _files(path: str) -> Iterator[Found | Skipped]:
    if path == "-":
        yield Found("-", sys.stdin.buffer.read(outputs.MOST_BYTES))
    else:
        yield from outputs.files(Path(path))


def rows_of(file: Found, tool: str, reading: Reading) -> Iterator[Row]:
    """The rows of a reading with their verdicts, in columns of the result table."""
    for index, row in enumerate(reading.rows):
        texts = [*reading.against(index, "invalid"), *reading.against(index, "suspect")]
        yield _row(file, {"tool": tool, **row}, reading.verdict(index), texts)


def _row(file: Found, values: Row, verdict: str, texts: list[str]) -> Row:
    reasons = REASONS.join(text.replace(REASONS, " / ") for text in texts)
    return {**values, "verdict": verdict, "reasons": reasons, "raw": file.name, "raw_sha256": file.sha256}


def _lost(reading: Reading) -> list[str]:
    return [problem.text for problem in reading.problems if problem.severity == "invalid"] or ["it has no results"]


def _document(file: Found, tool: str, reading: Reading, rows: list[Row]) -> dict[str, object]:
    """What is said of a file. `row` of a problem is an index, or None where it concerns the file as a whole."""
    return {
        "file": file.name,
        "sha256": file.sha256,
        "tool": tool,
        "version": reading.version,
        "rows": rows,
        "problems": [{"severity": one.severity, "row": one.row, "text": one.text} for one in reading.problems],
    }


def _table(rows: list[Row]) -> str:
    """The result table's columns, as results.csv has them."""
    to, names = io.StringIO(), [column.name for column in result_columns()]
    table = csv.DictWriter(to, names, lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({name: _cell(row.get(name)) for name in names})
    return to.getvalue()


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else safe_csv.harmless(value)


def _write(text: str, path: Path | None) -> None:
    if path is None:
        to: TextIO = sys.stdout
        to.write(text)
        return
    try:
        with safe_paths.folder(path.parent) as place:
            place.write(path.name, text.encode())
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None
