"""Raw output, record and facts -> rows with verdict and reasons; rows -> the best points, and what is left to measure.

| module | what it does |
|---|---|
| checks/ | what a check sees of a phase -> its finding (pure) |
| verdict.py | record, raw output and facts -> rows (pure) |
| findings.py | the outcome of a check; outcomes -> reasons of a verdict (pure) |
| statistics.py | intervals, differences, changes in a row of nights (pure) |
| agreement.py | whether the repetitions of a point agree (pure) |
| best.py | the best point of a phase, the repetitions that confirm it, how far an axis is climbed to find it (pure) |
| remaining.py | plan and store -> the repetitions that are left, and how long they take (pure) |
"""
