"""The report: what merge wrote, as figures, one HTML page and a headline table. Nothing else is read.

data.py      results/<campaign>/ -> rows
summary.py   rows -> one result per point and phase (pure)
words.py     how phases, axes, units and conditions are called
plots.py     results -> which figures there are and what stands in them (pure)
spec.py      a figure -> Vega-Lite
figures.py   figures -> SVG and PNG
headline.py  the answer in a few lines
page.py      everything -> one HTML file (page.html, page.css, page.js, charts.js)
"""
