"""When a figure changed for good in a row of nights. Pure.

Binary segmentation (A. J. Scott and M. Knott, 1974; E. S. Vostrikova, 1981) of the logarithms of nightly figures: the
split of a row at which two levels differ most is tested by Student's t with the nights' own scatter, times the number
of splits that were looked at (Bonferroni). What is on both sides of a change is looked at in the same way. The scatter
is that from night to night, of which repetitions of one night say little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from iosweep.judge import statistics
from iosweep.judge.statistics import ALPHA, Change

#: Nights that a level has at least: one that is off alone is no change.
LEAST = 3
#: A scatter is never taken for less than this, on logarithms: figures are rounded.
_LEAST_SCATTER = 1e-6


@dataclass(frozen=True)
class Split:
    """A change of level. at: index of the first night of the new level; change: of the new level against the one
    before."""

    at: int
    change: Change


def found(rows: Mapping[str, Sequence[float]]) -> dict[str, list[Split]]:
    """Name -> its changes, in order. rows: name -> figures above zero, night by night.

    Rows are tested together (Holm); within a row that changed, each part as one of all rows (Bonferroni).
    """
    logs = {name: [math.log(value) for value in row] for name, row in rows.items()}
    best = {name: _best_split(row) for name, row in logs.items()}
    first = {name: split for name, split in best.items() if split}
    adjusted = statistics.holm([split.probability for split in first.values()])
    changed = {name for name, own in zip(first, adjusted, strict=True) if own <= ALPHA}
    limit = ALPHA / max(1, len(rows))
    return {
        name: _levels(row, _cuts(row, 0, limit, first[name])) if name in changed else [] for name, row in logs.items()
    }


def _cuts(row: Sequence[float], start: int, limit: float, first: _Cut | None = None) -> list[int]:
    """Where a part of a row that begins at `start` changes. first: the one that is known to be a change."""
    split = first or _best_split(row)
    if split is None or (first is None and split.probability > limit):
        return []
    before = _cuts(row[: split.at], start, limit)
    after = _cuts(row[split.at :], start + split.at, limit)
    return [*before, start + split.at, *after]


@dataclass(frozen=True)
class _Cut:
    """A split of a row. probability: of one so clear by chance, among all splits of the row."""

    at: int
    probability: float


def _best_split(row: Sequence[float]) -> _Cut | None:
    """The split at which two levels differ most; None where a row has too few nights."""
    splits = range(LEAST, len(row) - LEAST + 1)
    if not splits:
        return None
    best, middle = (0.0, 0), fmean(row)
    running = [0.0]
    for value in row:
        running.append(running[-1] + value - middle)
    for at in splits:
        # sum of squares between the levels on both sides
        between = running[at] ** 2 * len(row) / (at * (len(row) - at))
        best = max(best, (between, at))
    change = _change(row[: best[1]], row[best[1] :])
    return _Cut(best[1], min(1.0, change.p * len(splits)))


def _levels(row: Sequence[float], cuts: Sequence[int]) -> list[Split]:
    """The changes with their sizes, each between the whole levels on both sides of it."""
    edges = [0, *cuts, len(row)]
    return [Split(at, _change(row[edges[k] : at], row[at : edges[k + 2]])) for k, at in enumerate(cuts)]


def _change(before: Sequence[float], after: Sequence[float]) -> Change:
    nights = len(before) + len(after) - 2
    squares = sum((value - fmean(side)) ** 2 for side in (before, after) for value in side)
    scatter = max(squares / nights, _LEAST_SCATTER**2)
    error = math.sqrt(scatter * (1 / len(before) + 1 / len(after)))
    return Change((len(before), len(after)), fmean(after) - fmean(before), error, nights)
