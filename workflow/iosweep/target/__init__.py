"""The file system under test: the campaign's directory and marker, locks, space, striping, and the agent.

The runner never touches the target: an agent does, with a deadline.

| module | what it does |
|---|---|
| agent.py | the process that touches the target and runs tools; the runner's side of it |
| protocol.py | requests and answers of all agents |
| identify.py | which file system a directory is on; whether the target exists; who may write there |
| mounts.py | the table of mounts, and the kernel's counters of one |
| directory.py | the campaign's directory: its marker, claiming it, the way into it, whether it can be worked in |
| trees.py | directories and files in it |
| contents.py | blocks of files: compressed and compared |
| removal.py | removes them, and leaves alone what is not ours |
| layout.py | striping and trash, by the file system's own commands |
| space.py | quotas, and whether a campaign fits |
| lock.py | locks: one run of a campaign, one campaign on a file system, licenses |
"""
