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
from iosweep.store.record import Finding, Repetition, Row
from iosweep.tools import phases
from iosweep.units import human_rate

#: Verdicts of the repetitions that enter a figure.
COUNTED = frozenset({"valid", "suspect"})


#: Times of fio and IOR that no two runs have alike.
TIMES = ("latency_mean_s", "open_s", "io_s", "close_s")


class Headline(NamedTuple):
    """What a repetition that counts contributes to its point's phase. like: as in `Sample`; ran: its nodes, joined by
    commas, and its Slurm job; times: TIMES, as far as they are known."""

    point: str
    phase: str
    confirms: bool
    like: tuple[str, int]
    figure: float | None
    ran: tuple[str | None, str | None]
    times: tuple[object, ...] = ()


def headlines(point: Point, repetition: Repetition) -> Iterator[Headline]:
    """The phases of a repetition that count."""
    confirms, like, ran = point.repetitions.confirms(repetition.repetition), (point.tool, point.nodes), repetition.ran
    for row in repetition.rows:
        if row.verdict in COUNTED:
            times = tuple(map(row.values.get, TIMES)) if isinstance(row, Row) else ()
            yield Headline(point.id, row.phase, confirms, like, row.headline, ran, times)


@dataclass(frozen=True)
class Sample:
    """The repetitions of a point's phase that count, or of one of its other figures.

    like: points of one tool, on as many nodes. alike: all were measured on the same nodes, or on nodes in turn;
    others are not repetitions of one thing. confirms: they confirm a best point. copies: repetitions whose figures are
    those of another one, to the last digit.
    """

    like: tuple[str, int]
    phase: str
    values: Sequence[float]
    alike: bool = True
    confirms: bool = False
    copies: int = 0


def samples(headlines: Iterable[Headline]) -> dict[tuple[str, str, bool], Sample]:
    """(point, phase, whether they confirm a best point) -> the sample of these repetitions."""
    groups: dict[tuple[str, str, bool], list[Headline]] = {}
    for one in headlines:
        groups.setdefault((one.point, one.phase, one.confirms), []).append(one)
    return {
        key: Sample(
            own[0].like,
            own[0].phase,
            [one.figure for one in own if one.figure is not None],
            alike([one.ran for one in own]),
            own[0].confirms,
            len(exact := [(one.figure, one.times) for one in own if any(one.times)]) - len(set(exact)),
        )
        for key, own in groups.items()
    }


def intervals(samples: Sequence[Sample]) -> list[Interval | None]:
    """The 95 % interval of each sample, as far as the samples of the others let it be; None where there is none."""
    found = noises(samples)
    return [
        statistics.interval(sample.values, noise) if sample.alike else None
        for sample, noise in zip(samples, found, strict=True)
    ]


def noises(samples: Sequence[Sample]) -> list[Noise | None]:
    """The usual scatter of the points of each sample's phase; None where they are too few.

    Fresh repetitions that confirm a best point are not among them: they come last, and must not show that a point which
    was repeated often enough was not.
    """
    pools: dict[tuple[object, str], list[Sequence[float]]] = {}
    for sample in samples:
        if sample.alike and not sample.confirms:
            pools.setdefault((sample.like, sample.phase), []).append(sample.values)
    known = {key: statistics.pooled(own) for key, own in pools.items()}
    return [known.get((sample.like, sample.phase)) for sample in samples]


def host_sets(ran: Iterable[tuple[str | None, str | None]]) -> set[frozenset[str]]:
    """The sets of nodes of repetitions. `ran`: (their nodes, joined by commas; Slurm job) of each."""
    return {frozenset(hosts.split(",")) for hosts, _ in ran if hosts}


def in_turn(ran: Iterable[tuple[str | None, str | None]]) -> bool:
    """Whether a job ran repetitions on several sets of nodes: it then deals them out by their number, so that they are
    draws of the same thing. Repetitions of several jobs are on whatever nodes these jobs got."""
    found: dict[str, set[frozenset[str]]] = {}
    for hosts, job in ran:
        if job:
            found.setdefault(job, set()).add(frozenset((hosts or "").split(",")))
    return any(len(sets) > 1 for sets in found.values())


def alike(ran: Sequence[tuple[str | None, str | None]]) -> bool:
    """Whether repetitions are draws of the same thing: of the same nodes, or of nodes in turn."""
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


class Agreement(NamedTuple):
    """How far the repetitions of a point's phase agree: the finding of `precise`, and their interval."""

    finding: Finding
    interval: Interval | None


#: (point, phase, whether they confirm a best point) -> the agreement of these repetitions.
Agreements = Mapping[tuple[str, str, bool], Agreement]


def agreements(counted: Iterable[Headline]) -> Agreements:
    """How far the repetitions of an allocation's points agree."""
    by_key = samples(counted)
    return {
        key: Agreement(precise(sample, interval), interval if len(sample.values) >= statistics.ENOUGH else None)
        for (key, sample), interval in zip(by_key.items(), intervals([*by_key.values()]), strict=True)
    }


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
    if agreement.interval:
        values["precision_grade"] = statistics.grade(agreement.interval)
        values["ci95_half_width_share"] = agreement.interval.half_width_share
    return finding
