"""The best of several points, by the repetitions that choose among them, and which repetitions confirm it. Pure.

The best of many noisy figures is too high by about the noise. So each allocation measures its best points once more
when all its points are measured, and a headline is made of these repetitions alone: they had no part in the choice.
The runner and the report ask here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from iosweep.plan.forecast import longest_of
from iosweep.plan.headline_groups import HeadlineGroup
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.store.record import Repetition


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


def selection(point: Point, counted: Mapping[int, Repetition]) -> dict[int, Repetition]:
    """The repetitions that choose the best point; those that confirm it are not among them."""
    return {number: result for number, result in counted.items() if not point.repetitions.confirms(number)}


def fresh_numbers(
    plan: Plan,
    allocation: Allocation,
    drawn: Mapping[HeadlineGroup, Sequence[Point]],
    counted: Mapping[str, Mapping[int, Repetition]],
    absent: Collection[str],
    unneeded: Collection[str] = (),
) -> dict[str, list[int]]:
    """point -> numbers of the repetitions that confirm it and are not there yet, by the results so far.

    drawn: the contests of the plan; unneeded: points that are not measured. Before there is any result, a point that
    takes longest stands for each best one.
    """
    found: dict[str, list[int]] = {}
    here = {point.id for point in allocation.points}
    idle = {*absent, *unneeded}
    for contest, members in drawn.items():
        own = [point for point in members if point.id in here]
        competing = (_candidate(contest, point, counted.get(point.id, {})) for point in own)
        winner = best(competing, lowest=contest.latency)
        if winner:
            point = next(one for one in own if one.id == winner.point)
        elif able := [p for p in own if p.repetitions.confirm and p.id not in idle and not counted.get(p.id)]:
            point = longest_of([one for one in able if one.id not in found] or able, plan)
        else:
            continue
        have, repetitions = counted.get(point.id, {}), point.repetitions
        fresh = [n for n in range(repetitions.max + 1, repetitions.last + 1) if n not in have]
        if fresh and point.id not in absent:
            found[point.id] = fresh
    return found


def _candidate(contest: HeadlineGroup, point: Point, counted: Mapping[int, Repetition]) -> Candidate | None:
    rows = (row for _, repetition in sorted(selection(point, counted).items()) for row in repetition.rows)
    return candidate(
        point.id,
        (
            (row.latency_mean_s if contest.latency else row.headline, row.verdict == "valid")
            for row in rows
            if row.phase == contest.phase
        ),
    )
