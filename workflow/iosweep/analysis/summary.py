"""Rows of results.parquet -> a summary for each phase of a point, over its repetitions. Pure.

Valid and suspect repetitions count; invalid ones do not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from statistics import fmean

from iosweep.histograms import Histogram
from iosweep.judge import agreement, statistics
from iosweep.judge.agreement import COUNTED, MeasuredOn, RepeatedFigure
from iosweep.judge.statistics import MIN_REPETITIONS, Estimate, Grade, Round, Sample, grade
from iosweep.tables.reader import Campaign, HistogramReader, ResultRow, RowKey, Value, no_histograms
from iosweep.tools import phases

#: From best to worst.
VERDICTS = ("valid", "suspect", "invalid", "missing")
#: Outcomes of a planned repetition, and of a result: a verdict, left to measure, or unneeded by a ramp.
OUTCOMES = (*VERDICTS, "left", "unneeded")
#: Columns to summarize over the repetitions.
FIGURES = (
    *("bandwidth_bytes_per_s", "ops_per_s"),
    *(f"{kind}latency_{name}_s" for kind in ("", "completion_") for name in ("mean", "p50", "p99", "p99_5", "p99_9")),
)
#: Columns whose figure is a percentile of the merged histogram of the repetitions -> percent.
PERCENTILES = {"latency_p50_s": 50.0, "latency_p99_s": 99.0, "latency_p99_5_s": 99.5, "latency_p99_9_s": 99.9}
#: Reads the histograms of a campaign, on first use.
Histograms = Callable[[], Mapping[RowKey, Histogram]]


@dataclass(frozen=True)
class Metric:
    """A figure over the repetitions that count, in the column's unit.

    figure: their geometric mean, 0 if one is 0; of a percentile that of all their I/Os together (PERCENTILES), if the
    tool reports histograms; low, high: the range of the repetitions; values: one for each repetition, in order; sd:
    sample standard deviation, None for a single value; estimate: with the 95 % interval, None with fewer than three
    repetitions, with repetitions on different nodes, or with a figure of zero; iterations: those of mdtest -i in a
    single repetition, which low, high and sd then describe.
    """

    figure: float
    low: float
    high: float
    values: tuple[float, ...]
    sd: float | None
    estimate: Estimate | None = None
    iterations: int = 1

    @property
    def n(self) -> int:
        """Number of repetitions."""
        return len(self.values)

    @property
    def interval(self) -> Estimate | None:
        """The estimate, if its interval is narrow enough to be shown."""
        return self.estimate if self.estimate and self.estimate.tells else None

    @property
    def grade(self) -> Grade | None:
        """A, B or C, by the width of the interval; None if it is wider or there is none."""
        return grade(self.estimate)

    @property
    def ci95_share(self) -> float | None:
        """Half width of the interval as a share of the figure; None if it is not shown."""
        return self.interval.half_width_share if self.interval else None


@dataclass(frozen=True)
class PointSummary:
    """A phase of a point over its repetitions.

    metric: column of its headline; parameters: of the point, also those that only other phases use; verdict: the worst
    of the measured repetitions, missing without any; reasons: distinct, in order of appearance, without repetitions
    that a ramp skips; metrics: column -> figure of the repetitions that select the best point; confirmed: column ->
    figure of the repetitions that confirm it; rows: the repetitions, or the single row that says why there are none.
    """

    point: str
    phase: str
    kind: str
    tool: str
    metric: str
    parameters: Mapping[str, Value | None]
    verdict: str
    reasons: tuple[str, ...]
    metrics: Mapping[str, Metric]
    rows: tuple[ResultRow, ...]
    confirmed: Mapping[str, Metric] = field(default_factory=dict)
    histograms: Histograms = field(default=dict, repr=False, compare=False)

    @property
    def own_parameters(self) -> Mapping[str, Value | None]:
        """The parameters, without those that the phase does not use."""
        return self.rows[0].parameters

    @property
    def headline(self) -> Metric | None:
        """The phase's own figure; None if no repetition counts."""
        return self.metrics.get(self.metric)

    @property
    def measured(self) -> int:
        """Number of measured repetitions, whatever their verdict."""
        return sum(row.verdict != "missing" for row in self.rows)

    @property
    def invalid(self) -> int:
        """Number of invalid repetitions, without those that confirm."""
        return sum(row.verdict == "invalid" and not row.confirms for row in self.rows)

    @property
    def lacking(self) -> int:
        """Number of missing repetitions, if other repetitions are measured."""
        return (
            sum(row.verdict == "missing" and not row.unneeded for row in self.rows) if self.verdict != "missing" else 0
        )

    @property
    def used(self) -> int:
        """Number of repetitions that count."""
        return sum(row.verdict in COUNTED and not row.confirms for row in self.rows)

    @property
    def state(self) -> str:
        """The outcome of the result: `left` if the next run measures any of its repetitions, `unneeded` if a ramp needs
        none of them, else the verdict."""
        present = self.outcomes
        return "left" if "left" in present else "unneeded" if present == ("unneeded",) else self.verdict

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Distinct outcomes of the repetitions, from best to worst."""
        present = {outcome(row) for row in self.rows}
        return tuple(name for name in OUTCOMES if name in present)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Nodes of the repetitions that count, in order of appearance."""
        return tuple(dict.fromkeys(host for hosts, *_ in _find_places(self.rows) if hosts for host in hosts.split(",")))

    @property
    def host_sets(self) -> int:
        """The most different sets of nodes on which the counted repetitions of a session ran."""
        return agreement.host_sets(_find_places(self.rows))

    @property
    def in_turn(self) -> bool:
        """Whether the repetitions took turns on the nodes of an allocation."""
        return agreement.in_turn(_find_places(self.rows))

    @property
    def builds(self) -> tuple[str, ...]:
        """Builds of the tool that made the figures, in order of appearance; without figures, the builds that ran."""
        known = [row for row in self.rows if row.tool_build]
        counted = [row for row in known if row.verdict in COUNTED]
        return tuple(dict.fromkeys(row.tool_build or "" for row in counted or known))

    @property
    def nodes(self) -> int:
        """Number of nodes of the point."""
        return self.count("nodes") or 1

    def count(self, column: str) -> int | None:
        """Value of a parameter that is a count or a size."""
        value = self.parameters[column]
        return value if isinstance(value, int) else None

    def figure(self, column: str) -> float | None:
        """The figure of a column; None without any."""
        metric = self.metrics.get(column)
        return metric.figure if metric else None

    def collect(self, column: str, rows: Sequence[ResultRow] = ()) -> RepeatedFigure:
        """Repetitions that count: those that select the best point, or those of `rows`."""
        return _collect(rows or [row for row in self.rows if not row.confirms] or self.rows, column, self.histograms)

    def sample(self, column: str, rows: Sequence[ResultRow] = ()) -> Sample | None:
        """The same for statistics: None without any, if they ran on different nodes, or with a figure of zero."""
        return self.collect(column, rows).sample

    def percentiles(self, percents: Sequence[float]) -> list[float]:
        """Latencies in seconds below which these percents of the I/Os of the repetitions that select are; `percents`
        ascend. Empty without histograms; the list ends where few I/Os are above."""
        rows = [row for row in self.rows if not row.confirms]
        merged = Histogram.merged([*_find_histograms(rows, self.histograms()).values()])
        figures = {percent: self.figure(column) for column, percent in PERCENTILES.items()}
        found = zip(percents, merged.percentiles(percents) if merged else (), strict=False)
        return [figures.get(percent) or latency_s for percent, latency_s in found]


def summarize_campaign(campaign: Campaign) -> list[PointSummary]:
    """Summarize each (point, phase) of a campaign."""
    return summarize(campaign.rows, campaign.histograms)


def summarize(rows: Iterable[ResultRow], histograms: HistogramReader = no_histograms) -> list[PointSummary]:
    """Summarize each (point, phase): points in the order of the rows, phases in the order in which they run."""
    groups: dict[tuple[str, str], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault((row.point, row.phase), []).append(row)
    order = {point: i for i, point in enumerate(dict.fromkeys(point for point, _ in groups))}
    keys = sorted(groups, key=lambda key: (order[key[0]], phase_order(key[1])))
    ordered = [sorted(groups[key], key=lambda row: row.repetition or 0) for key in keys]
    parts = [[row for row in rows if bool(row.confirms) == confirms] for confirms in (False, True) for rows in ordered]

    @cache
    def known() -> Mapping[RowKey, Histogram]:
        timed = (row for rows in ordered for row in rows if "latency_mean_s" in row.figures)
        return histograms({_key(row) for row in timed if row.verdict in COUNTED})

    @cache
    def percentiles() -> dict[str, list[RepeatedFigure | None]]:  # all of a part together: its histograms merge once
        each = [{column: _collect(rows, column, known) for column in PERCENTILES} if rows else {} for rows in parts]
        return {column: [figures.get(column) for figures in each] for column in PERCENTILES}

    @cache
    def read(column: str) -> list[Metric | None]:
        if column in PERCENTILES:
            figures = percentiles().pop(column)
        else:
            figures = [_collect(rows, column, known) if rows else None for rows in parts]
        estimates = iter(agreement.estimates([figure for figure in figures if figure]))
        column_metrics = []
        for figure, rows in zip(figures, parts, strict=True):
            estimate = next(estimates) if figure else None
            metric = summarize_figure(figure, estimate) if figure and figure.values else None
            column_metrics.append(_add_iterations(metric, rows) if metric and column == "ops_per_s" else metric)
        return column_metrics

    used: dict[str, dict[str, Value | None]] = {}
    for rows in ordered:
        used.setdefault(rows[0].point, {}).update((k, v) for k, v in rows[0].parameters.items() if v is not None)
    metrics = [_Metrics(read, index) for index in range(len(parts))]
    summaries = []
    for rows, chose, confirmed in zip(ordered, metrics, metrics[len(ordered) :], strict=False):
        planned = [row for row in rows if outcome(row) != "unneeded"] or rows
        reasons = (reason for row in planned for reason in row.reasons)
        summaries.append(
            PointSummary(
                point=rows[0].point,
                phase=rows[0].phase,
                kind=rows[0].kind,
                tool=rows[0].tool,
                metric=rows[0].metric,
                parameters={**rows[0].parameters, **used[rows[0].point]},
                verdict=worst([row.verdict for row in rows if row.verdict != "missing"] or ["missing"]),
                reasons=tuple(dict.fromkeys(reasons)),
                metrics=chose,
                rows=tuple(rows),
                confirmed=confirmed,
                histograms=known,
            )
        )
    return summaries


class _Metrics(Mapping[str, Metric]):
    """Column -> figure, for columns of FIGURES that have a value. read: computes a column of all parts at once, on
    first use: a report reads only half of the columns."""

    __slots__ = ("_part", "_read")

    def __init__(self, read: Callable[[str], list[Metric | None]], part: int):
        self._read, self._part = read, part

    def __getitem__(self, column: str) -> Metric:
        metric = self._read(column)[self._part] if column in FIGURES else None
        if metric is None:
            raise KeyError(column)
        return metric

    def __iter__(self) -> Iterator[str]:
        return (column for column in FIGURES if self._read(column)[self._part])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def summarize_values(values: Iterable[float], estimate: Estimate | None = None) -> Metric:
    """Summarize the values of one or more repetitions."""
    values = tuple(values)
    return Metric(
        figure=geometric_mean(values),
        low=min(values),
        high=max(values),
        values=values,
        sd=math.sqrt(statistics.variance(values)) if len(values) > 1 else None,
        estimate=estimate if len(values) >= MIN_REPETITIONS else None,
    )


def summarize_figure(figure: RepeatedFigure, estimate: Estimate | None = None) -> Metric:
    """The same of a figure that may not be the mean of the repetitions."""
    metric = summarize_values(figure.values.values(), estimate)
    return replace(metric, figure=math.exp(fmean(figure.pseudo_values.values()))) if figure.pseudo_values else metric


def geometric_mean(values: Collection[float]) -> float:
    """0 if a value is 0."""
    first = next(iter(values))  # equal values have exactly this mean
    return first * math.exp(fmean([math.log(value / first) for value in values])) if min(values) > 0 else 0.0


def _add_iterations(metric: Metric, rows: Sequence[ResultRow]) -> Metric:
    """Add the range of mdtest's own iterations if there is a single repetition."""
    (first, *others) = (row for row in rows if row.verdict in COUNTED)
    if others or not first.iterations or first.iterations < 2:
        return metric
    low, high = (first.figures.get(f"{end}_ops_per_s", metric.figure) for end in ("min", "max"))
    sd = first.figures.get("stddev_ops_per_s")
    return replace(metric, low=low, high=high, sd=sd, iterations=first.iterations)


def _collect(rows: Sequence[ResultRow], column: str, histograms: Histograms) -> RepeatedFigure:
    first, nodes = rows[0], rows[0].parameters["nodes"]
    figures = ((round_of(row), counted(row, column)) for row in rows)
    values = {key: value for key, value in figures if value is not None}
    pseudo_values = None
    if column in PERCENTILES and sum(row.verdict in COUNTED for row in rows) > 1:
        parts = _find_histograms(rows, histograms())
        if len(parts) > 1:
            values, pseudo_values = _merge(values, parts, PERCENTILES[column])
    return RepeatedFigure(
        (first.tool, nodes if isinstance(nodes, int) else 1),
        first.phase,
        values,
        pseudo_values,
        bool(first.confirms),
        _find_places(rows),
    )


def _merge(
    values: Mapping[Round, float], parts: Mapping[Round, Histogram], percent: float
) -> tuple[dict[Round, float], Sample | None]:
    """(the percentile of each repetition, the sample of that of all their I/Os together); no values if too few I/Os are
    beyond it. values: percentiles of the tool, which has finer bins; repetitions with few I/Os have none."""
    total, others = _leave_one_out(tuple(parts.values()))
    if not (merged := total.percentiles([percent])):
        return {}, None
    each = {key: values.get(key) or part.percentile(percent) for key, part in parts.items()}
    # a percentile of a sum lies between those of its parts, which the tool knows better
    figure = min(max(merged[0], min(each.values())), max(each.values()))
    without = {key: rest.percentile(percent) for key, rest in zip(parts, others, strict=True)}
    return each, statistics.jackknife(figure, each, without)


@lru_cache(maxsize=1)  # for the next percentile of the same repetitions
def _leave_one_out(parts: tuple[Histogram, ...]) -> tuple[Histogram, list[Histogram]]:
    """The sum of two or more histograms, and what it is without each."""
    total = Histogram.merged(parts)
    assert total is not None
    return total, [total.without(part) for part in parts]


def _find_histograms(rows: Iterable[ResultRow], known: Mapping[RowKey, Histogram]) -> dict[Round, Histogram]:
    """The histograms of the repetitions that count."""
    return {round_of(row): known[_key(row)] for row in rows if row.verdict in COUNTED and _key(row) in known}


def round_of(row: ResultRow) -> Round:
    """Key of a repetition in a sample."""
    return row.session, row.repetition or 0


def _key(row: ResultRow) -> RowKey:
    return row.point, row.phase, row.repetition or 0


def _find_places(rows: Iterable[ResultRow]) -> list[MeasuredOn]:
    """Where the rows that count were measured, without duplicates."""
    return list(dict.fromkeys((row.hosts, row.slurm_job, row.session_number) for row in rows if row.verdict in COUNTED))


def counted(row: ResultRow, column: str) -> float | None:
    """Figure of a repetition in the column's unit; None without one, or if the repetition does not count."""
    value = row.figures.get(column) if row.verdict in COUNTED else None
    return value if value is not None and math.isfinite(value) else None


def hosts_of(row: ResultRow) -> tuple[str, ...]:
    """Nodes that measured a row, in order; empty if nothing was measured."""
    return tuple(row.hosts.split(",")) if row.hosts else ()


# outcomes


def outcome(row: ResultRow) -> str:
    """The outcome of a row. An unknown verdict counts as invalid."""
    return "left" if row.left else "unneeded" if row.unneeded else worst([row.verdict])


def count_results(results: Iterable[PointSummary]) -> dict[str, int]:
    """Outcome -> number of results."""
    counts = Counter(result.state for result in results)
    return {outcome: counts[outcome] for outcome in OUTCOMES}


def worst(verdicts: Iterable[str]) -> str:
    """The worst verdict. An unknown verdict counts as invalid, so that it is never hidden."""
    return max((v if v in VERDICTS else "invalid" for v in verdicts), key=VERDICTS.index)


# parameters


def distinct(values: Iterable[Value | None]) -> list[Value]:
    """Distinct known values of a parameter, ascending."""
    return sorted({value for value in values if value is not None})


def distinct_or_unknown(results: Sequence[PointSummary], column: str) -> list[Value | None]:
    """Distinct values of a parameter, with None last if it is unknown in some results (ingested outputs)."""
    values = [result.parameters[column] for result in results]
    return [*distinct(values), *([None] if None in values else [])]


def phase_order(phase: str) -> tuple[int, str]:
    """Sort key: known phases in the order in which they run, then others by name."""
    known = list(phases())
    return (known.index(phase), "") if phase in known else (len(known), phase)
