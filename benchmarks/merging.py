"""From the store to the tables: `iosweep merge`, next to a few lines of Python that read the same archives."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import campaigns
from measure import IOSWEEP, CannotRun, Row, Size, Took, child, in_turn, median, megabytes, seconds

CPU_S, BYTES_IN_FULL = 3.0, 1e9
#: Of a phase with as many rates over time as most campaigns have.
LONG = "10s"
_PLAIN = Path(__file__).resolve().parent / "plain_merge.py"


def run(size: Size, work: Path) -> Iterator[Row]:
    """CPU time is judged at the usual size, memory at ten times that."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH, and the results are made from one of its own")
    plain, ours, shown = _merge(size.merged_results, 1, size.rounds, work)
    cpu_s, beside = median(ours, "cpu_s"), median(plain, "cpu_s")
    yield Row("merge", "CPU", shown, seconds(cpu_s), f"plain Python {seconds(beside)}", f"{cpu_s / beside:.1f}",
              f"≤ {CPU_S:.0f} s", cpu_s <= CPU_S)  # fmt: skip
    yield Row("merge", "wall", shown, seconds(median(ours)), f"plain Python {seconds(median(plain))}",
              f"{median(ours) / median(plain):.1f}")  # fmt: skip
    yield Row("merge", "memory", shown, megabytes(max(t.max_rss_bytes for t in ours)))
    plain, ours, shown = _merge(size.merged_results // 10, 1, size.rounds, work, LONG)
    yield Row("merge", f"CPU, phases of {LONG}", shown, seconds(median(ours, "cpu_s")),
              f"plain Python {seconds(median(plain, 'cpu_s'))}",
              f"{median(ours, 'cpu_s') / median(plain, 'cpu_s'):.1f}")  # fmt: skip
    if size.merged_in_full:
        _, ours, shown = _merge(size.merged_in_full // 10, 10, 1, work)
        memory = max(t.max_rss_bytes for t in ours)
        yield Row("merge", "memory, ten times as many", shown, megabytes(memory),
                  budget=f"≤ {megabytes(BYTES_IN_FULL)}", met=memory <= BYTES_IN_FULL)  # fmt: skip
        yield Row("merge", "CPU, ten times as many", shown, seconds(median(ours, "cpu_s")))


def _merge(
    points: int, repetitions: int, rounds: int, work: Path, phase_time: str = "1s"
) -> tuple[list[Took], list[Took], str]:
    """What plain Python and `iosweep merge` took, and how much it was. phase_time: of the run that is copied."""
    name = f"merge-{repetitions}-{phase_time}"
    sweep = campaigns.fio_sweep(campaigns.grid(points), phase_time, repetitions)
    made = campaigns.planned(work, name, [sweep])
    plan_file = campaigns.written(made, work, name)
    results = work / "results" / name
    raw_bytes = campaigns.fill(made, results, work, repetitions, phase_time)
    plain, ours = in_turn(
        rounds,
        lambda: child([sys.executable, _PLAIN, results, work / "plain.csv"], work),
        lambda: child([*IOSWEEP, "merge", plan_file], work),
    )
    return plain, ours, f"{len(made.points) * repetitions:,} results of {raw_bytes / 1000:.0f} kB, {rounds}×"
