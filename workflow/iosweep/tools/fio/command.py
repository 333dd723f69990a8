"""fio's options and phases as data: argv, schema, validation and documentation come from these two tables."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

from iosweep.node.cpus import CpuSet, listed
from iosweep.tools import FileSet, Option, Phase, Step, Streams, Value, axes
from iosweep.tools.fio import series
from iosweep.tools.fio.records import read_document
from iosweep.units import size_name

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
            captions=axes.NEVER,
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
            id_form="{}",
            title="I/O engine",
            labels={},
            brief="{}",
            color_order=7,
            captions=axes.NEVER,
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


#: Both save start-up time and are harmless: no /sys look-ups per device, no calibration of the CPU clock.
_QUICK = ("--disk_util=0", "--clocksource=clock_gettime")
#: Flags have a value, too, because fio repeats no option without one.
_OUTPUT = ("--group_reporting=1", "--eta=never", "--output-format=json+")
#: The histogram of the time that callers wait. fio's default covers only the time after the submission.
_TIMED = ("--lat_percentiles=1", "--clat_percentiles=1")
#: $jobnum and $filenum are expanded by fio itself; no shell sees them.
_NAMES = "--filename_format=$jobnum.$filenum"
#: Files of a data set: each is looked at before every use.
MOST_FILES = 1_000_000
#: An engine that submits one I/O and waits for it: a depth above 1 is silently not reached.
SYNCHRONOUS = ("psync", "sync")


def check(options: Mapping[str, Value], phases: Sequence[str], time_s: float | None) -> str | None:
    """The error in a combination of options, or None."""
    if "create" not in phases and any(p in ENGINE for p in phases):
        return "stat and delete work on the files that create made; put create first"
    order = [p for p in phases if p in ENGINE]
    if order != [p for p in ENGINE if p in order]:
        return "metadata phases go in the order create, stat, delete"
    if "transfer_size" not in options:
        return None
    threads, count, depth = (options[name] for name in ("threads_per_node", "files_per_thread", "queue_depth"))
    assert isinstance(threads, int) and isinstance(count, int) and isinstance(depth, int)
    if (files := threads * count) > MOST_FILES:
        return f"files_per_thread makes a data set of {files:,} files, more than {MOST_FILES:,}; use fewer, larger ones"
    if wrong := axes.check_sizes(options):
        return wrong
    if (mixed := MIXED.intersection(phases)) and options["write_mode"] == "new":
        return (
            f"write_mode new has no effect on {min(mixed)}, which reads and writes the same complete files; remove one"
        )
    if depth > 1 and options["ioengine"] in SYNCHRONOUS:
        return (
            f"queue_depth {depth} has no effect with ioengine {options['ioengine']} (one I/O in flight);"
            " use libaio, io_uring or posixaio, or `exclude` it"
        )
    return None


def file_set(step: Step, fresh: str) -> FileSet:
    """The files a step works on. Sets are shared by all points with the same file size and count."""
    phase = step.phase
    if phase.kind == "metadata" or (phase.writes and step.options["write_mode"] == "new" and not phase.reads):
        return FileSet(fresh if phase.kind == "metadata" else f"{fresh}/{phase.name}", "fresh")
    size, count, threads = (step.number(name) for name in ("file_size", "files_per_thread", "threads_per_node"))
    return _set("write" if phase.writes else "read", size, count, threads)


@cache  # as _names
def _set(role: Literal["read", "write"], size: int, count: int, threads: int) -> FileSet:
    return FileSet(
        directory=f"sets/fio-{role}-{size_name(size)}-{count}",
        role=role,
        files=_names(threads, count),
        file_size_bytes=size,
        prepare=lambda path: _prepare(path, threads, count, size),
        prepared=lambda streams: _prepared(streams, threads * count * size),
    )


@cache  # many points have the same sets
def _names(threads: int, count: int) -> tuple[str, ...]:
    return tuple(f"{job}.{file}" for job in range(threads) for file in range(count))


def _prepared(streams: Streams, size: int) -> str | None:
    """The error in the output of `_prepare`, or None."""
    _, document, problem = read_document(streams["stdout"])
    if document is None:
        return problem
    written = sum(job.write.io_bytes for job in document.jobs or () if job.write)
    return f"wrote {written} of {size} bytes" if written != size else None


def _prepare(directory: str, threads: int, count: int, size: int) -> list[str]:
    """Write a set completely, with fresh random buffers: data that is read neither compresses nor deduplicates."""
    block = min(size & -size, 1 << 20)  # the largest power of two that divides the file
    return [
        "fio",
        "--name=prepare",
        _directory(directory),
        _NAMES,
        "--rw=write",
        f"--bs={block}",
        f"--size={size * count}",
        f"--nrfiles={count}",
        f"--numjobs={threads}",
        "--ioengine=psync",
        "--refill_buffers",
        f"--randseed={zlib.crc32(directory.encode())}",  # or the sets of all nodes are alike
        "--end_fsync=1",
        "--fallocate=none",
        *_QUICK,
        *_OUTPUT,
    ]


def _directory(path: str) -> str:
    """fio splits directories at colons; a backslash before one is all that it takes away."""
    return "--directory=" + path.replace(":", "\\:")


def argv(step: Step, directory: str, seed: int) -> list[str]:
    options, phase, count = step.options, step.phase, step.number("files_per_thread")
    words = [
        "fio",
        f"--name={phase.name}",
        _directory(directory),
        _NAMES,
        f"--numjobs={step.number('threads_per_node')}",
        f"--nrfiles={count}",
    ]
    if phase.kind == "metadata":
        words += [
            f"--ioengine={ENGINE[phase.name]}",
            "--filesize=4k",
            "--bs=4k",
            "--openfiles=1",
            "--file_service_type=sequential",  # random order changes stat 16 times
            "--create_on_open=1",  # or fio fills the files before it looks them up
            "--create_fsync=0",
            "--fallocate=none",
        ]
    else:
        words += [
            *_TIMED,
            f"--rw={RW[phase.name]}",
            f"--bs={options['transfer_size']}",
            f"--iodepth={options['queue_depth']}",
            f"--ioengine={options['ioengine']}",
            f"--direct={int(bool(options['o_direct']))}",
            f"--size={step.number('file_size') * count}",
            *([] if step.time_s is None else ["--time_based=1", f"--runtime={round(step.time_s * 1000)}ms"]),
            f"--randseed={seed}",  # or every repetition and node replays one pattern
        ]
        if phase.name in MIXED:
            words.append(f"--rwmixread={options['read_percent']}")
        if phase.writes:
            # fio would preallocate: a write would then measure unwritten extents
            words += ["--fallocate=none", f"--end_fsync={int(bool(options['fsync']))}"]
            if options["data"] == "random":
                words.append("--refill_buffers=1")
        if phase.reads or options["write_mode"] == "overwrite":
            words.append("--allow_file_create=0")  # fio would silently create or extend missing files
    return [*words, *_QUICK, *_OUTPUT, *series.options(step)]


def bound(workers: Sequence[CpuSet]) -> list[str]:
    """Arguments that bind each worker to one CPU (fio assigns them in order), or all workers to all CPUs."""
    policy = "split" if len(set(workers)) == len(workers) else "shared"
    return [f"--cpus_allowed={listed(frozenset().union(*workers))}", f"--cpus_allowed_policy={policy}"]
