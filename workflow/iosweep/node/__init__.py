"""The node: its CPUs, the CPUs that a file system reserves, the placement of ranks, its facts, processes and load.

| module | what it does |
|---|---|
| cpus.py | sets of CPUs and their notation; the topology; which CPUs WEKA or the configuration reserves |
| facts.py | the facts of a node that a record keeps: how they are read, when they are equal |
| pinning.py | `pinning` and `cpus` of a campaign -> the CPU of each rank or worker, or Refused |
| environment.py | the environment variables that tools get |
| process.py | runs a program within limits of time and output; ends it; stops cleanly |
| monitor.py | watches a node while a command runs: calls ranks.py and load.py, and reads counters.py each second |
| ranks.py | CPU masks of every thread of ranks and workers; the bytes that each MPI rank moved |
| load.py | who used the CPUs; CPU quotas |
| counters.py | the bytes that devices, clients and networks moved |
| fs_types.py | properties of file system types |
| procfs.py | processes, mounts and small kernel files |

Masks that were read while a tool ran are judged in judge/checks/cpus.py, and listed in report/system.py.
"""
