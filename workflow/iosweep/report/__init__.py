"""The report: what merge wrote, as figures, one HTML page and a headline table.

| module | what it does |
|---|---|
| page.py | everything -> one HTML file (page.html, sections/*.html, page.css, the scripts) |
| answer.py | the first screen: counts, remarks, sentences, the cards of the best figures; the same for a terminal |
| figures.py, captions.py | results -> figures and their captions (pure) |
| scaling_figures.py | results -> figures of scaling efficiency (pure) |
| vega_lite.py, figure_files.py | a figure -> Vega-Lite -> SVG and PNG |
| results_table.py, behind_rows.py | results -> the table of results, and what is behind its rows (pure) |
| benchmark_tables.py | results -> mdtest's rates by operation, WEKA's summary (pure) |
| quality.py | what each sweep covers, and what the checks have found (pure) |
| system.py, cpus.py | nodes side by side, the node check, pictures of their CPUs (pure) |
| provenance.py | results -> builds of the tools and their origin (pure) |
| html.py | what all pages share: templates, policy, data for the scripts |
| comparison_page.py | a comparison -> one HTML file (comparison.html, comparison.css) |
| history_page.py | campaigns over time -> one HTML file (history.html, history.css) |
"""
