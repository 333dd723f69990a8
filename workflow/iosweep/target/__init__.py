"""The file system under test: the campaign's directory and marker, locks, space, striping, and the agent.

The runner never touches the target: an agent does, with a deadline.

| module | what it does |
|---|---|
| agent.py | the process that touches the target and runs tools; the runner's side of it |
| protocol.py | requests, answers and beats of all agents |
| identify.py | the table of mounts; which file system a directory is on; whether the target exists |
| directory.py | the campaign's directory: its marker, claiming it, the way into it, probes, striping |
| trees.py | directories and files in it: made, counted, removed; whether data sets are complete; samples of data |
| space.py | quotas, and whether a campaign fits |
| lock.py | locks: one run of a campaign, one campaign on a file system, licenses |
"""
