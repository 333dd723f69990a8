"""A figure -> a Vega-Lite specification, for page, SVG and PNG; and the files of all figures."""

from __future__ import annotations

import json
import re
import textwrap
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from iosweep.analysis.summary import summarize_campaign
from iosweep.files import safe_paths
from iosweep.report.figures import LINES, Axis, Figure, Panel, figures
from iosweep.tables import reader
from iosweep.tables.reader import load

#: JSON of Vega-Lite.
Specification = dict[str, Any]
#: Name of the data set with the values.
DATA = "values"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
INK, MUTED, LINE, SHADE = "#1d2329", "#57606a", "#d8dde3", "#edf0f3"

#: Stations of the palette, from dark to light: the order is visible with every kind of color vision, the light end
#: differs from white, and none is a color of a verdict (page.css).
_STATIONS = ((26, 26, 94), (79, 70, 200), (146, 76, 208), (203, 90, 178), (226, 134, 190))
_SINGLE = "#4f46c8"
#: From the lowest value of a heat map to the highest.
_HEAT = ("#eeeefb", "#2c2a86")

#: The mark's own values: with a list of fields, an absent value would appear as "undefined".
_TIP = {"content": "data"}
_WIDTH, _HEIGHT, _ROW = 360, 220, 34
#: Room on both sides of a logarithmic axis of values, which has no zero.
_ROOM = 1.15
#: Mean width of a character of the subtitle in pixels.
_CHARACTER = 5.3


def specification(figure: Figure) -> Specification:
    """The figure without its values, which the renderer adds as the data set DATA."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": figure.alternative,
        "config": _CONFIG,
        "title": {"text": figure.title, "subtitle": _lines(figure)},
        "concat": [_panel(figure, panel, number) for number, panel in enumerate(figure.panels)],
        "columns": columns(figure),
        "spacing": {"row": 26, "column": 26},
        "resolve": {"scale": {"color": "independent" if figure.shape == "map" else "shared"}},
    }


def columns(figure: Figure) -> int:
    """Number of panels side by side: four make a square, and labels of curves need room."""
    panels = len(figure.panels)
    return min(panels, 2 if panels == 4 or figure.shape == "curve" else 3)


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
    draw = {"map": _draw_map, "nodes": _draw_nodes}.get(figure.shape, _draw_lines)
    title = f"{panel.title} ({panel.y.title})" if figure.shape == "map" else panel.title
    return {
        "data": {"name": DATA},
        "title": {"text": title, "fontSize": 13, "offset": 8},
        "width": _WIDTH,
        "height": _ROW * len(figure.series) if figure.shape in ("map", "nodes") else _HEIGHT,
        "transform": [{"filter": f"datum.panel == {number}"}],
        **draw(figure, panel),
    }


def _draw_lines(figure: Figure, panel: Panel) -> Specification:
    color = {
        "field": "series",
        "type": "nominal",
        "title": figure.series_title,
        "scale": {"domain": figure.series, "range": palette(len(figure.series))},
        "legend": {"columns": 9} if figure.series_title else None,
    }
    dashed, shaped = (
        {channel: {"field": "measure", "title": None, "scale": {"domain": [*LINES["latency"]], "range": looks}}}
        for channel, looks in (("strokeDash", ([1, 0], [5, 3])), ("shape", ("circle", "triangle-up")))
    )
    curve = figure.shape == "curve"
    order = {"order": {"field": "at", "type": "quantitative"}}
    one, low = ({"field": name, "type": "quantitative"} for name in ("one", "low"))
    layers = [
        _layer("rule", "datum.high > datum.low", {"y": low, "y2": {"field": "high"}}, strokeWidth=1.4, clip=True),
        # marks without height stay in the data of the line, so that it breaks there
        _layer("line", "true", dashed | order if curve else {}, strokeWidth=2, invalid="break-paths-show-domains"),
        *_points(shaped if curve else {}),
        _layer("circle", "isValid(datum.each)", {"y": one}, size=9, opacity=0.7),
    ]
    layers[-1]["transform"].append({"flatten": ["each"], "as": ["one"]})
    if curve:  # above, where a line that rises leaves room
        layers.append(_label(align="right", dx=-6, dy=-7, fontSize=11))
    return {"encoding": {"x": _position("x", panel.x), "y": _position("y", panel.y), "color": color}, "layer": layers}


def _draw_map(figure: Figure, panel: Panel) -> Specification:
    most = panel.y.ends[1]
    heat = {"field": "y", "type": "quantitative", "scale": {"domain": [0, most], "range": _HEAT}, "legend": None}
    dark = {"condition": {"test": f"datum.y > {most / 2}", "value": "white"}, "value": INK}
    text = "(datum.verdict == 'valid' ? '' : '○ ') + (isValid(datum.y) ? format(datum.y, ',.3~r') : '–')"
    x = {**_position("x", panel.x), "type": "ordinal", "scale": {}}
    y = {"field": "series", "type": "ordinal", "sort": figure.series[::-1], "title": figure.series_title}
    cells = _layer("rect", "isValid(datum.y)", {"color": heat}, stroke="white", strokeWidth=2, tooltip=_TIP)
    texts = _label({"color": dark}, fontSize=12)
    texts["transform"] = [{"calculate": text, "as": "label"}]
    return {"encoding": {"x": x, "y": y}, "layer": [cells, texts]}


def _draw_nodes(figure: Figure, panel: Panel) -> Specification:
    y = {"field": "series", "type": "nominal", "sort": figure.series, "title": None}
    ends = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}
    band = _layer("bar", "isValid(datum.low)", ends, height=_ROW - 8, color=LINE, opacity=0.7)
    dots = _points({"color": {"value": _SINGLE}})
    layers = [band, *dots, _label(align="left", dx=8, fontSize=11)]
    return {"encoding": {"x": _position("x", panel.x), "y": y}, "layer": layers}


def _layer(mark: str, having: str, encoding: Specification, **look: object) -> Specification:
    return {"transform": [{"filter": having}], "mark": {"type": mark, **look}, "encoding": encoding}


def _points(encoding: Specification) -> list[Specification]:
    """Full marks of what is valid, hollow ones of the rest."""
    look = {"size": 48, "opacity": 1, "tooltip": _TIP}
    hollow = {"filled": False, "fill": "white", "strokeWidth": 1.8}
    return [
        _layer("point", "isValid(datum.value) && datum.verdict == 'valid'", encoding, filled=True, **look),
        _layer("point", "isValid(datum.value) && datum.verdict != 'valid'", encoding, **look, **hollow),
    ]


def _label(encoding: Specification | None = None, **look: object) -> Specification:
    text = {"text": {"field": "label"}, "color": {"value": INK}, **(encoding or {})}
    return _layer("text", "isValid(datum.label)", text, tooltip=_TIP, **look)


def _position(field: str, axis: Axis) -> Specification:
    found: Specification = {"field": field, "type": "quantitative", "title": axis.title}
    low, high = axis.ends
    if not axis.labels:
        if not axis.log:
            return found | {"scale": {"domain": axis.ends, "nice": 5}, "axis": {"tickCount": 5}}
        powers = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]
        of_powers = {"type": "log", "domain": [powers[0], powers[-1]]}
        return found | {"scale": of_powers, "axis": {"values": powers, "format": ",.9~g"}}
    look: Specification = {"labelExpr": f"({json.dumps(axis.labels)})[datum.value]", "grid": False, "labelAngle": 0}
    if low <= 0:  # empty files have no place on a logarithmic axis
        return found | {"type": "ordinal", "axis": look}
    scale: Specification = {"type": "log", "base": 2, "domain": [low / _ROOM, high * _ROOM], "nice": False}
    return found | {"scale": scale, "axis": {**look, "values": [*axis.labels]}}


def _lines(figure: Figure) -> list[str]:
    """Text for an image without the page, in lines about as wide as the panels."""
    most = max(90, round(columns(figure) * _WIDTH / _CHARACTER))
    sweep = f"Sweep {figure.sweep}: " if figure.sweep else ""
    texts = [f"{sweep}{figure.subtitle}", *figure.notes, figure.origin]
    return [line for text in texts for line in textwrap.wrap(text, most) or [""]]


_TEXT = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titleColor": MUTED}
_CONFIG: Specification = {
    "background": "white",
    "padding": 8,
    "font": FONT,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "fontSize": 15,
        "color": INK,
        "subtitleColor": MUTED,
        "subtitleFontSize": 11,
        "subtitlePadding": 4,
        "offset": 14,
    },
    "axis": _TEXT
    | {"labelColor": MUTED, "domainColor": LINE, "tickColor": LINE, "gridColor": SHADE, "titlePadding": 8},
    # room for the widest label, so that the panels of a column align
    "axisY": {"minExtent": 38, "domain": False, "ticks": False},
    "axisX": {"labelOverlap": "greedy"},
    "legend": _TEXT
    | {
        "orient": "top",
        "direction": "horizontal",
        "titleOrient": "left",
        "labelColor": INK,
        "symbolSize": 70,
        "columnPadding": 14,
        "symbolLimit": 0,
    },
}


#: Names that figures have (figures.py).
_NAME = re.compile(r"(throughput|iops|latency|metadata|efficiency|nodes)-by-[A-Za-z0-9._+-]+\.(svg|png)")
_PNG_SCALE = 2  # sharp in documents and on high-resolution screens


def export(results: Path) -> list[Path]:
    """Write `results/figures/<name>.svg` and `.png` for every figure, and return the files.

    Figures of an earlier call that are not made again are removed; other files stay. Raises FileNotFoundError without
    tables in `results`, Damaged.
    """
    campaign = load(results)
    import vl_convert  # late: it contains a JavaScript engine

    made = []
    with safe_paths.folder(results, reader.FIGURES, make=True) as folder:
        for figure in figures(campaign, summarize_campaign(campaign)):
            # without allowed URLs, a specification cannot make the converter fetch anything
            values = {"datasets": {DATA: [mark.values() for mark in figure.marks]}}
            svg = vl_convert.vegalite_to_svg(specification(figure) | values, allowed_base_urls=[])
            png = vl_convert.svg_to_png(svg, scale=_PNG_SCALE)
            for suffix, content in (("svg", svg.encode()), ("png", png)):
                made.append(f"{figure.name}.{suffix}")
                folder.write(made[-1], content)
        for name in {*filter(_NAME.fullmatch, folder.names())} - {*made}:
            folder.remove(name)
    safe_paths.write(results, reader.FIGURES_DONE, b"")
    return [results / reader.FIGURES / name for name in made]
