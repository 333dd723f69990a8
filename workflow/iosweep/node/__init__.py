"""One machine: its CPUs, what a file system reserves of them, where ranks are placed, its facts, processes and load.

CPU pinning, in the order in which it is decided:

    cpus             sets of CPUs and their notation; the topology of cores, sockets and NUMA nodes
    weka             which CPUs WEKA keeps here, from its command, its mounts and its cgroups
    reserved         the reserved CPUs of a node from all sources; whether a job may use them
    pinning          what a campaign asks for (`pinning`, `cpus.reserved`) -> the usable CPUs of each node, or Conflict
    placement        usable CPUs -> the CPU of each rank or worker
    sampling         the masks of every thread, read while a tool runs
    (results/checks/cpus judges these masks; report/cpus shows them)

What a node does while a tool runs: watching (one thread that looks), load (who used the CPUs), monitor (the node once a
second), progress (what each MPI rank had moved at the looks of sampling), cgroup (quotas
of CPU time).

Other facts: node_facts (what a result keeps of a node), collect_facts (reads it), cpu_record (what a result
keeps of CPUs and load), io_record and io_counters (what a result keeps of the bytes that were moved, and the counters
that tell), environment, fs_types (what is known of types of file systems), process, procfs and stopping (starting and
ending programs), kernel_files (reads small files).
"""
