"""Published figures beside a campaign's own: the ratio with its interval, or why the two do not compare. Pure.

A result compares where it has the tool, the phase and every condition (`where`) of the published figure, and no suite
was scaled to get it. What a source does not say is not compared. Of several such results the one with the fewest
differences in `setup` is taken, then the best one; the differences are said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache

from msgspec import to_builtins

from iosweep.analysis import aggregate, caveats, formats, titles
from iosweep.analysis.aggregate import Result, Statistics, of_points
from iosweep.config import published
from iosweep.config.published import Condition, PublishedFigure, Reference
from iosweep.config.selectors import Selector
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.results import statistics
from iosweep.results.precision import COUNTED
from iosweep.results.statistics import Interval
from iosweep.text import human_count, some
from iosweep.tools import parameters

#: Conditions that are named where they are not met.
_NAMED = 3


@dataclass(frozen=True)
class Ratio:
    """A figure over a published one. low, high: of its 95 % interval; None where there is none. n: repetitions."""

    value: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Beside:
    """A published figure and ours.

    result: what was measured in its way; None where nothing compares. figure: ours, in the unit of the figure's column,
    or as a ratio where the published one is. verdict: of the result. differences: how it was measured otherwise, in
    words. reason: why the two do not compare; "" where they do.
    """

    published: PublishedFigure
    result: Result | None = None
    figure: Statistics | None = None
    ratio: Ratio | None = None
    differences: tuple[str, ...] = ()
    of: int = 1  # results that compare as well, of which this one is the best
    reason: str = ""

    @property
    def value(self) -> float:
        """Our figure: mean of the repetitions, for a percentile their median."""
        found = self.figure
        assert found is not None
        return found.median if aggregate.is_percentile(self.published.about.column) else found.mean


def beside(reference: Reference, results: Sequence[Result], sweeps: Iterable[SweepFacts]) -> list[Beside]:
    """The figures of a reference, in its order, each with ours."""
    known = of_points(results)
    scaled = _scaled(sweeps)
    return [_beside(figure, known, scaled) for figure in reference.figures]


def lookup(
    references: Sequence[Reference], sweeps: Iterable[SweepFacts], results: Sequence[Result]
) -> Callable[[str, Selector, Sequence[Result]], tuple[float, list[Result]] | str]:
    """What a criterion such as `>= 90 % of weka.single_client` is compared with: (name, selector, results) -> the best
    published figure (of all systems, where the name has none) that some of these results compare with, in the unit of
    its column, and these results; or why there is none. `results`: all of the campaign."""
    scaled = _scaled(sweeps)
    completed = {(result.point, result.phase): result for result in of_points(results)}

    def find(name: str, selector: Selector, own: Sequence[Result]) -> tuple[float, list[Result]] | str:
        from iosweep.config import references as files  # late: few criteria name one

        if (meant := files.by_name(name, references)) is None:
            return f"no reference `{name}` is known"
        if not (figures := published.figures_of(*meant, selector)):
            return f"`{name}` has no {selector.text}"
        known = [completed[result.point, result.phase] for result in own]
        alike = [
            (figure.value, [r for r, full in zip(own, known, strict=True) if _compares(figure, full, scaled)])
            for figure in figures
        ]
        there = [one for one in alike if one[1]]
        if not there:
            return f"not comparable with {name}: {_beside(figures[0], known, scaled).reason}"
        best = min if selector.about.lowest else max
        return best(there, key=lambda one: one[0])

    return find


def _compares(figure: PublishedFigure, result: Result, scaled: Mapping[str, str]) -> bool:
    return result.tool == figure.tool and result.point not in scaled and not _unmet(figure.where, result)


def place(figure: PublishedFigure) -> tuple[str, ...]:
    """Where a figure was measured: `fio`, `8 nodes`, `32 threads per node`, `1 MiB`."""
    words = (_named(name, figure.where[name]) for name in _columns() if name in figure.where)
    return (titles.tool(figure.tool), *filter(None, words))


def _scaled(sweeps: Iterable[SweepFacts]) -> dict[str, str]:
    """Point -> the suite that was scaled to get it, of points that no other sweep has."""
    scaled: dict[str, str] = {}
    whole: set[str] = set()
    for sweep in sweeps:
        if sweep.scaled:
            scaled |= dict.fromkeys(sweep.points, sweep.suite or sweep.name)
        else:
            whole |= set(sweep.points)
    return {point: suite for point, suite in scaled.items() if point not in whole}


def _beside(figure: PublishedFigure, results: Sequence[Result], scaled: Mapping[str, str]) -> Beside:
    of_phase = [result for result in results if result.phase == figure.phase]
    own = [result for result in of_phase if result.tool == figure.tool]
    if not own:
        if of_phase:
            tools = formats.listing(sorted({titles.tool(result.tool) for result in of_phase}))
            return Beside(figure, reason=f"measured with {tools}, not {titles.tool(figure.tool)}")
        words = f"{titles.phase(figure.phase).lower()} was not measured with {titles.tool(figure.tool)}"
        return Beside(figure, reason=words)
    nearest = min(own, key=lambda result: (len(_unmet(figure.where, result)), result.point in scaled))
    if unmet := _unmet(figure.where, nearest):
        suite = scaled.get(nearest.point)
        start = f"the suite {suite} was scaled: " if suite else ""
        return Beside(figure, reason=start + some(unmet, _NAMED, separator="; "))
    alike = [result for result in own if not _unmet(figure.where, result)]
    whole = [result for result in alike if result.point not in scaled]
    if not whole:
        return Beside(figure, reason=f"the suite {scaled[alike[0].point]} was scaled to fit")
    if figure.relative_to:
        return _relative(figure, whole, [result for result in own if result.point not in scaled])
    measured = [(result, found) for result in whole if (found := _statistics(result, figure.about.column))]
    if not measured:
        return Beside(figure, reason=_unmeasured(figure, whole))
    return _best(figure, measured)


def _best(figure: PublishedFigure, measured: Sequence[tuple[Result, Statistics]]) -> Beside:
    """Ours of several that compare: valid, with the fewest differences, the best."""
    sign = 1 if figure.about.lowest else -1

    def order(one: tuple[Result, Statistics]) -> tuple[bool, int, float]:
        return one[0].verdict != "valid", len(_unmet(figure.setup, one[0])), sign * one[1].mean

    result, found = min(measured, key=order)
    fewest = len(_unmet(figure.setup, result))
    made = Beside(
        figure,
        result,
        found,
        differences=tuple(_unmet(figure.setup, result)),
        of=sum(len(_unmet(figure.setup, one)) == fewest for one, _ in measured),
    )
    return replace(made, ratio=_ratio(made.value, found.interval, figure.value, found.n))


def _relative(figure: PublishedFigure, own: Sequence[Result], others: Sequence[Result]) -> Beside:
    """Our ratio of two results that differ in one condition, beside the published ratio."""
    of = figure.about.column
    where = figure.where | figure.relative_to
    pairs = [
        (result, other)
        for result in own
        for other in others
        if not _unmet(where, other) and _same(result, other, figure.relative_to)
    ]
    measured = [(a, b) for a, b in pairs if _statistics(a, of) and _statistics(b, of)]
    if not measured:
        to = ", ".join(_named(name, value) for name, value in figure.relative_to.items())
        reason = f"nothing was measured at {to} to compare with" if not pairs else _unmeasured(figure, pairs[0])
        return Beside(figure, reason=reason)
    a, b = measured[0]
    values, to_values = a.values(of), b.values(of)
    ours = aggregate.statistics([x / aggregate.statistics(to_values).mean for x in values])
    interval = statistics.ratio(values, to_values)
    ratio = _ratio(ours.mean, interval, figure.value, min(len(values), len(to_values)))
    verdict = aggregate.worst([a.verdict, b.verdict])
    differences = tuple(_unmet(figure.setup, a))
    return Beside(figure, replace(a, verdict=verdict), ours, ratio, differences, len(measured))


def _ratio(value: float, interval: Interval | None, to: float, n: int) -> Ratio:
    low, high = (interval.low / to, interval.high / to) if interval else (None, None)
    return Ratio(value / to, low, high, n)


def _same(result: Result, other: Result, but: Mapping[str, Condition]) -> bool:
    """Whether two points differ in nothing but these conditions, as far as both are known."""
    names = [column for column, option in parameters().items() if option.name not in but]
    pairs = ((result.parameters[name], other.parameters[name]) for name in names)
    return all(a == b for a, b in pairs if a is not None and b is not None)


def _statistics(result: Result, column: str) -> Statistics | None:
    """A figure over the repetitions that count; also of columns that no table of results has."""
    if found := result.statistics.get(column):
        return found
    if column in aggregate.FIGURES or not (values := result.values(column)):
        return None
    return aggregate.statistics(values, statistics.interval(values))


def _unmeasured(figure: PublishedFigure, results: Sequence[Result]) -> str:
    """Why results that would compare have no such figure."""
    if any(row.verdict in COUNTED for result in results for row in result.rows):
        return f"{titles.tool(figure.tool)} gave no {figure.about.title} here"
    verdict = results[0].verdict
    why = caveats.reasons([result for result in results if result.verdict == verdict], most=1)
    return f"{'not measured' if verdict == 'missing' else verdict}: {why}"


def _unmet(conditions: Mapping[str, Condition], result: Result) -> list[str]:
    """Conditions that a result does not have, in words: `queue depth 1, there 32`."""
    found = []
    for name, wanted in conditions.items():
        own, there = result.parameters.get(column(name)), titles.parameter(column(name), wanted)
        if own is None:
            found.append(f"{parameters()[column(name)].shown} is not known, there {there}")
        elif own != wanted:
            found.append(f"{_named(name, own)}, there {there}")
    return found


def _named(name: str, value: Condition) -> str:
    return titles.named(column(name), value)


def column(name: str) -> str:
    """The column of an axis or option."""
    return _columns()[name]


@cache
def _columns() -> dict[str, str]:
    """Name of an axis or option -> its column."""
    return {option.name: column for column, option in parameters().items()}


def summary(found: Iterable[Beside]) -> str:
    """`7 of 16 figures compare`"""
    every = list(found)
    return f"{sum(not one.reason for one in every):,} of {human_count(len(every), 'figure')} compare"


def document(reference: Reference) -> dict[str, object]:
    """A reference for JSON: values in SI base units beside the source's own text."""
    figures = [to_builtins(figure) | {"column": figure.about.column} for figure in reference.figures]
    return {**to_builtins(reference), "figures": figures}


def compared(reference: Reference, found: Iterable[Beside]) -> dict[str, object]:
    """A reference for JSON, with ours beside each figure, or why the two do not compare."""
    figures = [
        {
            "phase": one.published.phase,
            "figure": one.published.figure,
            "column": one.published.about.column,
            "system": one.published.system,
            "where": one.published.where,
            "relative_to": one.published.relative_to,
            "published": one.published.value,
            "printed": one.published.printed,
            "point": one.result.point if one.result else None,
            "verdict": one.result.verdict if one.result else None,
            "value": one.value if one.figure else None,
            "ratio": asdict(one.ratio) if one.ratio else None,
            "differences": list(one.differences),
            "not_comparable": one.reason or None,
        }
        for one in found
    ]
    return document(reference) | {"figures": figures}
