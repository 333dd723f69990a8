"""Differences between two campaigns, or between two values of an axis of one: their size and certainty, and
their wording. Pure.

A difference concerns a single result that both sides have, or a group of results. Four families (all results; phases
and unions of them; values of a parameter; single results) share the error level, and each is corrected for its number
of tests (Holm): if nothing differs, at most one comparison in twenty reports a difference. What is reported is the
simplest set of differences that explains the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median, median_low
from typing import Literal

from iosweep.analysis import caveats, formats
from iosweep.analysis.changes import Changed, find_changes
from iosweep.analysis.summary import PointSummary, distinct, phase_order, round_of
from iosweep.config.criteria import METRICS
from iosweep.judge import statistics
from iosweep.judge.statistics import ALPHA, MIN_REPETITIONS, Estimate, Sample
from iosweep.plan import headline_groups
from iosweep.plan.headline_groups import Conditions
from iosweep.tables.reader import Campaign, Value
from iosweep.text import human_count
from iosweep.tools import Phase, parameters, phases

#: Worse, better and differs: significant, and large enough to matter. Same: certainly too small to matter.
Verdict = Literal["worse", "better", "differs", "undecided", "same"]
SYMBOLS: Mapping[Verdict, str] = {"worse": "▼", "better": "▲", "differs": "≠", "undecided": "?", "same": "="}
#: The smallest difference that matters, as a share: sessions on the same system seldom differ by more.
AT_LEAST = 0.03
#: The largest change that would have been found, as a share: of a larger one, nobody asks whether it was missed.
_LARGEST = 1.0
#: Maximum number of differences that the sentence names.
_NAMED = 3
#: Recommended number of sessions of pairs.
_SESSIONS = 3
#: Sessions that lie closer together do not show by how much days differ.
_OTHER_DAY = timedelta(hours=12)

# the results that both sides have


@dataclass(frozen=True, eq=False)
class Pair:
    """The same phase of the same point in two campaigns, or of two points of a campaign that differ in one axis."""

    a: PointSummary
    b: PointSummary


@dataclass(frozen=True)
class Absent:
    """A result that is not compared. side: side of the result (0: first, 1: other); why: reason why its figure cannot
    be compared, "" if the other side does not have the result."""

    side: int
    result: PointSummary
    why: str = ""


@dataclass(frozen=True)
class Matched:
    """The results of two sides. within: both are of one campaign."""

    pairs: tuple[Pair, ...]
    absent: tuple[Absent, ...]
    within: bool = False


def match(a: Sequence[PointSummary], b: Sequence[PointSummary]) -> Matched:
    """Pair the results of two campaigns by point id, which identifies everything that determines a measurement."""
    return _match([{(result.point, result.phase): result for result in side} for side in (a, b)])


def match_over(results: Sequence[PointSummary], column: str, base: Value, other: Value) -> Matched:
    """Pair the results of a campaign whose points differ in a parameter only."""
    sides: dict[Value, dict[object, PointSummary]] = {base: {}, other: {}}
    phases_of: dict[str, list[str]] = {}
    for result in results:
        phases_of.setdefault(result.point, []).append(result.phase)
    for result in results:
        if (value := result.own_parameters[column]) in sides and value is not None:
            others = tuple(value for name, value in result.parameters.items() if name != column)
            sides[value][result.tool, result.phase, *phases_of[result.point], others] = result
    return _match([sides[base], sides[other]], within=True)


def _match(sides: Sequence[Mapping[object, PointSummary]], within: bool = False) -> Matched:
    pairs = [Pair(result, sides[1][key]) for key, result in sides[0].items() if key in sides[1]]
    absent = [
        Absent(number, result)
        for number, (side, others) in enumerate((sides, sides[::-1]))
        for key, result in side.items()
        if key not in others
    ]
    return Matched(tuple(pairs), tuple(absent), within)


# their differences

#: What a comparison rests on: pairs of one campaign, round by round; sessions of two campaigns; or the rounds of each
#: side, which cannot tell a change of the system from the difference between two days.
Design = Literal["pairs", "sessions", "rounds"]
_RATIOS = {
    "pairs": statistics.ratio_of_pairs,
    "sessions": statistics.ratio_of_sessions,
    "rounds": statistics.ratio_of_rounds,
}
#: The repetitions of the second and of the first side of each pair.
Samples = Mapping[Pair, tuple[Sample, Sample]]
#: A phase under the same conditions.
Kind = tuple[Conditions, str]


@dataclass(frozen=True)
class Difference:
    """The difference of one pair, or of a group of pairs.

    estimate: ratio of the second side to the first, None if it cannot be estimated (`why` says so); kind: the phase of
    the first pair; name: of a group that is not of one phase; where: parameter values that the pairs of a group share;
    p: p-value, adjusted for all tests of the comparison; smallest: the smallest change, as a share, that is usually
    found by this test.
    """

    samples: Samples
    estimate: Estimate | None
    kind: Kind
    name: str = ""
    where: Mapping[str, Value] = field(default_factory=dict)
    p: float = 1.0
    smallest: float | None = None
    verdict: Verdict = "undecided"
    why: str = ""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(self.samples)

    @property
    def single(self) -> bool:
        return len(self.samples) == 1

    @property
    def changed(self) -> bool:
        return self.verdict in ("worse", "better", "differs")

    @property
    def suspect(self) -> bool:
        """Whether any result is not valid."""
        return any(result.verdict != "valid" for pair in self.samples for result in (pair.a, pair.b))


@dataclass(frozen=True)
class Comparison:
    """The second side compared with the first.

    column: the compared figure, "" for the headline of each phase; sessions: their number on each side, for a typical
    result; singles: a difference for each pair with figures on both sides, with the verdict of the difference that
    explains it; groups: differences of several pairs; explained: the simplest changes that explain all others, the
    largest first; a pair is in one of them at most; smallest: the typical `smallest` of a single result, and of a whole
    phase.
    """

    design: Design
    column: str
    at_least: float
    sessions: tuple[int, ...]
    singles: tuple[Difference, ...]
    groups: tuple[Difference, ...]
    absent: tuple[Absent, ...]
    explained: tuple[Difference, ...]
    smallest: tuple[float | None, ...]

    def count(self, verdict: Verdict) -> int:
        """Number of results with this verdict."""
        return sum(diff.verdict == verdict for diff in self.singles)


def compare(matched: Matched, column: str = "", at_least: float = AT_LEAST) -> Comparison:
    """Compare matched results. column: the figure to compare, "" for the headline of each phase; at_least: the smallest
    change that matters, as a share."""
    absent, measured = list(matched.absent), []
    for pair in matched.pairs:
        figure = column or pair.a.metric
        lacking = [(side, result) for side, result in enumerate((pair.a, pair.b)) if figure not in result.metrics]
        for side, result in lacking[:1]:
            why = result.verdict if result.verdict in ("invalid", "missing") else f"without {figure}"
            absent.append(Absent(side, result, why))
        if not lacking:  # empty samples: with a figure of zero
            measured.append((pair, (pair.b.collect(figure).logs or {}, pair.a.collect(figure).logs or {})))
    design: Design = "pairs" if matched.within else "sessions"
    runs = measured
    if not matched.within:
        measured = [(pair, (_in_sessions(pair.b, b), _in_sessions(pair.a, a))) for pair, (b, a) in runs]
    if 2 * sum(not _obstacle(design, *one) for one in measured) < len(measured):
        design, measured = "rounds", runs
    singles = []
    for pair, samples in measured:
        why = _obstacle(design, pair, samples)
        conditions = headline_groups.conditions(pair.a.tool, pair.a.own_parameters)
        kind = headline_groups.of_phase(conditions, pair.a.phase), pair.a.phase
        estimate = None if why else _RATIOS[design]([samples])
        singles.append(Difference({pair: samples}, estimate, kind, why=why))
    groups = list(_group([single for single in singles if single.estimate], design))
    wholes = [group for group in groups if not group.where]
    families = [wholes[:1], wholes[1:], [group for group in groups if group.where], singles]
    level = ALPHA / max(1, sum(any(diff.estimate for diff in family) for family in families))
    *judged, singles = ([*_judge(family, level, design, column, at_least)] for family in families)
    groups = [group for family in judged for group in family]
    explained = _explain([*groups, *singles], design, at_least)
    verdicts = {pair: diff.verdict for diff in explained for pair in diff.samples}
    counts = [(_count_sessions(pair.a, a), _count_sessions(pair.b, b)) for pair, (b, a) in measured] or [(0, 0)]
    return Comparison(
        design,
        column,
        at_least,
        tuple(map(median_low, zip(*counts, strict=True))),
        tuple(
            diff if diff.verdict == "same" else replace(diff, verdict=verdicts.get(diff.pairs[0], diff.verdict))
            for diff in singles
        ),
        tuple(groups),
        tuple(absent),
        tuple(explained),
        tuple(
            median(found) if (found := [diff.smallest for diff in members if diff.smallest]) else None
            for members in (singles, [group for group in groups if not group.name and not group.where])
        ),
    )


def _in_sessions(result: PointSummary, sample: Sample) -> Sample:
    """The sample by planned sessions. A run that was stopped and went on is one: its parts do not show by how much days
    differ."""
    planned = {round_of(row): row.session_number for row in result.rows}
    return {(str(planned.get(key) or key[0] or "") or None, key[1]): log for key, log in sample.items()}


def _count_sessions(result: PointSummary, sample: Sample) -> int:
    return len({session for session, _ in _in_sessions(result, sample)})


def _obstacle(design: Design, pair: Pair, samples: tuple[Sample, Sample]) -> str:
    """Why the ratio of a pair cannot be estimated; "" if it can."""
    if not all(samples):
        return "a figure of zero"
    if design == "pairs":
        rounds = [session for session, _ in samples[0].keys() & samples[1].keys() if session]  # unknown if ingested
        return "" if len(rounds) >= MIN_REPETITIONS else "fewer than three rounds in common"
    if design == "sessions":
        counts = map(_count_sessions, (pair.b, pair.a), samples)
        return "" if min(counts) > 1 else "measured in one session"
    if any(len(sample) < MIN_REPETITIONS for sample in samples):
        return "fewer than three repetitions"
    moved = any(result.host_sets > 1 and not result.in_turn for result in (pair.a, pair.b))
    return "its repetitions ran on different nodes" if moved else ""


#: Groups of several phases: name -> whether a phase is in it.
_UNIONS: Mapping[str, Callable[[Phase], bool]] = {
    "all sequential I/O": lambda phase: phase.kind == "data" and not phase.random,
    "all random I/O": lambda phase: phase.kind == "data" and phase.random,
    "all reads": lambda phase: phase.kind == "data" and not phase.writes,
    "all writes": lambda phase: phase.kind == "data" and not phase.reads,
    "all metadata": lambda phase: phase.kind == "metadata",
}


def _group(singles: Sequence[Difference], design: Design) -> Iterator[Difference]:
    """Yield phases, unions of phases, and the values of each parameter that varies, within phases and over all of them.
    Of groups with the same pairs only the first is yielded: it has the most telling name."""
    of_phases: dict[Kind, list[Difference]] = {}
    unions = {"all results": list(singles)}
    for single in sorted(singles, key=lambda single: phase_order(single.kind[1])):
        of_phases.setdefault(single.kind, []).append(single)
        unions.setdefault(f"all of {formats.tool(single.pairs[0].a.tool)}", []).append(single)
        for name, holds in _UNIONS.items():
            if (phase := phases().get(single.kind[1])) and holds(phase):
                unions.setdefault(name, []).append(single)
    named = [*(("", members) for members in of_phases.values()), *unions.items()]
    wholes = sorted(named, key=lambda whole: -len(whole[1]))
    parts = [
        (name, {column: value}, subset)
        for name, members in (*named[: len(of_phases)], ("everything", singles))
        for column, value, subset in _split(members)
    ]
    seen = []
    for name, where, members in (*((name, {}, members) for name, members in wholes), *parts):
        samples = {pair: sides for member in members for pair, sides in member.samples.items()}
        if len(samples) > 1 and samples.keys() not in seen:
            seen.append(samples.keys())
            yield Difference(samples, _RATIOS[design]([*samples.values()]), members[0].kind, name, where)


def _split(members: Sequence[Difference]) -> Iterator[tuple[str, Value, list[Difference]]]:
    """Yield the members with each value of each parameter that varies: (column, value, members)."""
    for column in parameters():
        values = [member.pairs[0].a.own_parameters[column] for member in members]
        if len(different := distinct(values)) > 1:
            for value in different:
                yield column, value, [member for member, own in zip(members, values, strict=True) if own == value]


def _judge(
    family: Sequence[Difference], level: float, design: Design, column: str, at_least: float
) -> Iterator[Difference]:
    """Yield the differences of a family with their adjusted p-values and verdicts. level: the part of ALPHA it has."""
    tests = sum(diff.estimate is not None for diff in family)
    adjusted = iter(statistics.holm(diff.estimate.p() for diff in family if diff.estimate))
    for diff in family:
        if diff.estimate is None:
            yield diff
            continue
        p, share, (low, high) = min(1.0, next(adjusted) * ALPHA / level), diff.estimate.share, ends(diff.estimate)
        verdict: Verdict = "undecided"
        if p <= ALPHA and abs(share) >= at_least:
            better = (share > 0) != lower_is_better(column)
            verdict = "differs" if design == "rounds" else "better" if better else "worse"
        elif -at_least < low and high < at_least:
            verdict = "same"
        yield replace(diff, p=p, verdict=verdict, smallest=diff.estimate.smallest(level / tests))


def lower_is_better(column: str) -> bool:
    return "latency" in column


# the simplest explanation


def _explain(differences: Sequence[Difference], design: Design, at_least: float) -> list[Difference]:
    """The changes to report, the largest first; each pair is in one of them at most. The largest uniform groups are
    chosen first, down to single results; then, of results that are left, groups that changed only in the mean."""
    changed = sorted((diff for diff in differences if diff.changed), key=lambda diff: -len(diff.samples))
    chosen: list[Difference] = []
    covered: set[Pair] = set()
    for diff, alike in (*((diff, True) for diff in changed), *((diff, False) for diff in reversed(changed))):
        if covered.isdisjoint(diff.samples) and not (alike and not _is_uniform(diff, differences, design, at_least)):
            chosen.append(diff)
            covered |= diff.samples.keys()
    return sorted(chosen, key=lambda diff: -len(diff.samples) * abs(diff.estimate.log if diff.estimate else 0.0))


def _is_uniform(group: Difference, differences: Sequence[Difference], design: Design, at_least: float) -> bool:
    """Whether a group changed as one. Its parts differ from its mean by no more than noise, by less than what matters,
    or by less than a quarter of the change. Beside each part that changed the rest did, too.

    The noise of a part is what remains without the disturbances that all members share.
    """
    assert group.estimate
    parts = [d for d in differences if len(d.samples) < len(group.samples) and d.samples.keys() <= group.samples.keys()]
    sides = zip(*(statistics.remove_rounds(side) for side in zip(*group.samples.values(), strict=True)), strict=True)
    steady, center = dict(zip(group.samples, sides, strict=True)), group.estimate
    level, least = ALPHA / max(1, len(parts)), max(math.log1p(at_least), abs(center.log) / 4)
    for part in parts:
        own = _RATIOS[design]([steady[pair] for pair in part.samples])
        apart = own and abs(own.log - center.log) >= least
        if own and apart and own.at(ALPHA if part.verdict == "same" else level).excludes(center.center):
            return False
        if part.changed and 100 * len(part.samples) >= len(group.samples):  # fewer do not make the mean
            rest = _RATIOS[design]([sides for pair, sides in group.samples.items() if pair not in part.samples])
            if not rest or not rest.excludes(1.0) or (rest.log > 0) != (center.log > 0):
                return False
    return True


# what is compared


@dataclass(frozen=True)
class NamedCampaign:
    """A campaign with its results. name: unique among the campaigns of a comparison."""

    name: str
    path: Path
    campaign: Campaign
    results: tuple[PointSummary, ...]

    @property
    def began(self) -> datetime:
        """When its first phase was measured; if that is unknown, when its tables were made."""
        return min((row.started for row in self.campaign.rows if row.started), default=self.campaign.about.made)

    @property
    def when(self) -> str:
        """`2025-06-20 23:14 (night-19)`"""
        return f"{self.began:%Y-%m-%d %H:%M} ({self.name})"


@dataclass(frozen=True)
class Versus:
    """The side `b` compared with the side `a`. names: of two campaigns, or of two values of an axis."""

    names: tuple[str, str]
    a: NamedCampaign
    b: NamedCampaign
    found: Comparison
    changes: tuple[Changed, ...]

    @property
    def within(self) -> bool:
        """Whether both sides are of one campaign."""
        return self.a is self.b


def title(compared: Sequence[Versus]) -> str:
    """`after against before`, `delivery: target b, target c against target a`; values that have no points in common
    have bases of their own."""
    first, others = compared[0], dict[str, list[str]]()
    for one in compared:
        others.setdefault(one.names[0], []).append(one.names[1])
    sides = "; ".join(f"{', '.join(names)} against {base}" for base, names in others.items())
    return f"{f'{first.a.name}: ' * first.within}{sides}"


def values_over(one: NamedCampaign, column: str) -> list[Value]:
    """The measured values of a parameter: numbers ascending, others as they are configured."""
    measured = dict.fromkeys(v for result in one.results if (v := result.own_parameters[column]) is not None)
    name = parameters()[column].name
    configured = (value for sweep in one.campaign.about.sweeps for value in sweep.axes.get(name, ()))
    values = [*(dict.fromkeys(value for value in configured if value in measured) | measured)]
    return values if any(isinstance(value, str | bool) for value in values) else sorted(values)


def versus(a: NamedCampaign, b: NamedCampaign, column: str = "", at_least: float = AT_LEAST) -> Versus:
    """Compare two campaigns (see `compare`)."""
    found = compare(match(a.results, b.results), column, at_least)
    return Versus((a.name, b.name), a, b, found, tuple(find_changes(a.campaign, b.campaign)))


def versus_over(one: NamedCampaign, axis: str, column: str = "", at_least: float = AT_LEAST) -> list[Versus]:
    """Compare the points of a campaign that differ in a parameter only: each of its values with the first that has
    such points. axis: column of the parameter."""
    values, compared = values_over(one, axis), []
    sides = {
        value: replace(one.campaign, rows=tuple(row for row in one.campaign.rows if row.parameters[axis] == value))
        for value in values
    }
    for number, other in enumerate(values[1:], 1):
        matches = ((base, match_over(one.results, axis, base, other)) for base in values[:number])
        for base, matched in matches:
            if matched.pairs:
                names = formats.named(axis, base), formats.named(axis, other)
                changes = tuple(find_changes(sides[base], sides[other]))
                compared.append(Versus(names, one, one, compare(matched, column, at_least), changes))
                break
    return compared


# in words


def sentence(found: Comparison) -> str:
    """`Random reads at 4 KiB: −6.1 % (−8.2 to −4.0); nothing else differs by more than 2 %.`"""
    parts = []
    for diff in found.explained[:_NAMED]:
        mean = "" if diff.single else f" in the mean of {human_count(len(diff.pairs), 'result')}"
        parts.append(f"{subject(found, diff)}: {describe_change(diff)}{mean}")
    if rest := found.explained[_NAMED:]:
        count = sum(len(diff.pairs) for diff in rest)
        parts.append(f"{human_count(count, 'other result')} {'differs' if count == 1 else 'differ'}, too")
    parts += filter(None, [_describe_rest(found)])
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _describe_rest(found: Comparison) -> str:
    """A clause about the results that the rest of the sentence does not cover."""
    others = [diff.estimate for diff in found.singles if not diff.changed]
    known = [estimate for estimate in others if estimate]
    if not others:
        return "" if found.explained else "nothing was compared"
    if not known:
        return "" if found.explained else "nothing can be decided: no result has an interval"
    if len(known) == len(others):  # bound of all changes, with simultaneous 95 % confidence
        bound = max(abs(end) for estimate in known for end in ends(estimate.at(ALPHA / len(others))))
        if bound <= found.at_least:
            return f"nothing {'else ' * bool(found.explained)}differs by more than {math.ceil(1000 * bound) / 10:g} %"
    sizes = []
    for smallest, of in zip(found.smallest, ("one result", "all results of a phase"), strict=True):
        if smallest is not None and smallest <= _LARGEST:
            loss = smallest if lower_is_better(found.column) else smallest / (1 + smallest)
            sizes.append(f"of {math.ceil(100 * max(loss, found.at_least) - 1e-6):,} % in {of}")
    kind = "rise" if lower_is_better(found.column) else "loss"
    would = f"a {kind} {', or '.join(sizes)}{',' * (len(sizes) > 1)} would have been found"
    if not sizes:
        would = f"the repetitions are too few, or scatter too much, to find {'more' if found.explained else 'any'}"
    elif lacking := len(others) - len(known):
        would += (
            f"; {lacking:,} of {human_count(len(others), 'result')} {'has' if lacking == 1 else 'have'} no interval"
        )
    return f"no {'other ' * bool(found.explained)}difference was found; {would}"


def subject(found: Comparison, diff: Difference) -> str:
    """The subject of a difference: `random reads at 8 threads per node, 4 KiB`, `create rate`, `p99 of all reads`."""
    known = phases().get(diff.kind[1])
    name = diff.name or (known.help if known and known.kind == "data" else f"{diff.kind[1].replace('_', ' ')} rate")
    if found.column:
        figure = next((name for name, metric in METRICS.items() if metric.column == found.column), found.column)
        name = f"{figure} of {name.removesuffix(' rate')}"
    if not diff.name and len({other.kind for other in found.singles if other.kind[1] == diff.kind[1]}) > 1:
        name += f" ({formats.describe(diff.kind[0], diff.pairs[0].a.kind, [diff.kind[1]])})"
    place = ", ".join(formats.named(column, value) for column, value in parameters_of(found, diff).items())
    return f"{name} at {place}" if place else name


def parameters_of(found: Comparison, diff: Difference) -> dict[str, Value]:
    """Parameters that distinguish a difference from the others of its phase: column -> value."""
    if not diff.single:
        return dict(diff.where)
    places = [other.pairs[0].a.own_parameters for other in found.singles if other.kind == diff.kind]
    varying = (name for name in parameters() if len(distinct(place[name] for place in places)) > 1)
    return {name: v for name in varying if (v := diff.pairs[0].a.own_parameters[name]) is not None}


def describe_change(diff: Difference) -> str:
    """The change with its interval; if that tells nothing, the reason."""
    if diff.estimate and (diff.changed or diff.estimate.tells):
        return write_change(diff.estimate)
    return diff.why or "too few to say"


def write_change(estimate: Estimate) -> str:
    """`−6.1 % (−8.2 to −4.0)`"""
    share, low, high = map(_percent, (estimate.share, *ends(estimate)))
    return f"{share} % ({low} to {high})" if estimate.tells else f"{share} % (too few to say by how much)"


def _percent(share: float) -> str:
    if abs(share) < 0.0005:
        return f"{100 * abs(share):.1f}"
    return f"{100 * share:+.{1 if abs(share) < 0.995 else 0}f}".replace("-", "\N{MINUS SIGN}")


def ends(estimate: Estimate) -> tuple[float, float]:
    """The interval of a change, as shares."""
    return estimate.low - 1, estimate.high - 1


def figures(diff: Difference, column: str) -> tuple[str, str]:
    """The figures of both sides: of a single result, or the range of several of one unit."""
    first = diff.pairs[0].a
    if len({pair.a.metric for pair in diff.pairs}) > 1 and not column:
        return "", ""
    name = column or first.metric
    a = [pair.a.figure(name) or 0.0 for pair in diff.pairs]
    b = [pair.b.figure(name) or 0.0 for pair in diff.pairs]
    units = formats.units_of(name, first.kind)
    if diff.single:
        return formats.quantity(a[0], units), formats.quantity(b[0], units)
    return formats.span(min(a), max(a), units), formats.span(min(b), max(b), units)


def count_verdicts(found: Comparison) -> list[tuple[Verdict, int, str]]:
    """The number of results of each verdict that the design can give: (verdict, number, label)."""
    labels: dict[Verdict, str] = {"worse": "worse", "better": "better"}
    if found.design == "rounds":
        labels = {"differs": "differ"}
    labels |= {"same": f"without a difference > {100 * found.at_least:g} %", "undecided": "undecided"}
    return [(verdict, found.count(verdict), name) for verdict, name in labels.items()]


def caution(compared: Versus) -> str:
    """What the design of a comparison cannot tell, as a sentence; "" if it tells all."""
    found = compared.found
    if found.design == "rounds" and found.explained:
        if compared.within:
            return "Not proof of the cause: these values were not measured in turn, and time alone can do this."
        measure = "Measure both with `sessions: 3`, or side by side (`targets` in one campaign)."
        return f"Not proof that the system changed: day-to-day variation alone can do this. {measure}"
    if found.design == "sessions" and found.explained:
        sides = zip(compared.names, *((diff.pairs[0].a, diff.pairs[0].b) for diff in found.singles), strict=True)
        if same_day := [name for name, *results in sides if _span(results) < _OTHER_DAY]:
            day = f"All sessions of {' and of '.join(same_day)} are of one day: day-to-day variation alone can do this."
            return f"{day} Add sessions on other days (`--config sessions=N`)."
    if found.design == "pairs" and max(found.sessions) < _SESSIONS:
        measured = "one session" if max(found.sessions) == 1 else "two sessions"
        return f"Measured in {measured}; three are recommended (`sessions: 3`)."
    return ""


def _span(results: Sequence[PointSummary]) -> timedelta:
    """The time from the first repetition of all results to the last; no limit if it is not known."""
    started = [row.started for result in results for row in result.rows if row.started]
    return max(started) - min(started) if started else timedelta.max


def notes(compared: Versus) -> Iterator[str]:
    """Sentences that a reader needs to interpret a comparison."""
    found = compared.found
    yield from absences(found, compared.names)
    if tested := sum(diff.estimate is not None for diff in (*found.groups, *found.singles)):
        yield f"Intervals are 95 % of each result; verdicts allow for {human_count(tested, 'comparison')}."
    if doubtful := [diff for diff in found.singles if diff.suspect]:
        count = human_count(len(doubtful), "result has", "results have")
        sides = (side for diff in doubtful for side in (diff.pairs[0].a, diff.pairs[0].b) if side.verdict != "valid")
        why = caveats.tell(result.reasons for result in sides)
        yield f"{count} repetitions that are suspect or were left out as invalid (○): {why}."


def absences(found: Comparison, names: tuple[str, str]) -> Iterator[str]:
    """A sentence for each reason why results are not compared."""
    for side, why in dict.fromkeys((absent.side, absent.why) for absent in found.absent):
        group = [absent.result for absent in found.absent if (absent.side, absent.why) == (side, why)]
        verb, points = ("is" if len(group) == 1 else "are"), len({result.point for result in group})
        if why:
            yield f"{human_count(len(group), 'result')} {verb} not compared: {why} in {names[side]}."
        else:
            yield f"{human_count(len(group), 'result')} of {human_count(points, 'point')} {verb} only in {names[side]}."
