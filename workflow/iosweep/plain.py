"""Output of a command for a person: as wide as the terminal, or where it goes to a file or a pipe, as wide as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Wider than any line, so that nothing is wrapped.
_UNLIMITED = 10_000


class Printer:
    """Prints what Rich renders. Without a terminal, no line is wrapped, and no line ends with blanks."""

    def __init__(self) -> None:
        self._console = Console()
        if not self._console.is_terminal:
            self._console = Console(width=_UNLIMITED, highlight=False)

    def print(self, *parts: RenderableType, highlight: bool = False, soft_wrap: bool = False) -> None:
        """One line or table after the other."""
        for part in parts:
            if self._console.is_terminal:
                self._console.print(part, highlight=highlight, soft_wrap=soft_wrap)
                continue
            with self._console.capture() as captured:
                self._console.print(part, soft_wrap=soft_wrap)
            print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))
