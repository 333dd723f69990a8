"""fio's options and phases as data: argv, schema, validation and documentation come from these two tables."""

from __future__ import annotations

from dataclasses import replace

from iosweep.tools import Option, Phase, axes

#: Phases that read and write.
MIXED = frozenset({"seq_mixed", "rand_mixed"})
_WRITING = frozenset({"seq_write", "rand_write", *MIXED})

OPTIONS: dict[str, Option] = {
    o.name: o
    for o in (
        replace(axes.THREADS_PER_NODE, help="Workers on each node (numjobs)."),
        replace(axes.TRANSFER_SIZE, help="Bytes of one I/O (bs).", minimum=512),
        replace(axes.QUEUE_DEPTH, help="I/Os in flight per worker (iodepth)."),
        replace(axes.FILE_SIZE, help="Size of each file (size / nrfiles)."),
        replace(axes.FILES_PER_THREAD, help="Files of each worker (nrfiles)."),
        Option(
            "read_percent",
            "count",
            70,
            "Share of reads in the phases seq_mixed and rand_mixed (rwmixread).",
            "%",
            axes.DATA,
            maximum=99,
            phases=MIXED,
            title="reads",
            color_order=7,
            captions=frozenset(),
            brief="",
        ),
        replace(axes.O_DIRECT, help="Bypass the client's page cache with O_DIRECT (direct)."),
        replace(axes.FSYNC, help="Make writes durable inside the timing (end_fsync).", phases=_WRITING),
        replace(
            axes.WRITE_MODE,
            help="Write over complete files, or create new ones. The two measure different things and share no figure.",
            phases=_WRITING,
        ),
        replace(
            axes.WRITTEN_DATA,
            default="tool_default",
            help="What is written: fio's own buffers, or fresh random ones for every I/O (refill_buffers; caps fio at"
            " about 4.7 GiB/s per core). What read phases read is always incompressible.",
            choices=("tool_default", "random"),
            phases=_WRITING,
        ),
        Option(
            "ioengine",
            "choice",
            "libaio",
            "How I/O is submitted. psync and sync have one I/O in flight per worker.",
            kinds=axes.DATA,
            choices=("libaio", "io_uring", "posixaio", "psync", "sync"),
            title="I/O engine",
            labels={},
            color_order=7,
            captions=frozenset(),
            brief="",
        ),
        Option(
            "client_server",
            "flag",
            None,  # and not False: ids of points from before it was there stay
            "Start fio in its client/server mode, as WEKA's documentation does, and not once on each node. Its port"
            " has no password: whoever can reach it can run commands as you while a phase runs. `allow_open_port: true`"
            " must allow it.",
            kinds=axes.DATA,
            title="fio's start",
            labels={True: "client/server mode", False: "on each node"},
            color_order=7,
        ),
    )
}

PHASES: dict[str, Phase] = {
    p.name: p
    for p in (
        axes.SEQ_WRITE,
        axes.SEQ_READ,
        axes.RAND_WRITE,
        axes.RAND_READ,
        replace(
            axes.SEQ_WRITE,
            name="seq_mixed",
            reads=True,
            help="sequential reads and writes on the same files",
            title="Sequential mixed",
        ),
        replace(
            axes.RAND_WRITE,
            name="rand_mixed",
            reads=True,
            help="random reads and writes on the same files",
            title="Random mixed",
        ),
        replace(axes.CREATE, help="create empty files (fio's filecreate)"),
        replace(axes.STAT, help="stat the files that create made (fio's filestat)"),
        replace(axes.DELETE, help="delete them (fio's filedelete)"),
    )
}

#: fio's `rw` of each data phase.
RW = {
    "seq_write": "write",
    "seq_read": "read",
    "rand_write": "randwrite",
    "rand_read": "randread",
    "seq_mixed": "rw",
    "rand_mixed": "randrw",
}

#: fio's engine of each metadata phase.
ENGINE = {"create": "filecreate", "stat": "filestat", "delete": "filedelete"}
