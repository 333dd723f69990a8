"""The results of a sweep in a sentence for each phase, and a sentence on its latency. Pure.

A sentence says where the peak is, which values reach most of it, which points cannot be distinguished, and how the rate
scales. A clause on an axis compares points that differ from the best point in that axis only. Two figures differ if the
95 % interval of their ratio excludes 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis import caveats, formats, headline, slices
from iosweep.analysis.caveats import NOTHING, Shared
from iosweep.analysis.headline import Best, Rivals
from iosweep.analysis.slices import Line, Place, Scaling
from iosweep.analysis.summary import Metric, PointSummary, merge_point_parameters, phase_order
from iosweep.plan import headline_groups
from iosweep.plan.headline_groups import LATENCY_PHASES
from iosweep.plan.model import SweepFacts
from iosweep.tables.reader import Value
from iosweep.text import human_count
from iosweep.tools import parameters, phases

#: Most axes in a sentence.
_AXES = 3
#: I/Os queue if their latency is certainly higher than the lowest latency by more than this share.
QUEUED = 0.10


@dataclass(frozen=True)
class Sentence:
    """opening: figure, place and doubt; more: the other clauses; verdict: of the figure."""

    opening: str
    more: str
    verdict: str

    @property
    def text(self) -> str:
        return "; ".join(filter(None, (self.opening, self.more))) + "."


@dataclass(frozen=True)
class SweepText:
    """The sentences of a sweep."""

    sweep: str
    sentences: tuple[Sentence, ...]


def describe_sweeps(
    results: Sequence[PointSummary], sweeps: Sequence[SweepFacts], skip: str = "", shared: Shared = NOTHING
) -> list[SweepText]:
    """Sentences for each sweep. skip: a suite that the report describes elsewhere; shared: reasons that the report
    states once."""
    points: dict[str, list[PointSummary]] = {}
    for result in merge_point_parameters(results):
        points.setdefault(result.point, []).append(result)
    found = []
    for sweep in sweeps:
        own = [result for point in sweep.points for result in points.get(point, [])]
        if own and not (skip and sweep.suite == skip):
            found.append(SweepText(sweep.name, tuple(_describe(sweep, own, shared))))
    return found


def _describe(sweep: SweepFacts, results: Sequence[PointSummary], shared: Shared) -> Iterator[Sentence]:
    conditions = formats.conditions(results)
    groups: dict[tuple[str, headline_groups.Conditions, Value | None], list[PointSummary]] = {}
    for result in sorted(results, key=lambda result: phase_order(result.phase)):
        size = result.parameters["file_size_bytes"] if result.kind == "metadata" else None
        key = result.phase, headline_groups.of_phase(conditions[result.point], result.phase), size
        groups.setdefault(key, []).append(result)
    for (phase, condition, size), own in groups.items():
        alike = [key for key in groups if key[0] == phase]
        words = [formats.describe(condition, own[0].kind, [phase])] if len({key[1] for key in alike}) > 1 else []
        if len({key[2] for key in alike}) > 1:  # ingested outputs may not tell the size
            words.append("file size not known" if size is None else formats.named("file_size_bytes", size))
        subject = _subject(phase) + (f" ({', '.join(words)})" if words else "")
        yield _rate(subject, own, sweep, shared)
        if phase in LATENCY_PHASES and (latency := _latency(own, shared)):
            yield latency


def _subject(phase: str) -> str:
    """`Sequential reads`."""
    known = phases().get(phase)
    text = (known.plural or known.help) if known else phase
    return text[0].upper() + text[1:]


# rates


def _rate(subject: str, results: Sequence[PointSummary], sweep: SweepFacts, shared: Shared) -> Sentence:
    measured = [result for result in results if result.headline]
    if not measured:
        return Sentence(f"{subject} have no figure: {caveats.join_reasons(results, most=1)}", "", results[0].state)
    rivals = Rivals(measured, measured[0].metric)
    best = rivals.best()
    assert best is not None  # each measured result is a candidate
    lines = slices.find_lines(best.result, results, rivals)
    opening = _opening(subject, _figure(best), best.result, results, lines) + _doubt(best, shared)
    clauses: list[str] = []
    for line in lines[:_AXES]:
        clauses += _of_axis(line, results, sweep, rivals, leads=line is lines[0])
    if lines and not any(line.known for line in lines):
        clauses.append("repetitions are too few to tell points apart")
    if bare := [result for result in results if not result.headline and result.state != "unneeded"]:
        have = "has" if len(bare) == 1 else "have"
        clauses.append(f"{len(bare):,} of {human_count(len(results), 'point')} {have} no figure")
    return Sentence(opening, "; ".join(clauses), best.verdict)


def _opening(
    subject: str, figure: str, best: PointSummary, results: Sequence[PointSummary], lines: Sequence[Line]
) -> str:
    """`Sequential reads peak at 16 threads per node with 1 MiB: 1.29 GiB/s ± 2.0 %`"""
    if not lines:
        place = formats.brief(best)
        if len(results) == 1:
            return f"{subject} reach {figure} ({place})"
        return f"{subject} are highest{f' with {place}' if place else ''}: {figure}"
    lead, *others = lines
    varying = dict.fromkeys([*(line.column for line in others), *_varying(results)])
    rest = [formats.named(c, v) for c in varying if c != lead.column and (v := best.parameters[c]) is not None]
    value = formats.named(lead.column, lead.best.value)
    if not lead.ordered:
        return f"{subject} are highest with {formats.listing([value, *rest])}: {figure}"
    place = f"at {value}" + (f" with {formats.listing(rest)}" if rest else "")
    first, last = lead.run
    if lead.known and first != last:
        return f"{subject} reach {figure} {place}"
    if lead.known and lead.at == len(lead.places) - 1:
        return f"{subject} still rise {place}: {figure}"
    return f"{subject} {'peak' if lead.known and lead.at else 'are highest'} {place}: {figure}"


def _varying(results: Sequence[PointSummary]) -> Iterator[str]:
    for column, option in parameters().items():
        values = {result.parameters[column] for result in results if result.headline} - {None}
        if option.role != "condition" and len(values) > 1:
            yield column


def _figure(best: Best) -> str:
    """`1.29 GiB/s ± 2.0 %`"""
    units = formats.units_of(best.column, best.result.kind)
    return f"{formats.quantity(best.metric.mean, units)}{_sureness(best.metric, units)}"


def _sureness(metric: Metric, units: Sequence[formats.Unit]) -> str:
    if metric.n == 1:
        return f" ({formats.single(metric, units)})"
    if metric.repeatable and metric.ci95_share is not None:
        return f" ± {100 * metric.ci95_share:.1f} %"
    doubt = "" if metric.repeatable else ", not repeatable"
    return f" ({formats.span_of(metric, units)} in {metric.n} repetitions{doubt})"


def _doubt(best: Best, shared: Shared) -> str:
    texts = list(filter(None, (best.in_doubt, best.in_doubt and best.reason(shared))))
    return f" ({': '.join(texts)})" if texts else ""


def _of_axis(
    line: Line, results: Sequence[PointSummary], sweep: SweepFacts, rivals: Rivals, leads: bool
) -> Iterator[str]:
    """Clauses on the effect of one axis."""
    if sweep.ramp and parameters()[line.column].name == sweep.ramp:
        own = [result for _, result in slices.find_along(line.column, line.best.result, results)]
        if knee := slices.find_knee(line.column, own):
            yield knee.where
        return
    grown = None
    if line.column in slices.WORKERS:
        counts = [(place.value, place.result) for place in line.places if isinstance(place.value, int)]
        grown = slices.measure_scaling(line.column, counts, rivals)
    rises = leads and line.run == (len(line.places) - 1,) * 2
    before = line.reaching
    if grown and (line.column == "nodes" or (rises and before and before.share < slices.MOST)):
        yield _scaling(grown, leads)
    elif (
        line.column != "transfer_size_bytes" or rivals.column != "ops_per_s"
    ):  # larger transfers always have lower IOPS
        yield from _shares(line)
    first, last = line.run
    if line.known and line.ordered and first != last:
        low, high = line.places[first].value, line.places[last].value
        if first > 0 and last == len(line.places) - 1:
            yield f"from {formats.named(line.column, low)} on no difference can be shown"
        else:
            yield f"no difference can be shown between {_span(line.column, low, high, ' and ')}"


def _scaling(found: Scaling, leads: bool) -> str:
    """`3.8x from 1 to 4 nodes, 95 % (91 to 99 %) of linear`; without the noun if the opening names it."""
    last = found.steps[-1]
    nodes = "" if found.same_nodes else ", on different nodes"
    short = leads and found.column != "nodes"
    counts = f"{found.smallest} to {last.count}" if short else _span(found.column, found.smallest, last.count, " to ")
    share = formats.percent(last.efficiency, last.range)
    return f"{formats.times(last.speedup)} from {counts}, {share} of linear{nodes}"


def _shares(line: Line) -> Iterator[str]:
    """`8 threads per node reach 92 % (89 to 95 %)`, for values on both sides of the best value."""
    if not line.ordered:
        yield from (_share(line, place) for place in line.others if not place.alike)
        if alike := [formats.named(line.column, place.value) for place in line.others if place.alike]:
            best = formats.named(line.column, line.best.value)
            yield f"no difference between {formats.listing([best, *alike])} can be shown"
        return
    if before := line.reaching:
        yield _share(line, before)
    last = line.places[-1]
    if last.share < slices.MOST and line.run[1] < len(line.places) - 1 and last is not before:
        yield _share(line, last)


def _share(line: Line, place: Place) -> str:
    reach = "reach" if parameters()[line.column].singular and place.value != 1 else "reaches"
    ends = (place.interval.low, place.interval.high) if place.interval else None
    return f"{formats.named(line.column, place.value)} {reach} {formats.percent(place.share, ends)}"


def _span(column: str, low: Value, high: Value, between: str) -> str:
    """`1 to 4 nodes`, `queue depth 1 to 8`, `4 KiB and 1 MiB`."""
    option, (a, b) = parameters()[column], (formats.parameter(column, value) for value in (low, high))
    before = "" if option.singular or option.labels is not None else f"{option.shown} "
    return f"{before}{a}{between}{b}{f' {option.shown}' if option.singular else ''}"


# latencies


def _latency(results: Sequence[PointSummary], shared: Shared) -> Sentence | None:
    """`Random read latency is lowest at queue depth 1: 84.0 µs ± 1.2 %, p99 140 µs; I/Os queue from ...`"""
    best = headline.find_lowest_latency(results)
    if best is None:
        return None
    varying = list(_varying(results))
    place = [formats.named(c, v) for c in varying if (v := best.result.parameters[c]) is not None]
    where = f" lowest at {formats.listing(place)}:" if place else ""
    tail = best.metrics.get("latency_p99_s")
    p99 = f", p99 {formats.quantity(tail.median, formats.LATENCY)}" if tail else ""
    text = f"{formats.phase(best.result.phase)} latency is{where} {_figure(best)}{p99}{_doubt(best, shared)}"
    lines = slices.find_lines(best.result, results, Rivals(results, best.column))
    load = next((c for c in ("queue_depth", "threads_per_node") if c in varying), None)
    return Sentence(text, next((_queueing(line) for line in lines if line.column == load), ""), best.verdict)


def _queueing(line: Line) -> str:
    """`I/Os queue from queue depth 8 on: 1.59x (1.54 to 1.65)`; "" with too few repetitions."""
    above = line.places[line.at + 1 :]
    if not above or not line.known:
        return ""
    for place in above:
        if place.interval and place.interval.low > 1 + QUEUED:
            share, low, high = (f"{own:.2f}" for own in (place.share, place.interval.low, place.interval.high))
            return f"I/Os queue from {formats.named(line.column, place.value)} on: {share}x ({low} to {high})"
    return f"no queueing can be shown up to {formats.named(line.column, above[-1].value)}"
