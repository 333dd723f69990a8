"""`iosweep doctor`: find what would be wrong with a campaign before it begins. Changes nothing.

It checks this machine: configuration, tools, target, space and CPUs. In a Slurm job it checks the job's nodes
(doctor_nodes.py), and with --slurm, from a login node, the profile, Slurm and nodes (doctor_cluster.py).
"""

from __future__ import annotations

import os
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

import iosweep
from iosweep.commands import campaigns
from iosweep.config import sweep_file
from iosweep.config.sweeps import Config
from iosweep.errors import ConfigError, Obstacle, TargetError, TargetHangs, Unusable
from iosweep.findings import Line, ok, show, unchecked, warning, wrong
from iosweep.jobs import submission
from iosweep.node.cpus import named, overlap
from iosweep.node.facts import collect_cpus
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import Mpiexec, mpiexec
from iosweep.plan.model import Plan
from iosweep.programs import path as programs
from iosweep.programs import spack
from iosweep.programs.path import Program, UnusableTool
from iosweep.run import target_check
from iosweep.store.store import Store, name_taken
from iosweep.target.agent import Agent
from iosweep.text import printable
from iosweep.tools import tools

PROFILE = Path("profiles/slurm")


def add_arguments(parser: ArgumentParser) -> None:
    configuration = f"the configuration; default: {campaigns.CONFIG}, if it exists"
    parser.add_argument("--slurm", action="store_true", help="check the profile, Slurm and nodes, from a login node")
    parser.add_argument("--profile", type=Path, metavar="DIR", help=f"for Slurm; default: {PROFILE}")
    parser.add_argument("--configfile", type=Path, metavar="FILE", help=configuration)
    wait = "with --slurm: how long to wait for free nodes, for example 10min; default: 20s"
    parser.add_argument("--wait", type=campaigns.duration, metavar="TIME", help=wait)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--lines", type=Path, help=SUPPRESS)  # in the job of --slurm: where its findings go


def run(arguments: Namespace) -> int:
    configuration = arguments.configfile or (campaigns.CONFIG if campaigns.CONFIG.exists() else None)
    # where the working directory has no profile, that of the checkout
    places = (PROFILE, Path(iosweep.__file__).resolve().parents[2] / PROFILE)
    profile = arguments.profile or next((place for place in places if place.is_dir()), PROFILE)
    if arguments.slurm:
        from iosweep.commands import doctor_cluster

        return doctor_cluster.doctor(profile, configuration, arguments.wait, arguments.json)
    if arguments.wait is not None:
        arguments.refuse("--wait needs --slurm")
    configured, made, line = plan(configuration)
    if "SLURM_JOB_ID" in os.environ:
        from iosweep.commands import doctor_nodes

        found = doctor_nodes.check(configured, made, profile)
    else:
        found = this_machine(configured, made)
    if arguments.lines:
        written = arguments.lines.with_suffix(".new")
        written.write_bytes(msgspec.json.encode(found))
        written.rename(arguments.lines)
        return 0
    return show([line, *working_directory(submits=False), *found], arguments.json)


#: Time limit for a tool to print its version, and MPI's launcher.
VERSION_S = 60.0


def this_machine(configured: Config | None, made: Plan | None) -> list[Line]:
    """What a campaign needs on this machine: tools, target and space, which a child with a deadline touches; CPUs."""
    return [*(_campaign(configured, made) if configured and made else ()), *_cpus(configured)]


def _cpus(configured: Config | None) -> list[Line]:
    """Which CPUs of this machine are reserved."""
    found = collect_cpus(configured.cpus.reserved if configured else None).reserved
    lines = [warning("reserved CPUs", problem, "all of them are kept free") for problem in found.problems]
    if found.cpus is None and (problem := overlap((), found)):
        return [*lines, wrong("reserved CPUs", problem.seen, problem.change)]
    said = "; ".join(f"{one.source}: {one.says}" for one in found.sources)
    if found.cpus:
        return [*lines, ok("reserved CPUs", f"{named(found.cpus)} ({said})")]
    if found.unasked and found.configured is None:
        why = f"nothing here says that CPUs are reserved, but {found.unasked}"
        return [*lines, unchecked("reserved CPUs", why, "ask as root, or name them with cpus.reserved")]
    return [*lines, ok("reserved CPUs", f"none ({said})" if said else "none")]


def plan(configuration: Path | None) -> tuple[Config | None, Plan | None, Line]:
    """The configuration and its plan, None if there is none or it is wrong, and a line about it."""
    if configuration is None:
        why = "there is no config/sweep.yaml here: node counts, tools and target are not known"
        return None, None, unchecked("configuration", why, "name it with --configfile")
    try:
        made = make_plan(configured := sweep_file.read(configuration))
    except ConfigError as error:
        more = f" (and {len(error.problems) - 1} more)" if error.problems[1:] else ""
        line = wrong("configuration", f"{error.problems[0]}{more}", f"`iosweep plan {configuration}` shows all")
        return None, None, line
    store = Store(campaigns.RESULTS / made.campaign)
    if taken := name_taken(store, made, store.repetitions()):
        problem = configured.documents[0].problem(("campaign",), taken)
        return None, None, wrong("configuration", str(problem), "give this campaign a name of its own")
    used = sorted({point.tool for point in made.points})
    counts = [str(a.nodes) for a in made.allocations]
    nodes_word = "node" if counts == ["1"] else "nodes"
    seen = f"{configuration}: {made.campaign}, with {', '.join(used)} on {', '.join(counts)} {nodes_word}"
    return configured, made, ok("configuration", seen)


def working_directory(submits: bool) -> list[Line]:
    """A line if Snakemake cannot work in this directory. `submits`: it sends jobs to Slurm."""
    obstacle = submission.working_directory(str(Path.cwd()), submits)
    return [wrong("directory", *obstacle)] if obstacle else []


def _campaign(configured: Config, made: Plan) -> list[Line]:
    built = look_for_tools(configured, "path")
    lines = [built.line] if built else []
    if built is None or built.search:
        lines.append(_tools(made, built.search if built else None))
    if problem := target_check.problem(configured):
        change = problem.remedy or "mount it, or name another directory: target.directory"
        return [*lines, wrong("target", problem.message, change), unchecked("space", "see target")]
    return [
        *lines,
        ok("target", f"{made.target.directory} ({target_check.fstype(made.target.directory)})"),
        space(made),
    ]


def _tools(made: Plan, search: str | None) -> Line:
    """Whether each tool of the configuration is here and runs."""
    used = [tools()[name] for name in sorted({point.tool for point in made.points})]
    found: dict[str, Program | UnusableTool] = {}
    try:
        with Agent(VERSION_S) as agent:
            found = {tool.name: programs.find(tool, agent.run, search) for tool in used}
    except (TargetError, TargetHangs) as error:
        return unchecked("tools", str(error))
    return judged(found, mpiexec(search) if any(tool.mpi for tool in used) and search is None else None)


def judged(found: Mapping[str, Program | UnusableTool], launcher: Mpiexec | Obstacle | None) -> Line:
    """`launcher`: of MPI ranks, or why there is none; None where none is needed, or Slurm's is. Pure."""
    lacking = [one for one in (*found.values(), launcher) if isinstance(one, UnusableTool | Obstacle)]
    if lacking:
        change = "; ".join(dict.fromkeys(one.remedy for one in lacking if one.remedy))
        seen = "; ".join(one.what for one in lacking)
        return wrong("tools", f"{seen}: their points would be missing", change or "see what is wrong with it")
    usable = (one for one in found.values() if isinstance(one, Program))
    return ok("tools", ", ".join(f"{one.path} ({one.version})" for one in usable))


def space(made: Plan) -> Line:
    """Whether all of it fits the target, as far as it is seen from here."""
    room = target_check.fits(made, forecast.of(made))
    return room if room.outcome == "not checked" else replace(room, seen=f"the campaign {room.seen}")


@dataclass(frozen=True)
class SpackTools:
    """`search`: where the nodes find them, None if they are not built yet."""

    line: Line
    search: str | None = None


def look_for_tools(configured: Config, provider: str) -> SpackTools | None:
    """The tools of a configuration; None if they are on PATH. `provider`: the profile's."""
    if (configured.tools.provider or provider) != "spack":
        return None
    try:
        place = spack.read(configured)
        there = spack.read_built(place.file)
    except ConfigError as error:
        return SpackTools(wrong("Spack", str(error.problems[0]), "fix it"))
    except Unusable as error:
        return SpackTools(wrong("Spack", *error.obstacle))
    if there is None:
        why = f"{place.file} is not there: the first run builds the tools, which may take an hour"
        return SpackTools(unchecked("Spack", why, "`snakemake tools` builds them alone"))
    tools = there.content.tools
    names = ", ".join(f"{name} {(tool.version or '').removeprefix(f'{name}-')}" for name, tool in sorted(tools.items()))
    return SpackTools(ok("Spack", printable(f"{names}, built in {place.file.parent}")), there.search)
