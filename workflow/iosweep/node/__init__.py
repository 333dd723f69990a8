"""One machine: its CPUs, what a file system reserves of them, where ranks are placed, its facts, processes and load.

CPU pinning, in the order in which it is decided:

    cpus             sets of CPUs and their notation; the topology of cores, sockets and NUMA nodes
    weka             which CPUs WEKA keeps here, from its command, its mounts and its cgroups
    reserved         the reserved CPUs of a node from all sources; whether a job may use them
    pinning          what a campaign asks for (`pinning`, `cpus`) -> the CPU of each rank or worker, or Conflict
    sampling         the masks of every thread, read while a tool runs
    (results/checks/cpus judges these masks; report/cpus shows them)

While a tool runs: watching (one class for all agents), sampling, load (who used the CPUs), cgroup (CPU quotas),
monitor (the node once a second), progress (what each MPI rank had moved), io_counters (the bytes that were moved);
cpu_record and io_record are what a result keeps of it.

Other facts: node_facts (what a result keeps of a node), collect_facts (reads it), environment, fs_types (what is known
of types of file systems), process and stopping (starting and ending programs), procfs (processes, small files).
"""
