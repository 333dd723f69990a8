"""`iosweep plan`: what a configuration will measure, as a table, JSON or commands."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import msgspec

from iosweep import collector
from iosweep.commands import campaigns, plan_table
from iosweep.commands.plan_table import Where
from iosweep.config import sweep_file
from iosweep.config.sections import unknown
from iosweep.errors import ConfigError, Problem, Unusable
from iosweep.jobs import profile, submission
from iosweep.jobs.profile import Profile
from iosweep.node import pinning
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher
from iosweep.plan.model import Plan
from iosweep.run import target_check
from iosweep.run.repetition import tool_commands
from iosweep.store.store import Store, name_taken
from iosweep.target.directory import directory_of
from iosweep.tools import tools


def add_arguments(parser: ArgumentParser) -> None:
    default = campaigns.CONFIG
    parser.add_argument("config", nargs="?", type=Path, default=default, help=f"the configuration; default: {default}")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the whole plan and its forecast as JSON")
    form.add_argument("--commands", action="store_true", help="print the exact command of every phase of every point")
    parser.add_argument(
        "--profile", type=Path, metavar="DIR", help="the profile that will run it, for example profiles/slurm"
    )
    parser.add_argument(
        "--launcher",
        choices=sorted(SLURM_LAUNCHERS | LAUNCHERS),
        help="how MPI ranks are started; default: the profile's launcher, or mpiexec",
    )
    campaigns.add_overrides(parser)


@collector.paused()
def run(arguments: Namespace) -> int:
    configured = sweep_file.read(arguments.config, campaigns.overrides(arguments))
    made = make_plan(configured)
    problems = forecast.over_limits(made, configured)
    try:
        chosen = profile.read(arguments.profile) if arguments.profile else Profile(slurm=False)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    where = _where(chosen, arguments.launcher, arguments.profile is not None)
    file = str(arguments.config)
    if wrong := submission.open_port(made.points, where.launcher, os.geteuid()):
        problems.append(Problem(file, 1, "allow_open_port", wrong))
    if where.site.slurm:
        problems += submission.too_long(made, {p.id for p in made.points if not where.lacks(p)}, where.site)
    if obstacle := submission.working_directory(str(Path.cwd()), where.site.slurm):
        raise ConfigError([Problem(file, 1, "", str(obstacle)), *problems])
    fits = True
    if arguments.json:
        document = {"plan": msgspec.json.decode(made.content()), "forecast": asdict(forecast.of(made))}
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    elif arguments.commands:
        _print_commands(made, where)
    else:
        missed = None if where.site.slurm else target_check.problem(configured)
        if missed and not where.named:
            elsewhere = (
                f"If the campaign runs on a cluster, use `iosweep plan --profile profiles/slurm {shlex.quote(file)}`."
            )
            said = missed.message if missed.message.endswith("?") else f"{missed.message}."
            missed = replace(missed, message=f"{said} {elsewhere}")
        problems += [missed] if missed else []
        provider = configured.tools.provider or chosen.tools
        spack = plan_table.spack_tools(configured) if provider == "spack" else None
        fits = plan_table.show(made, where, spack, look=not missed)
    store = Store(campaigns.RESULTS / made.campaign)
    if taken := name_taken(store, made, store.repetitions()):
        problems.append(configured.documents[0].problem(("campaign",), taken))
    if problems:  # below the plan, which shows what takes so much
        raise ConfigError(problems)
    return int(not fits)


def _where(chosen: Profile, name: str | None, profiled: bool) -> Where:
    """By a profile, and the name of a launcher, which has precedence. Raises ConfigError."""
    if chosen.problems:
        raise ConfigError(list(chosen.problems))
    known = SLURM_LAUNCHERS if chosen.slurm else LAUNCHERS if profiled else SLURM_LAUNCHERS | LAUNCHERS
    launcher = name or (chosen.launcher if profiled else "mpiexec")
    if launcher not in known:
        raise ConfigError([Problem(chosen.file, 1, "launcher", unknown("launcher", launcher, known))])
    return Where(known[launcher], chosen, named=profiled or name is not None)


def _print_commands(made: Plan, where: Where) -> None:
    notes: Mapping[str, str] = {
        point.id: f" on each of {point.nodes} nodes, with another directory and another seed"
        for point in made.points
        if point.nodes > 1 and not tools()[point.tool].mpi
    } | {point.id: f": {lack}" for point in made.points if (lack := where.lacks(point))}
    if pinning.mode(made.cpus, where.launcher.allocated) in pinning.BINDS:
        print("# options that bind ranks and workers to CPUs are added on the nodes, where the usable CPUs are known")
    for point, repetition, argv in commands(made, where.launcher):
        print(f"# {point} r{repetition}{notes.get(point, '')}\n{shlex.join(argv)}")


def commands(made: Plan, launcher: Launcher) -> Iterator[tuple[str, int, list[str]]]:
    """(point, repetition, argv) of every step, as the runner starts it (with the path of the mpiexec that it finds).

    Where the launcher cannot start the point, the tool's own command. Of a tool that is started once on every node, the
    first node's.
    """
    directory = directory_of(made.target.directory, made.campaign)
    hosts = [f"NODE{k}" for k in range(1, 1 + max(point.nodes for point in made.points))]  # Slurm says which
    for point in made.points:
        tool, lacks = tools()[point.tool], launcher.lacks(point)
        for repetition in range(1, point.repetitions.min + 1):
            for step in point.steps():
                argv = tool_commands(made, point, step, repetition, directory)[0]
                if not lacks:
                    argv = launcher.argv(argv, tool.mpi, step.tasks, hosts=hosts[: point.nodes])
                yield point.id, repetition, argv
