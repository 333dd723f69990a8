"""How sessions of one system differ, and how sure a change is beyond that. Pure.

A session is a campaign: what is special on its day (the load of others, the state of the file system) is in all its
repetitions, and no number of these shows it. Several campaigns of a system that nobody changed do.

Results of a phase share most of what a session does to them, so that many results say little more of it than one: a
change of a whole phase is tested against the scatter of the phase's mean over k sessions, by Student's t with k - 1
degrees of freedom. What a session does to a whole phase cancels in the difference of one result from the others of its
phase. How these differences scatter is learned from all results of the phase, with as many degrees of freedom as
results that are alike in part have (G. E. P. Box, "Some theorems on quadratic forms applied in the study of analysis of
variance problems II", 1954).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

from iosweep.results.statistics import Change, student_t, variance

#: Variance of a median of many, as a multiple of that of a mean (normal distribution): pi / 2.
_MEDIAN = math.pi / 2


@dataclass(frozen=True)
class Sessions:
    """The results of a phase in several sessions of one system. logs: for each result its mean logarithm in each
    session; two sessions or more, the same for all results."""

    logs: tuple[tuple[float, ...], ...]

    @property
    def count(self) -> int:
        return len(self.logs[0])

    @cached_property
    def levels(self) -> tuple[float, ...]:
        """The mean of each result over the sessions."""
        return tuple(map(fmean, self.logs))

    @cached_property
    def _means(self) -> tuple[float, ...]:
        """The mean of the results in each session."""
        return tuple(map(fmean, zip(*self.logs, strict=True)))

    @cached_property
    def _rests(self) -> tuple[tuple[float, ...], ...]:
        """What neither the result nor the session explains."""
        middle = fmean(self._means)
        return tuple(
            tuple(log - level - mean + middle for log, mean in zip(own, self._means, strict=True))
            for own, level in zip(self.logs, self.levels, strict=True)
        )

    @cached_property
    def _scatter(self) -> float:
        """Variance of the rests."""
        freedom = (self.count - 1) * (len(self.logs) - 1)
        return sum(rest**2 for own in self._rests for rest in own) / freedom if freedom else 0.0

    @cached_property
    def _freedom(self) -> float:
        """Degrees of freedom of that: as many as sessions less one where all rests move together, and as many for each
        result where none do.

        They are (sessions - 1) tr(C)^2 / tr(C^2), where C is how results vary together (Box). The C that is seen in few
        sessions gives far too few, and traces that are estimated without bias (Z. Bai and H. Saranadasa, "Effect of
        high dimension", 1996) give too many where some results move together. Their geometric mean holds in simulation.
        """
        n, most = self.count - 1, (self.count - 1) * (len(self.logs) - 1)
        columns = list(zip(*self._rests, strict=True))
        products = [[math.fsum(map(float.__mul__, a, b)) for b in columns] for a in columns]
        trace = sum(products[i][i] for i in range(len(columns))) / n
        squares = sum(value**2 for row in products for value in row) / n**2
        if not squares or n == 1:
            return n
        seen = n * trace**2 / squares
        both = n**2 / ((n - 1) * (n + 2)) * (squares - trace**2 / n)
        unbiased = n * (trace**2 - 2 * both / n) / both if both > 0 else most
        return math.sqrt(seen * min(max(seen, unbiased), most))

    @cached_property
    def sd(self) -> float:
        """Standard deviation of a result over the sessions, on logarithms."""
        return math.sqrt(fmean(variance(own) for own in self.logs))

    def change(self, other: Sequence[float], members: Sequence[int], within: float, n: tuple[int, int]) -> Change:
        """By how much the mean of some results of another campaign differs from that of these sessions.

        other: mean logarithm of each result there; within: squared error that the repetitions alone leave; n: as of
        Change.
        """
        own = variance([fmean(self.logs[i][s] for i in members) for s in range(self.count)])
        usual = variance(self._means) + self._scatter * (1 / len(members) - 1 / len(self.logs))
        log = fmean(other[i] - self.levels[i] for i in members)
        squared = max(max(own, usual) * (1 + 1 / self.count), within)
        return Change(n, log, math.sqrt(squared), self.count - 1)

    def beside(
        self, other: Sequence[float], members: Sequence[int], within: float, n: tuple[int, int]
    ) -> Change | None:
        """By how much the same mean has changed more than the other results of the phase, of which the median is taken:
        it does not follow the few that have changed, too. None where there are no others."""
        inside = set(members)
        others = [i for i in range(len(self.logs)) if i not in inside]
        if not others:
            return None

        def apart(by: Sequence[float]) -> float:
            return fmean(by[i] for i in members) - median(by[i] for i in others)

        own = variance([apart(column) for column in zip(*self._rests, strict=True)])
        of_others = (_MEDIAN if len(others) > 2 else 1.0) / len(others)
        usual = self._scatter * (1 / len(members) + of_others)
        squared = max(max(own, usual) * (1 + 1 / self.count), within)
        log = apart([mine - level for mine, level in zip(other, self.levels, strict=True)])
        return Change(n, log, math.sqrt(squared), self._freedom)


def more_sessions(change: Change, sessions: int, half_width: float, alpha: float, most: int) -> int | None:
    """How many more sessions make the interval of `Sessions.change` at the confidence 1 - alpha no wider than this half
    width on logarithms; None for more than `most`."""
    one = change.error / math.sqrt(1 + 1 / sessions)
    for more in range(most + 1):
        count = sessions + more
        if student_t(count - 1, alpha / 2) * one * math.sqrt(1 + 1 / count) <= half_width:
            return more
    return None
