"""Every figure of the report as SVG and PNG."""

from __future__ import annotations

from pathlib import Path

from iosweep.report import spec
from iosweep.report.data import load
from iosweep.report.plots import figures
from iosweep.report.summary import summarise

_PNG_SCALE = 2  # sharp in a document and on a screen with many dots


def export(results: Path) -> list[Path]:
    """Write `results/figures/<name>.svg` and `.png` for every figure that has something to draw.

    The directory belongs to this function: figures of sweeps that are gone are removed. Returns the files written.
    Raises FileNotFoundError when merge has not written to `results`.
    """
    import vl_convert  # late: it carries a JavaScript engine

    campaign = load(results)
    folder = results / "figures"
    folder.mkdir(exist_ok=True)
    written = []
    for figure in figures(campaign, summarise(campaign.rows)):
        if figure.panels:
            # No base URL is allowed: a specification must not make the converter fetch anything.
            svg = vl_convert.vegalite_to_svg(spec.with_values(figure), allowed_base_urls=[])
            contents = {"svg": svg.encode(), "png": vl_convert.svg_to_png(svg, scale=_PNG_SCALE)}
            for suffix, content in contents.items():
                path = folder / f"{figure.name}.{suffix}"
                path.write_bytes(content)
                written.append(path)
    for path in folder.iterdir():
        if path.suffix in (".svg", ".png") and path not in written:
            path.unlink()
    return written
