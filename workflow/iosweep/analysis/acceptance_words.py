"""What the decisions on several criteria have in common, said once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iosweep.analysis.acceptance import Decision


@dataclass(frozen=True)
class Shared:
    """Reasons that several decisions share. which: `all 6`, `all 4 undecided`, `4 of 5 undecided`."""

    which: str
    reasons: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        return [f"{self.which}: {reason}" for reason in self.reasons]


def shared(decisions: Sequence[Decision]) -> Shared:
    """The reasons that all decisions share which have any, if these are two or more."""
    own = [one for one in decisions if one.why.causes]
    if len(own) < 2:
        return Shared("")
    others = [{text for text, _ in one.why.causes} for one in own[1:]]
    reasons = tuple(text for text, _ in own[0].why.causes if all(text in known for known in others))
    undecided = sum(one.outcome == "undecided" for one in decisions)
    if len(own) == len(decisions):
        return Shared(f"all {len(own):,}", reasons)
    if len(own) == undecided:
        return Shared(f"all {len(own):,} undecided", reasons)
    return Shared(f"{len(own):,} of {undecided:,} undecided", reasons)


def more(decisions: Sequence[Decision], apart: Sequence[str]) -> tuple[int, int]:
    """Notes on the decisions, and reasons that are not named beside them. apart: reasons that are named above."""
    return sum(len(one.notes) for one in decisions), sum(one.why.hidden(apart) for one in decisions)
