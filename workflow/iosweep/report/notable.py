"""The results that matter most, for a page without its script, and all reasons why results are not valid. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import Repetitions, Result
from iosweep.report.figures import Figure
from iosweep.report.headline import Group
from iosweep.results.reasons import REASONS, bare, cause, ranked

#: Rows of the table, and reasons of an outcome.
MOST_ROWS, MOST_REASONS = 60, 40
#: Reasons of an outcome that the first screen has.
ON_FIRST_SCREEN = 2


@dataclass(frozen=True)
class Notable:
    """A result. why: `highest`, `lowest latency: 87.2 µs`, `knee: 95 % of the peak at queue depth 16`, `one of 12:
    duration: 0.91 s of 1 s`."""

    why: str
    phase: str
    place: str
    figure: str
    spread: str
    verdict: str
    point: str


@dataclass(frozen=True)
class Reasons:
    """Why repetitions have an outcome: the reasons with the number of repetitions, causes first; left: more of them."""

    outcome: str
    listed: tuple[tuple[str, int], ...]
    left: int


def rows(groups: Sequence[Group], drawings: Iterable[Figure], results: Sequence[Result]) -> list[Notable]:
    """The best result of each phase, those at knees, and for each reason the first one that is not valid; each once."""
    return [_notable("; ".join(why), result) for result, why in _found(groups, drawings, results).values()][:MOST_ROWS]


def keys(groups: Sequence[Group], drawings: Iterable[Figure], results: Sequence[Result]) -> list[tuple[str, str]]:
    """(point, phase) of all of these."""
    return [*_found(groups, drawings, results)]


def _found(
    groups: Sequence[Group], drawings: Iterable[Figure], results: Sequence[Result]
) -> dict[tuple[str, str], tuple[Result, dict[str, None]]]:
    found: dict[tuple[str, str], tuple[Result, dict[str, None]]] = {}
    for why, result in (*_best(groups), *_knees(drawings, results), *_not_valid(results)):
        found.setdefault((result.point, result.phase), (result, {}))[1][why] = None
    return found


def reasons(repetitions: Iterable[Repetitions]) -> list[Reasons]:
    """Of each outcome that has more reasons than the first screen shows."""
    groups: dict[str, list[list[str]]] = {}
    for one in repetitions:
        if one.reasons:
            groups.setdefault(one.outcome, []).extend([REASONS.join(one.reasons).split(REASONS)] * one.count)
    listed = {outcome: ranked(own) for outcome, own in groups.items() if outcome != "valid"}
    return [
        Reasons(outcome, tuple(own[:MOST_REASONS]), max(0, len(own) - MOST_REASONS))
        for outcome, own in listed.items()
        if len(own) > ON_FIRST_SCREEN
    ]


def _best(groups: Sequence[Group]) -> Iterator[tuple[str, Result]]:
    for group in groups:
        for entry in group.entries:
            if entry.choice:
                lowest = entry.choice.column.startswith("latency_")
                yield f"lowest latency: {entry.value}" if lowest else "highest", entry.choice.result


def _knees(drawings: Iterable[Figure], results: Sequence[Result]) -> Iterator[tuple[str, Result]]:
    by_key = {(result.point, result.phase): result for result in results}
    for figure in drawings:
        for mark in figure.marks:
            if mark.knee and (result := by_key.get((mark.point or "", mark.phase))):
                yield mark.knee, result


def _not_valid(results: Sequence[Result]) -> Iterator[tuple[str, Result]]:
    alike: dict[tuple[str, str], list[tuple[str, Result]]] = {}
    for result in results:
        if result.state != "valid":
            for reason in result.reasons or ("",):
                alike.setdefault((result.state, bare(cause(reason))), []).append((reason, result))
    for own in alike.values():
        reason, result = own[0]
        yield (f"one of {len(own):,}: {reason}" if len(own) > 1 else reason), result


def _notable(why: str, result: Result) -> Notable:
    units, found = formats.units_of(result.metric, result.kind), result.headline
    return Notable(
        why,
        titles.phase(result.phase),
        titles.brief(result),
        formats.quantity(found.mean, units) if found else "",
        formats.spread(found, units) if found else "",
        result.state,
        result.point,
    )
