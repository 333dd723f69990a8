"""One repetition of a point: runs its steps, judges them, stores the result and removes its files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

import iosweep
from iosweep.errors import AllocationError, Cause, ExitCode, LeftBehind, Refused, TargetError, TargetHangs, cause
from iosweep.judge import verdict
from iosweep.node import pinning
from iosweep.node.facts import NodeFacts
from iosweep.plan.forecast import METADATA_RATE, PREPARE_BANDWIDTH, fresh_bytes, step_cost
from iosweep.plan.launchers import subset
from iosweep.plan.model import Plan, Point, file_set, seed_of
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.datasets import DataSets
from iosweep.run.launch import Commands
from iosweep.run.preflight import Setup
from iosweep.store.record import Exclusive, Files, Launcher, MeasuredTarget, PhaseRun, Record, SlurmJob, ToolBuild
from iosweep.target import identify, trees
from iosweep.target.directory import FRESH
from iosweep.text import some
from iosweep.tools import Step, Streams, tools
from iosweep.units import human_duration, human_size

#: Phases slower than this fraction of the forecast rate count as hung.
SLOWEST = 1 / 200
#: A target that hangs with less than 1 / _FULL of its space free may be full.
_FULL = 20
#: Bytes of a tool's stderr that a record keeps.
_STDERR_BYTES = 2000


@dataclass
class TargetContext:
    """State that the repetitions on one target share."""

    directory: CampaignDirectory
    sets: DataSets
    commands: Commands
    nodes: Mapping[str, NodeFacts]  # host -> its facts; the first host is this node
    node_keys: Mapping[str, str]  # host -> key of its document
    target: MeasuredTarget
    exclusive: Exclusive


@dataclass
class Context:
    """State that the repetitions of one allocation share."""

    setup: Setup
    targets: Mapping[str, TargetContext]
    pinning: pinning.Pinning
    environment: dict[str, str]  # the variables that records keep
    build: str  # key of the build document of the programs
    budget: Budget
    session: str  # identifies this run of the allocation


@dataclass
class _Try:
    """A repetition that was run and judged, but is not stored yet."""

    record: Record
    raw: dict[str, bytes]
    fault: Exception | None = None  # raised while judging: a bug in iosweep

    @property
    def invalid(self) -> bool:
        return any(row.verdict == "invalid" for row in self.record.rows)

    @property
    def hung(self) -> bool:
        return any(run.left_behind for run in self.record.phases)

    @property
    def cause(self) -> Cause | None:
        """The cause of its invalid phases, if their output and reasons name one."""
        texts = []
        for run, row in zip(self.record.phases, self.record.rows, strict=False):
            if row.verdict == "invalid":
                texts += [run.not_run, run.stderr, *row.reasons]
        return cause("\n".join(texts))

    @property
    def external_cause(self) -> Cause | None:
        """The cause, if a server of the target or the node failed: the try then says nothing about the point."""
        failure = self.cause if self.invalid and not self.hung and not self.fault else None
        return failure if failure and failure.elsewhere else None


def measure(c: Context, point: Point, number: int, retried: bool, before_second_try: Callable[[str], None]) -> Record:
    """Run all phases of a point once, judge and store them.

    If processes of the tool hang in the target, nothing is stored: the result would say nothing about the point. If a
    server of the target fails, or the node cannot run the tool (limits on processes, files, memory), the repetition is
    tried again at once. If the second try succeeds or fails for another reason, both tries are stored. If it fails for
    such a reason again, neither is stored: otherwise each run would use up another try.

    `retried`: the previous try was disturbed. `before_second_try`: called with the reason; raises if there is no time
    or space for a second try. Raises AllocationError and Refused if the target, the results or a tool cannot be used
    any more (nothing is stored then), LeftBehind, and what Agent.call raises.
    """
    fresh, directory = f"{FRESH}/{point.id}-r{number}", c.targets[point.target].directory
    tries = [_run_try(c, point, number, retried)]
    if failure := tries[0].external_cause:
        before_second_try(failure.text)
        directory.remove(fresh)
        tries.append(_run_try(c, point, number, retried))
        if failure := tries[1].external_cause:
            hint = ", and a new file can be written and read; see whether all data servers of the target are up"
            raise AllocationError(
                ExitCode.REFUSED,
                f"two tries in a row failed, the last one of {point.id}: {failure.text}{'' if failure.node else hint}",
                nodes=tries[1].record.hosts if failure.node and point.nodes == 1 else (),
            )
    last = tries[-1]
    if last.hung:
        raise _hang_error(c, point, last.record)
    record = [c.setup.store.commit(point.id, number, attempt.record, attempt.raw) for attempt in tries][-1]
    if last.fault:
        raise last.fault
    if any(file_set(point, step, number).role == "fresh" for step in point.steps):
        directory.remove(fresh)
    return record


def prepare_sets(c: Context, points: Iterable[tuple[Point, int]]) -> None:
    """Prepare the data sets of points that are measured one right after the other, so that none is written in between.
    The steps that use a set report why it could not be written. `points`: with the numbers of their repetitions."""
    for point, number in points:
        t = c.targets[point.target]
        hosts = subset(tuple(t.nodes), point.nodes, number)
        for files in point.file_sets:
            if files.role != "fresh" and not t.sets.are_complete(files, hosts):
                with contextlib.suppress(OSError):
                    t.sets.ensure_complete(files, point.tool, hosts)


def _hang_error(c: Context, point: Point, record: Record) -> LeftBehind:
    """The error to raise if processes of a tool cannot be killed. It names the free space, because some targets hang
    where others report ENOSPC."""
    directory, space_note = c.setup.plan.target_of(point).directory, ""
    c.setup.agent.hurry()
    try:
        space = c.setup.agent.call(identify.read_space, directory)
        free, total = space["free_bytes"], space["used_bytes"] + space["free_bytes"]
        if not total:
            space_note = "; it shows no space at all: are its data servers up?"
        elif free < total / _FULL:
            space_note = f"; it has {human_size(free)} free: is it full?"
    except (TargetHangs, TargetError, Refused):
        pass
    run = next(run for run in record.phases if run.left_behind)
    processes = f"{some(run.left_behind, 8)}, killed after {human_duration(run.wall_s)} and still there"
    return LeftBehind(ExitCode.HANGS, f"the target {directory} hangs: {processes}{space_note}")


def _run_try(c: Context, point: Point, number: int, retried: bool) -> _Try:
    """Run all phases of a point once, and judge them. Raises as `measure` does."""
    plan, t = c.setup.plan, c.targets[point.target]
    commands, started = t.commands, datetime.now(UTC)
    hosts = subset(tuple(t.nodes), point.nodes, number)
    program, hydra = commands.programs[point.tool], commands.mpiexec
    runs: list[PhaseRun] = []
    streams: dict[str, Streams] = {}
    for step in point.steps:
        run, streams[step.name] = _run_step(c, point, step, number, hosts)
        runs += [structs.replace(run, phase=phase.name) for phase in step.phases]
        if run.left_behind:  # the next step would hang, too
            break
    record = Record(
        iosweep=iosweep.__version__,
        point=point.id,
        repetition=number,
        campaign=plan.campaign,
        started=started,
        ended=datetime.now(UTC),
        host=hosts[0],
        node=t.node_keys[hosts[0]],
        hosts=tuple(hosts),
        nodes={host: t.node_keys[host] for host in hosts},
        launcher=Launcher(commands.launcher.name, *((hydra.path, hydra.version) if hydra else ())),
        slurm=SlurmJob(commands.job, commands.launcher.name, tuple(t.nodes)) if commands.job else None,
        session=c.session,
        bound=pinning.bound(plan.cpus, commands.launcher.allocated, tools()[point.tool].mpi),
        build=c.build,
        tool=ToolBuild(program.sha256, program.version, program.path),
        target=t.target,
        environment=c.environment,
        phases=tuple(runs),
        retried=retried,
    )
    raw = {f"{step}.{stream}": data for step, outputs in streams.items() for stream, data in outputs.items()}
    attempt = _Try(record, raw)
    try:
        rows = verdict.judge(plan, point, record, streams, {host: t.nodes[host].memory_bytes for host in hosts})
        retry = verdict.retry(finding for row in rows for finding in row.findings.values())
        attempt.record = structs.replace(record, rows=rows, judged=verdict.key(plan, point), retry=retry)
    except Exception as error:  # a bug in iosweep: the record is stored without rows; `iosweep tables` judges it again
        attempt.fault = error
    _count_written(c.budget, plan, point, attempt.record)
    if attempt.invalid and not attempt.hung:
        # otherwise, after an unmount, all remaining repetitions would fail and count as done
        failure = attempt.cause
        t.directory.check_usable(data=not (failure and failure.full))
    if program.replaced():
        raise AllocationError(
            ExitCode.REFUSED,
            f"{program.path} was replaced while it was measured; the next run measures with what is there now",
        )
    return attempt


def _count_written(budget: Budget, plan: Plan, point: Point, record: Record) -> None:
    """Count the bytes that a repetition wrote to the target: reported by the tool, otherwise forecast."""
    runs, rows = {run.phase: run for run in record.phases}, {row.phase: row for row in record.rows}
    for step in point.steps:
        if step.name not in runs:
            break
        write_phases = [phase.name for phase in step.phases if phase.writes]
        reported = [rows[name].values.get("bytes_written") if name in rows else None for name in write_phases]
        if runs[step.name].not_run:
            written = 0
        elif reported and None not in reported:
            written = int(sum(float(count or 0) for count in reported))
        else:
            written = step_cost(point, step, plan.target_of(point).node_bandwidth).bytes_written
        budget.written_bytes += written
    budget.in_flight_bytes = 0


def _run_step(c: Context, point: Point, step: Step, number: int, hosts: Sequence[str]) -> tuple[PhaseRun, Streams]:
    """Run one step; returns its entry in the record, and its streams."""
    plan, tool, t = c.setup.plan, tools()[point.tool], c.targets[point.target]
    files = file_set(point, step, number)
    commands = tool_commands(plan, point, step, number, t.directory.path)
    binding = t.commands.binding(tool, step.tasks, hosts)
    # a record of a step that did not run shows the command that it would have run
    argvs = tuple(tuple(t.commands.argv(tool, command, step.tasks, hosts, binding)) for command in commands)
    run = PhaseRun(
        phase=step.name,
        argv=argvs[0],
        argvs=argvs if len(argvs) > 1 else (),
        started=datetime.now(UTC),
        wall_s=0.0,
        exclusive=t.exclusive,
    )
    try:
        inodes = tool.inodes(step)
        if files.role == "fresh":
            directories = [share.directory for share in files.shares(len(hosts))]
            t.directory.prepare(directories, fresh_bytes(point, [step]), inodes, empty=step.phase.writes and inodes > 0)
            evidence = Files(role="fresh")
        else:
            t.directory.may_write(0, inodes)
            evidence = t.sets.ensure_complete(files, point.tool, hosts)
        run = structs.replace(run, files=evidence)
        if run.files.wrong:
            return structs.replace(run, not_run="not run: " + "; ".join(run.files.wrong)), {}
        t.directory.check_unchanged(hosts)
        run = structs.replace(run, started=datetime.now(UTC))
        c.budget.in_flight_bytes += step_cost(point, step, plan.target_of(point).node_bandwidth).bytes_written
        if step.time_s is not None:
            timeout_s = plan.limits.grace + 1.5 * step.time_s
        else:
            work = tool.work(step)
            work_s = work / METADATA_RATE if work else point.volume_bytes / PREPARE_BANDWIDTH
            timeout_s = plan.limits.grace + work_s / SLOWEST
        done, streams = t.commands.run(tool, commands, step.tasks, timeout_s, hosts, step)
    except OSError as error:  # an error of the target, or a command could not be started
        return structs.replace(run, not_run=f"not run: {error.strerror or error}"), {}
    run = structs.replace(
        run,
        argv=done.argvs[0] if done.argvs else done.argv,
        argvs=done.argvs if len(done.argvs) > 1 else (),
        exit_code=done.exit_code,
        timed_out=done.timed_out,
        flooded=done.flooded,
        wall_s=round(done.wall_s, 4),
        load=done.load,
        moved=done.moved,
        stderr=done.stderr.decode("utf-8", "replace")[:_STDERR_BYTES],
        left_behind=done.left_behind,
        ran_on=dict(done.ran_on or {}),
        cpus=c.pinning.record(binding, done.cpus, tool.mpi),
    )
    succeeded = not (done.exit_code or done.timed_out or done.left_behind)
    run = structs.replace(run, files=t.sets.recheck(step, files, run.files, hosts, succeeded))
    expected = tool.leftover(step)
    if expected is not None and not done.left_behind:
        leftover = c.setup.agent.call(trees.count_files, t.directory.place, files.directory)
        run = structs.replace(run, leftover_expected=expected, leftover=leftover)
    return run, {**streams, **done.series}


def tool_commands(plan: Plan, point: Point, step: Step, repetition: int, directory: str) -> list[list[str]]:
    """A step's commands, without the launcher: one for all nodes, or one per node for a tool without MPI. Each has
    its own seed, so that nodes write different data. `directory`: the campaign's, on the target. Pure."""
    tool, files = tools()[point.tool], file_set(point, step, repetition)
    commands = []
    for k, share in enumerate([files] if tool.mpi else files.shares(point.nodes)):
        seed = seed_of(plan.seed, point.id, repetition, step.name + (f"@{k}" if k else ""))
        commands.append(tool.argv(step, str(Path(directory) / share.directory), seed))
    return commands
