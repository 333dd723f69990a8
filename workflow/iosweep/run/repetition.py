"""One repetition of a point: runs its steps, judges them, stores the result and removes its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

import iosweep
from iosweep.errors import AllocationError, Cause, ExitCode, LeftBehind, Refused, TargetError, TargetHangs, cause
from iosweep.judge import verdict
from iosweep.node import environment, pinning
from iosweep.node.facts import NodeFacts, node_key
from iosweep.node.process import Completed
from iosweep.plan.forecast import METADATA_RATE, PREPARE_BANDWIDTH, fresh_bytes, step_cost
from iosweep.plan.launchers import subset
from iosweep.plan.model import Plan, Point, file_set, seed_of
from iosweep.programs import programs
from iosweep.run.budget import Spent
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.datasets import DataSets
from iosweep.run.launch import Commands
from iosweep.store.record import (
    Exclusive,
    Files,
    Launcher,
    PhaseRun,
    Record,
    SlurmJob,
    Target,
    ToolBuild,
)
from iosweep.store.store import Store
from iosweep.target import identify, trees
from iosweep.target.agent import Agent
from iosweep.target.directory import FRESH
from iosweep.text import some
from iosweep.tools import FileSet, Step, Streams, tools
from iosweep.units import human_duration, human_size

#: Phases slower than this share of the forecast's rate count as hung.
SLOWEST = 1 / 200
#: A target that hangs with less than this part of its space free may be full.
_FULL = 20
#: Bytes of a tool's stderr that a record keeps.
_STDERR_BYTES = 2000


@dataclass
class Context:
    """Shared by the repetitions of one allocation."""

    plan: Plan
    store: Store
    agent: Agent
    directory: CampaignDirectory
    sets: DataSets
    commands: Commands
    programs: Mapping[str, programs.Program]
    nodes: Mapping[str, NodeFacts]  # host -> its facts, the first is ours
    target: Target
    exclusive: Exclusive
    pinning: pinning.Pinning
    build: str  # key of the build document of the programs
    spent: Spent
    session: str  # names this run of the allocation


@dataclass
class _Try:
    """A repetition that was run and judged, and is not stored yet. fault: what our own code raised when it judged."""

    record: Record
    raw: dict[str, bytes]
    fault: Exception | None = None

    @property
    def invalid(self) -> bool:
        return any(row.verdict == "invalid" for row in self.record.rows)

    @property
    def hung(self) -> bool:
        return any(run.left_behind for run in self.record.phases)

    @property
    def cause(self) -> Cause | None:
        """The cause that its invalid phases give."""
        texts = []
        for run, row in zip(self.record.phases, self.record.rows, strict=False):
            if row.verdict == "invalid":
                texts += [run.not_run, run.stderr, *row.reasons]
        return cause("\n".join(texts))

    @property
    def elsewhere(self) -> Cause | None:
        """The failure of a server of the target, or of the node, because of which it says nothing about the point."""
        why = self.cause if self.invalid and not self.hung and not self.fault else None
        return why if why and why.elsewhere else None


def measure(c: Context, point: Point, number: int, retried: bool, before_second_try: Callable[[str], None]) -> Record:
    """Run all phases of a point once, judge and store them.

    If processes of the tool hang in the target, nothing is stored: it would say nothing about the point. If a server of
    the target fails, or the node cannot run the tool (limits of processes, files, memory), the repetition is tried
    again at once. If the second try fails for another reason or succeeds, both are stored. If it fails in this way,
    too, neither is stored: otherwise each run would store one more failure until no try is left.

    `retried`: the previous try was disturbed. `before_second_try`: takes the reason, and raises if there is no time or
    space for a second try. Raises AllocationError and Refused if the target, the results or a tool cannot be used any
    more (nothing is stored then), LeftBehind, and what Agent.call raises.
    """
    tries = [_try(c, point, number, retried)]
    if why := tries[0].elsewhere:
        before_second_try(why.text)
        c.directory.remove(f"{FRESH}/{point.id}-r{number}")
        tries.append(_try(c, point, number, retried))
        if why := tries[1].elsewhere:
            others = ", and a new file can be written and read; see whether all data servers of the target are up"
            raise AllocationError(
                ExitCode.REFUSED,
                f"two tries in a row failed, the last one of {point.id}: {why.text}{'' if why.node else others}",
                nodes=tries[1].record.hosts if why.node and point.nodes == 1 else (),
            )
    last = tries[-1]
    if last.hung:
        raise _hangs(last, c.plan.target.directory, _room(c))
    try:
        record = [c.store.commit(point.id, number, each.record, each.raw) for each in tries][-1]
    except OSError as error:
        raise AllocationError(
            ExitCode.STORE_FAILED,
            f"the result of {point.id} cannot be stored: {error.strerror or error}; what was stored"
            " before is on disk, and the next run goes on from there",
            lasting=True,
        ) from None
    if last.fault:
        raise last.fault
    _tidy(c, point, record)
    return record


def _hangs(hung: _Try, directory: str, room: str) -> LeftBehind:
    """The error where processes of a tool cannot be killed. `directory`: the target's; `room`: of _room."""
    run = next(run for run in hung.record.phases if run.left_behind)
    left = f"{some(run.left_behind, 8)}, killed after {human_duration(run.wall_s)} and still there"
    return LeftBehind(ExitCode.HANGS, f"the target {directory} hangs: {left}{room}")


def _room(c: Context) -> str:
    """What the space on a target that hangs says about the cause: some hang where others would report ENOSPC."""
    c.agent.hurry()
    try:
        space = c.agent.call(identify.read_space, c.plan.target.directory)
    except (TargetHangs, TargetError, Refused):
        return ""
    free, whole = space["free_bytes"], space["used_bytes"] + space["free_bytes"]
    if not whole:
        return "; it shows no space at all: are its data servers up?"
    return f"; it has {human_size(free)} free: is it full?" if free < whole / _FULL else ""


def _try(c: Context, point: Point, number: int, retried: bool) -> _Try:
    """Run all phases of a point once, and judge them. Raises as `measure` does."""
    started = datetime.now(UTC)
    hosts = subset(tuple(c.nodes), point.nodes, number)
    program = c.programs[point.tool]
    runs: list[PhaseRun] = []
    streams: dict[str, Streams] = {}
    for step in point.steps:
        run, streams[step.name] = _step(c, point, step, number, hosts)
        runs += [structs.replace(run, phase=phase.name) for phase in step.phases]
        if run.left_behind:  # the next step would hang, too
            break
    record = _record(c, point, program, hosts, number, started, runs, retried)
    tried = _judge(c, point, record, streams)
    _count_written(c, point, tried.record)
    if tried.invalid and not tried.hung:
        # otherwise all that is left would fail after an unmount, and count as done
        why = tried.cause
        c.directory.see_usable(data=not (why and why.full))
    if program.replaced():
        raise AllocationError(
            ExitCode.REFUSED,
            f"{program.path} was replaced while it was measured; the next run measures with what is there now",
        )
    return tried


def _record(
    c: Context,
    point: Point,
    program: programs.Program,
    hosts: Sequence[str],
    number: int,
    started: datetime,
    runs: Sequence[PhaseRun],
    retried: bool,
) -> Record:
    """The record of a repetition that was run, without its rows."""
    hydra = c.commands.mpiexec
    return Record(
        iosweep=iosweep.__version__,
        point=point.id,
        repetition=number,
        campaign=c.plan.campaign,
        started=started,
        ended=datetime.now(UTC),
        host=hosts[0],
        node=node_key(c.nodes[hosts[0]]),
        hosts=tuple(hosts),
        nodes={host: node_key(c.nodes[host]) for host in hosts},
        launcher=Launcher(c.commands.launcher.name, *((hydra.path, hydra.version) if hydra else ())),
        slurm=SlurmJob(c.commands.job, c.commands.launcher.name, tuple(c.nodes)) if c.commands.job else None,
        session=c.session,
        bound=pinning.bound(c.plan.cpus, c.commands.launcher.allocated, tools()[point.tool].mpi),
        build=c.build,
        tool=ToolBuild(program.sha256, program.version, program.path),
        target=c.target,
        environment=environment.recorded(),
        phases=tuple(runs),
        retried=retried,
    )


def _judge(c: Context, point: Point, record: Record, streams: Mapping[str, Streams]) -> _Try:
    """Judge a repetition. After a fault of ours it is stored without rows: `iosweep tables` judges it again."""
    raw = {f"{step}.{stream}": data for step, outputs in streams.items() for stream, data in outputs.items()}
    memory_bytes = {host: c.nodes[host].memory_bytes for host in record.hosts}
    try:
        rows = verdict.judge(c.plan, point, record, streams, memory_bytes)
    except Exception as error:
        return _Try(record, raw, error)
    retry = verdict.retry(finding for row in rows for finding in row.findings.values())
    return _Try(structs.replace(record, rows=rows, judged=verdict.key(c.plan, point), retry=retry), raw)


def _count_written(c: Context, point: Point, record: Record) -> None:
    """Count the bytes that a repetition wrote to the target, as the tool reports them, or else by the forecast."""
    runs, rows = {run.phase: run for run in record.phases}, {row.phase: row for row in record.rows}
    for step in point.steps:
        if step.name not in runs:
            break
        writing = [phase.name for phase in step.phases if phase.writes]
        reported = [rows[name].values.get("bytes_written") if name in rows else None for name in writing]
        if runs[step.name].not_run:
            written = 0
        elif reported and None not in reported:
            written = int(sum(float(count or 0) for count in reported))
        else:
            written = step_cost(point, step, c.plan.target.node_bandwidth).bytes_written
        c.spent.written_bytes += written
    c.spent.in_flight_bytes = 0


def _tidy(c: Context, point: Point, record: Record) -> None:
    """Remove the new files of a repetition."""
    if any(file_set(point, step, record.repetition).role == "fresh" for step in point.steps):
        c.directory.remove(f"{FRESH}/{point.id}-r{record.repetition}")


def _step(c: Context, point: Point, step: Step, number: int, hosts: Sequence[str]) -> tuple[PhaseRun, Streams]:
    """Run one step; returns its entry in the record, and its streams."""
    tool = tools()[point.tool]
    files = file_set(point, step, number)
    commands = tool_commands(c.plan, point, step, number, c.directory.path)
    binding = c.commands.binding(tool, step.tasks, hosts)
    # if the step does not run, the record has the command that would have been started
    argvs = tuple(tuple(c.commands.argv(tool, command, step.tasks, hosts, binding)) for command in commands)
    run = PhaseRun(
        phase=step.name,
        argv=argvs[0],
        argvs=argvs if len(argvs) > 1 else (),
        started=datetime.now(UTC),
        wall_s=0.0,
        exclusive=c.exclusive,
    )
    try:
        run = structs.replace(run, files=_files(c, point, step, files, hosts))
        if run.files.wrong:
            return structs.replace(run, not_run="not run: " + "; ".join(run.files.wrong)), {}
        c.directory.see_unchanged(hosts)
        run = structs.replace(run, started=datetime.now(UTC))
        c.spent.in_flight_bytes += step_cost(point, step, c.plan.target.node_bandwidth).bytes_written
        timeout_s = _timeout(step, tool.work(step), point, c.plan.limits.grace)
        done, streams = c.commands.run(tool, commands, step.tasks, timeout_s, hosts, step)
    except OSError as error:  # of the target, or a command could not be started
        return structs.replace(run, not_run=f"not run: {error.strerror or error}"), {}
    streams = {**streams, **done.series}
    cpus = c.pinning.record(binding, done.cpus, tool.mpi)
    run = structs.replace(_ended(run, done), cpus=cpus)
    well = not (done.exit_code or done.timed_out or done.left_behind)
    run = structs.replace(run, files=c.sets.look_again(step, files, run.files, hosts, well))
    expected = tool.leftover(step)
    if expected is not None and not done.left_behind:
        left = c.agent.call(trees.count_files, c.directory.place, files.directory)
        run = structs.replace(run, leftover_expected=expected, leftover=left)
    return run, streams


def _files(c: Context, point: Point, step: Step, files: FileSet, hosts: Sequence[str]) -> Files:
    """Make the files of a step ready; returns what the record has of them. Raises Refused, OSError."""
    inodes = tools()[point.tool].inodes(step)
    if files.role != "fresh":
        c.directory.may_write(0, inodes)
        return c.sets.ready(files, point.tool, hosts)
    below = [share.directory for share in files.shares(len(hosts))]
    c.directory.prepare(below, fresh_bytes(point, [step]), inodes, empty=step.phase.writes and inodes > 0)
    return Files(role="fresh")


def _ended(run: PhaseRun, done: Completed) -> PhaseRun:
    """The entry of a step whose command has ended."""
    return structs.replace(
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
    )


def tool_commands(plan: Plan, point: Point, step: Step, repetition: int, directory: str) -> list[list[str]]:
    """A step's commands without their launcher: one, or one per node for a tool that knows nothing of other nodes.

    `directory`: the campaign's on the target. Pure.
    """
    tool = tools()[point.tool]
    return [tool.argv(step, path, seed) for path, seed in places(plan, point, step, repetition, directory)]


def places(plan: Plan, point: Point, step: Step, repetition: int, directory: str) -> list[tuple[str, int]]:
    """Absolute directory and seed of each command of a step: another pattern on each node. Pure."""
    files = file_set(point, step, repetition)
    shares = [files] if tools()[point.tool].mpi else files.shares(point.nodes)
    return [
        (
            str(Path(directory) / share.directory),
            seed_of(plan.seed, point.id, repetition, step.name + (f"@{k}" if k else "")),
        )
        for k, share in enumerate(shares)
    ]


def _timeout(step: Step, work: int, point: Point, grace_s: float) -> float:
    """Seconds after which a step counts as hung."""
    if step.time_s is not None:
        return grace_s + 1.5 * step.time_s
    work_s = work / METADATA_RATE if work else point.volume_bytes / PREPARE_BANDWIDTH
    return grace_s + work_s / SLOWEST
