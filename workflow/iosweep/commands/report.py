"""`iosweep report`: make the tables, the report and the figures of a campaign; for the rules `report` and `figures`,
one of these, from the tables that are there. Of a campaign that is being measured: of what is stored now.

What makes them is imported late: the tables need neither Altair nor Jinja, and a message shows while it is imported.
"""

from __future__ import annotations

import contextlib
import re
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from iosweep.commands import campaigns, outcome
from iosweep.commands.tables import make_tables, make_tables_of, making
from iosweep.commands.terminal import say, working
from iosweep.errors import CommandError
from iosweep.files import documents, safe_paths
from iosweep.plan.model import plan_files
from iosweep.store import ingested
from iosweep.tables import merged_tables


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", help=campaigns.NAMED)
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--page", action="store_true", help="make the report alone, from the tables that are there")
    alone.add_argument("--figures", action="store_true", help="make the figures alone, from the tables that are there")
    parser.add_argument("--log", type=Path, help=SUPPRESS)


def run(arguments: Namespace) -> int:
    if (results := campaigns.find(arguments.campaign)) is None:
        return 1
    if arguments.page or arguments.figures:
        (make_page if arguments.page else make_figures)(results)
        return 0
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


def make_tables_again(results: Path) -> None:
    """Those of an ingested campaign, from the outputs that it has kept. Raises CommandError."""
    from iosweep.ingest import tables

    make_tables_of(results, lambda: tables.make_again(results))


def make_page(results: Path) -> Path:
    """Returns the file of the report. Raises CommandError."""
    with making("report", results):
        from iosweep.report import page

        return page.write(results)


def make_figures(results: Path) -> None:
    """Raises CommandError."""
    with making("figures", results):
        from iosweep.report import figure_files

        figure_files.export(results)


#: How a file of ours says in its first bytes what it is: a page, JUnit XML or JSON of `accept`.
_KIND = re.compile(rb'<meta name="generator" content="iosweep \w+">|<testsuites name="iosweep accept"|"tables_made": "')
_FIRST_BYTES = 4096


def write_output(file: Path, render: Callable[[], bytes], exit_code: int) -> None:
    """Write what `render` returns to a file that the user named, whole or not at all: never over a file that is not of
    this kind. Raises CommandError with this exit code."""
    with working(f"writing {file} ..."):
        content = render()
    try:
        if file.exists() and not file.is_file():  # a pipe or a device keeps nothing
            file.write_bytes(content)
            return
        if file.exists():
            with file.open("rb") as there:
                before = there.read(_FIRST_BYTES)
            if before and _kind(before) != _kind(content):
                why = "exists and was not made by this command: it is left alone; remove it, or name another file"
                raise CommandError(f"{file} {why}", exit_code)
        with safe_paths.folder(file.parent) as folder:
            folder.write(file.name, content)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror or error}", exit_code) from None


def _kind(content: bytes) -> bytes | None:
    found = _KIND.search(content[:_FIRST_BYTES])
    return found[0] if found else None
