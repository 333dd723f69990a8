"""The comment of a campaign's batch job says what it measures; squeue shows it on every node. Pure."""

from __future__ import annotations


def write(campaign: str, allocation: str) -> str:
    return _prefix(campaign) + allocation


def read(comment: str, campaign: str) -> str | None:
    """The allocation that a job measures; None if that is not of this campaign."""
    allocation = comment.removeprefix(_prefix(campaign))
    return allocation if is_of(comment, campaign) and "_" not in allocation else None


def is_of(comment: str, campaign: str) -> bool:
    """Whether a comment begins as those of a campaign do. The name of another campaign may begin with its name."""
    return comment.startswith(_prefix(campaign))


def _prefix(campaign: str) -> str:
    return f"iosweep_{campaign}_"
