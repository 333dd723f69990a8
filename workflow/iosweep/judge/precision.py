"""The intervals of the repetitions of points, which tell each other how much a phase scatters. Pure.

The runner asks for them to know what to repeat, merge and the report to write and show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from iosweep.judge import statistics
from iosweep.judge.statistics import Interval, Noise

#: Verdicts of the repetitions that enter a figure.
COUNTED = frozenset({"valid", "suspect"})


class Headline(NamedTuple):
    """What a repetition that counts says of its point's phase. like: of `Sample`; ran: its nodes, joined by commas, and
    its Slurm job; times: of so many digits that no other repetition has the same, as far as they are known."""

    point: str
    phase: str
    confirms: bool
    like: tuple[str, int]
    figure: float | None
    ran: tuple[str | None, str | None]
    times: tuple[object, ...] = ()


@dataclass(frozen=True)
class Sample:
    """The repetitions of a point's phase that count, or of one of its other figures.

    like: points of one tool, on as many nodes. alike: all were measured on the same nodes, or on nodes in turn;
    others are not repetitions of one thing. confirms: they confirm a best point. copies: repetitions whose figures are
    those of another one, to the last digit.
    """

    like: tuple[str, int]
    phase: str
    values: Sequence[float]
    alike: bool = True
    confirms: bool = False
    copies: int = 0


def samples(headlines: Iterable[Headline]) -> dict[tuple[str, str, bool], Sample]:
    """(point, phase, whether they confirm a best point) -> the sample of these repetitions."""
    groups: dict[tuple[str, str, bool], list[Headline]] = {}
    for one in headlines:
        groups.setdefault((one.point, one.phase, one.confirms), []).append(one)
    return {
        key: Sample(
            own[0].like,
            own[0].phase,
            [one.figure for one in own if one.figure is not None],
            alike([one.ran for one in own]),
            own[0].confirms,
            len(exact := [(one.figure, one.times) for one in own if any(one.times)]) - len(set(exact)),
        )
        for key, own in groups.items()
    }


def intervals(samples: Sequence[Sample]) -> list[Interval | None]:
    """The 95 % interval of each sample, as far as the samples of the others let it be; None where there is none."""
    found = noises(samples)
    return [
        statistics.interval(sample.values, noise) if sample.alike else None
        for sample, noise in zip(samples, found, strict=True)
    ]


def noises(samples: Sequence[Sample]) -> list[Noise | None]:
    """The usual scatter of the points of each sample's phase; None where they are too few.

    Fresh repetitions that confirm a best point are not among them: they come last, and must not show that a point which
    was repeated often enough was not.
    """
    pools: dict[tuple[object, str], list[Sequence[float]]] = {}
    for sample in samples:
        if sample.alike and not sample.confirms:
            pools.setdefault((sample.like, sample.phase), []).append(sample.values)
    known = {key: statistics.pooled(own) for key, own in pools.items()}
    return [known.get((sample.like, sample.phase)) for sample in samples]


def host_sets(ran: Iterable[tuple[str | None, str | None]]) -> set[frozenset[str]]:
    """The sets of nodes of repetitions. `ran`: (their nodes, joined by commas; Slurm job) of each."""
    return {frozenset(hosts.split(",")) for hosts, _ in ran if hosts}


def in_turn(ran: Iterable[tuple[str | None, str | None]]) -> bool:
    """Whether a job ran repetitions on more than one set of nodes: it then deals them out by their number, so that they
    are draws of the same thing. Repetitions that other jobs did are on whatever nodes those got."""
    found: dict[str, set[frozenset[str]]] = {}
    for hosts, job in ran:
        if job:
            found.setdefault(job, set()).add(frozenset((hosts or "").split(",")))
    return any(len(sets) > 1 for sets in found.values())


def alike(ran: Sequence[tuple[str | None, str | None]]) -> bool:
    """Whether repetitions are draws of the same thing: of the same nodes, or of nodes in turn."""
    return len(set(ran)) < 2 or len(host_sets(ran)) < 2 or in_turn(ran)
