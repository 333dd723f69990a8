"""When data sets on the target are prepared and looked at: once and completely, before their first and after every use.

Whether one is complete and without holes is decided in target/trees.py.
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
from iosweep.judge.remaining import set_name
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
    """The data sets of one allocation, as large as its most demanding points need them.

    A set is examined when it is first used, and again after each use, which also serves as the check before the next.
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
        self._wanted = data_sets(points)
        self._known: dict[str, _Known] = {}
        self._stored = store.documents(DataSet)  # how sets were written, by the name of their document

    def ready(self, files: FileSet, tool: str, hosts: Sequence[str] = ("",)) -> Files:
        """Check that a set, or that of each host, is complete; prepare it if not. Returns the evidence for the verdict.

        Raises Refused and AllocationError if a set must not be written.
        """
        shares = files.shares(len(hosts))
        seen = self._complete(shares)
        if lacking := [share for share in shares if share.directory not in seen]:
            self._budget.allow_data_set(max(self._wanted[share.directory].size_bytes for share in lacking))
            began = time.monotonic()
            writers = list(hosts)
            if not shares[0].of_all_nodes:  # the next host writes a host's set, so that its own cache does not hold it
                writers = [hosts[(shares.index(share) + 1) % len(hosts)] for share in lacking]
            trouble = self._write([self._wanted[share.directory] for share in lacking], tool, writers)
            for share, state in zip(lacking, self._examine(lacking, holes=True), strict=True):
                why = trouble[share.directory]
                seen[share.directory] = Examined({**state, "wrong": [*([why] if why else []), *state["wrong"]]})
            self._keep([share for share in lacking if not seen[share.directory]["wrong"]], seen)
            self._budget.prepared_s += time.monotonic() - began
        holes = {seen[share.directory]["holes"] for share in shares}
        known = [k for share in shares if files.role == "read" and (k := self._known.get(share.directory))]
        unread = next((k.unread for k in known if k.sample is None), "")
        readers = self._self_readers(shares, hosts)
        stored = [self._stored.get(set_name(share.directory)) for share in shares]
        return Files(
            role=files.role,
            files=len(files.files) * len(shares),
            file_size_bytes=files.file_size_bytes or 0,
            set_bytes=files.size_bytes * len(shares),
            self_readers=None if readers is None else tuple(readers),
            wrong=tuple(wrong for share in shares for wrong in seen[share.directory]["wrong"]),
            holes="found" if "found" in holes else next(iter(holes - {"none"}), "none"),
            sample=None if unread or not known else reduce(add, (k.sample for k in known if k.sample)),
            unread=unread,
            counted=counters.least(document.counted if document else None for document in stored),
        )

    def look_again(self, step: Step, files: FileSet, found: Files, hosts: Sequence[str], ended_well: bool) -> Files:
        """What the record has of a step's files, with what became of them. `found`: the same from before the step.

        Data that was read must be as it was, and blocks of what was written are read back, before target.keep or the
        next step removes them. After a failure nothing is touched: it might hang. Raises Refused, TargetHangs.
        """
        phase, directories = step.phase, [share.directory for share in files.shares(len(hosts))]
        if phase.kind == "metadata":
            return found
        if not ended_well:
            for directory in directories:  # looked at before the next use
                self._known.pop(directory, None)
            return structs.replace(found, unclear="the run failed", unread="the run failed")
        if phase.reads and files.role != "fresh":
            try:
                found = structs.replace(found, changed=self.changed(files, hosts))
            except TargetError as error:
                found = structs.replace(found, unclear=f"the files could not be looked at again: {error.strerror}")
        if phase.writes:
            overwritten_in_order = files.role == "write" and not phase.random
            transfer = step.number("transfer_size")
            ((sample, unread),) = self._samples([directories], transfer, overwritten_in_order)
            found = structs.replace(found, sample=sample, unread=unread)
        return found

    def changed(self, files: FileSet, hosts: Sequence[str]) -> tuple[str, ...]:
        """Look again at a set that was just read; returns what happened to it. What changed is removed, so that the set
        is written anew before its next use, by whichever run that is. Raises what Agent.call raises.
        """
        shares = files.shares(len(hosts))
        local = fs_types.of(self._directory.fstype).local
        changed: list[str] = []
        for share, after in zip(shares, self._examine(shares, holes=False), strict=True):
            known, wrong = self._known[share.directory], list(after["wrong"])
            if files.role == "read":  # phases write to other sets
                why = trees.changed(known.seen["stamps"], after["stamps"], known.at_ns, local)
                wrong += [why] if why else []
            if wrong:
                changed += wrong
                del self._known[share.directory]
                self._directory.remove(share.directory)
            else:
                known.seen, known.at_ns = {**after, "holes": known.seen["holes"]}, time.time_ns()
        return tuple(changed[: trees.SENTENCES])

    def _samples(self, groups: list[list[str]], transfer: int, from_begin: bool) -> list[tuple[Sample | None, str]]:
        """For each group of directories blocks of some files, or why they could not be read."""
        try:
            found = self._agent.call(trees.sample_blocks, self._directory.place, groups, transfer, from_begin)
        except TargetError as error:
            return [(None, f"blocks of the files could not be read: {error.strerror}")] * len(groups)
        return [
            (one, "") if one.bytes else (None, "the files hold nothing, or are not there any more") for one in found
        ]

    def _self_readers(self, shares: Sequence[FileSet], hosts: Sequence[str]) -> list[str] | None:
        """Hosts that would read files that they wrote, which their caches may hold; None if that is unknown.

        Another job, or a repetition on other nodes, may have prepared a set.
        """
        if len(hosts) == 1:
            return None
        readers = list[str]()
        for k, host in enumerate(hosts):
            known = self._stored.get(set_name(shares[k if len(shares) > 1 else 0].directory))
            writers = known.hosts if known else ()
            if not writers or not all(writers):
                return None
            # in a set for all nodes, a rank reads the files of the next node's ranks
            readers += [host] if host == writers[(k + 1) % len(writers)] else []
        return readers

    def _complete(self, shares: Sequence[FileSet]) -> dict[str, Examined]:
        """directory -> state, of the sets that need not be prepared."""
        for files in shares:
            whole = self._wanted.setdefault(files.directory, files)
            if len(whole.files) < len(files.files):  # of a point that was not left at first
                self._wanted[files.directory] = files
                self._known.pop(files.directory, None)
        known = {f.directory: k for f in shares if (k := self._known.get(f.directory))}
        complete = {files.directory: known[files.directory].seen for files in shares if files.directory in known}
        fresh = [files for files in shares if files.directory not in known]
        for files, seen in zip(fresh, self._examine(fresh, holes=True), strict=True):
            if not seen["wrong"]:
                complete[files.directory] = seen
        self._keep([files for files in fresh if files.directory in complete], complete)
        written = [files for files in shares if files.directory in known and files.role != "read"]
        for files, seen in zip(written, self._examine(written, holes=False), strict=True):
            if seen["wrong"]:
                del complete[files.directory]
        return complete

    def _examine(self, shares: Sequence[FileSet], holes: bool) -> list[Examined]:
        """The states of whole sets."""
        if not shares:
            return []
        sets = [self._wanted[files.directory] for files in shares]
        looks = [Look(whole.directory, list(whole.files), whole.file_size_bytes or 0, holes) for whole in sets]
        return self._agent.call(trees.examine_files, self._directory.place, looks)

    def _keep(self, shares: Sequence[FileSet], seen: Mapping[str, Examined]) -> None:
        """Keep the states of complete sets, and of those to be read a sample."""
        at_ns = time.time_ns()
        self._known |= {files.directory: _Known(seen[files.directory], at_ns) for files in shares}
        if to_read := [files.directory for files in shares if files.role == "read"]:
            samples = self._samples([[directory] for directory in to_read], _PREPARE_TRANSFER, from_begin=False)
            for directory, (sample, unread) in zip(to_read, samples, strict=True):
                self._known[directory].sample, self._known[directory].unread = sample, unread

    def _write(self, sets: Sequence[FileSet], tool: str, hosts: Sequence[str]) -> dict[str, str | None]:
        """Write some sets at the same time, and store how; returns directory -> what went wrong, or None."""
        for files in sets:
            self._known.pop(files.directory, None)
        size = sum(files.size_bytes + len(files.files) * files.surplus_bytes for files in sets)
        inodes = sum(len(files.files) for files in sets)
        paths = self._directory.prepare([files.directory for files in sets], size, inodes, empty=True)
        commands = [files.prepare(path) for files, path in zip(sets, paths, strict=True) if files.prepare]
        ranks = sets[0].prepare_tasks
        limit_s = 60 + ranks + sets[0].size_bytes / (PREPARE_BANDWIDTH / 100)
        self._budget.prepared_bytes += size
        self._directory.see_unchanged(hosts)
        done, streams = self._run(tools()[tool], commands, ranks, limit_s, hosts)
        for files in sets:
            if files.surplus_bytes and not done.exit_code:
                names, end = list(files.files), files.file_size_bytes
                self._agent.call(trees.truncate_files, self._directory.place, files.directory, names, end)
        self._directory.recount()
        counted = counters.counted(done.moved, size)
        trouble = {}
        # each node has its own exit code if it had a command of its own
        codes = {known["host"]: known["exit_code"] for known in msgspec.json.decode(streams.get("hosts", b"[]"))}
        for k, files in enumerate(sets):
            mine = replace(done, exit_code=codes.get(hosts[k], done.exit_code))
            printed = {name: streams[name if name in streams else f"{name}@{k}"] for name in ("stdout", "stderr")}
            trouble[files.directory] = _trouble(files, tool, mine, printed, limit_s)
            name = set_name(files.directory)
            self._stored[name] = DataSet(
                argv=tuple((done.argvs or [done.argv])[k]),
                hosts=tuple(hosts) if len(sets) == 1 else (hosts[k],),
                exit_code=mine.exit_code,
                timed_out=done.timed_out,
                wall_s=round(done.wall_s, 3),
                files=len(files.files),
                file_size_bytes=files.file_size_bytes,
                stderr=printed["stderr"].decode("utf-8", "replace")[-2000:],
                counted=counted,
            )
            self._store.put("sets", name, self._stored[name])
        return trouble


def _trouble(files: FileSet, tool: str, done: process.Completed, streams: Streams, limit_s: float) -> str | None:
    """Why a set could not be written, or None."""
    if done.timed_out:
        ranks = f" with {files.prepare_tasks} ranks" if tools()[tool].mpi else ""
        return f"preparing {human_count(len(files.files), 'file')}{ranks} was not done within {limit_s:.0f} s"
    trouble = files.prepared(streams)
    if done.exit_code:
        cause = cause_in(streams["stderr"]) or trouble or cause_in(streams["stdout"])
        return f"preparing them failed (exit code {done.exit_code}): {cause}"
    return f"preparing them: {trouble}" if trouble else None
