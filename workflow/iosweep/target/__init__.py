"""The file system under test: the campaign's directory and marker, locks, quota, striping, and the agent.

The runner never touches the target: an agent does, with a deadline.

| module | what it does |
|---|---|
| agent.py | the process that touches the target and runs tools; the runner's side of it |
| protocol.py | requests and answers of all agents |
| identify.py | which file system a directory is on, its free space, whether the target exists, who may write there |
| filesystem.py | identity of a file system that has several names (pure) |
| mounts.py | the table of mounts |
| counters.py | the kernel's counters of bytes that belong to the target |
| directory.py | the campaign's directory: its marker, claiming it, the way into it, whether it can be worked in |
| trees.py | directories and files in it |
| stamps.py | whether files changed between two looks (pure) |
| contents.py | blocks of files: compressed and compared |
| removal.py, foreign.py | removes them, and leaves alone what is not ours |
| striping.py, quota.py, trash.py | layout, quotas and trash, by the file system's own commands (own_command.py) |
| free_space.py | whether a campaign fits (pure) |
| lock.py | locks: one run of a campaign, one campaign on a file system, licenses |
"""
