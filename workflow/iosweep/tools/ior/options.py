"""IOR's options and phases as data: argv, schema, validation and documentation come from these two tables."""

from __future__ import annotations

from dataclasses import replace

from iosweep.tools import Option, Phase, axes

_WRITING = frozenset({"seq_write", "rand_write"})

OPTIONS: dict[str, Option] = {
    o.name: o
    for o in (
        replace(axes.THREADS_PER_NODE, kinds=axes.DATA),
        replace(axes.TRANSFER_SIZE, help="Bytes of one I/O (-t).", minimum=8),
        replace(axes.FILE_SIZE, help="Bytes of each rank's file, or its part of the shared file (-b)."),
        Option(
            "file_per_process",
            "flag",
            True,
            "A file for each rank (-F), or one that all share: rank after rank has one part of it.",
            kinds=axes.DATA,
            title="file access",
            labels={True: "file per process", False: "shared file"},
            color_order=4,
        ),
        Option(
            "api",
            "choice",
            "POSIX",
            "Interface (-a).",
            kinds=axes.DATA,
            choices=("POSIX", "MPIIO"),
            title="API",
            labels={"MPIIO": "MPI-IO"},
        ),
        Option(
            "collective",
            "flag",
            False,
            "Collective calls of MPI-IO (-c). Only with api MPIIO and phase_time one_pass.",
            kinds=axes.DATA,
            only_with=("api", "MPIIO"),
            title="MPI-IO calls",
            labels={True: "collective calls", False: "independent calls"},
        ),
        replace(
            axes.O_DIRECT,
            help="Bypass the client's page cache with O_DIRECT (--posix.odirect). Only with api POSIX: false for"
            " MPIIO.",
        ),
        replace(axes.FSYNC, help="Make writes durable inside the timing (-e).", phases=_WRITING),
        replace(
            axes.WRITE_MODE,
            help="Write over complete files (-E), or create new ones. The two measure different things and share no"
            " figure. Only new with api MPIIO.",
            phases=_WRITING,
        ),
        replace(
            axes.WRITTEN_DATA,
            help="What is written: random data that neither compresses nor deduplicates (-l random), or IOR's own"
            " buffers, of which 94 % are duplicates. What read phases read is always random.",
            phases=_WRITING,
        ),
    )
}

PHASES: dict[str, Phase] = {
    p.name: p
    for p in (
        axes.SEQ_WRITE,
        axes.SEQ_READ,
        replace(axes.RAND_WRITE, help="random writes (-z)"),
        replace(axes.RAND_READ, help="random reads (-z)"),
    )
}

#: Phases with random offsets.
RANDOM = frozenset({"rand_write", "rand_read"})
