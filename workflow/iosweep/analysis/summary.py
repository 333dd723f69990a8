"""Rows of the result table -> one result per point and phase. Pure.

Only valid and suspect repetitions enter a figure; invalid ones never do. A percentile over several repetitions is the
median of the repetitions' percentiles: an average of percentiles is not a percentile.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from iosweep.analysis.data import PhaseOutcome, Row, Value
from iosweep.judge import agreement
from iosweep.judge import statistics as statistics_of
from iosweep.judge.agreement import COUNTED, Sample
from iosweep.judge.reasons import REASONS
from iosweep.judge.statistics import ENOUGH, Grade, Interval, grade
from iosweep.plan.model import SweepFacts
from iosweep.tools import phases

#: From best to worst.
VERDICTS = ("valid", "suspect", "invalid", "missing")
#: What becomes of a planned repetition: a verdict, it is left to measure, or a ramp does not need it.
OUTCOMES = (*VERDICTS, "left", "unneeded")

#: Columns that are summarized over the repetitions.
FIGURES = (
    "bandwidth_bytes_per_s",
    "ops_per_s",
    "sampled_ops_per_s",
    "latency_mean_s",
    "latency_p50_s",
    "latency_p99_s",
    "latency_p99_5_s",
    "latency_p99_9_s",
    "completion_latency_mean_s",
    "completion_latency_p50_s",
    "completion_latency_p99_s",
    "completion_latency_p99_5_s",
    "completion_latency_p99_9_s",
)


@dataclass(frozen=True)
class Metric:
    """One figure over the repetitions that count, in the column's unit."""

    n: int
    mean: float
    median: float
    low: float
    high: float
    sd: float | None  # of the sample; None for one repetition of one iteration
    values: tuple[float, ...] = ()  # of each repetition, in their order
    interval: Interval | None = None  # 95 %; None for fewer than three repetitions, unlike nodes, or a figure of zero
    iterations: int = 1  # of a single repetition, which low, high and sd are then of (mdtest -i)

    @property
    def grade(self) -> Grade | None:
        """How narrow the interval is: A, B, C."""
        return grade(self.interval)

    @property
    def ci95_share(self) -> float | None:
        """Half width of the interval as a share of the figure; None where the interval says nothing, because it is
        wider than the figure."""
        found = self.interval
        return found.half_width_share if found and found.half_width_share < 1 else None

    @property
    def repeatable(self) -> bool:
        """Whether it has a grade, or too few repetitions to tell: as the check `precise` decides."""
        return self.interval is None or not statistics_of.scattered(self.values)


@dataclass(frozen=True)
class PointSummary:
    """What is known of one point's phase."""

    point: str
    phase: str
    kind: str
    tool: str
    metric: str
    parameters: Mapping[str, Value | None]  # columns of `parameters()`, the same for all repetitions -> value
    verdict: str  # the worst of its repetitions that were measured; missing if none was
    reasons: tuple[str, ...]  # distinct, in order of appearance; of repetitions that a ramp leaves out only if all are
    # FIGURES that have a value in a repetition that counts, of those that choose the best point: points stay comparable
    metrics: Mapping[str, Metric]
    rows: tuple[Row, ...]  # its repetitions, or the one row that says why there is none
    confirmed: Mapping[str, Metric] = field(default_factory=dict)  # the same of those that confirm a best point

    @property
    def headline(self) -> Metric | None:
        """The phase's own figure (column `metric`), or None if no repetition counts."""
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
        """Number of repetitions that are missing beside others that are not."""
        return sum(outcome(row) in ("missing", "left") for row in self.rows) if self.verdict != "missing" else 0

    @property
    def state(self) -> str:
        """Its verdict; `left` where nothing but the next run is missing, `unneeded` where a ramp needs none of it."""
        return self.outcomes[0] if self.outcomes in (("left",), ("unneeded",)) else self.verdict

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The distinct outcomes (OUTCOMES) of its repetitions, from best to worst."""
        found = {outcome(row) for row in self.rows}
        return tuple(one for one in OUTCOMES if one in found)

    @property
    def used(self) -> int:
        """Number of repetitions that enter the figures."""
        return sum(row.verdict in COUNTED and not row.confirms for row in self.rows)

    def values(self, column: str, confirms: bool = False) -> list[float]:
        """A figure of the repetitions that count: those that choose the best point, or those that confirm it."""
        return _values((row for row in self.rows if bool(row.confirms) == confirms), column)

    def sample(self, column: str) -> Sample:
        """A figure of the repetitions that choose the best point."""
        return _sample([row for row in self.rows if not row.confirms] or self.rows, column)

    def rounds(self, column: str) -> dict[object, float]:
        """The same: (session, repetition) -> value."""
        own = ((row, counted(row, column)) for row in self.rows if not row.confirms)
        return {(row.session, row.repetition): value for row, value in own if value is not None}

    @property
    def hosts(self) -> tuple[str, ...]:
        """Nodes whose repetitions enter the figures, in order of appearance."""
        return tuple(dict.fromkeys(host for row in _placed(self.rows) for host in hosts_of(row)))

    @property
    def host_sets(self) -> int:
        """On how many sets of nodes its repetitions ran, of those that enter the figures."""
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
        statistics = self.metrics.get(column)
        if statistics is None:
            return None
        return statistics.median if is_percentile(column) else statistics.mean

    def center(self, column: str) -> float | None:
        """The geometric mean of the repetitions, which a change is of: 0 with a figure of zero; None without any."""
        values = self.sample(column).values
        if not values:
            return None
        return math.exp(fmean(map(math.log, values))) if min(values) > 0 else 0.0


@dataclass(frozen=True)
class Repetitions:
    """One repetition with all its phases, or all those of a point that has none yet."""

    point: str
    count: int
    outcome: str  # of OUTCOMES; the worst of its phases
    reasons: tuple[str, ...]  # distinct, of those of its phases that have this outcome


def repetitions(rows: Iterable[PhaseOutcome], sweeps: Iterable[SweepFacts]) -> list[Repetitions]:
    """The planned repetitions of a campaign, in the order of its rows. `sweeps`: those of campaign.json, which say how
    many repetitions a point without a single one was to have."""
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
    """The outcome of a row: its verdict, `left` where it is still to be measured, or `unneeded`. An unknown verdict is
    invalid."""
    if row.verdict == "missing" and (row.left or row.unneeded):
        return "left" if row.left else "unneeded"
    return worst([row.verdict])


def count_repetitions(found: Iterable[Repetitions]) -> dict[str, int]:
    """Outcome -> number of repetitions."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for one in found:
        counts[one.outcome] += one.count
    return counts


def summarize(rows: Iterable[Row]) -> list[PointSummary]:
    """One result per (point, phase), in the order of the rows' points and of their tools' phases."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.point, row.phase), []).append(row)
    place = {point: i for i, point in enumerate(dict.fromkeys(point for point, _ in groups))}
    keys = sorted(groups, key=lambda key: (place[key[0]], phase_order(key[1])))
    ordered = [sorted(groups[key], key=lambda row: row.repetition or 0) for key in keys]
    parts = [[row for row in rows if bool(row.confirms) == confirms] for confirms in (False, True) for rows in ordered]
    columns = _Columns(parts)
    figures = [_Figures(columns, place) for place in range(len(parts))]
    confirmed = figures[len(ordered) :]
    return [_result(*one) for one in zip(ordered, figures, confirmed, strict=False)]


class _Columns:
    """The figures of all results, a column at a time, when it is first asked for: a report looks at half of them."""

    def __init__(self, parts: Sequence[Sequence[Row]]):
        self._parts = parts
        self._known: dict[str, list[Metric | None]] = {}

    def of(self, column: str) -> list[Metric | None]:
        """One for each part, None where it has no value."""
        if column not in self._known:
            samples = [_sample(rows, column) if rows else None for rows in self._parts]
            intervals = iter(agreement.intervals([sample for sample in samples if sample]))
            both = ((sample, next(intervals) if sample else None) for sample in samples)
            found = (statistics(one.values, interval) if one and one.values else None for one, interval in both)
            self._known[column] = [
                _of_iterations(one, rows) if one and column == "ops_per_s" else one
                for one, rows in zip(found, self._parts, strict=True)
            ]
        return self._known[column]


def _of_iterations(found: Metric, rows: Sequence[Row]) -> Metric:
    """With the range of the iterations that the tool itself summarizes, where that is all there is."""
    number, *others = (row.iterations or 1 for row in rows if row.verdict in COUNTED)
    if others or number < 2:
        return found
    own = next(row.figures for row in rows if row.verdict in COUNTED)
    low, high = own.get("min_ops_per_s", found.low), own.get("max_ops_per_s", found.high)
    return replace(found, low=low, high=high, sd=own.get("stddev_ops_per_s"), iterations=number)


class _Figures(Mapping[str, Metric]):
    """Column -> the figure of one part, of FIGURES that have a value."""

    __slots__ = ("_columns", "_place")

    def __init__(self, columns: _Columns, place: int):
        self._columns, self._place = columns, place

    def __getitem__(self, column: str) -> Metric:
        found = self._columns.of(column)[self._place] if column in FIGURES else None
        if found is None:
            raise KeyError(column)
        return found

    def __iter__(self) -> Iterator[str]:
        return (column for column in FIGURES if self._columns.of(column)[self._place])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _sample(rows: Sequence[Row], column: str) -> Sample:
    first, values = rows[0], _values(rows, column)
    nodes = first.parameters["nodes"]
    like = (first.tool, nodes if isinstance(nodes, int) else 1)
    return Sample(like, first.phase, values, agreement.alike(_ran(rows)), bool(first.confirms))


def _result(rows: Sequence[Row], figures: Mapping[str, Metric], confirmed: Mapping[str, Metric]) -> PointSummary:
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
        metrics=figures,
        rows=tuple(rows),
        confirmed=confirmed,
    )


def of_points(results: Sequence[PointSummary]) -> list[PointSummary]:
    """The results with the parameters that other phases of their point have."""
    known: dict[str, dict[str, Value | None]] = {}
    for result in results:
        known.setdefault(result.point, {}).update({k: v for k, v in result.parameters.items() if v is not None})
    return [replace(result, parameters={**result.parameters, **known[result.point]}) for result in results]


def distinct(results: Iterable[PointSummary], column: str) -> list[Value]:
    """Distinct values of a parameter, in order; an absent one is left out."""
    return sorted({value for result in results if (value := result.parameters[column]) is not None})


def known_or_not(results: Sequence[PointSummary], column: str) -> list[Value | None]:
    """The distinct values of a parameter, and last None where a result does not have it: outputs of others do not tell
    every parameter."""
    unknown = any(result.parameters[column] is None for result in results)
    return [*distinct(results, column), *([None] if unknown else [])]


def hosts_of(row: Row) -> tuple[str, ...]:
    """Nodes that measured a row, the first one first; none where nothing was measured."""
    return tuple(row.hosts.split(",")) if row.hosts else ()


def _placed(rows: Iterable[Row]) -> list[Row]:
    """Rows that count, one for each way in which their nodes are written."""
    return list({(row.hosts, row.slurm_job): row for row in rows if row.verdict in COUNTED}.values())


def _ran(rows: Iterable[Row]) -> list[tuple[str | None, str | None]]:
    return [(row.hosts, row.slurm_job) for row in _placed(rows)]


def statistics(values: Sequence[float], interval: Interval | None = None) -> Metric:
    """Metric of at least one value, with their interval."""
    n = len(values)
    return Metric(
        n=n,
        mean=fmean(values),
        median=median(values),
        low=min(values),
        high=max(values),
        sd=math.sqrt(statistics_of.variance(values)) if n > 1 else None,
        values=tuple(values),
        interval=interval if n >= ENOUGH else None,
    )


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts; an unknown word counts as invalid, so that it is never hidden."""
    return max((v if v in VERDICTS else "invalid" for v in verdicts), key=VERDICTS.index)


def count_results(results: Iterable[PointSummary]) -> dict[str, int]:
    """Verdict -> number of results (a point's phases count one by one)."""
    counts = Counter(result.verdict for result in results)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def phase_order(phase: str) -> tuple[int, str]:
    """Sorting key: known phases in the order in which they run, others after them by name."""
    known = list(phases())
    return (known.index(phase), "") if phase in known else (len(known), phase)


def is_percentile(column: str) -> bool:
    """Whether a column holds a percentile, which must not be averaged."""
    return "latency_p" in column


def counted(row: Row, column: str) -> float | None:
    """A figure of a repetition in the column's unit; None where it has none, or does not count."""
    value = row.figures.get(column) if row.verdict in COUNTED else None
    return value if value is not None and math.isfinite(value) else None


def _values(rows: Iterable[Row], column: str) -> list[float]:
    return [value for row in rows if (value := counted(row, column)) is not None]
