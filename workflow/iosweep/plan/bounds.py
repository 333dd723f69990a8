"""How much a plan may name: ranks, files and data sets are counted before any of them is made. Pure.

Each value may be within its own limit where their product fills the memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from iosweep.tools import Value, tools

#: Of one point: ranks or workers on all nodes together, and files of its data phases. Large systems start some 600,000.
MOST_WORKERS = MOST_FILES = 1 << 20
#: Of a whole plan: names of files in the memory, and data sets, of which fio has one for each node.
MOST_NAMES, MOST_SETS = 1 << 22, 1 << 17


def of_point(nodes: int, options: Mapping[str, Value]) -> str | None:
    """What a point has too many of, or None. `options`: as Point has them."""
    threads = _number(options, "threads_per_node")
    workers = nodes * threads
    if workers > MOST_WORKERS:
        return (
            f"{nodes:,} nodes x {threads:,} threads_per_node are {workers:,} workers; a point may have"
            f" {MOST_WORKERS:,}: give fewer"
        )
    if _listed(options) and (files := workers * _number(options, "files_per_thread")) > MOST_FILES:
        return (
            f"{_number(options, 'files_per_thread'):,} files_per_thread x {threads:,} threads_per_node x {nodes:,}"
            f" nodes are {files:,} files; a point of data phases may have {MOST_FILES:,}: give fewer"
        )
    return None


class Total:
    """What the points of a plan name, those that share it counted once."""

    def __init__(self) -> None:
        self._names: dict[tuple[object, ...], int] = {}
        self._sets: set[tuple[object, ...]] = set()
        self._named = self._kept = 0

    def add(self, tool: str, nodes: int, options: Mapping[str, Value]) -> str | None:
        """What there is too much of with this point, or None."""
        if not _listed(options):
            return None
        threads, files = _number(options, "threads_per_node"), _number(options, "files_per_thread")
        of_all = tools()[tool].mpi  # then one set for all nodes
        names: tuple[object, ...] = (tool, nodes * threads) if of_all else (tool, threads, files)
        if names not in self._names:
            self._names[names] = nodes * threads if of_all else threads * files
            self._named += self._names[names]
        kept = (tool, nodes, _number(options, "file_size"), names if of_all else files)
        if kept not in self._sets:
            self._sets.add(kept)
            self._kept += 1 if of_all else nodes
        if self._named > MOST_NAMES:
            return (
                f"nodes, threads_per_node and files_per_thread of all points so far make {self._named:,} names of"
                f" files; a campaign may have {MOST_NAMES:,}: give fewer values, or make another campaign"
            )
        if self._kept > MOST_SETS:
            return (
                f"nodes, file_size and files_per_thread of all points so far make {self._kept:,} data sets; a campaign"
                f" may have {MOST_SETS:,}: give fewer values, or make another campaign"
            )
        return None


def _listed(options: Mapping[str, Value]) -> bool:
    """Whether files are listed by their names, as those of data phases are; the tools count those of metadata."""
    return "transfer_size" in options


def _number(options: Mapping[str, Value], name: str) -> int:
    value = options.get(name)
    return value if isinstance(value, int) else 1
