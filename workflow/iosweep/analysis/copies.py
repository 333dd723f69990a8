"""Whether two campaigns hold the same measurements: a copy is no other session and no other night. Pure.

A copy may have another name, place or host, fewer files, or the figures alone. So rows are compared by the figures that
a tool gave for one repetition: two runs never have all of them alike, to the last digit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iosweep.analysis.data import Row
from iosweep.text import human_count

#: Figures of one repetition by itself: other columns are over several, or depend on what is merged with it.
_RATES = ("bandwidth_bytes_per_s", "ops_per_s")
_FIGURES = (*_RATES, "runtime_s", "latency_mean_s", "io_s", "max_ops_per_s")
#: Share of the smaller campaign's measurements that the other has, from which on one is a copy of the other.
_COPY = 0.5

#: Phase, and the figures of a repetition in SI units (None: it has not this one).
Measurement = tuple[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class Shared:
    """Measurements that two campaigns have in common. of: those of the smaller campaign."""

    count: int
    of: int

    @property
    def copy(self) -> bool:
        """Whether one is a copy of the other, of all or of a large part."""
        return self.count >= _COPY * self.of

    def sentence(self, name: str, other: str) -> str:
        """`b shares 20 of 20 measurements with a: it holds copies of them`."""
        them = "a copy of that one" if self.count == 1 else "copies of them"
        return f"{name} shares {self.count:,} of {human_count(self.of, 'measurement')} with {other}: it holds {them}"


def measurements(rows: Iterable[Row]) -> frozenset[Measurement]:
    """What was measured, whatever its verdict. Rows without a rate are left out: zeros are alike by chance."""
    return frozenset(
        (row.phase, tuple(row.figures.get(column) for column in _FIGURES))
        for row in rows
        if any(row.figures.get(column) for column in _RATES)
    )


def shared(one: frozenset[Measurement], other: frozenset[Measurement]) -> Shared | None:
    """What two campaigns have in common; None if nothing."""
    count = len(one & other)
    return Shared(count, min(len(one), len(other))) if count else None


def originals(campaigns: Sequence[frozenset[Measurement]]) -> dict[int, tuple[int, Shared]]:
    """Campaigns that share measurements with an earlier one of this order: those with the most measurements first.

    Index of such a campaign -> that of the campaign with which it shares the most, and what. A campaign that is a copy
    is no original of others.
    """
    found: dict[int, tuple[int, Shared]] = {}
    owners: dict[Measurement, list[int]] = {}
    for index in sorted(range(len(campaigns)), key=lambda number: -len(campaigns[number])):
        own = campaigns[index]
        counts = Counter(owner for one in own for owner in owners.get(one, ()))
        if counts:
            other = min(counts, key=lambda owner: (-counts[owner], owner))
            found[index] = other, Shared(counts[other], len(own))
        if not counts or not found[index][1].copy:
            for one in own:
                owners.setdefault(one, []).append(index)
    return found
