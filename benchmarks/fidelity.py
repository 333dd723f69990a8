"""Does fio report the same through iosweep as by hand?

The runner measures one point again and again, by its own path; before and after each repetition the same command runs
by hand, without the logs of rates over time that iosweep asks fio for. Each round is one run through iosweep between
two by hand, in an order drawn for the round. The two by hand, compared with each other, say how much the machine
itself differs from run to run.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import campaigns
from iosweep.store.record import Record
from measure import Row, Size, interval

#: What repeats best is what the device bounds, not the latency of single I/Os: see benchmarks/README.md.
SWEEP = {
    "tool": "fio",
    "phases": ["rand_read"],
    "axes": {"queue_depth": [64]},
    "options": {"file_size": "64m", "transfer_size": "4k", "threads_per_node": 2},
    "phase_time": "1s",
}
BAND = (0.98, 1.02)


class _Rounds(campaigns.Silent):
    """Runs the commands by hand around the runner's repetitions. The first repetition prepares the files."""

    def __init__(self, commands: Mapping[int, list[str]]):
        draw = random.Random(1)
        self._commands = commands
        self._before = {number: draw.randrange(3) for number in commands}  # so many of the two runs by hand
        self.by_hand: dict[int, list[float]] = {number: [] for number in commands}
        self.through: dict[int, float | None] = {}

    def finished(self, record: Record, cost_s: float) -> None:
        number = record.repetition
        if record.attempt > 1:  # tried again because the machine was busy: its round is over
            return
        self.through[number] = record.rows[0].headline
        if number > 1:
            self._run(number, 2 - self._before[number])
        self._run(number + 1, self._before.get(number + 1, 0))

    def _run(self, number: int, times: int) -> None:
        for _ in range(times):
            done = subprocess.run(self._commands[number], capture_output=True, check=True)
            self.by_hand[number].append(json.loads(done.stdout)["jobs"][0]["read"]["iops"])


def run(size: Size, work: Path) -> Iterator[Row]:
    """One row for the fidelity, one for what it is to be compared with."""
    made = campaigns.planned(work, "fidelity", [{**SWEEP, "repetitions": size.fidelity_rounds + 1}])
    rounds = _Rounds(dict(campaigns.by_hand(made)))
    campaigns.measure(made, work / "results" / "fidelity", rounds)
    whole = [(figure, *rounds.by_hand[n]) for n, figure in rounds.through.items() if n > 1 and figure]
    ours, low, high = interval([figure / math.sqrt(a * b) for figure, a, b in whole])
    control, control_low, control_high = interval([a / b for _, a, b in whole])
    shown = f"{len(whole)} rounds of 3"
    yield Row(
        "fidelity", "IOPS through iosweep / by hand", shown, f"95 % CI {low:.3f} to {high:.3f}",
        ratio=f"{ours:.3f}", budget=f"{BAND[0]} to {BAND[1]}", met=BAND[0] <= low and high <= BAND[1],
    )  # fmt: skip
    yield Row(
        "fidelity", "by hand / by hand (the machine's noise)", shown,
        f"95 % CI {control_low:.3f} to {control_high:.3f}", ratio=f"{control:.3f}",
    )  # fmt: skip
