"""The report: what merge wrote, as figures, one HTML page and a headline table.

| module | what it does |
|---|---|
| figures.py, captions.py | results -> figures and their captions (pure) |
| knee_marks.py | results -> which marks of a figure are knees (pure) |
| scaling_figures.py | results -> figures and tables of scaling efficiency (pure) |
| drawings.py | all figures of a campaign, in the order of the page (pure) |
| bounds.py, chosen.py | how much the page carries of a large campaign, and which results its table has (pure) |
| results_table.py | results -> the table of results (pure) |
| checks_table.py | checks -> how often each failed or could not be made (pure) |
| series_figures.py | series -> small figures over time and tables of own rates behind the rows (pure) |
| heat_maps.py | results -> heat maps of phases, and the quantities that the switches show (pure) |
| latency_figures.py | histograms -> distributions of the headline's points and behind the rows (pure) |
| benchmark_tables.py | results -> mdtest's rates by operation, WEKA's summary (pure) |
| depth_table.py | what each queue depth gains and costs (pure) |
| builds.py | results -> builds of the tools and their origin (pure) |
| nodes.py | nodes -> what they share and what they differ by (pure) |
| cpus.py | nodes and results -> pictures of their CPUs, what is wrong with them, what was proven (pure) |
| node_check.py | the suite node-check -> nodes side by side, and which stands out (pure) |
| first_screen.py | everything that the first screen of the page shows (pure) |
| headline.py | results -> the cards of the best figures; the same as a table for a terminal |
| notable.py | results -> those that matter most, and all reasons of those that are not valid (pure) |
| remarks.py | campaign -> what the first screen mentions about the target (pure) |
| vega_lite.py, figure_files.py | a figure -> Vega-Lite -> SVG and PNG, and static SVG for the page |
| html.py | what all pages share: templates, policy, the script that draws, data for the scripts (inflate.js) |
| comparison_page.py, overlaid.py | a comparison -> one HTML file (comparison.html, comparison.css) |
| history_page.py | campaigns over time -> one HTML file (history.html, history.css) |
| page.py | everything -> one HTML file (page.html, sections/*.html, page.css, page.js, charts.js) |
"""
