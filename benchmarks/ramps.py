"""Whether a ramp reaches the peak of a device whose peak is known, and how much of the full sweep it measures.

    python benchmarks/ramps.py [--campaigns 1000] [--noise 0.05]
    python benchmarks/ramps.py --device [--campaigns 25]

The device is a closed loop with a set latency and width: so many I/Os are in flight as the depth asks for, and it works
on at most `width` of them, so its rate is min(depth, width) / latency, times lognormal noise. Campaigns are decided by
the functions that the runner and the report use; no process is started. With --device they are measured instead:
`iosweep measure` runs a stand-in for a device (tools/closed_loop), which is such a loop in real time, and the best
point is that of the report.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean

import campaigns
from iosweep.analysis import headline
from iosweep.analysis.summary import summarize
from iosweep.judge.best import deviation, reached
from iosweep.tables.make import make_tables
from iosweep.tables.reader import load
from measure import IOSWEEP, ROOT, child

#: A point with this share of the peak is as good: repetitions usually scatter by more.
SHARE = 0.95
#: Of the device of the simulation.
LATENCY_S = 1e-4
#: Of the stand-in: its Python needs far less time for an I/O, and a phase has some for each of them.
DEVICE_LATENCY_US, PHASE_S = 5000, 0.25


@dataclass(frozen=True)
class Climbed:
    """What a campaign found. runs: repetitions that were measured; depth: of the best point."""

    runs: int
    depth: int


def rate(depth: int, width: float) -> float:
    """I/Os per second."""
    return min(depth, width) / LATENCY_S


def climb(depths: Sequence[int], width: float, noise: float, repetitions: int, draw: random.Random) -> Climbed:
    """Measure as the runner does: each repetition of all points that are needed before the next one."""
    figures: list[list[float]] = [[] for _ in depths]
    while True:
        steps = [{"rand_read": values} if values else None for values in figures]
        needed = reached(steps).needed
        first = next((i for i in range(needed) if not figures[i]), None)  # the climb waits for it
        reach = needed if first is None else first + 1
        open_ = [i for i in range(reach) if len(figures[i]) < repetitions]
        if not open_:
            break
        number = min(len(figures[i]) for i in open_)
        for i in open_:
            if len(figures[i]) == number:
                figures[i].append(rate(depths[i], width) * math.exp(draw.gauss(0, noise)))
    highest = max((fmean(values), depth) for values, depth in zip(figures, depths, strict=True) if values)
    return Climbed(sum(map(len, figures)), highest[1])


class Device:
    """Campaigns of the stand-in for a device, each with results of its own below `work`."""

    def __init__(self, work: Path, depths: Sequence[int]):
        self._work, self._depths = work, depths
        self._logs: list[list[float]] = []
        self._verdicts: Counter[str] = Counter()

    def climb(self, width: int, noise: float, repetitions: int, number: int) -> Climbed:
        """Measure a campaign as Snakemake starts it, and read its best point as the report has it."""
        sweep = {
            "tool": "closed_loop", "phases": ["loop"], "axes": {"queue_depth": list(self._depths)},
            "options": {"width": width, "latency": DEVICE_LATENCY_US, "noise": round(100 * noise), "number": number},
            "phase_time": f"{1000 * PHASE_S:g}ms", "repetitions": repetitions,
            "ramp": "queue_depth",
        }  # fmt: skip
        name = f"{width}-{100 * noise:g}-{repetitions}-{number}"
        limits = {"retried": "0%", "shortest_phase": "0s"}
        made = campaigns.planned(self._work, name, [sweep], limits)
        plan_file = campaigns.written(made, self._work, name)
        results = plan_file.parent.parent
        command = [*IOSWEEP, "measure", plan_file, "--allocation", made.allocations[0].name]
        child(
            [*command, "--manifest", results / "m.jsonl", "--log", results / "m.log"], self._work, campaigns.WITH_OURS
        )
        make_tables(made, results)
        campaign = load(results)
        measured = summarize(campaign.rows)
        best = headline.find_highest(measured)
        assert best
        self._verdicts.update(row.verdict for row in campaign.rows if row.verdict != "missing")
        self._logs += [list(map(math.log, result.repeated(result.metric).values)) for result in measured if result.used]
        return Climbed(sum(result.used for result in measured), best.result.count("queue_depth") or 0)

    @property
    def seen(self) -> str:
        """The noise of the figures, and the verdicts of the runs."""
        found = deviation(self._logs)
        verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in self._verdicts.items())
        return f"noise as measured: {100 * found[0]:.1f} %; runs: {verdicts}" if found else f"runs: {verdicts}"


def row(depths: Sequence[int], width: float, repetitions: int, found: Sequence[Climbed]) -> tuple[float, ...]:
    """Share of the campaigns whose best point has SHARE of the peak in truth; runs as a share of the full sweep: mean;
    share of campaigns with at most half of its runs; largest."""
    runs = [one.runs / (len(depths) * repetitions) for one in found]
    return (
        fmean(rate(one.depth, width) >= SHARE * rate(depths[-1], width) for one in found),
        fmean(runs),
        fmean(share <= 0.5 for share in runs),
        max(runs),
    )


def main() -> None:
    arguments = _arguments()
    depths = [2**n for n in range(arguments.steps)]
    count = arguments.campaigns or (25 if arguments.device else 1000)
    print(
        f"| width, depths 1 to {depths[-1]} | noise | repetitions | peak reached"
        " | runs, of the full sweep | at most half in | largest |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="iosweep-ramps-", dir=arguments.directory) as directory:
        device = Device(Path(directory).resolve(), depths) if arguments.device else None
        for repetitions, noise, width in product(arguments.repetitions, arguments.noise, arguments.widths):
            if device:
                found = [device.climb(width, noise, repetitions, number) for number in range(1, count + 1)]
            else:
                draw = random.Random(f"{width} {noise} {repetitions} {len(depths)}")
                found = [climb(depths, width, noise, repetitions, draw) for _ in range(count)]
            shares = " | ".join(f"{100 * share:.1f} %" for share in row(depths, width, repetitions, found))
            print(f"| {width} | {100 * noise:g} % | {repetitions} | {shares} |", flush=True)
        if device:
            print(device.seen, file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="store_true", help="measure campaigns of a stand-in for a device")
    parser.add_argument("--campaigns", type=int, help="campaigns of each row; default: 1000, with --device 25")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.02, 0.05, 0.1], help="standard deviations")
    parser.add_argument("--widths", type=int, nargs="+", default=[2, 4, 8, 16], help="widths of the device")
    parser.add_argument("--steps", type=int, default=12, help="depths from 1, each twice the one before; default: 12")
    parser.add_argument("--repetitions", type=int, nargs="+", default=[3], help="repetitions of each point; default: 3")
    parser.add_argument(
        "--directory", type=Path, default=ROOT, help="with --device: where to work; default: the checkout"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
