"""mdtest's options and phases as data: argv, schema, validation and documentation come from these two tables."""

from __future__ import annotations

from dataclasses import replace

from iosweep.tools import Option, Phase, axes

OPTIONS: dict[str, Option] = {
    o.name: o
    for o in (
        replace(axes.THREADS_PER_NODE, kinds=axes.METADATA),
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
        Phase("dir_create", "metadata", False, True, "ops_per_s", "create directories"),
        Phase("dir_stat", "metadata", True, False, "ops_per_s", "stat the directories of another rank"),
        Phase("dir_rename", "metadata", False, True, "ops_per_s", "rename them; only together with all other phases"),
        Phase("dir_delete", "metadata", False, True, "ops_per_s", "delete them"),
        Phase("create", "metadata", False, True, "ops_per_s", "create files"),
        Phase("stat", "metadata", True, False, "ops_per_s", "stat the files of another rank"),
        Phase("read", "metadata", True, False, "ops_per_s", "open, read and close the files of another rank"),
        Phase("delete", "metadata", False, True, "ops_per_s", "delete them"),
    )
}

#: Phase -> the row of mdtest's table.
ROWS = {
    "dir_create": "Directory creation",
    "dir_stat": "Directory stat",
    "dir_rename": "Directory rename",
    "dir_delete": "Directory removal",
    "create": "File creation",
    "stat": "File stat",
    "read": "File read",
    "delete": "File removal",
}

#: What is done -> mdtest's flag for that alone. There is none for renaming.
FLAGS = {"create": "-C", "stat": "-T", "read": "-E", "delete": "-r"}
