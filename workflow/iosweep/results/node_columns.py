"""Columns of the companion table nodes.parquet."""

from __future__ import annotations

from iosweep.results.column import Column

_NEWEST = "As the newest run found it."

#: Companion table nodes.parquet: one row per node and distinct set of facts. Null is what could not be read.
NODE_COLUMNS: tuple[Column, ...] = (
    Column("node", "string", "Key: hash of the facts."),
    Column("host", "string", "Host name."),
    Column("kernel", "string", "Kernel release."),
    Column("os", "string", "Distribution, as /etc/os-release has it."),
    Column("cpu_model", "string", "CPU model."),
    Column("cpus", "int", "Logical CPUs that are online."),
    Column("sockets", "int", "CPU packages."),
    Column("threads_per_core", "int", "Logical CPUs of a core; more than 1 is hyper-threading."),
    Column("cpus_allowed", "string", "CPUs that the runner may use (its affinity mask)."),
    Column(
        "numa",
        "list",
        "NUMA nodes.",
        (
            Column("node", "int", "Number."),
            Column("cpus", "string", "Its CPUs."),
            Column("memory_bytes", "int", "Its memory."),
        ),
    ),
    Column(
        "cores", "string", "CPUs of each core, siblings together (`0,28 1,29`), in the order in which Slurm counts."
    ),
    Column("socket_cpus", "string", "CPUs of each socket (`0-27 28-55`)."),
    Column(
        "reserved_cpus",
        "string",
        "CPUs that the file system keeps for itself, siblings included; empty where it keeps none. Null with"
        " `reserved_sources`: there are some, but it is not known which.",
    ),
    Column(
        "reserved_sources",
        "list",
        "Sources that name reserved CPUs. Null if they were not read.",
        (
            Column("source", "string", "Command, file or key of the configuration."),
            Column("cpus", "string", "CPUs that it names; null where it does not name them."),
            Column("says", "string", "In words."),
        ),
    ),
    Column(
        "used_cpus",
        "string",
        "CPUs that ranks and workers of its results were allowed on when they were looked at. Null where none was.",
    ),
    Column("governor", "string", "Governor of the CPUs' frequency; several joined by commas."),
    Column("clocksource", "string", "The kernel's clock."),
    Column("transparent_hugepages", "string", "always, madvise or never."),
    Column("memory_bytes", "int", "Main memory."),
    Column(
        "nics",
        "list",
        "Network interfaces with a device behind them, and ports of InfiniBand and RoCE adapters.",
        (
            Column("name", "string", "Name; of a port as in mlx5_0/1."),
            Column("state", "string", "up, down (on, but without a link), off, or another word of the kernel's."),
            Column("speed_bits_per_s", "int", "Speed of the link."),
            Column("driver", "string", "Driver."),
            Column("cpus", "string", "CPUs that are near it, as the kernel says."),
            Column("numa_node", "int", "NUMA node that it is on; null where the machine does not say."),
        ),
    ),
    Column("fstype", "string", "Type of the target's file system."),
    Column("mount", "string", "The target's mount line."),
    # these may differ between runs: node_facts.VOLATILE
    Column("memory_available_bytes", "int", f"Memory that programs can get. {_NEWEST}"),
    Column("load_1_min", "float", f"Load average over 1 minute, before anything is measured. {_NEWEST}"),
    Column("load_5_min", "float", f"Over 5 minutes. {_NEWEST}"),
    Column("load_15_min", "float", f"Over 15 minutes. {_NEWEST}"),
    Column("read_at", "string", f"When these facts were read, in local time with its offset. {_NEWEST}"),
    Column("target_bytes", "int", f"Size of the target as df counts: what is used, and what users can have. {_NEWEST}"),
    Column("target_free_bytes", "int", f"Free space of the target, for users. {_NEWEST}"),
    Column("target_inodes", "int", f"Inodes of the target; null where it counts none. {_NEWEST}"),
    Column("target_free_inodes", "int", f"Free inodes of the target, for users. {_NEWEST}"),
    Column(
        "tools",
        "list",
        f"Programs that measure. {_NEWEST}",
        (
            Column("name", "string", "Tool, or mpiexec."),
            Column("path", "string", "Where it was found."),
            Column("version", "string", "Version as it prints it."),
        ),
    ),
    Column(
        "cpu_findings",
        "list",
        f"What `iosweep doctor` says of the node's CPUs (docs/slurm.md). {_NEWEST}",
        (
            Column("check", "string", "What was looked at."),
            Column("outcome", "string", "ok, warning, wrong, not checked or not applicable."),
            Column("seen", "string", "What was seen."),
            Column("change", "string", "What would be right."),
        ),
    ),
)
