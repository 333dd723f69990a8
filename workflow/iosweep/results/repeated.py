"""What only all repetitions of a point's phase show together, added to their rows: whether they agree. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from iosweep.results import precision, statistics, verdict
from iosweep.results.checks import PRECISE
from iosweep.results.checks.finding import NOT_APPLICABLE, Check, Finding
from iosweep.results.checks.repetitions import precise
from iosweep.results.precision import COUNTED, Headline
from iosweep.results.reasons import REASONS
from iosweep.results.statistics import Interval

Values = dict[str, object]


class Row(NamedTuple):
    """A row of the result table: column -> value, and the findings of all checks (none where nothing was measured)."""

    values: Values
    findings: list[tuple[Check, Finding]]


class Agreement(NamedTuple):
    """How far the repetitions of a point's phase agree."""

    finding: Finding
    interval: Interval | None


#: (point, phase, whether they confirm a best point) -> the agreement of these repetitions.
Agreements = Mapping[tuple[object, object, object], Agreement]


def headline(row: Row) -> Headline | None:
    """None where the row does not count."""
    values = row.values
    if values["verdict"] not in COUNTED:
        return None
    figure, nodes = values.get(str(values["metric"])), values.get("nodes")  # None: an output of others does not tell
    return Headline(
        str(values["point"]),
        str(values["phase"]),
        bool(values.get("confirms")),
        (str(values["tool"]), nodes if isinstance(nodes, int) else 1),
        figure if isinstance(figure, float | int) else None,
        (_text(values, "hosts"), _text(values, "slurm_job")),
    )


def agreements(headlines: Iterable[Headline | None]) -> Agreements:
    """How far the repetitions of an allocation's points agree."""
    samples = precision.samples(one for one in headlines if one)
    intervals = precision.intervals([*samples.values()])
    return {
        key: Agreement(precise(sample, interval), interval if len(sample.values) >= statistics.ENOUGH else None)
        for (key, sample), interval in zip(samples.items(), intervals, strict=True)
    }


def judge(row: Row, found: Agreements) -> None:
    """Add to a measured row the finding of `precise`, its columns, and what it makes of the verdict."""
    agreement = found.get((row.values["point"], row.values["phase"], bool(row.values.get("confirms"))))
    if agreement is None or row.values["verdict"] not in COUNTED:
        agreement = Agreement(NOT_APPLICABLE, None)
    row.findings.append((PRECISE, agreement.finding))
    if agreement.interval:
        row.values["precision_grade"] = statistics.grade(agreement.interval)
        row.values["ci95_half_width_share"] = agreement.interval.half_width_share
    count(row)


def _text(values: Values, column: str) -> str | None:
    value = values.get(column)
    return None if value is None else str(value)


def count(row: Row) -> None:
    """The verdict of a row and the number of its checks by outcome."""
    outcome, reasons = verdict.verdict(row.findings)
    outcomes = [finding.outcome for _, finding in row.findings]
    row.values.update(
        {
            "verdict": outcome,
            "reasons": REASONS.join(reasons),
            "checks_passed": outcomes.count("pass"),
            "checks_failed": outcomes.count("fail"),
            "checks_not_checked": outcomes.count("not checked"),
        }
    )
