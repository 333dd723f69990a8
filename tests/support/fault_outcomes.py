"""How each fault of the tests ends: fault_outcomes.tsv.

key: the fault; ends: exit code of the runner (of Snakemake for `run/`), or a state of Slurm; verdict: that of
repetitions without a figure, empty where there are none; said: parts of what is printed, in order, separated by `...`.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_suffix(".tsv")


@dataclass(frozen=True)
class Outcome:
    """A row of the table."""

    ends: int | str
    verdict: str | None
    said: tuple[str, ...]


def outcomes(group: str = "") -> dict[str, Outcome]:
    """The rows of a group (`job`, `run`, `moosefs`, `glusterfs`), or those of no group, by key."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = {
        row["key"]: Outcome(
            int(row["ends"]) if row["ends"].isdigit() else row["ends"],
            row["verdict"] or None,
            tuple(part for part in map(str.strip, row["said"].split("...")) if part),
        )
        for row in rows
        if row["key"].rpartition("/")[0] == group
    }
    assert found, f"no fault of `{group}` in {_FILE}"
    return found


def tells(parts: Sequence[str], text: str) -> bool:
    """Whether the parts stand in a text, in order."""
    return re.search(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None
