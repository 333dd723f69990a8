"""Sweeps -> points -> allocations, with their cost. Pure: sees no result and no machine.

| module | what it does |
|---|---|
| expand.py | axes -> points with their ids; points -> allocations |
| model.py | `Plan`, `Point`, `Allocation`, and their file; the order of a round; the seed of a command |
| forecast.py | time, bytes, files and buffers that a plan will take; limits of time and bytes that it exceeds |
| headline_groups.py | which points compete for a headline figure; what a plan cannot give |
| launchers.py | srun, mpirun, mpiexec ...: the command line that starts ranks |
"""
