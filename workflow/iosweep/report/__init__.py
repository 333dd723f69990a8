"""The report: the tables of a campaign as figures and one HTML page; the pages of `compare` and `history`.

| module | what it does |
|---|---|
| page.py | everything -> one HTML file (page.html, sections/*.html, page.css, the scripts); templates of all pages |
| answer.py | the first screen: counts, remarks, sentences, cards of the best figures; the same for a terminal (pure) |
| figures.py | results -> figures: lines, latency against a rate, heat maps, nodes; words of tooltips (pure) |
| drawing.py | figures -> Vega-Lite: colors, shapes, layout; SVG and PNG. charts.js shows tooltips |
| results_table.py | results -> the table of results, and what is behind its rows; mdtest's rates (pure) |
| quality.py | coverage, checks, builds of the tools (pure) |
| system.py | nodes side by side, the node check, their CPUs, proof of pinning (pure) |
| comparisons.py | a comparison, a history -> one HTML file each |
"""
