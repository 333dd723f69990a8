"""`iosweep report`: make the tables, the report and the figures of a campaign. Rules make each of them alone.
Of a campaign that is being measured: of what is stored now.

What makes them is imported late: the tables need neither Altair nor Jinja, and a message shows while it is imported.
"""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from iosweep.commands import campaigns, outcome
from iosweep.commands.terminal import say, working
from iosweep.errors import CommandError
from iosweep.files import documents, safe_paths
from iosweep.plan.model import plan_files, read_plan
from iosweep.results import ingested, merged_tables
from iosweep.target import identify

T = TypeVar("T")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", help=campaigns.NAMED)


def run(arguments: Namespace) -> int:
    if (results := campaigns.find(arguments.campaign)) is None:
        return 1
    if ingested.there(results):
        make_tables_again(results)
    else:
        make_tables(_plan(results), results)
    _tell_damage(results)
    say(f"report: {make_page(results)}")
    make_figures(results)
    return 0


def _tell_damage(results: Path) -> None:
    left_out = merged_tables.about(results).damaged
    for line in documents.few([documents.sentence(f"{results}/{file}", why) for file, why in left_out.items()]):
        say(line, file=sys.stderr)


def _plan(results: Path) -> Path:
    """The plan of the tables; without tables, the newest. Raises CommandError."""
    if not (plans := plan_files(results)):
        raise CommandError(str(outcome.no_plan(results)))
    with contextlib.suppress(FileNotFoundError, documents.Damaged):
        digest = documents.read(results / "campaign.json").get("plan_digest")
        plans = [file for file in plans if file.stem == digest] or plans
    return plans[-1]


def make_tables(plan: Path, results: Path, repair: str | None = None) -> None:
    """Raises CommandError. `repair`: see merge.merge."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that are not used
    with _making("tables", results):
        from iosweep.results import merge

        merge.merge(read_plan(plan), results, repair)


def make_tables_again(results: Path) -> None:
    """Those of an ingested campaign, from the outputs that it has kept. Raises CommandError."""
    from iosweep.ingest import tables

    make_tables_of(results, lambda: tables.make_again(results))


def make_tables_of(results: Path, make: Callable[[], T]) -> T:
    """Make the tables of an ingested campaign. Raises CommandError."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that are not used
    with _making("tables", results):
        return make()


def make_page(results: Path) -> Path:
    """Returns the file of the report. Raises CommandError."""
    with _making("report", results):
        from iosweep.report import page

        return page.write(results)


def make_figures(results: Path) -> None:
    """Raises CommandError."""
    with _making("figures", results):
        from iosweep.report import figure_files

        figure_files.export(results)


def write_page(file: Path, render: Callable[[], str], exit_code: int) -> None:
    """Write what `render` returns, whole or not at all. Raises CommandError with this exit code."""
    with working(f"writing {file} ..."):
        text = render()
    try:
        safe_paths.write(file.parent, file.name, text.encode() + b"\n")
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror or error}", exit_code) from None


@contextlib.contextmanager
def _making(what: str, results: Path) -> Iterator[None]:
    """Turn an OSError of the block into a sentence: a CommandError."""
    try:
        with working(f"making the {what} of {results} ..."):
            yield
    except OSError as error:
        why, then = error.strerror or str(error), f": {safe_paths.remedy(error) or 'fix that'}, then"
        if isinstance(error, PermissionError) and error.filename:
            why, then = f"{why}: {_owned(Path(error.filename))}", ": get permission, then"
        elif isinstance(error, FileNotFoundError) and what != "tables":  # pyarrow gives the file alone
            why, then = f"there is no {Path(str(error.filename or error)).name}", ", and"
        elif error.errno and why == os.strerror(error.errno):
            why = f"{error.filename or results}: {why}"
        elif error.filename:
            why = f"{error.filename} is {why}"
        raise CommandError(
            f"the {what} of {results} cannot be made: {why}; what was measured is stored{then}"
            f" `iosweep report {results}` makes all"
        ) from None


def _owned(file: Path) -> str:
    """To whom a file belongs; of a new one, the directory that it cannot be made in."""
    there = file if os.path.lexists(file) else file.parent
    try:
        return f"{there} has {identify.rights(there.lstat())}"
    except OSError:  # nor may its folder be entered
        return str(there)
