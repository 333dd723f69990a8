"""Which point is best, which repetitions confirm it, and where a ramp ends. Pure.

The best of many noisy figures is too high by about the noise (selection bias). So when an allocation has measured all
its points, it measures the best ones again, and the headline is from these fresh repetitions only. The runner and the
report call the same functions.

A climb is the points of a sweep that differ only in the axis of its ramp, in ascending order (config/README.md).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from iosweep.judge.statistics import student_t
from iosweep.plan.forecast import longest_of
from iosweep.plan.headline_groups import HeadlineGroup
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.store.record import RecordHead
from iosweep.tools import Option, Value, parameters


@dataclass(frozen=True)
class Candidate:
    """A phase of a point that may be the best."""

    point: str
    values: Sequence[float]  # figures to select by, at least one
    undisturbed: bool  # all values are from valid repetitions


def candidate(point: str, repetitions: Iterable[tuple[float | None, bool]]) -> Candidate | None:
    """A candidate from its repetitions; None without a figure. repetitions: (figure, None if it does not count; whether
    the repetition is valid), without those that confirm.

    If at least half of the repetitions are valid, only these count; otherwise the disturbance is a property of the
    point. The rule ignores other points: an allocation knows only its own, and must find the same best point as the
    report, which knows all.
    """
    pairs = list(repetitions)
    figures = [figure for figure, _ in pairs if figure is not None]
    valid = [figure for figure, valid in pairs if valid and figure is not None]
    undisturbed = 2 * len(valid) >= len(pairs)
    return Candidate(point, valid if undisturbed else figures, undisturbed) if figures else None


def best(candidates: Iterable[Candidate | None], lowest: bool = False) -> Candidate | None:
    """The candidate with the best geometric mean, undisturbed ones first, then by name; None without candidates."""
    sign = 1 if lowest else -1
    return min(
        filter(None, candidates), key=lambda c: (not c.undisturbed, sign * _mean_log(c.values), c.point), default=None
    )


def _mean_log(values: Sequence[float]) -> float:
    """The logarithm of the geometric mean."""
    return fmean(math.log(value) if value > 0 else -math.inf for value in values)


def selection(point: Point, counted: Mapping[int, RecordHead]) -> dict[int, RecordHead]:
    """The repetitions that select the best point: all except those that confirm it."""
    return {number: result for number, result in counted.items() if not point.repetitions.confirms(number)}


def fresh_numbers(
    plan: Plan,
    allocation: Allocation,
    groups: Mapping[HeadlineGroup, Sequence[Point]],
    counted: Mapping[str, Mapping[int, RecordHead]],
    absent: Collection[str],
    unneeded: Collection[str] = (),
) -> dict[str, list[int]]:
    """best point by the results so far -> numbers of the repetitions that confirm it in the allocation's session and
    are not stored yet.

    groups: the points that compete for each headline; counted: results up to this session; absent, unneeded: points
    that are not measured. In a group without results, the point that takes longest stands in for the best one. Points
    that are measured side by side with the best one are confirmed with it, so that they compare.
    """
    fresh: dict[str, list[int]] = {}
    own_points = {point.id: point for point in allocation.points}
    for group, members in groups.items():
        points = {point.id: point for point in members if point.id in own_points}
        candidates = []
        for point in points.values():
            selecting = sorted(selection(point, counted.get(point.id, {})).items())
            rows = [row for _, repetition in selecting for row in repetition.rows if row.phase == group.phase]
            figures = ((row.latency_mean_s if group.latency else row.headline, row.verdict == "valid") for row in rows)
            candidates.append(candidate(point.id, figures))
        if winner := best(candidates, lowest=group.latency):
            point = points[winner.point]
        else:
            possible = [p for p in points.values() if p.repetitions.confirm and p.id not in {*absent, *unneeded}]
            possible = [p for p in possible if not counted.get(p.id)]
            if not possible:
                continue
            point = longest_of([p for p in possible if p.id not in fresh] or possible, plan)
        for side in plan.side_by_side.get(point.id, (point.id,)):
            if side in own_points and side not in absent:
                stored, rule = counted.get(side, {}), own_points[side].repetitions
                fresh[side] = [n for n in rule.confirming(allocation.session) if n not in stored]
    return {point: numbers for point, numbers in fresh.items() if numbers}


# Climbs: where a ramp ends


#: A step is a gain if it exceeds the best step before it by more than this share: less does not justify twice the load.
LEAST_GAIN = 0.03
#: The same while each step has one repetition, which does not show the noise. With more repetitions the decision is
#: made anew, and the climb continues if it ended too early.
LEAST_GAIN_OF_ONE = 0.10
#: Number of consecutive steps without a gain that end the climb of a phase: a single step may be low by chance.
FLAT_STEPS = 2

#: phase of a point, or of a side of a step -> its figures.
Figures = Mapping[Any, Sequence[float]]


@dataclass(frozen=True)
class Climb:
    """The steps of a climb, in ascending order of the axis. steps: value of the axis -> its points, which are several
    where the sweep measures side by side; side: the axis in which these differ."""

    axis: str
    steps: Mapping[int, Sequence[Point]]
    side: str | None = None

    def step_figures(self, points: Sequence[Point], figures: Mapping[str, Figures | None]) -> Figures | None:
        """The figures of a step, in which each side counts as phases of its own; None if it was not measured."""
        measured = [(point.options.get(self.side or ""), figures.get(point.id)) for point in points]
        if all(known is None for _, known in measured):
            return None
        return {(side, phase): values for side, known in measured for phase, values in (known or {}).items()}


def climbs(plan: Plan) -> Iterator[Climb]:
    """The climbs of all sweeps with a ramp."""
    by_id = {point.id: point for point in plan.points}
    for sweep in plan.sweeps:
        groups: dict[tuple[object, ...], dict[int, list[Point]]] = {}
        for point in (by_id[id] for id in sweep.points) if sweep.ramp else ():
            values: dict[str, Value | None] = {**point.options, "nodes": point.nodes}
            place = values.pop(sweep.ramp or "", None)
            values.pop(sweep.side_by_side or "", None)
            others = tuple(sorted((name, str(value)) for name, value in values.items()))
            groups.setdefault(others, {}).setdefault(place if isinstance(place, int) else 1, []).append(point)
        for steps in groups.values():
            yield Climb(sweep.ramp or "", dict(sorted(steps.items())), sweep.side_by_side)


@dataclass(frozen=True)
class Reached:
    """Progress of a climb. needed: number of points, from the first, that have to be measured beside the last one; top:
    the last step with a gain, if the climb has ended."""

    needed: int
    top: int | None = None


def reached(steps: Sequence[Figures | None]) -> Reached:
    """Progress of a climb. steps: the figures of each step in order, None if it was not measured.

    A phase ends its climb after FLAT_STEPS steps without a gain, unless its last step is a gain over all of them: then
    there is a step up between them. The climb ends when all phases have ended it. Steps that were not measured are
    skipped: the caller decides whether to wait for them. A step without a figure is neither a gain nor flat. The sides
    of a step count as further phases.
    """
    ends: list[tuple[int, int]] = []  # for each phase: the step that ends the climb, the last step with a gain
    for phase in dict.fromkeys(p for step in steps for p in step or ()):
        positive = {i: [math.log(v) for v in (step or {}).get(phase, ()) if v > 0] for i, step in enumerate(steps)}
        logs = {i: values for i, values in positive.items() if values}
        noise = deviation(list(logs.values()))
        highest: list[float] | None = None
        top = flat = 0
        for i, values in logs.items():
            top, flat = (i, 0) if highest is None or _gains(values, highest, noise) else (top, flat + 1)
            if highest is None or fmean(values) > fmean(highest):
                highest = values
            if flat >= FLAT_STEPS and not _gains(logs[max(logs)], highest, noise):
                ends.append((i, top))
                break
        else:
            return Reached(len(steps))
    if not ends:
        return Reached(len(steps))
    return Reached(max(end for end, _ in ends) + 1, max(top for _, top in ends))


def deviation(logs: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """(pooled standard deviation of several steps, its degrees of freedom); None if no step has two repetitions."""
    if not (freedom := sum(len(values) - 1 for values in logs)):
        return None
    return math.sqrt(sum((value - fmean(values)) ** 2 for values in logs for value in values) / freedom), freedom


def _gains(logs: Sequence[float], highest: Sequence[float], noise: tuple[float, int] | None) -> bool:
    """Whether a step is certainly higher than the highest one before. noise: pooled over all steps, because two steps
    have too few repetitions."""
    least = math.log1p(LEAST_GAIN_OF_ONE)
    if noise:  # a gain must also exceed half of its 95 % interval
        error = noise[0] * math.sqrt(1 / len(logs) + 1 / len(highest))
        least = max(math.log1p(LEAST_GAIN), student_t(noise[1]) * error)
    return fmean(logs) - fmean(highest) > least


def figures(repetitions: Iterable[RecordHead]) -> dict[str, list[float]]:
    """phase -> its headline figures in these repetitions."""
    by_phase: dict[str, list[float]] = {}
    for repetition in repetitions:
        for row in repetition.rows:
            if row.headline is not None:
                by_phase.setdefault(row.phase, []).append(row.headline)
    return by_phase


def ramped(
    plan: Plan, figures: Mapping[str, Figures | None], absent: Collection[str]
) -> tuple[dict[str, str], set[str]]:
    """Points that ramps skip for now: (point -> why it needs no repetitions; points that a climb may still reach).

    figures: point -> its figures, None or missing if it was never measured; absent: points that are not measured (now),
    so that no climb waits for them.

    The last step that can be measured always is: a curve may be flat for a while, and then rise. A point of several
    sweeps is measured if any of them needs it. A climb waits only for steps of the same allocation: another allocation
    is another job, which reads the store when it runs.
    """
    needed: set[str] = set()
    waiting: set[str] = set()
    unneeded: dict[str, str] = {}
    allocations = {p.id: a.name for a in plan.allocations for p in a.points} if plan.sweeps else {}
    without_ramp = {sweep.name for sweep in plan.sweeps if not sweep.ramp}
    for climb in climbs(plan):
        steps = list(climb.steps.items())
        progress = reached([climb.step_figures(points, figures) for _, points in steps])
        option = next(option for option in parameters().values() if option.name == climb.axis)
        last = max((i for i, (_, points) in enumerate(steps) if any(p.id not in absent for p in points)), default=0)
        reason = f"skipped: no certain gain in two steps above {_shown(option, steps[progress.top or 0][0])}"
        if climb.step_figures(steps[last][1], figures):
            reason += f", nor at {_shown(option, steps[last][0])}"
        awaited: set[str] = set()  # allocations with an earlier step that is not measured yet
        for step, (_, points) in enumerate(steps):
            for point in points:
                if step == last or not without_ramp.isdisjoint(point.sweeps):
                    needed.add(point.id)
                elif step >= progress.needed:
                    unneeded[point.id] = reason
                elif allocations[point.id] in awaited:
                    waiting.add(point.id)
                else:
                    needed.add(point.id)
            awaited |= {allocations[p.id] for p in points if figures.get(p.id) is None and p.id not in absent}
    waiting -= needed
    return {p: reason for p, reason in unneeded.items() if p not in needed | waiting}, waiting


def _shown(option: Option, value: int) -> str:
    """`queue depth 8`, `1 node`."""
    if option.singular:
        return f"{value} {option.singular if value == 1 else option.shown}"
    return f"{option.shown} {value}"
