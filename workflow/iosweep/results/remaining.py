"""What is left to measure: plan + store -> repetitions. Pure, and the only place that decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iosweep.node.pinning import bound
from iosweep.plan.launchers import Launcher
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.results.store import Result
from iosweep.target.filesystem import volume
from iosweep.tools import tools

#: A repetition whose failure another try can cure is tried once more. How many are is limits.retried, but at least so
#: many: on a node that is always busy, trying everything twice cures nothing.
RETRIED_LEAST = 3


@dataclass(frozen=True)
class Here:
    """What this machine offers. An identity that is not known is not compared.

    tools: tool -> sha256 of its binary, or None where it is absent. target: facts that identify the file system, as
    filesystem.volume takes them.
    mpiexec: paths of what may be MPICH's; None where that cannot be seen from here.
    """

    tools: Mapping[str, str | None] = field(default_factory=dict)
    launcher: Launcher | None = None
    mpiexec: Sequence[str] | None = ()
    target: Mapping[str, Any] | None = None


def left(
    plan: Plan,
    results: Mapping[str, Mapping[int, Result]],
    missing: Mapping[str, Mapping[str, Any]],
    here: Here,
    only: str | None = None,
) -> dict[str, dict[str, list[int]]]:
    """allocation -> point -> numbers of the repetitions that are left, in order; only what has something left.

    A repetition is done once it has an outcome, whatever its verdict; failures that another try can cure stay open
    within a budget of tries, and so do results of another tool build or target, and damaged ones. A point that was
    found missing is not left while what it needs is still absent.
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
    """How many repetitions of an allocation may still be tried again."""
    share = plan.limits["retried"]
    planned = sum(p.repetitions.min for p in allocation.points)
    spent = sum(r.retried for p in allocation.points for r in results.get(p.id, {}).values())
    return max(RETRIED_LEAST, int(share * planned)) - spent if share else 0


def chosen(only: str, point: Point) -> bool:
    """Whether `only` is in the point's id, or in the name of one of its sweeps."""
    return only in point.id or any(only in sweep for sweep in point.sweeps)


def counts(found: Mapping[str, Mapping[str, list[int]]]) -> dict[str, dict[str, int]]:
    """The same with numbers of repetitions, as `forecast.of` takes it."""
    return {allocation: {point: len(n) for point, n in points.items()} for allocation, points in found.items()}


def lacking(record: Mapping[str, Any] | None, here: Here, plan: Plan) -> bool:
    """Whether what a missing point needs is still absent."""
    needs = (record or {}).get("needs", {})
    if "time_s" in needs:
        limit = plan.limits["time"]
        return plan.limits.get("over_time") == "trim" and limit is not None and bool(limit <= needs["time_s"])
    if "cpus" in needs:  # what the nodes have is not seen from here: as long as the same is asked of them
        return bool(needs["cpus"] == plan.cpus)
    if "tool" in needs:
        # absent, or the same binary that did not run
        return here.tools.get(needs["tool"]) in (None, needs.get("sha256"))
    if "mpiexec" in needs and here.mpiexec is not None:
        return list(needs["mpiexec"]) == list(here.mpiexec)  # nothing new that could be it
    if "launcher" in needs:
        return bool(here.launcher and here.launcher.name == needs["launcher"])  # it is asked for no other way to start
    return here.mpiexec is None and "mpiexec" in needs  # what the launcher lacks, it is asked itself


def _have(plan: Plan, point: Point, results: Mapping[int, Result], here: Here) -> tuple[dict[int, Result], list[int]]:
    """Stored repetitions that count, and the numbers of those among them that another try may cure."""
    have = {number: result for number, result in results.items() if current(result, plan, point, here)}
    return have, [number for number, r in have.items() if r.retry and not r.retried]


def current(result: Result, plan: Plan, point: Point, here: Here) -> bool:
    """Whether a result is whole, of this target and tool build, and its ranks were bound as they would be now."""
    asked = {key: plan.target[key] for key in ("directory", "layout")}
    if not result.intact or any(result.target[key] != value for key, value in asked.items()):
        return False
    build = here.tools.get(point.tool)
    if build is not None and result.tool_sha256 != build:
        return False
    if here.launcher and result.bound != bound(plan.cpus, here.launcher.allocated, tools()[point.tool].mpi):
        return False
    return not elsewhere(result, plan, here)


def elsewhere(result: Result, plan: Plan, here: Here) -> bool:
    """Whether a result is of another target than the one that is to be measured now."""
    if result.target["directory"] != plan.target["directory"]:
        return True
    return here.target is not None and volume(result.target) != volume(here.target)


def still_wanted(point: Point, have: Mapping[int, Result]) -> list[int]:
    """Numbers of the repetitions that a point still needs, where those in `have` count. Of a point that is measured
    until its interval is narrow enough, at most the next one."""
    wanted = point.repetitions
    numbers = [n for n in range(1, wanted.min + 1) if n not in have]
    if numbers or wanted.half_width is None or len(have) >= wanted.max:
        return numbers
    if narrow_enough(list(have.values()), wanted.half_width):
        return []
    return [next(n for n in range(1, wanted.max + 1) if n not in have)]


def narrow_enough(results: list[Result], half_width: float) -> bool:
    """Whether the 95 % confidence interval (Student's t) of every phase's headline is within this share of its mean.

    Phases without a figure do not count: what failed is not measured more often.
    """
    from scipy import stats  # late: 0.7 s

    by_phase: dict[str, list[float]] = {}
    for result in results:
        for phase, value in result.headlines:
            if value:
                by_phase.setdefault(phase, []).append(value)
    for values in by_phase.values():
        if len(values) < 2:
            if len(values) < len(results):
                continue
            return False
        mean = sum(values) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
        if stats.t.ppf(0.975, len(values) - 1) * (variance / len(values)) ** 0.5 > half_width * mean:
            return False
    return True
