"""`iosweep figures`: make the figures of a campaign as files from its tables."""

from __future__ import annotations

from argparse import Namespace

from iosweep.commands import report
from iosweep.commands.rules import page

add_arguments = page.add_arguments


def run(arguments: Namespace) -> int:
    report.make_figures(arguments.results)
    return 0
