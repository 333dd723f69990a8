"""Whether the repetitions of a point agree: their confidence intervals, and the check `precise`. Pure.

The scatter of a phase is estimated from all points of an allocation. The runner decides by the intervals what to
repeat; tables and report show them. All three call these functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iosweep.judge import statistics
from iosweep.judge.checks import CHECKS
from iosweep.judge.findings import NOT_APPLICABLE, Check, failed, join_reasons, passed, split_reasons, unchecked
from iosweep.judge.statistics import Estimate, Round, Sample
from iosweep.plan.model import Point
from iosweep.store.record import Finding, JudgedPhase, RecordHead
from iosweep.text import human_percent

#: Verdicts of the repetitions that count toward a figure.
COUNTED = frozenset({"valid", "suspect"})
#: Times of fio and IOR that never repeat to the last digit.
TIMES = ("latency_mean_s", "open_s", "io_s", "close_s")
#: The nodes that ran a repetition, joined by commas, its Slurm job, and which of the campaign's sessions it belongs to.
MeasuredOn = tuple[str | None, str | None, int | None]


@dataclass
class RepeatedFigure:
    """The headline figure of a point's phase, from all repetitions that count."""

    pool: tuple[str, int]  # tool and number of nodes; points with the same pool scatter alike
    phase: str
    values: dict[Round, float] = field(default_factory=dict)
    pseudo_values: Sample | None = None  # if the figure is not the mean of the values
    confirms: bool = False  # the repetitions confirm a best point
    measured_on: list[MeasuredOn] = field(default_factory=list)
    exact: list[tuple[object, ...]] = field(default_factory=list)  # figure and TIMES of each repetition with times

    def add(self, key: Round, figure: float | None, measured_on: MeasuredOn, times: Sequence[object] = ()) -> None:
        """Add a repetition; figure: None if it has none."""
        self.measured_on.append(measured_on)
        if any(times):
            self.exact.append((figure, *times))
        if figure is not None:
            self.values[key] = figure

    @property
    def comparable(self) -> bool:
        """Whether all repetitions of a session ran on the same nodes, or one job took turns among its nodes."""
        return len(set(self.measured_on)) < 2 or host_sets(self.measured_on) < 2 or in_turn(self.measured_on)

    @property
    def logs(self) -> Sample | None:
        """A sample whose mean is the logarithm of the figure; None without values, or with one of zero."""
        return self.pseudo_values or statistics.make_sample(self.values)

    @property
    def sample(self) -> Sample | None:
        """The same for statistics; None also if the repetitions are not of one thing."""
        return self.logs if self.comparable else None


#: (point, phase, whether the repetitions confirm a best point) -> the headline figure of these repetitions.
Headlines = dict[tuple[str, str, bool], RepeatedFigure]
#: Key of Headlines -> the interval of these repetitions, and the finding of the check `precise`.
Agreements = Mapping[tuple[str, str, bool], tuple[Estimate | None, Finding]]


def add(headlines: Headlines, point: Point, repetition: RecordHead) -> None:
    """Add the phases of a repetition whose verdicts count."""
    confirms = point.repetitions.confirms(repetition.repetition)
    measured_on = (*repetition.measured_on, point.repetitions.session_of(repetition.repetition))
    for row in repetition.rows:
        if row.verdict in COUNTED:
            new = RepeatedFigure((point.tool, point.nodes), row.phase, confirms=confirms)
            times = tuple(map(row.values.get, TIMES)) if isinstance(row, JudgedPhase) else ()
            figure = headlines.setdefault((point.id, row.phase, confirms), new)
            figure.add((repetition.session, repetition.repetition), row.headline, measured_on, times)


def agreements(headlines: Headlines) -> Agreements:
    """The interval and the finding of `precise` for each headline figure of an allocation."""
    with_estimate = zip(headlines.items(), estimates([*headlines.values()]), strict=True)
    return {key: (estimate, precise(figure, estimate)) for (key, figure), estimate in with_estimate}


def estimates(figures: Sequence[RepeatedFigure]) -> list[Estimate | None]:
    """The estimate of each figure, or None. The usual scatter of its phase may widen its interval.

    Repetitions that confirm a best point have no part in that scatter: they come last, and must not widen the intervals
    of points that the runner has already stopped repeating.
    """
    samples = [figure.sample for figure in figures]
    pools: dict[tuple[object, str], list[Sample]] = {}
    for figure, sample in zip(figures, samples, strict=True):
        if sample and not figure.confirms:
            pools.setdefault((figure.pool, figure.phase), []).append(sample)
    noises = {key: statistics.pool(members) for key, members in pools.items()}
    return [
        statistics.estimate(sample, noises.get((figure.pool, figure.phase))) if sample else None
        for figure, sample in zip(figures, samples, strict=True)
    ]


def host_sets(measured_on: Iterable[MeasuredOn]) -> int:
    """The most different sets of nodes that ran the repetitions of a session. Those of other sessions may be others:
    what nodes differ by is part of the scatter of sessions."""
    sets = {(session, frozenset(hosts.split(","))) for hosts, _, session in measured_on if hosts}
    return max(Counter(session for session, _ in sets).values(), default=0)


def in_turn(measured_on: Iterable[MeasuredOn]) -> bool:
    """Whether one job ran repetitions on several sets of nodes. The repetition number selects the set, so all of them
    sample the nodes of that job. Different jobs run on whatever nodes Slurm allocates."""
    sets: dict[str, set[frozenset[str]]] = {}
    for hosts, job, _ in measured_on:
        if job:
            sets.setdefault(job, set()).add(frozenset((hosts or "").split(",")))
    return any(len(sets_of_job) > 1 for sets_of_job in sets.values())


# The check `precise`


def precise(figure: RepeatedFigure, estimate: Estimate | None) -> Finding:
    """Three or more repetitions agree: their 95 % interval is within 5 % (grade A), 10 % (B) or 20 % (C). No two have
    the same figures to the last digit."""
    count, duplicates = len(figure.values), len(figure.exact) - len(set(figure.exact))
    if not count:
        return NOT_APPLICABLE
    if duplicates:
        return failed(
            f"{duplicates + 1} of its {count} repetitions have identical figures: one report was counted again"
        )
    if count < statistics.MIN_REPETITIONS:
        return unchecked("one repetition" if count == 1 else f"{count} repetitions: an interval needs 3")
    if not figure.comparable:
        return unchecked("the repetitions ran on different nodes, so they do not compare")
    if estimate is None or figure.sample is None:
        return unchecked("a repetition has a figure of zero")
    width = f"± {100 * estimate.half_width_share:.1f} % (n = {count})"
    if grade := statistics.grade(estimate):
        return passed(f"{grade}: {width}")
    if statistics.is_scattered(figure.sample):
        excess = max(figure.values.values()) / min(figure.values.values()) - 1
        return failed(
            f"not repeatable: {count}{' fresh' * figure.confirms} repetitions differ by {human_percent(excess)}"
        )
    return unchecked(f"too few repetitions to tell how much they scatter{f': {width}' if estimate.tells else ''}")


PRECISE = Check("suspect", precise, remedy="use more `repetitions`, or quieter nodes")
#: check -> severity of its failure, in the order of docs/report.md.
SEVERITIES = {check.name: check.severity for check in (*CHECKS, PRECISE)}
#: check -> what to do about its failure, "" where its evidence says so.
REMEDIES = {check.name: check.remedy for check in (*CHECKS, PRECISE)}


def verdict_columns(verdict: str, reasons: Sequence[str], findings: Mapping[str, Finding]) -> dict[str, str | int]:
    """The verdict columns of a row before the check `precise`."""
    outcomes = [finding.outcome for finding in findings.values()]
    return {
        "verdict": verdict,
        "reasons": join_reasons(reasons),
        "checks_passed": outcomes.count("pass"),
        "checks_failed": outcomes.count("fail"),
        "checks_not_checked": outcomes.count("not checked"),
    }


#: Columns that `agree` reads or changes.
COMPARED = (
    *("point", "repetition", "phase", "confirms", "verdict", "reasons", "precision_grade", "ci95_half_width_share"),
    *("checks_passed", "checks_failed", "checks_not_checked"),
)


def agree(values: dict[str, Any], agreements: Agreements) -> Finding | None:
    """Add the finding of `precise` to a row's verdict columns, and return it; None if it does not apply to the row."""
    key = values["point"], values["phase"], bool(values.get("confirms"))
    if key not in agreements or values["verdict"] not in COUNTED or agreements[key][1] is NOT_APPLICABLE:
        return None
    estimate, finding = agreements[key]
    column = {"pass": "checks_passed", "fail": "checks_failed", "not checked": "checks_not_checked"}[finding.outcome]
    values[column] += 1
    if finding.outcome == "fail":
        values["verdict"] = "suspect"
        values["reasons"] = join_reasons([*split_reasons(values["reasons"]), finding.evidence])
    if estimate and estimate.n >= statistics.MIN_REPETITIONS and estimate.tells:
        values["precision_grade"] = statistics.grade(estimate)
        values["ci95_half_width_share"] = estimate.half_width_share
    return finding
