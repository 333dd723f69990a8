"""Findings of the checks -> the verdict on a row, and whether another try may help. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from iosweep.results.checks import CHECKS
from iosweep.results.checks.finding import NOT_APPLICABLE, Check, Finding, Seen
from iosweep.results.checks.output import exit_status
from iosweep.results.reasons import chained

Verdict = Literal["valid", "suspect", "invalid", "missing"]


def judge(seen: Seen) -> list[tuple[Check, Finding]]:
    """Every check on one row, in order. What was not run has no other outcome than that."""
    if seen.run.get("not_run"):
        return [(c, c.look(seen) if c.look is exit_status else NOT_APPLICABLE) for c in CHECKS]
    return [(c, c.look(seen)) for c in CHECKS]


def verdict(findings: Sequence[tuple[Check, Finding]]) -> tuple[Verdict, list[str]]:
    """The verdict of a row and its reasons: those that make it invalid first, and a cause before what follows from it
    (reasons.py)."""
    fails = [(c, f) for c, f in findings if f.outcome == "fail"]
    fails.sort(key=lambda fail: fail[0].severity != "invalid")
    reasons = chained([(c.name, f.evidence) for c, f in fails])
    if any(c.severity == "invalid" for c, _ in fails):
        return "invalid", reasons
    return ("suspect" if fails else "valid"), reasons


def retry(findings: Sequence[tuple[Check, Finding]]) -> str | None:
    """The reason why another try may help, or None."""
    return next((f.evidence for _, f in findings if f.outcome == "fail" and f.curable), None)
