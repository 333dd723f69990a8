"""Data sets on the target: prepared once and completely, checked before every use, shared by points."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import orjson
from msgspec import structs

from iosweep.errors import TargetError
from iosweep.node import fs_types, io_record, process
from iosweep.node.stuck import sentence
from iosweep.plan.forecast import PREPARE_BANDWIDTH, data_sets
from iosweep.plan.model import Point
from iosweep.results.campaign_documents import DataSet
from iosweep.results.record import Files
from iosweep.results.store import Store
from iosweep.results.time_to_go import set_name
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.target import contents, stamps, trees
from iosweep.target.agent import Agent
from iosweep.target.contents import Sample
from iosweep.target.trees import Examined
from iosweep.text import human_count
from iosweep.tools import FileSet, Streams, Tool, tools

#: Starts commands of a tool: tool, one command for all hosts or one for each, ranks, time limit in seconds, hosts.
Run = Callable[[Tool, Sequence[Sequence[str]], int, float, Sequence[str]], tuple[process.Completed, Streams]]


#: Bytes of one I/O of the commands that write sets, at most.
_PREPARE_TRANSFER = 1 << 20


@dataclass
class _Known:
    """A set as it was when it was complete, and when that was by our clock; what it holds, or why that is not known."""

    seen: Examined
    at_ns: int
    sample: Sample | None = None
    unread: str = ""


class DataSets:
    """The data sets of one allocation, as large as its most demanding points need them."""

    def __init__(
        self,
        agent: Agent,
        directory: CampaignDirectory,
        store: Store,
        points: Iterable[Point],
        run: Run,
        budget: Budget,
        before: Callable[[Sequence[str]], None] = lambda _: None,
    ):
        """`before`: called with the hosts right before a tool is started on them."""
        self._agent = agent
        self._run = run
        self._budget = budget
        self._before = before
        self._directory = directory
        self._store = store
        self._wanted: dict[str, tuple[FileSet, str]] = {}
        by_tool: dict[str, list[Point]] = {}
        for point in points:
            by_tool.setdefault(point.tool, []).append(point)
        for tool, members in by_tool.items():  # tools share no sets
            self._wanted |= {directory: (files, tool) for directory, files in data_sets(members).items()}
        self._known: dict[str, _Known] = {}
        self._written: dict[str, io_record.Counted | None] | None = None  # by the name of their document, once read

    def ready(self, files: FileSet, tool: str, hosts: Sequence[str] = ("",)) -> Files:
        """Check that a set, or that of each host, is complete; prepare it if not.

        Returns the evidence for the verdict: {wrong: [..], holes: "none" | "found" | why that is unknown, ...}. Raises
        Refused and AllocationError if a set must not be written.
        """
        shares = files.shares(len(hosts))
        looked = [self._share(share, tool) for share in shares]
        if lacking := [share for share, seen in zip(shares, looked, strict=True) if seen is None]:
            writers = self._writers(shares, lacking, hosts)
            largest = max(self._wanted[share.directory][0].size_bytes for share in lacking)
            self._budget.allow_data_set(largest)
            began = time.monotonic()
            trouble = self._prepare(lacking, tool, writers)
            self._budget.spent.prepared_s += time.monotonic() - began
            looked = [
                seen or self._prepared(share, trouble.get(share.directory))
                for share, seen in zip(shares, looked, strict=True)
            ]
        found = [seen for seen in looked if seen]
        holes = {seen["holes"] for seen in found}
        own = self._own(shares, hosts)
        known = [k for share in shares if files.role == "read" and (k := self._known.get(share.directory))]
        unread = next((k.unread for k in known if k.sample is None), "")
        return Files(
            role=files.role,
            files=len(files.files) * len(shares),
            file_size_bytes=files.file_size_bytes or 0,
            set_bytes=files.size_bytes * len(shares),
            own=None if own is None else tuple(own),
            wrong=tuple(wrong for seen in found for wrong in seen["wrong"]),
            holes="found" if "found" in holes else next(iter(holes - {"none"}), "none"),
            sample=None if unread or not known else reduce(add, (k.sample for k in known if k.sample)),
            unread=unread,
            counted=io_record.least(self._counted(share) for share in shares),
        )

    def again(self, files: FileSet, found: Files, hosts: Sequence[str]) -> Files:
        """Look again at a set that was just read; `found`: what `ready` returned. What changed is removed, so that the
        set is written anew before its next use, by whichever run that is.

        Sets that phases write to are compared by size and holes only. Raises what Agent.call raises.
        """
        changed: list[str] = []
        unclear = ""
        for share in files.shares(len(hosts)):
            whole, known = self._wanted[share.directory][0], self._known[share.directory]
            after = self._examine(whole, holes=known.seen["holes"] == "none", again=True)
            wrong = list(after["wrong"])
            if files.role == "read":
                difference = self._difference(known, after)
                unclear = unclear or difference.unclear
                wrong += [difference.changed] if difference.changed else []
            if wrong:
                changed += wrong
                del self._known[share.directory]
                self._directory.remove(share.directory)
            else:
                self._seen_again(known, after)
        return structs.replace(found, changed=tuple(changed[: trees.SENTENCES]), unclear=unclear)

    def _difference(self, known: _Known, now: Examined) -> stamps.Difference:
        """What happened to a set since it was looked at last."""
        kind = fs_types.of(self._directory.fstype)
        return stamps.difference(known.seen["stamps"], now["stamps"], known.at_ns, kind.local, kind.inodes)

    def _seen_again(self, known: _Known, now: Examined) -> None:
        known.seen, known.at_ns = {**now, "holes": known.seen["holes"]}, time.time_ns()

    def _counted(self, files: FileSet) -> io_record.Counted | None:
        """What counters saw of a set when it was written; None where another campaign wrote it."""
        if self._written is None:
            self._written = {name: known.counted for name, known in self._store.documents(DataSet).items()}
        return self._written.get(set_name(files.directory))

    def _writers(self, shares: Sequence[FileSet], lacking: Sequence[FileSet], hosts: Sequence[str]) -> list[str]:
        """The hosts that write sets: for each host's own set the next host, so that its cache does not hold the set."""
        if shares[0].of_all_nodes:
            return list(hosts)
        return [hosts[(shares.index(share) + 1) % len(hosts)] for share in lacking]

    def _own(self, shares: Sequence[FileSet], hosts: Sequence[str]) -> list[str] | None:
        """Hosts that would read files that they wrote, which their caches may hold; None if that is unknown.

        Another job, or a repetition on other nodes, may have prepared a set.
        """
        if len(hosts) == 1:
            return None
        found, stored = [], self._store.documents(DataSet)
        for k, host in enumerate(hosts):
            known = stored.get(set_name(shares[k if len(shares) > 1 else 0].directory))
            writers = known.hosts if known else ()
            if not writers or not all(writers):
                return None
            # in a set for all nodes, a rank reads the files of the next node's ranks
            found += [host] if host == writers[(k + 1) % len(writers)] else []
        return found

    def _share(self, files: FileSet, tool: str) -> Examined | None:
        """The state of a set; None if it must be prepared."""
        whole, _ = self._wanted.setdefault(files.directory, (files, tool))  # of a point that was not left at the start
        if len(whole.files) < len(files.files):  # the larger set could not be prepared
            whole = files
            self._wanted[files.directory] = (files, tool)
            self._known.pop(files.directory, None)
        known = self._known.get(files.directory)
        seen = self._examine(whole, holes=known is None)
        if seen["wrong"] or (known and files.role == "read" and self._difference(known, seen).changed):
            return None
        if known is None:
            known = self._keep(files, seen)
        else:
            self._seen_again(known, seen)
        return known.seen

    def _prepared(self, files: FileSet, trouble: str | None) -> Examined:
        """The state of a set that was just prepared. `trouble`: what went wrong."""
        whole, _ = self._wanted[files.directory]
        seen = self._examine(whole, holes=True)
        if trouble:
            seen["wrong"] = [trouble, *seen["wrong"]]
        if not seen["wrong"]:
            self._keep(files, seen)
        return seen

    def _keep(self, files: FileSet, seen: Examined) -> _Known:
        """Keep the state of a complete set, and of one to be read a sample."""
        known = self._known[files.directory] = _Known(seen, time.time_ns())
        if files.role == "read":
            known.sample, known.unread = self.sample([files.directory], _PREPARE_TRANSFER, from_begin=False)
        return known

    def sample(self, directories: list[str], transfer: int, from_begin: bool) -> tuple[Sample | None, str]:
        """Blocks of some files below the campaign's directory, or why they could not be read."""
        try:
            found = self._agent.call(contents.sample, self._directory.place, directories, transfer, from_begin)
        except TargetError as error:
            return None, f"blocks of the files could not be read: {error.strerror}"
        return (found, "") if found.bytes else (None, "the files hold nothing, or are not there any more")

    def _examine(self, whole: FileSet, holes: bool, again: bool = False) -> Examined:
        where, names = self._directory.place, list(whole.files)
        size = whole.file_size_bytes or 0
        return self._agent.call(trees.examine, where, whole.directory, names, size, holes, again)

    def _prepare(self, lacking: Sequence[FileSet], tool: str, hosts: Sequence[str]) -> dict[str, str | None]:
        """Write sets as the most demanding point needs them, or, if that fails, as `lacking` asks for them.

        Returns directory -> what went wrong, or None.
        """
        wanted = [self._wanted[files.directory][0] for files in lacking]
        trouble = self._write(wanted, tool, hosts)
        if any(trouble.values()) and any(len(a.files) < len(b.files) for a, b in zip(lacking, wanted, strict=True)):
            for files in lacking:  # a smaller point does not fail because of a larger one
                self._wanted[files.directory] = (files, tool)
            trouble = self._write(lacking, tool, hosts)
        return trouble

    def _write(self, sets: Sequence[FileSet], tool: str, hosts: Sequence[str]) -> dict[str, str | None]:
        """Write some sets at the same time, and store how; returns directory -> what went wrong, or None."""
        commands = []
        for files in sets:
            self._known.pop(files.directory, None)
            path = self._directory.ensure(files.directory, empty=True)
            assert files.prepare
            commands.append(files.prepare(path))
        size, ranks = sum(files.size_bytes for files in sets), sets[0].prepare_tasks
        self._directory.may_write(size, sum(len(files.files) for files in sets))
        limit_s = 60 + ranks + sets[0].size_bytes / (PREPARE_BANDWIDTH / 100)
        self._budget.spent.prepared_bytes += size
        self._before(hosts)
        done, streams = self._run(tools()[tool], commands, ranks, limit_s, hosts)
        self._directory.recount()
        counted, self._written = io_record.counted(done.moved or {}, size), None
        trouble = {}
        # each node has its own exit code if it had a command of its own
        codes = {known["host"]: known["exit_code"] for known in orjson.loads(streams.get("hosts", b"[]"))}
        for k, files in enumerate(sets):
            mine = replace(done, exit_code=codes.get(hosts[k], done.exit_code))
            own = streams if "stdout" in streams else {name: streams[f"{name}@{k}"] for name in ("stdout", "stderr")}
            trouble[files.directory] = _trouble(files, tool, mine, own, limit_s)
            self._store.put(
                "sets",
                set_name(files.directory),
                DataSet(
                    argv=tuple((done.argvs or [done.argv])[k]),
                    hosts=tuple(hosts) if len(sets) == 1 else (hosts[k],),
                    exit_code=mine.exit_code,
                    timed_out=done.timed_out,
                    wall_s=round(done.wall_s, 3),
                    files=len(files.files),
                    file_size_bytes=files.file_size_bytes,
                    stderr=own["stderr"].decode("utf-8", "replace")[-2000:],
                    counted=counted,
                ),
            )
        return trouble


def _trouble(files: FileSet, tool: str, done: process.Completed, streams: Streams, limit_s: float) -> str | None:
    """Why a set could not be written, or None."""
    if done.timed_out:
        ranks = f" with {files.prepare_tasks} ranks" if tools()[tool].mpi else ""
        waited = f"; {sentence(done.stuck)}" if done.stuck else ""
        return f"preparing {human_count(len(files.files), 'file')}{ranks} was not done within {limit_s:.0f} s{waited}"
    trouble = files.prepared(streams)
    if done.exit_code:
        cause = _cause(streams["stderr"]) or trouble or _line(streams["stdout"])
        return f"preparing them failed (exit code {done.exit_code}): {cause}"
    return f"preparing them: {trouble}" if trouble else None


def _cause(text: bytes) -> str:
    """The first line; where MPICH prints the stack of an error, its last line."""
    stack = [line for line in text.splitlines() if re.match(rb"\w+\(\d+\)\.*: \S", line)]
    return _line(stack[-1] if stack else text)


def _line(text: bytes) -> str:
    return next((line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()), "")[:200]
