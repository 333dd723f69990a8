"""How the figures of two campaigns differ, how sure that is, and what of it is worth a sentence. Pure.

A finding is about one pair of results, or about several: all pairs of a phase, or those that have one value of a
parameter in common. All findings of a comparison are one family: where nothing differs, at most one comparison in
twenty reports a change anywhere. Without other campaigns of the first system (`--like`) the noise is that within the
campaigns. With them a session is what is drawn: a change has to be beyond what sessions of the first system differ by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

from iosweep.analysis.changes import Changed, changes, lasting
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.matching import Hint, Matching, Pair, hint, match
from iosweep.analysis.summary import PointSummary, phase_order
from iosweep.judge import agreement, statistics
from iosweep.judge.statistics import ALPHA, Change, Noise
from iosweep.plan import headline_groups
from iosweep.plan.headline_groups import Conditions
from iosweep.tools import parameters

#: A change of the figures, or none that is larger than the least one that matters, or neither is certain.
Verdict = Literal["regression", "improvement", "same", "undecided"]
#: Least change that matters, as a share: sessions of the same system differ by more than 1 % often, and seldom by more
#: than this.
AT_LEAST = 0.03
#: Results of a phase, as a share, that a campaign has at least to count as a session of it.
_ENOUGH = 0.5
#: Share of the smaller campaign's results that match, below which a hint says what would make more match.
_FEW = 0.5

#: Phase under the same conditions.
Kind = tuple[Conditions, str]


@dataclass(frozen=True)
class Finding:
    """What is known of one pair or of several of a phase. where: what several have in common beside the phase; change:
    of the other campaign's figures from the first one's, None where nothing says how they scatter; p: among all
    findings of the comparison; more: repetitions of each side that would decide it, None where none are needed, more
    than are worth saying, or with sessions; why: why it is undecided whatever the repetitions,
    otherwise "".

    sessions: of the first system, from whose mean the change is; 0: of how sessions differ nothing is known.
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

    @property
    def kind(self) -> Kind:
        """The phase under the same conditions."""
        return self.conditions, self.phase

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
    sd_share: standard deviation."""

    phase: str
    conditions: Conditions
    sessions: int
    sd_share: float


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
    errors = {id(one.pairs[0]): one.change.error for one in found.singles if one.change}

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


def compare(
    matching: Matching,
    results: tuple[Sequence[PointSummary], Sequence[PointSummary]],
    column: str = "",
    at_least: float = AT_LEAST,
    like: Sequence[Sequence[PointSummary]] = (),
) -> Comparison:
    """Compare the pairs of two campaigns. results: all of each, which tell how a phase scatters; column: the figure to
    compare, "" for each phase's own; at_least: the smallest change that matters, as a share; like: results of other
    campaigns of the first one's system, which tell how its sessions differ."""
    noises = [_noises(side, column) for side in results]
    kept, without = [], []
    for pair in matching.pairs:
        if lacks := without_figure(pair, column):
            without.append((pair, *lacks))
        else:
            kept.append(pair)
    singles = [_single(pair, column, noises) for pair in kept]
    sessions = _sessions(singles, results[0], like, matching.ignored, column) if like else {}
    if like:
        singles = [_beyond_sessions(one, sessions, column) for one in singles]
    groups = [_beyond_sessions(one, sessions, column) if like else one for one in _groups(singles, column)]
    judged = _judged([*groups, *singles], column, at_least)
    split = len(groups)
    learned = tuple(own.learned(kind) for kind, own in sessions.items()) if like else None
    return Comparison(matching, column, at_least, tuple(judged[split:]), tuple(judged[:split]), tuple(without), learned)


def _judged(findings: Sequence[Finding], column: str, at_least: float) -> list[Finding]:
    """The findings with their verdicts."""
    tested = [one for one in findings if one.change]
    adjusted = dict(zip(map(id, tested), statistics.holm(one.change.p for one in tested if one.change), strict=True))
    alpha = ALPHA / max(1, len(tested))
    return [
        _verdict(replace(one, p=adjusted[id(one)]), column, at_least, alpha) if one.change else one for one in findings
    ]


def _verdict(one: Finding, column: str, at_least: float, alpha: float) -> Finding:
    """The finding with its verdict. alpha: of a single one, for how many repetitions would decide it."""
    change = one.change
    assert change is not None
    if one.p <= ALPHA and abs(change.share) >= at_least:
        better = (change.share > 0) != lower_is_better(column)
        return replace(one, verdict="improvement" if better else "regression")
    low, high = change.within()
    if -at_least < low and high < at_least:
        return replace(one, verdict="same")
    if one.sessions:
        return one
    if abs(change.share) >= at_least:
        more = change.repetitions(abs(change.log), alpha)
    else:
        more = change.repetitions(math.log1p(at_least) - abs(change.log))
    return replace(one, more=max(more, 1) if more is not None else None)


@dataclass(frozen=True)
class _Sessions:
    """A phase in several sessions of the first system. logs: first campaign's result (its identity) -> mean logarithm
    in each session, the first campaign's first; usual: the scatter of a result from session to session."""

    logs: Mapping[int, tuple[float, ...]]
    usual: float

    @property
    def count(self) -> int:
        return len(next(iter(self.logs.values())))

    def learned(self, kind: Kind) -> Learned:
        return Learned(kind[1], kind[0], self.count, math.expm1(math.sqrt(self.usual)))


def _sessions(
    singles: Sequence[Finding],
    first: Sequence[PointSummary],
    like: Sequence[Sequence[PointSummary]],
    ignore: frozenset[str] | None,
    column: str,
) -> dict[Kind, _Sessions]:
    """Phase -> its sessions: those of the first campaign and of others of its system. A phase that no other campaign
    has half of is not in it; a result that one of the sessions lacks has no logarithms."""
    shared_with = [partners(first, other, ignore, column) for other in like]
    phases: dict[Kind, list[Pair]] = {}
    for one in singles:
        if one.change:
            phases.setdefault(one.kind, []).append(one.pairs[0])
    found = {}
    for kind, pairs in phases.items():
        used = [own for own in shared_with if sum(id(pair.a) in own for pair in pairs) >= _ENOUGH * len(pairs)]
        shared = [pair.a for pair in pairs if all(id(pair.a) in own for own in used)]
        if used and shared:
            logs = {id(a): (_log(a, column), *(_log(own[id(a)], column) for own in used)) for a in shared}
            found[kind] = _Sessions(logs, fmean(map(statistics.variance, logs.values())))
    return found


def partners(
    first: Sequence[PointSummary], other: Sequence[PointSummary], ignore: frozenset[str] | None, column: str
) -> dict[int, PointSummary]:
    """PointSummary of a campaign (its identity) -> the same one of another campaign, where that has a figure."""
    found = {}
    for pair in match(first, other, ignore).pairs:
        sample = pair.b.sample(column or pair.a.metric)
        if sample.values and min(sample.values) > 0 and sample.alike:
            found[id(pair.a)] = pair.b
    return found


def _log(result: PointSummary, column: str) -> float:
    return fmean(map(math.log, result.values(column or result.metric)))


def _beyond_sessions(one: Finding, sessions: Mapping[Kind, _Sessions], column: str) -> Finding:
    """The finding with its change from the mean of the sessions, whose number less one is its degrees of freedom. Its
    error is that of the sessions, and no less than what is usual in its phase or than the repetitions alone leave."""
    change, known = one.change, sessions.get(one.kind)
    if change is None:
        return one
    if known is None or any(id(pair.a) not in known.logs for pair in one.pairs):
        return replace(one, change=None, why="not in the campaigns of --like")
    means = [fmean(logs) for logs in zip(*(known.logs[id(pair.a)] for pair in one.pairs), strict=True)]
    usual = known.usual if one.single else 0.0  # what a session does to all of a phase is in the means of groups
    error = math.sqrt(max(statistics.variance(means), usual) * (1 + 1 / known.count))
    log = fmean(_log(pair.b, column) for pair in one.pairs) - fmean(means)
    beyond = Change(change.n, log, max(error, change.error), known.count - 1)
    return replace(one, change=beyond, sessions=known.count)


def _noises(results: Sequence[PointSummary], column: str) -> dict[int, Noise | None]:
    """PointSummary (its identity) -> how its phase scatters."""
    known = [result for result in results if (column or result.metric) in result.statistics]
    samples = [result.sample(column or result.metric) for result in known]
    return {id(result): noise for result, noise in zip(known, agreement.noises(samples), strict=True)}


def without_figure(pair: Pair, column: str) -> tuple[int, str] | None:
    """Which side of a pair cannot be compared, and why; None if both can."""
    own = column or pair.a.metric
    for side, result in enumerate((pair.a, pair.b)):
        if own not in result.statistics:
            return side, result.verdict if result.verdict in ("invalid", "missing") else f"without {own}"
    return None


def _single(pair: Pair, column: str, noises: Sequence[Mapping[int, Noise | None]]) -> Finding:
    own = column or pair.a.metric
    sides = [result.sample(own) for result in (pair.b, pair.a)]
    change, why = None, ""
    if all(side.alike for side in sides):
        known = (noises[1].get(id(pair.b)), noises[0].get(id(pair.a)))
        change = statistics.change(sides[0].values, sides[1].values, known)
        if change is None:
            few = min(len(side.values) for side in sides) == 1
            why = "one repetition, and no others that tell how it scatters" if few else "a figure of zero"
    else:
        why = "its repetitions ran on different nodes"
    conditions = headline_groups.of_phase(headline_groups.conditions(pair.a.tool, pair.a.parameters), pair.a.phase)
    return Finding(pair.a.phase, conditions, (pair,), change, {}, why=why)


def _groups(singles: Sequence[Finding], column: str) -> Iterator[Finding]:
    """All pairs of a phase under the same conditions, and those of each value of a parameter that varies among them;
    of groups with the same pairs the widest."""
    phases: dict[tuple[Conditions, str], list[Finding]] = {}
    for one in singles:
        if one.change:
            phases.setdefault((one.conditions, one.phase), []).append(one)
    for (conditions, phase), own in sorted(phases.items(), key=lambda item: phase_order(item[0][1])):
        seen: set[tuple[int, ...]] = set()
        for where, members in _slices(own):
            key = tuple(map(id, members))
            if len(members) < 2 or key in seen:
                continue
            seen.add(key)
            pairs = tuple(one.pairs[0] for one in members)
            rounds = [(p.b.rounds(column or p.a.metric), p.a.rounds(column or p.a.metric)) for p in pairs]
            if change := statistics.common_change(rounds):
                yield Finding(phase, conditions, pairs, change, where)


def _slices(own: Sequence[Finding]) -> Iterator[tuple[dict[str, Value], list[Finding]]]:
    yield {}, list(own)
    for column in parameters():
        values: dict[Value | None, list[Finding]] = {}
        for one in own:
            values.setdefault(one.pairs[0].a.parameters[column], []).append(one)
        if len(values) > 1:
            yield from (({column: value}, members) for value, members in values.items() if value is not None)


@dataclass(frozen=True)
class Side:
    """A campaign with its results. name: what tells it from the others of a comparison."""

    name: str
    path: Path
    campaign: Campaign
    results: tuple[PointSummary, ...]


@dataclass(frozen=True)
class Like:
    """A further campaign of the first one's system. results: those of the first one that it has, too, with a figure;
    changes: what is not the same as in the first one."""

    side: Side
    results: int
    changes: tuple[Changed, ...]


@dataclass(frozen=True)
class Versus:
    """The other campaign `b` against the first one `a`. hint: where few results match, why; like: the campaigns that
    say how sessions of the first one's system differ."""

    a: Side
    b: Side
    found: Comparison
    changes: tuple[Changed, ...]
    hint: Hint | None
    like: tuple[Like, ...] = ()

    @property
    def names(self) -> tuple[str, str]:
        return self.a.name, self.b.name


def like(a: Side, side: Side, ignore: frozenset[str] | None, column: str) -> Like:
    """A further campaign of the first one's system."""
    shared = len(partners(a.results, side.results, ignore, column))
    return Like(side, shared, lasting(a.campaign, side.campaign))


def versus(
    a: Side,
    b: Side,
    ignore: frozenset[str] | None,
    column: str,
    at_least: float,
    like: tuple[Like, ...] = (),
) -> Versus:
    """Compare two campaigns. ignore, column, at_least: as of matching.match and compare."""
    matched = match(a.results, b.results, ignore)
    few = len(matched.pairs) < _FEW * min(len(a.results), len(b.results))
    return Versus(
        a,
        b,
        compare(matched, (a.results, b.results), column, at_least, [one.side.results for one in like]),
        tuple(changes(a.campaign, b.campaign)),
        hint(a.results, b.results, ignore) if few else None,
        like,
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
