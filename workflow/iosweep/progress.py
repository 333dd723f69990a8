"""What is left to measure: plan + store -> repetitions. Pure, and the only place that decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iosweep.plan import Plan, Point
from iosweep.store import Result

#: So many tries may a repetition have whose failure another try can cure,
TRIES = 2
#: and so large a share of an allocation's repetitions (at least so many) may be tried again: on a node that is always
#: busy, trying everything twice cures nothing.
RETRIED_SHARE, RETRIED_LEAST = 0.1, 3


@dataclass(frozen=True)
class Here:
    """What this machine offers. An identity that is not known is not compared.

    tools: tool -> sha256 of its binary, or None where it is absent. nodes: most nodes that a launcher reaches, or None.
    target: facts that identify the file system, or None.
    """

    tools: Mapping[str, str | None] = field(default_factory=dict)
    nodes: int | None = None
    target: Mapping[str, Any] | None = None


def left(
    plan: Plan, results: Mapping[str, Mapping[int, Result]], missing: Mapping[str, Mapping[str, Any]], here: Here,
    only: str | None = None,
) -> dict[str, dict[str, list[int]]]:  # fmt: skip
    """allocation -> point -> numbers of the repetitions that are left, in order; only what has something left.

    A repetition is done once it has an outcome, whatever its verdict; failures that another try can cure stay open
    within a budget of tries, and so do results of another tool build or target, and damaged ones. A point that was
    found missing is not left while what it needs is still absent.
    """
    found: dict[str, dict[str, list[int]]] = {}
    for allocation in plan.allocations:
        planned = sum(p.repetitions.min for p in allocation.points)
        retried = sum(r.attempt > 1 for p in allocation.points for r in results.get(p.id, {}).values())
        budget = max(RETRIED_LEAST, int(RETRIED_SHARE * planned)) - retried
        for point in allocation.points:
            if only and only not in point.id and not any(only in sweep for sweep in point.sweeps):
                continue
            if lacking(missing.get(point.id), here):
                continue
            have, curable = _have(plan, point, results.get(point.id, {}), here)
            for number in curable[: max(0, budget)]:
                del have[number]
                budget -= 1
            if numbers := _still_wanted(point, have):
                found.setdefault(allocation.name, {})[point.id] = numbers
    return found


def counts(found: Mapping[str, Mapping[str, list[int]]]) -> dict[str, dict[str, int]]:
    """The same with numbers of repetitions, as `plan.forecast` takes it."""
    return {allocation: {point: len(n) for point, n in points.items()} for allocation, points in found.items()}


def lacking(record: Mapping[str, Any] | None, here: Here) -> bool:
    """Whether what a missing point needs is still absent."""
    needs = (record or {}).get("needs", {})
    if "tool" in needs:
        return here.tools.get(needs["tool"]) is None
    if "nodes" in needs:
        return here.nodes is not None and here.nodes < needs["nodes"]
    return False


def _have(plan: Plan, point: Point, results: Mapping[int, Result], here: Here) -> tuple[dict[int, Result], list[int]]:
    """Stored repetitions that count, and the numbers of those among them that another try may cure."""
    have = {number: result for number, result in results.items() if _counts(result, plan, point, here)}
    return have, [number for number, r in have.items() if r.record["retry"] and r.attempt < TRIES]


def _counts(result: Result, plan: Plan, point: Point, here: Here) -> bool:
    """Whether a result is whole, and of this target and tool build."""
    record = result.record
    if not result.intact or record["target"]["directory"] != plan.target["directory"]:
        return False
    build = here.tools.get(point.tool)
    if build is not None and record["tool"]["sha256"] != build:
        return False
    return here.target is None or all(record["target"].get(k) == v for k, v in here.target.items())


def _still_wanted(point: Point, have: Mapping[int, Result]) -> list[int]:
    wanted = point.repetitions
    numbers = [n for n in range(1, wanted.min + 1) if n not in have]
    if numbers or wanted.half_width is None or len(have) >= wanted.max:
        return numbers
    if narrow_enough([r.record for r in have.values()], wanted.half_width):
        return []
    return [next(n for n in range(1, wanted.max + 1) if n not in have)]


def narrow_enough(records: list[Mapping[str, Any]], half_width: float) -> bool:
    """Whether the 95 % confidence interval (Student's t) of every phase's headline is within this share of its mean.

    Phases without a figure do not count: what failed is not measured more often.
    """
    from scipy import stats  # late: 0.7 s

    for phase in records[0]["phases"]:
        name = phase["phase"]
        values = [p["headline"] for r in records for p in r["phases"] if p["phase"] == name and p["headline"]]
        if len(values) < 2:
            if len(values) < len(records):
                continue
            return False
        mean = sum(values) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
        width = stats.t.ppf(0.975, len(values) - 1) * (variance / len(values)) ** 0.5
        if width > half_width * mean:
            return False
    return True
