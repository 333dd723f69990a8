"""`iosweep plan`: what a configuration will measure, as a table, JSON or commands."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
from rich.markup import escape
from rich.table import Table

from iosweep.commands import campaigns
from iosweep.commands.terminal import Printer, prose, table
from iosweep.config import sweep_file
from iosweep.errors import ConfigError, Obstacle, Problem, Refused, TargetError, TargetHangs, Unusable
from iosweep.jobs import profile, submission
from iosweep.jobs.profile import Profile
from iosweep.node import pinning
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.headline_groups import foreseen
from iosweep.plan.launchers import Launcher, launchers
from iosweep.plan.model import Plan, Point
from iosweep.run import preflight
from iosweep.run.repetition import tool_commands
from iosweep.store.store import Store, left_out, name_taken
from iosweep.text import human_count
from iosweep.tools import tools
from iosweep.units import human_duration, human_size


def add_arguments(parser: ArgumentParser) -> None:
    default = campaigns.CONFIG
    parser.add_argument("config", nargs="?", type=Path, default=default, help=f"the configuration; default: {default}")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the whole plan and its forecast as JSON")
    form.add_argument("--commands", action="store_true", help="print the exact command of every phase of every point")
    parser.add_argument(
        "--profile", type=Path, metavar="DIR", help="the profile that will run it, for example profiles/slurm"
    )
    campaigns.add_overrides(parser)


@dataclass(frozen=True)
class Where:
    """Where a plan will run. `profiled`: whether a profile was named."""

    launcher: Launcher
    site: Profile
    profiled: bool

    def lacks(self, point: Point) -> str | None:
        """Why a point will be missing; None if it will not."""
        if not (lack := self.launcher.lacks(point)):
            return None
        if self.profiled:
            return f"will be missing: {lack[1]}"
        return f"{point.nodes} nodes: with --profile profiles/slurm only"


def run(arguments: Namespace) -> int:
    config = sweep_file.read(arguments.config, campaigns.overrides(arguments))
    made = make_plan(config)
    profiled = arguments.profile is not None
    try:
        site = profile.read(arguments.profile) if profiled else Profile(given={"launcher": "mpiexec"}, slurm=False)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    if site.problems:
        raise ConfigError(list(site.problems))
    where = Where(launchers("slurm" if site.slurm else None)[site.launcher], site, profiled)
    if obstacle := submission.working_directory(str(Path.cwd()), site.slurm):
        raise ConfigError([Problem(str(arguments.config), 1, "", str(obstacle))])
    problems = submission.problems(config, made, submission.planned_work(made, site))
    store = Store(campaigns.RESULTS / made.campaign)
    taken = name_taken(store, made, stored := store.repetitions())
    if arguments.json:
        document = {"plan": msgspec.json.decode(made.content()), "forecast": asdict(forecast.forecast_of(made))}
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    elif arguments.commands:
        _print_commands(made, where)
    else:
        absent = [] if site.slurm else preflight.find_target_problems(config, None if taken else store.uuid())
        if absent and not profiled:
            elsewhere = f"for a cluster: `iosweep plan --profile profiles/slurm {shlex.quote(str(arguments.config))}`"
            absent = [replace(problem, message=f"{problem.message} ({elsewhere})") for problem in absent]
        problems += absent
        _print_table(made, where)
        for line in left_out(made, stored):
            prose(line)
        if not absent:
            try:
                for name, room in preflight.check_space(made).items():
                    if isinstance(room, Obstacle):
                        problems.append(config.target_problem(name, room.key, str(room)))
                    else:
                        prose(f"space on {f'the target {name}'.rstrip()}: fits ({human_size(room)} free)")
            except (Refused, TargetError, TargetHangs) as error:
                prose(f"space on the target: not checked ({error})")
    if taken:
        problems.append(config.documents[0].problem(("campaign",), taken))
    if problems:  # below the plan, which shows the large sweeps
        raise ConfigError(problems)
    return 0


# As commands


def _print_commands(made: Plan, where: Where) -> None:
    if pinning.mode(made.cpus, where.launcher.allocated) in pinning.BINDS:
        print("# options that bind ranks and workers to CPUs are added on the nodes, where the usable CPUs are known")
    points = {point.id: point for point in made.points}
    for name, repetition, argv in commands(made, where.launcher):
        point, note = points[name], ""
        if lack := where.lacks(point):
            note = f": {lack}"
        elif point.nodes > 1 and not tools()[point.tool].mpi:
            note = f" on each of {point.nodes} nodes, with another directory and another seed"
        print(f"# {name} r{repetition}{note}\n{shlex.join(argv)}")


def commands(made: Plan, launcher: Launcher) -> Iterator[tuple[str, int, list[str]]]:
    """(point, repetition, argv) of every step, as the runner starts it (with the path of the mpiexec that it finds).

    If the launcher cannot start the point, the command without a launcher; if the tool is started on every node, the
    command of the first node.
    """
    hosts = [f"NODE{k}" for k in range(1, 1 + max(point.nodes for point in made.points))]  # Slurm says which
    for point in made.points:
        tool, lacks = tools()[point.tool], launcher.lacks(point)
        rule = point.repetitions
        for repetition in (n for session in range(1, rule.sessions + 1) for n in rule.selecting(session, rule.min)):
            for step in point.steps:
                argv = tool_commands(made, point, step, repetition, made.directory_on(point.target))[0]
                if not lacks:
                    argv = launcher.argv(argv, tool.mpi, step.tasks, hosts=hosts[: point.nodes])
                yield point.id, repetition, argv


# As a table


def _print_table(made: Plan, where: Where) -> None:
    """Print the plan with its time and space."""
    cost, printer = forecast.forecast_of(made), Printer(markup=True)
    printer.print(f"[bold]{made.campaign}[/bold]  target {escape(made.on)}", _sweeps(made), "")
    for work in submission.planned_work(made, where.site):
        asks = ""
        if where.site.slurm:
            options = escape("".join(f" {option}" for option in work.site.options))
            asks = f"; asks for {human_duration(60 * work.minutes())}{options}"
        printer.print(forecast.sentence(work.cost, work.allocation.title, word="") + asks)
    if len(made.allocations) > 1:
        printer.print(forecast.sentence(cost, "in all", word="") + f", {cost.node_hours:.2f} node-hours")
    files = human_count(cost.inodes, "file")
    printer.print(f"on the target at once: {human_size(cost.peak_bytes)} in {files}")
    if cost.write_bytes_per_s_per_node and cost.assumed:
        assumed = "is an assumption, which target.node_bandwidth replaces; a slower target is written less"
        printer.print(f"[dim]{human_size(forecast.NODE_BANDWIDTH)}/s {assumed}[/dim]")
    for line in foreseen(made):
        prose(line)
    for lack in dict.fromkeys(lack for point in made.points if (lack := where.lacks(point))):
        prose(lack)


def _sweeps(made: Plan) -> Table:
    sweeps = table("sweep", "tool", "points", "repetitions", "phases", wrapped=["sweep", "tool", "phases"])
    points = {point.id: point for point in made.points}
    for sweep in made.sweeps:
        rules = [points[point].repetitions for point in sweep.points]
        ranges = sorted({(rule.min, rule.min if rule.half_width is None else rule.max) for rule in rules})
        counts = [f"{least} to {most}" if most > least else f"{least}" for least, most in ranges]
        confirm = max(rule.confirm for rule in rules)
        name = f"{sweep.name} (scaled)" if sweep.scaled else sweep.name
        ramp = "up to {} (ramp)" if sweep.ramp else "{}"
        repetitions = ramp.format(", ".join(counts)) + (f" + {confirm} of the best" if confirm else "")
        if sweep.repetitions.sessions > 1:
            repetitions += f", in each of {sweep.repetitions.sessions} sessions"
        sweeps.add_row(name, sweep.tool, str(len(sweep.points)), repetitions, " ".join(sweep.phases))
    return sweeps
