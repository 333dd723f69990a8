"""When a figure changed for good in a row of nights, and where it is going. Pure.

Binary segmentation (A. J. Scott and M. Knott, 1974; E. S. Vostrikova, 1981) of the logarithms of nightly figures: the
split of a row at which two levels differ most is tested by Student's t with the nights' own scatter, times the number
of splits that were looked at (Bonferroni). What is on both sides of a change is looked at in the same way. The scatter
is that from night to night, of which repetitions of one night say little, and larger where a night is like the one
before. docs/history.md has the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from iosweep.results import statistics
from iosweep.results.statistics import Change, Interval

#: Nights that a level has at least: one that is off alone is no change.
LEAST = 3
#: Probability of a false alarm in any headline of a history in which nothing changed, if nights scatter normally and
#: each by itself. They do not quite, and the simulation has up to twice as many.
ALPHA = 0.03
#: Nights that a trend takes at least, and days that it is told for.
TREND_NIGHTS, TREND_DAYS = 8, 30.0
#: A scatter is never taken for less than this, on logarithms: figures are rounded.
_LEAST_SCATTER = 1e-6
#: Largest correlation of neighboring nights that is allowed for: a drift has any.
_MOST_ALIKE = 0.8


@dataclass(frozen=True)
class Split:
    """A change of level. at: index of the first night of the new level; change: of the new level against the one
    before; probability: of one so clear by chance, among all splits that were looked at."""

    at: int
    change: Change
    probability: float


def found(rows: Mapping[str, Sequence[float]]) -> dict[str, list[Split]]:
    """Name -> its changes, in order. rows: name -> figures above zero, night by night.

    Rows are tested together (Holm); within a row that changed, each part as one of all rows (Bonferroni).
    """
    logs = {name: [math.log(value) for value in row] for name, row in rows.items()}
    first = {name: _clearest(row) for name, row in logs.items()}
    tested = [name for name, split in first.items() if split]
    adjusted = statistics.holm([split.probability for name in tested if (split := first[name])])
    changed = {name for name, own in zip(tested, adjusted, strict=True) if own <= ALPHA}
    limit = ALPHA / max(1, len(rows))
    return {
        name: _levels(row, _cuts(row, 0, limit, first[name])) if name in changed else [] for name, row in logs.items()
    }


def _cuts(row: Sequence[float], start: int, limit: float, first: _Clearest | None = None) -> list[_Clearest]:
    """The changes of a part of a row that begins at `start`. first: the one that is known to be a change."""
    split = first or _clearest(row)
    if split is None or (first is None and split.probability > limit):
        return []
    before = _cuts(row[: split.at], start, limit)
    after = _cuts(row[split.at :], start + split.at, limit)
    return [*before, _Clearest(start + split.at, split.probability), *after]


@dataclass(frozen=True)
class _Clearest:
    at: int
    probability: float


def _clearest(row: Sequence[float]) -> _Clearest | None:
    """The clearest split of a row; None where it has too few nights."""
    from scipy.special import stdtr

    splits = range(LEAST, len(row) - LEAST + 1)
    if not splits:
        return None
    best, middle = (0.0, 0), fmean(row)
    whole = sum((value - middle) ** 2 for value in row)
    running = [0.0]
    for value in row:
        running.append(running[-1] + value - middle)
    for at in splits:
        # sum of squares between the levels on both sides
        between = running[at] ** 2 * len(row) / (at * (len(row) - at))
        best = max(best, (between, at))
    between, at = best
    alike = _alike([row[:at], row[at:]])
    freedom = max(1.0, (len(row) - 2) / alike)
    scatter = max((whole - between) / (len(row) - 2), _LEAST_SCATTER**2) * alike
    one = float(stdtr(freedom, -math.sqrt(between / scatter)))
    return _Clearest(at, min(1.0, 2 * one * len(splits)))


def _alike(levels: Sequence[Sequence[float]]) -> float:
    """By how much the variance of a mean of nights is larger because a night is like the one before, 1 or more.

    (1 + r) / (1 - r) of the correlation r of neighbors, as of an autoregressive process, with its bias of few nights
    taken off (M. G. Kendall, "Note on bias in the estimation of autocorrelation", 1954).
    """
    rests = [[value - fmean(level) for value in level] for level in levels]
    squares = sum(value**2 for rest in rests for value in rest)
    if not squares:
        return 1.0
    nights = sum(map(len, rests))
    r = sum(a * b for rest in rests for a, b in pairwise(rest)) / squares
    r = min(_MOST_ALIKE, r + len(levels) * (1 + 3 * r) / nights)
    return max(1.0, (1 + r) / (1 - r))


def _levels(row: Sequence[float], cuts: Sequence[_Clearest]) -> list[Split]:
    """The changes with their sizes, each between the whole levels on both sides of it."""
    edges = [0, *(cut.at for cut in cuts), len(row)]
    return [
        Split(cut.at, _change(row[edges[k] : cut.at], row[cut.at : edges[k + 2]]), cut.probability)
        for k, cut in enumerate(cuts)
    ]


def _change(before: Sequence[float], after: Sequence[float]) -> Change:
    nights, alike = len(before) + len(after) - 2, _alike([before, after])
    squares = sum((value - fmean(side)) ** 2 for side in (before, after) for value in side)
    scatter = max(squares / nights, _LEAST_SCATTER**2) * alike
    error = math.sqrt(scatter * (1 / len(before) + 1 / len(after)))
    return Change((len(before), len(after)), fmean(after) - fmean(before), error, max(1.0, nights / alike))


@dataclass(frozen=True)
class Trend:
    """How a level drifts: change in TREND_DAYS days as a share, with its 95 % interval."""

    share: float
    low: float
    high: float


def trend(days: Sequence[float], figures: Sequence[float]) -> Trend | None:
    """The trend of a level by the median of all slopes (Theil and Sen); None for too few nights."""
    if len(figures) < TREND_NIGHTS or max(days) - min(days) <= 0:
        return None
    from scipy.stats import theilslopes  # late: half a second

    slope, _, low, high = theilslopes([math.log(value) for value in figures], days)
    return Trend(*(math.expm1(min(1.0, max(-1.0, float(one) * TREND_DAYS))) for one in (slope, low, high)))


def level(figures: Sequence[float]) -> Interval | None:
    """The 95 % interval of a level, from its nights; None for fewer than two."""
    return statistics.interval(figures)


def unusual(figures: Sequence[float], last: float) -> bool:
    """Whether a night is outside of where the next of these nights is with 95 % probability; False for too few."""
    if len(figures) < LEAST:
        return False
    logs = [math.log(value) for value in figures]
    scatter = max(sum((value - fmean(logs)) ** 2 for value in logs) / (len(logs) - 1), _LEAST_SCATTER**2)
    reach = statistics.student_t(len(logs) - 1) * math.sqrt(scatter * (1 + 1 / len(logs)))
    return abs(math.log(last) - fmean(logs)) > reach
