"""Quality of a campaign: what of each sweep is measured, and what the checks have found. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iosweep.analysis import findings
from iosweep.analysis.data import PRECISE, CheckRow
from iosweep.analysis.summary import PointSummary
from iosweep.judge.reasons import ROOTS
from iosweep.plan.model import SweepFacts

#: Outcomes of a point, those that need attention last.
_OUTCOMES = ("valid", "unneeded", "left", "missing", "suspect", "invalid")

#: Point, phase and repetition.
Phase = tuple[str, str, int | None]


@dataclass(frozen=True)
class Check:
    """One check over all rows of the results."""

    name: str
    severity: str
    counts: Mapping[str, int]  # outcome -> findings
    failed: tuple[tuple[str, int], ...]  # commonest evidence of a fail, with counts
    not_checked: tuple[tuple[str, int], ...]  # commonest reasons, with counts

    @property
    def open(self) -> bool:
        """Whether it failed or could not be made somewhere."""
        return bool(self.counts.get("fail") or self.counts.get("not checked"))


def summarize_checks(checks: Iterable[CheckRow]) -> list[Check]:
    """Per check how often it passed, failed, could not be made or did not apply: causes of failures first, then the
    most doubtful."""
    by_name: dict[str, list[CheckRow]] = {}
    for row in once_each(checks):
        by_name.setdefault(row.check, []).append(row)
    found = [
        Check(
            name=name,
            severity=rows[0].severity,
            counts=Counter(row.outcome for row in rows),
            failed=_commonest(rows, "fail"),
            not_checked=_commonest(rows, "not checked"),
        )
        for name, rows in by_name.items()
    ]

    def key(check: Check) -> tuple[int, int, int, str]:
        # checks whose failure explains others come before those, however many fail
        cause = ROOTS.index(check.name) if check.counts["fail"] and check.name in ROOTS else len(ROOTS)
        return cause, -check.counts["fail"], -check.counts["not checked"], check.name

    return sorted(found, key=key)


def not_checked(checks: Iterable[CheckRow]) -> tuple[int, int]:
    """How many checks could not be made, of how many that applied."""
    outcomes = Counter(row.outcome for row in once_each(checks))
    return outcomes["not checked"], outcomes.total() - outcomes["not applicable"]


def once_each(checks: Iterable[CheckRow]) -> Iterator[CheckRow]:
    """What the checks have found, each once: that ten repetitions do not agree is one finding, not ten."""
    seen = set()
    for row in checks:
        key = (row.point, row.phase, row.outcome, row.evidence)
        if row.check != PRECISE or key not in seen:
            yield row
        if row.check == PRECISE:
            seen.add(key)


def _commonest(rows: Iterable[CheckRow], outcome: str) -> tuple[tuple[str, int], ...]:
    return tuple(findings.commonest(row.evidence or "" for row in rows if row.outcome == outcome)[:3])


def open_checks(checks: Iterable[CheckRow], texts: dict[str, int]) -> dict[Phase, list[int]]:
    """Checks that failed or could not be made, and what kept others off. Other passes are counted, not carried."""
    found: dict[Phase, list[int]] = {}
    for row in checks:
        if row.outcome in ("fail", "not checked") or (row.check, row.outcome) == ("exclusive", "pass"):
            key = (row.point, row.phase, row.repetition)
            evidence = f", {row.evidence}" if row.evidence else ""
            text = f"{row.check}: {row.outcome}{evidence}"
            found.setdefault(key, []).append(texts.setdefault(text, len(texts)))
    return found


@dataclass(frozen=True)
class Coverage:
    """What of a sweep is measured. counts: outcome -> points, which have that of their worst phase; reasons: of the
    outcomes that are not valid, the worst first."""

    sweep: str
    counts: Mapping[str, int]
    reasons: Mapping[str, str]


def coverage(sweeps: Iterable[SweepFacts], results: Iterable[PointSummary]) -> list[Coverage]:
    """The points of each sweep by outcome."""
    phases: dict[str, list[PointSummary]] = {}
    for result in results:
        phases.setdefault(result.point, []).append(result)
    states = {point: max((one.state for one in own), key=_OUTCOMES.index) for point, own in phases.items()}
    return [_coverage(sweep, phases, states) for sweep in sweeps]


def _coverage(sweep: SweepFacts, phases: Mapping[str, Sequence[PointSummary]], states: Mapping[str, str]) -> Coverage:
    counts = Counter(states[point] for point in sweep.points if point in states)
    reasons = {}
    for state in _OUTCOMES[:0:-1]:
        own = [one for point in sweep.points if states.get(point) == state for one in phases[point]]
        if own := [one for one in own if one.state == state]:
            reasons[state] = findings.reasons(own)
    return Coverage(sweep.name, counts, reasons)
