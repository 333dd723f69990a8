"""CSV that is safe to open in a spreadsheet: text that it would evaluate as a formula is prefixed by an apostrophe."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

#: Ignored by spreadsheets at the start of a cell: control, blank and zero-width characters (for Python and RE2).
_DROPPED = r"\x00-\x20\x7f-\xa0\xad" + "\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
_SIGNS = "-=+@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH COMMERCIAL AT}\N{FULLWIDTH HYPHEN-MINUS}"
#: The start of a formula (OWASP).
_FORMULA = re.compile(rf"^(?:[{_DROPPED}]*[{_SIGNS}]|[\t\r\n])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def harmless(cell: object) -> object:
    """A cell with an apostrophe in front if its text begins like a formula and is not a number."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def write(to: TextIO, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
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
