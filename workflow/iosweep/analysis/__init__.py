"""Conclusions from the tables: figures with intervals, best points, decisions. Report and commands show them. Pure.

| module | what it does |
|---|---|
| summary.py | rows -> one summary for each phase of a point, over its repetitions |
| formats.py | how figures, names, sizes and lists of nodes are written |
| caveats.py | limits of a figure: reasons, different nodes and builds, missing repetitions |
| headline.py | the best point of a phase, its confirmation, and points that may be as good |
| slices.py | which results share a figure; lines along one axis, scaling |
| sentences.py | the results of a sweep, in sentences |
| acceptance.py | criteria -> pass, fail or undecided, and why; shares of published figures |
| comparison.py | how the figures of two campaigns differ, or of two values of an axis |
| changes.py | what else changed between two campaigns |
| history.py | campaigns of one configuration over time |
"""
