"""Judging: raw output, record and facts -> rows with verdicts and reasons; rows -> best points, repetitions left.

| module | what it does |
|---|---|
| checks/ | the checks: observation of a phase -> finding (pure) |
| verdict.py | record, raw output and facts -> rows with verdicts (pure) |
| findings.py | findings of checks; failed checks -> reasons of a verdict (pure) |
| statistics.py | confidence intervals, differences, level shifts from night to night (pure) |
| agreement.py | whether the repetitions of a point agree (pure) |
| best.py | the best point of a phase, the repetitions that confirm it, where ramps end (pure) |
| remaining.py | plan and store -> the repetitions that are left or retried, and how long they take (pure) |
"""
