"""fio's options and phases as data: argv, schema, validation and documentation come from these two tables."""

from __future__ import annotations

from iosweep.tools import Kind, Option, Phase

_DATA: frozenset[Kind] = frozenset({"data"})
_BOTH: frozenset[Kind] = frozenset({"data", "metadata"})
_WRITING = frozenset({"seq_write", "rand_write", "rand_mixed"})

OPTIONS: dict[str, Option] = {
    o.name: o
    for o in (
        Option("threads_per_node", "count", 1, "Workers on each node (numjobs).", "workers", _BOTH, maximum=4096),
        Option("transfer_size", "size", 1 << 20, "Bytes of one I/O (bs).", "bytes", _DATA, minimum=512),
        Option("queue_depth", "count", 1, "I/Os in flight per worker (iodepth).", "I/Os", _DATA, maximum=65536),
        Option("file_size", "size", 1 << 30, "Size of each file (size / nrfiles).", "bytes", _DATA, minimum=4096),
        Option("files_per_thread", "count", 1, "Files of each worker (nrfiles).", "files", _BOTH),
        Option("o_direct", "flag", True, "Bypass the client's page cache with O_DIRECT (direct).", kinds=_DATA),
        Option(
            "fsync",
            "flag",
            True,
            "Make writes durable inside the timing (end_fsync).",
            kinds=_DATA,
            phases=_WRITING,
        ),
        Option(
            "write_mode",
            "choice",
            "overwrite",
            "Write over complete files, or create new ones. The two measure different things and share no figure.",
            kinds=_DATA,
            choices=("overwrite", "new"),
            phases=_WRITING,
        ),
        Option(
            "data",
            "choice",
            "tool_default",
            "What is written: fio's own buffers, or fresh random ones for every I/O (refill_buffers; caps fio at"
            " about 4.7 GiB/s per core). What read phases read is always incompressible.",
            kinds=_DATA,
            choices=("tool_default", "random"),
            phases=_WRITING,
        ),
        Option(
            "read_percent",
            "count",
            70,
            "Share of reads in the phase rand_mixed (rwmixread).",
            "percent",
            _DATA,
            maximum=99,
            phases=frozenset({"rand_mixed"}),
        ),
        Option(
            "ioengine",
            "choice",
            "libaio",
            "How I/O is submitted. psync and sync have one I/O in flight per worker.",
            kinds=_DATA,
            choices=("libaio", "io_uring", "posixaio", "psync", "sync"),
        ),
        Option(
            "client_server",
            "flag",
            None,  # and not False: ids of points from before it was there stay
            "Start fio in its client/server mode, as WEKA's documentation does, and not once on each node. Its port"
            " has no password: whoever can reach it can run commands as you while a phase runs. `allow_open_port: true`"
            " must allow it.",
            kinds=_DATA,
        ),
    )
}

PHASES: dict[str, Phase] = {
    p.name: p
    for p in (
        Phase("seq_write", "data", False, True, "bandwidth_bytes_per_s", "sequential writes"),
        Phase("seq_read", "data", True, False, "bandwidth_bytes_per_s", "sequential reads"),
        Phase("rand_write", "data", False, True, "ops_per_s", "random writes"),
        Phase("rand_read", "data", True, False, "ops_per_s", "random reads"),
        Phase("rand_mixed", "data", True, True, "ops_per_s", "random reads and writes on the same files"),
        Phase("create", "metadata", False, True, "ops_per_s", "create empty files (fio's filecreate)"),
        Phase("stat", "metadata", True, False, "ops_per_s", "stat the files that create made (fio's filestat)"),
        Phase("delete", "metadata", False, True, "ops_per_s", "delete them (fio's filedelete)"),
    )
}

#: fio's `rw` of each data phase.
RW = {
    "seq_write": "write",
    "seq_read": "read",
    "rand_write": "randwrite",
    "rand_read": "randread",
    "rand_mixed": "randrw",
}

#: fio's engine of each metadata phase.
ENGINE = {"create": "filecreate", "stat": "filestat", "delete": "filedelete"}
