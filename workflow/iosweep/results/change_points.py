"""When a figure changed for good in a row of nights, and where it is going. Pure.

Binary segmentation (A. J. Scott and M. Knott, 1974; E. S. Vostrikova, 1981) of the logarithms of nightly figures: the
split of a row at which two levels differ most is tested by Student's t with the nights' own scatter, times the number
of splits that were looked at (Bonferroni). What is on both sides of a change is looked at in the same way. The scatter
is that from night to night, of which repetitions of one night say little, and larger where a night is like the one
before, as far as all rows together tell that. docs/comparing.md has the error rates.
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
#: it is known how alike neighbors are.
ALPHA = 0.03
#: Nights that a trend takes at least, and days that it is told for.
TREND_NIGHTS, TREND_DAYS = 8, 30.0
#: A scatter is never taken for less than this, on logarithms: figures are rounded.
_LEAST_SCATTER = 1e-6
#: Largest correlation of neighboring nights that is allowed for: a drift has any.
_MOST_ALIKE = 0.8
#: Share of the largest differences that its estimate leaves out.
_LEFT_OUT = 0.2


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
    best = {name: _best_split(row) for name, row in logs.items()}
    alike = _alike([[row[: split.at], row[split.at :]] for name, row in logs.items() if (split := best[name])])
    first = {name: split.tested(alike) for name, split in best.items() if split}
    adjusted = statistics.holm([split.probability for split in first.values()])
    changed = {name for name, own in zip(first, adjusted, strict=True) if own <= ALPHA}
    limit = ALPHA / max(1, len(rows))
    return {
        name: _levels(row, _cuts(row, 0, limit, alike, first[name]), alike) if name in changed else []
        for name, row in logs.items()
    }


def _cuts(row: Sequence[float], start: int, limit: float, alike: float, first: _Tested | None = None) -> list[_Tested]:
    """The changes of a part of a row that begins at `start`. first: the one that is known to be a change."""
    best = None if first else _best_split(row)
    split = first or (best.tested(alike) if best else None)
    if split is None or (first is None and split.probability > limit):
        return []
    before = _cuts(row[: split.at], start, limit, alike)
    after = _cuts(row[split.at :], start + split.at, limit, alike)
    return [*before, _Tested(start + split.at, split.probability), *after]


@dataclass(frozen=True)
class _Tested:
    at: int
    probability: float


@dataclass(frozen=True)
class _BestSplit:
    """The split of a row at which two levels differ most. nights: of the row; splits: that were looked at; between,
    within: sums of squares of logarithms."""

    at: int
    nights: int
    splits: int
    between: float
    within: float

    def tested(self, alike: float) -> _Tested:
        """Its probability by chance. alike: by how much the variance of a mean is larger (`_alike`)."""
        from scipy.special import stdtr

        freedom = max(1.0, (self.nights - 2) / alike)
        scatter = max(self.within / (self.nights - 2), _LEAST_SCATTER**2) * alike
        one = float(stdtr(freedom, -math.sqrt(self.between / scatter)))
        return _Tested(self.at, min(1.0, 2 * one * self.splits))


def _best_split(row: Sequence[float]) -> _BestSplit | None:
    """None where a row has too few nights."""
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
    return _BestSplit(at, len(row), len(splits), between, max(0.0, whole - between))


def _alike(rows: Sequence[Sequence[Sequence[float]]]) -> float:
    """By how much the variance of a mean of nights is larger because a night is like the one before, 1 or more:
    (1 + r) / (1 - r) of the correlation r of neighbors, as of an autoregressive process. rows: their levels.

    Few nights of one row do not tell r, so it is that of all rows: what comes and goes over days is the load on one
    target. It is the smaller one of two estimates, which changes that are not among the levels distort differently:

    - of what is left of the levels, less its bias of few nights, which is (1 + 3 r) / n for each level (M. G. Kendall,
      "Note on bias in the estimation of autocorrelation", 1954), and as much again because the split is the one that
      leaves least (by simulation). A second change of level makes it too large.
    - of the differences within levels: those of every second night scatter 1 + r times as much as those of neighbors
      (J. von Neumann's ratio, 1941). The largest are left out, so that it does not see a change of level.
    """
    by_rests, by_differences = [], []
    for levels in rows:
        rests = [[value - fmean(level) for value in level] for level in levels]
        squares, nights = sum(value**2 for rest in rests for value in rest), sum(map(len, levels))
        near, far = _spread(levels, 1), _spread(levels, 2)
        if squares and near + far:
            r = sum(a * b for rest in rests for a, b in pairwise(rest)) / squares
            r += len(levels) * (1 + 3 * r) / nights
            by_rests.append(r + len(levels) * (1 + 3 * max(0.0, r)) / nights)
            by_differences.append(far / (near + far))
    if not by_rests:
        return 1.0
    share = fmean(by_differences)
    r = min(_MOST_ALIKE, fmean(by_rests), share / (1 - share) - 1 if share < 1 else 1.0)
    return max(1.0, (1 + r) / (1 - r))


def _spread(levels: Sequence[Sequence[float]], lag: int) -> float:
    """Mean square of the differences of nights of the same level, without the largest."""
    squares = sorted((b - a) ** 2 for level in levels for a, b in zip(level, level[lag:], strict=False))
    return fmean(squares[: max(1, round(len(squares) * (1 - _LEFT_OUT)))])


def _levels(row: Sequence[float], cuts: Sequence[_Tested], alike: float) -> list[Split]:
    """The changes with their sizes, each between the whole levels on both sides of it."""
    edges = [0, *(cut.at for cut in cuts), len(row)]
    return [
        Split(cut.at, _change(row[edges[k] : cut.at], row[cut.at : edges[k + 2]], alike), cut.probability)
        for k, cut in enumerate(cuts)
    ]


def _change(before: Sequence[float], after: Sequence[float], alike: float) -> Change:
    nights = len(before) + len(after) - 2
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
