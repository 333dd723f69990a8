"""`iosweep plan`: what a configuration will measure, as a table, JSON or commands."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
from rich.markup import escape
from rich.table import Table

from iosweep import collector
from iosweep.commands import campaigns
from iosweep.commands.terminal import Printer, prose, table
from iosweep.config import sweep_file
from iosweep.config.sections import unknown
from iosweep.config.sweeps import Config
from iosweep.errors import ConfigError, Obstacle, Problem, Refused, TargetError, TargetHangs, Unusable
from iosweep.jobs import profile, submission
from iosweep.jobs.profile import Profile
from iosweep.node import pinning
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.headline_groups import criteria_lines
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher
from iosweep.plan.model import Plan, Point
from iosweep.programs import spack
from iosweep.programs.path import sha256
from iosweep.report import system
from iosweep.run import target_check
from iosweep.run.repetition import tool_commands
from iosweep.store.store import Store, name_taken
from iosweep.target import identify
from iosweep.target.agent import Agent
from iosweep.target.directory import directory_of
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
        built = spack_tools(configured) if provider == "spack" else None
        fits = show(made, where, built, look=not missed)
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


# As a table

#: Time limit for each answer of the target, in seconds.
DEADLINE_S = 5.0


@dataclass(frozen=True)
class Where:
    """Where a plan will run. `named`: whether a profile or a launcher was named."""

    launcher: Launcher
    site: Profile
    named: bool

    def lacks(self, point: Point) -> str | None:
        """Why a point will be missing; None if it will not."""
        if not (lack := self.launcher.lacks(point)):
            return None
        if self.named:
            return f"will be missing: {lack[1]}"
        what = f"{point.nodes} nodes" if point.nodes > 1 else "client/server mode"
        return f"{what}: with --profile profiles/slurm only"


def show(made: Plan, where: Where, spack: Collection[str] | None = None, look: bool = True) -> bool:
    """Print the plan and what it takes; False if it cannot fit the target, as far as that can be seen from here.

    `spack`: names of the tools that Spack has built, None if tools are on PATH. `look`: whether to ask the target.
    """
    cost = forecast.of(made)
    printer = Printer(markup=True)
    printer.print(f"[bold]{made.campaign}[/bold]  target {escape(made.target.directory)}", _sweeps(made), "")
    printer.print(*_allocations(made, where), "", _cost(made, cost))
    for line in criteria_lines(made, target_check.fstype(made.target.directory) if made.accept and look else ""):
        prose(line)
    given = made.target.node_bandwidth
    printer.print(
        f"[dim]bytes of timed phases: at most {human_size(given or forecast.NODE_BANDWIDTH)}/s per node"
        f" ({'target.node_bandwidth' if given else 'assumed; target.node_bandwidth sets it'}) and"
        f" {forecast.LEAST_LATENCY_S * 1e6:.0f} us per I/O[/dim]",
    )
    for notes in (_trimmed(made, cost), _open_port(made, where), _missing(made, where, spack), _node_check(made)):
        for note in notes:
            prose(note)
    if not look:
        return True
    if way := open_way(made):
        prose(f"note: {way}")
    room = target_check.fits(made, cost, measures_here=not where.site.slurm)
    if room.outcome == "wrong":
        prose(str(Obstacle(room.seen, room.change)), sys.stderr)
    else:
        prose(f"space on the target: {room.seen if room.outcome == 'ok' else f'not checked ({room.seen})'}")
    return room.outcome != "wrong"


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
    planned = forecast.planned(made)
    for allocation in made.allocations:
        points, asks = planned[allocation.name], ""
        cost = forecast.of(made, {allocation.name: points})
        if where.site.slurm:
            own = where.site.at(allocation.nodes)
            asked = submission.minutes(cost.time_s, 1, own.limit_min)
            least = submission.least_minutes(made, allocation.name, points, asked)
            shorter = f", or {human_duration(60 * least)} to fit a gap" if least < asked else ""
            asks = f"; asks for {human_duration(60 * asked)}{shorter}" + escape(
                "".join(f" {each}" for each in own.options)
            )
        yield forecast.sentence(cost, allocation.nodes, word="") + asks


def _cost(made: Plan, cost: forecast.Forecast) -> Table:
    adaptive = any(p.repetitions.half_width is not None and p.repetitions.max > p.repetitions.min for p in made.points)
    more = " (more until intervals are narrow enough)" if adaptive else ""
    table = Table(box=None, pad_edge=False, show_header=False)
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


def _trimmed(made: Plan, cost: forecast.Forecast) -> Iterator[str]:
    """A note if limits.time leaves repetitions out."""
    limit = made.limits.time
    if limit is not None and cost.time_s > limit and made.limits.over_time == "trim":
        yield (
            f"limits.time {human_duration(limit)}: about {human_duration(cost.time_s)} are needed; repetitions that do"
            " not fit will be missing (limits.over_time: trim)"
        )


def _open_port(made: Plan, where: Where) -> Iterator[str]:
    """A note if a tool listens without a password, with a launcher that can start it."""
    if count := sum(map(where.launcher.opens_port, made.points)):
        yield (
            "open port: fio listens without a password on a free port of each node's address while the phases of"
            f" {human_count(count, 'point')} run (client_server); whoever reaches it can run commands as you"
        )


def _missing(made: Plan, where: Where, spack: Collection[str] | None) -> Iterator[str]:
    """Tools and nodes that points lack on this machine, with this launcher. Starts nothing."""
    if spack is not None and not spack:
        yield "tools: Spack builds them first; `snakemake tools` does that alone"
    there = " where nodes lack it, too" if where.site.slurm else ""
    for tool in (tools()[name] for name in sorted({point.tool for point in made.points})):
        if spack is None and not sha256(tool.name):
            yield f"will be missing{there}: {tool.program} is not on PATH here; get it with {tool.get_it}"
        elif spack and tool.name not in spack:
            yield f"will be missing: {tool.program} is not among the tools that Spack has built; add it to specs"
    yield from dict.fromkeys(lack for point in made.points if (lack := where.lacks(point)))


def _node_check(made: Plan) -> Iterator[str]:
    """A note on the number of nodes that the node check compares: each of its repetitions measures another node."""
    points = {id for sweep in made.sweeps if sweep.suite == system.SUITE for id in sweep.points}
    nodes = [min(a.nodes, p.repetitions.min) for a in made.allocations for p in a.points if p.id in points]
    if nodes and min(nodes) > 1:
        yield f"node check: compares {min(nodes)} nodes"
    elif nodes:
        yield "node check: of one node, compared with none; docs/suites.md says how more are checked"


def spack_tools(configured: Config) -> Collection[str]:
    """Tools that Spack has built; none before that. Raises ConfigError."""
    try:
        there = spack.read_built(spack.read(configured).file)
    except Unusable as error:
        raise ConfigError([configured.documents[0].problem(("tools",), str(error))]) from None
    return there.hashes() if there else ()


def open_way(made: Plan) -> str | None:
    """A note on a directory on the way to the target that everybody may write to; None if there is none."""
    try:
        with Agent(DEADLINE_S) as agent:
            return agent.call(identify.open_way, made.target.directory)
    except (Refused, TargetError, TargetHangs):
        return None  # space() says so
