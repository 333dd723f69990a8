"""The best point of a phase: how it was chosen and confirmed, and which points cannot be distinguished from it. Pure.

The runner selects with the same functions (judge/best.py) and measures the best points again. The headline is from
these fresh repetitions only, because selection biases the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from iosweep.analysis import formats
from iosweep.analysis.summary import (
    Metric,
    PointSummary,
    geometric_mean,
    phase_order,
    round_of,
    summarize_figure,
    worst,
)
from iosweep.judge import statistics
from iosweep.judge.best import Candidate, best, candidate
from iosweep.judge.statistics import ALPHA, MIN_REPETITIONS, Estimate, Sample
from iosweep.plan.headline_groups import HeadlineGroup, load, of_phase
from iosweep.tables.reader import ResultRow
from iosweep.text import human_count
from iosweep.tools.axes import TARGET


@dataclass(frozen=True)
class Best:
    """The best of `of` points in a column.

    metrics: of the fresh repetitions if any, else of the repetitions that selected the point; alike: points that cannot
    be distinguished from it.
    """

    result: PointSummary
    column: str
    of: int
    alike: tuple[PointSummary, ...]

    @property
    def confirmed(self) -> bool:
        return self.column in self.result.confirmed

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return self.result.confirmed if self.confirmed else self.result.metrics

    @property
    def metric(self) -> Metric:
        return self.widen(self.metrics[self.column])

    def widen(self, metric: Metric) -> Metric:
        """Its figure in any column. The best is partly luck: without fresh repetitions the interval allows for all
        points that may be the best (Bonferroni)."""
        if self.confirmed or metric.estimate is None:
            return metric
        return replace(metric, estimate=metric.estimate.at(ALPHA / (1 + len(self.alike))))

    @property
    def rows(self) -> list[ResultRow]:
        """The repetitions behind the figure, and those of the same kind (fresh or not) that do not count."""
        return [row for row in self.result.rows if bool(row.confirms) == self.confirmed]

    @property
    def verdict(self) -> str:
        if not self.confirmed:
            return self.result.verdict
        return worst(row.verdict for row in self.rows if row.verdict != "missing")

    @property
    def chosen(self) -> str:
        """`best of 24 points, confirmed by 3 fresh repetitions`, `..., not confirmed: likely too high`; "" for a single
        point."""
        if self.of == 1:
            return ""
        of = f"best of {human_count(self.of, 'point')}"
        if self.confirmed:
            return f"{of}, confirmed by {human_count(self.metric.n, 'fresh repetition')}"
        return f"{of}, not confirmed: likely too {'low' if 'latency' in self.column else 'high'}"


def group(results: Sequence[PointSummary]) -> dict[HeadlineGroup, list[PointSummary]]:
    """The results that compete for each headline, in phase order."""
    conditions = formats.conditions(results)
    groups: dict[HeadlineGroup, list[PointSummary]] = {}
    for result in sorted(results, key=lambda result: phase_order(result.phase)):
        size = result.parameters["file_size_bytes"] if result.kind == "metadata" else None
        applying = of_phase(conditions[result.point], result.phase)
        key = HeadlineGroup(applying, result.kind, size, result.phase, result.parameters[TARGET.column])
        groups.setdefault(key, []).append(result)
    return groups


def find_highest(results: Sequence[PointSummary], column: str | None = None) -> Best | None:
    """The highest rate of a phase, or the highest value of another column; None without a figure."""
    measured = [result for result in results if (column or result.metric) in result.metrics]
    return Rivals(measured, column or measured[0].metric).best() if measured else None


def find_lowest_latency(results: Sequence[PointSummary]) -> Best | None:
    """The lowest mean latency of a phase at the lowest queue depth on the fewest nodes: the cost of an I/O without
    queueing."""
    measured = [result for result in results if "latency_mean_s" in result.metrics]
    loads = [load(result.parameters["queue_depth"], result.nodes) for result in measured]
    lowest = min(loads, default=None)
    least = [result for result, own in zip(measured, loads, strict=True) if own == lowest]
    return Rivals(least, "latency_mean_s").best(lowest=True) if least else None


@dataclass
class Rivals:
    """Points of a phase that compete in a column, by the repetitions that select."""

    results: Sequence[PointSummary]
    column: str
    candidates: dict[str, Candidate] = field(init=False, repr=False)
    _samples: dict[str, Sample] = field(init=False, repr=False)
    _means: dict[str, Estimate] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.candidates, samples = {}, {}
        for result in self.results:
            chose = [row for row in result.rows if row.verdict != "missing" and not row.confirms]
            figure = result.collect(self.column, chose)
            repetitions = ((figure.values.get(round_of(row)), row.undisturbed) for row in chose)
            if entry := candidate(result.point, repetitions):
                if entry.undisturbed:
                    valid = result.collect(self.column, [row for row in chose if row.undisturbed])
                    figure = valid if valid.values else figure
                self.candidates[result.point] = replace(entry, values=[summarize_figure(figure).figure])
                if figure.sample:
                    samples[result.point] = figure.sample
        adjusted = statistics.remove_rounds([*samples.values()])
        self._samples = dict(zip(samples, adjusted, strict=True))
        noise = statistics.pool(adjusted)
        means = ((point, statistics.mean([sample], noise)) for point, sample in self._samples.items() if noise)
        self._means = {point: mean for point, mean in means if mean}

    def best(self, lowest: bool = False) -> Best | None:
        """The best point; None without points."""
        winner = best(self.candidates.values(), lowest)
        if winner is None:
            return None
        known = {result.point: result for result in self.results}
        top = known[winner.point]
        alike = [known[point] for point in self.candidates if point != top.point and self.is_alike(known[point], top)]
        return Best(top, self.column, len(self.candidates), tuple(alike))

    def share(self, result: PointSummary, base: PointSummary) -> float:
        """Ratio of two points, by the repetitions that select."""
        if found := self.ratio(result, base):
            return found.center
        a, b = (geometric_mean(self.candidates[side.point].values) for side in (result, base))
        return a / b if b else math.inf

    def ratio(self, result: PointSummary, base: PointSummary) -> Estimate | None:
        """The ratio of two points; None with too few repetitions, or if the repetitions of a point ran on different
        nodes."""
        a, b = self._samples.get(result.point), self._samples.get(base.point)
        if a is None or b is None or min(len(a), len(b)) < MIN_REPETITIONS:
            return None
        if self._means:
            return statistics.subtract(self._means[result.point], self._means[base.point])
        return statistics.ratio([(a, b)])

    def is_alike(self, result: PointSummary, base: PointSummary) -> bool:
        """Whether a point may be as good as the best one (`base`). Luck has a part in the choice, so the risk of
        calling any point worse that is as good is spent over all pairs (Bonferroni)."""
        found = self.ratio(result, base)
        return found is None or not found.at(ALPHA / max(1, math.comb(len(self.candidates), 2))).excludes(1.0)
