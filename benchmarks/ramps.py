"""How well a ramp finds the knee of a device whose knee is known, and how much of the full sweep it measures.

    python benchmarks/ramps.py [--campaigns 1000] [--noise 0.05]

The device is a closed loop with a set latency and width: so many I/Os are in flight as the depth asks for, and it works
on at most `width` of them, so its rate is min(depth, width) / latency, times lognormal noise. Campaigns are decided by
the functions that the runner and the report use; no process is started.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from iosweep.results.knee import SHARE, knee
from iosweep.results.ramps import reached

LATENCY_S = 1e-4


@dataclass(frozen=True)
class Climbed:
    """What a simulated campaign found. runs: repetitions that were measured."""

    runs: int
    step: int
    low: int
    high: int


def rate(depth: int, width: float) -> float:
    """I/Os per second."""
    return min(depth, width) / LATENCY_S


def climb(depths: Sequence[int], width: float, noise: float, repetitions: int, draw: random.Random) -> Climbed:
    """Measure as the runner does: each repetition of all points that are needed before the next one."""
    figures: list[list[float]] = [[] for _ in depths]
    while True:
        needed = reached([{"rand_read": values} if values else None for values in figures]).needed
        first = next((i for i in range(needed) if not figures[i]), None)  # the climb waits for it
        open_ = [i for i in range(needed if first is None else first + 1) if len(figures[i]) < repetitions]
        if not open_:
            break
        number = min(len(figures[i]) for i in open_)
        for i in open_:
            if len(figures[i]) == number:
                figures[i].append(rate(depths[i], width) * math.exp(draw.gauss(0, noise)))
    found = knee([values for values in figures if len(values) == repetitions])
    assert found is not None
    low, high = (found.step, found.step) if found.low is None or found.high is None else (found.low, found.high)
    return Climbed(sum(map(len, figures)), found.step, low, high)


def true_step(depths: Sequence[int], width: float) -> int:
    """The first depth that reaches SHARE of the peak, in truth."""
    return next(i for i, depth in enumerate(depths) if rate(depth, width) >= SHARE * rate(depths[-1], width))


def row(depths: Sequence[int], width: float, noise: float, repetitions: int, campaigns: int) -> tuple[float, ...]:
    """Shares of the campaigns: knee within a step, knee exact, interval holds it; and runs as a share of the full
    sweep: mean, and the largest."""
    draw = random.Random(f"{width} {noise} {repetitions} {len(depths)}")
    truth = true_step(depths, width)
    found = [climb(depths, width, noise, repetitions, draw) for _ in range(campaigns)]
    shares = [one.runs / (len(depths) * repetitions) for one in found]
    return (
        sum(abs(one.step - truth) <= 1 for one in found) / campaigns,
        sum(one.step == truth for one in found) / campaigns,
        sum(one.low <= truth <= one.high for one in found) / campaigns,
        sum(shares) / campaigns,
        max(shares),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=1000, help="simulated campaigns of each row; default: 1000")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.02, 0.05, 0.1], help="standard deviations")
    parser.add_argument("--widths", type=int, nargs="+", default=[2, 4, 8, 16], help="widths of the device")
    parser.add_argument("--steps", type=int, default=12, help="depths from 1, each twice the one before; default: 12")
    parser.add_argument("--repetitions", type=int, nargs="+", default=[3, 5], help="repetitions of each point")
    arguments = parser.parse_args()
    depths = [2**n for n in range(arguments.steps)]
    print(
        f"| width (knee), depths 1 to {depths[-1]} | noise | repetitions | within a step | exact | interval has it"
        " | runs, of the full sweep | at most |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for repetitions in arguments.repetitions:
        for noise in arguments.noise:
            for width in arguments.widths:
                one, exact, held, mean, most = row(depths, width, noise, repetitions, arguments.campaigns)
                print(
                    f"| {width} | {100 * noise:g} % | {repetitions} | {100 * one:.1f} % | {100 * exact:.1f} %"
                    f" | {100 * held:.1f} % | {100 * mean:.0f} % | {100 * most:.0f} % |"
                )


if __name__ == "__main__":
    main()
