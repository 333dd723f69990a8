"""IOR's options and phases as data: argv, schema, validation and documentation come from these two tables."""

from __future__ import annotations

from iosweep.tools import Kind, Option, Phase

_DATA: frozenset[Kind] = frozenset({"data"})
_WRITING = frozenset({"seq_write", "rand_write"})

OPTIONS: dict[str, Option] = {
    o.name: o
    for o in (
        Option("threads_per_node", "count", 1, "MPI ranks on each node.", "ranks", _DATA, maximum=4096),
        Option("transfer_size", "size", 1 << 20, "Bytes of one I/O (-t).", "bytes", _DATA, minimum=8),
        Option(
            "file_size",
            "size",
            1 << 30,
            "Bytes of each rank's file, or its part of the shared file (-b).",
            "bytes",
            _DATA,
            minimum=4096,
        ),
        Option(
            "file_per_process",
            "flag",
            True,
            "A file for each rank (-F), or one that all share: rank after rank has one part of it.",
            kinds=_DATA,
        ),
        Option("api", "choice", "POSIX", "Interface (-a).", kinds=_DATA, choices=("POSIX", "MPIIO")),
        Option(
            "collective",
            "flag",
            False,
            "Collective calls of MPI-IO (-c). Only with api MPIIO and phase_time one_pass.",
            kinds=_DATA,
        ),
        Option(
            "o_direct",
            "flag",
            True,
            "Bypass the client's page cache with O_DIRECT (--posix.odirect). Only with api POSIX: false for MPIIO.",
            kinds=_DATA,
        ),
        Option("fsync", "flag", True, "Make writes durable inside the timing (-e).", kinds=_DATA, phases=_WRITING),
        Option(
            "write_mode",
            "choice",
            "overwrite",
            "Write over complete files (-E), or create new ones. The two measure different things and share no figure."
            " Only new with api MPIIO.",
            kinds=_DATA,
            choices=("overwrite", "new"),
            phases=_WRITING,
        ),
        Option(
            "data",
            "choice",
            "random",
            "What is written: random data that neither compresses nor deduplicates (-l random), or IOR's own buffers,"
            " of which 94 % are duplicates. What read phases read is always random.",
            kinds=_DATA,
            choices=("random", "tool_default"),
            phases=_WRITING,
        ),
    )
}

PHASES: dict[str, Phase] = {
    p.name: p
    for p in (
        Phase("seq_write", "data", False, True, "bandwidth_bytes_per_s", "sequential writes"),
        Phase("seq_read", "data", True, False, "bandwidth_bytes_per_s", "sequential reads"),
        Phase("rand_write", "data", False, True, "ops_per_s", "random writes (-z)"),
        Phase("rand_read", "data", True, False, "ops_per_s", "random reads (-z)"),
    )
}

#: Phases with random offsets.
RANDOM = frozenset({"rand_write", "rand_read"})
