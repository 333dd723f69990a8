"""Whether ramps leave out the peak of curves whose truth is known, and how many runs they save.

    python benchmarks/ramps.py [--campaigns 1000] [--noise 0.05]

Each curve is a rate over an axis of 12 steps, times lognormal noise. Campaigns are decided by the functions that the
runner and the report use; no process is started.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from itertools import product
from statistics import fmean

from iosweep.judge.best import Candidate, best, reached

STEPS = 12
#: Curve -> its true rate at each step; the depths of a queue are powers of 2.
SHAPES: dict[str, list[float]] = {
    "knee at step 4": [min(2.0**i, 8) for i in range(STEPS)],
    "smooth saturation": [2.0**i / (2.0**i + 16) for i in range(STEPS)],
    "4 % a step": [1.04**i for i in range(STEPS)],
    "5 % a step": [1.05**i for i in range(STEPS)],
    "flat, then doubled": [1.0] * 6 + [2.0] * 6,
    "dip": [1, 2, 4, 8, 6, 6, 8, 12, 12, 12, 12, 12],
    "late knee": [1, 1, 1, 1, 1, 1, 1, 1, 1.5, 2, 2, 2],
    "hill, then half": [1, 1, 1, 1, 1, 2, 4, 4, 4, 3, 2, 2],
    "hill, then as before": [1, 1, 1, 1, 1, 2, 4, 4, 4, 2, 1, 1],  # what a ramp cannot see
}
#: A step with this share of the peak is as good: repetitions usually scatter by more.
SHARE = 0.95


def climb(truth: Sequence[float], noise: float, repetitions: int, draw: random.Random) -> list[list[float]]:
    """The figures of each step. Measures as the runner does: each round has all points that are needed by then."""
    figures: list[list[float]] = [[] for _ in truth]
    last = len(truth) - 1
    while True:
        needed = reached([{"rand_read": values} if values else None for values in figures]).needed
        first = next((i for i in range(needed) if not figures[i]), needed - 1)  # the climb waits for it
        open_ = [i for i in {*range(first + 1), last} if len(figures[i]) < repetitions]
        if not open_:
            return figures
        number = min(len(figures[i]) for i in open_)
        for i in open_:
            if len(figures[i]) == number:
                figures[i].append(truth[i] * math.exp(draw.gauss(0, noise)))


def chosen(figures: Sequence[Sequence[float]]) -> int:
    """The best step by its figures."""
    found = best(Candidate(str(i), values, True) for i, values in enumerate(figures) if values)
    assert found
    return int(found.point)


def simulate(truth: Sequence[float], noise: float, repetitions: int, campaigns: int) -> tuple[float, ...]:
    """Shares of campaigns: those that leave out all steps as good as the peak; those whose chosen step is not as good,
    with the ramp and in the full sweep. Share of the runs of the full sweep that are saved."""
    draw = random.Random(f"{truth} {noise} {repetitions}")
    good = [rate >= SHARE * max(truth) for rate in truth]
    left_out, wrong, wrong_full, saved = [], [], [], []
    for _ in range(campaigns):
        figures = climb(truth, noise, repetitions, draw)
        full = [[rate * math.exp(draw.gauss(0, noise)) for _ in range(repetitions)] for rate in truth]
        left_out.append(not any(is_good and values for is_good, values in zip(good, figures, strict=True)))
        wrong.append(not good[chosen(figures)])
        wrong_full.append(not good[chosen(full)])
        saved.append(1 - sum(map(len, figures)) / (len(truth) * repetitions))
    return fmean(left_out), fmean(wrong), fmean(wrong_full), fmean(saved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=1000, help="campaigns of each row; default: 1000")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.02, 0.05, 0.1], help="standard deviations")
    parser.add_argument("--repetitions", type=int, nargs="+", default=[1, 3, 5], help="default: 1 3 5")
    arguments = parser.parse_args()
    print("| curve | noise | repetitions | peak left out | wrong step chosen | in the full sweep | runs saved |")
    print("|---|---|---|---|---|---|---|")
    for (name, truth), noise, repetitions in product(SHAPES.items(), arguments.noise, arguments.repetitions):
        shares = simulate(truth, noise, repetitions, arguments.campaigns)
        cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
        print(f"| {name} | {100 * noise:g} % | {repetitions} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
