"""Two campaigns side by side: names, matching, figures, and all else that changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from iosweep.analysis import copies, session_verdicts
from iosweep.analysis.aggregate import Result
from iosweep.analysis.changes import Changed, changes
from iosweep.analysis.comparison import compare, without_figure
from iosweep.analysis.copies import Measurement, Shared
from iosweep.analysis.data import Campaign
from iosweep.analysis.findings import Comparison
from iosweep.analysis.matching import Hint, hint, match

#: Share of the smaller campaign's results that match, below which a hint says what would make more match.
_FEW = 0.5


@dataclass(frozen=True)
class Side:
    """A campaign with its results. name: what tells it from the others of a comparison."""

    name: str
    path: Path
    campaign: Campaign
    results: tuple[Result, ...]

    @cached_property
    def measurements(self) -> frozenset[Measurement]:
        return copies.measurements(self.campaign.rows)


@dataclass(frozen=True)
class Copied:
    """Measurements that `side` shares with another campaign of the comparison."""

    side: str
    other: str
    shared: Shared


@dataclass(frozen=True)
class Like:
    """A further campaign of the first one's system. results: those of the first one that it has, too, with a figure;
    changes: what is not the same as in the first one; copied: what it shares with other campaigns of the comparison."""

    side: Side
    results: int
    changes: tuple[Changed, ...]
    copied: tuple[Copied, ...] = ()


@dataclass(frozen=True)
class Versus:
    """The other campaign `b` against the first one `a`. hint: where few results match, why; like: the campaigns that
    say how sessions of the first one's system differ; copied: what `b` shares with `a`, or None."""

    a: Side
    b: Side
    found: Comparison
    changes: tuple[Changed, ...]
    hint: Hint | None
    like: tuple[Like, ...] = ()
    copied: Copied | None = None

    @property
    def names(self) -> tuple[str, str]:
        return self.a.name, self.b.name


#: What differs between two campaigns of one system.
_OF_A_SESSION = "verdicts"


def copied(side: Side, other: Side) -> Copied | None:
    """What a campaign shares with another one; None if nothing."""
    shared = copies.shared(side.measurements, other.measurements)
    return Copied(side.name, other.name, shared) if shared else None


def like(a: Side, side: Side, ignore: frozenset[str] | None, column: str, copied: tuple[Copied, ...] = ()) -> Like:
    """A further campaign of the first one's system. copied: what it shares with the others of the comparison."""
    shared = len(session_verdicts.partners(a.results, side.results, ignore, column))
    unlike = (one for one in changes(a.campaign, side.campaign) if one.topic != _OF_A_SESSION)
    return Like(side, shared, tuple(unlike), copied)


def comparable(a: Side, b: Side, ignore: frozenset[str] | None, column: str) -> bool:
    """Whether two campaigns have a result in common that has a figure in both."""
    return any(without_figure(pair, column) is None for pair in match(a.results, b.results, ignore).pairs)


def versus(
    a: Side,
    b: Side,
    ignore: frozenset[str] | None,
    column: str,
    at_least: float,
    like: tuple[Like, ...] = (),
) -> Versus:
    """Compare two campaigns. ignore, column, at_least: as of matching.match and comparison.compare."""
    matched = match(a.results, b.results, ignore)
    few = len(matched.pairs) < _FEW * min(len(a.results), len(b.results))
    return Versus(
        a,
        b,
        compare(matched, (a.results, b.results), column, at_least, [one.side.results for one in like]),
        tuple(changes(a.campaign, b.campaign)),
        hint(a.results, b.results, ignore) if few else None,
        like,
        copied(b, a),
    )


def names(named: Sequence[tuple[str, Campaign]]) -> list[str]:
    """What tells campaigns apart: their names, or these with their targets, or with (name of) their directories, or
    with numbers. named: name of each one's directory of results."""
    for forms in (
        [campaign.about.campaign for _, campaign in named],
        [f"{campaign.about.campaign} on {campaign.about.target.directory}" for _, campaign in named],
        [f"{campaign.about.campaign} in {directory}" for directory, campaign in named],
    ):
        if len(set(forms)) == len(forms):
            return forms
    return [f"{campaign.about.campaign} ({number})" for number, (_, campaign) in enumerate(named, 1)]
