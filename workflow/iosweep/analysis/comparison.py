"""How the figures of two campaigns differ, and how sure that is. Pure.

A finding is about one pair of results, or about several: all pairs of a phase, or those that have one value of a
parameter in common. All findings of a comparison are one family: where nothing differs, at most one comparison in
twenty reports a change anywhere (docs/comparing.md has the simulation).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iosweep.analysis import session_verdicts
from iosweep.analysis.aggregate import Result, phase_order
from iosweep.analysis.data import Value
from iosweep.analysis.findings import ALPHA, AT_LEAST, LEVEL, Comparison, Finding, lower_is_better
from iosweep.analysis.matching import Matching, Pair
from iosweep.plan import contests
from iosweep.plan.contests import Conditions
from iosweep.results import precision, statistics
from iosweep.results.statistics import Noise
from iosweep.tools import parameters


def compare(
    matching: Matching,
    results: tuple[Sequence[Result], Sequence[Result]],
    column: str = "",
    at_least: float = AT_LEAST,
    like: Sequence[Sequence[Result]] = (),
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
    if like:
        known = session_verdicts.learn(singles, results[0], like, matching.ignored, column)
        singles = session_verdicts.known_only(singles, known)
        groups = list(_groups(singles, column))
        judged = session_verdicts.judged([*groups, *singles], known, column, at_least)
        learned = session_verdicts.learned(known, singles)
    else:
        groups = list(_groups(singles, column))
        judged = _within(groups, singles, column, at_least)
        learned = None
    split = len(groups)
    return Comparison(matching, column, at_least, tuple(judged[split:]), tuple(judged[:split]), tuple(without), learned)


def _within(groups: Sequence[Finding], singles: Sequence[Finding], column: str, at_least: float) -> list[Finding]:
    """The findings with their verdicts, where nothing but the noise within the campaigns is known."""
    tested = [one for one in (*groups, *singles) if one.change]
    adjusted = dict(zip(map(id, tested), statistics.holm(one.change.p for one in tested if one.change), strict=True))
    alpha = LEVEL / max(1, len(tested))
    return [
        _judged(replace(one, p=adjusted[id(one)]), column, at_least, alpha) if one.change else one
        for one in (*groups, *singles)
    ]


def _noises(results: Sequence[Result], column: str) -> dict[int, Noise | None]:
    """Result (its identity) -> how its phase scatters."""
    known = [result for result in results if (column or result.metric) in result.statistics]
    samples = [result.sample(column or result.metric) for result in known]
    return {id(result): noise for result, noise in zip(known, precision.noises(samples), strict=True)}


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
    conditions = contests.of_phase(contests.conditions(pair.a.tool, pair.a.parameters), pair.a.phase)
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


def _judged(one: Finding, column: str, at_least: float, alpha: float) -> Finding:
    """The finding with its verdict. alpha: of a single one, for how many repetitions would decide it."""
    change = one.change
    assert change is not None
    if one.p <= LEVEL and abs(change.share) >= at_least:
        better = (change.share > 0) != lower_is_better(column)
        return replace(one, verdict="improvement" if better else "regression")
    low, high = change.within(ALPHA)
    if -at_least < low and high < at_least:
        return replace(one, verdict="same")
    if abs(change.share) >= at_least:
        more = change.repetitions(abs(change.log), alpha)
    else:
        more = change.repetitions(math.log1p(at_least) - abs(change.log), ALPHA)
    return replace(one, more=max(more, 1) if more is not None else None)
