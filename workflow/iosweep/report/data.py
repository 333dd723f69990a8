"""What merge wrote for one campaign, as plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from iosweep.results import merged_tables
from iosweep.tools import tools

#: One row of a table: column name (iosweep.results.columns) -> value, None where there is none.
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Campaign:
    """One `results/<campaign>/` in memory."""

    rows: tuple[Row, ...]  # with `tool_build`: which build of its tool a row is of; None where nothing was measured
    checks: tuple[Row, ...]
    nodes: tuple[Row, ...]
    about: Mapping[str, Any]  # campaign.json


def load(results: Path) -> Campaign:
    """Read `results/<campaign>/`.

    Raises FileNotFoundError, naming the file, when merge has not written there; documents.Damaged.
    """
    about = merged_tables.about(results)
    rows = tuple(merged_tables.rows(results, "results.parquet"))
    _tell_apart(rows, about["builds"])
    return Campaign(
        rows=rows,
        checks=tuple(merged_tables.rows(results, "checks.parquet")),
        nodes=tuple(merged_tables.rows(results, "nodes.parquet")),
        about=about,
    )


def _tell_apart(rows: Iterable[dict[str, Any]], builds: Mapping[str, Any]) -> None:
    """Give rows the name of their tool's build: the key of the first build document that has it.

    A document that differs because of another tool does not make it another build: its binary does, and the MPI of one
    whose threads are ranks.
    """
    names: dict[tuple[Any, ...], str] = {}  # what a build is known by -> its name

    @cache
    def name(tool: str, sha256: str | None, build: str | None) -> str | None:
        if sha256 is None:
            return None
        mpi = builds.get(build, {}).get("mpi") if build and (found := tools().get(tool)) and found.mpi else None
        known_by = (tool, sha256, mpi and mpi["path"], mpi and mpi["version"])
        return names.setdefault(known_by, build or f"sha256 {sha256[:12]}")

    for row in rows:
        row["tool_build"] = name(row["tool"], row["tool_sha256"], row["build"])
