"""Differences between two campaigns: their size and certainty, what else changed, and their wording. Pure.

A difference concerns a single result that both campaigns have, or a group: a whole phase, or the results of a phase
with the same value of a parameter. All differences are tested together (Holm): if nothing differs, at most one
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
from iosweep.judge import statistics
from iosweep.judge.statistics import ALPHA, Estimate
from iosweep.plan import headline_groups
from iosweep.plan.headline_groups import Conditions
from iosweep.tables.reader import Campaign, NodeRow, Value
from iosweep.text import human_count, percent_change, shortened
from iosweep.tools import parameters, phases
from iosweep.units import human_size

#: Better and worse: significant, and large enough to matter. Same: certainly too small to matter.
Verdict = Literal["worse", "better", "undecided", "same"]
SYMBOLS: Mapping[Verdict, str] = {"worse": "▼", "better": "▲", "undecided": "?", "same": "="}
LEGEND = "▼ worse, ▲ better, = no difference that matters, ? undecided, ○ in doubt."
#: The smallest difference that matters, as a share: sessions on the same system seldom differ by more.
AT_LEAST = 0.03
#: Maximum number of differences that the sentence names.
_NAMED = 3

# the results that both campaigns have


@dataclass(frozen=True)
class Pair:
    """The same phase of the same point in two campaigns."""

    a: PointSummary
    b: PointSummary


@dataclass(frozen=True)
class Absent:
    """A result that is not compared. side: campaign of the result (0: first, 1: other); why: reason why its figure
    cannot be compared, "" if the other campaign does not have the result."""

    side: int
    result: PointSummary
    why: str = ""


def match(a: Sequence[PointSummary], b: Sequence[PointSummary]) -> tuple[list[Pair], list[Absent]]:
    """Pair the results of two campaigns by point id, which identifies everything that determines a measurement. Results
    without a figure are paired, too."""
    keyed = [{(result.point, result.phase): result for result in side} for side in (a, b)]
    pairs = [Pair(result, keyed[1][key]) for key, result in keyed[0].items() if key in keyed[1]]
    absent = [
        Absent(side, result)
        for side, (results, others) in enumerate((keyed, keyed[::-1]))
        for key, result in results.items()
        if key not in others
    ]
    return pairs, absent


# their differences

#: A phase under the same conditions.
Kind = tuple[Conditions, str]


@dataclass(frozen=True)
class Difference:
    """The difference of one pair, or of several pairs of a phase.

    where: parameter values that the pairs of a group share; change: from the first campaign to the other, None if the
    scatter of the figures is unknown (`why` says so); p: p-value, adjusted for all differences of the comparison.
    """

    phase: str
    conditions: Conditions
    pairs: tuple[Pair, ...]
    change: Estimate | None
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
        """Whether any result is not valid."""
        return any(result.verdict != "valid" for pair in self.pairs for result in (pair.a, pair.b))


@dataclass(frozen=True)
class Comparison:
    """The other campaign compared with the first.

    column: the compared figure, "" for the headline of each phase; singles: a difference for each pair with figures on
    both sides; groups: differences of several pairs.
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
        return [diff for diff in self.differences if diff.verdict == "worse"]

    @property
    def undecided(self) -> list[Difference]:
        return [diff for diff in self.singles if diff.verdict == "undecided"]

    def count(self, verdict: Verdict) -> int:
        """Number of pairs with this verdict."""
        return sum(diff.verdict == verdict for diff in self.singles)


def compare(
    a: Sequence[PointSummary],
    b: Sequence[PointSummary],
    column: str = "",
    at_least: float = AT_LEAST,
) -> Comparison:
    """Compare two campaigns. column: the figure to compare, "" for the headline of each phase; at_least: the smallest
    difference that matters, as a share."""
    pairs, absent = match(a, b)
    singles = []
    for pair in pairs:
        figure = column or pair.a.metric
        lacking = [(side, result) for side, result in enumerate((pair.a, pair.b)) if figure not in result.metrics]
        if lacking:
            side, result = lacking[0]
            why = result.verdict if result.verdict in ("invalid", "missing") else f"without {figure}"
            absent.append(Absent(side, result, why))
            continue
        before, after = pair.a.sample(figure), pair.b.sample(figure)
        change = statistics.ratio_of_rounds([(after, before)]) if after and before else None
        why = "" if change else "too few repetitions, on different nodes, or a figure of zero"
        conditions = headline_groups.conditions(pair.a.tool, pair.a.own_parameters)
        applying = headline_groups.of_phase(conditions, pair.a.phase)
        singles.append(Difference(pair.a.phase, applying, (pair,), change, {}, why=why))
    groups = list(_group(singles, column))
    judged = list(_judge([*groups, *singles], column, at_least))
    return Comparison(column, at_least, tuple(judged[len(groups) :]), tuple(judged[: len(groups)]), tuple(absent))


def _group(singles: Sequence[Difference], column: str) -> Iterator[Difference]:
    """Yield all pairs of a phase under the same conditions, then the pairs of each value of each parameter that varies.
    A group with the same pairs as an earlier group is skipped."""
    kinds: dict[Kind, list[Difference]] = {}
    for diff in singles:
        if diff.change:
            kinds.setdefault(diff.kind, []).append(diff)
    for (conditions, phase), members in sorted(kinds.items(), key=lambda item: phase_order(item[0][1])):
        values: dict[tuple[str, Value] | None, list[Difference]] = {None: members}
        for parameter in parameters():
            if len(distinct(diff.pairs[0].a.own_parameters[parameter] for diff in members)) > 1:
                for diff in members:
                    if (value := diff.pairs[0].a.own_parameters[parameter]) is not None:
                        values.setdefault((parameter, value), []).append(diff)
        groups: dict[tuple[int, ...], tuple[tuple[str, Value] | None, list[Difference]]] = {}
        for where, subset in values.items():
            groups.setdefault(tuple(map(id, subset)), (where, subset))
        for where, subset in groups.values():
            pairs = tuple(diff.pairs[0] for diff in subset)
            samples = [(p.b.sample(column or p.a.metric), p.a.sample(column or p.a.metric)) for p in pairs]
            both = [(b, a) for b, a in samples if a and b]
            if len(pairs) > 1 and (change := statistics.ratio_of_rounds(both)):
                yield Difference(phase, conditions, pairs, change, dict([where] if where else []))


def _judge(differences: Sequence[Difference], column: str, at_least: float) -> Iterator[Difference]:
    """Yield the differences with their adjusted p-values and verdicts."""
    adjusted = iter(statistics.holm(diff.change.p() for diff in differences if diff.change))
    for diff in differences:
        if diff.change is None:
            yield diff
            continue
        p, share, (low, high) = next(adjusted), diff.change.share, within(diff.change)
        verdict: Verdict = "undecided"
        if p <= ALPHA and abs(share) >= at_least:
            verdict = "better" if (share > 0) != lower_is_better(column) else "worse"
        elif -at_least < low and high < at_least:
            verdict = "same"
        yield replace(diff, p=p, verdict=verdict)


def lower_is_better(column: str) -> bool:
    return "latency" in column


def explained(found: Comparison) -> list[Difference]:
    """The significant differences to report, clearest first. Whole phases, parameter values and single points compete
    to explain the figures; each pair is in one difference only."""
    changed = [diff for diff in found.differences if diff.verdict in ("worse", "better")]
    errors = {id(diff.pairs[0]): diff.change.error for diff in found.singles if diff.change}

    def weight(diff: Difference) -> tuple[float, int]:
        assert diff.change is not None
        # combine the pairs' errors as if independent: the scatter of a few rounds may be small by luck
        error = math.hypot(*(errors[id(pair)] for pair in diff.pairs)) / len(diff.pairs)
        return (abs(diff.change.log) / error if error else math.inf, len(diff.pairs))

    chosen: list[Difference] = []
    covered: set[int] = set()
    for diff in sorted(changed, key=weight, reverse=True):
        pairs = {id(pair) for pair in diff.pairs}
        if not pairs & covered:
            chosen.append(diff)
            covered |= pairs
    return chosen


# two campaigns


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
    """Unique names of campaigns: the campaign's name alone, or with its target, its directory or a number.

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
    for diff in changed[:_NAMED]:
        mean = "" if diff.single else f" in the mean of {human_count(len(diff.pairs), 'result')}"
        parts.append(f"{subject(found, diff)}: {interval(diff)}{mean}")
    if rest := changed[_NAMED:]:
        parts.append(f"{human_count(sum(len(diff.pairs) for diff in rest), 'other result')} differ, too")
    parts += filter(None, [_describe_rest(found, changed)])
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _describe_rest(found: Comparison, changed: Sequence[Difference]) -> str:
    """A clause about the results that the rest of the sentence does not cover."""
    covered = {id(pair) for diff in changed for pair in diff.pairs}
    others = [diff for diff in found.singles if id(diff.pairs[0]) not in covered]
    if not others:
        return "" if changed else "nothing was compared"
    least = f"{100 * found.at_least:g} %"
    if all(diff.change for diff in others):  # bound of all changes, with simultaneous 95 % confidence
        bound = max(abs(end) for diff in others if diff.change for end in within(diff.change.at(ALPHA / len(others))))
        if bound <= found.at_least:
            return f"nothing {'else ' if changed else ''}differs by more than {math.ceil(1000 * bound) / 10:g} %"
    undecided = sum(diff.verdict == "undecided" for diff in others)
    claim = f"no {'other ' if changed else ''}difference of {least} or more"
    scope = f"{'the other ' if changed else ''}{human_count(len(others), 'result')}"
    verb = "is" if undecided == 1 else "are"
    if undecided == len(others):
        which = f"all {scope}" if undecided > 1 else f"{undecided:,} of {scope}"
        return f"{claim} can be shown: {which} {verb} undecided"
    return f"{claim} was found" + (f", but {undecided:,} of {scope} {verb} undecided" if undecided else "")


def subject(found: Comparison, diff: Difference) -> str:
    """The subject of a difference: `random reads at 8 threads per node, 4 KiB`, `create rate`, `p99 of stat`."""
    known = phases().get(diff.phase)
    name = known.help if known and known.kind == "data" else f"{diff.phase.replace('_', ' ')} rate"
    if found.column:
        figure = next((name for name, metric in METRICS.items() if metric.column == found.column), found.column)
        name = f"{figure} of {name.removesuffix(' rate')}"
    if len({other.conditions for other in found.singles if other.phase == diff.phase}) > 1:
        name += f" ({formats.describe(diff.conditions, diff.pairs[0].a.kind, [diff.phase])})"
    place = ", ".join(formats.named(column, value) for column, value in parameters_of(found, diff).items())
    return f"{name} at {place}" if place else name


def parameters_of(found: Comparison, diff: Difference) -> dict[str, Value]:
    """Parameters that distinguish a difference from the others of its phase: column -> value."""
    if not diff.single:
        return dict(diff.where)
    places = [other.pairs[0].a.own_parameters for other in found.singles if other.kind == diff.kind]
    varying = (name for name in parameters() if len(distinct(place[name] for place in places)) > 1)
    return {name: v for name in varying if (v := diff.pairs[0].a.own_parameters[name]) is not None}


def interval(diff: Difference) -> str:
    """The change, or why there is none."""
    return write_change(diff.change) if diff.change else diff.why


def write_change(change: Estimate) -> str:
    """`−6.1 % (−8.2 to −4.0)`"""
    ends = within(change)
    share, low, high = (
        percent_change(share, 1 if abs(share) < 0.995 else 0) if abs(share) >= 0.0005 else f"{100 * abs(share):.1f}"
        for share in (change.share, *ends)
    )
    return f"{share} % ({low} to {high})" if change.tells else f"{share} % (too few to say)"


def within(change: Estimate) -> tuple[float, float]:
    """The interval of a change as shares."""
    return change.low - 1, change.high - 1


def figures(diff: Difference, column: str) -> tuple[str, str]:
    """The figures of both campaigns for a single result: geometric means of the repetitions, because the change is
    their ratio."""
    if not diff.single:
        return "", ""
    pair = diff.pairs[0]
    units = formats.units_of(column or pair.a.metric, pair.a.kind)
    centers = (result.figure(column or pair.a.metric) or 0.0 for result in (pair.a, pair.b))
    first, other = (formats.quantity(center, units) for center in centers)
    return first, other


def counted(found: Comparison) -> list[tuple[Verdict, int, str]]:
    """The number of results of each verdict: (verdict, number, label)."""
    labels: dict[Verdict, str] = {
        "worse": "worse",
        "better": "better",
        "same": f"without a difference > {100 * found.at_least:g} %",
        "undecided": "undecided",
    }
    return [(verdict, found.count(verdict), name) for verdict, name in labels.items()]


def notes(compared: Versus) -> Iterator[str]:
    """Sentences that a reader needs to interpret a comparison."""
    found = compared.found
    yield from absences(found, compared.names)
    tested = sum(diff.change is not None for diff in found.differences)
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


# what else changed

#: Maximum length of a value.
_LONGEST = 120
NOT_KNOWN = "not recorded"


@dataclass(frozen=True)
class Changed:
    """A fact that differs between two campaigns. topic: a key of _TOPICS."""

    topic: str
    what: str
    a: str
    b: str


def changes(a: Campaign, b: Campaign) -> list[Changed]:
    """All facts that differ, in the order of _TOPICS: likely explanations of a difference come first."""
    changed = []
    for topic, read in _TOPICS.items():
        facts, others = read(a), read(b)
        for fact in dict.fromkeys((*facts, *others)):
            first, second = (shortened(side.get(fact, "") or NOT_KNOWN, _LONGEST) for side in (facts, others))
            if facts.get(fact, "") != others.get(fact, ""):
                changed.append(Changed(topic, fact, first, second))
    return changed


def _read_tools(campaign: Campaign) -> dict[str, str]:
    facts: dict[str, list[str | None]] = {}
    for row in campaign.rows:
        if row.tool_version:
            tool = formats.tool(row.tool)
            facts.setdefault(tool, []).append(formats.version(row.tool, row.tool_version))
            facts.setdefault(f"{tool} binary", []).append(row.tool_sha256 and f"sha256 {row.tool_sha256[:12]}")
            document = campaign.about.builds.get(row.build or "")
            program = document.tools.get(row.tool) if document else None
            facts.setdefault(f"{tool} package", []).append(program.package if program else None)
            if document and document.mpi and formats.is_mpi(row.tool):
                mpi = " ".join(filter(None, (document.mpi.package, document.mpi.version)))
                facts.setdefault("MPI", []).append(mpi)
    return {"iosweep": campaign.about.iosweep_version, **{fact: _join_distinct(texts) for fact, texts in facts.items()}}


def _read_nodes(campaign: Campaign) -> dict[str, str]:
    hosts = {host for row in campaign.rows if row.hosts for host in row.hosts.split(",")}
    used = [node for node in campaign.nodes if not hosts or node.host in hosts]
    return {
        "nodes": formats.hosts(hosts),
        **{fact: _join_distinct(map(read, used)) for fact, read in _NODE_FACTS.items()},
        "pinning": _join_distinct(row.pinning for row in campaign.rows),
        "placement": _join_distinct(row.placement for row in campaign.rows),
        "launcher": _join_distinct(job.launcher for job in campaign.about.jobs),
    }


_NODE_FACTS: dict[str, Callable[[NodeRow], str | None]] = {
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


def _read_target(campaign: Campaign) -> dict[str, str]:
    rows = campaign.rows
    return {
        "directory": campaign.about.target.directory,
        "type": _join_distinct(row.target_fstype for row in rows),
        "source": _join_distinct(row.target_source for row in rows),
        "layout": _join_distinct(row.target_layout for row in rows),
        "mount options": _join_distinct(map(_mount_options, campaign.nodes)),
        "size": _join_distinct(human_size(node.target_bytes) for node in campaign.nodes if node.target_bytes),
    }


def _mount_options(node: NodeRow) -> str:
    """Mount options in a line of /proc/self/mountinfo: those of the mount, then those of the file system."""
    mount_part, _, fs_part = (node.mount or "").partition(" - ")
    fields = mount_part.split()[5:6] + fs_part.split()[2:3]
    return ",".join(dict.fromkeys(",".join(fields).split(",")))


def _read_configuration(campaign: Campaign) -> dict[str, str]:
    """Dotted key -> value, for all files of the configuration. A file that is not YAML is compared as a whole."""
    settings: dict[str, str] = {}
    for file in campaign.about.configuration:
        try:
            settings |= _flatten(yaml_lines.parse(file.file, file.text).data, "")
        except ConfigError:
            settings[file.file] = file.text
    return {key: text for key, text in settings.items() if key != "campaign"}


def _flatten(value: object, key: str) -> dict[str, str]:
    """Dotted key -> value. List entries are identified by name, so that a different order is not a difference."""
    if isinstance(value, dict) and value:
        parts = [_flatten(child, f"{key}.{name}" if key else str(name)) for name, child in value.items()]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        names = [isinstance(entry, dict) and (entry.get("name") or entry.get("suite")) for entry in value]
        parts = [_flatten(entry, f"{key}[{names[number] or number}]") for number, entry in enumerate(value)]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list):
        return {key: ", ".join(map(_format, value))}
    return {key: _format(value)}


def _format(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "(empty)" if value in ("", None, {}) else str(value)


def _join_distinct(texts: Iterable[str | None]) -> str:
    """Join distinct values in natural order: the first three, and the number of others."""
    distinct_texts: Sequence[str] = sorted({text for text in texts if text}, key=formats.natural)
    more = f" and {len(distinct_texts) - 3} more" if len(distinct_texts) > 3 else ""
    return "; ".join(distinct_texts[:3]) + more


#: Topic -> reads its facts from a campaign.
_TOPICS: dict[str, Callable[[Campaign], dict[str, str]]] = {
    "target": _read_target,
    "tools": _read_tools,
    "nodes": _read_nodes,
    "configuration": _read_configuration,
}
