"""The striping of what a campaign writes: set on its directory, and read back, by the file system's own command."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def refused(arguments: Sequence[str]) -> str | None:
    """Why these arguments are not handed to the file system's command, or None.

    The command works on the campaign's directory and on nothing else, so nothing may stand there that names another
    place.
    """
    if named := next((a for a in arguments if "/" in a or "\0" in a or "\n" in a), None):
        return f"`{named}` names a place; the layout is set on the campaign's directory alone"
    if not arguments[0].startswith("-"):
        return f"`{arguments[0]}` is no option; an option stands first"
    if stray := next(
        (b for a, b in pairwise(arguments) if not a.startswith("-") and not b.startswith("-")),
        None,
    ):
        return f"`{stray}` belongs to no option"
    return None
