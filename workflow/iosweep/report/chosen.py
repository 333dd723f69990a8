"""Which results the table of the page has, where a campaign has more than it carries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from iosweep.analysis.aggregate import Result
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.report import bounds
from iosweep.text import human_count

_BAD = ("invalid", "suspect", "missing", "left", "unneeded")


@dataclass
class Chosen:
    """The results of the table, in its order, and after them those that only figures and heat maps refer to.

    told: how the table's were chosen, "" where it has all.
    """

    table: list[Result]
    told: str
    others: list[Result] = field(default_factory=list)
    _places: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {(result.point, result.phase): i for i, result in enumerate(self.table)}

    @property
    def all(self) -> list[Result]:
        return [*self.table, *self.others]

    def number(self, result: Result) -> int:
        """The place of a result in `all`, which it gets where it has none."""
        place = self._places.setdefault((result.point, result.phase), len(self._places))
        if place == len(self.table) + len(self.others):
            self.others.append(result)
        return place


def of(
    results: Sequence[Result], notable: Iterable[tuple[str, str]], sweeps: Iterable[SweepFacts], most: int
) -> Chosen:
    """At most so many results. notable: (point, phase) of those that come first (`notable.keys`)."""
    if len(results) <= most:
        return Chosen(list(results), "")
    places = {(result.point, result.phase): i for i, result in enumerate(results)}
    matter = dict.fromkeys(i for key in notable if (i := places.get(key)) is not None)
    kept = set(list(matter)[:most])
    best = [i for i in dict.fromkeys(_best(results, sweeps)) if i not in matter]
    shown = best[: most - len(kept)]
    parts = [
        f"{_of(len(kept), len(matter))} that matter most (the best of each phase, knees, one of each reason)",
        f"{_of(len(shown), len(best))} more that are the best of their sweep and phase",
    ]
    kept.update(shown)
    for state in _BAD:
        # the half of what is left, so that none of these leaves no room for the next one
        own = [i for i, result in enumerate(results) if result.state == state and i not in kept]
        some = bounds.spread(own, room) if (room := (most - len(kept)) // 2) > 1 else []
        kept.update(some)
        if own:
            parts.append(f"{len(some):,} of {len(own):,} others that are {state}")
    rest = [i for i in range(len(results)) if i not in kept and results[i].state == "valid"]
    even = bounds.spread(rest, most - len(kept)) if most - len(kept) > 1 else []
    kept.update(even)
    parts.append(f"{len(even):,} of the other {len(rest):,}, evenly chosen")
    table = [results[i] for i in sorted(kept)]
    of_all = f"{len(table):,} of {human_count(len(results), 'result')}"
    return Chosen(table, f"The table of this page has {of_all}: {'; '.join(parts)}.")


def _of(shown: int, there: int) -> str:
    return f"{shown:,}" if shown == there else f"{shown:,} of {there:,}"


def _best(results: Sequence[Result], sweeps: Iterable[SweepFacts]) -> Iterable[int]:
    """The results with the highest figure of each sweep, phase and tool."""
    of_point: dict[str, list[str]] = {}
    for sweep in sweeps:
        for point in sweep.points:
            of_point.setdefault(point, []).append(sweep.name)
    best: dict[tuple[str, str, str], tuple[float, int]] = {}
    for i, result in enumerate(results):
        if result.headline:
            for name in of_point.get(result.point, ()):
                key = name, result.phase, result.tool
                best[key] = max(best.get(key, (-1.0, i)), (result.headline.mean, i))
    return [i for _, i in best.values()]
