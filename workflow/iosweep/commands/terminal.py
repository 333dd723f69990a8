"""Printing for a person: as wide as the terminal; in a file or a pipe, lines are as long as they are.

Rich is imported late: most commands of the rules print nothing through it.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import msgspec

from iosweep.text import printable_lines

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

#: Wider than any line, so that nothing is wrapped.
_UNLIMITED = 10_000


def prose(text: str, file: TextIO | None = None) -> None:
    """Print lines of text to `file` (None: stdout). On a terminal they are wrapped at blanks, never within a word."""
    from rich.console import Console

    console = Console(file=file or sys.stdout)
    for line in printable_lines(text).split("\n"):
        if console.is_terminal:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            line = textwrap.fill(
                line, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        print(line, file=file)


def say(text: str, file: TextIO | None = None) -> None:
    """Print lines as they are, with control characters escaped: names and reasons may come from stored files."""
    print(printable_lines(text), file=file)


def to_json(document: object) -> str:
    """JSON with a line break at its end. Characters that drive a terminal are escaped, as is text that is not UTF-8."""
    try:
        text = (msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n").decode()
    except (TypeError, UnicodeEncodeError):  # names of files may hold any bytes
        text = json.dumps(document, indent=2) + "\n"
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def table(*columns: str, right: Collection[str] = (), wrapped: Collection[str] = ()) -> Table:
    """A table with bold headings and without lines. `right`: columns that are aligned so; `wrapped`: may be wrapped."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        found.add_column(name, justify="right" if name in right else "left", no_wrap=name not in wrapped)
    return found


def facts() -> Table:
    """A table without headings: names of facts, which are dim, and what is known."""
    from rich.table import Table

    found = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    found.add_column(no_wrap=True, style="dim")
    found.add_column(overflow="fold")
    return found


class Printer:
    """Prints what Rich renders. Without a terminal, no line is wrapped, and no line ends with blanks.

    `markup`: text is Rich's markup, and must be escaped where it is not ours.
    """

    def __init__(self, markup: bool = False) -> None:
        from iosweep.commands.safe_console import SafeConsole

        self._console = SafeConsole(markup=markup)
        if not self._console.is_terminal:
            self._console = SafeConsole(markup=markup, width=_UNLIMITED)

    def excess(self, table: Table) -> int:
        """The number of characters by which a table is wider than the terminal; 0 or less where it fits."""
        whole = self._console.options.update(width=_UNLIMITED)
        return self._console.measure(table, options=whole).maximum - self._console.width

    def print(self, *parts: RenderableType, highlight: bool = False, soft_wrap: bool = False) -> None:
        """Print lines and tables, one below the other."""
        for part in parts:
            if self._console.is_terminal:
                self._console.print(part, highlight=highlight, soft_wrap=soft_wrap)
                continue
            with self._console.capture() as captured:
                self._console.print(part, soft_wrap=soft_wrap)
            print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show `what` on stderr until the block ends, if stderr is a terminal. The block must print nothing else."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        console.print(what, highlight=False, markup=False, soft_wrap=True)
        yield
        return
    with console.status(Text(what, overflow="ellipsis", no_wrap=True)):
        yield
