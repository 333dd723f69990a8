"""What is wrong in a file that a user wrote: one problem, and the exception that carries all of them."""

from __future__ import annotations

from dataclasses import dataclass

from iosweep.units import printable, shortened


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file. `line` counts from 1, 0: there are no lines; `where` is the dotted path of the
    key."""

    file: str
    line: int
    where: str
    message: str

    def __str__(self) -> str:
        where = f"{shortened(self.where, 120)}: " if self.where else ""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return printable(f"{place}: {where}{self.message}")


class ConfigError(Exception):
    """Everything that is wrong with a configuration, at once."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        super().__init__("\n".join(str(p) for p in problems))
