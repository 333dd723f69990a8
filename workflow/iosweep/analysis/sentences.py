"""The results of a sweep in a sentence for each phase, and a sentence about its latency. Pure.

A sentence says where the peak is, which values reach most of it, which points cannot be distinguished, and how the rate
scales. A clause about an axis compares points that differ from the best point in that axis only. Two figures differ if
the 95 % interval of their ratio excludes 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis import caveats, formats, headline, slices
from iosweep.analysis.caveats import NOTHING, Shared
from iosweep.analysis.headline import Best, Rivals
from iosweep.analysis.slices import Line, Place
from iosweep.analysis.summary import PointSummary, distinct
from iosweep.judge.best import LEAST_GAIN
from iosweep.plan.headline_groups import LATENCY_PHASES
from iosweep.plan.model import SweepFacts
from iosweep.tables.reader import Value
from iosweep.text import human_count
from iosweep.tools import parameters, phases

#: Maximum number of axes in a sentence.
_AXES = 3


@dataclass(frozen=True)
class Sentence:
    """opening: the figure, its point and its doubt; more: the other clauses; verdict: that of the figure."""

    opening: str
    more: str
    verdict: str

    @property
    def text(self) -> str:
        return "; ".join(filter(None, (self.opening, self.more))) + "."


def describe_sweeps(
    results: Sequence[PointSummary], sweeps: Sequence[SweepFacts], skip: str = "", shared: Shared = NOTHING
) -> dict[str, list[Sentence]]:
    """Sweep -> its sentences. skip: a suite that the report describes elsewhere; shared: reasons that the report
    states once."""
    points: dict[str, list[PointSummary]] = {}
    for result in results:
        points.setdefault(result.point, []).append(result)
    sentences = {}
    for sweep in sweeps:
        members = [result for point in sweep.points for result in points.get(point, [])]
        if members and not (skip and sweep.suite == skip):
            sentences[sweep.name] = list(_describe(members, shared))
    return sentences


def _describe(results: Sequence[PointSummary], shared: Shared) -> Iterator[Sentence]:
    groups = headline.group(results)
    for (condition, kind, size, phase, target, _), members in groups.items():
        rivals = [group for group in groups if group.phase == phase]
        words = [formats.describe(condition, kind, [phase])] if len({group.conditions for group in rivals}) > 1 else []
        if len({group.file_size for group in rivals}) > 1:  # ingested outputs may lack the size
            words.append("file size not known" if size is None else formats.named("file_size_bytes", size))
        if len({group.target for group in rivals}) > 1:
            words.append(f"target {target}")
        known = phases().get(phase)
        text = (known.plural or known.help) if known else phase
        subject = text[0].upper() + text[1:] + (f" ({', '.join(words)})" if words else "")
        yield _describe_rate(subject, members, shared)
        if phase in LATENCY_PHASES and (latency := _describe_latency(members, ", ".join(words), shared)):
            yield latency


# rates


def _describe_rate(subject: str, results: Sequence[PointSummary], shared: Shared) -> Sentence:
    measured = [result for result in results if result.headline]
    if not measured:
        why = caveats.tell((result.reasons for result in results), most=1)
        return Sentence(f"{subject} have no figure: {why}", "", results[0].state)
    rivals = Rivals(measured, measured[0].metric)
    best = rivals.best()
    assert best is not None  # each measured result is a candidate
    lines = slices.find_lines(best.result, results, rivals)
    opening = _write_opening(subject, _format_figure(best), best.result, results, lines) + _format_doubt(best, shared)
    clauses: list[str] = []
    for line in lines[:_AXES]:
        clauses += _describe_axis(line, rivals)
    if lines and not any(line.known for line in lines):
        clauses.append("repetitions are too few to tell points apart")
    skipped = sum(result.state == "unneeded" for result in results)
    for count, one, many in (
        (len(results) - len(measured) - skipped, "has no figure", "have no figure"),
        (skipped, "was skipped by a ramp", "were skipped by a ramp"),  # a clause above may span such values
    ):
        if count:
            clauses.append(f"{count:,} of {human_count(len(results), 'point')} {one if count == 1 else many}")
    return Sentence(opening, "; ".join(clauses), best.verdict)


def _write_opening(
    subject: str, figure: str, best: PointSummary, results: Sequence[PointSummary], lines: Sequence[Line]
) -> str:
    """`Sequential reads peak at 16 threads per node with 1 MiB: 1.29 GiB/s ± 2.0 %`"""
    if not lines:
        place = formats.brief(best)
        if len(results) == 1:
            return f"{subject} reach {figure} ({place})"
        return f"{subject} are highest{f' with {place}' if place else ''}: {figure}"
    lead, *others = lines
    varying = dict.fromkeys([*(line.column for line in others), *_find_varying(results)])
    rest = [formats.named(c, v) for c in varying if c != lead.column and (v := best.own_parameters[c]) is not None]
    lead_value = formats.named(lead.column, lead.best.value)
    if not lead.ordered:
        return f"{subject} are highest with {formats.listing([lead_value, *rest])}: {figure}"
    place = f"at {lead_value}" + (f" with {formats.listing(rest)}" if rest else "")
    first, last = lead.run
    if lead.known and first != last:
        return f"{subject} reach {figure} {place}"
    if lead.known and lead.at == len(lead.places) - 1:
        rises = lead.places[-2].share * (1 + LEAST_GAIN) < 1
        return f"{subject} still rise {place}: {figure}" if rises else f"{subject} reach {figure} {place}"
    return f"{subject} {'peak' if lead.known and lead.at else 'are highest'} {place}: {figure}"


def _find_varying(results: Sequence[PointSummary]) -> Iterator[str]:
    for column, option in parameters().items():
        values = distinct(result.own_parameters[column] for result in results if result.headline)
        if option.role != "condition" and len(values) > 1:
            yield column


def _format_figure(best: Best) -> str:
    """`1.29 GiB/s ± 2.0 %`"""
    units = formats.units_of(best.column, best.result.kind)
    spread = formats.spread(best.metric, units, brief=True)
    return f"{formats.quantity(best.metric.figure, units)} {spread if spread.startswith('±') else f'({spread})'}"


def _format_doubt(best: Best, shared: Shared) -> str:
    texts = list(filter(None, (best.doubt, best.doubt and best.reason(shared))))
    return f" ({': '.join(texts)})" if texts else ""


def _describe_axis(line: Line, rivals: Rivals) -> Iterator[str]:
    """Clauses about the effect of an axis."""
    counts = [(place.value, place.result) for place in line.places if isinstance(place.value, int)]
    scaling = slices.measure_scaling(line.column, counts, rivals) if line.column == "nodes" else None
    if scaling and scaling.steps[-1].range:  # `3.8x from 1 to 4 nodes, 95 % (91 to 99 %) of linear`
        last = scaling.steps[-1]
        different = "" if scaling.same_nodes else ", on different nodes"
        nodes = _format_span(line.column, scaling.smallest, last.count, " to ")
        share = formats.percent(last.efficiency, last.range)
        yield f"{formats.times(last.speedup)} from {nodes}, {share} of linear{different}"
    elif not scaling and (line.column != "transfer_size_bytes" or rivals.column != "ops_per_s"):
        yield from _describe_shares(line)  # IOPS always fall as transfers grow
    first, last_place = line.run
    if line.known and line.ordered and first != last_place:
        low, high = line.places[first].value, line.places[last_place].value
        if not all(place.tells for place in line.places[first : last_place + 1] if place is not line.best):
            yield f"repetitions scatter too much to tell {_format_span(line.column, low, high, ' and ')} apart"
        elif first > 0 and last_place == len(line.places) - 1:
            yield f"from {formats.named(line.column, low)} on no difference can be shown"
        else:
            yield f"no difference can be shown between {_format_span(line.column, low, high, ' and ')}"


def _describe_shares(line: Line) -> Iterator[str]:
    """`8 threads per node reach 92 % (89 to 95 %)`, for values on both sides of the best value."""
    if not line.ordered:
        yield from (_format_share(line, place) for place in line.others if place.tells and not place.alike)
        if alike := [formats.named(line.column, place.value) for place in line.others if place.alike]:
            best = formats.named(line.column, line.best.value)
            yield f"no difference between {formats.listing([best, *alike])} can be shown"
        return
    before, last = line.reaching, line.places[-1]
    if before and before.tells:
        yield _format_share(line, before)
    if last.tells and last.share < slices.MOST and line.run[1] < len(line.places) - 1 and last is not before:
        yield _format_share(line, last)


def _format_share(line: Line, place: Place) -> str:
    reach = "reach" if parameters()[line.column].singular and place.value != 1 else "reaches"
    assert place.ratio
    share = formats.percent(place.share, (place.ratio.low, place.ratio.high))
    return f"{formats.named(line.column, place.value)} {reach} {share}"


def _format_span(column: str, low: Value, high: Value, between: str) -> str:
    """`1 to 4 nodes`, `queue depth 1 to 8`, `4 KiB and 1 MiB`."""
    option, (a, b) = parameters()[column], (formats.parameter(column, value) for value in (low, high))
    before = "" if option.singular or option.labels is not None else f"{option.shown} "
    return f"{before}{a}{between}{b}{f' {option.shown}' if option.singular else ''}"


# latencies


def _describe_latency(results: Sequence[PointSummary], words: str, shared: Shared) -> Sentence | None:
    """`Random read latency is lowest at queue depth 1: 84.0 µs ± 1.2 %, p99 140 µs`"""
    best = headline.find_lowest_latency(results)
    if best is None:
        return None
    place = [formats.named(c, v) for c in _find_varying(results) if (v := best.result.own_parameters[c]) is not None]
    where = f" lowest at {formats.listing(place)}:" if place else ""
    tail = best.metrics.get("latency_p99_s")
    p99 = f", p99 {formats.quantity(tail.figure, formats.LATENCY)}" if tail else ""
    figure = f"{_format_figure(best)}{p99}{_format_doubt(best, shared)}"
    subject = f"{formats.phase(best.result.phase)} latency{f' ({words})' if words else ''}"
    return Sentence(f"{subject} is{where} {figure}", "", best.verdict)
