"""`iosweep parse`: outputs of tools that others made, as JSON or a table with the columns of the result table."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iosweep.commands.reading_bar import reading_bar
from iosweep.commands.terminal import say
from iosweep.errors import CommandError
from iosweep.ingest import walk
from iosweep.ingest.detect import NotOurs, tool
from iosweep.ingest.documents import Document, documents, read
from iosweep.ingest.walk import Found, Skipped
from iosweep.text import did_you_mean, human_count
from iosweep.tools import tools

FORMATS = ("json", "ndjson", "csv", "parquet")
CLEAN, PROBLEMS, USAGE = 0, 1, 2


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path",
        nargs="+",
        help="output of a tool as text, JSON or CSV; a directory or an archive (tar, tar.gz, zip) with such files; or -"
        " for standard input. The name of a tool before them (fio, ior, mdtest) takes only its outputs",
    )
    parser.add_argument("--one-run", action="store_true", help="judge all files together, as outputs of one run")
    parser.add_argument("--exit-code", type=int, metavar="N", help="exit code of the tool; default: unknown")
    parser.add_argument("--format", choices=FORMATS, default="json", help="default: json")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file instead of standard output")


def run(arguments: Namespace) -> int:
    """Write what the paths hold; returns the exit code.

    0: no problem, or notes only; 1: an invalid or a suspect figure, or a path that cannot be read; 2: usage.
    """
    from iosweep.commands.parsed_formats import writer  # late: other commands' help does without

    asked, paths = _asked(arguments.path)
    if paths.count("-") > 1:
        raise CommandError("standard input, `-`, can be read once only", USAGE)
    if arguments.format == "parquet" and not arguments.output:
        raise CommandError("parquet is not text: name a file with --output", USAGE)
    done = _Done()
    apart = arguments.output or not sys.stdout.isatty()  # else a bar would be among the lines that are printed
    try:
        with (
            writer(arguments.format, arguments.output) as to,
            reading_bar([Path(path) for path in paths if apart and Path(path).is_dir()]) as seen,
        ):
            found = _found(paths, seen)
            for one in _read(found, asked, arguments.one_run, arguments.exit_code, done):
                to.add(one)
                done.count(one)
            to.end(done.skipped)
    except OSError as error:
        if not arguments.output:
            raise
        raise CommandError(f"{arguments.output} cannot be written: {error.strerror}") from None
    for skipped, missed in done.skipped:
        if missed:
            say(f"iosweep parse: {skipped.name} {skipped.reason}", file=sys.stderr)
    if len(done.skipped) + done.documents > len(paths):
        say(done.summary(), file=sys.stderr)
    return PROBLEMS if done.problems else CLEAN


@dataclass
class _Done:
    """What was read and what was not. Of each skipped file: whether it is missed; it was given, or may be an output."""

    documents: int = 0
    problems: bool = False
    verdicts: Counter[str] = field(default_factory=Counter)
    skipped: list[tuple[Skipped, bool]] = field(default_factory=list)

    def count(self, document: Document) -> None:
        self.documents += 1
        self.problems |= not document.clean
        self.verdicts.update(str(row["verdict"]) for row in document.table_rows())

    def skip(self, skipped: Skipped, missed: bool) -> None:
        self.skipped.append((skipped, missed))
        self.problems |= missed

    def summary(self) -> str:
        verdicts = ", ".join(f"{self.verdicts[name]:,} {name}" for name in ("valid", "suspect", "invalid"))
        rows = human_count(sum(self.verdicts.values()), "row")
        others = human_count(len(self.skipped), "other file")
        return f"{human_count(self.documents, 'output')}, {rows} ({verdicts}); {others}"


def _asked(given: Sequence[str]) -> tuple[str | None, list[str]]:
    """The tool, if the first argument names one and others follow, and the paths."""
    first, *others = given
    return (first, others) if others and first in tools() else (None, list(given))


def _found(paths: Sequence[str], seen: Callable[[str], None]) -> Iterator[tuple[Found | Skipped, bool]]:
    """The files of all paths, and whether each is itself a path that was given."""
    for path in paths:
        for one in walk.stream("-", sys.stdin.buffer) if path == "-" else walk.files(Path(path)):
            seen(one.name)
            given = one.name in (path, walk.shown(path))
            if given and isinstance(one, Skipped) and not Path(path).exists():
                one = Skipped(one.name, one.reason + did_you_mean(path, tools()))
            yield one, given


def _read(
    found: Iterable[tuple[Found | Skipped, bool]], asked: str | None, one_run: bool, exit_code: int | None, done: _Done
) -> Iterator[Document]:
    """The documents of all files; what is not read goes to `done`."""
    together: list[Found] = []
    for one, given in found:
        if isinstance(one, Skipped):
            done.skip(one, given or not one.special)
        elif one_run:
            together.append(one)
        elif asked and given:
            yield read(asked, [one], exit_code)
        elif isinstance(made := documents(one, exit_code), NotOurs):
            done.skip(Skipped(one.name, made.reason), given)
        else:
            wanted = [document for document in made if asked in (None, document.tool)]
            yield from wanted
            if not wanted:
                done.skip(Skipped(one.name, f"has output of {made[0].tool}"), missed=False)
    if together:
        yield read(asked or _only_tool(together), together, exit_code)


def _only_tool(files: Sequence[Found]) -> str:
    """The tool whose outputs some files are; files that have none are of the same run: its messages."""
    found = {
        name: None
        for file in files
        if not isinstance(one := tool(file.data), NotOurs)
        for name in (one.tool, *one.also)
    }
    if len(found) != 1:
        what = f"outputs of {' and '.join(found)}" if found else "no output of a tool"
        raise CommandError(f"the files of --one-run have {what}: name the tool before them", USAGE)
    return next(iter(found))
