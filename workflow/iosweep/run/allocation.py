"""One allocation: all its repetitions that are left, one after the other, each stored when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from iosweep.errors import (
    SERVER_ERRORS,
    AllocationError,
    Busy,
    Conflict,
    ExitCode,
    LeftBehind,
    MeasuredElsewhere,
    Refused,
    TargetError,
    TargetHangs,
    Unanswered,
    Unusable,
)
from iosweep.judge import remaining
from iosweep.node import environment, process
from iosweep.node.facts import node_key
from iosweep.node.process import stoppable
from iosweep.plan import forecast
from iosweep.programs import spack
from iosweep.programs.programs import candidates
from iosweep.programs.spack import Built
from iosweep.run import nodes, target_check
from iosweep.run.agents import RemoteAgents
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.datasets import DataSets
from iosweep.run.launch import Commands, remove_scratch
from iosweep.run.nodes import Binaries
from iosweep.run.repetition import Context
from iosweep.run.repetition import measure as measure_repetition
from iosweep.run.work import Request, Setup, Work
from iosweep.slurm import query
from iosweep.store.record import Exclusive, Missing, Needs
from iosweep.store.store import Store, write_manifest
from iosweep.target import identify, lock
from iosweep.target.agent import Agent
from iosweep.target.directory import FRESH
from iosweep.target.identify import FileSystem
from iosweep.text import human_count
from iosweep.tools import tools
from iosweep.units import human_size

#: Below the results: the working directory of tools.
SCRATCH = "scratch"


def measure(request: Request) -> None:
    """Measure what is left of an allocation, then write its manifest.

    Raises AllocationError where it cannot continue, Stopped after a signal; what was measured until then is stored.
    """
    plan, job = request.plan, request.job
    store = Store(request.results)
    process.adopt_orphans()
    lacking = environment.lacking(os.environ, plan.variables)
    environment.reduce(plan.variables)
    environment.keep_hwloc_still()
    # tools are started in another directory, where relative directories on PATH would be other ones
    os.environ["PATH"] = os.pathsep.join(str(Path(directory).absolute()) for directory in os.get_exec_path())
    with ending(job), stoppable(request.works_for), Agent(plan.target.deadline) as agent:
        built = _built(request.tools_file)
        with (
            store.locked(job.id if job else "", request.name) as unlocked,
            _remote_agents(request) as remote,
        ):
            setup = Setup(request, store, agent, remote, built)
            setup.note(unlocked, *lacking)
            try:
                _measure(setup)
            finally:
                with contextlib.suppress(OSError):
                    remove_scratch(store.path / SCRATCH)
        store.set_refusal(request.name, None)
        write_manifest(request.manifest, request.allocation, store)


def _built(file: Path | None) -> Built | None:
    """The tools that Spack has built; None if the request names none. Raises Unusable, Refused."""
    if file is None:
        return None
    if not (found := spack.read_built(file)):
        raise Refused(f"{file} does not exist; is tools.directory mounted here?", lasting=False)
    return found


def slurm_job() -> query.Job:
    """The Slurm job that we run in. Raises AllocationError."""
    id = os.environ.get("SLURM_JOB_ID")
    if not id:
        raise AllocationError(
            ExitCode.REFUSED, "the profile says scheduler: slurm, but this is not a Slurm job (SLURM_JOB_ID is not set)"
        )
    query.forget_options()
    try:
        found = query.job(id)
    except Unanswered as error:
        raise AllocationError(ExitCode.REFUSED, str(error)) from None
    if found is None or not found.hosts:
        raise AllocationError(ExitCode.REFUSED, f"Slurm does not know the nodes of job {id}")
    return found


def _remote_agents(request: Request) -> AbstractContextManager[RemoteAgents | None]:
    """The agents of the job's nodes; None without a job. Raises Refused."""
    job, wanted = request.job, request.allocation.nodes
    if job is None:
        return nullcontext()
    if len(job.hosts) < wanted:
        raise Refused(f"job {job.id} has {human_count(len(job.hosts), 'node')}, and {wanted} are needed")
    return RemoteAgents(job.id, job.hosts, request.plan.target.deadline)


def _measure(setup: Setup) -> None:
    store = setup.store
    found = nodes.find_programs(setup)
    launcher = setup.request.launcher
    here = remaining.LocalMachine(found.hashes(), launcher, mpiexec=candidates(setup.search, launcher.manager))
    work = Work(setup, here, store.repetitions())
    setup.note(*store.damage())
    if not (rest := work.rest()).left:
        if rest.unneeded:  # the jobs before this one have found that out
            setup.note(f"nothing to measure: {'; '.join(dict.fromkeys(rest.unneeded.values()))}")
        with contextlib.suppress(TargetHangs, TargetError, Refused, Busy, Unusable):
            _tidy_up_later(setup, here)  # results that are complete do not need the target
        return
    place = target_check.find(setup, work.done)
    work.here = replace(here, target=place)
    with lock.exclude(setup.plan.target.lock, place, _owner(setup)) as exclusion:
        exclusion = lock.by_license(setup.job.licenses, exclusion) if setup.job else exclusion
        setup.note(None if exclusion.enforced else exclusion.evidence)
        budget = Budget(setup.plan, store, setup.job, setup.note)
        context = prepare(work, found, place, exclusion, budget)
        store.set_refusal(setup.request.name, None)  # of an earlier run: were we killed, it would still be shown
        Loop(work, context, budget).measure()
        budget.keep()
        _tidy_up(setup, work.here, context.directory)


def _tidy_up_later(setup: Setup, here: remaining.LocalMachine) -> None:
    """Tidy up after an earlier run that ended before it could."""
    directory = CampaignDirectory(setup.plan, setup.store, setup.agent)
    if not directory.left_over:
        return
    facts = setup.agent.call(identify.identify, setup.plan.target.directory)
    if wrong := directory.copied(facts):
        setup.note(f"not removed: {wrong}")
        return
    with lock.exclude(setup.plan.target.lock, facts, _owner(setup)):
        _tidy_up(setup, here, directory)


def _tidy_up(setup: Setup, here: remaining.LocalMachine, directory: CampaignDirectory) -> None:
    """Remove the campaign's directory, if nothing of the whole campaign is left to measure (target.keep: none)."""
    store = setup.store
    if setup.plan.target.keep == "data_sets" or not directory.left_over:
        return
    if remaining.find(setup.plan, store.repetitions(), store.missing(), here).left:
        return
    gone = directory.tidy_up()
    setup.note(*(f"not removed: {wrong}" for wrong in gone["wrong"]))
    if gone["bytes"]:
        what = f"{human_count(gone['files'], 'file')}, {human_size(gone['bytes'])}"
        setup.request.reporter.say(f"removed from the target: {what} (target.keep: none)")


def _owner(setup: Setup) -> lock.Owner:
    """The owner that the text of the lock names."""
    job = setup.job.id if setup.job else ""
    return lock.Owner(setup.plan.campaign, str(setup.store.path.absolute()), job, setup.allocation.name)


def prepare(work: Work, found: Binaries, target: FileSystem, exclusion: lock.Exclusion, budget: Budget) -> Context:
    """Make the campaign's directory ours, and keep what the nodes are like; returns what repetitions share.

    Nothing is written to the target before all nodes are known to fit.
    """
    setup = work.setup
    seen = nodes.inspect(setup, target, found)
    pinned = nodes.pin(setup, seen)
    commands = Commands(
        setup.agent,
        setup.request.launcher,
        setup.store.path / SCRATCH,
        found.mpiexec,
        found.programs,
        setup.job.id if setup.job else None,
        setup.remote,
        pinned,
    )
    if setup.remote:
        nodes.check_launcher(setup, commands, {work.points[point].tool for point in work.rest().left})
    todo, counts, _ = work.rest()
    for text in work.outdated(todo, found.programs):
        setup.request.reporter.say(text)
    setup.request.reporter.begin(setup.allocation, sum(counts.values()), work.seconds(counts))
    directory = _claim(work, target, counts)
    directory.see_shared()
    directory.see_usable()
    for known in seen.values():
        setup.store.put("nodes", node_key(known), known)
    sets = DataSets(
        setup.agent,
        directory,
        setup.store,
        [work.points[point] for point in counts],
        commands.run,
        budget,
    )
    return Context(
        plan=setup.plan,
        store=setup.store,
        agent=setup.agent,
        directory=directory,
        sets=sets,
        commands=commands,
        programs=found.programs,
        nodes=seen,
        target=directory.recorded(target),
        exclusive=Exclusive(exclusion.enforced, exclusion.evidence),
        pinning=pinned,
        build=nodes.keep_build(setup, found),
        spent=budget.spent,
        session=commands.job or datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _claim(work: Work, target: FileSystem, counts: Mapping[str, int]) -> CampaignDirectory:
    """Make the campaign's directory on the target, or see that it is ours. Raises Refused."""
    setup = work.setup
    directory = CampaignDirectory(setup.plan, setup.store, setup.agent, setup.remote)
    if identify.contains_results(target, directory.path, setup.store.path):
        raise Refused(f"the results {setup.store.path} are inside the campaign's directory {directory.path}")
    if wrong := directory.copied(target):
        raise Refused(wrong)
    # checked when the plan was made, too; but a relative path is another directory here
    for tool in sorted({work.points[point].tool for point in counts}):
        if wrong := tools()[tool].check_directory(directory.path):
            raise Refused(f"{tool} cannot work in {directory.path}: it {wrong}")
    peak = forecast.forecast_of(setup.plan, {setup.allocation.name: counts})
    directory.claim(target, peak)
    return directory


class Loop:
    """The repetitions of one allocation."""

    def __init__(self, work: Work, context: Context, budget: Budget):
        self._work, self._context, self._budget = work, context, budget
        self._setup, self._say = work.setup, work.setup.request.reporter.say

    def measure(self) -> None:
        """Measure all that is left, repetitions outermost, so that a drift of the system affects all points alike."""
        todo, expected, _ = self._work.rest()
        while todo:
            number = min(n[0] for n in todo.values())
            order = sorted(p for p, n in todo.items() if n[0] == number)
            random.Random(f"{self._setup.plan.seed}:{number}").shuffle(order)
            for point in order:
                if reason := self._budget.allow_repetition(point, self._work.costs[point]):
                    return self._leave_out(reason)
                self._repetition(point, number)
            before = expected
            todo, expected, _ = self._work.rest()
            changed = {p: expected.get(p, 0) - before.get(p, 0) + (p in order) for p in {*before, *expected}}
            if again := sum(self._work.disturbed(p, n[0]) for p, n in todo.items()):
                self._say(f"{human_count(again, 'repetition is', 'repetitions are')} repeated: another try may help")
            self._setup.request.reporter.more(sum(changed.values()), self._work.seconds(changed))

    def _leave_out(self, reason: str) -> None:
        """Record what is left as missing, because limits.time is spent (limits.over_time: trim)."""
        count = 0
        while (
            todo := self._work.rest().left
        ):  # ramps and the choice of best points do not wait for points that cannot be measured
            for point in todo:
                self._setup.store.set_missing(point, Missing(Needs(time_s=self._setup.plan.limits.time), reason))
            count += sum(map(len, todo.values()))
        self._setup.missing(f"{human_count(count, 'repetition')}: {reason}")

    def _repetition(self, point: str, number: int) -> None:
        work, budget = self._work, self._budget
        cost, began_s = work.costs[point], budget.clock_s()

        def before_second_try(why: str) -> None:
            self._say(f"{point} failed, and is tried again at once: {why}")
            budget.allow_second_try(cost)

        try:
            record = measure_repetition(
                self._context, work.points[point], number, work.disturbed(point, number), before_second_try
            )
        except BaseException as error:
            responds = not isinstance(error, LeftBehind | TargetHangs)
            if responds:
                self._setup.agent.hurry()
            with contextlib.suppress(OSError):
                budget.keep()
            if responds:  # also after a signal: the files of an interrupted repetition do not stay on the target
                self._clean_up()
            raise
        budget.finished(point, cost, began_s)
        if record.attempt == 1:
            work.done.setdefault(point, {})[number] = record.head()
        else:  # a second try does not always count
            work.done[point] = self._setup.store.repetitions_of(point)
        self._setup.request.reporter.finished(record, cost.time_s)

    def _clean_up(self) -> None:
        """Remove the files of an interrupted repetition; the next run removes what a kill leaves."""
        with contextlib.suppress(TargetHangs, TargetError, Refused):
            self._context.directory.remove(FRESH)
        if stays := self._context.directory.present_bytes:
            self._setup.note(
                f"{human_size(stays)} stay on the target for the next run;"
                f" `iosweep clean {self._setup.plan.campaign}` removes them"
            )


@contextmanager
def ending(job: query.Job | None) -> Iterator[None]:
    """Raise AllocationError for what ends an allocation; in a job, its message names the node where it happened."""
    first = job.hosts[:1] if job else ()
    try:
        yield
    except Busy as error:
        raise MeasuredElsewhere(ExitCode.REFUSED, str(error), after=error.job) from None
    except TargetHangs as error:
        where = f"on {first[0]}: " if first and not error.nodes else ""
        raise AllocationError(ExitCode.HANGS, f"{where}{error}", nodes=error.nodes or first) from None
    except TargetError as error:
        where = f"on {first[0]}: " if first and not error.node else ""
        nodes = ((error.node,) if error.node else first) if error.errno in SERVER_ERRORS else ()
        raise AllocationError(ExitCode.REFUSED, f"{where}{target_check.target_error(error)}", nodes=nodes) from None
    except Unanswered as error:
        raise AllocationError(ExitCode.REFUSED, str(error)) from None
    except Refused as error:
        raise AllocationError(ExitCode.REFUSED, str(error), lasting=error.lasting) from None
    except Conflict as error:
        raise AllocationError(ExitCode.REFUSED, f"pinning: {error}", lasting=error.lasting) from None
    except Unusable as error:
        raise AllocationError(ExitCode.REFUSED, str(error), lasting=True) from None
    except OSError as error:  # of the results' disk: errors of the target are TargetErrors
        raise AllocationError(ExitCode.STORE_FAILED, cannot_be_written(error), lasting=True) from None


def cannot_be_written(error: OSError) -> str:
    """A sentence on an error of the disk that the results are on."""
    room = ": make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return (
        f"the results ({error.filename or 'on a disk of their own'}) cannot be written: {error.strerror or error}"
        f"{room}; what was stored before is on disk, and the next run goes on from there"
    )
