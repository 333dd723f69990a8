"""How true the best of many points is: chosen by its repetitions, and confirmed by fresh ones.

    python benchmarks/headlines.py [--points 24] [--noise 0.1] [--campaigns 2000]

A campaign measures each point a few times with normal noise, and the point with the highest mean is its headline.
Bias is the headline over the true figure of that point, less 1; coverage is the share of campaigns whose 95 % interval,
as the report has it, holds this true figure. All points alike is the worst case; otherwise the true figures rise by 1 %
from point to point, or each is twice the one before.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy

from iosweep.judge import agreement
from iosweep.judge.agreement import RepeatedFigure
from iosweep.judge.best import best, candidate

TRUTHS: Mapping[str, float] = {"all alike": 1.0, "1 % apart": 1.01, "each twice the one before": 2.0}


def simulate(
    truth: Sequence[float], noise: float, repetitions: int, confirm: int, campaigns: int, seed: int = 0
) -> dict[str, tuple[float, float | None]]:
    """(bias, coverage) of headlines that are not confirmed, and of confirmed ones. One repetition has no interval."""
    draw = numpy.random.default_rng(seed)
    errors = draw.standard_normal((campaigns, len(truth), repetitions + confirm))
    measured = numpy.array(truth)[None, :, None] * numpy.maximum(0.05, 1 + noise * errors)
    found: dict[str, list[tuple[float, bool | None]]] = {"not confirmed": [], "confirmed": []}
    for campaign in measured:
        chose = [list(map(float, values[:repetitions])) for values in campaign]
        winner = best(candidate(f"{i:04}", [(value, True) for value in values]) for i, values in enumerate(chose))
        assert winner is not None
        index = int(winner.point)
        fresh = list(map(float, campaign[index][repetitions:]))
        intervals = agreement.intervals([RepeatedFigure(("t", 1), "p", values) for values in [*chose, fresh]])
        for name, values, interval in (
            ("not confirmed", winner.values, intervals[index]),
            ("confirmed", fresh, intervals[-1]),
        ):
            held = None if interval is None else not interval.excludes(truth[index])
            found[name].append((fmean(values) / truth[index] - 1, held))
    return {name: (fmean(bias for bias, _ in own), _share([held for _, held in own])) for name, own in found.items()}


def _share(held: Sequence[bool | None]) -> float | None:
    known = [one for one in held if one is not None]
    return fmean(known) if known else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=24, help="points that compete; default: 24")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05, 0.1, 0.2], help="standard deviations")
    parser.add_argument("--repetitions", type=int, nargs="+", default=[1, 3, 5], help="repetitions that choose")
    parser.add_argument("--confirm", type=int, default=3, help="fresh repetitions; default: 3")
    parser.add_argument("--campaigns", type=int, default=2000, help="campaigns of each row; default: 2000")
    arguments = parser.parse_args()
    print(
        f"| best of {arguments.points} | noise | repetitions | bias, not confirmed | coverage | bias, confirmed by"
        f" {arguments.confirm} | coverage |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, step in TRUTHS.items():
        truth = [step**i for i in range(arguments.points)]
        for noise in arguments.noise:
            for repetitions in arguments.repetitions:
                done = simulate(truth, noise, repetitions, arguments.confirm, arguments.campaigns)
                cells = [
                    f"{100 * bias:+.1f} % | {'no interval' if coverage is None else f'{coverage:.3f}'}"
                    for bias, coverage in done.values()
                ]
                print(f"| {name} | {100 * noise:g} % | {repetitions} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
