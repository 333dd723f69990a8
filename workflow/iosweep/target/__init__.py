"""The file system under test: the campaign's directory and marker, locks, space, striping, and the agent.

The runner never accesses the target itself: it sends requests to an agent, with a deadline.

| module | what it does |
|---|---|
| agent.py | the process that accesses the target and runs tools; the runner's side of it |
| protocol.py | requests, answers and beats of all agents |
| identify.py | the mount table; which file system a directory is on, whether two are the same, or writable |
| directory.py | creates and opens the campaign's directory and its marker; probes it; sets and reads striping |
| trees.py | creates, counts and removes files and directories; checks data sets; samples their contents |
| space.py | quotas, and whether a campaign fits |
| lock.py | locks: one run of a campaign, one campaign on a file system; Slurm licenses |
"""
