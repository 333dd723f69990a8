"""Printing for a person: wrapped to the width of the terminal; not wrapped in a file or a pipe.

Text from stored files cannot drive the terminal: control characters are escaped, and it is not taken for markup. Rich
is imported late, because most commands of the rules print nothing through it.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

import msgspec

from iosweep.errors import CommandError
from iosweep.files import safe_paths
from iosweep.text import printable_lines

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
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
    """Print lines without wrapping them."""
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
    """A table with bold headings and without lines. `right`: aligned right; `wrapped`: may be wrapped."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=name not in wrapped)
    return made


def facts() -> Table:
    """A table of two columns without headings: dim names, and their values."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")
    return made


def safe_console(markup: bool = False, width: int | None = None, file: IO[str] | None = None) -> Console:
    """A console that escapes control characters in all text that it renders. `markup`: text is Rich's markup."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):  # Rich's own control codes stay
                yield segment if segment.control else Segment(printable_lines(segment.text), segment.style)

    return SafeConsole(markup=markup, width=width, file=file, emoji=False, highlight=False)


class Printer:
    """Prints what Rich renders. Without a terminal or with `wide`, no line is wrapped.

    `markup`: text is Rich's markup; foreign text in it must be escaped.
    """

    def __init__(self, markup: bool = False, wide: bool = False) -> None:
        self._console = safe_console(markup)
        self._as_is = self._console.is_terminal and not wide
        if not self._as_is:
            self._console = safe_console(markup, _UNLIMITED)

    def print(self, *parts: RenderableType, soft_wrap: bool = False) -> None:
        """Print lines and tables, one below the other."""
        for part in parts:
            if self._as_is:
                self._console.print(part, soft_wrap=soft_wrap)
                continue
            with self._console.capture() as captured:
                self._console.print(part, soft_wrap=soft_wrap)
            print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a text on stderr until the block ends, if stderr is a terminal. The block must print nothing else."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(text, overflow="ellipsis", no_wrap=True)):
        yield


#: So many bytes at the beginning show the kind of a file: `<!doctype html>`, `<?xml version`.
_KIND_BYTES = 12


def write_output(file: Path, render: Callable[[], bytes], exit_code: int) -> None:
    """Write a file that the user named, whole or not at all; a file of another kind, such as a configuration, is not
    replaced. `render` returns the content. Raises CommandError with this exit code."""
    with working(f"writing {file} ..."):
        content = render()
    try:
        if file.exists() and not file.is_file():  # a pipe or a device
            file.write_bytes(content)
            return
        if file.exists():
            with file.open("rb") as there:
                begin = there.read(_KIND_BYTES)
            if begin and begin != content[:_KIND_BYTES]:
                raise CommandError(f"{file} exists and is of another kind; remove it, or name another file", exit_code)
        with safe_paths.folder(file.parent) as folder:
            folder.write(file.name, content)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror or error}", exit_code) from None
