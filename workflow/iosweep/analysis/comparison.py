"""The differences between two campaigns: how large, how certain, what else changed, and how to say it. Pure.

A difference is about a single result that both campaigns have, or about a group: a whole phase, or the results of a
phase with the same value of a parameter. All differences are tested together (Holm): if nothing differs, at most one
comparison in twenty reports a difference. The noise is measured within the campaigns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from iosweep.analysis import caveats, formats
from iosweep.analysis.summary import PointSummary, distinct, phase_order
from iosweep.config import yaml_lines
from iosweep.config.criteria import METRICS
from iosweep.errors import ConfigError
from iosweep.judge import agreement, statistics
from iosweep.judge.statistics import ALPHA, Change, Noise
from iosweep.plan import headline_groups
from iosweep.plan.headline_groups import Conditions
from iosweep.tables.reader import Campaign, NodeRow, Value
from iosweep.text import human_count, percent_change, shortened
from iosweep.tools import parameters, phases
from iosweep.units import human_size

#: Better and worse: certain, and large enough to matter. Same: certainly too small to matter.
Verdict = Literal["worse", "better", "undecided", "same"]
SYMBOLS: Mapping[Verdict, str] = {"worse": "▼", "better": "▲", "undecided": "?", "same": "="}
LEGEND = "▼ worse, ▲ better, = no difference that matters, ? undecided, ○ in doubt."
#: The smallest difference that matters, as a share: sessions of one system seldom differ by more.
AT_LEAST = 0.03
#: Differences that the sentence names.
_NAMED = 3

# the results that both campaigns have


@dataclass(frozen=True)
class Pair:
    """The same phase of the same point in two campaigns."""

    a: PointSummary
    b: PointSummary


@dataclass(frozen=True)
class Absent:
    """A result that is not compared. side: campaign of the result (0: first, 1: other); why: its figure cannot be
    compared, "" if the other campaign does not have the result."""

    side: int
    result: PointSummary
    why: str = ""


def match(a: Sequence[PointSummary], b: Sequence[PointSummary]) -> tuple[list[Pair], list[Absent]]:
    """Pair the results of two campaigns by the ids of their points, which identify everything that determines a
    measurement. Results without a figure are paired too."""
    keyed = [{(result.point, result.phase): result for result in side} for side in (a, b)]
    pairs = [Pair(result, keyed[1][key]) for key, result in keyed[0].items() if key in keyed[1]]
    absent = [
        Absent(side, result)
        for side, (own, others) in enumerate((keyed, keyed[::-1]))
        for key, result in own.items()
        if key not in others
    ]
    return pairs, absent


# their differences

#: A phase under the same conditions.
Kind = tuple[Conditions, str]


@dataclass(frozen=True)
class Difference:
    """The difference of one pair, or of several pairs of a phase.

    where: parameter values that the pairs of a group share; change: from the first campaign to the other, None if
    nothing tells how the figures scatter (`why` says so); p: adjusted for all differences of the comparison.
    """

    phase: str
    conditions: Conditions
    pairs: tuple[Pair, ...]
    change: Change | None
    where: Mapping[str, Value]
    p: float = 1.0
    verdict: Verdict = "undecided"
    why: str = ""

    @property
    def kind(self) -> Kind:
        return self.conditions, self.phase

    @property
    def single(self) -> bool:
        return len(self.pairs) == 1

    @property
    def suspect(self) -> bool:
        """Whether any figure is in doubt."""
        return any(one.verdict != "valid" for pair in self.pairs for one in (pair.a, pair.b))


@dataclass(frozen=True)
class Comparison:
    """The other campaign compared with the first.

    column: the compared figure, "" for the headline of each phase; singles: one difference for each pair with figures
    on both sides; groups: differences of several pairs.
    """

    column: str
    at_least: float
    singles: tuple[Difference, ...]
    groups: tuple[Difference, ...]
    absent: tuple[Absent, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        return (*self.groups, *self.singles)

    @property
    def regressions(self) -> list[Difference]:
        return [one for one in self.differences if one.verdict == "worse"]

    @property
    def undecided(self) -> list[Difference]:
        return [one for one in self.singles if one.verdict == "undecided"]

    def count(self, verdict: Verdict) -> int:
        """Number of pairs with this verdict."""
        return sum(one.verdict == verdict for one in self.singles)


def compare(
    a: Sequence[PointSummary],
    b: Sequence[PointSummary],
    column: str = "",
    at_least: float = AT_LEAST,
) -> Comparison:
    """Compare two campaigns. column: the figure to compare, "" for the headline of each phase; at_least: the smallest
    difference that matters, as a share."""
    pairs, absent = match(a, b)
    noises = {**_noises(a, column), **_noises(b, column)}
    singles = []
    for pair in pairs:
        figure = column or pair.a.metric
        lacking = [(side, one) for side, one in enumerate((pair.a, pair.b)) if figure not in one.metrics]
        if lacking:
            side, one = lacking[0]
            why = one.verdict if one.verdict in ("invalid", "missing") else f"without {figure}"
            absent.append(Absent(side, one, why))
            continue
        before, after = pair.a.repeated(figure), pair.b.repeated(figure)
        change, why = None, ""
        if not (before.comparable and after.comparable):
            why = "its repetitions ran on different nodes"
        else:
            noise = noises.get(id(pair.b)), noises.get(id(pair.a))
            change = statistics.change(after.values, before.values, noise)
            if change is None:
                few = min(len(before.values), len(after.values)) == 1
                why = "one repetition, and no other points that tell how it scatters" if few else "a figure of zero"
        conditions = headline_groups.of_phase(headline_groups.conditions(pair.a.tool, pair.a.parameters), pair.a.phase)
        singles.append(Difference(pair.a.phase, conditions, (pair,), change, {}, why=why))
    groups = list(_groups(singles, column))
    judged = list(_judged([*groups, *singles], column, at_least))
    return Comparison(column, at_least, tuple(judged[len(groups) :]), tuple(judged[: len(groups)]), tuple(absent))


def _noises(results: Sequence[PointSummary], column: str) -> dict[int, Noise | None]:
    """id() of a result -> the noise of its phase in its campaign."""
    measured = [result for result in results if (column or result.metric) in result.metrics]
    figures = [result.repeated(column or result.metric) for result in measured]
    return {id(result): noise for result, noise in zip(measured, agreement.noises(figures), strict=True)}


def _groups(singles: Sequence[Difference], column: str) -> Iterator[Difference]:
    """Yield all pairs of a phase under the same conditions, then the pairs of each value of each parameter that varies.
    A group with the same pairs as an earlier group is skipped."""
    kinds: dict[Kind, list[Difference]] = {}
    for one in singles:
        if one.change:
            kinds.setdefault(one.kind, []).append(one)
    for (conditions, phase), alike in sorted(kinds.items(), key=lambda item: phase_order(item[0][1])):
        values: dict[tuple[str, Value] | None, list[Difference]] = {None: alike}
        for parameter in parameters():
            if len(distinct((one.pairs[0].a for one in alike), parameter)) > 1:
                for one in alike:
                    if (value := one.pairs[0].a.parameters[parameter]) is not None:
                        values.setdefault((parameter, value), []).append(one)
        groups: dict[tuple[int, ...], tuple[tuple[str, Value] | None, list[Difference]]] = {}
        for where, members in values.items():
            groups.setdefault(tuple(map(id, members)), (where, members))
        for where, members in groups.values():
            pairs = tuple(one.pairs[0] for one in members)
            rounds = [(p.b.rounds(column or p.a.metric), p.a.rounds(column or p.a.metric)) for p in pairs]
            if len(pairs) > 1 and (change := statistics.common_change(rounds)):
                yield Difference(phase, conditions, pairs, change, dict([where] if where else []))


def _judged(differences: Sequence[Difference], column: str, at_least: float) -> Iterator[Difference]:
    """Give the differences their verdicts."""
    adjusted = iter(statistics.holm(one.change.p for one in differences if one.change))
    for one in differences:
        if one.change is None:
            yield one
            continue
        p, share, (low, high) = next(adjusted), one.change.share, one.change.within()
        verdict: Verdict = "undecided"
        if p <= ALPHA and abs(share) >= at_least:
            verdict = "better" if (share > 0) != lower_is_better(column) else "worse"
        elif -at_least < low and high < at_least:
            verdict = "same"
        yield replace(one, p=p, verdict=verdict)


def lower_is_better(column: str) -> bool:
    return "latency" in column


def explained(found: Comparison) -> list[Difference]:
    """The certain differences to report, clearest first. Whole phases, parameter values and single points compete to
    explain the figures; each pair is in one difference only."""
    changed = [one for one in found.differences if one.verdict in ("worse", "better")]
    errors = {id(one.pairs[0]): one.change.error for one in found.singles if one.change}

    def weight(one: Difference) -> tuple[float, int]:
        assert one.change is not None
        # as if the pairs' errors were independent: a few rounds may look quiet by luck
        error = math.hypot(*(errors[id(pair)] for pair in one.pairs)) / len(one.pairs)
        return (abs(one.change.log) / error if error else math.inf, len(one.pairs))

    chosen: list[Difference] = []
    covered: set[int] = set()
    for one in sorted(changed, key=weight, reverse=True):
        own = {id(pair) for pair in one.pairs}
        if not own & covered:
            chosen.append(one)
            covered |= own
    return chosen


# two campaigns


@dataclass(frozen=True)
class NamedCampaign:
    """A campaign with its results. name: distinguishes it from the other campaigns of a comparison."""

    name: str
    path: Path
    campaign: Campaign
    results: tuple[PointSummary, ...]

    @property
    def began(self) -> datetime:
        """When its first phase was measured; when its tables were made if that is not known."""
        return min((row.started for row in self.campaign.rows if row.started), default=self.campaign.about.made)

    @property
    def when(self) -> str:
        """`2025-06-20 23:14 (night-19)`"""
        return f"{self.began:%Y-%m-%d %H:%M} ({self.name})"


@dataclass(frozen=True)
class Versus:
    """The other campaign `b` compared with the first campaign `a`."""

    a: NamedCampaign
    b: NamedCampaign
    found: Comparison
    changes: tuple[Changed, ...]

    @property
    def names(self) -> tuple[str, str]:
        return self.a.name, self.b.name


def versus(a: NamedCampaign, b: NamedCampaign, column: str = "", at_least: float = AT_LEAST) -> Versus:
    """Compare two campaigns (see `compare`)."""
    return Versus(a, b, compare(a.results, b.results, column, at_least), tuple(changes(a.campaign, b.campaign)))


def names(named: Sequence[tuple[str, Campaign]]) -> list[str]:
    """Names that distinguish campaigns: the campaign's name, with its target, with its directory, or with a number.

    named: (name of the directory of results, campaign).
    """
    for forms in (
        [campaign.about.campaign for _, campaign in named],
        [f"{campaign.about.campaign} on {campaign.about.target.directory}" for _, campaign in named],
        [f"{campaign.about.campaign} in {directory}" for directory, campaign in named],
    ):
        if len(set(forms)) == len(forms):
            return forms
    return [f"{campaign.about.campaign} ({number})" for number, (_, campaign) in enumerate(named, 1)]


# in words


def sentence(found: Comparison) -> str:
    """`Random reads at 4 KiB: −6.1 % (−8.2 to −4.0); nothing else differs by more than 2 %.`"""
    changed, parts = explained(found), []
    for one in changed[:_NAMED]:
        mean = "" if one.single else f" in the mean of {human_count(len(one.pairs), 'result')}"
        parts.append(f"{subject(found, one)}: {interval(one)}{mean}")
    if more := changed[_NAMED:]:
        parts.append(f"{human_count(sum(len(one.pairs) for one in more), 'other result')} differ, too")
    parts += filter(None, [_rest(found, changed)])
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _rest(found: Comparison, changed: Sequence[Difference]) -> str:
    """A clause on the results that the rest of the sentence does not cover."""
    covered = {id(pair) for one in changed for pair in one.pairs}
    others = [one for one in found.singles if id(one.pairs[0]) not in covered]
    if not others:
        return "" if changed else "nothing was compared"
    least = f"{100 * found.at_least:g} %"
    if all(one.change for one in others):  # the largest change that any may have, with simultaneous 95 % confidence
        bound = max(abs(end) for one in others if one.change for end in one.change.within(ALPHA / len(others)))
        if bound <= found.at_least:
            return f"nothing {'else ' if changed else ''}differs by more than {math.ceil(1000 * bound) / 10:g} %"
    undecided = sum(one.verdict == "undecided" for one in others)
    none = f"no {'other ' if changed else ''}difference of {least} or more"
    of = f"{'the other ' if changed else ''}{human_count(len(others), 'result')}"
    are = "is" if undecided == 1 else "are"
    if undecided == len(others):  # large differences are possible, as the table shows
        return f"{none} can be shown: {f'all {of}' if undecided > 1 else f'{undecided:,} of {of}'} {are} undecided"
    return f"{none} was found" + (f", but {undecided:,} of {of} {are} undecided" if undecided else "")


def subject(found: Comparison, one: Difference) -> str:
    """The subject of a difference: `random reads at 8 threads per node, 4 KiB`, `create rate`, `p99 of stat`."""
    known = phases().get(one.phase)
    name = known.help if known and known.kind == "data" else f"{one.phase.replace('_', ' ')} rate"
    if found.column:
        figure = next((name for name, metric in METRICS.items() if metric.column == found.column), found.column)
        name = f"{figure} of {name.removesuffix(' rate')}"
    if len({other.conditions for other in found.singles if other.phase == one.phase}) > 1:
        name += f" ({formats.describe(one.conditions, one.pairs[0].a.kind, [one.phase])})"
    place = ", ".join(formats.named(column, value) for column, value in parameters_of(found, one).items())
    return f"{name} at {place}" if place else name


def parameters_of(found: Comparison, one: Difference) -> dict[str, Value]:
    """Parameters that distinguish a difference from the others of its phase: column -> value."""
    if not one.single:
        return dict(one.where)
    alike = [other.pairs[0].a for other in found.singles if other.kind == one.kind]
    own = one.pairs[0].a.parameters
    return {name: v for name in parameters() if len(distinct(alike, name)) > 1 and (v := own[name]) is not None}


def interval(one: Difference) -> str:
    """The change, or why there is none."""
    return write_change(one.change) if one.change else one.why


def write_change(change: Change) -> str:
    """`−6.1 % (−8.2 to −4.0)`"""
    share, low, high = (
        percent_change(share, 1 if abs(share) < 0.995 else 0) if abs(share) >= 0.0005 else f"{100 * abs(share):.1f}"
        for share in (change.share, *change.within())
    )
    return f"{share} % ({low} to {high})"


def figures(one: Difference, column: str) -> tuple[str, str]:
    """The figures of both campaigns for a single result: geometric means of the repetitions, because the change is
    their ratio."""
    if not one.single:
        return "", ""
    pair = one.pairs[0]
    units = formats.units_of(column or pair.a.metric, pair.a.kind)
    centers = (result.center(column or pair.a.metric) or 0.0 for result in (pair.a, pair.b))
    first, other = (formats.quantity(center, units) for center in centers)
    return first, other


def counted(found: Comparison) -> list[tuple[Verdict, int, str]]:
    """(verdict, number of results, label of the number)."""
    called: dict[Verdict, str] = {
        "worse": "worse",
        "better": "better",
        "same": f"without a difference > {100 * found.at_least:g} %",
        "undecided": "undecided",
    }
    return [(verdict, found.count(verdict), name) for verdict, name in called.items()]


def notes(one: Versus) -> Iterator[str]:
    """Sentences that a reader needs to interpret a comparison."""
    found = one.found
    yield from absences(found, one.names)
    tested = sum(own.change is not None for own in found.differences)
    if not tested:
        yield "No change has an interval, so nothing is decided; each result says why."
    else:
        yield (
            "Intervals are 95 % of each result, of the noise within the campaigns; verdicts allow for"
            f" {human_count(tested, 'comparison')}, so that of 100 pairs that differ by this noise alone at most 5 show"
            " a difference."
        )
        yield (
            "Sessions of one system differ, too (other load, the state of the file system), and these intervals do not"
            " hold that: measure both again, in turn, before you act on a difference."
        )
    if doubted := [own for own in found.singles if own.suspect]:
        have = human_count(len(doubted), "result has", "results have")
        sides = (side for own in doubted for side in (own.pairs[0].a, own.pairs[0].b) if side.verdict != "valid")
        why = caveats.tell(result.reasons for result in sides)
        yield f"{have} repetitions that are suspect or were left out as invalid (○): {why}."


def absences(found: Comparison, names: tuple[str, str]) -> Iterator[str]:
    """A sentence for each reason why results are not compared."""
    for side, why in dict.fromkeys((one.side, one.why) for one in found.absent):
        own = [one.result for one in found.absent if (one.side, one.why) == (side, why)]
        verb, points = ("is" if len(own) == 1 else "are"), len({result.point for result in own})
        if why:
            yield f"{human_count(len(own), 'result')} {verb} not compared: {why} in {names[side]}."
        else:
            yield f"{human_count(len(own), 'result')} of {human_count(points, 'point')} {verb} only in {names[side]}."


# what else changed

#: Most characters of a value.
_MOST = 120
NOT_KNOWN = "not recorded"


@dataclass(frozen=True)
class Changed:
    """A fact that differs between two campaigns. topic: a key of _TOPICS."""

    topic: str
    what: str
    a: str
    b: str


def changes(a: Campaign, b: Campaign) -> list[Changed]:
    """All facts that differ; topics that explain a figure best come first."""
    found = []
    for topic, read in _TOPICS.items():
        facts, others = read(a), read(b)
        for what in dict.fromkeys((*facts, *others)):
            one, other = (shortened(side.get(what, "") or NOT_KNOWN, _MOST) for side in (facts, others))
            if facts.get(what, "") != others.get(what, ""):
                found.append(Changed(topic, what, one, other))
    return found


def _tools(campaign: Campaign) -> dict[str, str]:
    found: dict[str, list[str | None]] = {}
    for row in campaign.rows:
        if row.tool_version:
            tool = formats.tool(row.tool)
            found.setdefault(tool, []).append(formats.version(row.tool, row.tool_version))
            found.setdefault(f"{tool} binary", []).append(row.tool_sha256 and f"sha256 {row.tool_sha256[:12]}")
            document = campaign.about.builds.get(row.build or "")
            program = document.tools.get(row.tool) if document else None
            found.setdefault(f"{tool} package", []).append(program.package if program else None)
            if document and document.mpi and formats.is_mpi(row.tool):
                mpi = " ".join(filter(None, (document.mpi.package, document.mpi.version)))
                found.setdefault("MPI", []).append(mpi)
    return {"iosweep": campaign.about.iosweep_version, **{what: _several(texts) for what, texts in found.items()}}


def _nodes(campaign: Campaign) -> dict[str, str]:
    hosts = {host for row in campaign.rows if row.hosts for host in row.hosts.split(",")}
    used = [node for node in campaign.nodes if not hosts or node.host in hosts]
    return {
        "nodes": formats.hosts(hosts),
        **{what: _several(map(read, used)) for what, read in _FACTS.items()},
        "pinning": _several(row.pinning for row in campaign.rows),
        "placement": _several(row.placement for row in campaign.rows),
        "launcher": _several(job.launcher for job in campaign.about.jobs),
    }


_FACTS: dict[str, Callable[[NodeRow], str | None]] = {
    "CPU": lambda node: node.cpu_model,
    "CPUs": lambda node: str(node.cpus) if node.cpus else None,
    "memory": lambda node: human_size(node.memory_bytes) if node.memory_bytes else None,
    "network": lambda node: ", ".join(
        f"{nic.name} {nic.speed_bits_per_s / 1e9:g} Gbit/s"
        for nic in node.nics or ()
        if nic.state == "up" and nic.speed_bits_per_s
    ),
    "kernel": lambda node: node.kernel,
    "system": lambda node: node.os,
    "governor": lambda node: node.governor,
    "huge pages": lambda node: node.transparent_hugepages,
    "clock": lambda node: node.clocksource,
    "reserved CPUs": lambda node: node.reserved_cpus,
}


def _target(campaign: Campaign) -> dict[str, str]:
    rows = campaign.rows
    return {
        "directory": campaign.about.target.directory,
        "type": _several(row.target_fstype for row in rows),
        "source": _several(row.target_source for row in rows),
        "layout": _several(row.target_layout for row in rows),
        "mount options": _several(map(_options, campaign.nodes)),
        "size": _several(human_size(node.target_bytes) for node in campaign.nodes if node.target_bytes),
    }


def _options(node: NodeRow) -> str:
    """Mount options in a line of /proc/self/mountinfo: of the mount, then of the file system."""
    before, _, after = (node.mount or "").partition(" - ")
    own, of_type = before.split(), after.split()
    texts = [*(own[5].split(",") if len(own) > 5 else []), *(of_type[2].split(",") if len(of_type) > 2 else [])]
    return ",".join(dict.fromkeys(texts))


def _configuration(campaign: Campaign) -> dict[str, str]:
    """Dotted key -> value, for all files of the configuration. A file that is not YAML is compared as a whole."""
    found: dict[str, str] = {}
    for file in campaign.about.configuration:
        try:
            found |= _values(yaml_lines.parse(file.file, file.text).data, "")
        except ConfigError:
            found[file.file] = file.text
    return {key: text for key, text in found.items() if key != "campaign"}


def _values(value: object, key: str) -> dict[str, str]:
    """Entries of lists are identified by name, not by number, so that another order is not a difference."""
    if isinstance(value, dict) and value:
        parts = [_values(below, f"{key}.{name}" if key else str(name)) for name, below in value.items()]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        names = [isinstance(one, dict) and (one.get("name") or one.get("suite")) for one in value]
        parts = [_values(one, f"{key}[{names[number] or number}]") for number, one in enumerate(value)]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list):
        return {key: ", ".join(map(_text, value))}
    return {key: _text(value)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "(empty)" if value in ("", None, {}) else str(value)


def _several(texts: Iterable[str | None]) -> str:
    """Distinct values in natural order: the first three, and the number of others."""
    found: Sequence[str] = sorted({text for text in texts if text}, key=formats.natural)
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


#: Topic -> reads its facts from a campaign.
_TOPICS: dict[str, Callable[[Campaign], dict[str, str]]] = {
    "target": _target,
    "tools": _tools,
    "nodes": _nodes,
    "configuration": _configuration,
}
