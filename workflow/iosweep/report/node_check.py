"""The suite node-check: the same tests on each node alone, side by side, and which node stands out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis import caveats, formats, titles
from iosweep.analysis.aggregate import Result, worst
from iosweep.analysis.data import Campaign
from iosweep.results.outliers import ENOUGH, Comparison, Standing, compare
from iosweep.results.precision import COUNTED
from iosweep.text import human_count, some
from iosweep.tools.axes import TRANSFER_SIZE

SUITE = "node-check"


@dataclass(frozen=True)
class Cell:
    """A node's figure in one test."""

    ratio: str  # to the median of the nodes; "" where there is no figure
    value: str  # with its unit
    odd: str  # slow or fast where it stands out; else ""
    verdict: str  # the worst of its repetitions; "" where there is none


@dataclass(frozen=True)
class Row:
    host: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Column:
    """One test."""

    title: str
    median: str  # of the nodes, with its unit; "" where none has a figure
    allowed: str  # what a node may differ by; "" with too few nodes


@dataclass(frozen=True)
class NodeCheck:
    sentence: str
    odd: tuple[str, ...]  # nodes that stand out, the furthest off first
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]  # nodes that stand out first


def of(campaign: Campaign, results: Sequence[Result]) -> NodeCheck | None:
    """The node check of a campaign, or None where it has none or nothing of it is measured."""
    points = _points(campaign)
    own = [result for result in results if result.point in points]
    hosts = sorted({row.host for result in own for row in result.rows if row.host}, key=formats.natural)
    if not hosts:
        return None  # the first screen says why there are no figures
    found = {(c.point, c.phase): c for c in compare(_measured(own))}
    tests = [(result, found.get((result.point, result.phase))) for result in own]
    furthest: dict[str, float] = {}
    for _, standing in _standings(tests):
        if standing.outlier:
            furthest[standing.host] = max(furthest.get(standing.host, 0), abs(standing.ratio - 1))
    odd = sorted(furthest, key=lambda host: (-furthest[host], formats.natural(host)))
    return NodeCheck(
        sentence=" ".join([_verdict(hosts, odd, tests), *_without(hosts, tests)]),
        odd=tuple(odd),
        columns=tuple(_column(result, comparison) for result, comparison in tests),
        rows=tuple(
            Row(host, tuple(_cell(host, result, comparison) for result, comparison in tests))
            for host in [*odd, *(host for host in hosts if host not in furthest)]
        ),
    )


def unlike(campaign: Campaign, results: Sequence[Result]) -> list[tuple[bool, str]]:
    """What is to know of means over other nodes each, and whether it is as it was meant to be. Those of the node check
    are compared node by node."""
    points = _points(campaign)
    return list(caveats.unlike_hosts(result for result in results if result.point not in points))


def _points(campaign: Campaign) -> set[str]:
    return {point for sweep in campaign.about.sweeps if sweep.suite == SUITE for point in sweep.points}


def _measured(results: Sequence[Result]) -> Iterator[tuple[str, str, str, float]]:
    for result in results:
        for row in result.rows:
            if row.verdict in COUNTED and row.host and (value := row.figures.get(result.metric)):
                yield result.point, result.phase, row.host, value


#: A phase of the suite, and the nodes that have a figure of it.
Tests = Sequence[tuple[Result, Comparison | None]]


def _standings(tests: Tests) -> Iterator[tuple[Result, Standing]]:
    for result, comparison in tests:
        for standing in comparison.standings if comparison else ():
            yield result, standing


def _verdict(hosts: Sequence[str], odd: Sequence[str], tests: Tests) -> str:
    """Who stands out, or why nobody can."""
    if len(hosts) == 1:
        return f"Only {hosts[0]} was measured: there is nothing to compare it with."
    standings = list(_standings(tests))
    if not any(comparison and comparison.allowed is not None for _, comparison in tests):
        return _pair(tests)
    if odd:
        named = [_furthest(host, standings) for host in odd]
        stand = "stands" if len(odd) == 1 else "stand"
        return f"{len(odd)} of {len(hosts)} nodes {stand} out from the nodes' median: {some(named, 4)}."
    result, furthest = max(standings, key=lambda pair: abs(pair[1].ratio - 1))
    off = f"{furthest.host} with {_percent(furthest.ratio)} in {_title(result)}"
    return f"None of {len(hosts)} nodes stands out; the furthest from the nodes' median is {off}."


def _furthest(host: str, standings: Sequence[tuple[Result, Standing]]) -> str:
    """node06 (34 % in sequential write 1 MiB, and 1 other test)"""
    own = [(result, standing) for result, standing in standings if standing.host == host and standing.outlier]
    result, standing = max(own, key=lambda pair: abs(pair[1].ratio - 1))
    more = f", and {human_count(len(own) - 1, 'other test')}" if len(own) > 1 else ""
    return f"{host} ({_percent(standing.ratio)} in {_title(result)}{more})"


def _pair(tests: Tests) -> str:
    """The largest difference of two nodes."""
    pairs = [
        (low.ratio / high.ratio, low.host, high.host, _title(result))
        for result, comparison in tests
        if comparison and len(comparison.standings) == 2
        for low, high in [comparison.standings]
    ]
    if not pairs:
        return "No test has a figure of two nodes: there is nothing to compare."
    ratio, low, high, title = min(pairs)
    return (
        f"{low} reaches {_percent(ratio)} of {high} in {title}, where they differ most."
        f" Fewer than {ENOUGH} nodes do not tell which one is odd."
    )


def _without(hosts: Sequence[str], tests: Tests) -> Iterator[str]:
    """Nodes that have no figure of a test that others have."""
    lacking: dict[str, list[str]] = {}
    for result, comparison in tests:
        have = {standing.host for standing in comparison.standings} if comparison else set(hosts)
        for host in hosts:
            if host not in have:
                lacking.setdefault(host, []).append(_title(result))
    if lacking:
        named = [f"{host} ({', '.join(titles)})" for host, titles in lacking.items()]
        yield f"No figure: {some(named, 4)}."


def _column(result: Result, comparison: Comparison | None) -> Column:
    title = _title(result)
    title = title[:1].upper() + title[1:]
    if comparison is None:
        return Column(title, "", "")
    allowed = "" if comparison.allowed is None else f"± {_percent(comparison.allowed)}"
    return Column(title, _quantity(result, comparison.median), allowed)


def _cell(host: str, result: Result, comparison: Comparison | None) -> Cell:
    verdicts = [row.verdict for row in result.rows if row.host == host]
    verdict = worst(verdicts) if verdicts else ""
    found = next((s for s in comparison.standings if s.host == host), None) if comparison else None
    if found is None:
        return Cell("", "", "", verdict)
    odd = ("slow" if found.ratio < 1 else "fast") if found.outlier else ""
    return Cell(_percent(found.ratio), _quantity(result, found.value), odd, verdict)


def _title(result: Result) -> str:
    """random read 4 KiB"""
    size = result.count(TRANSFER_SIZE.column)
    return titles.phase(result.phase).lower() + (f" {formats.size(size)}" if size else "")


def _quantity(result: Result, value: float) -> str:
    return formats.quantity(value, formats.units_of(result.metric, result.kind))


def _percent(ratio: float) -> str:
    return f"{100 * ratio:,.0f} %"
