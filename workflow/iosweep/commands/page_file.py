"""A page that a command writes where the user asks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from iosweep.commands.terminal import working
from iosweep.errors import CommandError
from iosweep.files import safe_paths


def write_page(file: Path, render: Callable[[], str], exit_code: int) -> None:
    """Write what `render` returns, whole or not at all. Raises CommandError with this exit code."""
    with working(f"writing {file} ..."):
        text = render()
    try:
        safe_paths.write(file.parent, file.name, text.encode() + b"\n")
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror or error}", exit_code) from None
