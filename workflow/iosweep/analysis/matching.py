"""Which results of two campaigns are of the same thing. Pure.

A point's id is everything that determines a measurement, so that equal ids are equal measurements. Where ids differ,
the values of all parameters of a phase decide, but for those that are to be ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from iosweep.analysis.data import Value
from iosweep.analysis.summary import PointSummary
from iosweep.text import did_you_mean
from iosweep.tools import parameters, tools

#: What `--ignore` accepts beside parameters: what else a point's id depends on, and parameters do not name.
OTHER_PHASES = "phases"
#: Parameters that a hint names.
_HINTED = 4


class NeverMixed(Exception):
    """Something is to be ignored that no comparison may ignore, or that does not exist. The message is a sentence."""


@dataclass(frozen=True)
class Pair:
    """The same phase of the same point in two campaigns."""

    a: PointSummary
    b: PointSummary


@dataclass(frozen=True)
class Unmatched:
    """A result that is not compared. side: 0, of the first campaign; 1, of the other."""

    side: int
    result: PointSummary
    why: str


@dataclass(frozen=True)
class Hint:
    """Why few results match. differ: parameters whose values all differ, as `--ignore` names them; matched: results
    that are compared if these are ignored; conditions: those among them that cannot be."""

    differ: tuple[str, ...]
    conditions: tuple[str, ...]
    matched: int


@dataclass(frozen=True)
class Matching:
    """The results of two campaigns, as pairs and those that have no partner. ignored: columns."""

    pairs: tuple[Pair, ...]
    unmatched: tuple[Unmatched, ...]
    ignored: frozenset[str] | None = None


def ignored(names: Iterable[str]) -> frozenset[str]:
    """The columns of parameters that are to be ignored, named as in a configuration (`transfer_size`) or as a column;
    of `phases` and `<tool>.version` nothing, as these are no parameters. Raises NeverMixed."""
    known = {name: option for option in parameters().values() for name in (option.name, option.column)}
    versions = {f"{tool}.version" for tool in tools()}
    found = set()
    for name in names:
        if option := known.get(name):
            if option.role == "condition":
                raise NeverMixed(
                    f"{option.name} is never ignored: figures of different {option.shown} are not figures of the same"
                    " thing"
                )
            found.add(option.column)
        elif name != OTHER_PHASES and name not in versions:
            like = did_you_mean(name, [*known, OTHER_PHASES, *versions])
            raise NeverMixed(f"`{name}` is not a parameter of a point{like}")
    return frozenset(found)


def match(a: Sequence[PointSummary], b: Sequence[PointSummary], ignore: frozenset[str] | None = None) -> Matching:
    """Pair the results of two campaigns: by the ids of their points, or, unless `ignore` is None, by all parameters but
    the ignored columns. Results without a figure are paired, too."""
    keyed = [_keyed(results, ignore) for results in (a, b)]
    pairs = [
        Pair(own[0], other[0])
        for key, own in keyed[0].items()
        if len(own) == 1 and len(other := keyed[1].get(key, [])) == 1
    ]
    paired = {id(result) for pair in pairs for result in (pair.a, pair.b)}
    unmatched = []
    for side, (mine, others) in enumerate((keyed, keyed[::-1])):
        for key, own in mine.items():
            several = len(own) > 1 or len(others.get(key, [])) > 1
            why = "several points are the same without what is ignored" if several else "only there"
            unmatched += [Unmatched(side, result, why) for result in own if id(result) not in paired]
    return Matching(tuple(pairs), tuple(unmatched), ignore)


def hint(a: Sequence[PointSummary], b: Sequence[PointSummary], ignore: frozenset[str] | None) -> Hint | None:
    """What keeps the results of two campaigns that have a figure apart; None where no parameter does."""
    counted = [[result for result in side if result.statistics] for side in (a, b)]
    phases = {result.phase for result in counted[0]} & {result.phase for result in counted[1]}
    sides = [[result for result in side if result.phase in phases] for side in counted]
    if not all(sides):
        return None
    known = parameters()
    apart = [
        column
        for column in known
        if column not in (ignore or ()) and not _values(sides[0], column) & _values(sides[1], column)
    ]
    conditions = [column for column in apart if known[column].role == "condition"]
    free = [column for column in apart if column not in conditions][:_HINTED]
    pairs = match(a, b, frozenset((*free, *(ignore or ())))).pairs
    matched = sum(bool(pair.a.statistics and pair.b.statistics) for pair in pairs)
    names = [known[column].name for column in free]
    if not matched and not apart:
        return None
    return Hint(tuple(names) or ((OTHER_PHASES,) if matched else ()), tuple(known[c].name for c in conditions), matched)


def _values(results: Sequence[PointSummary], column: str) -> set[tuple[str, Value | None]]:
    return {(result.phase, result.parameters[column]) for result in results}


def _keyed(results: Sequence[PointSummary], ignore: Collection[str] | None) -> Mapping[object, list[PointSummary]]:
    found: dict[object, list[PointSummary]] = {}
    for result in results:
        found.setdefault(_key(result, ignore), []).append(result)
    return found


def _key(result: PointSummary, ignore: Collection[str] | None) -> object:
    if ignore is None:
        return result.point, result.phase
    own = tuple((name, value) for name, value in result.parameters.items() if name not in ignore)
    return result.tool, result.phase, own
