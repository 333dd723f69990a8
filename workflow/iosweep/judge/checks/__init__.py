"""The validity checks, in the order in which the tables and docs/report.md list them. Pure.

| module | what is checked there |
|---|---|
| output.py | the tool ended well, did what was asked for, and its figures agree with each other |
| timing.py | a phase ran as long as asked, on all nodes at the same time, at a steady rate |
| stragglers.py | no node and no worker was far slower than the others |
| files.py | files are complete, whole, unchanged, new where asked for; writes are flushed; data is random |
| caches.py | bytes came from, and got to, the storage: client's and servers' caches, counters of the kernel |
| interference.py | others on the CPUs and on the target, a hypervisor, quotas and limits, other campaigns |
| cpus.py | ranks and workers were on the planned CPUs, and off the reserved ones |
"""

from iosweep.judge.checks import caches, cpus, files, interference, output, stragglers, timing
from iosweep.judge.findings import Check

CHECKS: tuple[Check, ...] = (
    Check("invalid", output.exit_status),
    Check("invalid", output.output),
    Check("invalid", output.tool_errors),
    Check("suspect", output.tool_doubts),
    Check("invalid", output.as_asked, per_node=True),
    Check("invalid", output.direction, per_node=True),
    Check("invalid", output.arithmetic, per_node=True),
    Check("invalid", output.in_flight, data=True, needs="ops_per_s", per_node=True),
    Check("invalid", output.workers, per_node=True),
    Check("invalid", output.volume, data=True, per_node=True),
    Check("invalid", timing.duration, needs="runtime_s", per_node=True),
    Check("invalid", output.clock, per_node=True),
    Check("suspect", timing.long_enough, needs="runtime_s", per_node=True),
    Check(
        "suspect",
        timing.overtime,
        needs="runtime_s",
        per_node=True,
        remedy="look at the target's logs for I/O that hung",
    ),
    Check("suspect", timing.common_window, remedy="set a longer `phase_time`"),
    Check("suspect", timing.steady, data=True, needs="ops_per_s", remedy="set a longer `phase_time`"),
    Check("suspect", stragglers.even, needs="runtime_s", remedy="find the slow node or worker in the row's details"),
    Check("suspect", output.queue_depth, data=True, per_node=True),
    Check("invalid", files.data_complete),
    Check("invalid", files.no_holes),
    Check("invalid", files.unchanged),
    Check("suspect", files.stayed_new, data=True, per_node=True),
    Check("invalid", files.file_count),
    Check("suspect", caches.reached),
    Check(
        "suspect",
        caches.client_cache,
        data=True,
        remedy="set `o_direct: true`, or `file_size` so that all files exceed twice the memory",
    ),
    Check("suspect", caches.server_cache, data=True, remedy="raise `file_size`"),
    Check("suspect", files.durable, data=True, remedy="set `fsync: true`"),
    Check("suspect", files.incompressible, data=True),
    Check("suspect", caches.other_reader, remedy="set `file_size` so that all files exceed twice the memory"),
    Check("suspect", output.plausible, data=True),
    Check("suspect", interference.other_load, remedy="measure on idle nodes"),
    Check("suspect", interference.cpu_quota, remedy="ask for more CPUs, or lift the quota"),
    Check("suspect", interference.io_limit, remedy="lift the limit"),
    Check("suspect", interference.other_io, remedy="measure while nobody else uses the file system"),
    Check("suspect", interference.exclusive),
    Check("invalid", cpus.pinned, remedy="see the CPUs under System"),
    Check("invalid", cpus.reserved_cpus, remedy="see the CPUs under System"),
    Check("suspect", cpus.reserved_agree),
)

#: check -> what a fail makes of a row.
SEVERITIES = {check.name: check.severity for check in CHECKS}
