"""Raw output, record and facts -> rows with verdict and reasons; rows -> the best points, and what is left to measure.

| module | what it does |
|---|---|
| checks/ | what a check sees of a phase -> its finding (pure) |
| verdict.py, reasons.py | record, raw output and facts -> rows; findings -> verdict and reasons (pure) |
| nodes.py | rates of nodes and workers, and over time (pure) |
| statistics.py, agreement.py | intervals; whether the repetitions of a point agree (pure) |
| ramps.py | how far an axis is climbed, and where the climb bends (pure) |
| best.py | the best point of a phase, and the repetitions that confirm it (pure) |
| remaining.py | plan and store -> the repetitions that are left, and how long they take (pure) |
| change_points.py | when a figure changed for good in a row of nights (pure) |
"""
