"""`iosweep report`: make the tables, the report and the figures of a campaign; for the rules `report` and `figures`,
one of these, from the tables that are there. Of a campaign that is being measured: of what is stored now.

What makes them is imported late: the tables do not need Jinja, and a message shows while it is imported.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands import campaigns
from iosweep.commands.tables import make_tables, making
from iosweep.commands.terminal import say
from iosweep.errors import CommandError
from iosweep.files import documents
from iosweep.store import ingested
from iosweep.tables import reader


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", help=campaigns.NAMED)
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--page", action="store_true", help="make the report alone, from the tables that are there")
    alone.add_argument("--figures", action="store_true", help="make the figures alone, from the tables that are there")
    alone.add_argument("--judge-again", action="store_true", help="judge every repetition again, from its raw output")
    parser.add_argument("--log", type=Path, help=SUPPRESS)


def run(arguments: Namespace) -> int:
    results = campaigns.find(arguments.campaign)
    if arguments.page or arguments.figures:
        (make_page if arguments.page else make_figures)(results)
        return 0
    if ingested.exists(results):
        with making("tables", results):
            from iosweep.ingest import foreign_campaign

            foreign_campaign.make_again(results)
    elif lost := campaigns.no_plan(results):
        raise CommandError(lost)
    else:
        make_tables(campaigns.plan_file(results), results, arguments.judge_again)
    for line in documents.few(campaigns.damage_in_tables(results, reader.read_about(results))):
        say(line, file=sys.stderr)
    say(f"report: {make_page(results)}")
    make_figures(results)
    return 0


def make_page(results: Path) -> Path:
    """Returns the file of the report. Raises CommandError."""
    with making("report", results):
        from iosweep.report import page

        return page.write(results)


def make_figures(results: Path) -> None:
    """Raises CommandError."""
    with making("figures", results):
        from iosweep.report import drawing

        drawing.export(results)
