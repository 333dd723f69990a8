"""Every figure of the report as SVG and PNG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iosweep.analysis.data import Campaign, load
from iosweep.analysis.summary import PointSummary, summarize
from iosweep.files import safe_paths
from iosweep.files.safe_paths import Folder
from iosweep.report import figures, scaling_figures, vega_lite
from iosweep.report.figures import Figure
from iosweep.tables import reader
from iosweep.text import printable_lines

#: The file beside the figures that lists them. Snakemake removes figures.done, an output, before it runs us.
_LIST = "names"
#: Names of our figures, and the largest list of them that is read.
_NAME, _LIST_BYTES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,250}\.(svg|png)"), 1 << 20
_PNG_SCALE = 2  # sharp in a document and on a screen with many dots


def drawings(campaign: Campaign, results: Sequence[PointSummary]) -> list[Figure]:
    """All figures of a campaign, sweep by sweep, with distinct names."""
    found = [*figures.figures(campaign, results), *scaling_figures.figures(campaign, results)]
    order = [sweep.name for sweep in campaign.about.sweeps]
    return figures.distinct_names(sorted(found, key=lambda figure: order.index(figure.sweep)))


def export(results: Path) -> list[Path]:
    """Write `results/figures/<name>.svg` and `.png` for every figure that has something to draw.

    Those of an earlier call that are not made again are removed; other files there are left alone. Returns the files
    written. Raises FileNotFoundError when merge has not written to `results`, Damaged.
    """
    campaign = load(results)
    with safe_paths.folder(results, reader.FIGURES, make=True) as folder:
        made = _export(campaign, folder)
        for name in _made_before(folder) - {*made}:
            folder.remove(name)
        folder.write(_LIST, "".join(f"{name}\n" for name in made).encode())
    safe_paths.write(results, reader.FIGURES_DONE, b"")
    return [results / reader.FIGURES / name for name in made]


def _made_before(folder: Folder) -> set[str]:
    """The names of the figures of an earlier call."""
    try:
        told = folder.read(_LIST, _LIST_BYTES).decode()
    except (OSError, ValueError):
        return set()
    return set(filter(_NAME.fullmatch, told.splitlines()))


def _export(campaign: Campaign, folder: Folder) -> list[str]:
    """The names of the files."""
    import vl_convert  # late: it carries a JavaScript engine

    made = []
    for figure in drawings(campaign, summarize(campaign.rows)):
        if figure.panels:
            # No base URL is allowed: a specification must not make the converter fetch anything.
            svg = vl_convert.vegalite_to_svg(_drawable(vega_lite.with_values(figure)), allowed_base_urls=[])
            png = vl_convert.svg_to_png(svg, scale=_PNG_SCALE)
            for suffix, content in (("svg", svg.encode()), ("png", png)):
                name = f"{figure.name}.{suffix}"
                folder.write(name, content)
                made.append(name)
    return made


def _drawable(part: Any) -> Any:
    """A specification without control characters, which are no XML: at one of them the converter ends the process."""
    if isinstance(part, dict):
        return {_drawable(key): _drawable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(one) for one in part]
    return printable_lines(part) if isinstance(part, str) else part
