"""A bar on stderr while the files of directories and archives are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reading_bar(paths: Sequence[Path]) -> Iterator[Callable[[str], None]]:
    """A function that is told each file as it is read; the bar is there where stderr is a terminal.

    `paths`: those whose files are counted; without any there is no bar.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from iosweep.text import printable

    console = Console(stderr=True)
    if not paths or not console.is_terminal:
        yield lambda _: None
        return
    total = sum(_count(path) for path in paths)
    columns = (TextColumn("reading"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[name]}"), console=console, transient=True) as bar:
        task = bar.add_task("", total=total, name="")

        def advance(name: str) -> None:
            # members of an archive are no files of their own
            bar.update(task, advance="!" not in name, name=escape(printable(name)[-40:]))

        yield advance


def _count(path: Path) -> int:
    return sum(len(files) for *_, files in os.walk(path)) if path.is_dir() else 1
