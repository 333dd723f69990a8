"""Whether the repetitions of points agree: their intervals, and the check `precise`. Pure.

The points of an allocation tell each other how much a phase scatters. The runner asks how precise a figure is to know
what to repeat, the tables and the report to write and show it: all call the same functions of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from iosweep.judge import statistics
from iosweep.judge.checks import CHECKS
from iosweep.judge.findings import NOT_APPLICABLE, REASONS, Check, failed, passed, unchecked
from iosweep.judge.statistics import Interval, Noise
from iosweep.plan.model import Point
from iosweep.store.record import Finding, JudgedPhase, RecordHead
from iosweep.tools import phases
from iosweep.units import human_rate

#: Verdicts of the repetitions that enter a figure.
COUNTED = frozenset({"valid", "suspect"})
#: Times of fio and IOR that no two runs have alike.
TIMES = ("latency_mean_s", "open_s", "io_s", "close_s")
#: The nodes of a repetition, joined by commas, and its Slurm job.
Ran = tuple[str | None, str | None]


class Headline(NamedTuple):
    """What a repetition that counts contributes to its point's phase. like: as in `Sample`; times: TIMES, as far as
    they are known."""

    point: str
    phase: str
    confirms: bool
    like: tuple[str, int]
    figure: float | None
    ran: Ran
    times: tuple[object, ...] = ()


def headlines(point: Point, repetition: RecordHead) -> Iterator[Headline]:
    """The phases of a repetition that count."""
    confirms, like, ran = point.repetitions.confirms(repetition.repetition), (point.tool, point.nodes), repetition.ran
    for row in repetition.rows:
        if row.verdict in COUNTED:
            times = tuple(map(row.values.get, TIMES)) if isinstance(row, JudgedPhase) else ()
            yield Headline(point.id, row.phase, confirms, like, row.headline, ran, times)


@dataclass(frozen=True, slots=True)
class Sample:
    """The repetitions of a point's phase that count, or of one of its other figures.

    like: tool and number of nodes, which points that scatter alike share. alike: all repetitions ran on the same nodes,
    or on nodes in turn; others are not comparable. confirms: they confirm a best point. copies: repetitions with the
    figures of another one, to the last digit.
    """

    like: tuple[str, int]
    phase: str
    values: Sequence[float]
    alike: bool = True
    confirms: bool = False
    copies: int = 0


class Agreement(NamedTuple):
    """How far the repetitions of a point's phase agree. finding: of the check `precise`."""

    sample: Sample
    interval: Interval | None
    finding: Finding


#: (point, phase, whether they confirm a best point) -> the agreement of these repetitions.
Agreements = Mapping[tuple[str, str, bool], Agreement]


def agreements(counted: Iterable[Headline]) -> Agreements:
    """How far the repetitions of an allocation's points agree."""
    groups: dict[tuple[str, str, bool], list[Headline]] = {}
    for headline in counted:
        groups.setdefault((headline.point, headline.phase, headline.confirms), []).append(headline)
    samples = [_sample(group) for group in groups.values()]
    return {
        key: Agreement(sample, interval, precise(sample, interval))
        for key, sample, interval in zip(groups, samples, intervals(samples), strict=True)
    }


def _sample(group: Sequence[Headline]) -> Sample:
    exact = [(headline.figure, headline.times) for headline in group if any(headline.times)]
    return Sample(
        group[0].like,
        group[0].phase,
        [headline.figure for headline in group if headline.figure is not None],
        alike([headline.ran for headline in group]),
        group[0].confirms,
        len(exact) - len(set(exact)),
    )


def intervals(samples: Sequence[Sample]) -> list[Interval | None]:
    """The 95 % interval of each sample, at least as wide as the usual scatter of all samples makes it; None where there
    is none."""
    return [
        statistics.interval(sample.values, noise) if sample.alike else None
        for sample, noise in zip(samples, noises(samples), strict=True)
    ]


def noises(samples: Sequence[Sample]) -> list[Noise | None]:
    """The usual scatter of the points of each sample's phase; None where there are too few points.

    Fresh repetitions that confirm a best point are left out: they come last, and must not show that a point which was
    repeated often enough was not.
    """
    pools: dict[tuple[object, str], list[Sequence[float]]] = {}
    for sample in samples:
        if sample.alike and not sample.confirms:
            pools.setdefault((sample.like, sample.phase), []).append(sample.values)
    known = {key: statistics.pooled(values) for key, values in pools.items()}
    return [known.get((sample.like, sample.phase)) for sample in samples]


def host_sets(ran: Iterable[Ran]) -> set[frozenset[str]]:
    """The sets of nodes of repetitions."""
    return {frozenset(hosts.split(",")) for hosts, _ in ran if hosts}


def in_turn(ran: Iterable[Ran]) -> bool:
    """Whether a job ran repetitions on several sets of nodes: it deals them out by their number, so they are draws from
    the same nodes. Several jobs run on whatever nodes they get."""
    sets: dict[str, set[frozenset[str]]] = {}
    for hosts, job in ran:
        if job:
            sets.setdefault(job, set()).add(frozenset((hosts or "").split(",")))
    return any(len(of_job) > 1 for of_job in sets.values())


def alike(ran: Sequence[Ran]) -> bool:
    """Whether repetitions are comparable: on the same nodes, or on nodes in turn."""
    return len(set(ran)) < 2 or len(host_sets(ran)) < 2 or in_turn(ran)


# The check `precise`


def precise(sample: Sample, interval: Interval | None) -> Finding:
    """Three or more repetitions agree: their 95 % interval is within 5 % (grade A), 10 % (B) or 20 % (C). No two have
    the same figures to the last digit."""
    number = len(sample.values)
    if not number:
        return NOT_APPLICABLE
    if sample.copies:
        return failed(
            f"{sample.copies + 1} of its {number} repetitions have the same figures: one report, counted again"
        )
    if number < statistics.ENOUGH:
        return unchecked("one repetition" if number == 1 else f"{number} repetitions: at least 3 have an interval")
    if not sample.alike:
        return unchecked("the repetitions ran on different nodes: they are not repetitions of one thing")
    if interval is None:
        return unchecked("a repetition has a figure of zero")
    width = f"{_percent(interval.half_width_share)} (n = {number})"
    if grade := statistics.grade(interval):
        return passed(f"{grade}: {width}")
    if statistics.scattered(sample.values):
        known = phases().get(sample.phase)
        of_bytes = known is not None and known.metric == "bandwidth_bytes_per_s"
        least, most = (human_rate(end(sample.values), of_bytes) for end in (min, max))
        return failed(f"not repeatable: {number}{' fresh' * sample.confirms} repetitions gave {least} to {most}")
    return unchecked(f"too few repetitions to tell how much they scatter: {width}")


def _percent(share: float) -> str:
    return f"± {100 * share:.1f} %" if share < 1 else "more than ± 100 %"


PRECISE = Check("suspect", precise)
#: check -> what a fail makes of a row of the results, in the order of docs/report.md.
SEVERITIES = {check.name: check.severity for check in (*CHECKS, PRECISE)}


def verdict_columns(verdict: str, reasons: Sequence[str], findings: Mapping[str, Finding]) -> dict[str, str | int]:
    """The columns of a row's verdict, before its repetitions are compared."""
    outcomes = [finding.outcome for finding in findings.values()]
    return {
        "verdict": verdict,
        "reasons": REASONS.join(reasons),
        "checks_passed": outcomes.count("pass"),
        "checks_failed": outcomes.count("fail"),
        "checks_not_checked": outcomes.count("not checked"),
    }


#: Columns that tell which repetitions a row is compared with, and those that this changes.
COMPARED = (
    *("point", "repetition", "phase", "confirms", "verdict", "reasons", "precision_grade", "ci95_half_width_share"),
    *("checks_passed", "checks_failed", "checks_not_checked"),
)


def agree(values: dict[str, Any], known: Agreements) -> Finding | None:
    """Add to the values of a row what its repetitions together show; returns the finding of `precise`, None where the
    row does not count."""
    agreement = known.get((values["point"], values["phase"], bool(values.get("confirms"))))
    if agreement is None or values["verdict"] not in COUNTED or agreement.finding is NOT_APPLICABLE:
        return None
    finding = agreement.finding
    column = {"pass": "checks_passed", "fail": "checks_failed", "not checked": "checks_not_checked"}[finding.outcome]
    values[column] += 1
    if finding.outcome == "fail":
        values["verdict"] = "suspect"
        values["reasons"] = REASONS.join(filter(None, (values["reasons"], finding.evidence)))
    if agreement.interval and agreement.interval.n >= statistics.ENOUGH:
        values["precision_grade"] = statistics.grade(agreement.interval)
        values["ci95_half_width_share"] = agreement.interval.half_width_share
    return finding
