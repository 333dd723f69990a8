"""`iosweep check`: whether campaigns are complete and valid, for scripts and for a glance."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands import campaigns, outcome
from iosweep.commands.terminal import prose
from iosweep.errors import CommandError


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="*", help=f"{campaigns.NAMED}; default: all in {campaigns.RESULTS}/")
    parser.add_argument("--suspect", action="store_true", help="exit with 1 for suspect results, too")


def run(arguments: Namespace) -> int:
    found = [campaigns.find(name) for name in arguments.campaign] or campaigns.known()
    if not found:
        raise CommandError("no campaigns here; snakemake measures one")
    return max(1 if results is None else _check(results, arguments.suspect) for results in found)


def _check(results: Path, suspect: bool) -> int:
    """Print what became of a campaign; 1 if something is invalid, missing, left or damaged, or nothing is valid, or the
    tables are stale."""
    try:
        found = outcome.of(results)
    except outcome.Unreadable as error:
        for line in error.lines:
            prose(line, sys.stderr)
        return 1
    for line in outcome.lines(found):
        prose(line)
    return int(found.fails(suspect))
