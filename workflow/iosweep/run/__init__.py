"""One allocation: its repetitions, data sets, the agents of its nodes, and how tools are started.

| module | what it does |
|---|---|
| request.py | Request (what to measure) and Setup (what is open meanwhile) |
| allocation.py | measures an allocation: opens the store, the agents and the lock, runs the loop, tidies up |
| work.py | repetitions that are left, their forecast, and results of other builds or targets |
| binaries.py | the programs that measure; points that lack one |
| target_check.py | the target: before planning, before preparing, and on every node |
| campaign_directory.py | the campaign's directory on the target: claim, space, removal |
| nodes.py | facts of the nodes, whether they fit together, their CPUs |
| prepare.py | these together: the Context of repetitions |
| budget.py | limits.time, limits.bytes_written and the end of the job |
| loop.py | the order of repetitions, and the end of the loop |
| repetition.py | one repetition: steps, verdict, record |
| datasets.py | data sets: prepared once, checked before every use |
| afterwards.py | the files of a step after it: unchanged where they were read, blocks of what was written |
| launching.py | starts a tool: through the launcher, on every node, or by its own client and servers |
| remote.py, remote_agent.py | the agents of a job's nodes: the runner's side, and the process on a node |
| outcome.py | exceptions that end an allocation |
| progress_lines.py, progress_bar.py | progress on the screen and in the log; on a terminal |
"""
