"""Decisions on criteria of acceptance in a terminal, for `iosweep accept` and `iosweep show`."""

from __future__ import annotations

from collections.abc import Sequence

from iosweep.analysis import acceptance, acceptance_words
from iosweep.analysis.acceptance import Decision, Outcome
from iosweep.commands.terminal import Printer, prose
from iosweep.text import human_count, printable

_STYLES: dict[Outcome, str] = {"pass": "green", "fail": "red", "undecided": "yellow"}


def show(decisions: Sequence[Decision], every: bool = False) -> None:
    """Print the reasons that decisions share, and each with its figure, reason and place, below a sentence on all.
    every: with all notes and reasons."""
    from rich.text import Text

    printer = Printer()
    printer.print(Text(f"Acceptance: {acceptance.sentence(decisions)}", style=_STYLES[acceptance.worst(decisions)]))
    shared = acceptance_words.shared(decisions)
    for line in shared.lines:
        prose(f"  {printable(line)}")
    for one in decisions:
        figure = f": {one.figure}" if one.figure else ""
        mark = Text(f"  {acceptance.SYMBOLS[one.outcome]} {one.outcome:<9}", style=_STYLES[one.outcome])
        printer.print(mark.append(f"  {printable(one.wanted)}{figure}", style="bold not italic"), soft_wrap=True)
        reason = one.why.text(None if every else 1, shared.reasons)
        for line in filter(None, (reason, *(one.notes if every else ()), one.place)):
            prose(f"      {printable(line)}")
    if every:
        return
    notes, reasons = acceptance_words.more(decisions, shared.reasons)
    parts = [human_count(notes, "note")] if notes else []
    parts += [human_count(reasons, "more reason")] if reasons else []
    if parts:
        prose(f"`iosweep accept --all` shows {' and '.join(parts)} on these figures, too")
