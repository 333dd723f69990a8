"""One machine: its CPUs, what a file system reserves of them, where ranks are placed, its facts, processes and load.

| module | what it does |
|---|---|
| cpus.py | sets of CPUs and their notation; the topology; which CPUs WEKA or the configuration reserves |
| facts.py | what a record keeps of a node, and how it is read |
| pinning.py | `pinning` and `cpus` of a campaign -> the CPU of each rank or worker, or Refused |
| environment.py | the variables that tools get |
| process.py | starting and ending programs; stopping cleanly |
| monitor.py | watches a node while a command runs: with ranks.py, load.py, counters.py, and once a second by itself |
| ranks.py | the masks of every thread of ranks and workers, and the bytes that MPI ranks moved |
| load.py | who used the CPUs; CPU quotas |
| counters.py | the bytes that devices, clients and networks moved |
| fs_types.py | what is known of types of file systems |
| procfs.py | processes and small files of the kernel |

Masks that were read while a tool ran are judged in judge/checks/cpus.py, and drawn in report/system.py.
"""
