"""The file system under test: the campaign's directory and marker, locks, space, striping, and the agent.

The runner never touches the target itself: it asks an agent, with a deadline.

| module | what it does |
|---|---|
| agent.py | the process that touches the target and runs tools; the runner's side of it |
| protocol.py | requests, answers and beats of all agents |
| identify.py | the mount table; the file system of a directory, and when two are the same; is it writable |
| directory.py | makes and opens the campaign's directory and its marker; probes; sets and reads striping |
| trees.py | its files and directories: making, counting, removing; completeness of data sets; samples of data |
| space.py | quotas, and whether a campaign fits |
| lock.py | locks: one run of a campaign, one campaign on a file system, licenses |
"""
