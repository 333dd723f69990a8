"""What a sweep shows, in a sentence for each phase where points can be told apart. Pure.

A sentence says where the peak is, which values reach most of it, which points cannot be distinguished, and how the rate
scales. A clause about an axis compares points that differ from the best point in that axis only. Two figures differ if
the 95 % interval of their ratio excludes 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from iosweep.analysis import formats, headline, slices
from iosweep.analysis.headline import Best, Rivals
from iosweep.analysis.slices import Line, Place
from iosweep.analysis.summary import PointSummary, distinct
from iosweep.judge.best import LEAST_GAIN
from iosweep.plan.model import SweepFacts
from iosweep.tables.reader import Value
from iosweep.tools import parameters, phases

#: Maximum number of axes in a sentence.
_AXES = 3
#: Columns in which a reader expects linear growth.
_SCALING = ("nodes", "threads_per_node")


@dataclass(frozen=True)
class Sentence:
    """claim: where a figure is best: `Random reads peak at queue depth 16`; figure: with its interval; more: clauses
    about the axes; verdict: that of the figure; effects: column of an axis -> its effect, as a factor, where it is
    certain."""

    claim: str
    figure: str
    more: str
    verdict: str
    effects: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"{'; '.join(filter(None, (f'{self.claim}: {self.figure}', self.more)))}."

    @property
    def finding(self) -> str:
        """Without the figure, for a reader who has it."""
        return f"{self.claim}: {self.more}."


def describe_sweeps(results: Sequence[PointSummary], sweeps: Sequence[SweepFacts]) -> dict[str, list[Sentence]]:
    """Sweep -> its sentences."""
    points: dict[str, list[PointSummary]] = {}
    for result in results:
        points.setdefault(result.point, []).append(result)
    return {
        sweep.name: list(_describe([result for point in sweep.points for result in points.get(point, [])]))
        for sweep in sweeps
    }


def choose_findings(said: Mapping[str, Sequence[Sentence]], most: int) -> list[Sentence]:
    """The sentences with the largest effect of each axis, then those with the smallest."""
    every = (one for sentences in said.values() for one in sentences)
    ranked = sorted(
        ((effect, axis, one) for one in every for axis, effect in one.effects.items()), key=lambda entry: -entry[0]
    )
    largest = {axis: one for _, axis, one in reversed(ranked)}
    smallest = {axis: one for _, axis, one in ranked}
    chosen: list[Sentence] = []
    for one in [*reversed(largest.values()), *smallest.values()]:
        chosen += [one] if one not in chosen else []
    return chosen[:most]


def _describe(results: Sequence[PointSummary]) -> Iterator[Sentence]:
    groups = headline.group(results)
    for (condition, kind, size, phase, target, _), members in groups.items():
        measured = [result for result in members if result.headline]
        if not measured:
            continue
        rivals = [group for group in groups if group.phase == phase]
        words = [formats.describe(condition, kind, [phase])] if len({group.conditions for group in rivals}) > 1 else []
        if len({group.file_size for group in rivals}) > 1:  # ingested outputs may lack the size
            words.append("file size not known" if size is None else formats.named("file_size_bytes", size))
        if len({group.target for group in rivals}) > 1:
            words.append(f"target {target}")
        known = phases().get(phase)
        text = (known.plural or known.help) if known else phase
        subject = text[0].upper() + text[1:] + (f" ({', '.join(words)})" if words else "")
        sentence = _describe_rate(subject, measured)
        if sentence.more:
            yield sentence


# rates


def _describe_rate(subject: str, results: Sequence[PointSummary]) -> Sentence:
    rivals = Rivals(results, results[0].metric)
    best = rivals.best()
    assert best is not None  # each result is a candidate
    lines = slices.find_lines(best.result, results, rivals)
    clauses: list[str] = []
    for line in lines[:_AXES]:
        clauses += _describe_axis(line, rivals)
    shares = {line.column: [place.share for place in line.places if place.tells] for line in lines}
    effects = {column: 1 / min(told) for column, told in shares.items() if told}
    claim = _write_claim(subject, best.result, results, lines)
    return Sentence(claim, _format_figure(best), "; ".join(clauses), best.verdict, effects)


def _write_claim(subject: str, best: PointSummary, results: Sequence[PointSummary], lines: Sequence[Line]) -> str:
    """`Sequential reads peak at 16 threads per node with 1 MiB`"""
    if not lines:
        return subject
    lead, *others = lines
    varying = dict.fromkeys([*(line.column for line in others), *_find_varying(results)])
    rest = [formats.named(c, v) for c in varying if c != lead.column and (v := best.own_parameters[c]) is not None]
    lead_value = formats.named(lead.column, lead.best.value)
    if not lead.ordered:
        return f"{subject} are highest with {formats.listing([lead_value, *rest])}"
    place = f"at {lead_value}" + (f" with {formats.listing(rest)}" if rest else "")
    certain = any(place.tells for place in lead.others) and lead.run == (lead.at, lead.at)
    if certain and lead.at == len(lead.places) - 1 and lead.places[-2].share * (1 + LEAST_GAIN) < 1:
        return f"{subject} still rise {place}, the last value"
    return f"{subject} {'peak' if certain and 0 < lead.at < len(lead.places) - 1 else 'are highest'} {place}"


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


def _describe_axis(line: Line, rivals: Rivals) -> Iterator[str]:
    """Clauses about the effect of an axis."""
    scales = line.column in _SCALING and line.ordered and line.at > 0 and line.places[0].tells
    if scales:
        yield _describe_scaling(line, rivals)
    falls = line.column == "transfer_size_bytes" and rivals.column == "ops_per_s"  # IOPS always do as transfers grow
    if not falls and not (scales and line.column == "nodes"):
        yield from _describe_shares(line, line.places[0] if scales else None)
    first, last = line.run
    if line.known and line.ordered and first != last:
        low, high = line.places[first].value, line.places[last].value
        if not all(place.tells for place in line.places[first : last + 1] if place is not line.best):
            yield f"the runs are too noisy to compare {_format_span(line.column, low, high, ' and ')}"
        else:
            yield f"{_format_span(line.column, low, high, ' to ')} cannot be told apart"


def _describe_scaling(line: Line, rivals: Rivals) -> str:
    """`6.6 times 1 node (6.1 to 7.2; 8 would be linear)`"""
    base, best = line.places[0], line.best
    assert isinstance(base.value, int) and isinstance(best.value, int)
    ratio = rivals.ratio(best.result, base.result)
    assert ratio
    times, low, high = map(formats.times, (ratio.center, ratio.low, ratio.high))
    ends = f"{low} to {high}; " if ratio.tells and low != high else ""
    different = "" if frozenset(base.result.hosts) <= frozenset(best.result.hosts) else ", on different nodes"
    linear = f"{best.value / base.value:g}"
    base_text = formats.named(line.column, base.value)
    return f"{times} times {base_text} ({ends}{linear} would be linear{different})"


def _describe_shares(line: Line, told: Place | None) -> Iterator[str]:
    """`8 threads per node reach 92 % (89 to 95 %)`, for values on both sides of the best value, without one that the
    reader knows."""
    if not line.ordered:
        yield from (_format_share(line, place) for place in line.others if place.tells and not place.alike)
        if alike := [formats.named(line.column, place.value) for place in line.others if place.alike]:
            best = formats.named(line.column, line.best.value)
            yield f"{formats.listing([best, *alike])} cannot be told apart"
        return
    before, last = line.reaching, line.places[-1]
    if before and before.tells and before is not told:
        yield _format_share(line, before)
    if last.tells and last.share < slices.MOST and line.run[1] < len(line.places) - 1 and last is not before:
        yield _format_share(line, last)


def _format_share(line: Line, place: Place) -> str:
    reach = "reach" if parameters()[line.column].singular and place.value != 1 else "reaches"
    assert place.ratio
    share = formats.percent(place.share, (place.ratio.low, place.ratio.high), " of that")
    return f"{formats.named(line.column, place.value)} {reach} {share}"


def _format_span(column: str, low: Value, high: Value, between: str) -> str:
    """`1 to 4 nodes`, `queue depth 1 to 8`, `4 KiB and 1 MiB`."""
    option, (a, b) = parameters()[column], (formats.parameter(column, value) for value in (low, high))
    before = "" if option.singular or option.labels is not None else f"{option.shown} "
    return f"{before}{a}{between}{b}{f' {option.shown}' if option.singular else ''}"
