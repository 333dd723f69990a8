"""`iosweep page`: make the report of a campaign from its tables."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands import report


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("results", type=Path)
    parser.add_argument("--log", type=Path)


def run(arguments: Namespace) -> int:
    report.make_page(arguments.results)
    return 0
