"""`iosweep doctor`: find what would be wrong with a campaign before it begins. Changes nothing.

It checks this machine: configuration, tools, target, space and CPUs. In a Slurm job it checks the job's nodes, by the
agents that jobs use; with --slurm, from a login node, the profile, Slurm and nodes.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import sys
import tempfile
import time
import uuid
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import structs
from rich.table import Table
from rich.text import Text

import iosweep
from iosweep.commands import campaigns
from iosweep.commands.terminal import Printer, to_json, working
from iosweep.config import sweep_file
from iosweep.config.sweeps import Config
from iosweep.errors import (
    AllocationError,
    ConfigError,
    Obstacle,
    Refused,
    TargetError,
    TargetHangs,
    Unanswered,
    Unusable,
)
from iosweep.hostlist import alike, hosts
from iosweep.jobs import pending, submission
from iosweep.jobs.profile import Profile, read
from iosweep.node.cpus import named, overlap
from iosweep.node.facts import NodeFacts, collect_cpus
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import SLURM_LAUNCHERS, Launcher, launchers
from iosweep.plan.model import Plan, target_key
from iosweep.programs import spack
from iosweep.programs.spack import Built
from iosweep.run import allocation, preflight
from iosweep.run.agents import RemoteAgents
from iosweep.run.launch import Commands
from iosweep.run.preflight import Setup
from iosweep.run.progress import Lines
from iosweep.slurm import query
from iosweep.store.store import Store, name_taken
from iosweep.target import lock
from iosweep.target.agent import Agent
from iosweep.target.directory import check_claim
from iosweep.text import human_count, printable
from iosweep.tools import tools
from iosweep.units import human_size

PROFILE = Path("profiles/slurm")
#: Of directories that are removed in the end.
PREFIX = ".iosweep-doctor-"
#: Seconds that agents have to answer where no configuration says target.deadline.
ANSWER_S = 30.0
#: What to change where a check fails.
_CHANGES = {
    "nodes": "the checkout with its .venv, and the directory that snakemake runs in, must be the same on all nodes",
    "target": "mount it, or name another directory that you may write to: target.directory",
    "exclusion": "name a directory that all nodes share",
}


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
    Printer().print(grid)
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
    parser.add_argument("--lines", action="store_true", help=SUPPRESS)  # the job of --slurm prints them as JSON


def run(arguments: Namespace) -> int:
    configuration = arguments.configfile or (campaigns.CONFIG if campaigns.CONFIG.exists() else None)
    # the profile of the working directory, else that of the checkout
    places = (PROFILE, Path(iosweep.__file__).resolve().parents[2] / PROFILE)
    profile = arguments.profile or next((place for place in places if place.is_dir()), PROFILE)
    if arguments.slurm:
        with nullcontext() if arguments.json else working("asking Slurm ..."):
            found = list(_examine(profile, configuration, FREE_S if arguments.wait is None else arguments.wait))
        return show(list(dict.fromkeys(found)), arguments.json)
    if arguments.wait is not None:
        arguments.refuse("--wait needs --slurm")
    config, made, line = plan(configuration)
    if "SLURM_JOB_ID" in os.environ:
        lines = _job_nodes(config, made, profile)
    else:
        here = launchers(None)["mpiexec"]
        lines = [*(_campaign(config, made, here, "path") if config and made else ()), *_reserved_cpus(config)]
    if arguments.lines:
        print(msgspec.json.encode(lines).decode())
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
    counts = [str(a.nodes) for a in made.allocations if a.session == 1]
    used = ", ".join(sorted({point.tool for point in made.points}))
    seen = f"{made.campaign}, with {used} on {', '.join(counts)} {'node' if counts == ['1'] else 'nodes'}"
    return config, made, ok("configuration", f"{configuration}: {seen}")


def working_directory(submits: bool) -> list[Line]:
    """A line if Snakemake cannot work in this directory. `submits`: it sends jobs to Slurm."""
    obstacle = submission.working_directory(str(Path.cwd()), submits)
    return [wrong("directory", obstacle.what, obstacle.remedy)] if obstacle else []


def spack_tools(config: Config, provider: str) -> tuple[list[Line], Built | None]:
    """A line about the tools that Spack builds, and these tools if they are built; no line if tools are taken from
    PATH. `provider`: the profile's.
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
    return [ok("Spack", f"{names}, built in {place.file.parent}")], built


def _reserved_cpus(config: Config | None) -> list[Line]:
    """Which CPUs of this machine are reserved."""
    found = collect_cpus(config.settings.cpus.reserved if config else None).reserved
    lines = [warning("reserved CPUs", problem, "all of them are kept free") for problem in found.problems]
    if found.cpus is None and (problem := overlap((), found)):
        return [*lines, wrong("reserved CPUs", problem.issue, problem.change)]
    if not found.cpus and found.unasked and found.configured is None:
        why = f"nothing here says that CPUs are reserved, but {found.unasked}"
        return [*lines, unchecked("reserved CPUs", why, "ask as root, or name them with cpus.reserved")]
    said = "; ".join(f"{source.source}: {source.says}" for source in found.sources)
    return [*lines, ok("reserved CPUs", (named(found.cpus) if found.cpus else "none") + (f" ({said})" if said else ""))]


# What an allocation does before it measures


def _job_nodes(config: Config | None, made: Plan | None, directory: Path) -> list[Line]:
    """Check the nodes of our job. `directory`: of the profile."""
    try:
        profile = read(directory)
        if profile.launcher not in SLURM_LAUNCHERS:
            return [wrong("profile", f"{profile.file}: unknown launcher {profile.launcher}", "name one with --profile")]
        job = allocation.slurm_job()
        if config and made:
            launcher = SLURM_LAUNCHERS[profile.launcher]
            return _campaign(config, made, launcher, profile.tools, job, profile.license)
        with allocation.ending(job), RemoteAgents(job.id, job.hosts, ANSWER_S):
            return [ok("nodes", f"{hosts(job.hosts)} answered")]
    except Unusable as error:
        return [wrong("profile", error.obstacle.what, error.obstacle.remedy)]
    except AllocationError as error:
        return [wrong("nodes", str(error), _CHANGES["nodes"])]


def _campaign(
    config: Config,
    made: Plan,
    launcher: Launcher,
    provider: str,
    job: query.Job | None = None,
    license: str | None = None,
) -> list[Line]:
    """Lines about a campaign on this machine, or on the nodes of our job.

    The steps are those of an allocation of all points, with results that are removed in the end.
    """
    lines, built = spack_tools(config, provider)
    spack_built = not lines or built
    largest = max(made.allocations, key=lambda allocation: allocation.nodes)
    made = structs.replace(made, allocations=(structs.replace(largest, points=tuple(made.points)),))
    notes = io.StringIO()

    @contextmanager
    def check(name: str, change: str = "") -> Iterator[list[str]]:
        """Add lines about a step: why it failed, and what to change; else what it reported and the block has seen."""
        seen: list[str] = []
        try:
            with allocation.ending(job):
                yield seen
        except AllocationError as error:
            lines.append(wrong(name, str(error), change))
            seen.clear()
        texts = notes.getvalue().splitlines()
        notes.seek(0)
        notes.truncate()
        for text in texts:
            if text.startswith("missing: "):
                lines.append(wrong(name, f"{text.removeprefix('missing: ')}; its points would be missing", ""))
            elif job:
                seen.clear()
                lines.append(warning(name, text.removeprefix("note: "), ""))
            elif seen:  # on one machine, target and results are often on one disk
                seen.append(text.removeprefix("note: "))
        if seen:
            lines.append(ok(name, "; ".join(seen)))

    with (
        check("nodes", _CHANGES["nodes"]) if job else check("directory"),
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=Path.cwd(), ignore_cleanup_errors=True) as place,
        Agent(made.deadline) as agent,
        RemoteAgents(job.id, job.hosts, made.deadline) if job else nullcontext() as remote,
    ):
        results, reported = Path(place), Lines(notes, io.StringIO())
        # without locks, which have a line of their own
        unlocked = {name: structs.replace(target, lock=None) for name, target in made.targets.items()}
        lockless = structs.replace(made, targets=unlocked)
        (results / "plans").mkdir()
        (results / "plans" / f"{lockless.digest}.json").write_bytes(lockless.document())
        everything = made.allocations[0]
        setup = Setup(lockless, everything, Store(results), launcher, reported, agent, remote, built, job)
        commands = Commands(agent, launcher, results / preflight.SCRATCH, None, {})
        if spack_built:
            with check("tools") as seen:
                commands = preflight.find_programs(setup)
                seen += [f"{tool.path} ({tool.version})" for tool in commands.programs.values()]
        targets, nodes, uuid = {}, dict[str, NodeFacts](), Store(campaigns.RESULTS / made.campaign).uuid()
        for name, target in made.targets.items():
            with check("target", _CHANGES["target"]) as seen:
                found = targets[name] = preflight.find_target(setup, name, {})
                seen += [f"{target.directory} ({found['fstype']} {found['source']})"]
            if name not in targets:
                continue
            with check("target"):
                agent.call(check_claim, made.directory_on(name), uuid or "")
            key, problem = target_key(name, "lock"), preflight.lock_problem(agent, target.directory, target.lock)
            if remote:
                lines.append(_exclusion(license, target.lock, key, problem, remote))
            elif problem:
                lines.append(wrong("exclusion", f"{key}: {problem}", _CHANGES["exclusion"]))
            elif owner := lock.holder(lock.file_of(target.lock, found)):
                lines.append(warning("exclusion", f"{target.directory} is being measured by {owner}", "wait for it"))
        for first, names in preflight.sharing(targets).items():
            if [first] != names and first == names[0]:  # as where one of them is not mounted
                lines.append(ok("target", f"{', '.join(names)} are on one file system"))
        lines += _space(made)
        with check("nodes", _CHANGES["nodes"]) as seen:
            for name, facts in targets.items():
                nodes = preflight.inspect(setup, name, facts, commands)
            if remote and nodes:
                seen += [f"{hosts(remote.hosts)} have the same target, tools and working directory"]
        if nodes:
            with check("load") as seen:
                load, is_suspect = preflight.check_load(setup, nodes, preflight.LOAD_S)
                if is_suspect:
                    lines.append(warning("load", load, "end them, or measure when they have ended"))
                else:
                    seen += [load]
        if nodes and remote:
            with check("CPUs") as seen:
                pinned = preflight.pin(setup, nodes)
                usable = alike({host: f"{len(cpus)} usable" for host, cpus in pinned.usable_of.items()})
                seen += ["; ".join(usable)]
                commands = replace(commands, pinning=pinned)
            if commands.pinning and (ranks := [name for name in commands.programs if tools()[name].mpi]):
                with check("MPI") as seen:
                    preflight.check_launcher(setup, commands, ranks)
                    seen += [f"launcher {launcher.name} starts ranks of {', '.join(ranks)} on all nodes"]
    return lines


def _space(made: Plan) -> Iterator[Line]:
    """Whether the whole campaign fits each target, if the targets can be seen from here."""
    try:
        for name, room in preflight.check_space(made).items():
            if isinstance(room, Obstacle):
                yield wrong("space", f"the campaign {room.what}", room.remedy)
            else:
                on = f" on {name}" if name else ""
                yield ok("space", f"the campaign fits{on} ({human_size(room)} free)")
    except (Refused, TargetError, TargetHangs) as error:
        yield unchecked("space", str(error))


def _exclusion(license: str | None, directory: str | None, key: str, problem: str | None, remote: RemoteAgents) -> Line:
    """Whether a license or a lock keeps two campaigns apart. `directory`: target.lock, whose key is `key`; `problem`:
    why it is refused."""
    change = f"set {key} to a directory that all nodes share, or take all of a license in the profile"
    beside = "two campaigns of two users can measure one file system at the same time"
    if (by := lock.by_license(license or "", lock.Exclusion(False, beside))).enforced:
        return ok("exclusion", by.evidence)
    if not directory:
        return warning("exclusion", by.evidence, change)
    if problem:
        return wrong("exclusion", f"{key}: {problem}", _CHANGES["exclusion"])
    file = Path(directory) / f"{PREFIX}{uuid.uuid4().hex}.lock"
    try:
        with contextlib.closing(lock.take(file, lock.Owner(), "this test")):
            seen = remote.answers(lock.holder, str(file))
    except OSError as error:
        return wrong("exclusion", f"{directory}: {error.strerror}", f"name a directory where you may write: {key}")
    finally:
        file.unlink(missing_ok=True)
    if unseen := [host for host, owner in seen.items() if not isinstance(owner, lock.Owner)]:
        return warning("exclusion", f"{hosts(unseen)}: a lock in {key} is not seen there", change)
    return ok("exclusion", f"a lock in {key} is seen on all nodes")


# A cluster, from a login node

#: Commands of Slurm that are needed.
COMMANDS = ("sbatch", "srun", "squeue", "scontrol", "sinfo", "scancel")
#: Name of the job on the nodes, unique: it is cancelled by its name, because the number is unknown if sbatch does not
#: answer.
NAME = f"iosweep-doctor-{uuid.uuid4()}"
#: Its time limit in minutes; seconds to wait for free nodes, for its work, and between two questions to Slurm.
MINUTES, FREE_S, WORK_S, ASK_S = 5, 20.0, 240.0, 1.0
#: The file of its output, in a directory that is removed.
LOG = "job.log"


def _examine(directory: Path, configuration: Path | None, wait_s: float) -> Iterator[Line]:
    """Ask Slurm the questions that a run asks before it submits; then run the doctor on the nodes, in a job like the
    campaign's largest."""
    if absent := [name for name in COMMANDS if not shutil.which(name)]:
        change = "put Slurm's bin directory on PATH, or work on a login node; profiles/local measures this machine"
        yield wrong("commands", f"{', '.join(absent)} not on PATH", change)
        return
    try:
        yield ok("commands", f"{query.ask(['sbatch', '--version']).strip()}: {', '.join(COMMANDS)}")
        yield ok("controller", query.ask(["scontrol", "ping"]).strip().splitlines()[0])
    except Unanswered as error:
        change = "try again when `scontrol ping` says UP; tell the people who run the cluster"
        yield wrong("controller", str(error), change)
        yield unchecked("the rest", "the controller does not answer")
        return
    profile = None
    try:
        profile = read(directory)
    except Unusable as error:
        yield wrong("profile", error.obstacle.what, error.obstacle.remedy)
    if profile and not profile.slurm:
        yield wrong("profile", f"{profile.file} has no `executor: iosweep`", "name one for Slurm with --profile")
    elif profile and profile.problems:
        yield from (wrong("profile", str(replace(p, remedy="")), p.remedy) for p in profile.problems)
    elif profile:
        yield ok("profile", " ".join([f"{profile.file}:", f"launcher {profile.launcher}", *profile.options]))
    config, made, of_configuration = plan(configuration)
    yield from (of_configuration, *working_directory(submits=True))
    if profile is None or not profile.slurm or profile.problems:
        yield unchecked("the rest", "without a profile it is not known what a job asks for")
        return
    works = sorted(submission.planned_work(made, profile), key=lambda work: work.nodes) if made else []
    yield from (wrong("wall time", one.message, one.remedy) for work in works if (one := work.problem))
    if config:
        yield from spack_tools(config, profile.tools)[0]
    trials = submission.try_jobs(
        (work, work.minutes(), _sbatch(work.site, work.nodes, work.minutes(), os.devnull)) for work in works
    )
    if trials.fit:
        yield ok("submission", f"Slurm takes jobs of {', '.join(trials.fit)}")
    yield from (unchecked("submission", note) for note in trials.notes)
    yield from (wrong("submission", refusal, "") for refusal in trials.refusals)
    largest = works[-1].site if works else profile
    if trials.refusals:
        yield unchecked("nodes", "see submission")
        return
    command = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep", "doctor", "--profile", str(directory.absolute())]
    command += ["--configfile", str(configuration.absolute())] if configuration else []
    yield from _nodes(largest, works[-1].nodes if works else 1, command, wait_s)


def _sbatch(asks: Profile, nodes: int, minutes: int, log: str) -> list[str]:
    """The command of a job with the resources of the campaign's jobs."""
    return submission.sbatch(asks, nodes, minutes, NAME, NAME, log, str(Path.cwd()))


def _nodes(profile: Profile, count: int, command: Sequence[str], wait_s: float) -> list[Line]:
    """Checks on the nodes, by a job like the campaign's largest. `command`: the doctor there."""
    try:
        in_service, not_able = submission.usable(
            ",".join(partition["PartitionName"] for partition in submission.limits(profile.partition))
        )
    except Unanswered as error:
        return [unchecked("nodes", str(error))]
    able = min(count, in_service)  # a drained node does not come back by waiting
    if not able:
        return [unchecked("nodes", f"no node can be used now ({not_able or 'there is none'})")]
    try:
        lines = run_on_nodes(lambda log: _sbatch(profile, able, MINUTES, log), command, wait_s)
    except OSError as error:
        seen = f"{error.filename or Path.cwd()} cannot be written to: {error.strerror}"
        return [wrong("directory", seen, "work in a directory of yours that all nodes share")]
    if able < count and any(line.check == "nodes" and line.outcome == "ok" for line in lines):
        lines.append(unchecked("nodes", f"{count - able} of the {count} that are asked for ({not_able})"))
    return lines


def run_on_nodes(sbatch: Callable[[str], Sequence[str]], command: Sequence[str], wait_s: float) -> list[Line]:
    """Run the doctor in a job and return its lines. `sbatch`: path of the log -> the command that submits it.

    `wait_s`: for free nodes; then the job is cancelled. Raises OSError if the working directory cannot be written to.
    """
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=Path.cwd(), ignore_cleanup_errors=True) as place:
        log = Path(place) / LOG
        log.write_text("\n")  # a full disk is seen here
        try:
            number = query.submit(sbatch(str(log)), f"#!/bin/sh\nexec {shlex.join([*command, '--lines'])}\n")
            end = time.monotonic() + wait_s
            while (job := query.job(number)) and job.alive and job.state != "COMPLETING":
                late_s = time.monotonic() - end
                if job.state == "PENDING" and late_s > 0:
                    if change := pending.remedy(job.reason):
                        return [wrong("nodes", f"a job like the campaign's would wait forever ({job.reason})", change)]
                    why = f"no free nodes within {wait_s:.0f} s: {pending.explain(job)}"
                    return [unchecked("nodes", why, "try --wait 10min")]
                if late_s > WORK_S:
                    return [wrong("nodes", f"job {number} on {hosts(job.hosts)} does not end", _CHANGES["nodes"])]
                time.sleep(ASK_S)
        except Unanswered as error:
            change = "ask again when other jobs of yours are over" if submission.is_full(error.said) else ""
            return [unchecked("nodes", str(error), change)]
        finally:
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--quiet", f"--name={NAME}"])
        printed = log.read_text(encoding="utf-8", errors="replace").split("\n")
        if json := next((line for line in printed if line.startswith('[{"check"')), None):
            return msgspec.json.decode(json, type=list[Line])
        where = f" on {hosts(job.hosts)}" if job and job.hosts else ""
        last = next(filter(None, reversed(printed)), "it printed nothing")
        return [wrong("nodes", f"the job{where} did not reach its end: {last}", _CHANGES["nodes"])]
