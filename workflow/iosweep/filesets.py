"""Data sets on the target: prepared once, completely, looked at before every use, shared by the points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from iosweep import process
from iosweep.agent import Agent
from iosweep.directory import Directory
from iosweep.forecast import PREPARE_BANDWIDTH, data_sets
from iosweep.plan import Point
from iosweep.store import Store
from iosweep.tools import FileSet, Streams, Tool, tools
from iosweep.units import human_count


@dataclass
class _Known:
    holes: str
    changed_ns: int


class FileSets:
    """The sets of one allocation. Sizes are those of the most demanding of its points."""

    def __init__(
        self,
        agent: Agent,
        directory: Directory,
        store: Store,
        points: Iterable[Point],
        run: Callable[[Tool, list[str], int, float], tuple[process.Completed, Streams]],
    ):
        """`run` starts a tool's command with so many ranks and a time limit in seconds."""
        self._agent = agent
        self._run = run
        self._directory = directory
        self._store = store
        self._wanted: dict[str, tuple[FileSet, str]] = {}
        for point in points:
            for (_, below), files in data_sets([point]).items():
                known = self._wanted.get(below)
                if known is None or len(known[0].files) < len(files.files):
                    self._wanted[below] = (files, point.tool)
        self._known: dict[str, _Known] = {}

    def ready(self, files: FileSet, tool: str) -> dict[str, Any]:
        """See that a set is complete, prepare it if not. Raises target.Refused if so much must not be written.

        Returns the evidence for the verdict: {wrong: [..], holes: "none" | "found" | why not looked at, ...}.
        """
        evidence = {
            "role": files.role,
            "files": len(files.files),
            "file_size_bytes": files.file_size_bytes,
            "set_bytes": files.size_bytes,
        }
        whole, _ = self._wanted.setdefault(files.directory, (files, tool))  # a point may come to be left meanwhile
        if len(whole.files) < len(files.files):  # what was wanted could not be had
            whole = files
        known = self._known.get(files.directory)
        seen = self._look(whole, holes=known is None)
        written_to = known is not None and files.role == "read" and seen["changed_ns"] != known.changed_ns
        if seen["wrong"] or written_to:
            trouble = self._prepare(whole, tool)
            if trouble and len(files.files) < len(whole.files):  # what is too much for a larger point is not its fault
                self._wanted[files.directory] = (files, tool)
                whole, trouble = files, self._prepare(files, tool)
            seen = self._look(whole, holes=True)
            known = None
            if trouble:
                seen["wrong"] = [trouble, *seen["wrong"]]
        if known is None and not seen["wrong"]:
            known = self._known[files.directory] = _Known(seen["holes"], seen["changed_ns"])
        return evidence | {"wrong": seen["wrong"], "holes": known.holes if known else seen["holes"]}

    def _look(self, whole: FileSet, holes: bool) -> dict[str, Any]:
        seen: dict[str, Any] = self._agent.call(
            "examine",
            self._directory.path,
            whole.directory,
            list(whole.files),
            whole.file_size_bytes,
            holes,
        )
        return seen

    def _prepare(self, whole: FileSet, tool: str) -> str | None:
        """Write a set; returns what went wrong, or None. How it was done is kept in the store."""
        self._known.pop(whole.directory, None)
        path = self._directory.ensure(whole.directory, empty=True)
        self._directory.may_write(whole.size_bytes, len(whole.files))
        assert whole.prepare
        argv = whole.prepare(path)
        limit_s = 60 + whole.prepare_tasks + whole.size_bytes / (PREPARE_BANDWIDTH / 100)
        done, streams = self._run(tools()[tool], argv, whole.prepare_tasks, limit_s)
        self._store.put(
            "sets",
            whole.directory.replace("/", "."),
            {
                "argv": list(done.argv),
                "exit_code": done.exit_code,
                "timed_out": done.timed_out,
                "wall_s": round(done.wall_s, 3),
                "files": len(whole.files),
                "file_size_bytes": whole.file_size_bytes,
                "stderr": done.stderr.decode("utf-8", "replace")[-2000:],
            },
        )
        self._directory.recount()
        trouble = whole.prepared(streams)
        if done.timed_out:
            ranks = f" with {whole.prepare_tasks} ranks" if tools()[tool].mpi else ""
            return f"preparing {human_count(len(whole.files), 'file')}{ranks} was not done within {limit_s:.0f} s"
        if done.exit_code:
            said = _line(done.stderr) or trouble or _line(done.stdout)
            return f"preparing them failed (exit code {done.exit_code}): {said}"
        return f"preparing them: {trouble}" if trouble else None


def _line(text: bytes) -> str:
    return next((line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()), "")[:200]
