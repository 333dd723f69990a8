"""Prepares data sets on the target, once and completely, and examines them before first use and after each use.

target/trees.py decides whether a set is complete and has no holes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import msgspec
from msgspec import structs

from iosweep.errors import TargetError
from iosweep.judge.remaining import set_name, set_rate
from iosweep.node import counters, fs_types, process
from iosweep.plan.forecast import PREPARE_BANDWIDTH, data_sets
from iosweep.plan.model import Point
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.store.record import DataSet, Files
from iosweep.store.store import Store
from iosweep.target import trees
from iosweep.target.agent import Agent
from iosweep.target.trees import Examined, Look, Sample
from iosweep.text import human_count
from iosweep.tools import FileSet, Step, Streams, Tool, tools
from iosweep.tools.messages import cause_in

#: Starts commands of a tool: tool, one command for all hosts or one for each, ranks, time limit in seconds, hosts.
Run = Callable[[Tool, Sequence[Sequence[str]], int, float, Sequence[str]], tuple[process.Completed, Streams]]
#: Largest I/O size of the commands that write sets, in bytes.
_PREPARE_TRANSFER = 1 << 20


@dataclass
class _CompleteSet:
    """A set that was complete when it was last examined."""

    state: Examined
    at_ns: int  # time of the examination, by our clock
    sample: Sample | None = None  # of its content
    unread: str = ""  # why there is no sample


class DataSets:
    """The data sets of one allocation on a target, each as large as its most demanding point requires.

    A set is examined before its first use and after each use; the latter is also the check before the next use.
    """

    def __init__(
        self,
        agent: Agent,
        directory: CampaignDirectory,
        store: Store,
        points: Iterable[Point],
        run: Run,
        budget: Budget,
    ):
        self._agent = agent
        self._run = run
        self._budget = budget
        self._directory = directory
        self._store = store
        self._whole_sets = data_sets(points)  # directory -> set
        self._complete: dict[str, _CompleteSet] = {}  # by directory
        self._stored = store.documents(DataSet)  # how sets were written, by the name of their document

    def ensure_complete(self, files: FileSet, tool: str, hosts: Sequence[str] = ("",)) -> Files:
        """Check that a set, or each host's set, is complete; prepare it if not. Returns the evidence for the verdict.

        Raises Refused and AllocationError if a set must not be written.
        """
        shares = files.shares(len(hosts))
        states = self._find_complete(shares)
        if incomplete := [share for share in shares if share.directory not in states]:
            rate = set_rate(self._stored, self._directory.target, self._directory.settings.node_bandwidth)
            self._budget.allow_data_set(max(self._whole_sets[s.directory].size_bytes for s in incomplete), rate)
            start = time.monotonic()
            writers = list(hosts)
            if not shares[0].of_all_nodes:  # the next host writes a host's set, so that the host does not cache it
                writers = [hosts[(shares.index(share) + 1) % len(hosts)] for share in incomplete]
            failures = self._write([self._whole_sets[share.directory] for share in incomplete], tool, writers)
            for share, state in zip(incomplete, self._examine(incomplete, holes=True), strict=True):
                error = failures[share.directory]
                states[share.directory] = Examined({**state, "wrong": [*([error] if error else []), *state["wrong"]]})
            self._keep_states([share for share in incomplete if not states[share.directory]["wrong"]], states)
            self._budget.prepared_s += time.monotonic() - start
        holes = {states[share.directory]["holes"] for share in shares}
        to_read = [s for share in shares if files.role == "read" and (s := self._complete.get(share.directory))]
        unread = next((s.unread for s in to_read if s.sample is None), "")
        readers = self._find_self_readers(shares, hosts)
        stored = [self._stored.get(self._name_of(share)) for share in shares]
        return Files(
            role=files.role,
            files=len(files.files) * len(shares),
            file_size_bytes=files.file_size_bytes or 0,
            set_bytes=files.size_bytes * len(shares),
            self_readers=None if readers is None else tuple(readers),
            wrong=tuple(wrong for share in shares for wrong in states[share.directory]["wrong"]),
            holes="found" if "found" in holes else next(iter(holes - {"none"}), "none"),
            sample=None if unread or not to_read else reduce(add, (s.sample for s in to_read if s.sample)),
            unread=unread,
            counted=counters.lowest_shares(document.counted if document else None for document in stored),
        )

    def are_complete(self, files: FileSet, hosts: Sequence[str]) -> bool:
        """Whether a set, or each host's set, was complete when it was last examined."""
        return all(share.directory in self._complete for share in files.shares(len(hosts)))

    def recheck(self, step: Step, files: FileSet, before: Files, hosts: Sequence[str], succeeded: bool) -> Files:
        """Examine a step's files after the step; returns the updated record entry. `before`: the entry before the step.

        Files that were read must not have changed; blocks of files that were written are read back before target.keep
        or the next step removes them. After a failure no file is accessed: it might hang. Raises Refused, TargetHangs.
        """
        phase, directories = step.phase, [share.directory for share in files.shares(len(hosts))]
        if phase.kind == "metadata":
            return before
        if not succeeded:
            for directory in directories:  # examined again before the next use
                self._complete.pop(directory, None)
            return structs.replace(before, unclear="the run failed", unread="the run failed")
        entry = before
        if phase.reads and files.role != "fresh":
            try:
                entry = structs.replace(entry, changed=self.changed(files, hosts))
            except TargetError as error:
                entry = structs.replace(entry, unclear=f"the files could not be looked at again: {error.strerror}")
        if phase.writes:
            overwritten_in_order = files.role == "write" and not phase.random
            transfer = step.number("transfer_size")
            ((sample, unread),) = self._sample([directories], transfer, overwritten_in_order)
            entry = structs.replace(entry, sample=sample, unread=unread)
        return entry

    def changed(self, files: FileSet, hosts: Sequence[str]) -> tuple[str, ...]:
        """Examine a set again that was just read; returns messages about changes. A changed set is removed, so that it
        is written again before its next use. Raises what Agent.call raises.
        """
        shares = files.shares(len(hosts))
        local = fs_types.lookup(self._directory.fstype).local
        changed: list[str] = []
        for share, after in zip(shares, self._examine(shares, holes=False), strict=True):
            before, problems = self._complete[share.directory], list(after["wrong"])
            if files.role == "read":  # phases write to the other sets
                change = trees.changed(before.state["stamps"], after["stamps"], before.at_ns, local)
                problems += [change] if change else []
            if problems:
                changed += problems
                del self._complete[share.directory]
                self._directory.remove(share.directory)
            else:
                before.state, before.at_ns = {**after, "holes": before.state["holes"]}, time.time_ns()
        return tuple(changed[: trees.SENTENCES])

    def _sample(self, groups: list[list[str]], transfer: int, from_begin: bool) -> list[tuple[Sample | None, str]]:
        """Read blocks of some files in each group of directories; returns each sample, or why there is none."""
        try:
            samples = self._agent.call(trees.sample_blocks, self._directory.place, groups, transfer, from_begin)
        except TargetError as error:
            return [(None, f"blocks of the files could not be read: {error.strerror}")] * len(groups)
        return [
            (sample, "") if sample.bytes else (None, "the files hold nothing, or are not there any more")
            for sample in samples
        ]

    def _find_self_readers(self, shares: Sequence[FileSet], hosts: Sequence[str]) -> list[str] | None:
        """Hosts that would read files that they wrote themselves and may have cached; None if that is unknown.

        Sets may have been prepared by another job, or by a repetition on other nodes.
        """
        if len(hosts) == 1:
            return None
        readers = list[str]()
        for k, host in enumerate(hosts):
            document = self._stored.get(self._name_of(shares[k if len(shares) > 1 else 0]))
            writers = document.hosts if document else ()
            if not writers or not all(writers):
                return None
            # in a set for all nodes, a rank reads the files of the next node's ranks
            readers += [host] if host == writers[(k + 1) % len(writers)] else []
        return readers

    def _name_of(self, files: FileSet) -> str:
        """Name of a set's document."""
        return set_name(files.directory, self._directory.target)

    def _find_complete(self, shares: Sequence[FileSet]) -> dict[str, Examined]:
        """Find the sets that are complete; returns directory -> state."""
        for files in shares:
            whole = self._whole_sets.setdefault(files.directory, files)
            if len(whole.files) < len(files.files):  # a point that needs more files was added
                self._whole_sets[files.directory] = files
                self._complete.pop(files.directory, None)
        examined = {f.directory: s for f in shares if (s := self._complete.get(f.directory))}
        states = {directory: complete.state for directory, complete in examined.items()}
        unexamined = [files for files in shares if files.directory not in examined]
        for files, state in zip(unexamined, self._examine(unexamined, holes=True), strict=True):
            if not state["wrong"]:
                states[files.directory] = state
        self._keep_states([files for files in unexamined if files.directory in states], states)
        written = [files for files in shares if files.directory in examined and files.role != "read"]
        for files, state in zip(written, self._examine(written, holes=False), strict=True):
            if state["wrong"]:
                del states[files.directory]
        return states

    def _examine(self, shares: Sequence[FileSet], holes: bool) -> list[Examined]:
        """Examine whole sets; returns their states."""
        if not shares:
            return []
        sets = [self._whole_sets[files.directory] for files in shares]
        looks = [Look(whole.directory, list(whole.files), whole.file_size_bytes or 0, holes) for whole in sets]
        return self._agent.call(trees.examine_files, self._directory.place, looks)

    def _keep_states(self, shares: Sequence[FileSet], states: Mapping[str, Examined]) -> None:
        """Keep the states of complete sets, and samples of those that will be read."""
        at_ns = time.time_ns()
        self._complete |= {files.directory: _CompleteSet(states[files.directory], at_ns) for files in shares}
        if to_read := [files.directory for files in shares if files.role == "read"]:
            samples = self._sample([[directory] for directory in to_read], _PREPARE_TRANSFER, from_begin=False)
            for directory, (sample, unread) in zip(to_read, samples, strict=True):
                self._complete[directory].sample, self._complete[directory].unread = sample, unread

    def _write(self, sets: Sequence[FileSet], tool: str, hosts: Sequence[str]) -> dict[str, str | None]:
        """Write sets at the same time, and store their documents; returns directory -> why that failed, or None."""
        for files in sets:
            self._complete.pop(files.directory, None)
        size = sum(files.size_bytes + len(files.files) * files.surplus_bytes for files in sets)
        inodes = sum(len(files.files) for files in sets)
        paths = self._directory.prepare([files.directory for files in sets], size, inodes, empty=True)
        commands = [files.prepare(path) for files, path in zip(sets, paths, strict=True) if files.prepare]
        ranks = sets[0].prepare_tasks
        limit_s = 60 + ranks + sets[0].size_bytes / (PREPARE_BANDWIDTH / 100)
        self._budget.prepared_bytes += size
        self._directory.check_unchanged(hosts)
        done, streams = self._run(tools()[tool], commands, ranks, limit_s, hosts)
        for files in sets:
            if files.surplus_bytes and not done.exit_code:
                names, end = list(files.files), files.file_size_bytes
                self._agent.call(trees.truncate_files, self._directory.place, files.directory, names, end)
        self._directory.recount()
        counted = counters.counted_shares(done.moved, size)
        failures = {}
        # with one command per node there is an exit code per node
        codes = {run["host"]: run["exit_code"] for run in msgspec.json.decode(streams.get("hosts", b"[]"))}
        for k, files in enumerate(sets):
            set_run = replace(done, exit_code=codes.get(hosts[k], done.exit_code))
            printed = {name: streams[name if name in streams else f"{name}@{k}"] for name in ("stdout", "stderr")}
            failures[files.directory] = _find_failure(files, tool, set_run, printed, limit_s)
            name = self._name_of(files)
            self._stored[name] = DataSet(
                target=self._directory.target,
                argv=tuple((done.argvs or [done.argv])[k]),
                hosts=tuple(hosts) if len(sets) == 1 else (hosts[k],),
                exit_code=set_run.exit_code,
                timed_out=done.timed_out,
                wall_s=round(done.wall_s, 3),
                files=len(files.files),
                file_size_bytes=files.file_size_bytes,
                stderr=printed["stderr"].decode("utf-8", "replace")[-2000:],
                counted=counted,
            )
            self._store.put("sets", name, self._stored[name])
        return failures


def _find_failure(files: FileSet, tool: str, done: process.Completed, streams: Streams, limit_s: float) -> str | None:
    """Why a set could not be written, or None."""
    if done.timed_out:
        ranks = f" with {files.prepare_tasks} ranks" if tools()[tool].mpi else ""
        return f"preparing {human_count(len(files.files), 'file')}{ranks} was not done within {limit_s:.0f} s"
    reported = files.prepared(streams)
    if done.exit_code:
        cause = cause_in(streams["stderr"]) or reported or cause_in(streams["stdout"])
        return f"preparing its files failed (exit code {done.exit_code}): {cause}"
    return f"preparing its files: {reported}" if reported else None
