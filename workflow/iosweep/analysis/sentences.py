"""What a sweep has shown, in one sentence per phase (and one on its latency). Pure.

Where the peak is, what reaches most of it, what cannot be told apart, how it scales. A statement on an axis is about
the points that differ from the best one in that axis alone. Two figures differ where the 95 % interval of their ratio
excludes 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis import axes, findings, formats, headline
from iosweep.analysis.axes import Line, Place, Scaling
from iosweep.analysis.data import Value
from iosweep.analysis.findings import Shared
from iosweep.analysis.headline import Best, Failed, Rivals
from iosweep.analysis.summary import Metric, PointSummary, of_points, phase_order
from iosweep.judge.statistics import Interval
from iosweep.plan import headline_groups
from iosweep.plan.headline_groups import LATENCY_PHASES
from iosweep.plan.model import SweepFacts
from iosweep.text import human_count
from iosweep.tools import parameters, phases

#: Axes of which something is said.
_AXES = 3
#: I/Os queue where their latency is beyond doubt more than this share above the lowest one.
QUEUED = 0.10


@dataclass(frozen=True)
class Sentence:
    """opening: the figure, where it was measured, why it is in doubt; more: all other clauses, or ""; verdict: of the
    figure."""

    opening: str
    more: str
    verdict: str

    @property
    def text(self) -> str:
        return "; ".join(filter(None, (self.opening, self.more))) + "."


@dataclass(frozen=True)
class Told:
    """The sentences of a sweep."""

    sweep: str
    sentences: tuple[Sentence, ...]


def of(
    results: Sequence[PointSummary],
    sweeps: Sequence[SweepFacts],
    fails: Failed,
    skip: str = "",
    shared: Shared = frozenset(),
) -> list[Told]:
    """What each sweep has shown, in their order. skip: a suite that has a sentence of its own; shared: reasons that are
    named elsewhere, once for all."""
    points: dict[str, list[PointSummary]] = {}
    for result in of_points(results):
        points.setdefault(result.point, []).append(result)
    found = []
    for sweep in sweeps:
        own = [result for point in sweep.points for result in points.get(point, [])]
        told = tuple(_of_sweep(sweep, own, fails, shared))
        if told and (not skip or sweep.suite != skip):
            found.append(Told(sweep.name, told))
    return found


def _of_sweep(sweep: SweepFacts, results: Sequence[PointSummary], fails: Failed, shared: Shared) -> Iterator[Sentence]:
    conditions = formats.conditions(results)
    groups: dict[tuple[str, headline_groups.Conditions, Value | None], list[PointSummary]] = {}
    for result in sorted(results, key=lambda result: phase_order(result.phase)):
        size = result.parameters["file_size_bytes"] if result.kind == "metadata" else None
        key = result.phase, headline_groups.of_phase(conditions[result.point], result.phase), size
        groups.setdefault(key, []).append(result)
    for (phase, condition, size), own in groups.items():
        several = [key for key in groups if key[0] == phase]
        words = [formats.describe(condition, own[0].kind, [phase])] if len({key[1] for key in several}) > 1 else []
        if len({key[2] for key in several}) > 1:  # outputs of others may not tell it
            words.append("file size not known" if size is None else formats.named("file_size_bytes", size))
        subject = _subject(phase) + (f" ({', '.join(words)})" if words else "")
        yield _rate(subject, own, sweep, fails, shared)
        if phase in LATENCY_PHASES and (told := _latency(own, fails, shared)):
            yield told


def _subject(phase: str) -> str:
    """`Sequential reads`."""
    known = phases().get(phase)
    text = (known.plural or known.help) if known else phase
    return text[0].upper() + text[1:]


def _rate(subject: str, results: Sequence[PointSummary], sweep: SweepFacts, fails: Failed, shared: Shared) -> Sentence:
    measured = [result for result in results if result.headline]
    if not measured:
        state = results[0].state
        return Sentence(f"{subject} have no figure: {findings.reasons(results, most=1)}", "", state)
    compared = headline.rivals(measured, measured[0].metric, fails)
    found = compared.choose()
    assert found is not None  # each that was measured is a candidate
    through = axes.lines_through(found.result, results, compared)
    figure = _figure(found, formats.units_of(found.column, found.result.kind))
    opening = _opening(subject, figure, found.result, results, through) + _doubt(found, fails, shared)
    clauses: list[str] = []
    for line in through[:_AXES]:
        clauses += _of_axis(line, results, sweep, compared, leads=line is through[0])
    if through and not any(line.known for line in through):
        clauses.append("repetitions are too few to tell points apart")
    clauses += _gaps(results, found)
    return Sentence(opening, "; ".join(clauses), found.verdict)


def _opening(
    subject: str, figure: str, best: PointSummary, results: Sequence[PointSummary], through: Sequence[Line]
) -> str:
    """`Sequential reads peak at 16 threads per node with 1 MiB: 1.29 GiB/s ± 2.0 %`"""
    if not through:
        if len(results) == 1:
            return f"{subject} reach {figure} ({formats.brief(best, one=False)})"
        place = formats.brief(best)
        return f"{subject} are highest{f' with {place}' if place else ''}: {figure}"
    lead, *others = through
    varying = [line.column for line in others]
    varying += [c for c in _unlike(results) if c != lead.column and c not in varying]
    rest = [formats.named(c, best.parameters[c]) for c in varying if best.parameters[c] is not None]
    if not lead.ordered:
        place, more = f"with {formats.listing([formats.named(lead.column, lead.best.value), *rest])}", ""
    else:
        place = f"at {formats.named(lead.column, lead.best.value)}"
        more = f" with {formats.listing(rest)}" if rest else ""
    first, last = lead.run
    if not (lead.ordered and lead.known):
        return f"{subject} are highest {place}{more}: {figure}"
    if first != last:
        return f"{subject} reach {figure} {place}{more}"
    if lead.at == len(lead.places) - 1:
        return f"{subject} still rise {place}{more}: {figure}"
    return f"{subject} {'peak' if lead.at else 'are highest'} {place}{more}: {figure}"


def _unlike(results: Sequence[PointSummary]) -> Iterator[str]:
    for column, option in parameters().items():
        values = {result.parameters[column] for result in results if result.headline} - {None}
        if option.role != "condition" and len(values) > 1:
            yield column


def _figure(found: Best, units: Sequence[formats.Unit]) -> str:
    """`1.29 GiB/s ± 2.0 %`"""
    return f"{formats.quantity(found.figure.mean, units)}{_sureness(found.figure, units)}"


def _doubt(found: Best, fails: Failed, shared: Shared) -> str:
    if not headline.doubted(found, fails):
        return ""
    why = headline.reason(found, fails, shared)
    return f" ({found.in_doubt}: {why})" if why else f" ({found.in_doubt})"


def _sureness(statistics: Metric, units: Sequence[formats.Unit]) -> str:
    if statistics.n == 1:
        return f" ({formats.single(statistics, units)})"
    if statistics.repeatable and statistics.ci95_share is not None:
        return f" ± {100 * statistics.ci95_share:.1f} %"
    doubt = "" if statistics.repeatable else ", not repeatable"
    return f" ({formats.span_of(statistics, units)} in {statistics.n} repetitions{doubt})"


def _of_axis(
    line: Line, results: Sequence[PointSummary], sweep: SweepFacts, compared: Rivals, leads: bool
) -> Iterator[str]:
    """What one axis does, in clauses."""
    if sweep.ramp and parameters()[line.column].name == sweep.ramp:
        own = [result for _, result in axes.along(line.column, line.best.result, results)]
        yield from (bend.where for bend in axes.bends(own, [sweep]))
        return
    rises = leads and line.run == (len(line.places) - 1,) * 2
    grown = axes.scale(line.column, _counts(line), compared) if line.column in axes.WORKERS else None
    before = line.reaching
    if grown and (line.column == "nodes" or (rises and before and before.share < axes.MOST)):
        yield _scaling(grown, leads)
    elif line.column != "transfer_size_bytes" or compared.column != "ops_per_s":  # larger ones are fewer
        yield from _shares(line)
    if line.known and line.ordered:
        yield from _alike(line)


def _counts(line: Line) -> list[tuple[int, PointSummary]]:
    return [(place.value, place.result) for place in line.places if isinstance(place.value, int)]


def _scaling(found: Scaling, leads: bool) -> str:
    """`3.8x from 1 to 4 nodes, 95 % (91 to 99 %) of linear`; of threads that the sentence begins with the numbers."""
    last = found.steps[-1]
    nodes = "" if found.same_nodes else ", on different nodes"
    short = leads and found.column != "nodes"
    counts = f"{found.smallest} to {last.count}" if short else _span(found.column, found.smallest, last.count, " to ")
    return (
        f"{formats.times(last.speedup)} from {counts}, {formats.percent(last.efficiency, last.range)} of linear{nodes}"
    )


def _shares(line: Line) -> Iterator[str]:
    """`8 threads per node reach 92 % (89 to 95 %)`, of values on both sides of the best one."""
    if not line.ordered:
        yield from (_share(line, place) for place in line.others if not place.alike)
        alike = [formats.named(line.column, place.value) for place in line.others if place.alike]
        if alike:
            best = formats.named(line.column, line.best.value)
            yield f"no difference between {formats.listing([best, *alike])} can be shown"
        return
    if before := line.reaching:
        yield _share(line, before)
    last = line.places[-1]
    if last.share < axes.MOST and line.run[1] < len(line.places) - 1 and last is not before:
        yield _share(line, last)


def _share(line: Line, place: Place) -> str:
    reach = "reach" if parameters()[line.column].singular and place.value != 1 else "reaches"
    return f"{formats.named(line.column, place.value)} {reach} {formats.percent(place.share, _ends(place.interval))}"


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return (interval.low, interval.high) if interval else None


def _alike(line: Line) -> Iterator[str]:
    """`from 8 threads per node on no difference can be shown`"""
    first, last = line.run
    if first == last:
        return
    low, high = line.places[first].value, line.places[last].value
    if first > 0 and last == len(line.places) - 1:
        yield f"from {formats.named(line.column, low)} on no difference can be shown"
    else:
        yield f"no difference can be shown between {_span(line.column, low, high, ' and ')}"


def _span(column: str, low: Value, high: Value, between: str) -> str:
    """`1 to 4 nodes`, `queue depth 1 to 8`, `4 KiB and 1 MiB`."""
    option, (a, b) = parameters()[column], (formats.parameter(column, value) for value in (low, high))
    before = "" if option.singular or option.labels is not None else f"{option.shown} "
    return f"{before}{a}{between}{b}{f' {option.shown}' if option.singular else ''}"


def _gaps(results: Sequence[PointSummary], found: Best) -> Iterator[str]:
    """What is not in the sentence because it has no figure."""
    bare = [result for result in results if not result.headline and result.state != "unneeded"]
    if bare:
        count = human_count(len(results), "point")
        have = "has" if len(bare) == 1 else "have"
        yield f"{len(bare):,} of {count} {have} no figure"
    if found.better:
        yield found.passed_over


def _latency(results: Sequence[PointSummary], fails: Failed, shared: Shared) -> Sentence | None:
    """`Random read latency is lowest at queue depth 1: 84.0 µs ± 1.2 %, p99 140 µs; I/Os queue from ...`"""
    found = headline.lowest_latency(results, fails)
    if found is None:
        return None
    best, tail = found.result, found.figures.get("latency_p99_s")
    p99 = f", p99 {formats.quantity(tail.median, formats.LATENCY)}" if tail else ""
    compared = headline.rivals(results, found.column, fails)
    load = [c for c in ("queue_depth", "threads_per_node") if c in set(_unlike(results))]
    place = [formats.named(c, best.parameters[c]) for c in _unlike(results) if best.parameters[c] is not None]
    where = f" at {formats.listing(place)}" if place else ""
    text = (
        f"{formats.phase(best.phase)} latency is lowest{where}" if place else f"{formats.phase(best.phase)} latency is"
    )
    text += f"{':' if place else ''} {_figure(found, formats.LATENCY)}{p99}{_doubt(found, fails, shared)}"
    queued = [told for c in load[:1] if (told := _queueing(axes.lines_through(best, results, compared), c))]
    return Sentence(text, "; ".join(queued), found.verdict)


def _queueing(axes: Sequence[Line], column: str) -> str | None:
    line = next((line for line in axes if line.column == column), None)
    above = line.places[line.at + 1 :] if line else ()
    if line is None or not above or not line.known:
        return None
    limit = 1 + QUEUED
    for place in above:
        if place.interval and place.interval.low > limit:
            share, low, high = (f"{own:.2f}" for own in (place.share, place.interval.low, place.interval.high))
            return f"I/Os queue from {formats.named(column, place.value)} on: {share}x ({low} to {high})"
    last = formats.named(column, above[-1].value)
    return f"no queueing can be shown up to {last}"
