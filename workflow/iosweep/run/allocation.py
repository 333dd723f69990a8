"""Measures one allocation: runs and stores its remaining repetitions one by one, and maps the errors that end it to
exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import NamedTuple

from iosweep.errors import (
    SERVER_ERRORS,
    AllocationError,
    Busy,
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
from iosweep.plan.launchers import Launcher
from iosweep.plan.model import Plan, Point, draw_order, target_key
from iosweep.programs import spack
from iosweep.programs.programs import candidates
from iosweep.run import preflight
from iosweep.run.agents import RemoteAgents
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.datasets import DataSets
from iosweep.run.launch import Commands, remove_scratch
from iosweep.run.preflight import Setup
from iosweep.run.progress import Lines
from iosweep.run.repetition import Context, TargetContext, prepare_sets
from iosweep.run.repetition import measure as measure_repetition
from iosweep.slurm import query
from iosweep.store.record import Exclusive, RecordHead
from iosweep.store.store import Store, write_manifest
from iosweep.target import identify, lock
from iosweep.target.agent import Agent
from iosweep.target.directory import FRESH
from iosweep.target.identify import FileSystem
from iosweep.text import human_count
from iosweep.tools import tools
from iosweep.units import human_size


def measure(
    plan: Plan,
    name: str,
    results: Path,
    manifest: Path,
    launcher: Launcher,
    lines: Lines,
    only: str | None = None,
    works_for: Sequence[int] = (),
    job: query.Job | None = None,
    tools_file: Path | None = None,
) -> None:
    """Measure the remaining repetitions of an allocation, then write its manifest.

    `only`, `job`: as in Setup. `works_for`: processes whose end stops the measurement. `tools_file`: tools.json of
    Spack's builds; None to find tools on PATH. Raises AllocationError if it cannot continue, Stopped after a signal;
    completed repetitions stay stored.
    """
    allocation = next(a for a in plan.allocations if a.name == name)
    store = Store(results)
    process.adopt_orphans()
    variable_notes = environment.lacking(os.environ, plan.variables)
    environment.reduce(plan.variables)
    environment.keep_hwloc_still()
    # tools start in another directory, where a relative entry of PATH would lead elsewhere
    os.environ["PATH"] = os.pathsep.join(str(Path(directory).absolute()) for directory in os.get_exec_path())
    with ending(job), stoppable(works_for), Agent(plan.deadline) as agent:
        built = spack.read_built(tools_file) if tools_file else None
        if tools_file and not built:
            raise Refused(f"{tools_file} does not exist; is tools.directory mounted here?", lasting=False)
        if job and len(job.hosts) < allocation.nodes:
            job_size = f"job {job.id} has {human_count(len(job.hosts), 'node')}"
            raise Refused(f"{job_size}, and {allocation.nodes} are needed")
        with (
            store.locked(job.id if job else "", name) as lock_note,
            RemoteAgents(job.id, job.hosts, plan.deadline) if job else nullcontext() as remote,
        ):
            setup = Setup(plan, allocation, store, launcher, lines, agent, remote, built, job, only)
            lines.note(lock_note, *variable_notes)
            try:
                _measure(setup)
            finally:
                with contextlib.suppress(OSError):
                    remove_scratch(store.path / preflight.SCRATCH)
        store.set_refusal(name, None)
        write_manifest(manifest, allocation, store)


def slurm_job() -> query.Job:
    """The Slurm job that we run in. Raises AllocationError."""
    job_id = os.environ.get("SLURM_JOB_ID")
    if not job_id:
        raise AllocationError(
            ExitCode.REFUSED, "the profile says scheduler: slurm, but this is not a Slurm job (SLURM_JOB_ID is not set)"
        )
    query.forget_options()
    try:
        job = query.job(job_id)
    except Unanswered as error:
        raise AllocationError(ExitCode.REFUSED, str(error)) from None
    if job is None or not job.hosts:
        raise AllocationError(ExitCode.REFUSED, f"Slurm does not know the nodes of job {job_id}")
    return job


def _measure(setup: Setup) -> None:
    plan, store, job = setup.plan, setup.store, setup.job
    commands = preflight.find_programs(setup)
    hashes = {name: program.sha256 for name, program in commands.programs.items()}
    mpiexec = candidates(setup.built.search if setup.built else None, setup.launcher.manager)
    loop = Loop(setup, remaining.LocalMachine(hashes, setup.launcher, mpiexec), store.repetitions())
    setup.lines.note(*store.damage())
    owner = lock.Owner(plan.campaign, str(store.path.absolute()), job.id if job else "", setup.allocation.name)
    if not (rest := loop.rest()).left:
        if rest.unneeded:  # known from results of earlier jobs
            setup.lines.note(f"nothing to measure: {'; '.join(dict.fromkeys(rest.unneeded.values()))}")
        for name, target in plan.targets.items():
            directory = CampaignDirectory(plan, store, setup.agent, target=name)
            # an earlier run may have ended before its cleanup; results are complete: errors of targets do not matter
            with contextlib.suppress(TargetHangs, TargetError, Refused, Busy, Unusable):
                if directory.is_claimed:
                    facts = setup.agent.call(identify.identify, target.directory)
                    if problem := directory.copy_problem(facts):
                        setup.lines.note(f"not removed: {problem}")
                    else:
                        with lock.exclude(target.lock, facts, owner):
                            _clean_up(setup, loop.machine, [directory])
        return
    targets = {name: preflight.find_target(setup, name, loop.done) for name in plan.targets}
    loop.machine = replace(loop.machine, targets=targets)
    with lock.exclude_all({name: (plan.targets[name].lock, targets[name]) for name in targets}, owner) as exclusions:
        if job:
            exclusions = {name: lock.by_license(job.licenses, each) for name, each in exclusions.items()}
        setup.lines.note(*dict.fromkeys(each.evidence for each in exclusions.values() if not each.enforced))
        context = prepare(loop, commands, targets, exclusions, Budget(plan, store, job, setup.lines.note))
        store.set_refusal(setup.allocation.name, None)  # from an earlier run: it would reappear if we were killed
        loop.measure(context)
        context.budget.keep()
        _clean_up(setup, loop.machine, [one.directory for one in context.targets.values()])


def _clean_up(setup: Setup, machine: remaining.LocalMachine, directories: Sequence[CampaignDirectory]) -> None:
    """Remove the campaign's directories once the whole campaign is measured (target.keep: none)."""
    store = setup.store
    to_remove = [each for each in directories if each.settings.keep == "none" and each.is_claimed]
    if not to_remove or remaining.find(setup.plan, store.repetitions(), store.missing(), machine).left:
        return
    for directory in to_remove:
        removed = directory.tidy_up()
        setup.lines.note(*(f"not removed: {problem}" for problem in removed["wrong"]))
        if removed["bytes"]:
            amount = f"{human_count(removed['files'], 'file')}, {human_size(removed['bytes'])}"
            name = f"the target {directory.target}".rstrip()
            setup.lines.say(f"removed from {name}: {amount} ({target_key(directory.target, 'keep')}: none)")


def prepare(
    loop: Loop,
    commands: Commands,
    targets: Mapping[str, FileSystem],
    exclusions: Mapping[str, lock.Exclusion],
    budget: Budget,
) -> Context:
    """Claim the campaign's directories and store the facts of the nodes; returns the context of all repetitions.
    `targets`, `exclusions`: by target.

    Writes nothing to any target before all nodes are known to match, and all targets can be used.
    """
    setup = loop.setup
    nodes = {name: preflight.inspect(setup, name, facts, commands) for name, facts in targets.items()}
    pinned = preflight.pin(setup, next(iter(nodes.values())))
    on_target = {
        name: replace(commands, pinning=replace(pinned, nodes=nodes[name]), target=setup.plan.targets[name].directory)
        for name in targets
    }
    if setup.remote:
        commands = next(iter(on_target.values()))
        preflight.check_launcher(setup, commands, {loop.points[point].tool for point in loop.rest().left})
    loop.report_outdated()
    counts = loop.rest().expected
    if (watch_s := min(preflight.LOAD_S, loop.seconds(counts) / 100)) >= preflight.LEAST_LOAD_S:
        load, is_suspect = preflight.check_load(setup, next(iter(nodes.values())), watch_s)
        setup.lines.note(load if is_suspect else None)
    setup.lines.begin(sum(counts.values()), loop.seconds(counts))
    directories = {
        name: CampaignDirectory(setup.plan, setup.store, setup.agent, setup.remote, name) for name in targets
    }
    # planning checks this, too, but a relative path may lead to another directory here
    for tool, directory in product(sorted({loop.points[point].tool for point in counts}), directories.values()):
        if problem := tools()[tool].check_directory(directory.path):
            raise Refused(f"{tool} cannot work in {directory.path}: it {problem}")
    for name, directory in directories.items():
        directory.examine(targets[name])
    for name, names in preflight.sharing(targets).items():
        directories[name].together = [directories[other] for other in names]
        directories[name].check_room(forecast.forecast_of(setup.plan, {setup.allocation.name: counts}, names))
    for directory in directories.values():
        directory.claim()
        directory.check_shared()
        directory.check_usable()

    def on(name: str) -> TargetContext:
        points = [loop.points[point] for point in counts if loop.points[point].target == name]
        run, directory, exclusion = on_target[name].run, directories[name], exclusions[name]
        keys = {host: node_key(facts) for host, facts in nodes[name].items()}
        for host, facts in nodes[name].items():
            setup.store.put("nodes", keys[host], facts)
        return TargetContext(
            directory=directory,
            sets=DataSets(setup.agent, directory, setup.store, points, run, budget),
            commands=on_target[name],
            nodes=nodes[name],
            node_keys=keys,
            target=directory.recorded(targets[name]),
            exclusive=Exclusive(exclusion.enforced, exclusion.evidence),
        )

    return Context(
        setup=setup,
        targets={name: on(name) for name in targets},
        pinning=pinned,
        environment=environment.recorded(),
        build=preflight.keep_build(setup, commands),
        budget=budget,
        session=commands.job or datetime.now(UTC).isoformat(timespec="seconds"),
    )


class Rest(NamedTuple):
    """Remaining repetitions of this allocation, by point."""

    left: dict[str, list[int]]  # numbers of the repetitions that can be measured now
    expected: dict[str, int]  # forecast of the number of remaining repetitions
    unneeded: dict[str, str]  # why a ramp needs no more repetitions of this point


class Loop:
    """Measures the repetitions of one allocation. `done`: results of the campaign so far, by point and repetition."""

    def __init__(self, setup: Setup, machine: remaining.LocalMachine, done: dict[str, dict[int, RecordHead]]):
        self.setup, self.machine, self.done = setup, machine, done
        self.points = {point.id: point for point in setup.allocation.points}
        #: Point -> forecast of one repetition.
        self.costs = {id: forecast.repetition_needs(setup.plan, point).cost for id, point in self.points.items()}

    def rest(self) -> Rest:
        """Determine what is left to measure, from the results so far."""
        setup, name = self.setup, self.setup.allocation.name
        plan_rest = remaining.find(setup.plan, self.done, setup.store.missing(), self.machine, setup.only)
        return Rest(plan_rest.left.get(name, {}), plan_rest.expected.get(name, {}), plan_rest.unneeded.get(name, {}))

    def seconds(self, counts: Mapping[str, int]) -> float:
        """Forecast duration of repetitions. `counts`: point -> their number."""
        return sum(self.costs[point].time_s * count for point, count in counts.items())

    def disturbed(self, point: str, number: int) -> bool:
        """Whether a result counts, but failed for a reason that another try may cure."""
        result = self.done.get(point, {}).get(number)
        if not result or not result.retry:
            return False
        return remaining.current(result, self.setup.plan, self.points[point], self.machine)

    def report_outdated(self) -> None:
        """Print why results are measured again: another build of their tool, or another file system of the target."""
        rebuilt, moved = 0, Counter[str]()
        for point, numbers in self.rest().left.items():
            build, target = self.machine.tools.get(self.points[point].tool), self.points[point].target
            for result in filter(None, map(self.done.get(point, {}).get, numbers)):
                rebuilt += build is not None and result.tool.sha256 != build
                moved[target] += remaining.elsewhere(result, self.machine, target)
        again = "measured again, because"
        if rebuilt:
            self.setup.lines.say(f"{again} their tool is another build now: {human_count(rebuilt, 'result')}")
        for target, count in (+moved).items():
            facts, name = self.machine.targets[target], f"the target {target}".rstrip()
            file_system = f"{facts['source']} ({facts['fstype']})"
            self.setup.lines.say(f"{again} {name} is on {file_system} now: {human_count(count, 'result')}")

    def measure(self, c: Context) -> None:
        """Measure what is left, one repetition of all points per round, so that drift affects all points equally."""
        left, expected, _ = self.rest()
        while left:
            rounds = {point: self.points[point].repetitions.round_of(numbers[0]) for point, numbers in left.items()}
            round_ = min(rounds.values())
            due = [self.points[point] for point, own in rounds.items() if own == round_]
            measured = set[str]()
            for group in draw_order(self.setup.plan, due, self.setup.allocation.session, round_):
                for index, point in enumerate(group):
                    beside = [(self.points[other], left[other][0]) for other in group[index + 1 :]]
                    beside_s = 0.0 if index else self.seconds({other.id: 1 for other, _ in beside})
                    c.budget.allow_repetition(point, self.costs[point], beside_s)
                    self._measure_repetition(c, point, left[point][0], beside)
                    measured.add(point)
            before = expected
            left, expected, _ = self.rest()
            changed = {p: expected.get(p, 0) - before.get(p, 0) + (p in measured) for p in {*before, *expected}}
            if again := sum(self.disturbed(point, numbers[0]) for point, numbers in left.items()):
                repeated = human_count(again, "repetition is", "repetitions are")
                self.setup.lines.say(f"{repeated} repeated: another try may help")
            self.setup.lines.more(sum(changed.values()), self.seconds(changed))

    def _measure_repetition(
        self, c: Context, point: str, number: int, beside: Sequence[tuple[Point, int]] = ()
    ) -> None:
        """Measure and store one repetition. `beside`: points that are measured right after this one, and the numbers of
        their repetitions."""
        setup, budget = self.setup, c.budget
        cost, start_s = self.costs[point], budget.clock_s()

        def before_second_try(reason: str) -> None:
            setup.lines.say(f"{point} failed, and is tried again at once: {reason}")
            budget.allow_second_try(cost)

        try:
            prepare_sets(c, [(self.points[point], number), *beside] if beside else ())
            disturbed = self.disturbed(point, number)
            record = measure_repetition(c, self.points[point], number, disturbed, before_second_try)
        except BaseException as error:
            target_responds = not isinstance(error, LeftBehind | TargetHangs)
            if target_responds:
                setup.agent.hurry()
            with contextlib.suppress(OSError):
                budget.keep()
            if target_responds:  # even after a signal: an interrupted repetition leaves no files on the target
                with contextlib.suppress(TargetHangs, TargetError, Refused):
                    c.targets[self.points[point].target].directory.remove(FRESH)  # after a kill, the next run does
                if kept_bytes := sum(one.directory.present_bytes for one in c.targets.values()):
                    advice = f"`iosweep clean {setup.plan.campaign} --yes` removes them"
                    setup.lines.note(f"{human_size(kept_bytes)} stay on the target for the next run; {advice}")
            raise
        budget.finished(point, cost, start_s)
        if record.attempt == 1:
            self.done.setdefault(point, {})[number] = record.head()
        else:  # the first try may be the one that counts
            self.done[point] = setup.store.repetitions_of(point)
        setup.lines.finished(record, cost.time_s)


@contextmanager
def ending(job: query.Job | None) -> Iterator[None]:
    """Convert errors that end an allocation to AllocationError; in a job, the message names the node."""
    first_host = job.hosts[:1] if job else ()
    try:
        yield
    except Busy as error:
        raise MeasuredElsewhere(ExitCode.REFUSED, str(error), after=error.job) from None
    except TargetHangs as error:
        where = f"on {first_host[0]}: " if first_host and not error.nodes else ""
        raise AllocationError(ExitCode.HANGS, f"{where}{error}", nodes=error.nodes or first_host) from None
    except TargetError as error:
        where = f"on {first_host[0]}: " if first_host and not error.node else ""
        nodes = ((error.node,) if error.node else first_host) if error.errno in SERVER_ERRORS else ()
        raise AllocationError(ExitCode.REFUSED, f"{where}{preflight.target_error(error)}", nodes=nodes) from None
    except Refused as error:
        raise AllocationError(ExitCode.REFUSED, str(error), lasting=error.lasting) from None
    except (Unanswered, Unusable) as error:
        raise AllocationError(ExitCode.REFUSED, str(error), lasting=isinstance(error, Unusable)) from None
    except OSError as error:  # from the results' disk: the target raises TargetError
        raise AllocationError(ExitCode.STORE_FAILED, cannot_be_written(error), lasting=True) from None


def cannot_be_written(error: OSError) -> str:
    """The message for an error of the disk that holds the results."""
    remedy = ": make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return (
        f"the results ({error.filename or 'on a disk of their own'}) cannot be written: {error.strerror or error}"
        f"{remedy}; what was stored before is on disk, and the next run goes on from there"
    )
