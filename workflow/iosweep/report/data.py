"""What merge wrote for one campaign, as plain rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: One row of a table: column name (iosweep.columns) -> value, None where there is none.
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Campaign:
    """One `results/<campaign>/` in memory."""

    rows: tuple[Row, ...]
    checks: tuple[Row, ...]
    nodes: tuple[Row, ...]
    about: Mapping[str, Any]  # campaign.json


def load(results: Path) -> Campaign:
    """Read `results/<campaign>/`.

    Raises FileNotFoundError, naming the file, when merge has not written there.
    """
    return Campaign(
        rows=_table(results / "results.parquet"),
        checks=_table(results / "checks.parquet"),
        nodes=_table(results / "nodes.parquet"),
        about=json.loads((results / "campaign.json").read_text(encoding="utf-8")),
    )


def _table(path: Path) -> tuple[Row, ...]:
    import pyarrow.parquet as parquet

    return tuple(parquet.read_table(path, partitioning=None).to_pylist())
