"""What the tables say: figures with intervals, best points, decisions. The report and the commands show it. Pure, but
for data.py.

| module | what it does |
|---|---|
| data.py | results/<campaign>/ -> typed rows |
| summary.py | rows -> one summary for each phase of a point, over its repetitions |
| formats.py | how figures, names, sizes and lists of nodes are written |
| findings.py | what limits a figure: reasons, different nodes and builds, missing repetitions |
| headline.py | the best point of a phase: what confirms it, what it cannot be told apart from |
| axes.py | which results share a figure; lines along one axis, scaling, knees |
| sentences.py | what a sweep has shown, in sentences |
| acceptance.py | criteria -> pass, fail or undecided, and why; shares of published figures |
| comparison.py | how two campaigns differ, and what else changed between them |
| history.py | campaigns of one configuration over time |
"""
