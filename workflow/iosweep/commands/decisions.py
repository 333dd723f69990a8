"""Decisions on criteria of acceptance in a terminal, for `iosweep accept` and `iosweep show`."""

from __future__ import annotations

from collections.abc import Sequence

from iosweep.analysis import acceptance
from iosweep.analysis.acceptance import Decision, Outcome
from iosweep.commands.terminal import Printer, prose
from iosweep.text import printable

_STYLES: dict[Outcome, str] = {"pass": "green", "fail": "red", "undecided": "yellow"}


def show(decisions: Sequence[Decision]) -> None:
    """Print each decision with its figure, reason and place, below a sentence on all."""
    from rich.text import Text

    printer = Printer()
    printer.print(Text(f"Acceptance: {acceptance.sentence(decisions)}", style=_STYLES[acceptance.worst(decisions)]))
    for one in decisions:
        figure = f": {one.figure}" if one.figure else ""
        mark = Text(f"  {acceptance.SYMBOLS[one.outcome]} {one.outcome:<9}", style=_STYLES[one.outcome])
        printer.print(
            mark.append(f"  {printable(one.criterion.text)}{figure}", style="bold not italic"), soft_wrap=True
        )
        for line in filter(None, (one.reason, one.place)):
            prose(f"      {printable(line)}")
