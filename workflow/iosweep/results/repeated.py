"""What only all repetitions of a point's phase show together, added to their rows: whether they agree. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iosweep.results import precision, statistics, verdict
from iosweep.results.checks import PRECISE
from iosweep.results.checks.finding import NOT_APPLICABLE, Check, Finding
from iosweep.results.checks.repetitions import precise
from iosweep.results.precision import Sample
from iosweep.results.reasons import REASONS

Values = dict[str, object]

#: Verdicts of the repetitions that enter a figure.
COUNTED = frozenset({"valid", "suspect"})


class Row(NamedTuple):
    """A row of the result table: column -> value, and the findings of all checks (none where nothing was measured)."""

    values: Values
    findings: list[tuple[Check, Finding]]


def judge(rows: Sequence[Row]) -> None:
    """Add to the measured rows of an allocation the finding of `precise`, its columns, and what it makes of their
    verdicts."""
    groups: dict[tuple[object, object], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.values["point"], row.values["phase"]), []).append(row)
    samples = [_sample(group) for group in groups.values()]
    for group, sample, interval in zip(groups.values(), samples, precision.intervals(samples), strict=True):
        finding = precise(sample, interval)
        for row in group:
            counted = row.values["verdict"] in COUNTED
            row.findings.append((PRECISE, finding if counted else NOT_APPLICABLE))
            if counted and len(sample.values) >= statistics.ENOUGH and interval is not None:
                row.values["precision_grade"] = statistics.grade(interval)
                row.values["ci95_half_width_share"] = interval.half_width_share
            _count(row)


def _sample(rows: Sequence[Row]) -> Sample:
    """The headline of a point's phase over the repetitions that count."""
    first = rows[0].values
    counted = [row.values for row in rows if row.values["verdict"] in COUNTED]
    figures = (values.get(str(values["metric"])) for values in counted)
    ran = [(_text(values, "hosts"), _text(values, "slurm_job")) for values in counted]
    return Sample(
        (str(first["tool"]), int(str(first["nodes"]))),
        str(first["phase"]),
        [figure for figure in figures if isinstance(figure, float | int)],
        precision.alike(ran),
    )


def _text(values: Values, column: str) -> str | None:
    value = values.get(column)
    return None if value is None else str(value)


def _count(row: Row) -> None:
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
