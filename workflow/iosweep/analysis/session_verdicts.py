"""Findings of a comparison whose first system was measured in several sessions (`--like`): their verdicts. Pure.

A change has to be beyond what sessions of the first system differ by. Two kinds of tests share the false alarms of a
comparison: those of whole phases, which have the few degrees of freedom of the sessions, and those of results and of
values of a parameter against the rest of their phase, which have more. What is inside a phase that changed is tested
again by itself. docs/comparing.md has the simulation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from iosweep.analysis.aggregate import Result
from iosweep.analysis.findings import ALPHA, LEVEL, MOST_SESSIONS, Finding, Learned, Verdict, lower_is_better
from iosweep.analysis.matching import Pair, match
from iosweep.plan.contests import Conditions
from iosweep.results import statistics
from iosweep.results.between_sessions import Sessions, more_sessions
from iosweep.results.statistics import Change

#: Share of the false alarms that tests of whole phases have: their few degrees of freedom make each halving dear.
_WHOLE = 0.75
#: Results of a phase, as a share, that a campaign has at least to count as a session of it.
_ENOUGH = 0.5

#: Phase under the same conditions.
Kind = tuple[Conditions, str]


@dataclass(frozen=True)
class Known:
    """What sessions of the first system say of a phase. other: mean logarithm of each result in the other campaign;
    places: first campaign's result (its identity) -> row of both."""

    sessions: Sessions
    other: tuple[float, ...]
    places: Mapping[int, int]


def learn(singles: Sequence[Finding], first: Sequence[Result], like: Sequence[Sequence[Result]],
          ignore: frozenset[str] | None, column: str) -> dict[Kind, Known]:  # fmt: skip
    """Phase -> its sessions: those of the first campaign and of others of its system. A phase that no other campaign
    has half of is not in it; a result that one of the sessions lacks has no row."""
    shared_with = [partners(first, other, ignore, column) for other in like]
    phases: dict[Kind, list[Pair]] = {}
    for one in singles:
        if one.change:
            phases.setdefault(one.kind, []).append(one.pairs[0])
    found = {}
    for kind, pairs in phases.items():
        least = _ENOUGH * len(pairs)
        used = [own for own in shared_with if sum(id(pair.a) in own for pair in pairs) >= least]
        shared = [pair for pair in pairs if all(id(pair.a) in own for own in used)]
        if used and shared:
            logs = [(_log(pair.a, column), *(_log(own[id(pair.a)], column) for own in used)) for pair in shared]
            other = tuple(_log(pair.b, column) for pair in shared)
            found[kind] = Known(Sessions(tuple(logs)), other, {id(pair.a): row for row, pair in enumerate(shared)})
    return found


def known_only(singles: Sequence[Finding], known: Mapping[Kind, Known]) -> list[Finding]:
    """The same findings; those that are not in every session have no change."""
    return [
        replace(one, change=None, why="not in the campaigns of --like") if one.change and not _has(known, one) else one
        for one in singles
    ]


def _has(known: Mapping[Kind, Known], one: Finding) -> bool:
    return one.kind in known and id(one.pairs[0].a) in known[one.kind].places


def learned(known: Mapping[Kind, Known], singles: Sequence[Finding]) -> tuple[Learned, ...]:
    """How much sessions differ, by phase. singles: with their changes from the first campaign, of `known_only`."""
    squares: dict[Kind, list[float]] = {}
    for one in singles:
        if one.change:
            squares.setdefault(one.kind, []).append(one.change.parts[1])
    return tuple(
        Learned(
            kind[1],
            kind[0],
            own.sessions.count,
            math.expm1(own.sessions.sd),
            math.expm1(math.sqrt(fmean(squares[kind]))),
        )
        for kind, own in known.items()
    )


def partners(
    first: Sequence[Result], other: Sequence[Result], ignore: frozenset[str] | None, column: str
) -> dict[int, Result]:
    """Result of a campaign (its identity) -> the same one of another campaign, where that has a figure."""
    found = {}
    for pair in match(first, other, ignore).pairs:
        sample = pair.b.sample(column or pair.a.metric)
        if sample.values and min(sample.values) > 0 and sample.alike:
            found[id(pair.a)] = pair.b
    return found


def _log(result: Result, column: str) -> float:
    return fmean(map(math.log, result.values(column or result.metric)))


def judged(findings: Sequence[Finding], known: Mapping[Kind, Known], column: str, at_least: float) -> list[Finding]:
    """The findings with their changes from the mean of the sessions, and verdicts. All their pairs are known, or none
    has a change."""
    measured = [_measured(one, known[one.kind], column) if one.change else one for one in findings]
    tested = [one for one in measured if one.change]
    whole = [one for one in tested if one.beside is None]
    narrow = [one for one in tested if one.beside is not None]
    first = dict(zip(map(_kind, whole), _among([one.change for one in whole], _WHOLE), strict=True))
    beside = dict(zip(map(id, narrow), _among([one.beside for one in narrow], 1 - _WHOLE), strict=True))
    inside: dict[int, float] = {}
    for kind, p in first.items():
        own = [one for one in narrow if one.kind == kind]
        for one, among in zip(own, _among([o.change for o in own], _WHOLE / len(whole)), strict=True):
            inside[id(one)] = max(p, among)
    alpha = LEVEL * _WHOLE / max(1, len(whole))
    found = []
    for one in measured:
        if one.change is None:
            found.append(one)
        elif one.beside is None:
            found.append(_judged(one, first[one.kind], 1.0, column, at_least, alpha))
        else:
            found.append(_judged(one, inside.get(id(one), 1.0), beside[id(one)], column, at_least, alpha))
    return found


def _kind(one: Finding) -> Kind:
    return one.kind


def _among(changes: Sequence[Change | None], share: float) -> list[float]:
    """p of each among all (Holm), where they have this share of the false alarms."""
    return [min(1.0, p / share) for p in statistics.holm(change.p for change in changes if change)]


def _measured(one: Finding, known: Known, column: str) -> Finding:
    change, sessions = one.change, known.sessions
    assert change is not None
    members = [known.places[id(pair.a)] for pair in one.pairs]
    within = change.parts[0] + change.parts[1] / sessions.count
    return replace(
        one,
        change=sessions.change(known.other, members, within, change.n),
        beside=sessions.beside(known.other, members, within, change.n),
        sessions=sessions.count,
    )


def _judged(one: Finding, p: float, beside: float, column: str, at_least: float, alpha: float) -> Finding:
    """p: of the change itself; beside: of that against the rest of the phase; alpha: of one test of a phase."""
    change, rest = one.change, one.beside
    assert change is not None
    one = replace(one, p=min(p, beside))
    if p <= LEVEL and abs(change.share) >= at_least:
        return replace(one, verdict=_direction(change, column))
    if rest and beside <= LEVEL and rest.log * change.log > 0 and min(abs(rest.share), abs(change.share)) >= at_least:
        return replace(one, verdict=_direction(change, column), against_rest=True)
    low, high = change.within(ALPHA)
    if -at_least < low and high < at_least:
        return replace(one, verdict="same")
    if abs(change.share) >= at_least:
        more = more_sessions(change, one.sessions, abs(change.log), alpha, MOST_SESSIONS)
    else:
        more = more_sessions(change, one.sessions, math.log1p(at_least) - abs(change.log), ALPHA, MOST_SESSIONS)
    return replace(one, more=max(more, 1) if more is not None else None)


def _direction(change: Change, column: str) -> Verdict:
    return "improvement" if (change.share > 0) != lower_is_better(column) else "regression"
