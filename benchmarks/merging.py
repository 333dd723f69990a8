"""From the store to the tables: `iosweep merge`, next to a few lines of Python that read the same archives."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import NamedTuple

import campaigns
from measure import IOSWEEP, CannotRun, Row, Size, Took, child, in_turn, median, megabytes, seconds

CPU_S, AGAIN_S, BYTES_IN_FULL = 3.0, 2.0, 1e9
#: Results that have changed since the merge before, and when a file counts as settled.
NEW, SETTLED_S = 10, 2.5
#: Of a phase with as many rates over time as most campaigns have.
LONG = "10s"
_PLAIN = Path(__file__).resolve().parent / "plain_merge.py"


def run(size: Size, work: Path) -> Iterator[Row]:
    """CPU time is judged at the usual size, memory at ten times that."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH, and the results are made from one of its own")
    yield from _of(_merge(size.merged_results, 1, size.rounds, work))
    found = _merge(size.merged_results // 10, 1, size.rounds, work, LONG)
    cpu_s, beside = median(found.anew, "cpu_s"), median(found.plain, "cpu_s")
    yield Row("merge", f"CPU, phases of {LONG}", found.shown, seconds(cpu_s), f"plain Python {seconds(beside)}",
              f"{cpu_s / beside:.1f}")  # fmt: skip
    if size.merged_in_full:
        found = _merge(size.merged_in_full // 10, 10, 1, work)
        yield from _of(found, ", ten times as many", AGAIN_S)
        memory = max(t.max_rss_bytes for t in found.anew)
        yield Row("merge", "memory, ten times as many", found.shown, megabytes(memory),
                  budget=f"≤ {megabytes(BYTES_IN_FULL)}", met=memory <= BYTES_IN_FULL)  # fmt: skip


def _of(found: Merged, more: str = "", again_s: float | None = None) -> Iterator[Row]:
    """CPU time is of all processes, memory of the largest. more: of the rows' names; again_s: budget of a merge of
    few new results."""
    for what, ours in (("", found.anew), (f", {NEW} changed", found.again)):
        cpu_s, beside = median(ours, "cpu_s"), median(found.plain, "cpu_s")
        budget = (CPU_S if not what else again_s) if not more or what else None
        yield Row("merge", f"CPU{what}{more}", found.shown, seconds(cpu_s), f"plain Python {seconds(beside)}",
                  f"{cpu_s / beside:.1f}", f"≤ {budget:.0f} s" if budget else "",
                  cpu_s <= budget if budget else None)  # fmt: skip
        yield Row("merge", f"wall{what}{more}", found.shown, seconds(median(ours)),
                  f"plain Python {seconds(median(found.plain))}",
                  f"{median(ours) / median(found.plain):.1f}")  # fmt: skip
    yield Row("merge", f"memory{more}", found.shown, megabytes(max(t.max_rss_bytes for t in found.anew)))


class Merged(NamedTuple):
    """What plain Python took, a merge that reads everything, and one of a few new results; and of how much."""

    plain: list[Took]
    anew: list[Took]
    again: list[Took]
    shown: str


def _merge(points: int, repetitions: int, rounds: int, work: Path, phase_time: str = "1s") -> Merged:
    """phase_time: of the run that is copied."""
    name = f"merge-{repetitions}-{phase_time}"
    sweep = campaigns.fio_sweep(campaigns.grid(points), phase_time, repetitions)
    made = campaigns.planned(work, name, [sweep])
    plan_file = campaigns.written(made, work, name)
    results = work / "results" / name
    raw_bytes = campaigns.fill(made, results, work, repetitions, phase_time)
    merge = [*IOSWEEP, "merge", plan_file]
    sleep(SETTLED_S)  # what was written a moment ago is always read again
    child([*merge, "--anew"], work)

    def again() -> Took:
        campaigns.change(results, NEW)
        return child(merge, work)

    plain, anew, more = in_turn(
        rounds,
        lambda: child([sys.executable, _PLAIN, results, work / "plain.csv"], work),
        lambda: child([*merge, "--anew"], work),
        again,
    )
    return Merged(
        plain, anew, more, f"{len(made.points) * repetitions:,} results of {raw_bytes / 1000:.0f} kB, {rounds}×"
    )
