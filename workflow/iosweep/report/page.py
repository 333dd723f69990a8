"""The report as a single HTML file that opens from a disk without a network and sends nothing.

Nothing in a campaign is trusted. Jinja2 escapes text; data is in a block of base64, which the script unpacks and sets
as text. The policy of the page allows no requests, and only the scripts and the style of this package."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from iosweep.analysis import acceptance, caveats, formats
from iosweep.analysis.summary import count_results, summarize_campaign
from iosweep.files import safe_paths
from iosweep.report import answer, drawing, quality, results_table, system
from iosweep.report.figures import figures
from iosweep.tables import reader
from iosweep.tables.reader import load, load_series
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
        "time": "{:%Y-%m-%d %H:%M %Z}".format,
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

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    allowed = " ".join(map(digest, scripts)) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src {digest(style)}; base-uri 'none'; form-action 'none'"


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, which takes a second to make."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _coded(text: str) -> Markup:
    """Show text between backticks as code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped


def _unbroken(text: str) -> str:
    """Keep `n = 3`, `2.1 %` and `(89 to 95 %)` on one line."""
    text = re.sub(r"\([^();]{,30}\)", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    return re.sub(r" (?=[=%])|(?<=[=±]) ", "\N{NO-BREAK SPACE}", text)


# The page


#: In the order in which they run: each uses earlier ones.
_SCRIPTS = ("page.js", "behind_rows.js", "results_table.js", "charts.js")


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
    about = campaign.about
    summary = results_table.sort_results(summarize_campaign(campaign), about.sweeps)
    drawings = figures(campaign, summary)
    shares = acceptance.published_shares(summary, about.sweeps)
    repetitions = results_table.find_typical_repetitions(summary)
    content = {
        "campaign": about.campaign,
        "symbols": caveats.VERDICT_SYMBOLS,
        "table": results_table.make_payload(summary, campaign.checks, shares),
        "latencies": results_table.list_latencies(summary),
        "series": results_table.draw_over_time(summary, repetitions, load_series(results, repetitions)),
        "figures": {
            figure.name: {
                "spec": drawing.specification(figure),
                "marks": [_rounded(mark.values()) for mark in figure.marks],
            }
            for figure in drawings
        },
    }
    style, scripts = read("page.css"), [library(), "\n".join(map(read, _SCRIPTS))]
    template = environment().get_template("page.html")
    return template.render(
        policy=policy(style, scripts),
        style=Markup(style),  # noqa: S704  our own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704  our own files and the library's
        data=Markup(data(content)),  # noqa: S704  base64
        formats=formats,
        symbols=caveats.VERDICT_SYMBOLS,
        outcomes=acceptance.SYMBOLS,
        looks={"pass": "valid", "fail": "invalid", "undecided": "suspect"},
        **answer.answer(campaign, summary, shares),
        # sections below the first screen
        sweeps=[(sweep, [figure for figure in drawings if figure.sweep == sweep.name]) for sweep in about.sweeps],
        of_nodes=[figure for figure in drawings if not figure.sweep],
        columns_of=drawing.columns,
        constant=results_table.describe_constant(summary),
        counts=count_results(summary),
        metadata=results_table.make_metadata_tables(campaign, summary),
        checks=quality.summarize_checks(campaign.checks),
        coverage=quality.count_coverage(about.sweeps, summary),
        meanings=caveats.VERDICT_MEANINGS,
        cpus=system.describe_cpus(campaign),
        nodes=system.describe_nodes(campaign),
        builds=quality.describe_builds(campaign, summary),
        spack_builds=quality.describe_spack_builds(campaign),
        repetitions_of=quality.describe_repetitions,
        ingested=about.ingested,
    )


def _rounded(value: object) -> object:
    """Round to four significant digits, which a drawing does not show, to save bytes."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
