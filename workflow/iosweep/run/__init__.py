"""One allocation: its repetitions, data sets, the agents of its nodes, and how tools are started.

| module | what it does |
|---|---|
| request.py | Request (what to measure) and Setup (what is open meanwhile) |
| allocation.py | measures an allocation: store, agents, lock; the Context of repetitions, their order; tidies up |
| work.py | repetitions that are left, their forecast, and results of other builds or targets |
| binaries.py | the programs that measure; points that lack one |
| target_check.py | the target: before planning, before preparing, and on every node |
| campaign_directory.py | the campaign's directory on the target: claim, space, removal |
| nodes.py | facts of the nodes, whether they fit together, their CPUs |
| budget.py | limits.time, limits.bytes_written and the end of the job |
| repetition.py | one repetition: steps, verdict, record |
| datasets.py | data sets: prepared once, checked before every use; the files of a step after it |
| launching.py | starts a tool: through the launcher, on every node, or by its own client and servers |
| remote.py, remote_agent.py | the agents of a job's nodes: the runner's side, and the process on a node |
| outcome.py | exceptions that end an allocation |
| progress_lines.py | progress on the screen and in the log |
"""
