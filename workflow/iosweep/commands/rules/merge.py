"""`iosweep merge`: make the tables of a campaign from its store."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands import report


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("plan", type=Path)
    parser.add_argument("--repair", type=Path, nargs="?")
    parser.add_argument("--log", type=Path)


def run(arguments: Namespace) -> int:
    repair = arguments.repair.name if arguments.repair else None
    report.make_tables(arguments.plan, arguments.plan.parent.parent, repair)
    return 0
