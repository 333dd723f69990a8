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
from iosweep.commands.terminal import Printer, facts, prose, table
from iosweep.config import sweep_file
from iosweep.config.sweeps import Config
from iosweep.errors import ConfigError, Problem, Refused, TargetError, TargetHangs, Unusable
from iosweep.jobs import profile, submission
from iosweep.jobs.profile import Profile
from iosweep.node import pinning
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.headline_groups import criteria_lines
from iosweep.plan.launchers import Launcher, launchers
from iosweep.plan.model import Plan, Point
from iosweep.programs import spack
from iosweep.programs.programs import sha256
from iosweep.run import target_check
from iosweep.run.repetition import tool_commands
from iosweep.store.store import Store, name_taken
from iosweep.target.directory import directory_of
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


def _where(profiled: Path | None) -> Where:
    """Raises ConfigError, Unusable."""
    site = profile.read(profiled) if profiled else Profile(given={"launcher": "mpiexec"}, slurm=False)
    if site.problems:
        raise ConfigError(list(site.problems))
    return Where(launchers("slurm" if site.slurm else None)[site.launcher], site, profiled is not None)


def run(arguments: Namespace) -> int:
    config = sweep_file.read(arguments.config, campaigns.overrides(arguments))
    made = make_plan(config)
    try:
        where = _where(arguments.profile)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    if obstacle := submission.working_directory(str(Path.cwd()), where.site.slurm):
        raise ConfigError([Problem(str(arguments.config), 1, "", str(obstacle))])
    problems = submission.problems(config, made, submission.planned_work(made, where.site))
    fits = True
    if arguments.json:
        document = {"plan": msgspec.json.decode(made.content()), "forecast": asdict(forecast.forecast_of(made))}
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    elif arguments.commands:
        _print_commands(made, where)
    else:
        absent = None if where.site.slurm else target_check.problem(config)
        if absent and not where.profiled:
            elsewhere = f"for a cluster: `iosweep plan --profile profiles/slurm {shlex.quote(str(arguments.config))}`"
            absent = replace(absent, message=f"{absent.message} ({elsewhere})")
        problems += [absent] if absent else []
        fits = _print_table(config, made, where, ask_target=not absent)
    store = Store(campaigns.RESULTS / made.campaign)
    if taken := name_taken(store, made, store.repetitions()):
        problems.append(config.documents[0].problem(("campaign",), taken))
    if problems:  # below the plan, which shows the large sweeps
        raise ConfigError(problems)
    return int(not fits)


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
    directory = directory_of(made.target.directory, made.campaign)
    hosts = [f"NODE{k}" for k in range(1, 1 + max(point.nodes for point in made.points))]  # Slurm says which
    for point in made.points:
        tool, lacks = tools()[point.tool], launcher.lacks(point)
        for repetition in range(1, point.repetitions.min + 1):
            for step in point.steps:
                argv = tool_commands(made, point, step, repetition, directory)[0]
                if not lacks:
                    argv = launcher.argv(argv, tool.mpi, step.tasks, hosts=hosts[: point.nodes])
                yield point.id, repetition, argv


# As a table


def _print_table(config: Config, made: Plan, where: Where, ask_target: bool) -> bool:
    """Print the plan with its time and space; False if it does not fit the target that is seen from here."""
    cost = forecast.forecast_of(made)
    printer = Printer(markup=True)
    printer.print(f"[bold]{made.campaign}[/bold]  target {escape(made.target.directory)}", _sweeps(made), "")
    printer.print(*_allocations(made, where), "", _cost(made, cost))
    for line in criteria_lines(made, target_check.fstype(made.target.directory) if made.accept and ask_target else ""):
        prose(line)
    given = made.target.node_bandwidth
    printer.print(
        f"[dim]bytes of timed phases: at most {human_size(given or forecast.NODE_BANDWIDTH)}/s per node"
        f" ({'target.node_bandwidth' if given else 'assumed; target.node_bandwidth sets it'}) and"
        f" {forecast.LEAST_LATENCY_S * 1e6:.0f} us per I/O[/dim]",
    )
    for note in (*_notes(made, where, cost), *_missing(config, made, where)):
        prose(note)
    if not ask_target:
        return True
    try:
        prose(f"space on the target: fits ({human_size(target_check.check_space(made, cost))} free)")
    except Unusable as error:
        prose(str(error), sys.stderr)
        return False
    except (Refused, TargetError, TargetHangs) as error:
        prose(f"space on the target: not checked ({error})")
    return True


def _sweeps(made: Plan) -> Table:
    sweeps = table("sweep", "tool", "points", "repetitions", "phases", wrapped=["sweep", "tool", "phases"])
    points = {point.id: point for point in made.points}
    for sweep in made.sweeps:
        counts = sorted({points[point].repetitions.min for point in sweep.points})
        confirm = max(points[point].repetitions.confirm for point in sweep.points)
        name = f"{sweep.name} (scaled)" if sweep.scaled else sweep.name
        most = "up to {} (ramp)" if sweep.ramp else "{}"
        repetitions = most.format(", ".join(map(str, counts))) + (f" + {confirm} of the best" if confirm else "")
        sweeps.add_row(name, sweep.tool, str(len(sweep.points)), repetitions, " ".join(sweep.phases))
    return sweeps


def _allocations(made: Plan, where: Where) -> Iterator[str]:
    for work in submission.planned_work(made, where.site):
        asks = ""
        if where.site.slurm:
            options = escape("".join(f" {option}" for option in work.site.options))
            asks = f"; asks for {human_duration(60 * work.minutes())}{options}"
        yield forecast.sentence(work.cost, work.nodes, word="") + asks


def _cost(made: Plan, cost: forecast.Forecast) -> Table:
    adaptive = any(p.repetitions.half_width is not None and p.repetitions.max > p.repetitions.min for p in made.points)
    more = " (more until intervals are narrow enough)" if adaptive else ""
    table = facts()
    table.add_row("points", f"{cost.points:,}")
    table.add_row("repetitions", f"{cost.repetitions:,}{more}")
    table.add_row("allocations", f"{cost.allocations}")
    table.add_row("time", human_duration(cost.time_s))
    table.add_row("node-hours", f"{cost.node_hours:.2f}")
    table.add_row("written", cost.writes())
    table.add_row("read", f"{'about ' if cost.bytes_read else ''}{human_size(cost.bytes_read)}")
    table.add_row("peak space", human_size(cost.peak_bytes))
    table.add_row("inodes", f"{cost.inodes:,}")
    table.add_row("memory per node", f"{human_size(cost.memory_per_node_bytes)} of buffers")
    return table


def _notes(made: Plan, where: Where, cost: forecast.Forecast) -> Iterator[str]:
    """Notes: repetitions that limits.time leaves out."""
    limit = made.limits.time
    if limit is not None and cost.time_s > limit and made.limits.over_time == "trim":
        needed = f"about {human_duration(cost.time_s)} are needed"
        rest = "repetitions that do not fit will be missing (limits.over_time: trim)"
        yield f"limits.time {human_duration(limit)}: {needed}; {rest}"


def _missing(config: Config, made: Plan, where: Where) -> Iterator[str]:
    """Notes: tools and nodes that points lack with this launcher. Starts no tool. Raises ConfigError."""
    built = None
    if (config.settings.tools.provider or where.site.tools) == "spack":
        try:
            built = spack.read_built(spack.read(config).file)
        except Unusable as error:
            raise ConfigError([config.documents[0].problem(("tools",), str(error))]) from None
        if not built:
            yield "tools: Spack builds them first; `snakemake tools` does that alone"
    there = " where nodes lack it, too" if where.site.slurm else ""
    for tool in (tools()[name] for name in sorted({point.tool for point in made.points})):
        if built and tool.name not in built.hashes():
            yield f"will be missing: {tool.program} is not among the tools that Spack has built; add it to specs"
        elif (config.settings.tools.provider or where.site.tools) == "path" and not sha256(tool.name):
            yield f"will be missing{there}: {tool.program} is not on PATH here; get it with {tool.get_it}"
    yield from dict.fromkeys(lack for point in made.points if (lack := where.lacks(point)))
