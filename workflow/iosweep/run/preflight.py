"""Checks before an allocation writes to the target: the target itself (before planning and in the job), the programs,
whether the nodes match, and their CPUs.

Only agents access the target, with a deadline. `unfit` combines their answers into an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import structs

from iosweep.config.sweeps import Config
from iosweep.errors import (
    AllocationError,
    ExitCode,
    Obstacle,
    Problem,
    Refused,
    TargetError,
    TargetHangs,
    cause_of_number,
)
from iosweep.hostlist import alike
from iosweep.hostlist import hosts as named
from iosweep.judge.checks.interference import OTHER_LOAD
from iosweep.node import load, pinning, process, procfs
from iosweep.node.facts import NodeFacts, collect
from iosweep.node.load import Load, Surroundings
from iosweep.plan import forecast
from iosweep.plan.launchers import Launcher
from iosweep.plan.model import Allocation, Plan, Point, target_key
from iosweep.programs import programs
from iosweep.programs.programs import Program, candidates, find, hash_of, sha256
from iosweep.programs.spack import Built
from iosweep.run import agents
from iosweep.run.agents import NodeAnswer, RemoteAgents
from iosweep.run.launch import Commands
from iosweep.run.progress import Lines
from iosweep.slurm import query
from iosweep.store.record import Missing, Needs, RecordHead
from iosweep.store.store import Store
from iosweep.target import directory as campaign_directory
from iosweep.target import identify, space, trees
from iosweep.target.agent import Agent
from iosweep.target.directory import Place
from iosweep.target.identify import FileSystem, identity
from iosweep.tools import tools

#: Time limit for the target to answer before planning; target.deadline if that is shorter.
DEADLINE_S = 5.0
_ON_TARGET = "is on the file system under test; name a directory elsewhere"
#: A node's answer: None if it has no problem, a message about its problem, or the exception that it raised.
Answer = str | Exception | None
#: Seconds for which the load is watched before a campaign: at most, and at least to tell anything.
LOAD_S, LEAST_LOAD_S = 2.0, 0.2
#: Name of the tools' working directory, below the results.
SCRATCH = "scratch"


@dataclass(frozen=True)
class Setup:
    """An allocation during its measurement, with its open store, output and agents."""

    plan: Plan
    allocation: Allocation
    store: Store
    launcher: Launcher
    lines: Lines
    agent: Agent
    remote: RemoteAgents | None = None  # the agents of the job's nodes; None without a job
    built: Built | None = None  # the tools that Spack has built; None to find tools on PATH
    job: query.Job | None = None  # the Slurm job that we run in, on its first node
    only: str | None = None  # part of a point's id or of a sweep's name; None for all points

    def set_missing(self, points: Mapping[str, Missing]) -> None:
        """Record points as missing, and print each reason once."""
        for point, missing in points.items():
            self.store.set_missing(point, missing)
        for reason in dict.fromkeys(missing.reason for missing in points.values()):
            self.lines.say(f"missing: {reason}")


# Before anything is planned


def find_target_problems(configured: Config, uuid: str | None) -> list[Problem]:
    """Why targets cannot be measured, as far as this machine can tell. `uuid`: of the results, if there are any."""
    problems = []
    for name, target in configured.targets.items():
        path = campaign_directory.directory_of(target.directory, configured.settings.campaign, name)
        try:
            with Agent(min(DEADLINE_S, target.deadline)) as agent:
                if problem := agent.call(identify.check_target, target.directory, Path(path).name, target.type):
                    problems.append(configured.target_problem(name, *problem))
                elif lock_message := lock_problem(agent, target.directory, target.lock):
                    problems.append(configured.target_problem(name, "lock", lock_message))
                else:
                    agent.call(campaign_directory.check_claim, path, uuid or "")
        except (Refused, TargetError, TargetHangs) as error:
            reason = error.strerror if isinstance(error, TargetError) else str(error)
            message = f"{json.dumps(target.directory)} cannot be measured on: {reason}"
            problems.append(configured.target_problem(name, "directory", message))
    return problems


def lock_problem(agent: Agent, directory: str, lock: str | None) -> str | None:
    """Why target.lock would be refused; None if it would not, or is not set."""
    if lock is None:
        return None
    try:
        lock_facts = agent.call(identify.identify, lock, "the directory")
        target_facts = agent.call(identify.identify, directory)
    except (Refused, TargetError) as error:
        return f"{lock} cannot be used: {error.strerror if isinstance(error, TargetError) else error}"
    except TargetHangs:
        return f"{lock} does not answer; name another one"
    return f"{lock} {_ON_TARGET}" if identify.is_same_file_system(lock_facts, target_facts) else None


def check_space(plan: Plan, left: Mapping[str, Mapping[str, int]] | None = None) -> dict[str, int | Obstacle]:
    """Check that the plan, or what is left of it, fits the space, quota and layout of its targets; returns target ->
    its free bytes, or why it does not fit. Raises Refused, TargetError and TargetHangs if that cannot be determined
    here. `left`: allocation -> point -> repetitions."""
    rooms: dict[str, space.Room] = {}
    present: dict[str, int] = {}
    with Agent(DEADLINE_S) as agent:
        for name, target in plan.targets.items():
            path = plan.directory_on(name)
            rooms[name] = agent.call(space.read_room, target.directory)
            owner = agent.call(campaign_directory.read_owner, path)
            place = Place(path, str(owner.get("uuid"))) if owner else None
            present[name] = agent.call(trees.measure_usage, place)["bytes"] if place else 0
            if not (rooms[name]["file_system"]["writable"] or owner):  # the user who measures may have write access
                raise Refused(f"user {procfs.user_name(os.getuid())} cannot write to {target.directory} here")
    found: dict[str, int | Obstacle] = {}
    for name, names in sharing({name: room["file_system"] for name, room in rooms.items()}).items():
        room, target, ours = rooms[name], plan.targets[name], sum(present[other] for other in names)
        cost = forecast.forecast_of(plan, left, names)
        obstacle = space.shortage(room, ours, cost.peak_bytes, cost.inodes, structs.asdict(plan.limits))
        if target.layout and (unsettable := campaign_directory.unsettable(room["file_system"]["fstype"])):
            found[name] = unsettable
        elif obstacle:
            found[name] = obstacle._replace(what=f"does not fit {target.directory}: {obstacle.what}")
        else:
            found[name] = room["space"]["free_bytes"]
    return found


def sharing(facts: Mapping[str, FileSystem]) -> dict[str, list[str]]:
    """Target -> the targets on its file system, with itself. `facts`: target -> its file system."""
    volumes = {name: identify.lock_name(each) for name, each in facts.items()}
    return {name: [other for other, at in volumes.items() if at == volume] for name, volume in volumes.items()}


# In the job: the target


def find_target(setup: Setup, name: str, done: Mapping[str, Mapping[int, RecordHead]]) -> FileSystem:
    """Find a target on every node, check its type, and that neither tools nor locks are on it; returns the facts of
    its file system as the first node sees it, with the source by which results name it.

    Results on the same file system are allowed, but noted. Raises AllocationError, Refused.
    """
    plan, target = setup.plan, setup.plan.targets[name]
    directory, shown = target.directory, f"the target {name}".rstrip()

    def type_mismatch(facts: FileSystem) -> str | None:
        mismatch = identify.wrong_type(directory, facts["fstype"], facts["mount"], target.type)
        return mismatch and f"{target_key(name, 'type')}: {mismatch}"

    if setup.remote:
        answers = setup.remote.answers(identify.identify, directory)
        if error := unfit({host: a if isinstance(a, Exception) else type_mismatch(a) for host, a in answers.items()}):
            raise error
        first = answers[setup.remote.hosts[0]]
        assert not isinstance(first, Exception)
        facts = first
    else:
        facts = setup.agent.call(identify.identify, directory)
        if mismatch := type_mismatch(facts):
            raise Refused(mismatch)
    if danger := setup.agent.call(identify.find_open_directory, directory):
        if identify.is_root():
            raise Refused(f"root cannot measure on {directory}: {danger}")
        setup.lines.note(danger)
    on_root = facts["device"] == Path("/").stat().st_dev
    if on_root:  # the file system that was measured before may not be mounted
        targets = [result.target for repetitions in done.values() for result in repetitions.values()]
        before = {identity(t.facts): (t.source, t.fstype) for t in targets if t.directory == directory}
        if before and identity(facts) not in before:
            source, fstype = min(before.values())
            raise AllocationError(
                ExitCode.REFUSED,
                f"the target {directory} is on the root file system now, and was on {source} ({fstype}) when it was"
                " measured; is that mounted? (If this is meant, take another campaign name.)",
            )
    results = setup.store.path.absolute()
    existing = next(path for path in (results, *results.parents) if path.exists())
    if facts["device"] == existing.stat().st_dev:
        setup.lines.note(f"the results are on the file system under test{f' ({name})' if name else ''}")
    elif on_root:
        setup.lines.note(f"{shown} is on the root file system")
    tools_directory = setup.built and str(setup.built.file.absolute().parent.parent)
    elsewhere = {"tools.directory": tools_directory}
    elsewhere |= {target_key(each, "lock"): settings.lock for each, settings in plan.targets.items()}
    for key, path in elsewhere.items():
        if path and identify.is_same_file_system(setup.agent.call(identify.identify, path, key), facts):
            if key != "tools.directory" or setup.job:  # planning on a login node may have missed it
                raise AllocationError(ExitCode.REFUSED, f"{key} {path} {_ON_TARGET}", lasting=True)
            setup.lines.note(f"{key} {path} is on the file system under test")
    path_on_target = plan.directory_on(name)
    if (claimed := setup.store.claimed().get(name)) and claimed.directory == path_on_target:
        marked = setup.agent.call(campaign_directory.has_marker, path_on_target, claimed.uuid)
        facts["source"] = identify.same_source(claimed.source, facts, marked)
    return facts


def unfit(answers: Mapping[str, Answer]) -> AllocationError | None:
    """Combine the answers of nodes into an error; None if all nodes can work on the target. Pure."""
    problems = {
        host: target_error(answer) if isinstance(answer, TargetError) else str(answer)
        for host, answer in answers.items()
        if answer is not None
    }
    if not problems:
        return None
    fit = [host for host in answers if host not in problems]
    message = "; ".join(f"on {problem}" for problem in alike(problems))
    if fit:
        message += f"; {named(fit)} can work there"
    hangs = any(isinstance(answer, TargetHangs) for answer in answers.values())
    refused = all(isinstance(answer, str | Refused) for answer in answers.values())
    return AllocationError(
        ExitCode.HANGS if hangs else ExitCode.REFUSED,
        message,
        lasting=refused and len(problems) > 1,  # with one node, the node or the target may be at fault
        nodes=() if len(problems) > 1 and not fit else list(problems),
    )


def target_error(error: TargetError) -> str:
    """The message for an error of the target: the meaning of its number, then the system's text."""
    cause = cause_of_number(error.errno)
    return f"{cause.text}: {error.strerror}" if cause else str(error.strerror)


# In the job: programs and nodes


def find_programs(setup: Setup) -> Commands:
    """Find the programs. Points whose program cannot be used are recorded as missing. Raises AllocationError if a
    program is not the build that tools.json states."""
    launcher, search = setup.launcher, setup.built.search if setup.built else None
    used = sorted({point.tool for point in setup.allocation.points})
    results = {name: find(tools()[name], setup.agent.run, search) for name in used}
    usable = {name: program for name, program in results.items() if isinstance(program, Program)}
    needs_mpiexec = launcher.manager and any(tools()[name].mpi for name in usable)
    mpiexec = programs.mpiexec(search, launcher.manager) if needs_mpiexec else None

    def find_missing(point: Point) -> Missing | None:
        """The needs of a point that this machine does not meet."""
        if lacking := launcher.lacks(point):
            return Missing(msgspec.convert(lacking[0], Needs), lacking[1])
        if isinstance(program := results[point.tool], Obstacle):
            sha = sha256(point.tool, search) if program.lasting else None
            return Missing(Needs(tool=point.tool, sha256=sha), str(program))
        if tools()[point.tool].mpi and isinstance(mpiexec, Obstacle):
            reason = f"the launcher {launcher.name} cannot be used: {mpiexec}"
            return Missing(Needs(mpiexec=tuple(candidates(search, launcher.manager))), reason)
        return None

    lacking = {point.id: missing for point in setup.allocation.points if (missing := find_missing(point))}
    setup.set_missing(lacking)
    for point in setup.allocation.points:
        if point.id not in lacking:
            setup.store.set_missing(point.id, None)
    if setup.built and (mismatched := [p.path for t, p in usable.items() if p.sha256 != setup.built.hashes().get(t)]):
        raise AllocationError(
            ExitCode.REFUSED,
            f"{mismatched[0]} is not the file that {setup.built.file} says; remove {setup.built.file}, and the next run"
            " verifies the tools anew",
            lasting=True,
        )
    starter, job = None if isinstance(mpiexec, Obstacle) else mpiexec, setup.job.id if setup.job else None
    return Commands(setup.agent, launcher, setup.store.path / SCRATCH, starter, usable, job, setup.remote)


def check_launcher(setup: Setup, commands: Commands, tool_names: Iterable[str]) -> None:
    """Start ranks of each tool that is used; points of a tool whose ranks do not start are recorded as missing."""
    for name in sorted(tool_names):
        if tools()[name].mpi and (reason := commands.launcher_problem(tools()[name])):
            missing = Missing(Needs(launcher=setup.launcher.name), reason)
            setup.set_missing({point.id: missing for point in setup.allocation.points if point.tool == name})


def keep_build(setup: Setup, commands: Commands) -> str:
    """Store the builds of the programs; returns the key of their document."""
    on_path = {"provider": "path", **programs.describe(commands.programs, commands.mpiexec)}
    document = setup.built.document if setup.built else on_path
    key = programs.build_key(document)
    setup.store.put("builds", key, document)
    return key


def inspect(setup: Setup, name: str, target: FileSystem, commands: Commands) -> dict[str, NodeFacts]:
    """Collect the facts of the nodes; returns host -> facts, this node first. `name`, `target`: a target, as this node
    sees it.

    Raises AllocationError if another node does not see this node's target, tools or results.
    """
    directory, reserved = setup.plan.targets[name].directory, setup.plan.cpus.reserved
    paths = {name: program.path for name, program in commands.programs.items()}
    if commands.mpiexec:
        paths["mpiexec"] = commands.mpiexec.path
    if (remote := setup.remote) is None:
        node_facts = collect(target, setup.agent.call(identify.read_space, directory), reserved_cpus=reserved)
        return {node_facts.host: node_facts}
    answers = remote.answers(agents.facts, directory, paths, reserved)
    failed = {host: answer if isinstance(answer, Exception) else None for host, answer in answers.items()}
    if error := unfit(failed):
        raise error
    nodes = {host: answer for host, answer in answers.items() if not isinstance(answer, Exception)}
    hashes = {name: program.sha256 for name, program in commands.programs.items()}
    for host, node in nodes.items():
        for name, libraries in node.absent.items():
            message = f"{name} cannot run on {host}: {', '.join(libraries)} is not found there"
            raise AllocationError(ExitCode.REFUSED, message, nodes=[host])
        if mismatch := _find_mismatch(target, hashes, node):
            if setup.built and node.builds != hashes:
                mismatch += f"; is tools.directory ({setup.built.file.parent.parent}) mounted there?"
            # another job may get nodes that match, unless the target is a disk of each node
            local_disks = identity(target) != identity(node.target) and target["source"] == node.target["source"]
            message = f"{host} differs from {remote.hosts[0]}: {mismatch}"
            raise AllocationError(ExitCode.REFUSED, message, lasting=local_disks, nodes=[host])
    results = setup.store.path.absolute()
    plan_file = str(results / "plans" / f"{setup.plan.digest}.json")
    if blind := [host for host, digest in remote.call(hash_of, plan_file).items() if digest != hash_of(plan_file)]:
        raise AllocationError(
            ExitCode.REFUSED,
            f"{named(blind)}: the results {results} do not exist there; every node must see the directory that"
            " snakemake runs in",
            nodes=blind,
        )
    return {host: structs.replace(node.node, host=host) for host, node in nodes.items()}


def _find_mismatch(here: FileSystem, builds: Mapping[str, str], there: NodeAnswer) -> str | None:
    """Why a node (`there`) cannot measure together with the first one (`here`, `builds`); None if it can."""
    target = there.target
    if identity(here) != identity(target):
        return (
            f"the target is on the file system {target['source']} ({target['fstype']}) there, and on {here['source']}"
            f" ({here['fstype']}) on the first node; is it mounted there, and shared?"
        )
    if not target["writable"]:
        return "the target cannot be written to from there"
    for tool, build in builds.items():
        if (other := there.builds.get(tool)) != build:
            return f"{tool} is a different build there" if other else f"{tool} does not exist there under the same path"
    return None


def check_load(setup: Setup, nodes: Mapping[str, NodeFacts], seconds: float) -> tuple[str, bool]:
    """Watch the nodes, this one first, before anything is measured; returns as describe_load does."""
    runners = [os.getpid(), *[None] * (len(nodes) - 1)]
    each = {h: (Surroundings.of_node(nodes[h]), runner, seconds) for h, runner in zip(nodes, runners, strict=True)}
    remote = setup.remote
    loads = remote.call(agents.idle_load, each=each) if remote else {h: agents.idle_load(*a) for h, a in each.items()}
    return describe_load(load.combine(loads), len(nodes) > 1)


def describe_load(seen: Load | None, several: bool = False) -> tuple[str, bool]:
    """The load by others in words, and whether it makes figures suspect. `several`: nodes. Pure."""
    if seen is None or seen.other is None or seen.client is None:
        return "the CPU time of other programs cannot be told from that of the system", False
    text = f"other programs use {100 * seen.other:.0f} % of the CPU{f' on {seen.host}' if several else ''}"
    if seen.other <= OTHER_LOAD:
        return text, False
    busiest = "".join(f", mostly {other.name}" for other in seen.top[:1])
    return f"{text}{busiest}: figures will be suspect (limit {100 * OTHER_LOAD:.0f} %)", True


def pin(setup: Setup, nodes: Mapping[str, NodeFacts]) -> pinning.Pinning:
    """Decide which CPUs ranks are bound to, and restrict our own processes to the usable CPUs.

    Points with more ranks than CPUs are recorded as missing. Raises Refused.
    """
    settings, remote = setup.plan.cpus, setup.remote
    decision = pinning.decide(settings, nodes, slurm=remote is not None)
    for note in decision.notes:
        setup.lines.say(note)
    if decision.mode in pinning.BINDS:
        usable = {host: sorted(cpus) for host, cpus in decision.usable_of.items()}
        if remote:
            remote.call(process.keep_to, each={host: [cpus] for host, cpus in usable.items()})
        here = next(iter(usable.values()))
        setup.agent.call(process.keep_to, here)
        process.keep_to(here)
    setup.set_missing(
        {
            point.id: Missing(Needs(cpus=settings), reason)
            for point in setup.allocation.points
            if tools()[point.tool].mpi and (reason := decision.lacks(point.tasks // point.nodes))
        }
    )
    return decision
