"""The answer in a few lines: the best figure of every phase, with where it was measured and how sure we are."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from iosweep.analysis import caveats, choice, formats, knees, published, sentences, titles
from iosweep.analysis.aggregate import Result, count_repetitions, phase_order, repetitions, summarize
from iosweep.analysis.caveats import Shared
from iosweep.analysis.choice import Choice, Failed
from iosweep.analysis.data import Campaign, CheckRow, load
from iosweep.analysis.published import Known
from iosweep.plan import contests
from iosweep.plan.contests import LATENCY_PHASES
from iosweep.plan.sweep_facts import SweepFacts
from iosweep.report import cpus, node_check, remarks
from iosweep.report.checks_table import not_checked
from iosweep.text import human_count

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
    choice: Choice | None = None
    reason: str = ""  # why it is not valid, unless `spread` says it
    published: str = ""  # its share of a published figure

    @property
    def doubt(self) -> str:
        """`Stat files is suspect: ...`, `Stat files: 1 repetition is invalid, and not in the figure: ...`, or ""."""
        if not (self.reason and self.choice):
            return ""
        why = self.choice.in_doubt
        return f"{self.label}{' is ' if why == self.verdict else ': '}{why}: {self.reason}"

    @property
    def notes(self) -> tuple[str, ...]:
        """How the point was chosen, which ones are better in the tables, which it cannot be told apart from, and its
        share of a published figure."""
        found = self.choice
        return tuple(filter(None, (found.chosen, found.not_chosen, found.doubt, self.published))) if found else ()


@dataclass(frozen=True)
class Group:
    """Headline figures that were measured under the same conditions."""

    title: str
    entries: tuple[Entry, ...]


def groups(results: Sequence[Result], checks: Iterable[CheckRow] = (), shared: Shared = frozenset()) -> list[Group]:
    """The headline, per conditions: nothing is the best of things that do not compare. Pure.

    shared: reasons that are named elsewhere, once for all.
    """
    fails = choice.failed(checks)
    conditions, files = titles.conditions(results), _files(results)
    one, several = _over_nodes(results), caveats.several_builds(results)

    def place(result: Result) -> str:
        parts = titles.brief(result, one=one), caveats.of_builds(result) if result.tool in several else ""
        return ", ".join(filter(None, parts))

    found = []
    for kind in ("data", "metadata"):
        of_kind = [result for result in results if result.kind == kind]
        keys = [(contests.of_phase(conditions[r.point], r.phase), files.get(r.point)) for r in of_kind]
        distinct_keys = dict.fromkeys(keys)
        homes = {key: _home(key, distinct_keys) for key in distinct_keys}
        for home in dict.fromkeys(homes.values()):
            own = [r for r, key in zip(of_kind, keys, strict=True) if homes[key] == home]
            title = titles.describe(home[0], kind, [r.phase for r in own]) + (f", {home[1]}" if home[1] else "")
            found.append(Group(title, tuple(_entries(own, place, fails, shared))))
    return found


def beside_published(groups: Iterable[Group], known: Known) -> list[Group]:
    """The groups with the published figures that their entries compare with. Pure."""

    def told(entry: Entry) -> Entry:
        one = known.get((entry.point, entry.choice.result.phase)) if entry.choice else None
        same = one and entry.choice and one.published.lowest == ("latency" in entry.choice.column)
        return replace(entry, published=one.text) if one and same else entry

    return [replace(group, entries=tuple(map(told, group.entries))) for group in groups]


#: Conditions of a headline figure, and the files that its points make where these differ.
_Key = tuple[contests.Conditions, str | None]


def _home(key: _Key, keys: Collection[_Key]) -> _Key:
    """The key of the group that shows a figure: reads are shown beside the writes, if all writes have one key."""
    more = [
        (other, files)
        for other, files in keys
        if other != key[0]
        and files == key[1]
        and all(own in (None, its) for own, its in zip(key[0], other, strict=True))
    ]
    return more[0] if len(more) == 1 else key


#: Where a figure was measured, in words.
Place = Callable[[Result], str]


def _over_nodes(results: Sequence[Result]) -> bool:
    """Whether something was measured on several nodes at once."""
    return any(result.nodes > 1 for result in results)


def _files(results: Sequence[Result]) -> dict[str, str]:
    """Point -> the files that it makes, where points make unlike ones: creating empty files is another thing."""
    sizes = {
        r.point: size for r in results if r.kind == "metadata" and (size := r.count("file_size_bytes")) is not None
    }
    if len(set(sizes.values())) < 2:
        return {}
    return {point: f"files of {formats.size(size)}" if size else "empty files" for point, size in sizes.items()}


def _entries(results: Sequence[Result], place: Place, fails: Failed, shared: Shared) -> Iterator[Entry]:
    phases = sorted({result.phase for result in results}, key=phase_order)
    for phase in phases:
        yield _rate([result for result in results if result.phase == phase], place, fails, shared)
    for phase in phases:
        if phase in LATENCY_PHASES and (
            found := choice.lowest_latency([result for result in results if result.phase == phase], fails)
        ):
            yield _latency(found, place, fails, shared)


def _rate(results: Sequence[Result], place: Place, fails: Failed, shared: Shared) -> Entry:
    label = titles.phase(results[0].phase)
    found = choice.highest(results, fails)
    if found is None:
        reason = caveats.reasons(results, most=1)
        return Entry(label, "", "", "", "", reason, results[0].state, results[0].point)
    best = found.result
    units = formats.units_of(best.metric, best.kind)
    each = f"{formats.quantity(found.figure.mean / best.nodes, units)} per node" if best.nodes > 1 else ""
    return _entry(label, found, units, each, place, choice.reason(found, fails, shared))


def _latency(found: Choice, place: Place, fails: Failed, shared: Shared) -> Entry:
    tail = found.figures.get("latency_p99_s")
    more = "" if tail is None else f"p99 {formats.quantity(tail.median, formats.LATENCY)}"
    label, why = f"{titles.phase(found.result.phase)} latency", choice.reason(found, fails, shared)
    return _entry(label, found, formats.LATENCY, more, place, why)


def _entry(label: str, found: Choice, units: Sequence[formats.Unit], more: str, place: Place, reason: str) -> Entry:
    statistics, result = found.figure, found.result
    incomplete = "" if found.confirmed else caveats.incomplete(result)
    spread = formats.spread(statistics, units) if statistics.n > 1 or not incomplete else ""
    return Entry(
        label=label,
        value=formats.quantity(statistics.mean, units),
        more=more,
        spread=", ".join(filter(None, (spread, caveats.over_hosts(result)))),
        incomplete=incomplete,
        place=place(result),
        verdict=found.verdict,
        point=result.point,
        choice=found,
        reason=reason,
    )


def table(results: Path) -> RenderableType:
    """What `iosweep show` prints, for a terminal of at least 80 columns, without its last line (`closing`).

    Raises FileNotFoundError when merge has not written to `results`.
    """
    from rich.console import Group as Lines
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    campaign = load(results)
    summary = summarize(campaign.rows)
    shared = caveats.shared(summary)
    parts: list[RenderableType] = [_title(campaign, summary), _verdicts(campaign, shared)]
    parts += [Text(text, style="yellow") for text in remarks.of(campaign)]
    parts += [Text(text, style="yellow") for text in scaled(campaign.about.sweeps)]
    if checked := node_check.of(campaign, summary):
        parts.append(Text(f"Node check: {checked.sentence}", style="yellow" if checked.odd else ""))
    if pinned := cpus.in_brief(campaign):
        parts.append(Text(f"CPUs: {pinned[1]}", style="red" if pinned[0] else ""))
    for in_turn, text in node_check.unlike(campaign, summary):
        parts.append(Text(text, style="" if in_turn else "yellow"))
    parts += [Text(f"Unlike builds: {text}", style="yellow") for text in caveats.unlike_builds(summary)]
    fails = choice.failed(campaign.checks)
    for said in sentences.of(summary, campaign.about.sweeps, fails, node_check.SUITE, shared):
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
    if bends := knees.of(summary, campaign.about.sweeps):
        parts += [Text("\nRamps", style="italic"), *(Text(f"  {bend.sentence}") for bend in bends)]
    return Lines(*parts)


def scaled(sweeps: Sequence[SweepFacts]) -> list[str]:
    """The warnings that belong to suites that were made to fit, with the sweeps where they are not the whole suite."""
    suites: dict[str, list[SweepFacts]] = {}
    for sweep in (sweep for sweep in sweeps if sweep.suite != node_check.SUITE):  # of that, nothing is published
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


def _title(campaign: Campaign, results: Sequence[Result]) -> Text:
    from rich.text import Text

    about, hosts = campaign.about, {host for result in results for host in result.hosts}
    from_nodes = f", {len(hosts):,} nodes: {formats.hosts(hosts)}" if len(hosts) > 1 else ""
    return Text.assemble((about.campaign, "bold"), " on ", (about.target.directory, "bold"), from_nodes)


def _verdicts(campaign: Campaign, shared: Shared) -> Text:
    from rich.text import Text

    found = repetitions(campaign.rows, campaign.about.sweeps)
    counts = count_repetitions(found)
    line = Text(f"{caveats.measured(counts)}: ")
    shown = {one: count for one, count in counts.items() if count or one != "unneeded"}
    line.append_text(Text("   ").join(_verdict(one, f"{count:,} {one}") for one, count in shown.items()))
    for outcome in ("left", "missing", "unneeded", "invalid", "suspect"):
        if counts[outcome]:
            line.append(f"\n{counts[outcome]:,} {outcome}: {caveats.why(found, outcome, shared)}")
    left_open, applicable = not_checked(campaign.checks)
    if applicable:  # there is none where everything is missing
        line.append(f"\n{left_open:,} of {human_count(applicable, 'check')} not checked")
    return line


def closing(results: Path, name: str) -> str:
    """The last line in a terminal: what is invalid, missing or left, and the command that lists it; "" if nothing is.

    `name`: what the user calls the campaign. Raises FileNotFoundError as `table` does.
    """
    campaign = load(results)
    counts = count_repetitions(repetitions(campaign.rows, campaign.about.sweeps))
    odd = [f"{counts[one]:,} {one}" for one in ("invalid", "missing", "left") if counts[one]]
    if not odd:
        return ""
    of = human_count(sum(counts.values()), "repetition")
    return f"{formats.listing(odd)} of {of}: `iosweep check {shlex.quote(name)}` lists the reasons and exits with 1"


def _verdict(verdict: str, text: str | None = None) -> Text:
    from rich.text import Text

    return Text(f"{caveats.VERDICT_SYMBOLS[verdict]} {text or verdict}", style=_STYLES[verdict])
