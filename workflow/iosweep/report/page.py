"""The report as a single HTML file that opens from a disk without a network and sends nothing.

Nothing in a campaign is trusted. Jinja2 escapes text; data is in a block of base64, which the script unpacks and sets
as text. The policy of the page allows no requests, and only the scripts and the style of this package."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from iosweep.analysis import acceptance, caveats, formats
from iosweep.analysis.acceptance import PublishedShares
from iosweep.analysis.summary import PointSummary, summarize
from iosweep.files import safe_paths
from iosweep.report import answer, drawing, results_table, system, tables
from iosweep.report.figures import Figure, figures
from iosweep.tables import reader
from iosweep.tables.reader import Campaign, load, load_latencies, load_series
from iosweep.text import human_count

_HERE = Path(__file__).parent


@cache  # keeps compiled templates
def environment() -> Environment:
    """The templates of this folder. All text is escaped; a name without a value is an error."""
    made = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": human_count,
        "size": formats.size,
        "time": _time,
        "thousands": "{:,}".format,
        "unbroken": _unbroken,
        "coded": _coded,
    }
    return made


def page(name: str, **values: object) -> str:
    """A page without scripts: `<name>.html` with the style of the report and of `<name>.css`."""
    style = read("page.css") + read(f"{name}.css")
    shell = {"policy": policy(style), "style": Markup(style), "data": "", "scripts": []}  # noqa: S704  our own files
    return environment().get_template(f"{name}.html").render(**shell, **values)


def data(content: Mapping[str, object]) -> str:
    """A script element with compressed data, which browsers do not run; page.js unpacks it.

    Base64 needs no escaping in HTML, and cannot end the element.
    """
    packed = base64.b64encode(zlib.compress(msgspec.json.encode(content), 9)).decode()
    return f'<script type="application/octet-stream" id="report-data">{packed}</script>'


def policy(style: str, scripts: Iterable[str] = ()) -> str:
    """Content security policy: no requests, and only these scripts and this style.

    Vega evaluates its expressions with an interpreter (charts.js), so that 'unsafe-eval' is not needed.
    """
    hashes = " ".join(_hash(script) for script in scripts) or "'none'"
    return f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, which takes a second to make."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def read_all(names: Iterable[str]) -> str:
    """Join scripts into a module, whose first statement waits for the data."""
    return "\n".join(map(read, names))


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M %Z}"


def _coded(text: str) -> Markup:
    """Show text between backticks as code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped


def _unbroken(text: str) -> str:
    """Keep `n = 3` and `2.1 %` on one line of a narrow card."""
    return re.sub(r" (?=[=%])|(?<=[=±]) ", "\N{NO-BREAK SPACE}", text)


# The page


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
    campaign = load(results)
    summary = results_table.sort_results(summarize(campaign.rows), campaign.about.sweeps)
    drawings = figures(campaign, summary)
    shares = acceptance.published_shares(summary, campaign.about.sweeps)
    style = read("page.css")
    scripts = [library(), read_all(_SCRIPTS)]
    return (
        environment()
        .get_template("page.html")
        .render(
            policy=policy(style, scripts),
            style=Markup(style),  # noqa: S704  our own file
            scripts=[Markup(script) for script in scripts],  # noqa: S704  our own files and the library's
            data=Markup(data(_data(results, campaign, summary, drawings, shares))),  # noqa: S704  base64
            formats=formats,
            symbols=caveats.VERDICT_SYMBOLS,
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
        "meanings": caveats.VERDICT_MEANINGS,
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
        "symbols": caveats.VERDICT_SYMBOLS,
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
