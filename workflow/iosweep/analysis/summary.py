"""Rows of the result table -> one summary for each phase of a point, over its repetitions. Pure.

Only valid and suspect repetitions enter a figure; invalid ones never do. A percentile over several repetitions is the
median of the repetitions' percentiles: an average of percentiles is not a percentile.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean, median

from iosweep.judge import agreement, statistics
from iosweep.judge.agreement import COUNTED, Sample
from iosweep.judge.findings import REASONS
from iosweep.judge.statistics import ENOUGH, Grade, Interval, grade
from iosweep.plan.model import SweepFacts
from iosweep.tables.reader import PhaseOutcome, Row, Value
from iosweep.tools import phases

#: From best to worst.
VERDICTS = ("valid", "suspect", "invalid", "missing")
#: Outcomes of a planned repetition: a verdict, left to measure, or not needed by a ramp.
OUTCOMES = (*VERDICTS, "left", "unneeded")
#: Columns that are summarized over the repetitions.
FIGURES = (
    *("bandwidth_bytes_per_s", "ops_per_s"),
    *(f"{kind}latency_{name}_s" for kind in ("", "completion_") for name in ("mean", "p50", "p99", "p99_5", "p99_9")),
)


@dataclass(frozen=True)
class Metric:
    """One figure over the repetitions that count, in the column's unit.

    sd: of the sample, None for one repetition of one iteration; values: of each repetition, in their order; interval:
    95 %, None for fewer than three repetitions, for repetitions on different nodes, or with a figure of zero;
    iterations: of a single repetition, which low, high and sd are then of (mdtest -i).
    """

    n: int
    mean: float
    median: float
    low: float
    high: float
    sd: float | None
    values: tuple[float, ...] = ()
    interval: Interval | None = None
    iterations: int = 1

    @property
    def grade(self) -> Grade | None:
        """How narrow the interval is: A, B, C."""
        return grade(self.interval)

    @property
    def ci95_share(self) -> float | None:
        """Half width of the interval as a share of the figure; None where the interval is wider than the figure."""
        found = self.interval
        return found.half_width_share if found and found.half_width_share < 1 else None

    @property
    def repeatable(self) -> bool:
        """Whether it has a grade, or too few repetitions to tell: as the check `precise` decides."""
        return self.interval is None or not statistics.scattered(self.values)


@dataclass(frozen=True)
class PointSummary:
    """A phase of a point over its repetitions.

    metric: column of its headline; verdict: the worst of the measured repetitions, missing without one; reasons:
    distinct, in order of appearance, those of repetitions that a ramp leaves out only if all are; metrics: column ->
    the figure of the repetitions that choose the best point; confirmed: of those that confirm it; rows: the
    repetitions, or the one row that says why there is none.
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
    rows: tuple[Row, ...]
    confirmed: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def headline(self) -> Metric | None:
        """The phase's own figure, or None if no repetition counts."""
        return self.metrics.get(self.metric)

    @property
    def measured(self) -> int:
        """Number of repetitions that have an outcome, whatever their verdict."""
        return sum(row.verdict != "missing" for row in self.rows)

    @property
    def invalid(self) -> int:
        """Number of invalid repetitions of those that choose the best point."""
        return sum(row.verdict == "invalid" and not row.confirms for row in self.rows)

    @property
    def lacking(self) -> int:
        """Number of missing repetitions beside others that are not."""
        return sum(outcome(row) in ("missing", "left") for row in self.rows) if self.verdict != "missing" else 0

    @property
    def used(self) -> int:
        """Number of repetitions that enter the figures."""
        return sum(row.verdict in COUNTED and not row.confirms for row in self.rows)

    @property
    def state(self) -> str:
        """Its verdict; `left` where nothing but the next run is missing, `unneeded` where a ramp needs none of it."""
        return self.outcomes[0] if self.outcomes in (("left",), ("unneeded",)) else self.verdict

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The distinct outcomes of its repetitions, from best to worst."""
        found = {outcome(row) for row in self.rows}
        return tuple(one for one in OUTCOMES if one in found)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Nodes whose repetitions enter the figures, in order of appearance."""
        return tuple(dict.fromkeys(host for hosts, _ in _ran(self.rows) if hosts for host in hosts.split(",")))

    @property
    def host_sets(self) -> int:
        """On how many sets of nodes the repetitions that enter the figures ran."""
        return len(agreement.host_sets(_ran(self.rows)))

    @property
    def in_turn(self) -> bool:
        """Whether its repetitions went round the nodes of an allocation."""
        return agreement.in_turn(_ran(self.rows))

    @property
    def builds(self) -> tuple[str, ...]:
        """Builds of the tool that its figures come from, in order of appearance; without figures, those that ran."""
        found = [row for row in self.rows if row.tool_build]
        counted = [row for row in found if row.verdict in COUNTED]
        return tuple(dict.fromkeys(row.tool_build or "" for row in counted or found))

    @property
    def nodes(self) -> int:
        """Number of nodes of the point."""
        return self.count("nodes") or 1

    def count(self, column: str) -> int | None:
        """The value of a parameter that is a count or a size."""
        value = self.parameters[column]
        return value if isinstance(value, int) else None

    def typical(self, column: str) -> float | None:
        """The figure to show for a column: mean of the repetitions, for a percentile their median."""
        if (metric := self.metrics.get(column)) is None:
            return None
        return metric.median if is_percentile(column) else metric.mean

    def values(self, column: str) -> list[float]:
        """A figure of the repetitions that count and choose the best point."""
        return _values((row for row in self.rows if not row.confirms), column)

    def sample(self, column: str) -> Sample:
        """The same, for statistics."""
        return _sample([row for row in self.rows if not row.confirms] or self.rows, column)

    def rounds(self, column: str) -> dict[object, float]:
        """The same: (session, repetition) -> value."""
        own = ((row, counted(row, column)) for row in self.rows if not row.confirms)
        return {(row.session, row.repetition): value for row, value in own if value is not None}

    def center(self, column: str) -> float | None:
        """The geometric mean of these: 0 with a figure of zero; None without any."""
        values = self.sample(column).values
        if not values:
            return None
        return math.exp(fmean(map(math.log, values))) if min(values) > 0 else 0.0


def summarize(rows: Iterable[Row]) -> list[PointSummary]:
    """One summary for each (point, phase), in the order of the rows' points and of their tools' phases."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.point, row.phase), []).append(row)
    place = {point: i for i, point in enumerate(dict.fromkeys(point for point, _ in groups))}
    keys = sorted(groups, key=lambda key: (place[key[0]], phase_order(key[1])))
    ordered = [sorted(groups[key], key=lambda row: row.repetition or 0) for key in keys]
    parts = [[row for row in rows if bool(row.confirms) == confirms] for confirms in (False, True) for rows in ordered]

    @cache
    def read(column: str) -> list[Metric | None]:
        samples = [_sample(rows, column) if rows else None for rows in parts]
        intervals = iter(agreement.intervals([sample for sample in samples if sample]))
        found = []
        for sample, rows in zip(samples, parts, strict=True):
            interval = next(intervals) if sample else None
            metric = summarize_values(sample.values, interval) if sample and sample.values else None
            found.append(_of_iterations(metric, rows) if metric and column == "ops_per_s" else metric)
        return found

    metrics = [_Metrics(read, place) for place in range(len(parts))]
    return [_summary(*one) for one in zip(ordered, metrics, metrics[len(ordered) :], strict=False)]


def _summary(rows: Sequence[Row], metrics: Mapping[str, Metric], confirmed: Mapping[str, Metric]) -> PointSummary:
    first = rows[0]
    asked = [row for row in rows if outcome(row) != "unneeded"] or rows
    return PointSummary(
        point=first.point,
        phase=first.phase,
        kind=first.kind,
        tool=first.tool,
        metric=first.metric,
        parameters=first.parameters,
        verdict=worst([row.verdict for row in rows if row.verdict != "missing"] or ["missing"]),
        reasons=tuple(dict.fromkeys(reason for row in asked if row.reasons for reason in row.reasons.split(REASONS))),
        metrics=metrics,
        rows=tuple(rows),
        confirmed=confirmed,
    )


class _Metrics(Mapping[str, Metric]):
    """Column -> the figure of one part, for FIGURES that have a value. read: column -> the figures of all parts, which
    are made when they are first asked for: a report looks at half of the columns."""

    __slots__ = ("_place", "_read")

    def __init__(self, read: Callable[[str], list[Metric | None]], place: int):
        self._read, self._place = read, place

    def __getitem__(self, column: str) -> Metric:
        found = self._read(column)[self._place] if column in FIGURES else None
        if found is None:
            raise KeyError(column)
        return found

    def __iter__(self) -> Iterator[str]:
        return (column for column in FIGURES if self._read(column)[self._place])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def summarize_values(values: Sequence[float], interval: Interval | None = None) -> Metric:
    """The figure of at least one repetition, with its interval."""
    n = len(values)
    return Metric(
        n=n,
        mean=fmean(values),
        median=median(values),
        low=min(values),
        high=max(values),
        sd=math.sqrt(statistics.variance(values)) if n > 1 else None,
        values=tuple(values),
        interval=interval if n >= ENOUGH else None,
    )


def _of_iterations(metric: Metric, rows: Sequence[Row]) -> Metric:
    """With the range of the iterations that the tool itself summarizes, where that is all there is."""
    (first, *others) = (row for row in rows if row.verdict in COUNTED)
    if others or not first.iterations or first.iterations < 2:
        return metric
    low, high = (first.figures.get(f"{end}_ops_per_s", metric.mean) for end in ("min", "max"))
    sd = first.figures.get("stddev_ops_per_s")
    return replace(metric, low=low, high=high, sd=sd, iterations=first.iterations)


def _sample(rows: Sequence[Row], column: str) -> Sample:
    first, nodes = rows[0], rows[0].parameters["nodes"]
    like = (first.tool, nodes if isinstance(nodes, int) else 1)
    return Sample(like, first.phase, _values(rows, column), agreement.alike(_ran(rows)), bool(first.confirms))


def _values(rows: Iterable[Row], column: str) -> list[float]:
    return [value for row in rows if (value := counted(row, column)) is not None]


def _ran(rows: Iterable[Row]) -> list[tuple[str | None, str | None]]:
    """The distinct (hosts, Slurm job) of the rows that count."""
    return list(dict.fromkeys((row.hosts, row.slurm_job) for row in rows if row.verdict in COUNTED))


def counted(row: Row, column: str) -> float | None:
    """A figure of a repetition in the column's unit; None where it has none, or does not count."""
    value = row.figures.get(column) if row.verdict in COUNTED else None
    return value if value is not None and math.isfinite(value) else None


def hosts_of(row: Row) -> tuple[str, ...]:
    """Nodes that measured a row, the first one first; none where nothing was measured."""
    return tuple(row.hosts.split(",")) if row.hosts else ()


# planned repetitions


@dataclass(frozen=True)
class Repetitions:
    """One repetition with all its phases, or all those of a point that has none yet. outcome: the worst of its phases;
    reasons: distinct, of those of its phases that have this outcome."""

    point: str
    count: int
    outcome: str
    reasons: tuple[str, ...]


def repetitions(rows: Iterable[PhaseOutcome], sweeps: Iterable[SweepFacts]) -> list[Repetitions]:
    """The planned repetitions of a campaign, in the order of its rows. sweeps: of campaign.json, which say how many
    repetitions a point without a single one was to have."""
    planned: dict[str, int] = {}
    for sweep in sweeps:
        for point in sweep.points:
            planned[point] = max(planned.get(point, 1), sweep.repetitions.min)
    groups: dict[tuple[str, int | None], list[PhaseOutcome]] = {}
    for row in rows:
        groups.setdefault((row.point, row.repetition), []).append(row)
    found = []
    for (point, number), own in groups.items():
        outcomes = [outcome(row) for row in own]
        judged = [one for one in outcomes if one in VERDICTS and one != "missing"]
        state = worst(judged) if judged else outcomes[0]
        # a suspect phase is not why a repetition is invalid
        reasons = tuple(dict.fromkeys(row.reasons for row in own if row.reasons and outcome(row) == state))
        found.append(Repetitions(point, planned.get(point, 1) if number is None else 1, state, reasons))
    return found


def outcome(row: PhaseOutcome) -> str:
    """The outcome of a row. An unknown verdict is invalid."""
    if row.verdict == "missing" and (row.left or row.unneeded):
        return "left" if row.left else "unneeded"
    return worst([row.verdict])


def count_repetitions(found: Iterable[Repetitions]) -> dict[str, int]:
    """Outcome -> number of repetitions."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for one in found:
        counts[one.outcome] += one.count
    return counts


def count_results(results: Iterable[PointSummary]) -> dict[str, int]:
    """Verdict -> number of summaries (a point's phases count one by one)."""
    counts = Counter(result.verdict for result in results)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts; an unknown word counts as invalid, so that it is never hidden."""
    return max((v if v in VERDICTS else "invalid" for v in verdicts), key=VERDICTS.index)


# parameters


def merge_point_parameters(results: Sequence[PointSummary]) -> list[PointSummary]:
    """The summaries with the parameters that other phases of their point have."""
    known: dict[str, dict[str, Value | None]] = {}
    for result in results:
        known.setdefault(result.point, {}).update({k: v for k, v in result.parameters.items() if v is not None})
    return [replace(result, parameters={**result.parameters, **known[result.point]}) for result in results]


def distinct(results: Iterable[PointSummary], column: str) -> list[Value]:
    """Distinct values of a parameter, in order; an absent one is left out."""
    return sorted({value for result in results if (value := result.parameters[column]) is not None})


def distinct_or_unknown(results: Sequence[PointSummary], column: str) -> list[Value | None]:
    """The distinct values of a parameter, and last None where a result does not have it: outputs of others do not tell
    every parameter."""
    unknown = any(result.parameters[column] is None for result in results)
    return [*distinct(results, column), *([None] if unknown else [])]


def phase_order(phase: str) -> tuple[int, str]:
    """Sorting key: known phases in the order in which they run, others after them by name."""
    known = list(phases())
    return (known.index(phase), "") if phase in known else (len(known), phase)


def is_percentile(column: str) -> bool:
    """Whether a column holds a percentile, which must not be averaged."""
    return "latency_p" in column
