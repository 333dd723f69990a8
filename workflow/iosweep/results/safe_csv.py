"""CSV that a spreadsheet may open. Text that it would take for a formula gets an apostrophe in front."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

#: What programs drop in front of a cell's text: control characters, blanks and those without width (Python and RE2).
_DROPPED = r"\x00-\x20\x7f-\xa0\xad" + "\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
_SIGNS = "-=+@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH COMMERCIAL AT}\N{FULLWIDTH HYPHEN-MINUS}"
#: What begins a formula (OWASP).
_FORMULA = re.compile(rf"^(?:[{_DROPPED}]*[{_SIGNS}]|[\t\r\n])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def harmless(cell: Any) -> Any:
    """A cell as it is written: text that begins like a formula and is not a number gets an apostrophe in front."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def write(to: TextIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table with its header."""
    writer = csv.DictWriter(to, columns)
    writer.writeheader()
    writer.writerows({name: harmless(cell) for name, cell in row.items()} for row in rows)


def harmless_array(column: Any) -> Any:
    """The same for an Arrow array of any type."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_string(column.type):
        return column
    if not compute.any(compute.match_substring_regex(column, _FORMULA.pattern)).as_py():
        return column
    return pa.array(map(harmless, column.to_pylist()), column.type)
