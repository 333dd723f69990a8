"""Copies the output of a command to a log in the results."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from iosweep.files import safe_paths
from iosweep.text import printable

#: The beginning of the last line of a log whose command ended before all was done: the reason follows.
ENDED = "iosweep: "
#: Bytes that are read of a log: its last line is in them.
_LAST_BYTES = 2000


def why_ended(results: Path, log: str) -> str:
    """The reason with which a command ended early, by the last line of its log; empty if that is another line: a
    result, a note. Raises OSError."""
    line = last_line(results, log)
    return printable(line.removeprefix(ENDED)) if line.startswith(ENDED) else ""


def last_line(results: Path, log: str) -> str:
    """The last line of a log that is not blank. Raises OSError."""
    return safe_paths.end(results, log, _LAST_BYTES).decode("utf-8", "replace").strip().rpartition("\n")[2]


def opened(log: Path, results: Path) -> TextIO:
    """A log to add to. Below the results no symbolic link is followed. Raises OSError."""
    if log.is_relative_to(results):
        return safe_paths.append(results, log.relative_to(results))
    return safe_paths.append(log.parent, log.name)


@contextmanager
def logged(log: Path | None, results: Path) -> Iterator[None]:
    """Have what is printed in a new log as well (None: not). A link or a pipe in its place is replaced."""
    if log is None:
        yield
        return
    if log.is_relative_to(results):
        safe_paths.remove(results, log.relative_to(results))
    file = opened(log, results)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Both(stream, file) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        with contextlib.suppress(OSError):  # a full disk
            file.close()


class _Both:
    """A stream whose text also goes to a file."""

    def __init__(self, stream: TextIO, file: TextIO):
        self._stream, self._file = stream, file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):  # a full disk must not hide what is said
            self._file.write(text)
            self._file.flush()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
