"""Raw output, record and facts -> rows with verdict and reasons; rows -> the best points, and what is left to measure.

| module | what it does |
|---|---|
| checks/, reasons.py | raw output and record -> findings -> reasons (pure) |
| judging.py | raw output and record -> rows with verdict, of a phase and of a point |
| node_rates.py, series.py, steadiness.py | rates of nodes and workers, and over time (pure) |
| origins.py | which nodes, CPUs and jobs rows come from |
| statistics.py, precision.py, outliers.py | confidence intervals; nodes that differ from the others (pure) |
| ramps.py, knee.py | how far an axis is climbed, and where it bends (pure) |
| best.py | the best point of a phase, and the repetitions that confirm it (pure) |
| remaining.py, time_to_go.py | plan and store -> repetitions that are left, and how long they take (pure) |
| change_points.py | when a figure changed for good in a row of nights (pure) |
"""
