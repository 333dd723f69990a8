"""How often `iosweep history` is wrong: false alarms where nothing changed, and power to find a loss.

    python benchmarks/changes.py [--histories 1000] [--headlines 10]

A history has some headlines, night after night, whose logarithms scatter by the noise: normal; with heavy tails
(Student's t with 3 degrees of freedom); bimodal (one night in four is lower); or in phases, where a night keeps 0.3 or
0.6 of what the one before was off by (an autoregressive process), each headline by itself, or four fifths of the
variance in common. A false alarm is a history in which any headline has a
change though none did. A loss happens to one of the headlines, ten nights before the end or in the middle, whichever is
later; it is found where that headline has a loss within two nights of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import numpy
from numpy.random import Generator
from numpy.typing import NDArray

from iosweep.judge import statistics

Figures = NDArray[numpy.float64]

NIGHTS = (10, 20, 30, 60)
LOSSES = (0.03, 0.05, 0.10)
NOISES = (0.01, 0.02, 0.05)


def _normal(draw: Generator, shape: tuple[int, int]) -> Figures:
    return draw.standard_normal(shape)


def _heavy(draw: Generator, shape: tuple[int, int]) -> Figures:
    return draw.standard_t(3, shape) / numpy.sqrt(3.0)


def _bimodal(draw: Generator, shape: tuple[int, int]) -> Figures:
    raw = 0.5 * draw.standard_normal(shape) - 3 * 0.5 * (draw.random(shape) < 0.25)
    return (raw - raw.mean()) / raw.std()


def _in_phases(keeps: float, common: float = 0.0) -> Callable[[Generator, tuple[int, int]], Figures]:
    """keeps: what a night has of the one before; common: share of the variance that all headlines have in common."""

    def noise(draw: Generator, shape: tuple[int, int]) -> Figures:
        found = draw.standard_normal((1 if common else shape[0], shape[1]))
        for night in range(1, shape[1]):
            found[:, night] = keeps * found[:, night - 1] + numpy.sqrt(1 - keeps**2) * found[:, night]
        if common:
            found = numpy.sqrt(common) * found + numpy.sqrt(1 - common) * draw.standard_normal(shape)
        return found

    return noise


KINDS: Mapping[str, Callable[[Generator, tuple[int, int]], Figures]] = {
    "normal": _normal,
    "heavy tails": _heavy,
    "bimodal": _bimodal,
    "in phases of 0.3": _in_phases(0.3),
    "in phases of 0.6": _in_phases(0.6),
    "in common phases of 0.3": _in_phases(0.3, common=0.8),
}


def simulate(
    kind: str, noise: float, nights: int, headlines: int, histories: int, loss: float = 0.0, seed: int = 0
) -> float:
    """Share of histories with a false alarm; with a loss, of those in which it is found."""
    draw = numpy.random.default_rng(seed)
    hits = 0
    begin = max(nights // 2, nights - 10)
    for _ in range(histories):
        logs = noise * KINDS[kind](draw, (headlines, nights))
        if loss:
            logs[0, begin:] += numpy.log1p(-loss)
        found = statistics.level_changes({str(row): list(map(float, numpy.exp(own))) for row, own in enumerate(logs)})
        if loss:
            hits += any(abs(split.at - begin) <= 2 and split.change.share < 0 for split in found["0"])
        else:
            hits += any(found.values())
    return hits / histories


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--headlines", type=int, default=10)
    arguments = parser.parse_args()
    many, rows = arguments.histories, arguments.headlines
    print(f"false alarms per history of {rows} headlines, {many:,} histories\n")
    print(f"| nights | {' | '.join(KINDS)} |\n|{'---|' * (len(KINDS) + 1)}")
    for nights in NIGHTS:
        shares = [simulate(kind, 0.02, nights, rows, many) for kind in KINDS]
        print(f"| {nights} | {' | '.join(f'{100 * one:.1f} %' for one in shares)} |", flush=True)
    print("\nlosses found\n")
    heads = [f"{100 * noise:.0f} % noise, {100 * loss:.0f} % loss" for noise in NOISES for loss in LOSSES]
    print(f"| nights | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for nights in NIGHTS:
        shares = [simulate("normal", noise, nights, rows, many // 2, loss) for noise in NOISES for loss in LOSSES]
        print(f"| {nights} | {' | '.join(f'{100 * one:.0f} %' for one in shares)} |", flush=True)


if __name__ == "__main__":
    main()
