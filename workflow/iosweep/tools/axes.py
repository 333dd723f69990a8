"""Axes, options and phases that several tools share. A tool takes one with `replace(axes.QUEUE_DEPTH, help=...)`."""

from __future__ import annotations

from collections.abc import Mapping

from iosweep.tools import Kind, Option, Phase, Tool, Value
from iosweep.units import MOST_COUNT, size_name

DATA: frozenset[Kind] = frozenset({"data"})
METADATA: frozenset[Kind] = frozenset({"metadata"})
#: Captions of figures and short names of points do not name it.
NEVER: frozenset[Kind] = frozenset()

NODES = Option(
    "nodes",
    "count",
    1,
    "Nodes that take part.",
    maximum=MOST_COUNT,
    singular="node",
    role="x",
    color_order=3,
)
#: Its values are the names of the campaign's `targets`.
TARGET = Option(
    "target",
    "choice",
    "all",
    "Which of `targets` is measured.",
    id_form="{}",
    role="color",
    color_order=-1,
)
THREADS_PER_NODE = Option(
    "threads_per_node",
    "count",
    1,
    "Workers on each node (fio: numjobs; IOR and mdtest: ranks).",
    maximum=4096,
    id_form="{}t",
    singular="thread per node",
    role="x",
    color_order=2,
    bound="Most workers per node.",
    laptop=2,
)
TRANSFER_SIZE = Option(
    "transfer_size",
    "size",
    1 << 20,
    "Bytes of one I/O.",
    kinds=DATA,
    id_form="{}",
    labels={},
    role="x_alone",
    color_order=0,
    bound="Largest transfer.",
    laptop=16 << 20,
)
QUEUE_DEPTH = Option(
    "queue_depth",
    "count",
    1,
    "I/Os in flight per worker.",
    kinds=DATA,
    maximum=65536,
    id_form="qd{}",
    role="x",
    color_order=1,
    brief="QD {}",
    bound="Greatest queue depth.",
    laptop=8,
)
FILE_SIZE = Option(
    "file_size",
    "size",
    1 << 30,
    "Size of each file; of a shared file (IOR) each rank's part of it.",
    kinds=DATA,
    minimum=4096,
    zero="empty files",
    role="x_alone",
    color_order=6,
    brief="",
    bound="Largest file.",
    laptop=64 << 20,
)
FILES_PER_THREAD = Option(
    "files_per_thread",
    "count",
    1,
    "Files of each worker.",
    singular="file per thread",
    role="x_alone",
    color_order=6,
    captions=METADATA,
    brief="",
    bound="Most files per worker.",
    laptop=10_000,
)

O_DIRECT = Option(
    "o_direct",
    "flag",
    True,
    "Bypass the client's page cache with O_DIRECT.",
    kinds=DATA,
    title="O_DIRECT",
    role="condition",
    captions=NEVER,
)
FSYNC = Option(
    "fsync",
    "flag",
    True,
    "Make writes durable inside the timing.",
    kinds=DATA,
    color_order=8,
    captions=NEVER,
)
WRITE_MODE = Option(
    "write_mode",
    "choice",
    "overwrite",
    "Write over complete files (overwrite), or create new ones (new).",
    kinds=DATA,
    choices=("overwrite", "new"),
    role="condition",
    captions=NEVER,
)
WRITTEN_DATA = Option(
    "data",
    "choice",
    "random",
    "What is written: random data, or the tool's own buffers (tool_default).",
    kinds=DATA,
    choices=("random", "tool_default"),
    labels={"random": "random data", "tool_default": "the tool's default data"},
    role="condition",
    captions=NEVER,
)


#: Options of every tool, and of several, in the order of the tables' columns.
COMMON = (
    *(NODES, TARGET, THREADS_PER_NODE, TRANSFER_SIZE, QUEUE_DEPTH, FILE_SIZE, FILES_PER_THREAD),
    *(O_DIRECT, FSYNC, WRITE_MODE, WRITTEN_DATA),
)


def settable(tool: Tool) -> dict[str, Option]:
    """The axes that a sweep of a tool may have: those of every tool, and the tool's options."""
    return {NODES.name: NODES, TARGET.name: TARGET, **tool.options}


#: A setting of sweeps that no tool has as an option, and a parameter of their points all the same.
PHASE_TIME = Option("phase_time", "count", None, "Time of each phase.", "s", color_order=9, captions=NEVER)


def check_sizes(options: Mapping[str, Value]) -> str | None:
    """The error in the sizes of a point of data phases, or None."""
    transfer, size = (options[name] for name in ("transfer_size", "file_size"))
    assert isinstance(transfer, int) and isinstance(size, int)
    if transfer > size:
        return f"transfer_size {size_name(transfer)} is larger than file_size {size_name(size)}"
    if size % transfer:
        return f"file_size {size_name(size)} is not a multiple of transfer_size {size_name(transfer)}"
    if options["o_direct"] and transfer % 512:
        return f"transfer_size {transfer} is not a multiple of 512, which O_DIRECT needs"
    return None


SEQ_WRITE = Phase("seq_write", "data", False, True, "bandwidth_bytes_per_s", "sequential writes", "Sequential write")
SEQ_READ = Phase("seq_read", "data", True, False, "bandwidth_bytes_per_s", "sequential reads", "Sequential read")
RAND_WRITE = Phase("rand_write", "data", False, True, "ops_per_s", "random writes", "Random write", True)
RAND_READ = Phase("rand_read", "data", True, False, "ops_per_s", "random reads", "Random read", True)
CREATE = Phase("create", "metadata", False, True, "ops_per_s", "create files", "Create files", plural="file creates")
STAT = Phase("stat", "metadata", True, False, "ops_per_s", "stat files", "Stat files", plural="file stats")
DELETE = Phase("delete", "metadata", False, True, "ops_per_s", "delete them", "Delete files", plural="file deletes")
