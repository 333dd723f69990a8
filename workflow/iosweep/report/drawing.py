"""A figure -> a Vega-Lite specification, for page, SVG and PNG; and the files of all figures."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import altair as alt
from altair.utils import schemapi

from iosweep.analysis import formats
from iosweep.analysis.summary import summarize_campaign
from iosweep.files import safe_paths
from iosweep.report.figures import Figure, Panel, figures
from iosweep.tables import reader
from iosweep.tables.reader import load

#: JSON of Vega-Lite.
Specification = dict[str, object]
#: Name of the data set with the values.
DATA = "values"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
INK, MUTED, LINE = "#1d2329", "#57606a", "#d8dde3"

#: Stations of the palette, from dark to light: the order is visible with every kind of color vision, and the light
#: end differs from white.
_STATIONS = ((45, 17, 96), (44, 90, 160), (22, 135, 127), (87, 160, 60), (200, 142, 0))
_SINGLE = "#0b5fa5"

_DASHES = ([1, 0], [5, 3])
_SHAPES = ("circle", "triangle-up")

#: Show the mark's own values: with a list of fields, an absent value would appear as "undefined".
_TOOLTIP = {"content": "data"}
_WIDTH, _HEIGHT = 360, 220
#: Mean width of a character of the subtitle in pixels.
_CHARACTER = 5.3


def specification(figure: Figure) -> Specification:
    """The figure without its values, which the renderer adds as the data set DATA.

    Altair makes the layers only. It would take three times as long for the whole figure, because it copies everything
    at each step. Its validation is off (a quarter of the remaining time); a test validates the whole.
    """
    with schemapi.debug_mode(False):
        panels = [_panel(figure, panel, number) for number, panel in enumerate(figure.panels)]
    return {
        "$schema": alt.SCHEMA_URL,
        "config": _CONFIG,
        "title": {"text": figure.title, "subtitle": _lines(figure)},
        "concat": panels,
        "columns": columns(len(figure.panels)),
        "spacing": {"row": 26, "column": 26},
    }


def with_values(figure: Figure) -> Specification:
    """The complete figure, for a renderer."""
    return {**specification(figure), "datasets": {DATA: [mark.values() for mark in figure.marks]}}


def columns(panels: int) -> int:
    """Number of panels side by side: four make a square, others at most three a row."""
    return 2 if panels == 4 else min(panels, 3)


def palette(count: int) -> list[str]:
    """Colors at even steps along the palette, in the order of the lines."""
    if count == 1:
        return [_SINGLE]
    colors = []
    for i in range(count):
        place = i / (count - 1) * (len(_STATIONS) - 1)
        leg = min(int(place), len(_STATIONS) - 2)
        pairs = zip(_STATIONS[leg], _STATIONS[leg + 1], strict=True)
        colors.append("#" + "".join(f"{round(a + (b - a) * (place - leg)):02x}" for a, b in pairs))
    return colors


def _panel(figure: Figure, panel: Panel, number: int) -> Specification:
    labels = json.dumps({value: formats.parameter(figure.x_column, value) for value in figure.x_values})
    axis = alt.Axis(values=list(figure.x_values), labelExpr=f"({labels})[datum.value]", grid=False)
    x = alt.X("x:Q", title=figure.x_title, scale=_x_scale(figure.x_values), axis=axis)
    ends = [panel.ticks[0], panel.ticks[-1]]
    # all labels have as many decimals as a step needs; powers of ten differ in this
    decimals = len(f"{panel.ticks[1]:g}".partition(".")[2])
    y = alt.Y(
        "y:Q",
        title=f"{panel.unit}{' (logarithmic)' if panel.log else ''}",
        scale=alt.Scale(type="log", domain=ends) if panel.log else alt.Scale(domain=ends, nice=False),
        axis=alt.Axis(values=list(panel.ticks), format=",.6~g" if panel.log else f",.{decimals}f"),
    )
    color = alt.Color(
        "series:N",
        title=figure.series_title,
        scale=alt.Scale(domain=list(figure.series), range=palette(len(figure.series))),
        legend=alt.Legend(columns=9) if figure.series_title else None,
    )
    base = alt.Chart(alt.NamedData(DATA))
    bars = base.transform_filter("datum.high > datum.low").mark_rule(strokeWidth=1.4, clip=True)
    # marks without height stay in the data of the line, so that it breaks there
    lines = base.mark_line(strokeWidth=2, invalid="break-paths-show-domains")
    points = base.transform_filter("isValid(datum.y)")
    if len(figure.measures) > 1:
        lines = lines.encode(strokeDash=alt.StrokeDash("measure:N", title=None, scale=_scale(figure, _DASHES)))
        points = points.encode(shape=alt.Shape("measure:N", title=None, scale=_scale(figure, _SHAPES)))
    elif any(mark.apart for mark in figure.marks):
        # a diamond of the same size would look smaller
        points = points.encode(
            shape=alt.condition("datum.apart", alt.value("diamond"), alt.value("circle")),
            size=alt.condition("datum.apart", alt.value(110), alt.value(48)),
        )
    dots = base.transform_filter("isValid(datum.each)").transform_flatten(["each"], as_=["one"])
    full = points.mark_point(filled=True, size=48, opacity=1, tooltip=_TOOLTIP)
    hollow = points.mark_point(filled=False, size=48, opacity=1, fill="white", strokeWidth=1.8, tooltip=_TOOLTIP)
    layers = (
        base.mark_point().encode(x=x, y=y, color=color),  # encodings of the panel
        bars.encode(y=alt.Y("low:Q"), y2="high:Q"),
        lines,
        full.transform_filter("datum.verdict == 'valid'"),
        hollow.transform_filter("datum.verdict != 'valid'"),
        dots.mark_circle(size=9, opacity=0.7).encode(y=alt.Y("one:Q")),
    )
    shared, *drawn = (layer.to_dict(validate=False, context={"top_level": False}) for layer in layers)
    for layer in drawn:
        del layer["data"]  # layers use the filtered data of their panel
    return {
        "data": {"name": DATA},
        "title": {"text": panel.title, "fontSize": 13, "offset": 8},
        "width": _WIDTH,
        "height": _HEIGHT,
        "transform": [{"filter": f"datum.panel == {number}"}],
        "encoding": shared["encoding"],
        "layer": drawn,
    }


def _scale(figure: Figure, how: Sequence[object]) -> alt.Scale:
    """Scale of dashes or shapes: one for each measure."""
    return alt.Scale(domain=list(figure.measures), range=list(how[: len(figure.measures)]))


def _x_scale(values: Sequence[float]) -> alt.Scale:
    room = 1.15
    if min(values) <= 0:  # empty files: one doubling below the smallest others
        least = min((value for value in values if value > 0), default=1)
        domain = [-least * (room - 1), max(*values, least) * room]
        return alt.Scale(type="symlog", constant=least, domain=domain, nice=False)
    # a logarithmic axis has no zero: leave a little room on both sides
    return alt.Scale(type="log", base=2, domain=[min(values) / room, max(values) * room], nice=False)


def _lines(figure: Figure) -> list[str]:
    """Text for an image without the page, in lines about as wide as the panels."""
    most = max(90, round(columns(len(figure.panels)) * _WIDTH / _CHARACTER))
    texts = [f"Sweep {figure.sweep}: {figure.subtitle}", *figure.notes, figure.origin]
    return [line for text in texts for line in textwrap.wrap(text, most) or [""]]


_CONFIG: Specification = {
    "background": "white",
    "padding": 8,
    "font": FONT,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "fontSize": 15,
        "fontWeight": 600,
        "color": INK,
        "subtitleColor": MUTED,
        "subtitleFontSize": 11,
        "subtitlePadding": 4,
        "offset": 14,
    },
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "domainColor": LINE,
        "tickColor": LINE,
        "gridColor": "#edf0f3",
        "titlePadding": 8,
    },
    # room for the widest label, so that the panels of a column align
    "axisY": {"minExtent": 38, "domain": False, "ticks": False},
    "axisX": {"labelOverlap": "greedy"},
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "titleOrient": "left",
        "titleColor": MUTED,
        "labelColor": INK,
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "labelFontSize": 12,
        "symbolSize": 70,
        "symbolStrokeWidth": 2,
        "columnPadding": 14,
        "symbolLimit": 0,
    },
}


#: Names that figures have (figures.py).
_NAME = re.compile(r"(throughput|iops|latency|metadata|efficiency)-by-[A-Za-z0-9._+-]+\.(svg|png)")
_PNG_SCALE = 2  # sharp in documents and on high-resolution screens


def export(results: Path) -> list[Path]:
    """Write `results/figures/<name>.svg` and `.png` for every figure with something to draw, and return the files.

    Figures of an earlier call that are not made again are removed; other files stay. Raises FileNotFoundError without
    tables in `results`, Damaged.
    """
    campaign = load(results)
    import vl_convert  # late: it contains a JavaScript engine

    made = []
    with safe_paths.folder(results, reader.FIGURES, make=True) as folder:
        for figure in figures(campaign, summarize_campaign(campaign)):
            if figure.panels:
                # without allowed URLs, a specification cannot make the converter fetch anything
                svg = vl_convert.vegalite_to_svg(with_values(figure), allowed_base_urls=[])
                png = vl_convert.svg_to_png(svg, scale=_PNG_SCALE)
                for suffix, content in (("svg", svg.encode()), ("png", png)):
                    made.append(f"{figure.name}.{suffix}")
                    folder.write(made[-1], content)
        for name in {*filter(_NAME.fullmatch, folder.names())} - {*made}:
            folder.remove(name)
    safe_paths.write(results, reader.FIGURES_DONE, b"")
    return [results / reader.FIGURES / name for name in made]
