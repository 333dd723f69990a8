"""What a comparison of two campaigns finds, and which of its findings are worth a sentence. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from iosweep.analysis.data import Value
from iosweep.analysis.matching import Matching, Pair
from iosweep.plan.contests import Conditions
from iosweep.results.statistics import Change

#: A change of the figures, or none that is larger than the least one that matters, or neither is certain.
Verdict = Literal["regression", "improvement", "same", "undecided"]
#: Least change that matters, as a share: sessions of the same system differ by more than 1 % often, and seldom by more
#: than this (docs/comparing.md).
AT_LEAST = 0.03
#: False alarms of a comparison, and the confidence of an interval.
ALPHA = 0.05
#: What p must not exceed for that: where few rounds are disturbed as a whole, results share how they were disturbed,
#: and their phase seems better known than it is.
LEVEL = 0.04
#: More sessions that are worth naming.
MOST_SESSIONS = 20


@dataclass(frozen=True)
class Finding:
    """What is known of one pair or of several of a phase. where: what several have in common beside the phase; change:
    of the other campaign's figures from the first one's, None where nothing says how they scatter; p: among all
    findings of the comparison; more: repetitions of each side that would decide it, with sessions how many more of
    these, None where none are needed or more than are worth saying; why: why it is undecided whatever the repetitions,
    otherwise "".

    sessions: of the first system, from whose mean the change is; 0: of how sessions differ nothing is known. beside: by
    how much it changed more than the rest of its phase; against_rest: the verdict is about that.
    """

    phase: str
    conditions: Conditions
    pairs: tuple[Pair, ...]
    change: Change | None
    where: Mapping[str, Value]
    p: float = 1.0
    verdict: Verdict = "undecided"
    more: int | None = None
    why: str = ""
    sessions: int = 0
    beside: Change | None = None
    against_rest: bool = False

    @property
    def kind(self) -> tuple[Conditions, str]:
        """The phase under the same conditions."""
        return self.conditions, self.phase

    @property
    def shown(self) -> Change | None:
        """The change that the verdict is about."""
        return self.beside if self.against_rest else self.change

    @property
    def single(self) -> bool:
        return len(self.pairs) == 1

    @property
    def suspect(self) -> bool:
        """Whether figures of it are in doubt."""
        return any(one.verdict != "valid" for pair in self.pairs for one in (pair.a, pair.b))

    @property
    def reasons(self) -> list[str]:
        """Why its figures are in doubt, of both sides."""
        doubted = [one for pair in self.pairs for one in (pair.a, pair.b) if one.verdict != "valid"]
        return list(dict.fromkeys(reason for one in doubted for reason in one.reasons))


@dataclass(frozen=True)
class Learned:
    """How a result of a phase differs from session to session. sessions: their number, the first campaign's among them;
    sd_share: standard deviation; repetitions_share: that which the repetitions of a session alone leave."""

    phase: str
    conditions: Conditions
    sessions: int
    sd_share: float
    repetitions_share: float

    @property
    def beyond_repetitions(self) -> bool:
        return self.sd_share > self.repetitions_share


@dataclass(frozen=True)
class Comparison:
    """The other campaign's figures against the first one's. column: of the figures, "" where each phase's headline;
    singles: of each pair that has a figure on both sides; groups: of several; without: pairs that have none, which
    side has none (0: the first), and why. learned: how sessions of the first system differ, by phase; None: not
    known.
    """

    matching: Matching
    column: str
    at_least: float
    singles: tuple[Finding, ...]
    groups: tuple[Finding, ...]
    without: tuple[tuple[Pair, int, str], ...]
    learned: tuple[Learned, ...] | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.groups, *self.singles)

    @property
    def regressions(self) -> list[Finding]:
        return [one for one in self.findings if one.verdict == "regression"]

    @property
    def undecided(self) -> list[Finding]:
        return [one for one in self.singles if one.verdict == "undecided"]

    def count(self, verdict: Verdict) -> int:
        """The number of pairs with this verdict."""
        return sum(one.verdict == verdict for one in self.singles)


def lower_is_better(column: str) -> bool:
    return "latency" in column


def most_elsewhere(findings: Iterable[Finding]) -> float | None:
    """The largest change, as a share, that these may have, all together with 95 % confidence; None without any, or
    where one has no interval."""
    own = list(findings)
    if not own or any(one.change is None for one in own):
        return None
    ends = [end for one in own if one.change for end in one.change.within(ALPHA / len(own))]
    return max(map(abs, ends))


def told(found: Comparison) -> list[Finding]:
    """The changes that are worth a sentence, the clearest first: whole phases, values of a parameter or single points,
    whichever explain the changes best; each pair is in one of them."""
    changed = [one for one in found.findings if one.verdict in ("regression", "improvement")]
    errors = {id(one.pairs[0]): (one.beside or one.change).error for one in found.singles if one.change}

    def weight(one: Finding) -> tuple[float, int]:
        assert one.change is not None
        # as if pairs were disturbed one by one: few rounds may look quiet by luck
        error = math.hypot(*(errors[id(pair)] for pair in one.pairs)) / len(one.pairs)
        return (abs(one.change.log) / error if error else math.inf, len(one.pairs))

    chosen: list[Finding] = []
    covered: set[int] = set()
    for one in sorted(changed, key=weight, reverse=True):
        own = {id(pair) for pair in one.pairs}
        if not own & covered:
            chosen.append(one)
            covered |= own
    return chosen
