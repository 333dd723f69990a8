"""Reads the small text files of /proc, /sys and /etc."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str | None:
    """The content without blanks at its ends; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def value(path: Path) -> str | None:
    """The same; None if there is no content."""
    return text(path) or None


def field(path: Path, *names: str) -> str | None:
    """The value of the first line `name: value` with one of these names."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found, _, content = line.partition(":")
                if found.strip() in names:
                    return content.strip() or None
    except OSError:
        pass
    return None


def entries(path: Path) -> list[Path]:
    """The sorted entries of a directory; none if it cannot be read."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


#: A larger value is not a count of anything, and kilobytes must be an integer for JSON when they are bytes.
_MOST = 2.0**52


def number(of: str | None) -> float | None:
    """The number that a text is; None for another text, NaN and infinity."""
    try:
        found = float(of or "")
    except ValueError:
        return None
    return found if abs(found) < _MOST else None
