"""A word on the terminal while a command takes seconds before it prints anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show `what` on stderr until the end of the block. Nothing is written where stderr is not a terminal.

    Nothing else may be printed meanwhile.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        console.print(what, highlight=False, markup=False, soft_wrap=True)
        yield
        return
    from rich.text import Text

    with console.status(Text(what, overflow="ellipsis", no_wrap=True)):
        yield
