"""One allocation: all its repetitions that are left, one after the other, each stored when it is complete."""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from iosweep.errors import AllocationError, Busy, ExitCode, Refused, TargetError, TargetHangs, Unanswered, Unusable
from iosweep.files import safe_paths
from iosweep.jobs.submission import open_port
from iosweep.node import environment, node_facts, process
from iosweep.node.stopping import stoppable
from iosweep.plan.launchers import candidates
from iosweep.programs import spack_environment
from iosweep.programs.spack_environment import Built
from iosweep.results import manifest, remaining
from iosweep.results.store import Store
from iosweep.run import binaries, target_check
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.loop import Loop
from iosweep.run.outcome import ending
from iosweep.run.prepare import SCRATCH, prepare
from iosweep.run.remote import RemoteAgents
from iosweep.run.request import Request, Setup
from iosweep.run.work import Work
from iosweep.slurm import query
from iosweep.target import identify, lock, removal
from iosweep.target.agent import Agent
from iosweep.text import human_count
from iosweep.units import human_size


def measure(request: Request) -> None:
    """Measure what is left of an allocation, then write its manifest.

    Raises AllocationError where it cannot continue, Stopped after a signal; what was measured until then is stored.
    """
    plan, job = request.plan, request.job
    store, tools = Store(request.results), _built(request.tools_file)
    if wrong := open_port(request.allocation.points, request.launcher, os.geteuid()):
        raise AllocationError(ExitCode.REFUSED, wrong, lasting=True)
    process.adopt_orphans()
    lacking = environment.lacking(os.environ, plan.variables)
    environment.reduce(plan.variables)
    node_facts.keep_hwloc_still()
    # tools are started in another directory, where relative directories on PATH would be other ones
    os.environ["PATH"] = os.pathsep.join(str(Path(directory).absolute()) for directory in os.get_exec_path())
    with ending(job), stoppable(request.works_for), Agent(plan.target.deadline) as agent:
        with (
            store.locked(job.id if job else "", request.name) as unlocked,
            _remote_agents(request) as remote,
        ):
            setup = Setup(request, store, agent, remote, tools)
            setup.note(unlocked, *lacking)
            try:
                _measure(setup)
            finally:
                with contextlib.suppress(OSError), safe_paths.folder(store.path) as place:
                    place.remove_tree(SCRATCH)
        store.set_refusal(request.name, None)
        manifest.write(request.manifest, request.allocation, store)


def _built(file: Path | None) -> Built | None:
    """The tools that Spack has built; None if the request names none. Raises AllocationError."""
    if file is None:
        return None
    try:
        found = spack_environment.read_built(file)
    except Unusable as error:
        raise AllocationError(ExitCode.REFUSED, str(error)) from None
    if not found:
        raise AllocationError(ExitCode.REFUSED, f"{file} does not exist; is tools.directory mounted here?")
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
    """The agents of the job's nodes; None without a job."""
    job, wanted = request.job, request.allocation.nodes
    if job is None:
        return nullcontext()
    if len(job.hosts) < wanted:
        have = human_count(len(job.hosts), "node")
        raise AllocationError(ExitCode.REFUSED, f"job {job.id} has {have}, and {wanted} are needed", lasting=True)
    return RemoteAgents(job.id, job.hosts, request.plan.target.deadline)


def _measure(setup: Setup) -> None:
    store = setup.store
    found = binaries.find_all(setup)
    here = remaining.Here(found.hashes(), setup.request.launcher, mpiexec=candidates(setup.search))
    work = Work(setup, here, store.results())
    setup.note(*store.named())
    if not work.left():
        if reasons := work.unneeded():  # the jobs before this one have found that out
            setup.note(f"nothing to measure: {'; '.join(reasons)}")
        with contextlib.suppress(TargetHangs, TargetError, Refused, Busy, Unusable):
            _tidy_up_later(setup, here)  # results that are complete do not need the target
        return
    place = target_check.find(setup, work.done)
    work.here = replace(here, target=place.recorded)
    with lock.exclude(setup.plan.target.lock, place.facts, _owner(setup)) as exclusion:
        exclusion = lock.by_license(setup.job.licenses, exclusion) if setup.job else exclusion
        setup.note(None if exclusion.enforced else exclusion.evidence)
        budget = Budget(setup.plan, store, setup.job, setup.note)
        context = prepare(work, found, place, exclusion, budget)
        store.set_refusal(setup.request.name, None)  # of an earlier run: were we killed, it would still be shown
        Loop(work, context, budget).measure()
        _tidy_up(setup, work.here, context.directory)


def _tidy_up_later(setup: Setup, here: remaining.Here) -> None:
    """Tidy up after an earlier run that ended before it could."""
    directory = CampaignDirectory(setup.plan, setup.store, setup.agent)
    if not directory.left_over:
        return
    facts = setup.agent.call(identify.identify, setup.plan.target.directory)
    if wrong := directory.copied(facts):
        setup.note(f"not removed: {wrong}")
        return
    directory.file_system = identify.identity(facts)
    with lock.exclude(setup.plan.target.lock, facts, _owner(setup)):
        _tidy_up(setup, here, directory)


def _tidy_up(setup: Setup, here: remaining.Here, directory: CampaignDirectory) -> None:
    """Remove what target.keep does not keep, if nothing of the whole campaign is left to measure."""
    keep, store = setup.plan.target.keep, setup.store
    if keep == "all" or not directory.left_over:
        return
    if remaining.left(setup.plan, store.results(), store.missing(), here):
        return
    gone = directory.tidy_up()
    setup.note(*(f"not removed: {wrong}" for wrong in gone["wrong"]))
    if gone["foreign"]:
        setup.note(f"{directory.path}: {removal.foreign(gone['foreign'])}; the directory stays with its marker")
    if gone["bytes"]:
        what = f"{human_count(gone['files'], 'file')}, {human_size(gone['bytes'])}"
        setup.request.reporter.say(f"removed from the target: {what} (target.keep: {keep})")


def _owner(setup: Setup) -> lock.Owner:
    """The owner that the text of the lock names."""
    job = setup.job.id if setup.job else ""
    return lock.Owner(setup.plan.campaign, str(setup.store.path.absolute()), job, setup.allocation.name)
