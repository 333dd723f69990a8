"""The best of several points, by the repetitions that chose among them. Pure: the runner and the report ask here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True)
class Candidate:
    """A phase of a point. values: its figures that choose, at least one; undisturbed: they are those of its valid
    repetitions alone; figures: of all repetitions that could choose and count, as the tables have them."""

    point: str
    values: Sequence[float]
    undisturbed: bool
    figures: Sequence[float]


def candidate(point: str, repetitions: Iterable[tuple[float | None, bool]]) -> Candidate | None:
    """A phase of a point, by its repetitions that choose: (figure, None where none counts; whether it is valid) of
    each. None without a figure.

    Valid repetitions choose alone where they are at least half of the point's own: what happens to most of them belongs
    to the point. Other points do not matter for that: an allocation knows its own only, and has to find the same point
    that the report does among all.
    """
    found = list(repetitions)
    figures = [figure for figure, _ in found if figure is not None]
    valid = [figure for figure, valid in found if valid and figure is not None]
    undisturbed = 2 * len(valid) >= len(found)
    return Candidate(point, valid if undisturbed else figures, undisturbed, figures) if figures else None


def best(candidates: Iterable[Candidate | None], lowest: bool = False) -> Candidate | None:
    """The best undisturbed one by the mean of the values that choose; the best of the others only where there is none.
    None without any.

    Of equal ones the first by name: the report has to find the point that the runner has confirmed.
    """
    sign = 1 if lowest else -1
    found = (one for one in candidates if one)
    return min(found, key=lambda one: (not one.undisturbed, sign * fmean(one.values), one.point), default=None)
