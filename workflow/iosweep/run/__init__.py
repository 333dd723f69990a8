"""One allocation: its repetitions, data sets, the agents of its nodes, and how tools are started.

| module | what it does |
|---|---|
| work.py | Request (what to measure), Setup (what is open), Work (repetitions that are left), lines of progress |
| allocation.py | measures an allocation: store, agents, lock; the order of repetitions; tidies up; what ends it |
| nodes.py | the programs that measure; facts of the nodes, whether they fit together, their CPUs |
| target_check.py | the target: before planning and before preparing |
| campaign_directory.py | the campaign's directory on the target: claim, space, the nodes that see it, removal |
| budget.py | limits.time, limits.bytes_written and the end of the job |
| repetition.py | one repetition: steps, verdict, record |
| datasets.py | data sets: prepared once, looked at after every use; the files of a step after it |
| launch.py | starts a tool: through the launcher, or once on every node |
| agents.py | the agents of a job's nodes: the process on a node, and the runner's side |
"""
