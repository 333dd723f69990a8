"""`iosweep page` and `iosweep figures`: make the report, or its figures as files, from the tables of a campaign."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands import report


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("results", type=Path)
    parser.add_argument("--log", type=Path)


def run(arguments: Namespace) -> int:
    make = report.make_page if arguments.command == "page" else report.make_figures
    make(arguments.results)
    return 0
