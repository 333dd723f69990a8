"""What the merged tables say: figures with intervals, best points, decisions. The report and the commands show it.

| module | what it does |
|---|---|
| data.py | results/<campaign>/ -> typed rows |
| aggregate.py | rows -> one result per point and phase (pure) |
| titles.py | names of tools, phases and conditions; titles of y axes, those of x axes come from `Option` (pure) |
| formats.py | how figures, sizes and lists of nodes are written (pure) |
| caveats.py | what limits a figure: reasons, different nodes and builds, missing repetitions (pure) |
| slices.py | which results belong in one figure (pure) |
| grids.py | a sweep as grids of two axes: results of a phase, and which points are measured (pure) |
| choice.py | which point is the best of a phase, what confirms it, what it cannot be told apart from (pure) |
| published.py | results as shares of the published figures of their suite |
| matching.py | which results of two campaigns are of the same thing (pure) |
| comparison.py, comparison_words.py | how figures of two campaigns differ, how sure that is; in words (pure) |
| findings.py | what a comparison finds, and which of it is worth a sentence (pure) |
| session_verdicts.py | the same where other campaigns say how sessions of the first system differ (pure) |
| versus.py | two campaigns side by side: all of the above (pure) |
| changes.py | what else changed between two campaigns (pure) |
| lines.py | points that differ in one axis alone, and what that axis does to a figure (pure) |
| scaling.py | how rates grow with nodes and threads, and what share of linear growth that is (pure) |
| sentences.py | what a sweep has shown, in sentences (pure) |
| acceptance.py, acceptance_words.py | criteria -> pass, fail or undecided, and why; what several share (pure) |
| history.py, history_words.py | campaigns of one configuration over time, and what is said of them (pure) |
| knees.py | where the ramps of sweeps reach most of their peak (pure) |
"""
