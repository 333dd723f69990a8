"""The first screen: what is measured, what spoils it, and the best figure of every phase with how sure we are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iosweep.analysis import acceptance, axes, findings, formats, headline, published, sentences
from iosweep.analysis.data import Campaign, CheckRow
from iosweep.analysis.findings import Shared
from iosweep.analysis.headline import Best, Failed
from iosweep.analysis.published import Known
from iosweep.analysis.summary import OUTCOMES, PointSummary, count_repetitions, phase_order, repetitions
from iosweep.node import fs_types
from iosweep.plan import headline_groups
from iosweep.plan.headline_groups import LATENCY_PHASES
from iosweep.plan.model import SweepFacts
from iosweep.report import system, tables
from iosweep.target.identify import on_root
from iosweep.text import human_count, some

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_STYLES = {
    "valid": "green",
    "suspect": "yellow",
    "invalid": "red",
    "missing": "bright_black",
    "left": "cyan",
    "unneeded": "bright_black",
}


#: Sentences that are seen at once, unless the first sweep alone has more.
_SENTENCES = 13
#: Damaged files that are named.
_NAMED = 5


@dataclass(frozen=True)
class Entry:
    """One headline figure. Without a figure (`value` is ""), `place` says why."""

    label: str
    value: str  # with its unit
    more: str  # a second figure, such as the 99th percentile or that of each node; else ""
    spread: str
    incomplete: str  # how many of its repetitions count, where not all: `2 of 3 repetitions, 1 invalid`; else ""
    place: str  # the point's parameters in brief
    verdict: str
    point: str
    best: Best | None = None
    reason: str = ""  # why it is not valid, unless `spread` says it
    published: str = ""  # its share of a published figure

    @property
    def doubt(self) -> str:
        """`Stat files is suspect: ...`, `Stat files: 1 repetition is invalid, and not in the figure: ...`, or ""."""
        if not (self.reason and self.best):
            return ""
        why = self.best.in_doubt
        return f"{self.label}{' is ' if why == self.verdict else ': '}{why}: {self.reason}"

    @property
    def notes(self) -> tuple[str, ...]:
        """How the point was chosen, which ones are better in the tables, which it cannot be told apart from, and its
        share of a published figure."""
        found = self.best
        return tuple(filter(None, (found.chosen, found.not_chosen, found.doubt, self.published))) if found else ()


@dataclass(frozen=True)
class Group:
    """Headline figures that were measured under the same conditions."""

    title: str
    entries: tuple[Entry, ...]


def groups(
    results: Sequence[PointSummary], checks: Iterable[CheckRow] = (), shared: Shared = frozenset()
) -> list[Group]:
    """The headline, per conditions: nothing is the best of things that do not compare. Pure.

    shared: reasons that are named elsewhere, once for all.
    """
    fails = headline.failed_checks(checks)
    conditions, files = formats.conditions(results), _files(results)
    one, several = _over_nodes(results), findings.several_builds(results)

    def place(result: PointSummary) -> str:
        parts = formats.brief(result, one=one), findings.of_builds(result) if result.tool in several else ""
        return ", ".join(filter(None, parts))

    found = []
    for kind in ("data", "metadata"):
        of_kind = [result for result in results if result.kind == kind]
        keys = [(headline_groups.of_phase(conditions[r.point], r.phase), files.get(r.point)) for r in of_kind]
        distinct_keys = dict.fromkeys(keys)
        homes = {key: _home(key, distinct_keys) for key in distinct_keys}
        for home in dict.fromkeys(homes.values()):
            own = [r for r, key in zip(of_kind, keys, strict=True) if homes[key] == home]
            title = formats.describe(home[0], kind, [r.phase for r in own]) + (f", {home[1]}" if home[1] else "")
            found.append(Group(title, tuple(_entries(own, place, fails, shared))))
    return found


def beside_published(groups: Iterable[Group], known: Known) -> list[Group]:
    """The groups with the published figures that their entries compare with. Pure."""

    def told(entry: Entry) -> Entry:
        one = known.get((entry.point, entry.best.result.phase)) if entry.best else None
        same = one and entry.best and one.published.lowest == ("latency" in entry.best.column)
        return replace(entry, published=one.text) if one and same else entry

    return [replace(group, entries=tuple(map(told, group.entries))) for group in groups]


#: Conditions of a headline figure, and the files that its points make where these differ.
_Key = tuple[headline_groups.Conditions, str | None]


def _home(key: _Key, keys: Iterable[_Key]) -> _Key:
    """The key of the group that shows a figure, of those with the same files."""
    return formats.home(key[0], [other for other, files in keys if files == key[1]]), key[1]


#: Where a figure was measured, in words.
Place = Callable[[PointSummary], str]


def _over_nodes(results: Sequence[PointSummary]) -> bool:
    """Whether something was measured on several nodes at once."""
    return any(result.nodes > 1 for result in results)


def _files(results: Sequence[PointSummary]) -> dict[str, str]:
    """Point -> the files that it makes, where points make unlike ones: creating empty files is another thing."""
    sizes = {
        r.point: size for r in results if r.kind == "metadata" and (size := r.count("file_size_bytes")) is not None
    }
    if len(set(sizes.values())) < 2:
        return {}
    return {point: f"files of {formats.size(size)}" if size else "empty files" for point, size in sizes.items()}


def _entries(results: Sequence[PointSummary], place: Place, fails: Failed, shared: Shared) -> Iterator[Entry]:
    phases = sorted({result.phase for result in results}, key=phase_order)
    for phase in phases:
        yield _rate([result for result in results if result.phase == phase], place, fails, shared)
    for phase in phases:
        if phase in LATENCY_PHASES and (
            found := headline.lowest_latency([result for result in results if result.phase == phase], fails)
        ):
            yield _latency(found, place, fails, shared)


def _rate(results: Sequence[PointSummary], place: Place, fails: Failed, shared: Shared) -> Entry:
    label = formats.phase(results[0].phase)
    found = headline.highest(results, fails)
    if found is None:
        reason = findings.reasons(results, most=1)
        return Entry(label, "", "", "", "", reason, results[0].state, results[0].point)
    best = found.result
    units = formats.units_of(best.metric, best.kind)
    each = f"{formats.quantity(found.figure.mean / best.nodes, units)} per node" if best.nodes > 1 else ""
    return _entry(label, found, units, each, place, headline.reason(found, fails, shared))


def _latency(found: Best, place: Place, fails: Failed, shared: Shared) -> Entry:
    tail = found.figures.get("latency_p99_s")
    more = "" if tail is None else f"p99 {formats.quantity(tail.median, formats.LATENCY)}"
    label, why = f"{formats.phase(found.result.phase)} latency", headline.reason(found, fails, shared)
    return _entry(label, found, formats.LATENCY, more, place, why)


def _entry(label: str, found: Best, units: Sequence[formats.Unit], more: str, place: Place, reason: str) -> Entry:
    statistics, result = found.figure, found.result
    incomplete = "" if found.confirmed else findings.incomplete(result)
    spread = formats.spread(statistics, units) if statistics.n > 1 or not incomplete else ""
    return Entry(
        label=label,
        value=formats.quantity(statistics.mean, units),
        more=more,
        spread=", ".join(filter(None, (spread, findings.over_hosts(result)))),
        incomplete=incomplete,
        place=place(result),
        verdict=found.verdict,
        point=result.point,
        best=found,
        reason=reason,
    )


def answer(campaign: Campaign, results: Sequence[PointSummary], known: Known) -> dict[str, object]:
    """What the first screen of the page shows."""
    shared = findings.shared(results)
    found = repetitions(campaign.rows, campaign.about.sweeps)
    counts = count_repetitions(found)
    decisions = acceptance.of(campaign, results)
    return {
        "about": campaign.about,
        "measured": formats.span(row.started for row in campaign.rows if row.started),
        "hosts": _hosts(results),
        "targets": _targets(campaign),
        "tools": tables.programs(campaign),
        "counts": {one: count for one, count in counts.items() if count or one not in ("left", "unneeded")},
        "progress": findings.measured(counts),
        "shares": _shares(counts),
        "absent": {
            one: findings.why(found, one, shared)
            for one in ("left", "missing", "unneeded", "invalid", "suspect")
            if counts[one]
        },
        "not_checked": tables.not_checked(campaign.checks),
        "scaled": scaled(campaign.about.sweeps),
        "node_check": system.node_check(campaign, results),
        "pinned": system.pinning_proven(campaign),
        "remarks": remarks(campaign),
        "unlike": system.unlike(campaign, results),
        "unlike_builds": list(findings.unlike_builds(results)),
        "acceptance": decisions,
        "acceptance_shared": acceptance.shared(decisions),
        "accepted": (acceptance.worst(decisions), acceptance.sentence(decisions)) if decisions else None,
        **_told(campaign, results, shared),
        "headline": beside_published(groups(results, campaign.checks, shared), known),
        "knees": axes.bends(results, campaign.about.sweeps),
        "latencies": any("latency_mean_s" in result.metrics for result in results),
    }


def _told(campaign: Campaign, results: Sequence[PointSummary], shared: findings.Shared) -> dict[str, object]:
    """The sentences of the sweeps: those that are seen at once, whole sweeps, and those that a click shows."""
    fails = headline.failed_checks(campaign.checks)
    found = sentences.of(results, campaign.about.sweeps, fails, system.SUITE, shared)
    shown, lines = 0, 0
    for told in found:
        lines += len(told.sentences)
        if shown and lines > _SENTENCES:
            break
        shown += 1
    return {"told": found[:shown], "told_later": found[shown:]}


def _targets(campaign: Campaign) -> list[tuple[str | None, str]]:
    """Types and sources of the target's file system."""
    known = ((row.target_fstype, row.target_source) for row in campaign.rows if row.target_source is not None)
    return list(dict.fromkeys(known))


def _hosts(results: Sequence[PointSummary]) -> str:
    """All nodes that measured; "" where none has."""
    names = {host for result in results for host in result.hosts}
    return f"{len(names):,} nodes: {formats.hosts(names)}" if len(names) > 3 else formats.hosts(names)


def _shares(counts: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """(outcome, start, width) of the bar that shows the outcomes' shares, in repetitions."""
    found, start = [], 0
    for one in OUTCOMES:
        found.append((one, start, counts[one]))
        start += counts[one]
    return found


def remarks(campaign: Campaign) -> list[str]:
    """One sentence for each remark; none for a storage system with the results elsewhere."""
    directory, types = campaign.about.target.directory, {row.target_fstype for row in campaign.rows}
    found = []
    if memory := sorted(name for name in types if name and fs_types.of(name).memory):
        found.append(
            f"The target {directory} is in memory ({', '.join(memory)}): these figures are of the nodes' memory, not of"
            " a storage system."
        )
    elif any(on_root(row.mount) for row in campaign.nodes):
        found.append(
            f"The target {directory} is on the root file system: these figures are of the system disk, which the"
            " operating system uses at the same time, not of a storage system."
        )
    if campaign.about.results_on_target:
        found.append(
            "The results are stored on the file system under test: what is written there is part of its load. Keep them"
            " elsewhere to measure it alone."
        )
    measured = [row for row in campaign.rows if row.verdict != "missing"]
    if count := len({row.point for row in measured if row.parameters["client_server"]}):
        found.append(
            "fio listened without authentication on a free port of each node's address while the phases of"
            f" {human_count(count, 'point')} ran (client_server): whoever reached it could run commands as the user."
        )
    if damaged := campaign.about.damaged:
        named = some([f"{file} ({reason})" for file, reason in damaged.items()], _NAMED, separator="; ")
        found.append(f"Damaged files of the results were left out: {named}.")
    return found


# in a terminal


def table(campaign: Campaign, summary: Sequence[PointSummary]) -> RenderableType:
    """What `iosweep show` prints, for a terminal of at least 80 columns."""
    from rich.console import Group as Lines
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    shared = findings.shared(summary)
    parts: list[RenderableType] = [_title(campaign, summary), _verdicts(campaign, shared)]
    parts += [Text(text, style="yellow") for text in remarks(campaign)]
    parts += [Text(text, style="yellow") for text in scaled(campaign.about.sweeps)]
    if checked := system.node_check(campaign, summary):
        parts.append(Text(f"Node check: {checked.sentence}", style="yellow" if checked.odd else ""))
    if pinned := system.pinning_proven(campaign):
        parts.append(Text(f"CPUs: {pinned[1]}", style="red" if pinned[0] else ""))
    for in_turn, text in system.unlike(campaign, summary):
        parts.append(Text(text, style="" if in_turn else "yellow"))
    parts += [Text(f"Unlike builds: {text}", style="yellow") for text in findings.unlike_builds(summary)]
    fails = headline.failed_checks(campaign.checks)
    for said in sentences.of(summary, campaign.about.sweeps, fails, system.SUITE, shared):
        parts.append(Text(f"\n{said.sweep}", style="italic"))
        parts += [Padding(Text(one.text), (0, 0, 0, 2)) for one in said.sentences]
    stacked = _over_nodes(summary)  # places are longer then, and most figures have a second line anyway
    known = published.of(summary, campaign.about.sweeps)
    for group in beside_published(groups(summary, campaign.checks, shared), known):
        grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
        grid.add_column(no_wrap=True)
        grid.add_column(justify="right", no_wrap=stacked)
        doubts: list[RenderableType] = []
        for entry in group.entries:
            value = Text(entry.value or "no figure", style="bold" if entry.value else "")
            if entry.more:
                value.append(f"\n{entry.more}", style="not bold")
            spread = ", ".join(filter(None, (entry.incomplete, entry.spread)))
            told = [f"{entry.place}\n{spread}".rstrip()] if stacked else [spread, entry.place]
            grid.add_row(entry.label, value, *(Text(text) for text in told), _verdict(entry.verdict))
            doubts += [Text(entry.doubt)] if entry.doubt else []
        notes = [Text(f"{entry.label}: {'; '.join(entry.notes)}") for entry in group.entries if entry.notes]
        parts += [Text(f"\n{group.title}", style="italic"), Padding(Lines(grid, *doubts, *notes), (0, 0, 0, 2))]
    if bends := axes.bends(summary, campaign.about.sweeps):
        parts += [Text("\nRamps", style="italic"), *(Text(f"  {bend.sentence}") for bend in bends)]
    return Lines(*parts)


def scaled(sweeps: Sequence[SweepFacts]) -> list[str]:
    """The warnings that belong to suites that were made to fit, with the sweeps where they are not the whole suite."""
    suites: dict[str, list[SweepFacts]] = {}
    for sweep in (sweep for sweep in sweeps if sweep.suite != system.SUITE):  # of that, nothing is published
        suites.setdefault(sweep.suite or sweep.name, []).append(sweep)
    texts = []
    for suite, members in suites.items():
        names = [sweep.name for sweep in members if sweep.scaled]
        if names:
            whole = len(names) == len(members)
            which = f"The suite {suite}" if whole else f"{', '.join(names)} of the suite {suite}"
            many = not whole and len(names) > 1
            fate = "were scaled to fit; they do not" if many else "was scaled to fit; it does not"
            texts.append(f"{which} {fate} compare with the published figures.")
    return texts


def _title(campaign: Campaign, results: Sequence[PointSummary]) -> Text:
    from rich.text import Text

    about, hosts = campaign.about, {host for result in results for host in result.hosts}
    from_nodes = f", {len(hosts):,} nodes: {formats.hosts(hosts)}" if len(hosts) > 1 else ""
    return Text.assemble((about.campaign, "bold"), " on ", (about.target.directory, "bold"), from_nodes)


def _verdicts(campaign: Campaign, shared: Shared) -> Text:
    from rich.text import Text

    found = repetitions(campaign.rows, campaign.about.sweeps)
    counts = count_repetitions(found)
    line = Text(f"{findings.measured(counts)}: ")
    shown = {one: count for one, count in counts.items() if count or one != "unneeded"}
    line.append_text(Text("   ").join(_verdict(one, f"{count:,} {one}") for one, count in shown.items()))
    for outcome in ("left", "missing", "unneeded", "invalid", "suspect"):
        if counts[outcome]:
            line.append(f"\n{counts[outcome]:,} {outcome}: {findings.why(found, outcome, shared)}")
    left_open, applicable = tables.not_checked(campaign.checks)
    if applicable:  # there is none where everything is missing
        line.append(f"\n{left_open:,} of {human_count(applicable, 'check')} not checked")
    return line


def _verdict(verdict: str, text: str | None = None) -> Text:
    from rich.text import Text

    return Text(f"{findings.VERDICT_SYMBOLS[verdict]} {text or verdict}", style=_STYLES[verdict])
