"""Checks what a campaign needs on this machine: configuration, tools, target and space."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from iosweep.commands.doctor import judge_nodes, node_probe, spack_tools
from iosweep.config.sweeps import Config
from iosweep.errors import Obstacle, TargetError, TargetHangs
from iosweep.findings import Line, ok, unchecked, wrong
from iosweep.jobs import submission
from iosweep.plan import forecast
from iosweep.plan.launchers import Mpiexec, mpiexec
from iosweep.plan.model import Plan
from iosweep.programs import find
from iosweep.programs.find import Program, UnusableTool
from iosweep.run import target_check
from iosweep.target.agent import Agent
from iosweep.tools import tools

#: Time limit for a tool to print its version, and MPI's launcher.
_VERSION_S = 60.0


def plan(configuration: Path | None) -> tuple[Config | None, Plan | None, Line]:
    """The configuration and its plan, None if there is none or it is wrong, and a line about it."""
    from iosweep.config import sweep_file
    from iosweep.errors import ConfigError
    from iosweep.plan.expand import make_plan

    if configuration is None:
        why = "there is no config/sweep.yaml here: node counts, tools and target are not known"
        return None, None, unchecked("configuration", why, "name it with --configfile")
    try:
        made = make_plan(configured := sweep_file.read(configuration))
    except ConfigError as error:
        more = f" (and {len(error.problems) - 1} more)" if error.problems[1:] else ""
        line = wrong("configuration", f"{error.problems[0]}{more}", f"`iosweep plan {configuration}` shows all")
        return None, None, line
    used = sorted({point.tool for point in made.points})
    counts = [str(a.nodes) for a in made.allocations]
    nodes_word = "node" if counts == ["1"] else "nodes"
    seen = f"{configuration}: {made.campaign}, with {', '.join(used)} on {', '.join(counts)} {nodes_word}"
    return configured, made, ok("configuration", seen)


def working_directory(submits: bool) -> list[Line]:
    """A line if Snakemake cannot work in this directory. `submits`: it sends jobs to Slurm."""
    obstacle = submission.working_directory(str(Path.cwd()), submits)
    return [wrong("directory", *obstacle)] if obstacle else []


def look(configured: Config, made: Plan) -> list[Line]:
    """Tools, target and space on this machine. A child with a deadline touches the target."""
    # in a job, profiles/slurm applies, which builds tools with Spack
    built = spack_tools.look(configured, "spack" if "SLURM_JOB_ID" in os.environ else "path")
    lines = [built.line] if built else []
    if built is None or built.search:
        lines.append(_tools(made, built.search if built else None))
    seen = judge_nodes.target({socket.gethostname(): node_probe.target(made.target.directory)})
    return [*lines, seen, space(made) if seen.outcome == "ok" else unchecked("space", "see target")]


def _tools(made: Plan, search: str | None) -> Line:
    """Whether each tool of the configuration is here and runs."""
    used = [tools()[name] for name in sorted({point.tool for point in made.points})]
    found: dict[str, Program | UnusableTool] = {}
    try:
        with Agent(_VERSION_S) as agent:
            found = {tool.name: find.find(tool, agent.run, search) for tool in used}
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
