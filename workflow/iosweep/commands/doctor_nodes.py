"""`iosweep doctor` in a Slurm job: its nodes, asked by the agents that jobs use, and judged as jobs judge them."""

from __future__ import annotations

import errno
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from iosweep.commands import doctor
from iosweep.commands.campaigns import RESULTS
from iosweep.config.sweeps import Config
from iosweep.errors import AllocationError, Conflict, Obstacle, Refused, TargetError, TargetHangs, Unusable
from iosweep.findings import Line, ok, unchecked, warning, wrong
from iosweep.hostlist import alike, hosts
from iosweep.jobs.profile import Profile, read
from iosweep.node import pinning
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.plan.model import Plan
from iosweep.programs import path
from iosweep.programs.path import Program
from iosweep.run import agents as node_agent
from iosweep.run import allocation, target_check
from iosweep.run import nodes as run_nodes
from iosweep.run.agents import NodeAnswer, RemoteAgents
from iosweep.run.launch import Commands, needs_mpiexec
from iosweep.target import identify, lock
from iosweep.target.agent import Agent
from iosweep.tools import Tool, tools

#: Time limit in seconds of an agent's answer, without a configuration that says it.
_DEADLINE_S = 30.0
_SHARED = "the checkout with its .venv, and the directory that snakemake runs in, must be the same on all nodes"


def check(configured: Config | None, made: Plan | None, directory: Path) -> list[Line]:
    """Check the nodes of our job. `directory`: of the profile. Nothing stays on the nodes, nor here."""
    try:
        profile = read(directory)
        if profile.launcher not in SLURM_LAUNCHERS:
            return [wrong("profile", f"{profile.file}: unknown launcher {profile.launcher}", "name one with --profile")]
        job = allocation.slurm_job()
        deadline_s = made.target.deadline if made else _DEADLINE_S
        with RemoteAgents(job.id, job.hosts, deadline_s) as remote:
            lines = [ok("nodes", f"{hosts(job.hosts)} answered"), _directories(remote)]
            return lines + (_campaign(configured, made, profile, job.id, remote) if configured and made else [])
    except Unusable as error:
        return [wrong("profile", *error.obstacle)]
    except (AllocationError, Refused, TargetError, TargetHangs) as error:
        return [wrong("nodes", str(error), _SHARED)]


def _directories(remote: RemoteAgents) -> Line:
    """Whether the nodes see the working directory, and the results where these are on another file system."""
    here = Path.cwd()
    places = [here]
    with suppress(OSError):
        if RESULTS.stat().st_dev != here.stat().st_dev or RESULTS.is_symlink():
            places.append(RESULTS.resolve())
    for place in places:
        try:
            with tempfile.NamedTemporaryFile(prefix=".iosweep-doctor-", dir=place) as file:
                file.write(uuid.uuid4().bytes)
                file.flush()
                answers = remote.answers(path.hash_of, file.name)
                expected = path.hash_of(file.name)
        except OSError as error:
            return wrong("directory", f"{place} cannot be written to: {error.strerror}", "work in another")
        if away := {host: "a file that was made there is not seen" for host, a in answers.items() if a != expected}:
            return wrong("directory", f"{place} is not shared: {'; '.join(alike(away))}", _SHARED)
    return ok("directory", f"{', '.join(map(str, places))}: the same on {_all(remote.hosts)}")


def _campaign(configured: Config, made: Plan, profile: Profile, job: str, remote: RemoteAgents) -> list[Line]:
    """What a campaign needs of the nodes."""
    launcher = SLURM_LAUNCHERS[profile.launcher]
    built = doctor.look_for_tools(configured, profile.tools)
    search = built.search if built else None
    used = [tools()[name] for name in sorted({point.tool for point in made.points})] if not built or search else []
    lines = [built.line] if built else []
    with Agent(doctor.VERSION_S) as agent:
        found = {tool.name: path.find(tool, agent.run, search) for tool in used}
        hydra = needs_mpiexec(launcher, used, search)
        on_target = target_check.lock_problem(agent, made.target.directory, made.target.lock)
        programs = {name: one for name, one in found.items() if isinstance(one, Program)}
        versions = {name: (one.path, one.version) for name, one in programs.items()}
        answers = remote.answers(node_agent.facts, made.target.directory, versions, made.cpus.reserved)
        lines.append(judge_target(answers))
        lines.append(doctor.space(made) if lines[-1].outcome == "ok" else unchecked("space", "see target"))
        nodes = {host: answer for host, answer in answers.items() if isinstance(answer, NodeAnswer)}
        if used:
            hashes = {name: one.sha256 for name, one in programs.items()}
            lines.append(judge_builds(doctor.judged(found, hydra), hashes, nodes))
        if len(nodes) == len(answers):
            line, pinned = judge_cpus(made, nodes)
            lines.append(line)
            ranks = [tool for tool in used if tool.mpi]
            usable = all(line.outcome == "ok" for line in lines if line.check == "tools")
            if pinned and ranks and usable and not isinstance(hydra, Obstacle):
                with tempfile.TemporaryDirectory(prefix=".iosweep-doctor-", dir=Path.cwd()) as place:
                    scratch = Path(place) / allocation.SCRATCH
                    commands = Commands(agent, launcher, scratch, hydra, programs, job, remote, pinned)
                    lines.append(_ranks(commands, ranks, remote.hosts))
    return [*lines, _exclusion(profile.license, made.target.lock, on_target, remote)]


def _ranks(commands: Commands, used: Sequence[Tool], names: Sequence[str]) -> Line:
    """Whether the launcher starts ranks of the tools on all nodes, as one program."""
    if wrongs := [why for tool in used if (why := commands.no_start(tool))]:
        return wrong("MPI", "; ".join(wrongs), "")
    started = ", ".join(tool.name for tool in used)
    return ok("MPI", f"launcher {commands.launcher.name} starts ranks of {started} on {_all(names)}")


def judge_target(answers: Mapping[str, NodeAnswer | Exception]) -> Line:
    """Whether every node can work on the target, and it is one file system."""
    failed = {host: answer if isinstance(answer, Exception) else None for host, answer in answers.items()}
    if unfit := target_check.unfit(failed):
        denied = any(isinstance(e, TargetError) and e.errno in (errno.EACCES, errno.EPERM) for e in failed.values())
        mount = "mount it where it is not there, or name another directory: target.directory"
        return wrong(
            "target", str(unfit), "name a directory that you may write to: target.directory" if denied else mount
        )
    seen = {host: answer.target for host, answer in answers.items() if isinstance(answer, NodeAnswer)}
    first = next(iter(seen.values()))
    if unlike := {host: why for host, one in seen.items() if (why := run_nodes.other_target(first, one))}:
        return wrong("target", "; ".join(alike(unlike)), "it must be one file system on all nodes, where you may write")
    return ok("target", f"{identify.identity(first)} on {_all(seen)}, writable")


def judge_builds(here: Line, hashes: Mapping[str, str], nodes: Mapping[str, NodeAnswer]) -> Line:
    """`here`: the tools of the first node. Whether the others have the same, and all libraries are there."""
    lacks = {
        host: f"{name} needs {', '.join(those)}" for host, one in nodes.items() for name, those in one.absent.items()
    }
    if lacks:
        return wrong("tools", f"{'; '.join(alike(lacks))}, which is not found there", "install it on all nodes")
    unlike = {host: why for host, one in nodes.items() if (why := run_nodes.other_build(hashes, one.builds))}
    if here.outcome == "ok" and unlike:
        return wrong("tools", "; ".join(alike(unlike)), "have the same build on all nodes, under the same path")
    return here


def judge_cpus(made: Plan, nodes: Mapping[str, NodeAnswer]) -> tuple[Line, pinning.Pinning | None]:
    """Whether ranks can be bound to CPUs that are not reserved, and are not more than these; None if they cannot."""
    try:
        decided = pinning.decide(made.cpus, {host: answer.node for host, answer in nodes.items()}, slurm=True)
    except Conflict as error:
        return wrong("CPUs", str(error), ""), None
    most = max((point.tasks // point.nodes for point in made.points if tools()[point.tool].mpi), default=0)
    if few := decided.lacks(most):
        return wrong("CPUs", few, ""), decided
    if decided.notes:
        return warning("CPUs", "; ".join(note.removeprefix("note: ") for note in decided.notes), ""), decided
    usable = alike({host: f"{len(cpus)} usable" for host, cpus in decided.usable_of.items()})
    return ok("CPUs", "; ".join(usable)), decided


def _exclusion(license: str | None, directory: str | None, on_target: str | None, remote: RemoteAgents) -> Line:
    """Whether two campaigns at once are kept apart. `directory`: target.lock; `on_target`: what is wrong with it."""
    change = "set target.lock to a directory that all nodes share, or take all of a license in the profile"
    beside = "two campaigns of two users can measure one file system at the same time"
    if (by := lock.by_license(license or "", lock.Exclusion(False, beside))).enforced:
        return ok("exclusion", by.evidence)
    if not directory:
        return warning("exclusion", by.evidence, change)
    if on_target:
        return wrong("exclusion", f"target.lock: {on_target}", "name a directory that all nodes share")
    file = Path(directory) / f".iosweep-doctor-{uuid.uuid4().hex}.lock"
    try:
        with lock.hold(file, lock.Owner(), "this test"):
            seen = remote.answers(lock.holder, str(file))
    except OSError as error:
        return wrong("exclusion", f"{directory}: {error.strerror}", "name a directory where you may write: target.lock")
    finally:
        file.unlink(missing_ok=True)
    if unseen := [host for host, owner in seen.items() if not isinstance(owner, lock.Owner)]:
        return warning("exclusion", f"{hosts(unseen)}: a lock in target.lock is not seen there", change)
    return ok("exclusion", f"a lock in target.lock is seen on {_all(seen)}")


def _all(nodes: Sequence[str] | Mapping[str, object]) -> str:
    return {1: next(iter(nodes)), 2: "both nodes"}.get(len(nodes), f"all {len(nodes):,} nodes")
