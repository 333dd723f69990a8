"""Whether an anonymous copy of a campaign is what it must be: no original name, and the same figures.

Names are looked for in what anonymous_views reads: a name in a picture, or encrypted, is not found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow.parquet

from iosweep.files import embedded, safe_paths
from iosweep.results import anonymous_views, merged_tables
from iosweep.results.columns import result_columns

#: Columns that are not figures of a repetition: the size of its archive depends on the names in it.
_NOT_COMPARED = frozenset(("raw_bytes",))
#: Texts that are no names, and must be the same.
_SAME_TEXTS = ("point", "phase", "tool", "kind", "metric", "verdict", "label")


def names_left(
    root: Path, files: Iterable[str], left_in: Callable[[str], str | None], own: Iterable[str]
) -> dict[str, str]:
    """File, or `file: member` -> the first original name in it. own: texts of the report that are iosweep's."""
    constant = [*own]
    found = {}
    for name in files:
        for member, text in _texts(root, name):
            for one in constant if name == merged_tables.REPORT else ():
                text = text.replace(one, "")
            if left := next(filter(None, map(left_in, anonymous_views.spellings(text))), None):
                found[member] = left
    return found


def _texts(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """A file's name, its bytes as text, and what is packed in it."""
    data = safe_paths.read(root, name)
    yield f"{name}: its name", name
    if name == merged_tables.REPORT:  # short names occur in packed data by chance
        data = embedded.opened(data.decode(*anonymous_views.BYTES)).encode(*anonymous_views.BYTES)
    for how, text in anonymous_views.texts(data):
        yield f"{name}: {how}".removesuffix(": "), text
    if name.endswith(".parquet"):
        table = pyarrow.parquet.read_table(root / name)
        for key, value in (table.schema.metadata or {}).items():
            yield f"{name}: metadata", (key + b"\n" + value).decode(*anonymous_views.BYTES)
        for column in table.column_names:
            texts = {str(value) for value in table[column].unique().to_pylist()} if _flat(table, column) else ()
            content = "\n".join(texts or map(str, table[column].to_pylist()))
            for how, text in anonymous_views.texts(content.encode(*anonymous_views.BYTES)):
                yield f"{name}: {column}: {how}".removesuffix(": "), text


def _flat(table: pyarrow.Table, column: str) -> bool:
    return bool(pyarrow.types.is_string(table.schema.field(column).type))


def differences(before: Path, after: Path) -> list[str]:
    """What differs between the results of two tables though no name may change it: `point phase: column`."""
    numbers = [c.name for c in result_columns() if c.type != "string" and c.name not in _NOT_COMPARED]
    columns = [*_SAME_TEXTS, *numbers]
    tables = [pyarrow.parquet.read_table(results / "results.parquet").to_pylist() for results in (before, after)]
    if len(tables[0]) != len(tables[1]):
        return [f"{len(tables[0]):,} rows became {len(tables[1]):,}"]
    return [
        f"{old['point']} {old['phase']}: {column}"
        for old, new in zip(*tables, strict=True)
        for column in columns
        if not _same(old[column], new[column])
    ]


def _same(old: object, new: object) -> bool:
    return old == new or (isinstance(old, float) and isinstance(new, float) and math.isnan(old) and math.isnan(new))
