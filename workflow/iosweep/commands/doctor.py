"""`iosweep doctor`: find what would be wrong with a campaign before it begins. Changes nothing.

It checks this machine: configuration, tools, target, space and CPUs. In a Slurm job it checks the job's nodes, by the
agents that jobs use; with --slurm, from a login node, the profile, Slurm and nodes (doctor_cluster.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
import uuid
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

import iosweep
from iosweep.commands import campaigns
from iosweep.commands.terminal import to_json
from iosweep.config import sweep_file
from iosweep.config.sweeps import Config
from iosweep.errors import AllocationError, ConfigError, Conflict, Obstacle, Refused, TargetError, TargetHangs, Unusable
from iosweep.hostlist import alike, hosts
from iosweep.jobs import submission
from iosweep.jobs.profile import Profile, read
from iosweep.node import pinning
from iosweep.node.cpus import named, overlap
from iosweep.node.facts import collect_cpus
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.plan.model import Plan
from iosweep.programs import programs, spack
from iosweep.programs.programs import Mpiexec, Program, mpiexec
from iosweep.run import agents as node_agent
from iosweep.run import allocation, target_check
from iosweep.run import nodes as run_nodes
from iosweep.run.agents import NodeAnswer, RemoteAgents
from iosweep.run.launch import Commands, needs_mpiexec
from iosweep.store.store import Store, name_taken
from iosweep.target import identify, lock
from iosweep.target.agent import Agent
from iosweep.text import human_count, printable
from iosweep.tools import Tool, tools
from iosweep.units import human_size

PROFILE = Path("profiles/slurm")
#: Time limits in seconds: for a tool or MPI's launcher to print its version; for an agent's answer, without a
#: configuration.
VERSION_S, ANSWER_S = 60.0, 30.0
_ON_ALL_NODES = "the checkout with its .venv, and the directory that snakemake runs in, must be the same on all nodes"


# Lines of the answer

Outcome = Literal["ok", "warning", "wrong", "not checked"]
_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red", "not checked": "bright_black"}


@dataclass(frozen=True)
class Line:
    """A check and its outcome. `wrong`: the campaign cannot run; `warning`: it can, but may be slow, or measure
    something else than intended. `change`: what to do; empty if nothing."""

    check: str
    outcome: Outcome
    seen: str
    change: str = ""


def ok(check: str, seen: str) -> Line:
    return Line(check, "ok", printable(seen))


def warning(check: str, seen: str, change: str) -> Line:
    return Line(check, "warning", printable(seen), printable(change))


def wrong(check: str, seen: str, change: str) -> Line:
    return Line(check, "wrong", printable(seen), printable(change))


def unchecked(check: str, why: str, change: str = "") -> Line:
    return Line(check, "not checked", printable(why), printable(change))


def show(lines: Sequence[Line], as_json: bool) -> int:
    """Print the lines, and the number of those that are not ok. Returns 1 if something is wrong, else 0."""
    counts: Counter[str] = Counter(line.outcome for line in lines)
    if as_json:
        sys.stdout.write(to_json({"wrong": bool(counts["wrong"]), "lines": [asdict(line) for line in lines]}))
        return int(bool(counts["wrong"]))
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines:
        seen = Text(line.seen)
        if line.change:
            seen.append(f"\n-> {line.change}", style="" if line.outcome == "ok" else _STYLES[line.outcome])
        grid.add_row(Text(line.outcome, style=_STYLES[line.outcome]), line.check, seen)
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(grid)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
    many = {"wrong": "wrong", "warning": "warnings", "not checked": "not checked"}
    parts = [human_count(counts[name], name, plural) for name, plural in many.items() if counts[name]]
    print(f"\n{', '.join(parts) or 'all is well'}")
    return int(bool(counts["wrong"]))


# The command


def add_arguments(parser: ArgumentParser) -> None:
    configuration = f"the configuration; default: {campaigns.CONFIG}, if it exists"
    parser.add_argument("--slurm", action="store_true", help="check the profile, Slurm and nodes, from a login node")
    parser.add_argument("--profile", type=Path, metavar="DIR", help=f"for Slurm; default: {PROFILE}")
    parser.add_argument("--configfile", type=Path, metavar="FILE", help=configuration)
    wait = "with --slurm: how long to wait for free nodes, for example 10min; default: 20s"
    parser.add_argument("--wait", type=campaigns.duration, metavar="TIME", help=wait)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--lines", type=Path, help=SUPPRESS)  # in the job of --slurm: the file for its lines


def run(arguments: Namespace) -> int:
    configuration = arguments.configfile or (campaigns.CONFIG if campaigns.CONFIG.exists() else None)
    # the profile of the working directory, else that of the checkout
    places = (PROFILE, Path(iosweep.__file__).resolve().parents[2] / PROFILE)
    profile = arguments.profile or next((place for place in places if place.is_dir()), PROFILE)
    if arguments.slurm:
        from iosweep.commands import doctor_cluster

        return doctor_cluster.examine(profile, configuration, arguments.wait, arguments.json)
    if arguments.wait is not None:
        arguments.refuse("--wait needs --slurm")
    config, made, line = plan(configuration)
    if "SLURM_JOB_ID" in os.environ:
        lines = job_nodes(config, made, profile)
    else:
        lines = [*(_campaign(config, made) if config and made else ()), *_reserved_cpus(config)]
    if arguments.lines:
        written = arguments.lines.with_suffix(".new")
        written.write_bytes(msgspec.json.encode(lines))
        written.rename(arguments.lines)
        return 0
    return show([line, *working_directory(submits=False), *lines], arguments.json)


def plan(configuration: Path | None) -> tuple[Config | None, Plan | None, Line]:
    """The configuration and its plan, None if there is none or it is wrong, and a line about it."""
    if configuration is None:
        why = "there is no config/sweep.yaml here: node counts, tools and target are not known"
        return None, None, unchecked("configuration", why, "name it with --configfile")
    try:
        made = make_plan(config := sweep_file.read(configuration))
    except ConfigError as error:
        more = f" (and {len(error.problems) - 1} more)" if error.problems[1:] else ""
        line = wrong("configuration", f"{error.problems[0]}{more}", f"`iosweep plan {configuration}` shows all")
        return None, None, line
    store = Store(campaigns.RESULTS / made.campaign)
    if taken := name_taken(store, made, store.repetitions()):
        problem = config.documents[0].problem(("campaign",), taken)
        return None, None, wrong("configuration", str(problem), "give this campaign another name")
    counts = [str(a.nodes) for a in made.allocations]
    used = ", ".join(tool.name for tool in _used(made))
    seen = f"{made.campaign}, with {used} on {', '.join(counts)} {'node' if counts == ['1'] else 'nodes'}"
    return config, made, ok("configuration", f"{configuration}: {seen}")


def working_directory(submits: bool) -> list[Line]:
    """A line if Snakemake cannot work in this directory. `submits`: it sends jobs to Slurm."""
    obstacle = submission.working_directory(str(Path.cwd()), submits)
    return [wrong("directory", obstacle.what, obstacle.remedy)] if obstacle else []


def spack_tools(config: Config, provider: str) -> tuple[list[Line], str | None]:
    """A line about the tools that Spack builds, and the directories where nodes find them; no line if tools are taken
    from PATH. `provider`: the profile's.
    """
    if (config.settings.tools.provider or provider) != "spack":
        return [], None
    try:
        place = spack.read(config)
        built = spack.read_built(place.file)
    except ConfigError as error:
        return [wrong("Spack", str(error.problems[0]), "fix it")], None
    except Unusable as error:
        return [wrong("Spack", error.obstacle.what, error.obstacle.remedy)], None
    if built is None:
        why = f"{place.file} is not there: the first run builds the tools, which may take an hour"
        return [unchecked("Spack", why, "`snakemake tools` builds them alone")], None
    versions = ((name, (tool.version or "").removeprefix(f"{name}-")) for name, tool in built.content.tools.items())
    names = ", ".join(f"{name} {version}" for name, version in sorted(versions))
    return [ok("Spack", printable(f"{names}, built in {place.file.parent}"))], built.search


def _used(made: Plan) -> list[Tool]:
    return [tools()[name] for name in sorted({point.tool for point in made.points})]


def judge_tools(found: Mapping[str, Program | Obstacle], launcher: Mpiexec | Obstacle | None) -> Line:
    """Whether the tools can be used. `launcher`: mpiexec, or its obstacle; None if ranks need none. Pure."""
    if lacking := [one for one in (*found.values(), launcher) if isinstance(one, Obstacle)]:
        change = "; ".join(dict.fromkeys(one.remedy for one in lacking if one.remedy))
        seen = "; ".join(one.what for one in lacking)
        return wrong("tools", f"{seen}: their points would be missing", change or "see what is wrong with it")
    return ok("tools", ", ".join(f"{one.path} ({one.version})" for one in found.values() if isinstance(one, Program)))


def _space(made: Plan) -> Line:
    """Whether the whole campaign fits the target, if the target can be seen from here."""
    try:
        free_bytes = target_check.check_space(made, forecast.forecast_of(made))
    except Unusable as error:
        return wrong("space", f"the campaign {error.obstacle.what}", error.obstacle.remedy)
    except (Refused, TargetError, TargetHangs) as error:
        return unchecked("space", str(error))
    return ok("space", f"the campaign fits ({human_size(free_bytes)} free)")


# This machine


def _campaign(config: Config, made: Plan) -> list[Line]:
    """Lines about tools, target and space. The agent, with its deadline, touches the target."""
    lines, search = spack_tools(config, "path")
    if search or not lines:
        used = _used(made)
        try:
            with Agent(VERSION_S) as agent:
                found = {tool.name: programs.find(tool, agent.run, search) for tool in used}
        except (TargetError, TargetHangs) as error:
            lines.append(unchecked("tools", str(error)))
        else:
            ranks = not search and any(tool.mpi for tool in used)
            lines.append(judge_tools(found, mpiexec(search) if ranks else None))
    if problem := target_check.problem(config):
        change = problem.remedy or "mount it, or name another directory: target.directory"
        return [*lines, wrong("target", problem.message, change), unchecked("space", "see target")]
    directory = made.target.directory
    return [*lines, ok("target", f"{directory} ({target_check.fstype(directory)})"), _space(made)]


def _reserved_cpus(config: Config | None) -> list[Line]:
    """Which CPUs of this machine are reserved."""
    found = collect_cpus(config.settings.cpus.reserved if config else None).reserved
    lines = [warning("reserved CPUs", problem, "all of them are kept free") for problem in found.problems]
    if found.cpus is None and (problem := overlap((), found)):
        return [*lines, wrong("reserved CPUs", problem.seen, problem.change)]
    if not found.cpus and found.unasked and found.configured is None:
        why = f"nothing here says that CPUs are reserved, but {found.unasked}"
        return [*lines, unchecked("reserved CPUs", why, "ask as root, or name them with cpus.reserved")]
    said = "; ".join(f"{one.source}: {one.says}" for one in found.sources)
    return [*lines, ok("reserved CPUs", (named(found.cpus) if found.cpus else "none") + (f" ({said})" if said else ""))]


# In a job: its nodes


def job_nodes(config: Config | None, made: Plan | None, directory: Path) -> list[Line]:
    """Check the nodes of our job. `directory`: of the profile. Nothing stays on the nodes, nor here."""
    try:
        profile = read(directory)
        if profile.launcher not in SLURM_LAUNCHERS:
            return [wrong("profile", f"{profile.file}: unknown launcher {profile.launcher}", "name one with --profile")]
        job = allocation.slurm_job()
        with RemoteAgents(job.id, job.hosts, made.target.deadline if made else ANSWER_S) as remote:
            lines = [ok("nodes", f"{hosts(job.hosts)} answered"), _shared_directory(remote)]
            return lines + (_campaign_on_nodes(config, made, profile, job.id, remote) if config and made else [])
    except Unusable as error:
        return [wrong("profile", error.obstacle.what, error.obstacle.remedy)]
    except (AllocationError, Refused, TargetError, TargetHangs) as error:
        return [wrong("nodes", str(error), _ON_ALL_NODES)]


def _shared_directory(remote: RemoteAgents) -> Line:
    """Whether the nodes see the working directory."""
    here = Path.cwd()
    try:
        with tempfile.NamedTemporaryFile(prefix=".iosweep-doctor-", dir=here) as file:
            file.write(uuid.uuid4().bytes)
            file.flush()
            answers = remote.answers(programs.hash_of, file.name)
            expected = programs.hash_of(file.name)
    except OSError as error:
        return wrong("directory", f"{here} cannot be written to: {error.strerror}", "work in another")
    if away := {host: "a file that was made there is not seen" for host, a in answers.items() if a != expected}:
        return wrong("directory", f"{here} is not shared: {'; '.join(alike(away))}", _ON_ALL_NODES)
    return ok("directory", f"{here}: the same on {_all(remote.hosts)}")


def _campaign_on_nodes(config: Config, made: Plan, profile: Profile, job: str, remote: RemoteAgents) -> list[Line]:
    """Lines about tools, target, space, CPUs, MPI and exclusion on the nodes."""
    launcher = SLURM_LAUNCHERS[profile.launcher]
    lines, search = spack_tools(config, profile.tools)
    used = _used(made) if search or not lines else []
    with Agent(VERSION_S) as agent:
        found = {tool.name: programs.find(tool, agent.run, search) for tool in used}
        hydra = needs_mpiexec(launcher, used, search)
        lock_problem = target_check.lock_problem(agent, made.target.directory, made.target.lock)
        usable = {name: one for name, one in found.items() if isinstance(one, Program)}
        versions = {name: (one.path, one.version) for name, one in usable.items()}
        answers = remote.answers(node_agent.facts, made.target.directory, versions, made.cpus.reserved)
        target = judge_target(answers)
        lines += [target, _space(made) if target.outcome == "ok" else unchecked("space", "see target")]
        nodes = {host: answer for host, answer in answers.items() if isinstance(answer, NodeAnswer)}
        if used:
            hashes = {name: one.sha256 for name, one in usable.items()}
            lines.append(judge_builds(judge_tools(found, hydra), hashes, nodes))
        if len(nodes) == len(answers):
            line, pinned = judge_cpus(made, nodes)
            lines.append(line)
            ranks = [tool for tool in used if tool.mpi]
            well = all(line.outcome == "ok" for line in lines if line.check == "tools")
            if pinned and ranks and well and not isinstance(hydra, Obstacle):
                with tempfile.TemporaryDirectory(prefix=".iosweep-doctor-", dir=Path.cwd()) as place:
                    scratch = Path(place) / allocation.SCRATCH
                    commands = Commands(agent, launcher, scratch, hydra, usable, job, remote, pinned)
                    lines.append(_start_ranks(commands, ranks, remote.hosts))
    return [*lines, _exclusion(profile.license, made.target.lock, lock_problem, remote)]


def _start_ranks(commands: Commands, used: Sequence[Tool], names: Sequence[str]) -> Line:
    """Whether the launcher starts ranks of the tools on all nodes, as one program."""
    if failures := [why for tool in used if (why := commands.no_start(tool))]:
        return wrong("MPI", "; ".join(failures), "")
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
    """Whether all nodes have the tools of the first node, with their libraries. `here`: the line of the first node."""
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
    """Whether ranks can be bound to CPUs that are not reserved, one to each; without a `Pinning` if they cannot."""
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


def _exclusion(license: str | None, directory: str | None, problem: str | None, remote: RemoteAgents) -> Line:
    """Whether a license or a lock keeps two campaigns apart. `directory`: target.lock; `problem`: why it is refused."""
    change = "set target.lock to a directory that all nodes share, or take all of a license in the profile"
    beside = "two campaigns of two users can measure one file system at the same time"
    if (by := lock.by_license(license or "", lock.Exclusion(False, beside))).enforced:
        return ok("exclusion", by.evidence)
    if not directory:
        return warning("exclusion", by.evidence, change)
    if problem:
        return wrong("exclusion", f"target.lock: {problem}", "name a directory that all nodes share")
    file = Path(directory) / f".iosweep-doctor-{uuid.uuid4().hex}.lock"
    try:
        with contextlib.closing(lock.take(file, lock.Owner(), "this test")):
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
