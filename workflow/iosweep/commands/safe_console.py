"""Rich's console for text that comes from stored files: it cannot move the cursor, and is not taken for markup.

Apart from terminal.py, so that Rich is imported only by commands that print through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from iosweep.text import printable_lines


class SafeConsole(Console):
    """A console that escapes control characters in all text that it renders."""

    def __init__(self, markup: bool = False, width: int | None = None, file: IO[str] | None = None):
        super().__init__(markup=markup, width=width, file=file, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of a renderable; control codes of Rich itself stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable_lines(segment.text), segment.style)
