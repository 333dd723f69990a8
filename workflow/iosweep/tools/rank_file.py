"""The files of IOR and mdtest with a line for each rank: a column of them. Pure, and never raises."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from iosweep.own_rate import MOST

#: Longest line that is read, on average: mdtest 4.0's have 600 characters.
_LINE_BYTES = 2048


def column(document: bytes, name: str, tasks: int, access: str = "") -> list[float]:
    """The positive values of a column by rank, from the first to the last; none unless each rank has one.

    access: only lines with this in their column `access`.
    """
    if len(document) > (tasks + 2) * _LINE_BYTES:
        return []
    names, rows = _table(document)
    found: dict[str, float] = {}
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        if access and cells.get("access") != access:
            continue
        try:
            value = float(cells[name])
        except (KeyError, ValueError):
            continue
        rank = cells.get("rank", "")
        if rank in found or not 0 < value <= MOST:
            return []
        found[rank] = value
    found.pop("all", None)  # mdtest's line of all ranks together
    wanted = list(map(str, range(tasks)))
    return [found[rank] for rank in wanted] if found.keys() == set(wanted) else []


def of_all(document: bytes, name: str) -> float | None:
    """The value in mdtest's line of all ranks together."""
    names, rows = _table(document)
    cells = next((dict(zip(names, row, strict=False)) for row in rows if row[0] == "all"), {})
    try:
        return float(cells.get(name, ""))
    except ValueError:
        return None


@lru_cache(1)  # mdtest's phases are asked for one by one
def _table(document: bytes) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    lines = document.decode("utf-8", "replace").splitlines()
    return (lines[0].split(","), [line.split(",") for line in lines[1:]]) if lines else ((), ())
