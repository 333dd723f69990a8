"""The file system under test: the campaign's directory and marker, its lock, quota, striping, and the agent.

The runner never touches the target: an agent does, with a deadline.

| module | what it does |
|---|---|
| agent.py | the process that touches the target and runs tools; the runner's side of it |
| protocol.py | requests and answers of all agents |
| identify.py | which file system a directory is on, its free space, whether the target exists |
| filesystem.py | identity of a file system that has several names (pure) |
| mounts.py | the table of mounts |
| counters.py | the kernel's counters of bytes that belong to the target |
| parents.py, accounts.py | who could replace a directory on the way to the target |
| marker.py | the marker in the campaign's directory |
| ownership.py | claims the campaign's directory |
| handle.py | opens it, checked, for every other operation |
| probe.py | writes and reads a file there |
| trees.py | directories and files in it |
| stamps.py | whether files changed between two looks (pure) |
| contents.py | blocks of files: compressed and compared |
| removal.py, foreign.py | removes them, and leaves alone what is not ours |
| striping.py, quota.py, trash.py | layout, quotas and trash, by the file system's own commands (own_command.py) |
| free_space.py | whether a campaign fits (pure) |
| target_lock.py | one campaign at a time on a file system, and the evidence for it |
| host_lock.py, lock_file.py, lock_owner.py | locks: a name on this machine, a file, and the text in them |
"""
