"""The first screen: what was measured, what limits it, and the best figure of every phase with its certainty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from iosweep.analysis import acceptance, caveats, formats, headline, sentences
from iosweep.analysis.acceptance import PublishedShares
from iosweep.analysis.caveats import NOTHING, Shared
from iosweep.analysis.headline import Best
from iosweep.analysis.summary import PointSummary, count_repetitions, repetitions
from iosweep.node import fs_types
from iosweep.plan.headline_groups import LATENCY_PHASES, Conditions, Value
from iosweep.plan.model import describe_targets
from iosweep.report import quality, system
from iosweep.tables.reader import Campaign
from iosweep.target.identify import is_root_mount
from iosweep.text import human_count, some
from iosweep.tools.axes import TARGET

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
#: Outcomes with reasons, in the order of the page.
_TOLD = ("left", "missing", "unneeded", "invalid", "suspect")
#: Most sentences shown at once, unless the first sweep alone has more: others push the best figures off the screen.
_SENTENCES = 13
#: Most damaged files that are named.
_NAMED = 5

# cards


@dataclass(frozen=True)
class Card:
    """A headline figure. Without a figure (`value` is ""), `place` holds the reason.

    more: a second figure, such as the 99th percentile or the rate per node; incomplete: how many repetitions count, if
    not all; place: parameters of the point in brief; reason: why it is not valid, unless `spread` says so; published:
    its share of a published figure. Each is "" if there is nothing to say.
    """

    label: str
    value: str
    more: str
    spread: str
    incomplete: str
    place: str
    verdict: str
    best: Best | None = None
    reason: str = ""
    published: str = ""

    @property
    def notes(self) -> list[str]:
        """How the point was chosen, which points may be as good, and the share of a published figure."""
        return list(filter(None, (self.best.chosen, self.best.alike_text, self.published))) if self.best else []


@dataclass(frozen=True)
class Group:
    """Headline figures measured under the same conditions."""

    title: str
    cards: tuple[Card, ...]


def make_groups(
    results: Sequence[PointSummary], shares: PublishedShares | None = None, told: Shared = NOTHING
) -> list[Group]:
    """The headlines by conditions, because a best point exists only among points that compare. shares: of published
    figures; told: reasons that the page states once."""
    over_nodes, several = any(result.nodes > 1 for result in results), caveats.find_several_builds(results)

    def card(best: Best) -> Card:
        build = caveats.name_builds(best.result) if best.result.tool in several else ""
        place = ", ".join(filter(None, (formats.brief(best.result, one=over_nodes), build)))
        return _card(best, place, shares or {}, told)

    rivals = headline.group(results)
    sizes = {group.file_size for group in rivals if group.kind == "metadata" and group.file_size is not None}
    several_sizes = len(sizes) > 1  # else a phase that has no use for the size of files stands beside the others
    homes: dict[tuple[str, Conditions, Value | None], dict[tuple[str, Value | None], list[PointSummary]]] = {}
    for group, of_group in rivals.items():
        size = group.file_size if several_sizes else None
        beside = [other for other in rivals if other.kind == group.kind and (other.file_size == size or size is None)]
        home = formats.home_conditions(group.conditions, dict.fromkeys(other.conditions for other in beside))
        cards_of = homes.setdefault((group.kind, home, size), {})
        cards_of.setdefault((group.phase, group.target), []).extend(of_group)
    groups = []
    for (kind, condition, size), phases in sorted(homes.items(), key=lambda home: home[0][0]):
        cards = []
        for of_phase in phases.values():
            if best := headline.find_highest(of_phase):
                cards.append(card(best))
            else:
                reason = caveats.tell((result.reasons for result in of_phase), most=1)
                cards.append(Card(_label(of_phase[0]), "", "", "", "", reason, of_phase[0].state))
        latencies = (
            headline.find_lowest_latency(each) for (phase, _), each in phases.items() if phase in LATENCY_PHASES
        )
        cards += map(card, filter(None, latencies))
        title = formats.describe(condition, kind, dict.fromkeys(phase for phase, _ in phases))
        if isinstance(size, int):  # empty files are another test
            title += f", files of {formats.size(size)}" if size else ", empty files"
        groups.append(Group(title, tuple(cards)))
    return groups


def _label(result: PointSummary, what: str = "") -> str:
    """The phase of a headline, with its target where there are several: `Random read latency on a`."""
    target = result.parameters[TARGET.column]
    return f"{formats.phase(result.phase)}{what}{f' on {target}' if target else ''}"


def _card(best: Best, place: str, shares: PublishedShares, told: Shared) -> Card:
    metric, result, latency = best.metric, best.result, "latency" in best.column
    units = formats.units_of(best.column, result.kind)
    more = ""
    if latency and (tail := best.metrics.get("latency_p99_s")):
        more = f"p99 {formats.quantity(tail.figure, units)}"
    elif not latency and result.nodes > 1:
        more = f"{formats.quantity(metric.figure / result.nodes, units)} per node"
    incomplete = "" if best.confirmed else caveats.describe_incomplete(result)
    spread = formats.spread(metric, units) if metric.n > 1 or not incomplete else ""
    hosts = "nodes in turn" if result.in_turn else "different nodes" if result.host_sets > 1 else ""
    published = (one.text for one in shares.get((result.point, result.phase), ()) if one.published.lowest == latency)
    return Card(
        label=_label(result, " latency" if latency else ""),
        value=formats.quantity(metric.figure, units),
        more=more,
        spread=", ".join(filter(None, (spread, hosts))),
        incomplete=incomplete,
        place=place,
        verdict=best.verdict,
        best=best,
        reason=best.reason(told),
        published=next(published, ""),
    )


# the page


@dataclass(frozen=True)
class Remark:
    """A sentence above the figures. anchor: the part of the page that tells more; doubtful: it casts doubt on
    figures."""

    title: str
    text: str
    anchor: str
    doubtful: bool = True


def make_remarks(campaign: Campaign, results: Sequence[PointSummary]) -> Iterator[Remark]:
    """Warnings about the whole campaign, and what the node check and the CPU masks have shown."""
    for text in warn_about_target(campaign):
        yield Remark("Target", text, "provenance")
    # the node check has no published figures
    if scaled := [sweep.name for sweep in campaign.about.sweeps if sweep.scaled and sweep.suite != system.SUITE]:
        were = "was" if len(scaled) == 1 else "were"
        text = f"{some(scaled)} {were} scaled to fit: no comparison with published figures."
        yield Remark("Scaled suite", text, "provenance")
    if checked := system.node_check(campaign, results):
        yield Remark("Node check", checked.sentence, "node-check", bool(checked.odd))
    if pinned := system.pinning_proven(campaign):
        yield Remark("CPUs", pinned[1], "cpus", pinned[0])
    for in_turn, text in system.unlike(campaign, results):
        yield Remark("Nodes in turn" if in_turn else "Unlike nodes", text, "nodes", not in_turn)
    for text in caveats.warn_unlike_builds(results):
        yield Remark("Unlike builds", text, "builds")


def answer(campaign: Campaign, results: Sequence[PointSummary], shares: PublishedShares) -> dict[str, Any]:
    """Values of the first screen, for the template and the terminal."""
    told = caveats.find_shared(results)
    planned = repetitions(campaign.rows, campaign.about.sweeps)
    counts = count_repetitions(planned)
    decisions = acceptance.decide(campaign, results)
    cards = make_groups(results, shares, told)
    said = list(sentences.describe_sweeps(results, campaign.about.sweeps, system.SUITE, told).items())
    ends = accumulate(len(own) for _, own in said)
    at_once = max(1, sum(end <= _SENTENCES for end in ends))
    return {
        "about": campaign.about,
        "measured": formats.span(row.started for row in campaign.rows if row.started),
        "hosts": _hosts(results),
        "targets": [
            (
                target.directory,
                name,
                [f"{fstype} on {source}" for fstype, source in _sources(campaign, name) if source],
            )
            for name, target in campaign.about.targets.items()
        ],
        "tools": quality.name_programs(campaign),
        "counts": {one: count for one, count in counts.items() if count or one not in ("left", "unneeded")},
        "progress": caveats.describe_progress(counts),
        # outcome, start and width of its part of the bar
        "shares": list(zip(counts, accumulate(counts.values(), initial=0), counts.values(), strict=False)),
        "absent": {one: caveats.explain(planned, one, told) for one in _TOLD if counts[one]},
        "not_checked": quality.count_not_checked(campaign.checks),
        "remarks": list(make_remarks(campaign, results)),
        "node_check": system.node_check(campaign, results),
        "acceptance": decisions,
        "acceptance_shared": acceptance.shared(decisions),
        "accepted": (acceptance.worst(decisions), acceptance.sentence(decisions)) if decisions else None,
        "told": said[:at_once],
        "told_later": said[at_once:],
        "headline": cards,
        "alike": [
            f"{group.title}: {card.label} ({card.place}) {card.best.alike_text}"
            for group in cards
            for card in group.cards
            if card.best and card.best.alike
        ],
        "latencies": any("latency_mean_s" in result.metrics for result in results),
    }


def _hosts(results: Sequence[PointSummary]) -> str:
    """All nodes that measured; "" without any."""
    names = {host for result in results for host in result.hosts}
    return f"{len(names):,} nodes: {formats.hosts(names)}" if len(names) > 3 else formats.hosts(names)


def _sources(campaign: Campaign, target: str) -> list[tuple[str | None, str | None]]:
    """Type and mount source of each file system that was measured at a target."""
    rows = (row for row in campaign.rows if (row.parameters[TARGET.column] or "") == target)
    return list(dict.fromkeys((row.target_fstype, row.target_source) for row in rows))


def warn_about_target(campaign: Campaign) -> list[str]:
    """Warnings about the targets and the place of the results."""
    found = []
    root = {(node.mount or "").partition(" on ")[0] for node in campaign.nodes if is_root_mount(node.mount)}
    for name, target in campaign.about.targets.items():
        sources = _sources(campaign, name)
        where = describe_targets({name: target.directory})
        if memory := sorted({fstype for fstype, _ in sources if fstype and fs_types.lookup(fstype).memory}):
            found.append(
                f"The target {where} is in memory ({', '.join(memory)}): these figures are of the nodes' memory, not"
                " of a storage system."
            )
        elif any(source in root for _, source in sources):
            found.append(
                f"The target {where} is on the root file system: these figures are of the system disk, which the"
                " operating system uses at the same time, not of a storage system."
            )
    if campaign.about.results_on_target:
        found.append(
            "The results are stored on the file system under test: what is written there is part of its load. Keep them"
            " elsewhere to measure it alone."
        )
    if damaged := campaign.about.damaged:
        named = some([f"{file} ({reason})" for file, reason in damaged.items()], _NAMED, separator="; ")
        found.append(f"Damaged files of the results were left out: {named}.")
    return found


# the terminal


def table(campaign: Campaign, results: Sequence[PointSummary]) -> RenderableType:
    """The first screen of `iosweep show`, for a terminal of at least 80 columns."""
    from rich.console import Group as Lines
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    said = answer(campaign, results, acceptance.published_shares(results, campaign.about.sweeps))
    on = f", {said['hosts']}" if said["hosts"] else ""
    title = Text.assemble((campaign.about.campaign, "bold"), " on ", (campaign.about.on, "bold"), on)
    counts, progress = said["counts"], Text(f"{said['progress']}: ")
    progress.append_text(Text("   ").join(_verdict(one, f"{count:,} {one}") for one, count in counts.items()))
    for outcome, why in said["absent"].items():
        progress.append(f"\n{counts[outcome]:,} {outcome}: {why}")
    unchecked, applicable = said["not_checked"]
    if applicable:  # no check is made if everything is missing
        progress.append(f"\n{unchecked:,} of {human_count(applicable, 'check')} not checked")
    parts: list[RenderableType] = [title, progress]
    for remark in said["remarks"]:
        parts.append(Text(f"{remark.title}: {remark.text}", style="yellow" if remark.doubtful else ""))
    for sweep, texts in [*said["told"], *said["told_later"]]:
        parts.append(Text(f"\n{sweep}", style="italic"))
        parts += [Padding(Text(one.text), (0, 0, 0, 2)) for one in texts]
    stacked = any(result.nodes > 1 for result in results)  # then places are longer
    for group in said["headline"]:
        grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
        grid.add_column(no_wrap=True)
        grid.add_column(justify="right", no_wrap=stacked)
        for card in group.cards:
            value = Text(card.value or "no figure", style="bold" if card.value else "")
            value.append(f"\n{card.more}" if card.more else "", style="not bold")
            spread = ", ".join(filter(None, (card.incomplete, card.spread)))
            where = [f"{card.place}\n{spread}".rstrip()] if stacked else [spread, card.place]
            grid.add_row(card.label, value, *map(Text, where), _verdict(card.verdict))
        notes = [Text(f"{c.label}: {c.best.doubt}: {c.reason}") for c in group.cards if c.best and c.reason]
        notes += [Text(f"{card.label}: {'; '.join(card.notes)}") for card in group.cards if card.notes]
        parts += [Text(f"\n{group.title}", style="italic"), Padding(Lines(grid, *notes), (0, 0, 0, 2))]
    return Lines(*parts)


def _verdict(verdict: str, text: str | None = None) -> Text:
    from rich.text import Text

    return Text(f"{caveats.VERDICT_SYMBOLS[verdict]} {text or verdict}", style=_STYLES[verdict])
