"""A finding of the doctor: what was checked, what was seen, and what to change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from iosweep.text import human_count, printable

if TYPE_CHECKING:  # Rich is not imported on nodes that measure
    from rich.table import Table

Outcome = Literal["ok", "warning", "wrong", "not checked"]
_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red", "not checked": "bright_black"}


@dataclass(frozen=True)
class Line:
    """`change`: what to do; empty if nothing."""

    check: str
    outcome: Outcome
    seen: str
    change: str = ""


def ok(check: str, seen: str) -> Line:
    """It is as it should be."""
    return Line(check, "ok", printable(seen))


def warning(check: str, seen: str, change: str) -> Line:
    """It will run, but may be slow, or measure something else than intended."""
    return Line(check, "warning", printable(seen), printable(change))


def wrong(check: str, seen: str, change: str) -> Line:
    """It cannot run."""
    return Line(check, "wrong", printable(seen), printable(change))


def unchecked(check: str, why: str, change: str = "") -> Line:
    """It is not known."""
    return Line(check, "not checked", printable(why), printable(change))


def show(lines: Sequence[Line], as_json: bool) -> int:
    """Print them; 0 if nothing is wrong, else 1."""
    bad = any(line.outcome == "wrong" for line in lines)
    if as_json:
        document = {"wrong": bad, "lines": [asdict(line) for line in lines]}
        sys.stdout.write((msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n").decode())
        return int(bad)
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(table(lines))
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
    print(f"\n{summary(lines)}")
    return int(bad)


def table(lines: Sequence[Line]) -> Table:
    """The lines for a person, for any width of terminal."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines:
        seen = Text(line.seen)
        if line.change:
            seen.append(f"\n-> {line.change}", style="" if line.outcome == "ok" else _STYLES[line.outcome])
        grid.add_row(Text(line.outcome, style=_STYLES[line.outcome]), line.check, seen)
    return grid


def summary(lines: Sequence[Line]) -> str:
    """The last line: the number of findings of each kind that is not fine."""
    counts = {
        outcome: sum(line.outcome == outcome for line in lines) for outcome in ("wrong", "warning", "not checked")
    }
    parts = [human_count(n, name, "warnings" if name == "warning" else name) for name, n in counts.items() if n]
    return ", ".join(parts) or "all is well"
