"""The first screen: what was measured, whether to use it, the best figure of each phase, and what stands out. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iosweep.analysis import acceptance, caveats, comparison, formats, headline, sentences
from iosweep.analysis.acceptance import PublishedShares
from iosweep.analysis.caveats import Cause
from iosweep.analysis.comparison import NamedCampaign
from iosweep.analysis.headline import Best
from iosweep.analysis.summary import OUTCOMES, PointSummary, count_results
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

#: The same for the grade of a campaign.
_STYLES = {
    "valid": "green",
    "suspect": "yellow",
    "invalid": "red",
    "missing": "bright_black",
    "left": "cyan",
    "unneeded": "bright_black",
    "note": "yellow",
}
#: Most causes and findings on the first screen, and most damaged files that are named.
_CAUSES, _FINDINGS, _NAMED = 6, 3, 5

# figures


@dataclass(frozen=True)
class Figure:
    """The headline figure of a phase. spread: its interval or range; place: parameters of its point in brief; notes: a
    second figure, the share of a published figure, points that may be as good. Without a figure, `value` is ""."""

    label: str
    verdict: str
    value: str = ""
    spread: str = ""
    place: str = ""
    notes: tuple[str, ...] = ()
    best: Best | None = None


@dataclass(frozen=True)
class Group:
    """Headline figures measured under the same conditions."""

    title: str
    figures: tuple[Figure, ...]


def make_groups(results: Sequence[PointSummary], shares: PublishedShares | None = None) -> list[Group]:
    """The headlines by conditions, because a best point exists only among points that compare. shares: of published
    figures."""
    over_nodes, several = any(result.nodes > 1 for result in results), caveats.find_several_builds(results)

    def figure(best: Best, rivals: Sequence[PointSummary]) -> Figure:
        build = caveats.name_builds(best.result) if best.result.tool in several else ""
        target = formats.named(TARGET.column, best.result.parameters[TARGET.column])  # the label has it
        parts = [*formats.brief(best.result, one=over_nodes).split(", "), build]
        return _figure(best, ", ".join(part for part in parts if part and part != target), shares or {}, rivals)

    rivals = headline.group(results)
    sizes = {group.file_size for group in rivals if group.kind == "metadata" and group.file_size is not None}
    several_sizes = len(sizes) > 1  # else a phase that has no use for the size of files stands beside the others
    homes: dict[tuple[str, Conditions, Value | None], dict[tuple[str, Value | None], list[PointSummary]]] = {}
    for group, of_group in rivals.items():
        size = group.file_size if several_sizes else None
        beside = [other for other in rivals if other.kind == group.kind and (other.file_size == size or size is None)]
        home = formats.home_conditions(group.conditions, dict.fromkeys(other.conditions for other in beside))
        phases_of = homes.setdefault((group.kind, home, size), {})
        phases_of.setdefault((group.phase, group.target), []).extend(of_group)
    groups = []
    for (kind, condition, size), phases in sorted(homes.items(), key=lambda home: home[0][0]):
        figures = []
        for of_phase in phases.values():
            best = headline.find_highest(of_phase)
            figures.append(figure(best, of_phase) if best else Figure(_label(of_phase[0]), of_phase[0].state))
        for (phase, _), of_phase in phases.items():
            if phase in LATENCY_PHASES and (best := headline.find_lowest_latency(of_phase)):
                figures.append(figure(best, of_phase))
        if len(figures) > 1 and not any(figure.value for figure in figures):
            figures = [
                Figure(f"All {len(figures)} phases", max(figures, key=lambda one: OUTCOMES.index(one.verdict)).verdict)
            ]
        title = formats.describe(condition, kind, dict.fromkeys(phase for phase, _ in phases))
        if isinstance(size, int):  # empty files are another test
            title += f", files of {formats.size(size)}" if size else ", empty files"
        groups.append(_share_place(title, figures))
    return groups


def _share_place(title: str, figures: Sequence[Figure]) -> Group:
    """Move what the places of all figures have in common to the title: `QD 1, posixaio`."""
    places = [figure.place.split(", ") for figure in figures if figure.value]
    common = [part for part in places[0] if all(part in place for place in places)] if len(places) > 1 else []
    return Group(
        "; ".join(filter(None, (title, ", ".join(common)))),
        tuple(
            replace(figure, place=", ".join(part for part in figure.place.split(", ") if part not in common))
            for figure in figures
        ),
    )


def _label(result: PointSummary, what: str = "") -> str:
    """The phase of a headline, with its target where there are several: `Random read latency on a`."""
    target = result.parameters[TARGET.column]
    return f"{formats.phase(result.phase)}{what}{f' on {target}' if target else ''}"


def _figure(best: Best, place: str, shares: PublishedShares, rivals: Sequence[PointSummary]) -> Figure:
    metric, result, latency = best.metric, best.result, "latency" in best.column
    units = formats.units_of(best.column, result.kind)
    notes = []
    if latency and (tail := best.metrics.get("latency_p99_s")):
        notes.append(f"p99 {formats.quantity(tail.figure, units)}")
    fewest = min(rival.nodes for rival in rivals)
    alone = (
        headline.find_highest([rival for rival in rivals if rival.nodes == fewest]) if fewest < result.nodes else None
    )
    if alone and not latency:
        notes.append(f"{human_count(fewest, 'node')}: {formats.quantity(alone.metric.figure, units)}")
    published = (one.text for one in shares.get((result.point, result.phase), ()) if one.published.lowest == latency)
    notes += [*published][:1]
    if best.alike and metric.estimate:
        notes.append(f"{human_count(len(best.alike), 'other point')} as good")
    incomplete = "" if best.confirmed else caveats.describe_incomplete(result)
    spread = formats.spread(metric, units) if metric.n > 1 or not incomplete else ""
    return Figure(
        label=_label(result, " latency (mean)" if latency else ""),
        verdict=best.verdict,
        value=formats.quantity(metric.figure, units),
        spread=", ".join(filter(None, (incomplete, spread))),
        place=place,
        notes=tuple(notes),
        best=best,
    )


def explain_choice(groups: Sequence[Group]) -> str:
    """How the points of the headline were chosen; "" without a choice."""
    chosen = [figure.best for group in groups for figure in group.figures if figure.best and figure.best.of > 1]
    if not chosen:
        return ""
    most = max(best.of for best in chosen)
    confirmed = [best.confirmed for best in chosen]
    if all(confirmed):
        return (
            f"Each is the best of up to {most:,} points, measured again: figures are of these fresh repetitions alone."
        )
    text = f"Each is the best of up to {most:,} points, picked by the same repetitions, so it may be a little too good"
    some_are = "; some are confirmed" if any(confirmed) else ""
    return f"{text}{some_are}. `confirm: 3` in the sweep measures the best points again."


# the verdict of the whole


@dataclass(frozen=True)
class Judgement:
    """Whether to use the figures. grade: `Use with care`; parts: (outcome, text) of the rest of the sentence: `valid`,
    `30 of 39 results are valid`; verdict: for its color."""

    grade: str
    parts: tuple[tuple[str, str], ...]
    verdict: str

    @property
    def text(self) -> str:
        return f"{self.grade}: {', '.join(text for _, text in self.parts)}."


def judge(counts: Mapping[str, int], cautions: int = 0, examples: bool = False) -> Judgement:
    """Whether to use the figures of a campaign. counts: outcome -> results; cautions: limits of the figures; examples:
    the target is not storage."""
    planned = sum(counts.values()) - counts["unneeded"]
    valid, suspect, unmeasured = counts["valid"], counts["suspect"], counts["missing"] + counts["left"]
    flawed = suspect + counts["invalid"]
    if not valid + suspect + counts["left"]:
        grade, verdict = "No figures", "invalid" if counts["invalid"] else "missing"
    elif examples or not (valid or counts["left"]):
        grade, verdict = "Examples only", "suspect"
    elif unmeasured > flawed:
        grade, verdict = "Incomplete", "suspect"
    elif flawed or unmeasured or cautions:
        grade, verdict = "Use with care", "suspect"
    else:
        grade, verdict = "Use these figures", "valid"
    present = [(outcome, count) for outcome, count in counts.items() if count and outcome != "unneeded"]
    if not present:
        return Judgement(grade, (("", "nothing is planned"),), verdict)
    (first, *others), total = present, human_count(planned, "result")
    whole = f"all {total}" if first[1] == planned > 1 else f"{first[1]:,} of {total}"
    parts = [(first[0], f"{whole} {'is' if first[1] == 1 else 'are'} {_WORDS.get(first[0], first[0])}")]
    parts += [(outcome, f"{count:,} {_WORDS.get(outcome, outcome)}") for outcome, count in others]
    if cautions and not flawed + unmeasured:
        parts.append(("", f"with {human_count(cautions, 'limit')}"))
    return Judgement(grade, tuple(parts), verdict)


_WORDS = {"left": "left to measure"}


def find_causes(campaign: Campaign, results: Sequence[PointSummary]) -> list[Cause]:
    """Each cause of doubt once, the most urgent first."""
    asked = system.without_node_check(campaign, results)  # which compares nodes
    cautions = [*_find_cautions(campaign), *caveats.find_cautions(asked)]
    if (checked := system.node_check(campaign, results)) and checked.odd:
        text, remedy = checked.sentence.removesuffix("."), "look there before you use figures of all nodes"
        cautions.insert(0, Cause("note", text, remedy=remedy, anchor="nodes"))
    return [*caveats.find_causes(results, campaign.checks), *cautions]


def _find_cautions(campaign: Campaign) -> Iterator[Cause]:
    """Limits of all figures of a campaign."""
    about = campaign.about
    if about.ingested:
        yield Cause("note", "Others measured this: iosweep knows only what the outputs tell", anchor="ingested")
    root = {(node.mount or "").partition(" on ")[0] for node in campaign.nodes if is_root_mount(node.mount)}
    in_memory, on_root = {}, {}
    for name, target in about.targets.items():
        if _is_memory(campaign, name):
            in_memory[name] = target.directory
        elif any(source in root for _, source in _sources(campaign, name)):
            on_root[name] = target.directory
    if in_memory:
        text = f"{describe_targets(in_memory)} {_be(in_memory)} in memory: the figures are of memory, not of storage"
        yield Cause("note", text, remedy="measure a directory on the storage", anchor="provenance")
    if on_root:
        text = f"{describe_targets(on_root)} {_be(on_root)} on the system disk, which the operating system uses, too"
        yield Cause("note", text, anchor="provenance")
    if about.results_on_target:
        text = "The results are written to the file system under test"
        yield Cause("note", text, remedy="keep `results/` elsewhere", anchor="provenance")
    if about.damaged:
        named = some([f"{file} ({reason})" for file, reason in about.damaged.items()], _NAMED, separator="; ")
        yield Cause("note", f"Damaged files of the results were left out: {named}", anchor="provenance")
    # the node check has no published figures
    if scaled := [sweep.name for sweep in about.sweeps if sweep.scaled and sweep.suite != system.SUITE]:
        text = f"{some(scaled)} {_be(scaled)} scaled to fit: not comparable with published figures"
        yield Cause("note", text, anchor="provenance")


def _is_memory(campaign: Campaign, target: str) -> bool:
    return any(kind and fs_types.lookup(kind).memory for kind, _ in _sources(campaign, target))


def _be(subjects: Collection[str]) -> str:
    return "is" if len(subjects) == 1 else "are"


# the page


def _compare_targets(campaign: Campaign, results: Sequence[PointSummary]) -> Iterator[str]:
    """By how much the targets differ, in a sentence for each but the first."""
    if len(campaign.about.targets) > 1:
        named = NamedCampaign(campaign.about.campaign, Path(), campaign, tuple(results))
        for versus in comparison.versus_over(named, TARGET.column):
            base, other = versus.names
            sentence = comparison.sentence(versus.found)
            more = f"`iosweep compare {campaign.about.campaign} --over {TARGET.name}` has more."
            yield f"{other[0].upper()}{other[1:]} against {base}: {sentence[0].lower()}{sentence[1:]} {more}"


def answer(campaign: Campaign, results: Sequence[PointSummary], shares: PublishedShares) -> dict[str, Any]:
    """Values of the first screen, for the template and the terminal."""
    about, counts = campaign.about, count_results(results)
    checked, decisions = system.node_check(campaign, results), acceptance.decide(campaign, results)
    asked = system.without_node_check(campaign, results)
    groups, said = make_groups(asked, shares), sentences.describe_sweeps(asked, about.sweeps)
    causes = find_causes(campaign, results)
    differences = [*_compare_targets(campaign, results)]
    stand_out = sentences.choose_findings(said, _FINDINGS - len(differences))
    examples = any(_is_memory(campaign, name) for name in about.targets)
    return {
        "about": about,
        "measured": formats.period(row.started for row in campaign.rows if row.started),
        "hosts": name_hosts(results),
        "targets": [
            (target.directory, name, [f"{fstype} on {source}" for fstype, source in _sources(campaign, name) if source])
            for name, target in about.targets.items()
        ],
        "tools": quality.name_programs(campaign),
        "judgement": judge(counts, sum(cause.outcome == "note" for cause in causes), examples),
        "causes": causes[:_CAUSES],
        "other_causes": causes[_CAUSES:],
        "acceptance": decisions,
        "accepted": (acceptance.worst(decisions), acceptance.sentence(decisions)) if decisions else None,
        "headline": groups,
        "choice": explain_choice(groups),
        "findings": [*differences, *(one.finding for one in stand_out)],
        "said": said,
        "node_check": checked,
    }


def name_hosts(results: Sequence[PointSummary]) -> str:
    """All nodes that measured; "" without any."""
    names = {host for result in results for host in result.hosts}
    return f"{len(names):,} nodes: {formats.hosts(names)}" if len(names) > 3 else formats.hosts(names)


def _sources(campaign: Campaign, target: str) -> list[tuple[str | None, str | None]]:
    """Type and mount source of each file system that was measured at a target."""
    rows = (row for row in campaign.rows if (row.parameters[TARGET.column] or "") == target)
    return list(dict.fromkeys((row.target_fstype, row.target_source) for row in rows))


# the terminal


def table(campaign: Campaign, results: Sequence[PointSummary]) -> RenderableType:
    """The first screen of `iosweep show`, for a terminal of at least 80 columns."""
    from rich.console import Group as Lines
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    said = answer(campaign, results, acceptance.published_shares(results, campaign.about.sweeps))
    on = f", {said['hosts']}" if said["hosts"] else ""
    parts: list[RenderableType] = [
        Text.assemble((campaign.about.campaign, "bold"), " on ", (campaign.about.on, "bold"), on),
        Text(said["judgement"].text, style=_STYLES[said["judgement"].verdict]),
    ]
    for cause in said["causes"]:
        count = f"{human_count(cause.count, 'result')}: " if cause.count else ""
        remedy = f"; {cause.remedy}" if cause.remedy else ""
        line = Text(f"{caveats.VERDICT_SYMBOLS.get(cause.outcome, '!')} ", style=_STYLES[cause.outcome])
        parts.append(line.append(f"{count}{cause.text}{remedy}.", style="default"))
    if said["other_causes"]:
        parts.append(Text(f"  {human_count(len(said['other_causes']), 'other cause')}: see the report"))
    for group in said["headline"]:
        grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
        grid.add_column(no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        for figure in group.figures:
            mark = "" if figure.verdict == "valid" else f"{caveats.VERDICT_SYMBOLS[figure.verdict]} {figure.verdict}"
            value = Text(figure.value, style="bold")
            where = Text("; ".join(filter(None, (figure.place, *figure.notes))))
            grid.add_row(figure.label, value, figure.spread, where, Text(mark, style=_STYLES[figure.verdict]))
        parts += [Text(f"\n{group.title}", style="italic"), Padding(grid, (0, 0, 0, 2))]
    parts.append(Text(f"\n{said['choice']}" if said["choice"] else ""))
    parts += map(Text, said["findings"])
    return Lines(*parts)
