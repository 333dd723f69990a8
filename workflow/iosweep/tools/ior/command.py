"""IOR's options and phases as data: argv, schema, validation and documentation come from these two tables."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

from iosweep.tools import FileSet, Option, Phase, Step, Streams, Value, axes
from iosweep.units import size_name

_WRITING = frozenset({"seq_write", "rand_write"})

OPTIONS: dict[str, Option] = {
    o.name: o
    for o in (
        replace(axes.THREADS_PER_NODE, help="MPI ranks on each node.", kinds=axes.DATA),
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


#: The summary, in the directory where IOR is started: no name to quote. JSON has four digits, the table fewer.
SUMMARY = "summary.json"
_OUTPUT = ("-O", f"summaryFile={SUMMARY},summaryFormat=JSON")
#: Beside it: the time of each rank, which IOR writes after a phase.
RANKS = "ranks.csv"
#: The file, or the first part of the files' names.
NAME = "data"
#: IOR adds the rank to the seed of the offsets, in 32 bits; 0 is none.
_SEEDS = 1 << 30


def check(options: Mapping[str, Value], phases: Sequence[str], time_s: float | None) -> str | None:
    random = [phase for phase in phases if phase in RANDOM]
    if time_s is not None and (time_s < 1 or time_s != int(time_s)):
        return f"phase_time {time_s:g} s is not in whole seconds, as IOR counts"
    if options["o_direct"] and options["api"] != "POSIX":
        return f"o_direct has no effect with api {options['api']}; set o_direct: false"
    if wrong := axes.check_sizes(options):
        return wrong
    if random and options["transfer_size"] == options["file_size"]:
        return f"{random[0]} needs a file_size above transfer_size: IOR has one offset otherwise"
    if options["collective"] and options["api"] != "MPIIO":
        return f"collective has no effect with api {options['api']}; use MPIIO"
    if options["collective"] and random:
        return f"{random[0]} cannot be had with collective calls: IOR has no random offsets with them"
    if options["collective"] and time_s is not None:
        return (
            "collective calls with a phase_time hang now and then: IOR's ranks disagree on the end;"
            " set phase_time: one_pass"
        )
    if options["api"] == "MPIIO" and options.get("write_mode") == "overwrite":
        return "write_mode overwrite cannot be had with api MPIIO: IOR truncates the file; set write_mode: new"
    return None


def check_directory(directory: str) -> str | None:
    if "@" in directory:
        return "contains `@`, where IOR splits it into two files; use a path without `@`"
    if strange := next((c for c in directory if c in '"\\' or ord(c) < 32), None):
        return f"has the character {strange!r}, which breaks IOR's JSON; use a directory without"
    return None


def file_set(step: Step, fresh: str) -> FileSet:
    """The files a step works on. With a file per process, sets are shared by all points with the same file size.

    Over several nodes also of the same number of ranks on each: who wrote a file must be on another node than who
    reads it.
    """
    phase, size, tasks = step.phase, step.number("file_size"), step.tasks
    if phase.writes and step.options["write_mode"] == "new":
        return FileSet(f"{fresh}/{phase.name}", "fresh", of_all_nodes=True)
    role: Literal["read", "write"] = "write" if phase.writes else "read"
    placed = f"-{step.nodes}n{step.number('threads_per_node')}t" if step.nodes > 1 and role == "read" else ""
    return _set(role, size, tasks, placed, bool(step.options["file_per_process"]))


@cache  # as _names
def _set(role: Literal["read", "write"], size: int, tasks: int, placed: str, separate: bool) -> FileSet:
    return FileSet(
        directory=f"sets/ior-{role}-{size_name(size)}" + (placed if separate else f"-shared{placed or f'-{tasks}'}"),
        role=role,
        files=_names(tasks) if separate else (NAME,),
        file_size_bytes=size if separate else size * tasks,
        of_all_nodes=True,
        prepare=lambda path: _prepare(path, size, separate),
        surplus_bytes=(_block(size)[0] - size) * (1 if separate else tasks),
        prepare_tasks=tasks,
        prepared=_prepared,
    )


@cache  # many points have the same sets
def _names(tasks: int) -> tuple[str, ...]:
    return tuple(f"{NAME}.{rank:08}" for rank in range(tasks))


def distinct_bytes(transfer: int) -> int:
    """After so many bytes of a rank's block IOR's random data begins anew: it is seeded with the offset of each I/O, of
    which rand_r uses the lower 27 bits (4.0.0 and 4.1, measured)."""
    return math.lcm(transfer, 1 << 27)


def _block(size: int) -> tuple[int, int]:
    """Bytes that a rank writes of a set, and those of one I/O: such that its data does not begin anew. An odd number of
    pages gives each I/O an offset, and so a seed, of its own; the block is a whole number of these."""
    if size <= 1 << 27:
        return size, min(size & -size, 1 << 20)  # the largest power of two that divides the file
    transfer = -(-size >> 35) * (1 << 20) + (1 << 12)
    return -(-size // transfer) * transfer, transfer


def _prepare(directory: str, size: int, separate: bool) -> list[str]:
    """Write a set completely, with random data: data that is read neither compresses nor deduplicates."""
    block, transfer = _block(size)
    return [
        *("ior", "-a", "POSIX"),
        *(["-F"] if separate else []),
        *("-b", str(block), "-t", str(transfer), "-w", "-k", "-e"),
        *("-l", "random", "-G", str(1 + zlib.crc32(directory.encode()) % _SEEDS)),
        *("-o", f"{directory}/{NAME}", *_OUTPUT),
    ]


def _prepared(streams: Streams) -> str | None:
    """The error in the output of `_prepare`, or None. (Sizes and holes are checked on the target.)"""
    said = streams["stdout"].decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in said if line.startswith("ERROR")), None)


def argv(step: Step, directory: str, seed: int) -> list[str]:
    options, phase, seed = step.options, step.phase, 1 + seed % _SEEDS
    random, separate = phase.name in RANDOM, bool(options["file_per_process"])
    words = ["ior", "-a", str(options["api"])]
    if separate:
        words.append("-F")
    if options["o_direct"]:
        words.append("--posix.odirect")
    if options["collective"]:
        words.append("-c")
    words += ["-b", str(step.number("file_size")), "-t", str(step.number("transfer_size")), "-k"]
    if random:
        # or it is the second of the clock, one for all ranks
        words += ["-z", f"--random-offset-seed={seed}"]
    if phase.reads:
        words.append("-r")
        if separate or not random:  # on a shared file random offsets are anybody's, and IOR refuses both
            words.append("-C")
    else:
        words.append("-w")
        if options["write_mode"] == "overwrite":
            words.append("-E")  # or the file is unlinked first, and its blocks are allocated anew
        if options["fsync"]:
            words.append("-e")
        if options["data"] == "random":
            words += ["-l", "random", "-G", str(seed)]  # without a seed every run writes the same
    if step.time_s is not None:
        # The deadline alone ends early when the files are through; the least duration alone runs to their end.
        words += ["-D", str(int(step.time_s)), "-O", f"minTimeDuration={int(step.time_s)}"]
    words += ["-o", f"{directory}/{NAME}", *_OUTPUT]
    if times_tell_rates(step):
        words[-1] += f",saveRankPerformanceDetailsCSV={RANKS}"
    return words


def times_tell_rates(step: Step) -> bool:
    """Whether the times of ranks tell their rates. IOR has the times alone, and takes the bytes of all ranks for equal.

    In a timed phase the times are equal instead; of random offsets in a shared file some ranks have more than others;
    in collective calls ranks wait for one another.
    """
    shared_random = step.phase.name in RANDOM and not step.options["file_per_process"]
    return step.time_s is None and not shared_random and not step.options["collective"]
