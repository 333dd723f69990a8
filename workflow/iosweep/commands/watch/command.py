"""`iosweep watch`: follow the progress of a campaign."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from iosweep.commands import campaigns
from iosweep.commands.watch import screen


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", help=campaigns.NAMED)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--once", action="store_true", help="print the progress once, also on a terminal")
    form.add_argument("--json", action="store_true", help="print it once, as JSON")


def run(arguments: Namespace) -> int:
    results = campaigns.find_begun(arguments.campaign)
    return screen.watch(results, arguments.once, arguments.json) if results else 1
