"""Which repetitions are left to measure: plan + store -> numbers. Pure, and decided only here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from iosweep.node.pinning import bound
from iosweep.plan.launchers import Launcher
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.results import statistics
from iosweep.results.campaign_documents import Missing
from iosweep.results.committed import Result
from iosweep.results.record import Target
from iosweep.target.filesystem import volume
from iosweep.tools import tools

#: Repetitions of an allocation that may be tried a second time even if limits.retried allows fewer (0 allows none).
#: There is a limit because on a node that is always busy a second try cures nothing.
RETRIED_LEAST = 3


@dataclass(frozen=True)
class Here:
    """What this machine offers. Unknown identities are not compared.

    tools: tool -> sha256 of its binary, None if it is absent. mpiexec: paths of programs that may be MPICH's mpiexec,
    None if that cannot be seen from here. target: facts that identify the file system, as for filesystem.volume.
    """

    tools: Mapping[str, str | None] = field(default_factory=dict)
    launcher: Launcher | None = None
    mpiexec: Sequence[str] | None = ()
    target: Mapping[str, object] | None = None


def left(
    plan: Plan,
    results: Mapping[str, Mapping[int, Result]],
    missing: Mapping[str, Missing],
    here: Here,
    only: str | None = None,
) -> dict[str, dict[str, list[int]]]:
    """allocation -> point -> numbers of the repetitions that are left, in order; without empty entries.

    A repetition with an outcome is done, whatever its verdict. Failures that another try may cure stay open within a
    budget of tries; results of another tool build or target and damaged ones are measured again. A missing point is
    not left while what it needs is still absent.
    """
    found: dict[str, dict[str, list[int]]] = {}
    for allocation in plan.allocations:
        budget = _retries(plan, allocation, results)
        for point in allocation.points:
            if only and not chosen(only, point):
                continue
            if lacking(missing.get(point.id), here, plan) or (here.launcher and here.launcher.lacks(point)):
                continue
            have, curable = _have(plan, point, results.get(point.id, {}), here)
            for number in curable[: max(0, budget)]:
                del have[number]
                budget -= 1
            if numbers := still_wanted(point, have):
                found.setdefault(allocation.name, {})[point.id] = numbers
    return found


def _retries(plan: Plan, allocation: Allocation, results: Mapping[str, Mapping[int, Result]]) -> int:
    """Number of repetitions of an allocation that may still be tried again."""
    share = plan.limits.retried
    planned = sum(p.repetitions.min for p in allocation.points)
    spent = sum(r.retried for p in allocation.points for r in results.get(p.id, {}).values())
    return max(RETRIED_LEAST, int(share * planned)) - spent if share else 0


def chosen(only: str, point: Point) -> bool:
    """Whether `only` is in the point's id, or in the name of one of its sweeps."""
    return only in point.id or any(only in sweep for sweep in point.sweeps)


def counts(found: Mapping[str, Mapping[str, list[int]]]) -> dict[str, dict[str, int]]:
    """The same with numbers of repetitions, as `forecast.of` takes it."""
    return {allocation: {point: len(n) for point, n in points.items()} for allocation, points in found.items()}


def lacking(missing: Missing | None, here: Here, plan: Plan) -> bool:
    """Whether what a missing point needs is still not there."""
    if missing is None:
        return False
    needs = missing.needs
    if needs.time_s is not None:
        return out_of_time(missing, plan)
    if needs.cpus is not None:  # the nodes cannot be seen from here: other settings may cure it
        return needs.cpus == plan.cpus
    if needs.tool is not None:
        return here.tools.get(needs.tool) in (None, needs.sha256)  # it is not there, or is the one that did not run
    if needs.mpiexec is not None:
        # where it cannot be seen from here, the launcher itself says what it lacks
        return here.mpiexec is None or needs.mpiexec == tuple(here.mpiexec)
    return needs.launcher is not None and here.launcher is not None and here.launcher.name == needs.launcher


def out_of_time(missing: Missing, plan: Plan) -> bool:
    """Whether limits.time, which a point was left out for (limits.over_time: trim), has not been raised since."""
    limits, spent_s = plan.limits, missing.needs.time_s
    return spent_s is not None and limits.over_time == "trim" and limits.time is not None and limits.time <= spent_s


def _have(plan: Plan, point: Point, results: Mapping[int, Result], here: Here) -> tuple[dict[int, Result], list[int]]:
    """The stored repetitions that count, and the numbers of those that another try may cure."""
    have = {number: result for number, result in results.items() if current(result, plan, point, here)}
    return have, [number for number, r in have.items() if r.retry and not r.retried]


def current(result: Result, plan: Plan, point: Point, here: Here) -> bool:
    """Whether a result is intact, from this target and tool build, with ranks bound as they would be now."""
    if not result.intact or not measures(result.target, plan):
        return False
    build = here.tools.get(point.tool)
    if build is not None and result.tool_sha256 != build:
        return False
    if here.launcher and result.bound != bound(plan.cpus, here.launcher.allocated, tools()[point.tool].mpi):
        return False
    return not elsewhere(result, plan, here)


def measures(target: Target, plan: Plan) -> bool:
    """Whether a result's target is the directory of the plan, with the layout of the plan."""
    return (target.directory, target.layout) == (plan.target.directory, plan.target.layout)


def elsewhere(result: Result, plan: Plan, here: Here) -> bool:
    """Whether a result comes from another target than the one to be measured now."""
    if result.target.directory != plan.target.directory:
        return True
    return here.target is not None and volume(result.target.facts) != volume(here.target)


def still_wanted(point: Point, have: Mapping[int, Result]) -> list[int]:
    """Numbers of the repetitions that a point still needs besides those in `have`; at most the next one where the
    interval decides."""
    wanted = point.repetitions
    numbers = [n for n in range(1, wanted.min + 1) if n not in have]
    if numbers or wanted.half_width is None or len(have) >= wanted.max:
        return numbers
    if narrow_enough(list(have.values()), wanted.half_width):
        return []
    return [next(n for n in range(1, wanted.max + 1) if n not in have)]


def narrow_enough(results: list[Result], share: float) -> bool:
    """Whether the 95 % confidence interval of every phase's headline is within this share of its mean.

    Phases without a figure do not count: a failing phase is not repeated more often.
    """
    by_phase: dict[str, list[float]] = {}
    for result in results:
        for phase, value in result.headlines:
            if value:
                by_phase.setdefault(phase, []).append(value)
    return all(
        statistics.half_width(values) <= share * fmean(values) if len(values) > 1 else len(results) > 1
        for values in by_phase.values()
    )
