"""The comment of a campaign's batch job says what it measures; squeue shows it on every node. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Measured(NamedTuple):
    """digest: of the allocation's part of the plan; generation: of its manifest."""

    allocation: str
    digest: str
    generation: str


def write(campaign: str, measured: Measured) -> str:
    return _prefix(campaign) + "_".join(measured)


def read(comment: str, campaign: str) -> Measured | None:
    """What a job measures; None if that is not of this campaign."""
    parts = comment.removeprefix(_prefix(campaign)).split("_")
    return Measured(*parts) if is_of(comment, campaign) and len(parts) == 3 else None


def is_of(comment: str, campaign: str) -> bool:
    """Whether a comment begins as those of a campaign do. The name of another campaign may begin with its name."""
    return comment.startswith(_prefix(campaign))


def _prefix(campaign: str) -> str:
    return f"rule_measure_wildcards_{campaign}_"
