"""What each validity check adds to `iosweep tables`: its CPU time per row, over rows as the runner judges them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import campaigns
from iosweep.judge import verdict
from iosweep.judge.checks import CHECKS
from iosweep.judge.findings import Check, Observation
from iosweep.plan.model import Plan
from iosweep.store.record import Finding
from iosweep.tables.make import make_tables
from measure import Row, Size

#: Rows that are judged, and how often each check judges them all.
_ROWS, _ROUNDS = 500, 5
#: What all checks may take of a row, in s: half of the time that the budget of the tables leaves for one.
MOST_S = 150e-6


def run(_: Size, work: Path) -> Iterator[Row]:
    """A row for each check, the most expensive first, and one for all."""
    made = campaigns.planned(work, "checks", [campaigns.fio_sweep(campaigns.grid(_ROWS))])
    results = campaigns.written(made, work, "checks").parent.parent
    campaigns.fill(made, results, work)
    rows = _judged(made, results)
    taken = {check.name: _per_row_s(check, rows) for check in CHECKS}
    for name, each_s in sorted(taken.items(), key=lambda one: -one[1]):
        yield Row("checks", name, f"{len(rows)} rows, {_ROUNDS}×", f"{each_s * 1e6:.1f} µs a row")
    whole_s = sum(taken.values())
    yield Row("checks", f"all {len(taken)}", f"{len(rows)} rows, {_ROUNDS}×", f"{whole_s * 1e6:.0f} µs a row",
              budget=f"≤ {MOST_S * 1e6:.0f} µs", met=whole_s <= MOST_S)  # fmt: skip


def _judged(made: Plan, results: Path) -> list[Observation]:
    """What the checks look at, of each row."""
    rows: list[Observation] = []
    judge_phase = verdict.judge_phase

    def noted(seen: Observation) -> dict[str, Finding]:
        rows.append(seen)
        return judge_phase(seen)

    with mock.patch.object(verdict, "judge_phase", noted):
        make_tables(made, results, judge_again=True)
    return rows


def _per_row_s(check: Check, rows: list[Observation]) -> float:
    """CPU seconds per row, of the fastest round."""
    rounds = []
    for _ in range(_ROUNDS):
        begun = time.process_time()
        for seen in rows:
            check.find(seen)
        rounds.append(time.process_time() - begun)
    return min(rounds) / len(rows)
