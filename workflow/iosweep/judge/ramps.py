"""Ramps: how far an axis is climbed. Pure; the rule is in config/README.md.

A climb is the points of a sweep that differ in one axis alone, in ascending order.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from iosweep.judge import statistics
from iosweep.judge.knee import SHARE, deviation, far_below
from iosweep.plan.model import Plan, Point, SweepFacts
from iosweep.store.record import Repetition
from iosweep.tools import Value, parameters

#: A step that exceeds the best one before it by no more than this share has gained nothing.
LEAST_GAIN = 0.03
#: The same while each step has one repetition, which says nothing of the noise. More repetitions decide anew, and the
#: climb goes on if it ended too early.
LEAST_GAIN_OF_ONE = 0.10
#: Steps in a row, without a gain in any phase, that end a climb.
FLAT_STEPS = 2

#: Why a step gets no further repetitions.
FAR_BELOW = f"not needed: far below {100 * SHARE:g} % of the peak"

#: phase -> its figures.
Figures = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Climb:
    """The points of a climb with their values of the axis, in ascending order."""

    sweep: str
    axis: str
    points: tuple[Point, ...]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Reached:
    """How far a climb has come. needed: its first points that have to be measured; top: the last step that gained
    something, where that ended the climb, else None."""

    needed: int
    top: int | None = None


def climbs(plan: Plan) -> Iterator[Climb]:
    """The climbs of all sweeps with a ramp."""
    points = {point.id: point for point in plan.points} if any(sweep.ramp for sweep in plan.sweeps) else {}
    for sweep in plan.sweeps:
        if sweep.ramp:
            yield from _of_sweep(sweep, sweep.ramp, [points[id] for id in sweep.points])


def _of_sweep(sweep: SweepFacts, axis: str, points: Sequence[Point]) -> Iterator[Climb]:
    groups: dict[tuple[object, ...], list[tuple[int, Point]]] = {}
    for point in points:
        values: dict[str, Value | None] = {**point.options, "nodes": point.nodes}
        place = values.pop(axis, None)
        others = tuple(sorted((name, str(value)) for name, value in values.items()))
        groups.setdefault(others, []).append((place if isinstance(place, int) else 1, point))
    for found in groups.values():
        found.sort(key=lambda one: one[0])
        yield Climb(sweep.name, axis, tuple(p for _, p in found), tuple(value for value, _ in found))


def reached(steps: Sequence[Figures | None]) -> Reached:
    """How far a climb has come. `steps`: the figures of each step in order, None where it has not been tried.

    What was not tried is passed over: the caller decides whether it has to be waited for. Repetitions that have no
    figure say nothing; a step without any neither gains nor stays behind.
    """
    ends = [_end(phase, steps) for phase in dict.fromkeys(p for step in steps for p in step or ())]
    if not ends or None in ends:
        return Reached(len(steps))
    known = [end for end in ends if end is not None]
    return Reached(max(last for last, _ in known) + 1, max(top for _, top in known))


def decided(steps: Sequence[Figures | None]) -> list[bool]:
    """Whether further repetitions of each step would decide nothing: in every phase it is far below the peak.

    A step that lacks the figure of a phase is undecided.
    """
    phases = dict.fromkeys(p for step in steps for p in step or ())
    below = [far_below([(step or {}).get(phase, ()) for step in steps]) for phase in phases]
    return [all(found) for found in zip(*below, strict=True)] if below else [False] * len(steps)


def _end(phase: str, steps: Sequence[Figures | None]) -> tuple[int, int] | None:
    """(the step that ends a climb, the last one that gained something) as one phase has it; None: it goes on."""
    logs = {i: [math.log(v) for v in step[phase] if v > 0] for i, step in enumerate(steps) if step and step.get(phase)}
    logs = {i: own for i, own in logs.items() if own}
    noise = deviation(list(logs.values()))
    best: list[float] | None = None
    top = flat = 0
    for i, own in logs.items():
        if best is None or fmean(own) - fmean(best) > _least(noise, len(own), len(best)):
            top, flat = i, 0
        else:
            flat += 1
            if flat == FLAT_STEPS:
                return i, top
        if best is None or fmean(own) > fmean(best):
            best = own
    return None


def _least(noise: tuple[float, int] | None, own: int, best: int) -> float:
    """The least difference of two means of logarithms that is a gain: more than half its 95 % interval.

    noise: the deviation of all steps, because the few repetitions of two steps say little of it; own, best: how many
    the two means are of.
    """
    if noise is None:
        return math.log1p(LEAST_GAIN_OF_ONE)
    sd, freedom = noise
    half = statistics.student_t(freedom) * sd * math.sqrt(1 / own + 1 / best)
    return max(math.log1p(LEAST_GAIN), half)


def why(climb: Climb, top: int) -> str:
    """Why the rest of a climb is not needed: `not needed: no certain gain above queue depth 32`."""
    option = next(option for option in parameters().values() if option.name == climb.axis)
    value = climb.values[top]
    what = (
        f"{value} {option.singular if value == 1 else option.shown}" if option.singular else f"{option.shown} {value}"
    )
    return f"not needed: no certain gain above {what}"


def figures(repetitions: Iterable[Repetition]) -> dict[str, list[float]]:
    """phase -> the figures of some repetitions."""
    by_phase: dict[str, list[float]] = {}
    for repetition in repetitions:
        for row in repetition.rows:
            if row.headline is not None:
                by_phase.setdefault(row.phase, []).append(row.headline)
    return by_phase


@dataclass(frozen=True)
class Ramped:
    """Points that are not measured now. unneeded: point -> why it needs no (further) repetitions; waiting: those that a
    climb may still reach."""

    unneeded: Mapping[str, str]
    waiting: Collection[str]


def state(plan: Plan, figures: Mapping[str, Figures | None], absent: Collection[str]) -> Ramped:
    """What the ramps of a plan leave out. figures: point -> its figures, None or not there if it was never measured;
    absent: points that are not measured (now), which no climb waits for.

    A point that another sweep asks for, too, is measured if any of them needs it. A climb waits for a step of the same
    allocation; other allocations are jobs of their own, which decide by what the store has when they run.
    """
    needed: set[str] = set()
    waiting: set[str] = set()
    unneeded: dict[str, str] = {}
    allocations = {p.id: a.name for a in plan.allocations for p in a.points} if plan.sweeps else {}
    free = {sweep.name for sweep in plan.sweeps if not sweep.ramp}
    for climb in climbs(plan):
        steps = [figures.get(p.id) for p in climb.points]
        found = reached(steps)
        enough = decided(steps[: found.needed])
        awaited: set[str] = set()  # allocations with a step that was not measured yet
        for i, point in enumerate(climb.points):
            if not free.isdisjoint(point.sweeps):
                needed.add(point.id)
            elif i >= found.needed:
                unneeded[point.id] = why(climb, found.top or 0)
            elif enough[i]:
                unneeded[point.id] = FAR_BELOW
            elif allocations[point.id] in awaited:
                waiting.add(point.id)
            else:
                needed.add(point.id)
            if figures.get(point.id) is None and point.id not in absent:
                awaited.add(allocations[point.id])
    waiting -= needed
    return Ramped({p: reason for p, reason in unneeded.items() if p not in needed | waiting}, waiting)
