"""Turns the findings of the checks into the verdict of a row, and decides whether another try may help. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from iosweep.results.checks import CHECKS
from iosweep.results.checks.files import data_complete, no_holes
from iosweep.results.checks.finding import NOT_APPLICABLE, Check, Finding, Seen
from iosweep.results.checks.output import exit_status
from iosweep.results.reasons import chained

Verdict = Literal["valid", "suspect", "invalid", "missing"]


def judge(seen: Seen) -> list[tuple[Check, Finding]]:
    """The findings of all checks on one row, in order.

    For a phase that was not run only those apply that explain why: the checks of its files, or `exit_status`.
    """
    if seen.run.not_run:
        explain = (data_complete, no_holes) if seen.run.files.wrong else (exit_status,)
        return [(c, c.look(seen) if c.look in explain else NOT_APPLICABLE) for c in CHECKS]
    return [(c, c.look(seen)) for c in CHECKS]


def verdict(findings: Sequence[tuple[Check, Finding]]) -> tuple[Verdict, list[str]]:
    """The verdict of a row and its reasons: those that make it invalid first, a cause before its consequences."""
    fails = [(c, f) for c, f in findings if f.outcome == "fail"]
    fails.sort(key=lambda fail: fail[0].severity != "invalid")
    reasons = chained([(c.name, f.evidence) for c, f in fails])
    if any(c.severity == "invalid" for c, _ in fails):
        return "invalid", reasons
    return ("suspect" if fails else "valid"), reasons


def retry(findings: Sequence[tuple[Check, Finding]]) -> str | None:
    """The finding because of which another try may help, or None."""
    return next((f.evidence for _, f in findings if f.outcome == "fail" and f.curable), None)
