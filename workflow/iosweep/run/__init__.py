"""One allocation: its repetitions, data sets, the agents of its nodes, and how tools are started.

| module | what it does |
|---|---|
| allocation.py | measures an allocation: store, agents, lock; order of repetitions; cleanup; errors and exit codes |
| progress.py | prints progress |
| preflight.py | checks the target (before planning and in the job), the programs, and the nodes with their CPUs |
| campaign_directory.py | claims the campaign's directory; checks space, and that all nodes see it; removes it |
| budget.py | enforces limits.time, limits.bytes_written and the end of the job |
| repetition.py | one repetition: runs its steps, judges and stores them; retries it at once |
| datasets.py | data sets: prepares each once, examines it before and after use; samples the files of a step |
| launch.py | starts a tool through the launcher, or through agents.py once on each node |
| agents.py | the agents of a job's nodes, and the runner's side: simultaneous starts, clock offsets |
"""
