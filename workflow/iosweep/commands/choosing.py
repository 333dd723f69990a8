"""Which stored repetitions `iosweep rerun` opens again: by verdict, and by parameters of the table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosweep.report.summary import PARAMETERS
from iosweep.results import merged_tables
from iosweep.results.columns import COLUMNS
from iosweep.results.store import Store
from iosweep.text import shortened
from iosweep.units import parse_size, size_name

Row = Mapping[str, Any]

_TYPES = {column.name: column.type for column in COLUMNS}
#: Names of a configuration whose column has another name.
_RENAMED = {"sweep": "sweeps", "host": "hosts", "transfer_size": "transfer_size_bytes", "file_size": "file_size_bytes"}
#: Columns with several values in a row, joined by commas.
_LISTS = ("sweeps", "hosts")
#: Name in a condition -> column.
NAMES: Mapping[str, str] = {
    **{name: name for name in ("point", "tool", "phase", "slurm_job")},
    **{name.removesuffix("_bytes"): name for name in PARAMETERS},
    **_RENAMED,
}


class Unknown(Exception):
    """A condition names nothing that there is; the message is for the user."""


@dataclass(frozen=True)
class Chosen:
    """Repetitions of one campaign: (point, repetition). `newer`: stored repetitions whose rows
    in the tables are of an earlier try, or absent. `missing`: points that meet the conditions, and were not measured
    because they lack something (a tool, nodes, time)."""

    repetitions: tuple[tuple[str, int], ...]
    newer: int = 0
    missing: int = 0


def choose(results: Path, verdicts: Sequence[str], conditions: Sequence[str]) -> Chosen:
    """Stored repetitions with a row of one of these verdicts (none: any) that meets all conditions.

    A condition is `NAME=VALUE` or `NAME=VALUE,VALUE`. Raises Unknown, FileNotFoundError, documents.Damaged.
    """
    rows = merged_tables.rows(results, "results.parquet")
    meant = matching(rows, verdicts, conditions)
    wanted = {(row["point"], row["repetition"]) for row in meant}
    archives = {(row["point"], row["repetition"]): row["raw_sha256"] for row in rows}
    stored = {(point, n): r for point, found in Store(results).results().items() for n, r in found.items()}
    current = {key for key, result in stored.items() if archives.get(key) == result.raw["sha256"]}
    lacking = Store(results).missing().keys() & {row["point"] for row in meant if row["verdict"] == "missing"}
    return Chosen(tuple(sorted(wanted & current)), len(stored.keys() - current), len(lacking))


def matching(rows: Sequence[Row], verdicts: Sequence[str], conditions: Sequence[str]) -> list[Row]:
    """Rows with one of these verdicts (none: any) that meet all conditions. Pure. Raises Unknown."""
    tests = [_test(condition, rows) for condition in conditions]
    return [row for row in rows if (not verdicts or row["verdict"] in verdicts) and all(test(row) for test in tests)]


def _test(condition: str, rows: Iterable[Row]) -> Callable[[Row], bool]:
    name, equals, text = condition.partition("=")
    name = name.strip()
    if not equals or not text.strip():
        raise Unknown(f"--where {condition}: write NAME=VALUE, for example phase=create or transfer_size=4k")
    if (column := NAMES.get(name, name if name in NAMES.values() else None)) is None:
        near = difflib.get_close_matches(name, NAMES, 1, 0.6)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise Unknown(
            f"--where {condition}: unknown name `{shortened(name)}`{hint} (known: {', '.join(sorted(NAMES))})"
        )
    there = sorted(
        {value for row in rows for value in _values(row, column)}, key=lambda value: (str(type(value)), value)
    )
    wanted = set()
    for part in text.split(","):
        found = [value for value in there if _is(part.strip(), value, column)]
        if not found:
            shown = [_shown(value, column) for value in there]
            near = difflib.get_close_matches(part.strip(), shown, 1, 0.6)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            known = (
                f"there are: {', '.join(shown[:20])}{', ...' if len(shown) > 20 else ''}" if shown else "none has it"
            )
            raise Unknown(f"--where {condition}: no result has {name} `{shortened(part.strip())}`{hint} ({known})")
        wanted.update(found)
    return lambda row: not wanted.isdisjoint(_values(row, column))


def _values(row: Row, column: str) -> list[Any]:
    value = row[column]
    if value is None:
        return []
    return str(value).split(",") if column in _LISTS else [value]


def _is(text: str, value: object, column: str) -> bool:
    """Whether a value of the table is the one that is written."""
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, int | float):
        try:
            return value == (
                parse_size(int(text) if text.isdecimal() else text) if _TYPES[column] == "int" else float(text)
            )
        except ValueError:
            return False
    return text == value


def _shown(value: object, column: str) -> str:
    """As a configuration has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return size_name(value) if isinstance(value, int) and column.endswith("_bytes") else str(value)
