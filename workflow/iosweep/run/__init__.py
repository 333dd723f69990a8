"""One allocation: its repetitions, data sets, the agents of its nodes, and how tools are started.

| module | what it does |
|---|---|
| allocation.py | measures an allocation: store, agents, lock; the order of repetitions; tidies up; what ends it |
| progress.py | lines of progress |
| preflight.py | the target, before planning and in the job; the programs that measure; the nodes and their CPUs |
| campaign_directory.py | the campaign's directory: claim, or anew for another striping; space; nodes see it; removal |
| budget.py | limits.time, limits.bytes_written and the end of the job |
| repetition.py | one repetition: steps, verdict, record; whether it is tried again at once |
| datasets.py | data sets: prepared once, looked at after every use; the files of a step after it |
| launch.py | starts a tool through the launcher, or by agents.py once on every node |
| agents.py | the agents of a job's nodes, and the runner's side: start on all at once; clocks |
"""
