"""The best point of a phase: how it was chosen, what confirms it, and what it cannot be told apart from. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from iosweep.analysis import findings, formats
from iosweep.analysis.data import PRECISE, CheckRow, Row
from iosweep.analysis.findings import Shared
from iosweep.analysis.summary import Metric, PointSummary, counted, worst
from iosweep.judge import statistics
from iosweep.judge.best import Candidate, best, candidate
from iosweep.judge.reasons import REASONS
from iosweep.judge.statistics import Interval
from iosweep.plan.headline_groups import load
from iosweep.text import human_count, some

#: Points that are named.
_NAMED = 3

#: (point, repetition, phase) -> checks that failed.
Failed = Mapping[tuple[str, int | None, str], set[str]]


@dataclass(frozen=True)
class Best:
    """A headline figure. of: points that it is the best of; figure: of the fresh repetitions if there are some, else
    the point's in the tables, suspect repetitions among them; suspect, invalid: number of fresh ones with this verdict;
    alike: other points that cannot be told apart from it by what chose, the closest first; better: those whose figure
    in the tables is better than this point's, the best first. They were not chosen because of suspect or invalid
    repetitions, theirs or its own.
    """

    result: PointSummary
    column: str
    of: int
    confirmed: bool
    verdict: str
    alike: tuple[PointSummary, ...]
    better: tuple[PointSummary, ...] = ()
    suspect: int = 0
    invalid: int = 0

    @property
    def figures(self) -> Mapping[str, Metric]:
        return self.result.confirmed if self.confirmed else self.result.metrics

    @property
    def figure(self) -> Metric:
        return self.figures[self.column]

    @property
    def rows(self) -> list[Row]:
        """The repetitions that the figure is of, and those of the same kind that do not count."""
        return [row for row in self.result.rows if bool(row.confirms) == self.confirmed]

    @property
    def in_doubt(self) -> str:
        """What a reason for the doubt follows: `suspect`, or `1 repetition is invalid, and not in the figure`."""
        invalid = sum(row.verdict == "invalid" for row in self.rows)
        if not invalid:
            return self.verdict
        return f"{human_count(invalid, 'repetition is', 'repetitions are')} invalid, and not in the figure"

    @property
    def chosen(self) -> str:
        """As `in_brief`, and in which direction an unconfirmed figure is likely wrong."""
        if self.of == 1 or self.confirmed:
            return self.in_brief
        return f"{self.in_brief}, so likely too {'low' if self._lowest else 'high'}"

    @property
    def in_brief(self) -> str:
        """`best of 24 points, confirmed by 3 fresh repetitions`; "" where nothing was chosen."""
        if self.of == 1:
            return ""
        of = f"best of {human_count(self.of, 'point')}"
        if self.confirmed:
            suspect = f", {self.suspect:,} of them suspect" if self.suspect else ""
            invalid = f", {self.invalid:,} more invalid" if self.invalid else ""
            return f"{of}, confirmed by {human_count(self.figure.n, 'fresh repetition')}{suspect}{invalid}"
        return f"{of}, not confirmed"

    @property
    def _lowest(self) -> bool:
        return self.column.startswith("latency_")

    @property
    def passed_over(self) -> str:
        """`in the tables, where suspect repetitions count, 2 points are higher`; "" where this one is, too."""
        if not self.better:
            return ""
        points = human_count(len(self.better), "point is", "points are")
        return f"in the tables, where suspect repetitions count, {points} {'lower' if self._lowest else 'higher'}"

    @property
    def not_chosen(self) -> str:
        """`in the tables ..., 2 points are higher: queue depth 16; queue depth 4`; "" likewise."""
        names = dict.fromkeys(_difference(other, self.result) for other in self.better)
        return f"{self.passed_over}: {some([*names], _NAMED, separator='; ')}" if self.better else ""

    @property
    def doubt(self) -> str:
        """`16 and 32 threads per node cannot be told apart from it`; "" where all others can."""
        if not self.alike:
            return ""
        names = list(dict.fromkeys(_difference(other, self.result) for other in self.alike))
        what = f"{human_count(len(self.alike), 'other point')}: " if len(self.alike) > _NAMED else ""
        return f"cannot be told apart from {what}{some(names, _NAMED, separator='; ')}"


def failed_checks(checks: Iterable[CheckRow]) -> Failed:
    """The checks that failed, by row."""
    found: dict[tuple[str, int | None, str], set[str]] = {}
    for row in checks:
        if row.outcome == "fail":
            found.setdefault((row.point, row.repetition, row.phase), set()).add(row.check)
    return found


def highest(results: Sequence[PointSummary], fails: Failed, column: str | None = None) -> Best | None:
    """The highest rate of a phase, or figure of another column; None without a figure."""
    measured = [result for result in results if (column or result.metric) in result.metrics]
    return _choose(measured, column or measured[0].metric, fails) if measured else None


def lowest_latency(results: Sequence[PointSummary], fails: Failed) -> Best | None:
    """The lowest mean latency of a phase at the lowest queue depth, on the fewest nodes: what one I/O costs when
    nothing is in its way."""
    measured = [result for result in results if "latency_mean_s" in result.metrics]
    loads = {result.point: load(result.parameters["queue_depth"], result.nodes) for result in measured}
    least = min(loads.values(), default=None)
    return _choose([r for r in measured if loads[r.point] == least], "latency_mean_s", fails, lowest=True)


def _choose(results: Sequence[PointSummary], column: str, fails: Failed, lowest: bool = False) -> Best | None:
    return rivals(results, column, fails).choose(lowest)


def doubted(found: Best, fails: Failed) -> list[Row]:
    """The repetitions with the worst verdict of those for which a figure is not valid. That repetitions do not agree,
    which the interval says, is no reason."""
    rows = [row for row in found.rows if row.verdict != "missing" and not valid(row, fails)]
    verdict = worst(row.verdict for row in rows) if rows else ""
    return [row for row in rows if worst([row.verdict]) == verdict]


def reason(found: Best, fails: Failed, shared: Shared = frozenset()) -> str:
    """Why a figure is not valid, the commonest reason first, beside the reasons that all repetitions of the campaign
    share; of invalid repetitions that which makes them so. "" where there is no (other) reason."""
    groups = []
    for row in doubted(found, fails):
        own = (row.reasons or "").split(REASONS)
        # what makes a row invalid comes first (results/judging.py)
        groups.append(own[:1] if row.verdict == "invalid" else own)
    others = [own for group in groups if (own := findings.others(group, shared))]
    return f"{'also ' if shared else ''}{findings.summed(others, most=1)}" if others else ""


@dataclass(frozen=True)
class Rivals:
    """Points that compete with a figure of a phase: the values that choose among them, and how these scatter."""

    column: str
    results: Mapping[str, PointSummary]  # by point
    candidates: Mapping[str, Candidate]
    noise: statistics.Noise | None  # without it three repetitions at the double rate tell nothing
    # point -> its own interval: a point is compared with many
    intervals: dict[str, Interval | None] = field(default_factory=dict, compare=False, repr=False)

    def ratio(self, one: PointSummary, to: PointSummary) -> Interval | None:
        """The 95 % interval of the ratio of two points' figures, by the repetitions that choose; None where they are
        too few, or of one point on different nodes."""
        if not all(result.host_sets < 2 or result.in_turn for result in (one, to)):
            return None
        a, b = self._interval(one.point), self._interval(to.point)
        return None if a is None or b is None else statistics.between(a, b)

    def _interval(self, point: str) -> Interval | None:
        if point not in self.intervals:
            self.intervals[point] = statistics.of_mean(self.candidates[point].values, self.noise)
        return self.intervals[point]

    def share(self, one: PointSummary, to: PointSummary) -> float:
        """The ratio itself, of the means that chose."""
        return fmean(self.candidates[one.point].values) / (fmean(self.candidates[to.point].values) or math.inf)

    def choose(self, lowest: bool = False) -> Best | None:
        """The best of them; None without any."""
        candidates = [*self.candidates.values()]
        winner = best(candidates, lowest)
        if winner is None:
            return None
        known, result = self.results, self.results[winner.point]
        fresh = [row.verdict for row in result.rows if row.confirms and row.verdict != "missing"]
        confirmed = self.column in result.confirmed
        alike = [one for one in candidates if one is not winner and not self._apart(one, winner)]
        alike.sort(key=lambda one: abs(fmean(one.values) - fmean(winner.values)))
        sign = 1 if lowest else -1
        better = [one for one in candidates if sign * (fmean(one.figures) - fmean(winner.figures)) < 0]
        better.sort(key=lambda one: sign * fmean(one.figures))
        return Best(
            result,
            self.column,
            len(known),
            confirmed,
            worst(fresh) if confirmed else result.verdict,
            tuple(known[one.point] for one in alike),
            tuple(known[one.point] for one in better),
            fresh.count("suspect"),
            fresh.count("invalid"),
        )

    def _apart(self, one: Candidate, other: Candidate) -> bool:
        """Whether the 95 % interval of the ratio of two points excludes 1."""
        found = self.ratio(self.results[one.point], self.results[other.point])
        return found is not None and found.excludes(1.0)


def rivals(results: Sequence[PointSummary], column: str, fails: Failed) -> Rivals:
    """The results that have this figure, for comparison."""
    known = {result.point: result for result in results if column in result.metrics}
    candidates = {point: one for point, result in known.items() if (one := _candidate(result, column, fails))}
    return Rivals(column, known, candidates, statistics.pooled([one.values for one in candidates.values()]))


def _candidate(result: PointSummary, column: str, fails: Failed) -> Candidate | None:
    chose = (row for row in result.rows if row.verdict != "missing" and not row.confirms)
    return candidate(result.point, ((counted(row, column), valid(row, fails)) for row in chose))


def valid(row: Row, fails: Failed) -> bool:
    """Whether a repetition is not in doubt. The check `precise` does not count: it is made when all repetitions are
    there, and the runner has chosen without it."""
    return row.verdict == "valid" or fails.get((row.point, row.repetition, row.phase)) == {PRECISE}


def _difference(result: PointSummary, other: PointSummary) -> str:
    """What a point has that another one has not: `16 threads per node`; all that it has, where that has no words."""
    own = {name: value for name, value in result.parameters.items() if value != other.parameters[name]}
    told = [formats.named(name, value) for name, value in own.items() if value is not None]
    return " × ".join(filter(None, told)) or formats.brief(result)
