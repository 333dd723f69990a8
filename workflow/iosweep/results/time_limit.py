"""Whether limits.time leaves time for the repetitions that `iosweep rerun` would supersede."""

from __future__ import annotations

from collections.abc import Mapping

from iosweep.files.documents import Damaged
from iosweep.plan.forecast import repetition_cost
from iosweep.plan.model import Plan, plan_files, read_plan
from iosweep.results import remaining
from iosweep.results.campaign_documents import Missing, TotalSpent
from iosweep.results.store import Store
from iosweep.text import human_count
from iosweep.units import human_duration

#: Appended to the damage of spent.json.
UNKNOWN = (
    "what limits.time and limits.bytes_written have counted so far is not known; remove the file to count from 0 again"
)


def out_of_time(store: Store, chosen: Mapping[str, int]) -> str | None:
    """`no_time` for the newest plan of a campaign; None if no plan can be read. `chosen`: as for `no_time`."""
    files = plan_files(store.path)
    try:
        plan = read_plan(files[-1])
    except (IndexError, OSError, Damaged):
        return None
    try:
        spent = store.document(TotalSpent)
    except Damaged as error:
        return f"{error}: {UNKNOWN}" if plan.limits.time is not None else None
    return no_time(plan, store.missing(), spent.spent_s if spent else 0.0, chosen)


def no_time(plan: Plan, missing: Mapping[str, Missing], spent_s: float, chosen: Mapping[str, int]) -> str | None:
    """Why the next run would not measure everything that is chosen, as a sentence; None if it would. Pure.

    chosen: point -> number of its repetitions. missing: point -> its record. spent_s: seconds counted so far.
    """
    limit = plan.limits.time
    if limit is None:
        return None
    trimmed = any(point in missing and remaining.out_of_time(missing[point], plan) for point in chosen)
    bandwidth = plan.target.node_bandwidth
    cost_s = sum(repetition_cost(p, bandwidth).time_s * chosen[p.id] for p in plan.points if p.id in chosen)
    if not trimmed and spent_s + cost_s <= limit:
        return None
    return (
        f"limits.time {human_duration(limit)} is spent: {human_duration(spent_s)} are used, and"
        f" {human_count(sum(chosen.values()), 'chosen repetition')} would take {human_duration(cost_s)}; nothing was"
        f" superseded. Raise limits.time above {human_duration(spent_s + cost_s)}, run snakemake, then rerun"
    )
