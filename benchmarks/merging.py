"""From the store to the tables: `iosweep tables`, next to a few lines of Python that read the same records."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import campaigns
from measure import IOSWEEP, CannotRun, Row, Size, child, in_turn, median, megabytes, seconds

CPU_S, CPU_IN_FULL_S, BYTES_IN_FULL = 2.0, 15.0, 1e9
_PLAIN = Path(__file__).resolve().parent / "plain_merge.py"


def run(size: Size, work: Path) -> Iterator[Row]:
    """CPU time is judged at the usual size, memory at ten times that."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH, and the results are made from one of its own")
    yield from _merge(size.merged_results, 1, size.rounds, work)
    if size.merged_in_full:
        yield from _merge(size.merged_in_full // 10, 10, 1, work)


def _merge(points: int, repetitions: int, rounds: int, work: Path) -> Iterator[Row]:
    """CPU time is of all processes, memory of the largest."""
    name = f"merge-{repetitions}"
    made = campaigns.planned(work, name, [campaigns.fio_sweep(campaigns.grid(points), repetitions=repetitions)])
    plan_file = campaigns.written(made, work, name)
    results = work / "results" / name
    raw_bytes = campaigns.fill(made, results, work, repetitions)
    merge = [*IOSWEEP, "tables", plan_file]
    plain, ours = in_turn(
        rounds,
        lambda: child([sys.executable, _PLAIN, results, work / "plain.csv"], work),
        lambda: child(merge, work),
    )
    shown = f"{len(made.points) * repetitions:,} results of {raw_bytes / 1000:.0f} kB, {rounds}×"
    usual = repetitions == 1
    more = "" if usual else ", ten times as many"
    for what, field, budget in (("CPU", "cpu_s", CPU_S if usual else CPU_IN_FULL_S), ("wall", "wall_s", None)):
        took_s, beside_s = median(ours, field), median(plain, field)
        yield Row("tables", what + more, shown, seconds(took_s), f"plain Python {seconds(beside_s)}",
                  f"{took_s / beside_s:.1f}", f"≤ {budget:.0f} s" if budget else "",
                  took_s <= budget if budget else None)  # fmt: skip
    memory = max(took.max_rss_bytes for took in ours)
    budget = "" if usual else f"≤ {megabytes(BYTES_IN_FULL)}"
    yield Row("tables", "memory" + more, shown, megabytes(memory), budget=budget,
              met=None if usual else memory <= BYTES_IN_FULL)  # fmt: skip
