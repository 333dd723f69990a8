"""One HTML file that holds everything: it opens from a disk, without a network, and keeps what it shows to itself.

Nothing of a campaign is trusted: text goes through Jinja2's escaping, data into a JSON block that the script reads and
sets as text. The page's policy allows no request at all, and only the scripts and the style of this package.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from iosweep.analysis import caveats, formats, titles
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import Campaign, load, load_series
from iosweep.files import safe_paths
from iosweep.plan.sweep_facts import RepetitionFacts
from iosweep.report import (
    benchmark_tables,
    builds,
    cpus,
    figure_files,
    figures,
    nodes,
    results_table,
    run_order,
    series_figures,
    vega_lite,
)
from iosweep.report.figures import Figure
from iosweep.report.first_screen import answer
from iosweep.results import merged_tables
from iosweep.text import human_count

_HERE = Path(__file__).parent
#: Figures that are in the page as SVG, too, for a reader without a script and for printing before it has drawn: one
#: takes a tenth of a second and up to 120 kB.
_STATIC, _STATIC_BYTES = 24, 1_000_000


def write(results: Path) -> Path:
    """Write `results/report.html`, whole or not at all, and return its path.

    Raises FileNotFoundError when merge has not written to `results`.
    """
    safe_paths.write(results, merged_tables.REPORT, merged_tables.sealed(render(results).encode() + b"\n"))
    return results / merged_tables.REPORT


def render(results: Path) -> str:
    """The report of one campaign as HTML text.

    Raises FileNotFoundError when merge has not written to `results`.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    campaign = load(results)
    summary = results_table.ordered(summarize(campaign.rows), campaign.about.sweeps)
    drawings = figures.figures(campaign, summary)
    specified = {f.name: vega_lite.specification(f) for f in drawings if f.panels}
    static = figure_files.static(((f, specified[f.name]) for f in drawings if f.panels), _STATIC, _STATIC_BYTES)
    style = _read("page.css")
    scripts = [_library(), _read("page.js"), _read("charts.js")]
    series, rates = load_series(results, series_figures.chosen(summary))
    data = {
        "campaign": campaign.about.campaign,
        "symbols": caveats.VERDICT_SYMBOLS,
        "table": results_table.payload(summary, campaign.checks),
        "series": series_figures.payload(summary, series, rates),
        "figures": {f.name: _drawing(f, specified[f.name]) for f in drawings if f.panels},
    }
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": human_count,
        "size": formats.size,
        "time": _time,
        "thousands": "{:,}".format,
        "unbroken": _unbroken,
    }
    return environment.get_template("page.html").render(
        policy=_policy(style, scripts),
        style=Markup(style),  # noqa: S704  our own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704  our own files and the library's
        data=Markup(_json(data)),  # noqa: S704  escaped there
        static={name: Markup(svg) for name, svg in static.items()},  # noqa: S704  drawing elements only
        titles=titles,
        formats=formats,
        meanings=caveats.VERDICT_MEANINGS,
        symbols=caveats.VERDICT_SYMBOLS,
        **answer(campaign, summary),
        **_body(campaign, summary, drawings),
    )


def _body(campaign: Campaign, results: Sequence[Result], drawings: Sequence[Figure]) -> dict[str, object]:
    """The values of the sections below the first screen."""
    return {
        "weka": benchmark_tables.weka(campaign, results),
        "metadata": benchmark_tables.metadata(campaign, results),
        "sweeps": [
            (sweep, [figure for figure in drawings if figure.sweep == sweep.name]) for sweep in campaign.about.sweeps
        ],
        "repetitions_of": _repetitions,
        "strips": run_order.strips(campaign, results),
        "columns_of": vega_lite.columns,
        "constant": results_table.constant(results),
        "having": results_table.having(results),
        "checks": results_table.summarize_checks(campaign.checks),
        "cpus": cpus.of(campaign),
        "nodes": nodes.of(campaign),
        "builds": builds.of(campaign, results),
        "exclusion": results_table.exclusion(campaign.checks),
    }


def _drawing(figure: Figure, specified: vega_lite.Specification) -> dict[str, object]:
    """A figure for the page's script: specification, and its values by column, which is a third of the bytes."""
    marks = [mark.values() for mark in figure.marks]
    fields = dict.fromkeys(field for mark in marks for field in mark)
    return {"spec": specified, "values": {field: [_short(mark.get(field)) for mark in marks] for field in fields}}


def _short(value: object) -> object:
    if isinstance(value, tuple):
        return [_short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _json(data: Mapping[str, object]) -> str:
    """JSON that cannot end its script element, whatever it holds."""
    text = msgspec.json.encode(data).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(style: str, scripts: Iterable[str]) -> str:
    """Content security policy: nothing may be fetched or sent, and nothing runs but what was written here.

    Vega evaluates its expressions with an interpreter (charts.js), so that 'unsafe-eval' is not needed either.
    """
    hashes = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; a second of work, so only once."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def constant_texts() -> list[str]:
    """The scripts and the style of every report, and its templates: texts that say nothing of a campaign."""
    templates = [file.read_text(encoding="utf-8") for file in sorted(_HERE.glob("*.html"))]
    return [_library(), *(_read(file.name) for file in sorted(_HERE.glob("*.[cj]s*"))), *templates]


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M %Z}"


def _unbroken(text: str) -> str:
    """Text that a narrow card breaks between its parts only: `n = 3` and `2.1 %` stay on one line."""
    return re.sub(r" (?=[=%])|(?<=[=±]) ", "\N{NO-BREAK SPACE}", text)


def _repetitions(settings: RepetitionFacts) -> str:
    low, high, until = settings.min, settings.max, settings.until_ci95_half_width
    text = str(low) if low == high else f"{low} to {high}"
    if until is not None:
        text += f", until the 95 % confidence interval is within ± {100 * until:g} %"
    return text
