"""One HTML file that holds everything: it opens from a disk, without a network, and keeps what it shows to itself.

Nothing of a campaign is trusted: text goes through Jinja2's escaping, data into a block of base64 that the script
unpacks and sets as text. The page's policy allows no request at all, and only the scripts and the style of this
package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from iosweep import collector
from iosweep.analysis import acceptance, caveats, formats, grids, published, slices, titles
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import Campaign, load, load_latencies, load_series
from iosweep.analysis.published import Known
from iosweep.files import safe_paths
from iosweep.plan.sweep_facts import RepetitionFacts
from iosweep.report import (
    benchmark_tables,
    bounds,
    builds,
    checks_table,
    chosen,
    cpus,
    depth_table,
    figure_files,
    headline,
    heat_maps,
    html,
    latency_figures,
    nodes,
    notable,
    results_table,
    run_order,
    scaling_figures,
    series_figures,
    vega_lite,
)
from iosweep.report.bounds import Limits
from iosweep.report.chosen import Chosen
from iosweep.report.drawings import drawings as all_drawings
from iosweep.report.figures import Figure
from iosweep.report.first_screen import answer
from iosweep.results import merged_tables
from iosweep.tools import parameters
from iosweep.units import human_duration

#: Figures that are in the page as SVG, too, for a reader without a script and for printing before it has drawn: one
#: takes a tenth of a second and up to 120 kB.
_STATIC, _STATIC_BYTES = 24, 700_000
#: Grids of a sweep in the coverage map: more are a wall, and the table has their points.
_MOST_GRIDS = 12
_STYLES = ("page.css", "first_screen.css", "latencies.css")
#: In the order in which they run: each uses those before it.
_SCRIPTS = ("inflate.js", "page.js", "series.js", "latencies.js", "results_table.js", "switches.js", "charts.js")


class Section(NamedTuple):
    """A part of the page: `sections/<name>.html`, whose element has the name as its id.

    `link`: its title in the page's navigation, "" for none. `needs`: the value without which it is left out. `brief`:
    what it has, of a section that is folded. `paper`: whether an open one is printed; the others are for work with the
    page.
    """

    name: str
    link: str = ""
    needs: str = ""
    brief: str = ""
    paper: bool = True

    @property
    def printed(self) -> bool:
        return self.paper and not self.brief


#: In the order of the page.
SECTIONS = (
    Section("remarks"),
    Section("verdicts"),
    Section("sentences", needs="told"),
    Section("headline"),
    Section("acceptance", "Acceptance", needs="acceptance"),
    Section("reasons", "Reasons", needs="all_reasons"),
    Section("ingested", "Ingested", needs="ingested"),
    Section("node-check", "Node check", needs="node_check"),
    Section("weka", "WEKA tests", needs="weka"),
    Section("metadata", "Metadata", needs="metadata"),
    Section("figures", "Figures"),
    Section("results", "Results", paper=False),
    Section("queue-depth", "Queue depth", "depths", "what each depth gains and what it costs"),
    Section("latencies", "Latencies", "distributions", "distributions of the points on the cards"),
    Section("coverage", "Coverage", "coverage", "what of each sweep is measured, as maps"),
    Section("checks", "Checks", brief="how often each passed, failed or could not be made, and why"),
    Section("run-order", "Run order", "strips", "whether figures drifted while the campaign ran"),
    Section("cpus", "CPUs", "cpus", "which were used, reserved, or not in the allocation"),
    Section("nodes", "Nodes", "nodes", "system, memory, network and mount of each"),
    Section("meaning", "Meaning", brief="of verdicts and figures"),
    Section("provenance", "Provenance"),
)


def write(results: Path) -> Path:
    """Write `results/report.html`, whole or not at all, and return its path.

    Raises FileNotFoundError when merge has not written to `results`.
    """
    safe_paths.write(results, merged_tables.REPORT, render(results).encode() + b"\n")
    return results / merged_tables.REPORT


def render(results: Path, most_bytes: int = bounds.MOST_BYTES) -> str:
    """The report of one campaign as HTML text of at most so many bytes.

    Raises FileNotFoundError when merge has not written to `results`.
    """
    with collector.paused():
        campaign = load(results)
        read = _read(campaign, results)
        limits, left_out = Limits(), list[str]()
        while len((text := _page(read, limits, left_out)).encode()) > most_bytes:
            if limits != limits.halved():
                limits = limits.halved()
            elif not (left_out := _without_next(left_out)):
                break
        return text


@dataclass(frozen=True)
class _Read:
    """A campaign with what does not depend on how much of it the page has."""

    results: Path
    campaign: Campaign
    summary: Sequence[Result]
    scaled: Sequence[tuple[str, Figure, scaling_figures.Table]]
    drawings: Sequence[Figure]
    groups: Sequence[headline.Group]
    published: Known
    first_screen: Mapping[str, object]
    covered: Sequence[grids.Cover]


def _read(campaign: Campaign, results: Path) -> _Read:
    summary = results_table.ordered(summarize(campaign.rows), campaign.about.sweeps)
    scaled = scaling_figures.of(campaign, summary)
    known = published.of(summary, campaign.about.sweeps)
    groups = headline.beside_published(headline.groups(summary, campaign.checks, caveats.shared(summary)), known)
    return _Read(
        results,
        campaign,
        summary,
        scaled,
        all_drawings(campaign, summary, scaled),
        groups,
        known,
        answer(campaign, summary, groups),
        grids.cover(campaign, summary),
    )


def _without_next(left_out: Sequence[str]) -> list[str]:
    """These sections and the next of those that are folded; none where all are left out."""
    rest = [section.name for section in reversed(SECTIONS) if section.brief and section.name not in left_out]
    return [*left_out, rest[0]] if rest else []


def _page(read: _Read, limits: Limits, left_out: Sequence[str]) -> str:
    """left_out: sections."""
    from markupsafe import Markup

    campaign, summary, groups = read.campaign, read.summary, read.groups
    drawings = bounds.drawings(read.drawings, limits)
    specified = {f.name: vega_lite.specification(f) for f in drawings if f.panels}
    static = figure_files.static(
        ((f, specified[f.name]) for f in drawings if f.panels and f.static), _STATIC, _STATIC_BYTES
    )
    style = "".join(map(html.read, _STYLES)) + heat_maps.style()
    scripts = [html.library(), *map(html.read, _SCRIPTS)]
    keys = notable.keys(groups, drawings, summary)
    table = chosen.of(summary, keys, campaign.about.sweeps, limits.results)
    series, rates = load_series(read.results, series_figures.chosen(table.table))
    on_cards = [entry.choice.result for group in groups for entry in group.entries if entry.choice]
    latencies = load_latencies(read.results, latency_figures.counted([*table.table, *on_cards]))
    values = {
        **read.first_screen,
        **_body(read, drawings, table, limits),
        "distributions": latency_figures.pictures(groups, latencies),
        "notable": notable.rows(groups, drawings, summary),
        "left_out": [section.link for section in SECTIONS if section.name in left_out],
    }
    data = {
        "campaign": campaign.about.campaign,
        "symbols": caveats.VERDICT_SYMBOLS,
        "table": results_table.payload(table.table, campaign.checks, read.published),
        "latencies": latency_figures.payload(table.table, latencies),
        "series": series_figures.payload(table.table, series, rates),
        "quantities": heat_maps.quantities(table.all),
        "shades": heat_maps.SHADES,
        "kinds": "".join(result.kind[0] for result in table.all),
        "figures": _drawn(drawings, specified, summary, table),
    }
    return (
        html.environment()
        .get_template("page.html")
        .render(
            sections=[s for s in SECTIONS if s.name not in left_out and (not s.needs or values[s.needs])],
            rows=len(campaign.rows),
            shown=len(summary),
            carried=len(table.table),
            policy=html.policy(style, scripts),
            style=Markup(style),  # noqa: S704  our own file
            scripts=[Markup(script) for script in scripts],  # noqa: S704  our own files and the library's
            data=Markup(html.data(data)),  # noqa: S704  base64
            static={name: Markup(svg) for name, svg in static.items()},  # noqa: S704  drawing elements only
            titles=titles,
            formats=formats,
            meanings=caveats.VERDICT_MEANINGS,
            symbols=caveats.VERDICT_SYMBOLS,
            outcomes=acceptance.SYMBOLS,
            **values,
        )
    )


def _drawn(
    drawings: Sequence[Figure],
    specified: Mapping[str, vega_lite.Specification],
    summary: Sequence[Result],
    table: Chosen,
) -> dict[str, dict[str, object]]:
    """What the browser draws: name of a figure -> its specification, values and results."""
    by_key = {(result.point, result.phase): result for result in summary}
    return {
        f.name: html.drawing(f, specified[f.name]) | {"results": _rows(f, by_key, table) if f.slice else None}
        for f in drawings
        if f.panels
    }


def _rows(figure: Figure, results: Mapping[tuple[str, str], Result], table: Chosen) -> list[int | None]:
    """Numbers of the results of a figure's marks, for its switches; None for a mark without a figure."""
    found = (results.get((mark.point or "", mark.phase)) for mark in figure.marks)
    return [None if result is None else table.number(result) for result in found]


def _body(read: _Read, drawings: Sequence[Figure], table: Chosen, limits: Limits) -> dict[str, object]:
    """The values of the sections below the first screen."""
    campaign, results = read.campaign, read.summary
    heat, without_heat = heat_maps.of(campaign.about.sweeps, results, table.number)
    return {
        "heat": {sweep.name: heat.get(sweep.name, []) for sweep in campaign.about.sweeps},
        "without_heat": without_heat,
        "coverage": read.covered,
        "maps": bounds.maps(read.covered, _MOST_GRIDS, limits),
        "axis": lambda column: parameters()[column].shown,
        "weka": bounds.tables(benchmark_tables.weka(campaign, results), limits),
        "metadata": bounds.tables(benchmark_tables.metadata(campaign, results), limits),
        "ingested": campaign.about.ingested,
        "depths": bounds.tables(depth_table.of(campaign, results), limits),
        "sweeps": [
            (sweep, [figure for figure in drawings if figure.sweep == sweep.name]) for sweep in campaign.about.sweeps
        ],
        "undrawn": slices.undrawn(campaign, results),
        "scaling": bounds.scaling(scaling_figures.tables(read.scaled), limits),
        "repetitions_of": _repetitions,
        "limits": limits_in_words(campaign.about.limits),
        "strips": run_order.strips(campaign, results, limits.dots),
        "columns_of": vega_lite.columns,
        "constant": results_table.constant(results),
        "having": results_table.having(table.table),
        "chosen": table.told,
        "checks": checks_table.summarize_checks(campaign.checks),
        "cpus": cpus.of(campaign),
        "nodes": nodes.of(campaign),
        "builds": builds.of(campaign, results),
        "exclusion": checks_table.exclusion(campaign.checks),
    }


def limits_in_words(found: Mapping[str, bool | float | str | None]) -> list[tuple[str, str]]:
    """The limits that are set, by the names of their keys, with units; text as it is."""
    words: dict[str, Callable[[float], str]] = {
        "bytes_written": formats.size,
        **dict.fromkeys(("fill", "retried", "share_of_free"), formats.percent),
        **dict.fromkeys(("grace", "shortest_phase", "time"), _duration),
    }
    return [
        (name, words[name](value) if name in words and isinstance(value, int | float) else str(value))
        for name, value in found.items()
        if value is not None
    ]


def _duration(seconds: float) -> str:
    return human_duration(seconds) if seconds >= 60 else f"{seconds:g} s"


def _repetitions(settings: RepetitionFacts) -> str:
    low, high, until = settings.min, settings.max, settings.until_ci95_half_width
    text = str(low) if low == high else f"{low} to {high}"
    if until is not None:
        text += f", until the 95 % confidence interval is within ± {100 * until:g} %"
    return text
