"""What a reading says, for tests."""

from collections.abc import Mapping
from typing import Any

from iosweep.tools.reading import Reading


def texts(reading: Reading) -> list[str]:
    """The texts of its problems, notes left out."""
    return [problem.text for problem in reading.problems if problem.severity != "note"]


def measured(reading: Reading) -> list[Mapping[str, Any]]:
    """Its rows that have figures."""
    return [row for index, row in enumerate(reading.rows) if reading.verdict(index) != "invalid"]


def refuses(reading: Reading, why: str) -> bool:
    """Whether an invalid problem says so and takes what it concerns: the figures of its row, or without one all rows.

    A row that is missing takes nothing else.
    """
    found = [problem for problem in reading.problems if problem.severity == "invalid" and why in problem.text]
    spoiled = any(problem.row is None and "is missing" not in problem.text for problem in found)
    rows = [reading.rows[problem.row] for problem in found if problem.row is not None]
    return bool(found) and not (spoiled and reading.rows) and not any("bandwidth_bytes_per_s" in row for row in rows)
