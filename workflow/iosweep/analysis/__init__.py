"""What the merged tables say: figures with intervals, best points, decisions. The report and the commands show it.

| module | what it does |
|---|---|
| data.py | results/<campaign>/ -> typed rows |
| aggregate.py | rows -> one result per point and phase (pure) |
| titles.py | names of tools, phases and conditions; titles of y axes, those of x axes come from `Option` (pure) |
| formats.py | how figures, sizes and lists of nodes are written (pure) |
| caveats.py | what limits a figure: reasons, different nodes and builds, missing repetitions (pure) |
| slices.py | which results belong in one figure (pure) |
| choice.py | which point is the best of a phase, what confirms it, what it cannot be told apart from (pure) |
| published.py | published figures that results of a suite compare with (pure) |
| lines.py, scaling.py, knees.py | what one axis does to a figure, how rates grow, where ramps bend (pure) |
| sentences.py | what a sweep has shown, in sentences (pure) |
| acceptance.py | criteria -> pass, fail or undecided, and why; what several share (pure) |
| matching.py | which results of two campaigns are of the same thing (pure) |
| comparison.py, comparison_words.py | how figures of two campaigns differ, how sure that is; in words (pure) |
| changes.py | what else changed between two campaigns (pure) |
| history.py | campaigns of one configuration over time, and what is said of them (pure) |
"""
