"""The intervals of the repetitions of points, which tell each other how much a phase scatters. Pure.

The runner asks for them to know what to repeat, merge and the report to write and show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iosweep.results import statistics
from iosweep.results.statistics import Interval, Noise

#: Verdicts of the repetitions that enter a figure.
COUNTED = frozenset({"valid", "suspect"})
#: Points that tell how a phase scatters. With fewer, all phases of the tool do.
_POINTS = 4


@dataclass(frozen=True)
class Sample:
    """The repetitions of a point's phase that count, or of one of its other figures.

    like: points of one tool, on as many nodes. alike: all were measured on the same nodes, or on nodes in turn;
    others are not repetitions of one thing.
    """

    like: tuple[str, int]
    phase: str
    values: Sequence[float]
    alike: bool = True


def intervals(samples: Sequence[Sample]) -> list[Interval | None]:
    """The 95 % interval of each sample, as far as the samples of the others let it be; None where there is none."""
    phases: dict[object, list[Sequence[float]]] = {}
    tools: dict[object, list[Sequence[float]]] = {}
    for sample in samples:
        if sample.alike and len(sample.values) > 1:
            phases.setdefault((sample.like, sample.phase), []).append(sample.values)
            tools.setdefault(sample.like, []).append(sample.values)
    noises: dict[object, Noise | None] = {}
    found: list[Interval | None] = []
    for sample in samples:
        if not sample.alike:
            found.append(None)
            continue
        of_phase = phases.get((sample.like, sample.phase), [])
        enough = len(of_phase) >= _POINTS
        key = (sample.like, sample.phase) if enough else sample.like
        if key not in noises:
            noises[key] = statistics.pooled(of_phase if enough else tools.get(sample.like, []))
        found.append(statistics.interval(sample.values, noises[key]))
    return found


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
    return len(host_sets(ran)) < 2 or in_turn(ran)
