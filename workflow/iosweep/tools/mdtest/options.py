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
