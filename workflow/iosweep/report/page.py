"""The report as a single HTML file that opens from a disk without a network and sends nothing.

Nothing in a campaign is trusted. Jinja2 escapes text; data is in a block of base64, which the script unpacks and sets
as text. The policy of the page allows no requests, and only the scripts and the style of this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from iosweep import collector
from iosweep.analysis import acceptance, findings, formats
from iosweep.analysis.acceptance import PublishedShares
from iosweep.analysis.summary import PointSummary, summarize
from iosweep.files import safe_paths
from iosweep.report import answer, drawing, html, results_table, system, tables
from iosweep.report.figures import Figure, figures
from iosweep.tables import reader
from iosweep.tables.reader import Campaign, load, load_latencies, load_series

#: In the order in which they run: each uses earlier ones.
_SCRIPTS = ("page.js", "behind_rows.js", "results_table.js", "switches.js", "charts.js")


def write(results: Path) -> Path:
    """Write `results/report.html` atomically and return its path.

    Raises FileNotFoundError without tables in `results`.
    """
    safe_paths.write(results, reader.REPORT, render(results).encode() + b"\n")
    return results / reader.REPORT


def render(results: Path) -> str:
    """The report of a campaign as HTML.

    Raises FileNotFoundError without tables in `results`.
    """
    with collector.paused():
        return _page(results, load(results))


def _page(results: Path, campaign: Campaign) -> str:
    summary = results_table.sort_results(summarize(campaign.rows), campaign.about.sweeps)
    drawings = figures(campaign, summary)
    shares = acceptance.published_shares(summary, campaign.about.sweeps)
    style = html.read("page.css")
    scripts = [html.library(), html.read_all(_SCRIPTS)]
    return (
        html.environment()
        .get_template("page.html")
        .render(
            policy=html.policy(style, scripts),
            style=Markup(style),  # noqa: S704  our own file
            scripts=[Markup(script) for script in scripts],  # noqa: S704  our own files and the library's
            data=Markup(html.data(_data(results, campaign, summary, drawings, shares))),  # noqa: S704  base64
            formats=formats,
            symbols=findings.VERDICT_SYMBOLS,
            outcomes=acceptance.SYMBOLS,
            **answer.answer(campaign, summary, shares),
            **_sections(campaign, summary, drawings),
        )
    )


def _sections(campaign: Campaign, results: Sequence[PointSummary], drawings: Sequence[Figure]) -> dict[str, object]:
    """Values of the sections below the first screen."""
    about = campaign.about
    return {
        "sweeps": [(sweep, [figure for figure in drawings if figure.sweep == sweep.name]) for sweep in about.sweeps],
        "columns_of": drawing.columns,
        "rows": len(campaign.rows),
        "shown": len(results),
        "constant": results_table.describe_constant(results),
        "having": results_table.count_outcomes(results),
        "metadata": tables.make_metadata_tables(campaign, results),
        "checks": tables.summarize_checks(campaign.checks),
        "coverage": tables.count_coverage(about.sweeps, results),
        "meanings": findings.VERDICT_MEANINGS,
        "cpus": system.describe_cpus(campaign),
        "nodes": system.describe_nodes(campaign),
        "builds": tables.describe_builds(campaign, results),
        "spack_builds": tables.describe_spack_builds(campaign),
        "repetitions_of": tables.describe_repetitions,
        "ingested": about.ingested,
    }


def _data(
    results: Path,
    campaign: Campaign,
    summary: Sequence[PointSummary],
    drawings: Sequence[Figure],
    shares: PublishedShares,
) -> dict[str, object]:
    """Content of the data element, for the scripts."""
    repetitions = results_table.find_median_repetitions(summary)
    series, rates = load_series(results, repetitions)
    latencies = load_latencies(results, results_table.find_counted_repetitions(summary))
    places = {(result.point, result.phase): place for place, result in enumerate(summary)}
    return {
        "campaign": campaign.about.campaign,
        "symbols": findings.VERDICT_SYMBOLS,
        "table": results_table.make_payload(summary, campaign.checks, shares),
        "latencies": results_table.list_latencies(summary, latencies),
        "series": results_table.draw_over_time(summary, repetitions, series, rates),
        "quantities": results_table.make_quantities(summary),
        "kinds": "".join(result.kind[0] for result in summary),
        "figures": {
            figure.name: {
                "spec": drawing.specification(figure),
                "marks": [_rounded(mark.values()) for mark in figure.marks],
                "results": [places.get((mark.point or "", mark.phase)) for mark in figure.marks]
                if figure.slice
                else None,
            }
            for figure in drawings
            if figure.panels
        },
    }


def _rounded(value: object) -> object:
    """Round to six significant digits, to save bytes."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
