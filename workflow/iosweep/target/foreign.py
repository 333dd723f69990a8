"""Entries of the campaign's directory that iosweep did not make: they are reported, and left alone.

`foreign` runs inside the agent.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import TypedDict

from iosweep.node import procfs
from iosweep.target.directory import MARKER, UNFINISHED, Opened, Place, is_probe, shown
from iosweep.target.protocol import beat
from iosweep.target.trees import SENTENCES, Directory, Tree

#: Directories that we make in the campaign's, and in which we make directories only.
PARTS = frozenset({"sets", "fresh", "kept"})


class Foreign(OSError):
    """An entry that is not ours."""

    def __init__(self, why: str):
        super().__init__(errno.EPERM, f"{why}; it is left alone")


def by_name(way: Sequence[str], name: str, mode: int) -> str | None:
    """Why an entry is not one that we make, or None. Pure.

    `way`: the directories from the campaign's to the entry. Two levels down, tools give the names. A link in a part is
    removed as it is: it holds nothing, and is not followed.
    """
    kind = stat.S_IFMT(mode)
    ours = True
    if not way:
        ours = name in PARTS if kind == stat.S_IFDIR else name in (MARKER, UNFINISHED) or is_probe(name)
    elif len(way) == 1 and way[0] in PARTS:
        ours = kind in (stat.S_IFDIR, stat.S_IFLNK)
    return None if ours else "iosweep did not make it"


def by_owner(uid: int) -> str:
    return f"it belongs to user {procfs.user_name(uid)}"


def sentence(count: int, names: Sequence[str]) -> str:
    """A sentence on foreign entries, for the end of a removal. Pure."""
    many = f"{count} entries that iosweep did not make were" if count > 1 else "1 entry that iosweep did not make was"
    more = ", ..." if count > len(names) else ""
    return f"{many} found, and left alone: {', '.join(names)}{more}"


class ForeignEntries(TypedDict):
    """How many entries are not ours, and the names of up to 5 of them."""

    count: int
    names: list[str]


def add(entries: ForeignEntries, path: str) -> None:
    """Count one more."""
    entries["count"] += 1
    entries["names"] += [path] if len(entries["names"]) < SENTENCES else []


def foreign(place: Place) -> ForeignEntries:
    """Entries of the campaign's directory that are not ours. A directory counts as one."""
    found: ForeignEntries = {"count": 0, "names": []}
    with Opened(place, tools=False) as ours:
        tree, todo = Tree(ours.handle), [Directory()]
        while todo:
            directory = todo.pop()
            try:
                handle = tree.handle(directory)
                way = directory.path().split("/") if directory.parent else []
                with os.scandir(handle.number) as entries:
                    for entry in entries:
                        beat()
                        status = entry.stat(follow_symlinks=False)
                        if by_name(way, entry.name, status.st_mode) or status.st_uid not in (ours.owner, os.getuid()):
                            add(found, shown(directory.path(entry.name)))
                        elif stat.S_ISDIR(status.st_mode):
                            todo.append(Directory(directory, entry.name))
            except OSError:  # a mount point, or removed meanwhile
                continue
    return found
