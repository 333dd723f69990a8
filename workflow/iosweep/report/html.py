"""Shared by all pages: templates, security policy, drawing library, data for scripts."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from iosweep.analysis import formats
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
