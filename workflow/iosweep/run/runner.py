"""One allocation: every repetition of every point that is left, one after the other, each stored when it is whole."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from iosweep.causes import SERVER_ERRORS, cause
from iosweep.errors import Busy, Conflict, Held, Refused, TargetError, TargetHangs, Unanswered, Unusable
from iosweep.files import safe_paths
from iosweep.files.documents import Damaged
from iosweep.jobs import licenses
from iosweep.jobs.submission import JOB_RESERVE_S, open_port
from iosweep.node import collect_facts, environment, node_facts, pinning, process
from iosweep.node.cpu_probe import controller, node_name
from iosweep.node.node_facts import NodeFacts
from iosweep.node.stopping import stoppable
from iosweep.plan import forecast
from iosweep.plan.forecast import repetition_cost
from iosweep.plan.launchers import Launcher, Mpiexec, candidates
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.programs import builds
from iosweep.programs.find import Program, UnusableTool, find, hash_of, sha256
from iosweep.programs.spack import built
from iosweep.programs.spack.built import Built, on_target
from iosweep.results import manifest, remaining, reopening
from iosweep.results.estimate import set_rate
from iosweep.results.store import Result, Store
from iosweep.run import preflight, target_check
from iosweep.run.campaign_directory import FRESH, Directory
from iosweep.run.datasets import FileSets
from iosweep.run.launching import Commands, lacking_pmi, needs_mpiexec
from iosweep.run.remote import Lost, RemoteAgents
from iosweep.run.repetition import Context, Judged, LeftBehind, Replaced, StoreFailed
from iosweep.run.repetition import measure as measure_repetition
from iosweep.run.target_check import Unfit
from iosweep.slurm import query
from iosweep.target import filesystem, foreign, identify, target_lock
from iosweep.target.agent import Agent
from iosweep.text import human_count
from iosweep.tools import tools
from iosweep.units import human_duration, human_size

#: Exit codes of `iosweep measure`. 0: every repetition has an outcome, failures included. After JOB_OVER and LOST
#: another job goes on from there.
REFUSED, HANGS, STORE_FAILED, OUT_OF_TIME, JOB_OVER, LOST, INTERRUPTED = 3, 4, 5, 6, 7, 8, 130

#: So long is removed what a repetition that did not end has written.
TO_TIDY_S = 10.0
#: What one node has made another one may see only when a cache of names is through (NFS: 30 s).
SEEN_S = 35.0
#: Below the results: where tools are started.
SCRATCH = "scratch"


class Refusal(Exception):
    """The allocation cannot go on; `code` is the exit code.

    `lasting`: nor can another job, until somebody mends it. `after`: the Slurm job that must end first. `nodes`: those
    at fault, which another job should not be given.
    """

    def __init__(
        self,
        code: int,
        message: str,
        lasting: bool = False,
        after: str | None = None,
        nodes: Sequence[str] = (),
    ):
        self.code, self.lasting, self.after, self.nodes = code, lasting, after, tuple(nodes)
        super().__init__(message)


class _Trimmed(Exception):
    """limits.time is spent, and what is left is to be missing. The message is the reason."""


class Watcher(Protocol):
    """Who is told what happens (progress_bar.py)."""

    def begin(self, allocation: Allocation, repetitions: int, cost_s: float) -> None: ...
    def say(self, text: str) -> None: ...
    def finished(self, result: Result, judged: Mapping[str, Judged], cost_s: float) -> None: ...
    def more(self, repetitions: int, cost_s: float) -> None: ...


def measure(
    plan: Plan,
    name: str,
    results: Path,
    manifest_file: Path,
    launcher: Launcher,
    watcher: Watcher,
    only: str | None,
    works_for: Sequence[int] = (),
    job: query.Job | None = None,
    tools_file: Path | None = None,
) -> None:
    """Measure what is left of an allocation, then write its manifest.

    `works_for`: processes whose end ends the measurement. `job`: the Slurm job that we are in, on its first node.
    `tools_file`: the tools.json of those that Spack has built; without it they are looked for on PATH.
    Raises Refusal where it cannot go on, Stopped after a signal; what was measured until then is stored.
    """
    allocation = next(a for a in plan.allocations if a.name == name)
    store = Store(results)
    try:
        tools_built = built.read(tools_file, copied=True) if tools_file else None
    except Unusable as error:
        raise Refusal(REFUSED, str(error)) from None
    if tools_file and not tools_built:
        raise Refusal(REFUSED, f"{tools_file}, which says what was built, is not there")
    if wrong := open_port(allocation.points, launcher, os.geteuid()):
        raise Refusal(REFUSED, wrong, lasting=True)
    process.adopt_orphans()
    lacking = environment.lacking(os.environ, plan.variables)
    environment.reduce(plan.variables)
    node_facts.keep_hwloc_still()
    # Tools are started elsewhere: a relative directory on PATH would be another one there.
    os.environ["PATH"] = os.pathsep.join(str(Path(directory).absolute()) for directory in os.get_exec_path())
    with _named(plan, job), stoppable(works_for), Agent(plan.target["deadline"]) as agent:
        with (
            store.locked(job.id if job else None, query.lives) as note,
            _agents(plan, allocation, job) as remote,
        ):
            for line in [*([note] if note else []), *lacking]:
                watcher.say(f"note: {line}")
            try:
                _measure(plan, allocation, store, agent, launcher, watcher, only, job, remote, tools_built)
            finally:
                with contextlib.suppress(OSError), safe_paths.folder(store.path) as place:
                    place.remove_tree(SCRATCH)
        store.set_refusal(allocation.name, None)
        manifest.write(manifest_file, allocation, store)


def slurm_job() -> query.Job:
    """The Slurm job that we are in. Raises Refusal."""
    id = os.environ.get("SLURM_JOB_ID")
    if not id:
        raise Refusal(REFUSED, "this is no Slurm job (SLURM_JOB_ID is not set), as the profile says (scheduler: slurm)")
    query.take_over()
    query.forget_options()
    try:
        found = query.job(id)
    except Unanswered as error:
        raise Refusal(REFUSED, str(error)) from None
    if found is None or not found.hosts:
        raise Refusal(REFUSED, f"Slurm does not know the nodes of job {id}")
    return found


@contextmanager
def _agents(plan: Plan, allocation: Allocation, job: query.Job | None) -> Iterator[RemoteAgents | None]:
    """The agents of the job's nodes; None without a job."""
    if job and len(job.hosts) < allocation.nodes:
        have = human_count(len(job.hosts), "node")
        raise Refusal(REFUSED, f"job {job.id} has {have}, and {allocation.nodes} are needed", lasting=True)
    if job is None:
        yield None
    else:
        with RemoteAgents(job.id, job.hosts, plan.target["deadline"]) as remote:
            yield remote


@contextmanager
def _named(plan: Plan, job: query.Job | None) -> Iterator[None]:
    """What ends an allocation, with its exit code, and in a job with the node that it happened on."""
    first = job.hosts[:1] if job else ()
    try:
        yield
    except Held as error:
        raise Refusal(REFUSED, f"campaign {plan.campaign} {error}", after=error.job) from None
    except Unfit as error:
        raise Refusal(HANGS if error.hangs else REFUSED, str(error), error.lasting, nodes=error.nodes) from None
    except TargetHangs as error:
        where = f"on {first[0]}: " if first and not error.nodes else ""
        raise Refusal(HANGS, f"{where}{error}", nodes=error.nodes or first) from None
    except LeftBehind as error:
        raise Refusal(HANGS, str(error)) from None
    except StoreFailed as error:
        raise Refusal(STORE_FAILED, str(error), lasting=True) from None
    except Lost as error:
        raise Refusal(LOST, f"{error}; what was measured is stored, and another job goes on from there") from None
    except Unanswered as error:
        raise Refusal(REFUSED, str(error)) from None
    except TargetError as error:
        why, nodes = cause(str(error)), (error.node,) if error.node else first
        said = f"{why.text}: {error.strerror}" if why else str(error.strerror)
        where = f"on {first[0]}: " if first and not error.node else ""
        bad = nodes if error.errno in SERVER_ERRORS else ()
        raise Refusal(REFUSED, f"{where}{said}", nodes=bad) from None
    except Busy as error:
        raise Refusal(REFUSED, str(error), after=error.job) from None
    except Replaced as error:
        raise Refusal(REFUSED, str(error)) from None
    except Refused as error:
        raise Refusal(REFUSED, str(error), error.lasting) from None
    except Unusable as error:
        raise Refusal(REFUSED, str(error), lasting=True) from None
    except OSError as error:  # not the target's, which are TargetErrors
        raise Refusal(STORE_FAILED, cannot_be_written(error), lasting=True) from None


def cannot_be_written(error: OSError) -> str:
    """A sentence on an error of the disk that the results are on."""
    return (
        f"the results ({error.filename or 'on a disk of their own'}) cannot be written: {error.strerror or error};"
        " what was stored before is on disk, and the next run goes on from there"
    )


def _measure(
    plan: Plan,
    allocation: Allocation,
    store: Store,
    agent: Agent,
    launcher: Launcher,
    watcher: Watcher,
    only: str | None,
    job: query.Job | None,
    remote: RemoteAgents | None,
    tools_built: Built | None,
) -> None:
    search = tools_built.search if tools_built else None
    trimmed = {
        point: record
        for point, record in store.missing().items()
        if "time_s" in record["needs"] and remaining.lacking(record, remaining.Here(), plan)
    }
    found, hydra = _programs(allocation, store, agent, launcher, watcher, search)
    for point in trimmed.keys() & {p.id for p in allocation.points} - store.missing().keys():
        store.set_missing(point, **trimmed[point])  # still out of time, though nothing else is lacking
    if tools_built and (other := [p.path for t, p in found.items() if p.sha256 != tools_built.hashes().get(t)]):
        raise Refusal(
            REFUSED,
            f"{other[0]} is not the file that {tools_built.file} says; remove {tools_built.file}, and the next run"
            " verifies the tools anew",
            lasting=True,
        )
    here = remaining.Here({t: p.sha256 for t, p in found.items()}, launcher, mpiexec=candidates(search))
    done = store.results()
    missing = store.missing()
    for line in store.named():
        watcher.say(f"note: {line}")
    if not remaining.left(plan, done, missing, here, only).get(allocation.name):
        with contextlib.suppress(TargetHangs, TargetError, Refused, Busy, Unusable):
            _finish(plan, store, agent, here, watcher, job)  # what is measured already needs no target
        return
    facts = _target(plan, agent, remote)
    # not the fsid: of NFS, and of XFS on a device mapper, it may be another after each mount
    kept = Directory(plan, store, agent)
    own_name = filesystem.known_as(facts, kept.seen_as, kept.is_there())
    here = replace(here, target={k: facts[k] for k in ("source", "fstype", "fsid")} | {"volume": own_name})
    on_results_disk = facts["device"] == results_device(store.path)
    if facts["device"] == Path("/").stat().st_dev:
        _spare_root(plan, done, here.target or facts)
        if not on_results_disk:
            watcher.say("note: the target is on the root file system")
    if tools_built:
        _spare_tools(facts, tools_built, agent, plan, job, watcher)
    if on_results_disk:
        watcher.say("note: the results are on the file system under test")
    lock, identity = plan.target["lock"], target_lock.identity(facts)
    if lock and target_lock.identity(_identified(agent, "target.lock", lock)) == identity:
        raise Refusal(
            REFUSED, f"target.lock {lock} is on the file system under test; name a directory elsewhere", lasting=True
        )
    with target_lock.hold(lock, identity, _owner(plan, store, job)) as exclusion:
        exclusion = licenses.exclusion(job.licences, exclusion) if job else exclusion
        for note in (exclusion.note, None if exclusion.now()["enforced"] else exclusion.now()["evidence"]):
            if note:
                watcher.say(f"note: {note}")
        session = _Session(plan, allocation, store, agent, watcher, only, here, done, job, tools_built)
        commands = Commands(agent, launcher, store.path / SCRATCH, hydra, found, job.id if job else None, remote)
        session.begin(facts, found, commands, exclusion)
        before = store.set_aside()
        try:
            session.measure()
        finally:
            for line in store.again(before):
                watcher.say(f"note: {line}")


def _target(plan: Plan, agent: Agent, remote: RemoteAgents | None) -> dict[str, Any]:
    """Which file system the target is on, of the type that target.type asks for. Raises Refusal, Unfit."""
    directory, wanted = plan.target["directory"], plan.target.get("type")
    facts: dict[str, Any] = {}
    refused: Refused | None = None
    wrong = ""
    try:
        facts = _identified(agent, "the target", directory)
    except Refused as error:
        refused = error
    else:
        if not wanted or identify.is_type(facts["fstype"], wanted):
            return facts
        wrong = f"target.type: {identify.other_type(wanted, directory, facts)}"
    if remote:  # another job may be given other nodes, unless no node of this one has the target
        answers: dict[str, target_check.Answer] = {}
        for host, answer in remote.answers("identify", directory).items():
            if isinstance(answer, Exception):
                answers[host] = answer
            elif wanted and not identify.is_type(answer["fstype"], wanted):
                answers[host] = f"target.type: {identify.other_type(wanted, directory, answer)}"
            else:
                answers[host] = None
        if unfit := target_check.unfit(answers):
            raise unfit
    raise refused or Refusal(REFUSED, wrong, lasting=True)


def _spare_tools(
    facts: Mapping[str, Any], tools_built: Built, agent: Agent, plan: Plan, job: query.Job | None, watcher: Watcher
) -> None:
    """See that the tools are not on the file system under test: the login node may not have seen that."""
    directory = tools_built.file.absolute().parent.parent
    there = _identified(agent, "tools.directory", str(directory))
    if wrong := on_target(facts, there, directory, job is not None, plan.campaign):
        refused, sentence = wrong
        if refused:
            raise Refusal(REFUSED, sentence, lasting=True)
        watcher.say(f"note: {sentence}")


def _spent(plan: Plan, store: Store, watcher: Watcher) -> Mapping[str, Any]:
    """What limits have counted in the runs before. Raises Refusal where that is lost, and there are limits."""
    try:
        return store.required("", "spent") or {}
    except Damaged as error:
        if plan.limits["time"] is not None or plan.limits["bytes_written"] is not None:
            raise Refusal(REFUSED, f"{error}: {reopening.UNKNOWN}", lasting=True) from None
        watcher.say(f"note: {error}; it counts from 0 again")
        return {}


def _spare_root(plan: Plan, done: Mapping[str, Mapping[int, Result]], facts: Mapping[str, Any]) -> None:
    """Where a file system is not mounted, its mount point is a directory of the root file system: refuse that."""
    directory = plan.target["directory"]
    found = [result.target for repetitions in done.values() for result in repetitions.values()]
    before = {filesystem.volume(t): (t["source"], t["fstype"]) for t in found if t["directory"] == directory}
    if before and filesystem.volume(facts) not in before:
        source, fstype = min(before.values())
        raise Refusal(
            REFUSED,
            f"the target {directory} is on the root file system now, and was on {source} ({fstype}) when it was"
            " measured; is that mounted? (If this is meant, take another campaign name.)",
        )


def _identified(agent: Agent, what: str, directory: str) -> dict[str, Any]:
    """Which file system a directory is on: target.identify, whose sentences are those of the target."""
    try:
        facts: dict[str, Any] = agent.call("identify", directory)
        return facts
    except Refused as error:
        raise Refused(str(error).replace("the target", what, 1)) from None


class _Session:
    """What is left of an allocation while it is measured."""

    def __init__(
        self,
        plan: Plan,
        allocation: Allocation,
        store: Store,
        agent: Agent,
        watcher: Watcher,
        only: str | None,
        here: remaining.Here,
        done: dict[str, dict[int, Result]],
        job: query.Job | None,
        tools_built: Built | None,
    ):
        self._tools_built = tools_built
        self._plan, self._allocation, self._store, self._agent = plan, allocation, store, agent
        self._watcher, self._only, self._here = watcher, only, here
        self._points = {p.id: p for p in allocation.points}
        costs = {id: repetition_cost(p, plan.target["node_bandwidth"]) for id, p in self._points.items()}
        self._cost_s = {id: cost.time_s for id, cost in costs.items()}
        self._cost_bytes = {id: cost.bytes_written for id, cost in costs.items()}
        self._done = done
        self._job = job
        self._expected_s = self._took_s = 0.0  # what the repetitions so far were to take, and took
        self._volumes: list[str] = []  # names of the target on the nodes
        self._began = time.monotonic()
        spent = _spent(plan, store, watcher)
        self._spent_before_s = float(spent.get("spent_s", 0.0))
        self._wrote_before = int(spent.get("bytes_written", 0))

    def begin(
        self,
        facts: dict[str, Any],
        found: Mapping[str, Program],
        commands: Commands,
        exclusion: target_lock.Exclusion,
    ) -> None:
        """Make the campaign's directory ours, and note what the node is like."""
        plan, store = self._plan, self._store
        nodes = self._nodes(facts, found, commands)  # before anything is written
        pinned = self._pinned(nodes, commands.remote)
        commands = replace(commands, pinning=pinned)
        todo = self._left()
        for note in (
            _other_builds(self._done, self._points, todo, found),
            _other_target(plan, self._done, todo, self._here),
        ):
            if note:
                self._watcher.say(note)
        self._watcher.begin(
            self._allocation, sum(map(len, todo.values())), sum(self._cost_s[p] * len(n) for p, n in todo.items())
        )
        directory = Directory(plan, store, self._agent)
        if identify.holds(facts, directory.path, store.path):
            raise Refusal(
                REFUSED, f"the results {store.path} are inside the campaign's directory {directory.path}", lasting=True
            )
        # again: a relative one is another directory elsewhere
        for tool in sorted({self._points[p].tool for p in todo}):
            if wrong := tools()[tool].check_directory(directory.path):
                raise Refusal(REFUSED, f"{tool} cannot work in {directory.path}: it {wrong}", lasting=True)
        directory.claim(
            facts["fstype"],
            target_lock.identity(facts),
            filesystem.volume(self._here.target or facts),
            forecast.of(plan, {self._allocation.name: {point: len(n) for point, n in todo.items()}}),
        )
        if commands.remote:
            _shared(directory, commands.remote)
        target_check.look(directory, commands.remote)
        directory.seen([filesystem.volume(self._here.target or facts), filesystem.volume(facts), *self._volumes])
        for known in nodes.values():
            store.put("nodes", node_facts.key(known), known)
        self._context = Context(
            plan,
            store,
            self._agent,
            directory,
            FileSets(
                self._agent,
                directory,
                store,
                [self._points[p] for p in todo],
                commands.run,
                self._room_for_set,
                lambda hosts: target_check.before_tools(directory, commands.remote, hosts),
            ),
            commands,
            found,
            nodes,
            {**(self._here.target or {}), "mount": facts["mount"]},
            exclusion.now,
            pinned,
            self._keep_build(found, commands.mpiexec),
            before_again=self._before_again,
        )

    def _keep_build(self, found: Mapping[str, Program], hydra: Mpiexec | None) -> str:
        """Keep with the results what they are measured with; returns the key of its document."""
        document = self._tools_built.document if self._tools_built else builds.of_path(found, hydra)
        key = builds.key(document)
        self._store.put("builds", key, document)
        if self._tools_built:
            for name in ("spack.yaml", "spack.lock"):
                copy = f"builds/{key}.{name}"
                if not (self._store.path / copy).exists():
                    safe_paths.write(
                        self._store.path, copy, (self._tools_built.file.parent / "environment" / name).read_bytes()
                    )
        return key

    def _pinned(self, nodes: Mapping[str, NodeFacts], remote: RemoteAgents | None) -> pinning.Pinning:
        """Which CPUs ranks are bound to; we keep to the usable ones ourselves. Points with more ranks are missing.

        Raises Refusal.
        """
        settings = self._plan.cpus
        try:
            decided = pinning.decide(settings, nodes, slurm=remote is not None)
        except Conflict as error:
            raise Refusal(REFUSED, f"pinning: {error}", lasting=error.lasting) from None
        for note in decided.notes:
            self._watcher.say(note)
        if decided.mode in pinning.BINDS:
            if remote:
                if len(set(decided.usable_of.values())) == 1:  # said once, however many there are
                    remote.call("keep_to", sorted(decided.usable))
                else:
                    remote.call("keep_to", each={host: [sorted(cpus)] for host, cpus in decided.usable_of.items()})
            here = sorted(next(iter(decided.usable_of.values())))
            self._agent.call("keep_to", here)
            process.keep_to(here)
        said: dict[str, None] = {}
        for point in (p for p in self._points.values() if tools()[p.tool].mpi):
            if reason := decided.lacks(point.tasks // point.nodes):
                self._store.set_missing(point.id, {"cpus": settings}, reason)
                said[reason] = None
        for reason in said:
            self._watcher.say(f"missing: {reason}")
        return decided

    def _nodes(
        self, facts: Mapping[str, Any], found: Mapping[str, Program], commands: Commands
    ) -> dict[str, NodeFacts]:
        """host -> what the node is like. Raises Refusal where one does not see what the first one sees."""
        programs = {name: (program.path, program.version) for name, program in found.items()}
        if hydra := commands.mpiexec:
            programs["mpiexec"] = (hydra.path, hydra.version)
        directory = self._plan.target["directory"]
        kept = self._plan.cpus["reserved"]
        if (remote := commands.remote) is None:
            # outside of a job Slurm's commands may wait for a name server
            told = controller([node_name()], query.ask) if "SLURM_JOB_ID" in os.environ else None
            space = self._agent.call("space", directory)
            known = collect_facts.facts(facts, space, programs, reserved_cpus=kept, controller=told)
            return {known.host: known}
        hashes = {name: program.sha256 for name, program in found.items()}
        # asked here for all nodes: a thousand of them at once are too much for a controller
        seen = remote.answers("facts", directory, programs, kept, controller(remote.hosts, query.ask))
        bad = {host: answer if isinstance(answer, Exception) else None for host, answer in seen.items()}
        if found_unfit := target_check.unfit(bad):
            raise found_unfit
        for host, told in seen.items():
            if wrong := preflight.differs(facts, told["target"], hashes, told["builds"]):
                if self._tools_built and told["builds"] != hashes:
                    wrong += f"; is tools.directory ({self._tools_built.file.parent.parent}) mounted there?"
                # another job may be given other nodes
                raise Refusal(REFUSED, f"{host} is not as {remote.hosts[0]}: {wrong}", nodes=[host])
        self._volumes = sorted({filesystem.volume(told["target"]) for told in seen.values()})
        ours = str((self._store.path / "plans" / f"{self._plan.digest}.json").absolute())
        if away := [host for host, theirs in remote.call("hash", ours).items() if theirs != hash_of(ours)]:
            raise Refusal(
                REFUSED,
                f"{', '.join(away)}: the results {self._store.path.absolute()} are not there; every node must see the"
                " directory that snakemake runs in",
                nodes=away,
            )
        return {host: msgspec.convert(told["node"] | {"host": host}, NodeFacts) for host, told in seen.items()}

    def measure(self) -> None:
        """All that is left, repetitions outermost, so that a drift of the system spreads over all points."""
        todo = self._left()
        while todo:
            number = min(n[0] for n in todo.values())
            order = sorted(p for p, n in todo.items() if n[0] == number)
            random.Random(f"{self._plan.seed}:{number}").shuffle(order)
            try:
                for point in order:
                    self._repetition(point, number)
            except _Trimmed as error:
                self._leave_out(str(error))
                break
            expected, todo = todo, self._left()
            news = {p: len(n) - len(expected.get(p, [])) + (p in order) for p, n in todo.items()}
            if again := sum(self._disturbed(p, n[0]) for p, n in todo.items()):
                self._watcher.say(f"{human_count(again, 'repetition')} disturbed, tried again")
            self._watcher.more(sum(news.values()), sum(self._cost_s[p] * n for p, n in news.items()))
        _tidy_up(self._plan, self._store, self._here, self._context.directory, self._watcher)

    def _leave_out(self, reason: str) -> None:
        """Make what is left missing, because limits.time is spent (limits.over_time: trim)."""
        todo = self._left()
        for point in todo:
            self._store.set_missing(point, {"time_s": self._plan.limits["time"]}, reason)
        self._watcher.say(f"missing: {human_count(sum(map(len, todo.values())), 'repetition')}: {reason}")

    def _repetition(self, point: str, number: int) -> None:
        cost_s, began = self._cost_s[point], time.monotonic() - self._context.sets.prepared_s
        self._in_time(cost_s)
        self._in_bytes(self._cost_bytes[point], "repetition")
        try:
            result, judged = measure_repetition(
                self._context, self._points[point], number, self._disturbed(point, number)
            )
        except (LeftBehind, TargetHangs):
            with contextlib.suppress(OSError):
                self._note_spent()
            raise
        except BaseException:  # a signal, too: nothing of a repetition that did not end stays on the target
            self._agent.hurry()
            with contextlib.suppress(OSError):
                self._note_spent()
            with contextlib.suppress(TargetHangs, TargetError, Refused):
                self._context.directory.remove(FRESH, TO_TIDY_S)  # the next run removes the rest
            if stays := self._context.directory.present_bytes:
                self._watcher.say(
                    f"note: {human_size(stays)} stay on the target for the next run;"
                    f" `iosweep clean {self._plan.campaign}` removes them"
                )
            raise
        self._expected_s, self._took_s = self._expected_s + cost_s, self._took_s + self._since(began)
        self._note_spent()
        self._done[point] = self._store.results_of(point)  # a second try does not always count
        self._watcher.finished(result, judged, self._cost_s[point])

    def _before_again(self, point: str) -> None:
        """Stop before a repetition is tried again that the job, or limits.bytes_written, leaves no room for."""
        self._watcher.say(f"a server of the target failed {point}, which is tried again at once")
        self._job_lasts("second try", self._cost_s[point])
        self._in_bytes(self._cost_bytes[point], "try")

    def _left(self) -> dict[str, list[int]]:
        found = remaining.left(self._plan, self._done, self._store.missing(), self._here, self._only)
        return found.get(self._allocation.name, {})

    def _disturbed(self, point: str, number: int) -> bool:
        """Whether there is a result, but another try may cure it. (One of another tool build does not matter.)"""
        result = self._done.get(point, {}).get(number)
        return bool(result and result.retry and remaining.current(result, self._plan, self._points[point], self._here))

    def _note_spent(self) -> None:
        """Keep what `limits` goes by: results may be superseded, and a run may end without one."""
        self._store.put("", "spent", {"spent_s": round(self._spent_s(), 3), "bytes_written": self._wrote()})

    def _wrote(self) -> int:
        """Bytes that the campaign has written to the target, in all its runs."""
        measured = self._context.written_bytes + self._context.in_flight_bytes
        return self._wrote_before + self._context.sets.prepared_bytes + measured

    def _spent_s(self) -> float:
        """Time that the campaign has taken, in all its runs."""
        return self._spent_before_s + time.monotonic() - self._began

    def _since(self, began: float) -> float:
        """Time that repetitions took; preparing data sets is not theirs, and would spoil the pace."""
        return time.monotonic() - self._context.sets.prepared_s - began

    def _job_lasts(self, what: str, time_s: float) -> None:
        """Stop before something that the job leaves no time for."""
        if self._job and self._job.ends is not None:
            rest_s = self._job.ends - time.time()
            if rest_s - JOB_RESERVE_S < time_s:
                raise Refusal(
                    JOB_OVER,
                    f"job {self._job.id} ends in {human_duration(max(0.0, rest_s))}, too soon for the {what}"
                    f" ({human_duration(time_s)}); another job goes on from there",
                )

    def _room_for_set(self, size: int) -> None:
        """Stop before a data set that limits.bytes_written leaves no room for.

        Leave a data set to the next job where this one would be over before it is written: it would be written anew.

        A job that has done nothing yet writes it: the next one may have no more time.
        """
        self._in_bytes(size, "data set")
        if self._took_s or self._context.sets.prepared_s:
            rate = set_rate(self._store.documents("sets"), self._plan.target["node_bandwidth"])
            self._job_lasts("next data set", size / rate)

    def _in_bytes(self, size: int, what: str) -> None:
        """Stop before something that limits.bytes_written leaves no room for.

        A tool may write more than its forecast, which assumes a bandwidth; then the next repetition is refused.
        """
        limit, wrote = self._plan.limits["bytes_written"], self._wrote()
        if size and limit is not None and wrote + size > limit:
            raise Refusal(
                OUT_OF_TIME,
                f"limits.bytes_written {human_size(limit)} is spent: {human_size(wrote)} were written, and the next"
                f" {what} writes up to {human_size(size)}; raise it, and the next run goes on from there",
                lasting=True,
            )

    def _in_time(self, cost_s: float) -> None:
        """Stop before a repetition that the job, or limits.time, leaves no time for."""
        pace = max(1.0, self._took_s / self._expected_s) if self._expected_s else 1.0
        self._job_lasts("next repetition", cost_s * pace)
        limit = self._plan.limits["time"]
        spent = self._spent_s()
        if limit is not None and spent + cost_s > limit:
            if self._plan.limits.get("over_time") == "trim":
                raise _Trimmed(f"limits.time {human_duration(limit)} is spent (limits.over_time: trim)")
            raise Refusal(
                OUT_OF_TIME,
                f"limits.time {human_duration(limit)} is spent: {human_duration(spent)} were measured, and the next"
                f" repetition takes {human_duration(cost_s)}; raise it, and the next run goes on from there",
                lasting=True,
            )


def _other_builds(
    done: Mapping[str, Mapping[int, Result]],
    points: Mapping[str, Point],
    todo: Mapping[str, Sequence[int]],
    found: Mapping[str, Program],
) -> str | None:
    """Which results are measured again because their tool is another one now, in a sentence; None where none is."""
    stale = Counter(
        points[id].tool
        for id, numbers in todo.items()
        for number in numbers
        if (result := done.get(id, {}).get(number))
        and (program := found.get(points[id].tool))
        and result.tool_sha256 != program.sha256
    )
    many = ", ".join(f"{human_count(count, 'result')} of {tool}" for tool, count in sorted(stale.items()))
    return f"measured again, for they are of another build: {many}" if stale else None


def _other_target(
    plan: Plan,
    done: Mapping[str, Mapping[int, Result]],
    todo: Mapping[str, Sequence[int]],
    here: remaining.Here,
) -> str | None:
    """Which results are measured again because the target is another one now, in a sentence; None where none is."""
    stale: Counter[str] = Counter()
    for id, numbers in todo.items():
        for number in numbers:
            if (result := done.get(id, {}).get(number)) and remaining.elsewhere(result, plan, here):
                stale[_place(result.target["directory"], result.target)] += 1
    if not stale or here.target is None:
        return None
    before = ", ".join(f"{human_count(count, 'result')} of {place}" for place, count in sorted(stale.items()))
    now = _place(plan.target["directory"], here.target)
    return f"measured again, because the target is another one: {before}; the target is {now} now"


def _place(directory: str, facts: Mapping[str, Any]) -> str:
    """A target for a sentence: its directory, and the file system that it is on."""
    return f"{directory} on {facts.get('source')} ({facts.get('fstype')})"


def _shared(directory: Directory, remote: RemoteAgents) -> None:
    """See that every node sees our directory. Each node may have a file system of its own by the same name.

    Raises Refusal.
    """
    end = time.monotonic() + SEEN_S
    while True:
        answers = remote.answers("ours", directory.path, directory.uuid)
        away = [host for host, there in answers.items() if there is False]
        hangs = any(isinstance(answer, TargetHangs) for answer in answers.values())
        found = target_check.unfit(
            {h: None if a is True else a or f"{directory.path} is not there" for h, a in answers.items()}
        )
        if not found:
            return
        if hangs or (time.monotonic() > end and len(away) < sum(a is not True for a in answers.values())):
            raise found
        if time.monotonic() > end:
            raise Refusal(
                REFUSED,
                f"{', '.join(away)}: {directory.path} is not there, which {remote.hosts[0]} has made; the target is on"
                " a file system of the same name there, and not on the same one: is it mounted, and shared by all"
                " nodes?",
                lasting=len(away) == len(remote.hosts) - 1,  # else another job may be given other nodes
                nodes=away if len(away) < len(remote.hosts) - 1 else (),
            )
        time.sleep(0.5)


def _finish(
    plan: Plan, store: Store, agent: Agent, here: remaining.Here, watcher: Watcher, job: query.Job | None
) -> None:
    """Tidy up where a run before this one was ended before it could."""
    directory = Directory(plan, store, agent)
    if not directory.left_over:
        return
    facts = agent.call("identify", plan.target["directory"])
    directory.found_on(target_lock.identity(facts))
    with target_lock.hold(plan.target["lock"], target_lock.identity(facts), _owner(plan, store, job)):
        _tidy_up(plan, store, here, directory, watcher)


def _owner(plan: Plan, store: Store, job: query.Job | None) -> dict[str, str]:
    """Who measures, as others are told."""
    found = {"campaign": plan.campaign, "results": str(store.path.absolute())}
    return found | {"job": job.id} if job else found


def _tidy_up(plan: Plan, store: Store, here: remaining.Here, directory: Directory, watcher: Watcher) -> None:
    """What target.keep says, once nothing of the whole campaign is left to measure."""
    keep = plan.target["keep"]
    if keep == "all" or not directory.left_over or remaining.left(plan, store.results(), store.missing(), here):
        return
    gone = directory.tidy_up()
    for wrong in gone["wrong"]:
        watcher.say(f"note: not removed: {wrong}")
    if gone["foreign"]["count"]:
        watcher.say(
            f"note: {directory.path}: {foreign.sentence(**gone['foreign'])}; the directory stays with its marker"
        )
    if gone["bytes"]:
        what = f"{human_count(gone['files'], 'file')}, {human_size(gone['bytes'])}"
        watcher.say(f"removed from the target: {what} (target.keep: {keep})")


def results_device(results: Path) -> int:
    """Device that the results are, or will be, on."""
    return next(p for p in (results.absolute(), *results.absolute().parents) if p.exists()).stat().st_dev


def _programs(
    allocation: Allocation, store: Store, agent: Agent, launcher: Launcher, watcher: Watcher, search: str | None
) -> tuple[dict[str, Program], Mpiexec | None]:
    """The tools that are here, and what starts their ranks. Points that lack something are recorded as missing.

    `search`: directories in place of PATH.
    """
    asked = {name: find(tools()[name], agent.run, search) for name in sorted({p.tool for p in allocation.points})}
    found = {name: program for name, program in asked.items() if isinstance(program, Program)}
    mpi_tools = [tools()[name] for name in found]
    hydra, pmi = needs_mpiexec(launcher, mpi_tools, search), lacking_pmi(launcher, mpi_tools)
    said: dict[str, None] = {}
    for point in allocation.points:
        program, reason = asked[point.tool], ""
        needs: dict[str, Any] | None = None
        if lacks := launcher.lacks(point):
            needs, reason = lacks
        elif isinstance(program, UnusableTool):
            needs, reason = (
                {"tool": point.tool, "sha256": sha256(point.tool, search) if program.lasting else None},
                program.reason,
            )
        elif isinstance(hydra, str) and tools()[point.tool].mpi:
            needs, reason = {"mpiexec": candidates(search)}, f"the launcher {launcher.name} cannot be used: {hydra}"
        elif pmi and tools()[point.tool].mpi:
            needs, reason = {"launcher": launcher.name}, pmi
        store.set_missing(point.id, needs, reason)
        if needs:
            said[reason] = None
    for reason in said:
        watcher.say(f"missing: {reason}")
    return found, None if isinstance(hydra, str) else hydra
