"""Text that a command prints: one line, counted nouns, shortened lists."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    """Text of a tool or a machine as one line, safe for a terminal and a table: ESC becomes `\\x1b`."""
    if text.isprintable():  # the usual case, and fast
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same of text of several lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def shortened(text: str, most: int = 60) -> str:
    """At most `most` characters; a longer text ends with `...`."""
    return text if len(text) <= most else text[: most - 3] + "..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean `threads`?``, for the end of a sentence; empty if no known name is like it."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def human_percent(share: float, sign: str = "") -> str:
    """`9 %`; with sign "+" `+9 %`."""
    return f"{100 * share:{sign},.0f} %"


def human_count(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1 point, 24 points, 1,200 points."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def some(names: Sequence[str], most: int = 6, separator: str = ", ") -> str:
    """The first `most` names, and how many others there are: `node01, node02 and 14 more`."""
    others = len(names) - most
    return separator.join(names[:most]) + (f" and {others:,} more" if others > 0 else "")
