"""How a rate grows with nodes or threads, and what share of linear growth that is. Pure.

Efficiency of n is rate(n) / (n / m x rate(m)), with m the smallest count that was measured. Its interval is that of the
ratio of the two rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iosweep.analysis.aggregate import Result
from iosweep.analysis.choice import Compared
from iosweep.judge.statistics import Interval

#: Columns whose values are workers, so that the double of it could do the double.
COLUMNS = ("nodes", "threads_per_node")


@dataclass(frozen=True)
class Step:
    """A count beside the smallest one. speedup: its rate as a multiple of the smallest count's; interval: 95 % of that,
    None with too few repetitions; linear: the speedup of linear growth; strangers: nodes of the smallest count that it
    did not have."""

    result: Result
    count: int
    linear: float
    speedup: float
    interval: Interval | None
    strangers: frozenset[str]

    @property
    def efficiency(self) -> float:
        """Share of linear growth."""
        return self.speedup / self.linear

    @property
    def range(self) -> tuple[float, float] | None:
        """The 95 % interval of the efficiency."""
        return (self.interval.low / self.linear, self.interval.high / self.linear) if self.interval else None


@dataclass(frozen=True)
class Scaling:
    """A line of points that differ in nodes or threads alone (column), from the smallest count (`base`) upward."""

    column: str
    base: Result
    smallest: int
    steps: tuple[Step, ...]

    @property
    def same_nodes(self) -> bool:
        """Whether the nodes of the smallest count took part in all others."""
        return not any(step.strangers for step in self.steps)


def of_line(column: str, line: Sequence[tuple[int, Result]], compared: Compared) -> Scaling | None:
    """The scaling of points in ascending order of the column; None with fewer than two, or where the smallest count has
    a rate of zero."""
    if len(line) < 2 or line[0][0] < 1:
        return None
    smallest, base = line[0]
    if not base.headline or base.headline.mean <= 0:
        return None
    steps = tuple(
        Step(
            result,
            count,
            count / smallest,
            compared.share(result, base),
            compared.ratio(result, base),
            frozenset(strangers(base, result)),
        )
        for count, result in line[1:]
    )
    return Scaling(column, base, smallest, steps)


def strangers(result: Result, other: Result) -> set[str]:
    """Its nodes that another result did not have."""
    return set(result.hosts) - set(other.hosts)
