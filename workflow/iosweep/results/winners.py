"""The best of several points, by the repetitions that chose among them. Pure: the runner and the report ask here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True)
class Candidate:
    """A phase of a point. values: its figures of the repetitions that choose, at least one; valid: none of these
    repetitions is suspect or invalid."""

    point: str
    values: Sequence[float]
    valid: bool


def best(candidates: Iterable[Candidate], lowest: bool = False) -> Candidate | None:
    """The best valid one by its mean; the best of the others only where no valid one is. None without any.

    Of equal ones the first by name: the report has to find the point that the runner has confirmed.
    """
    sign = 1 if lowest else -1
    return min(candidates, key=lambda one: (not one.valid, sign * fmean(one.values), one.point), default=None)
