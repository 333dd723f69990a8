"""mdtest's options and phases as data: argv, schema, validation and documentation come from these two tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from iosweep.tools import Option, Phase, Step, Value, axes

OPTIONS: dict[str, Option] = {
    o.name: o
    for o in (
        replace(axes.THREADS_PER_NODE, help="MPI ranks on each node.", kinds=axes.METADATA),
        replace(
            axes.FILES_PER_THREAD,
            kinds=axes.METADATA,
            default=10_000,
            help="Files, and directories, of each rank (-n).",
            minimum=2,
        ),
        replace(
            axes.FILE_SIZE,
            kinds=axes.METADATA,
            default=0,
            help="Bytes that are written to each file when it is created (-w), and read (-e).",
            minimum=0,
            phases=frozenset({"create", "read"}),
            brief="{} files",
        ),
        Option(
            "unique_directory",
            "flag",
            True,
            "A directory for each rank (-u), or one that all share.",
            kinds=axes.METADATA,
            title="directories",
            labels={True: "own directories", False: "shared directory"},
        ),
    )
}

PHASES: dict[str, Phase] = {
    p.name: p
    for p in (
        replace(
            axes.CREATE,
            name="dir_create",
            help="create directories",
            title="Create directories",
            plural="directory creates",
        ),
        replace(
            axes.STAT,
            name="dir_stat",
            help="stat the directories of another rank",
            title="Stat directories",
            plural="directory stats",
        ),
        replace(
            axes.CREATE,
            name="dir_rename",
            help="rename them; only together with all other phases",
            title="Rename directories",
            plural="directory renames",
        ),
        replace(axes.DELETE, name="dir_delete", title="Delete directories", plural="directory deletes"),
        axes.CREATE,
        replace(axes.STAT, help="stat the files of another rank"),
        replace(
            axes.STAT,
            name="read",
            help="open, read and close the files of another rank",
            title="Read files",
            plural="file reads",
        ),
        axes.DELETE,
    )
}

#: Operation -> mdtest's flag for this operation alone. There is none for renaming.
FLAGS = {"create": "-C", "stat": "-T", "read": "-E", "delete": "-r"}


#: Where mdtest is started: the rate of each rank, which it writes at the end.
RANKS = "ranks.csv"


def check(options: Mapping[str, Value], phases: Sequence[str], time_s: float | None) -> str | None:
    if list(phases) != [phase for phase in PHASES if phase in phases]:
        return f"mdtest's phases go in the order {', '.join(PHASES)}"
    directories, files = _operations(phases)
    if (directories and "create" not in directories) or (files and "create" not in files):
        return "the other phases work on what dir_create and create made; put these first"
    if "rename" in directories and not _complete(phases):
        return "dir_rename is only measured together with all other phases: mdtest has no flag for it alone"
    if directories and files and directories - {"rename"} != files - {"read"}:
        return (
            "one call of mdtest does the same to directories and to files; name the same phases for both,"
            " or write two sweeps"
        )
    if options.get("file_size") and not files:
        return "file_size has no effect on directories; remove it"
    return None


def check_directory(directory: str) -> str | None:
    if "@" in directory:
        return "contains `@`, where mdtest splits it into two directories; use a path without `@`"
    return None


def argv(step: Step, directory: str, seed: int) -> list[str]:
    """The exact command of a step below the absolute `directory`, which is empty.

    One call measures all phases, as is usual, because mdtest has no flag for `Directory rename` alone. `-i 1`: iosweep
    repeats. `-N 1`: since 3.3 it counts nodes, and each rank works on the files of a rank on the next node.
    """
    phases = [phase.name for phase in step.phases]
    directories, files = _operations(phases)
    words = ["mdtest", "-i", "1", "-n", str(step.number("files_per_thread")), "-N", "1"]
    if not directories:
        words.append("-F")
    if not files:
        words.append("-D")
    if not _complete(phases):
        words += [flag for operation, flag in FLAGS.items() if operation in directories | files]
    if step.options["unique_directory"]:
        words.append("-u")
    if size := step.options.get("file_size"):
        words += ["-w", str(size)]
        if "read" in files:
            words += ["-e", str(size)]
    return [*words, f"--saveRankPerformanceDetails={RANKS}", "-d", directory]


def _operations(phases: Sequence[str]) -> tuple[set[str], set[str]]:
    """(operations on directories, operations on files)"""
    return (
        {p.removeprefix("dir_") for p in phases if p.startswith("dir_")},
        {p for p in phases if not p.startswith("dir_")},
    )


def _complete(phases: Sequence[str]) -> bool:
    """Whether mdtest without flags does just this."""
    directories, files = _operations(phases)
    return (not directories or directories == {"create", "stat", "rename", "delete"}) and (
        not files or files == {"create", "stat", "read", "delete"}
    )
