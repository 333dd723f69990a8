"""Decisions on criteria of acceptance in a terminal, for `iosweep accept` and `iosweep show`."""

from __future__ import annotations

from collections.abc import Sequence

from iosweep.analysis import acceptance
from iosweep.analysis.acceptance import Decision, Outcome
from iosweep.commands.terminal import Printer, prose
from iosweep.text import human_count, printable

_STYLES: dict[Outcome, str] = {"pass": "green", "fail": "red", "undecided": "yellow"}


def show(decisions: Sequence[Decision], every: bool = False) -> None:
    """Print each decision with its figure, reason and place, below a sentence on all. every: with all notes."""
    from rich.text import Text

    printer = Printer()
    printer.print(Text(f"Acceptance: {acceptance.sentence(decisions)}", style=_STYLES[acceptance.worst(decisions)]))
    for one in decisions:
        figure = f": {one.figure}" if one.figure else ""
        mark = Text(f"  {acceptance.SYMBOLS[one.outcome]} {one.outcome:<9}", style=_STYLES[one.outcome])
        printer.print(mark.append(f"  {printable(one.wanted)}{figure}", style="bold not italic"), soft_wrap=True)
        for line in filter(None, (one.reason, *(one.notes if every else ()), one.place)):
            prose(f"      {printable(line)}")
    if not every and (more := sum(len(one.notes) for one in decisions)):
        prose(f"`iosweep accept --all` shows {human_count(more, 'note')} on these figures, too")
