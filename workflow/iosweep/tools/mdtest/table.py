"""mdtest's table of results: its title, its rows, and what is torn of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from iosweep.tools.mdtest.messages import quote

#: mdtest's operations in the order of its table (enum mdtest_test_num_t), and our phases
PHASES = {
    "Directory creation": "dir_create",
    "Directory stat": "dir_stat",
    "Directory rename": "dir_rename",
    "Directory removal": "dir_delete",
    "File creation": "create",
    "File stat": "stat",
    "File read": "read",
    "File removal": "delete",
    "Tree creation": "tree_create",
    "Tree removal": "tree_delete",
}
ORDER = {operation: position for position, operation in enumerate(PHASES)}
RENAME, _LAST = "Directory rename", "Tree removal"

_NAME = rf"(?P<name>{'|'.join(PHASES)})"
# the unit of "time" is ms/op or ops/sec in the title and seconds in the rows: those tables only check the rates
TITLE = re.compile(r"SUMMARY(?: (rate|time))?(?: \(in ([^)]*)\))?: \(of (\d{1,9}) iterations\)")
# all patterns here take time in proportion to the line: no two parts beside each other match the same blanks
_ROW = re.compile(rf"{_NAME}(?:\s*:)?((?:\s+\d{{1,300}}\.\d{{3}}){{4}}(?:(?:\s+\d{{1,300}}\.\d{{3}}){{3}})?)")
# a row that is torn: outside of a table it must begin like one; inside, anything with such a figure or name is one
TORN_OUTSIDE = re.compile(rf"{_NAME}(?:\s*:)?\s+[\d.](?!.*\bsec\b)")
_TORN_INSIDE = re.compile(rf"(?<![\d.])\d+\.\d{{3}}(?![\d.])|{_NAME}\b")


_FIGURE = re.compile(r"\.\d{3}(?![\d.])")
_MOST_DAMAGED = 20


def may_be_of_a_table(line: str) -> bool:
    """Whether a line may be a row of a table, its heading, or what is left of them; quick for what is not."""
    names = "File " in line or "Directory " in line or "Tree " in line
    return names or line.startswith("Operation") or bool(_FIGURE.search(line))


class Rate(NamedTuple):
    """A row of the table, in operations per second, in the table's own order."""

    maximum: float
    minimum: float
    mean: float
    stddev: float


@dataclass
class Table:
    """A table while its lines are read.

    `count`: the tasks and items that the line before it tells; `times`: the table of times that follows (-P).
    """

    kind: str  # rate or time
    unit: str  # as the title has it
    iterations: int
    count: tuple[int, int, str] | None
    per_rank: bool = False
    closed: bool = False
    rates: dict[str, Rate] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    times: Table | None = None

    def add(self, line: str) -> None:
        """A line below the title, up to the last row. Lines that look like nothing of a table are noise."""
        if len(self.problems) >= _MOST_DAMAGED and not line.startswith(_LAST):
            return  # no row of it counts any more
        row = _ROW.fullmatch(line)
        if row:
            figures = [float(figure) for figure in row[2].split()]
            name = row["name"]
            if len(figures) != (7 if self.per_rank else 4):
                self.problems.append(f"the row {name} has {len(figures)} figures, which does not fit the heading")
            if name in self.rates:
                self.problems.append(f"the row {name} is there twice")
            elif any(ORDER[other] > ORDER[name] for other in self.rates):
                self.problems.append(f"the row {name} is not where mdtest prints it")
            self.rates.setdefault(name, Rate(*figures[-4:]))  # --showRankStatistics: the last four are per iteration
            self.closed = name == _LAST
        elif line.startswith("Operation"):
            self.per_rank = "per Rank" in line
        elif "(stonewall)" not in line and _TORN_INSIDE.search(line):
            self.problems.append(f"a row of the table is damaged: {quote(line)}")
