"""The plan for a person: `iosweep plan`."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from iosweep.commands.plain import Printer, prose
from iosweep.config.models import unknown
from iosweep.config.sweeps import Config
from iosweep.errors import ConfigError, Problem, Refused, TargetError, TargetHangs, Unusable
from iosweep.jobs import profile, submission
from iosweep.plan import forecast
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher
from iosweep.plan.model import Plan, Point
from iosweep.programs.find import sha256
from iosweep.programs.spack import asked, built
from iosweep.report import node_check
from iosweep.run.repetition import tool_commands
from iosweep.target import free_space, marker, quota, striping
from iosweep.target.accounts import user
from iosweep.target.agent import Agent
from iosweep.target.handle import Place
from iosweep.text import human_count
from iosweep.tools import tools
from iosweep.units import human_duration, human_size

CSV = (
    "point",
    "allocation",
    "tool",
    "phases",
    "nodes",
    "repetitions",
    "sweeps",
    "phase_time_s",
    "options",
    "time_s",
    "bytes_written",
    "bytes_read",
)

#: `iosweep plan` waits no longer for the target.
DEADLINE_S = 5.0


@dataclass(frozen=True)
class Where:
    """Where a plan is to run. `site`: of a cluster. `told`: whether a profile or a launcher was named."""

    launcher: Launcher
    site: submission.Site | None
    told: bool

    def lacks(self, point: Point) -> str | None:
        """Why a point will be missing; None if it will not."""
        if not (lack := self.launcher.lacks(point)):
            return None
        if self.told:
            return f"will be missing: {lack[1]}"
        what = f"{point.nodes} nodes" if point.nodes > 1 else "client/server mode"
        return f"{what}: with --profile profiles/slurm only"


def where(chosen: profile.Profile | None, name: str | None) -> Where:
    """By a profile, and the name of a launcher, which counts more. Raises ConfigError."""
    if chosen is None:
        return Where((SLURM_LAUNCHERS | LAUNCHERS)[name or "mpiexec"], None, told=name is not None)
    if chosen.problems:
        raise ConfigError(list(chosen.problems))
    known = SLURM_LAUNCHERS if chosen.slurm else LAUNCHERS
    if (name := name or chosen.launcher) not in known:
        raise ConfigError([Problem(chosen.file, 1, "launcher", unknown("launcher", name, known))])
    site = submission.Site(chosen.limit_min, chosen.licence) if chosen.slurm else None
    return Where(known[name], site, told=True)


def from_spack(configured: Config) -> Collection[str]:
    """Tools that Spack has built; none before that. Raises ConfigError."""
    where = asked.read(configured).place
    try:
        there = built.read(where.file)
    except Unusable as error:
        raise ConfigError([configured.documents[0].problem(("tools",), str(error))]) from None
    return there.hashes() if there else ()


def table(made: Plan, place: Where, from_spack: Collection[str] | None = None, look: bool = True) -> int:
    """Print the plan and what it takes; 1 if it cannot fit the target, as far as that can be seen from here.

    `from_spack`: tools that Spack has built, where they come from it. `look`: whether to look at the target's space.
    """
    cost = forecast.of(made)
    console = Printer()
    points = Table("sweep", "tool", "points", "repetitions", "phases", box=None, pad_edge=False, header_style="bold")
    shared = {p.id: p for p in made.points}
    for sweep in made.sweeps:
        repetitions = {shared[p].repetitions.min for p in sweep["points"]}
        name = f"{sweep['name']} (scaled)" if sweep["scaled"] else sweep["name"]
        points.add_row(
            name,
            sweep["tool"],
            str(len(sweep["points"])),
            ", ".join(map(str, sorted(repetitions))),
            " ".join(sweep["phases"]),
        )
    console.print(f"[bold]{made.campaign}[/bold]  target {escape(made.target['directory'])}")
    console.print(points)
    console.print("")
    for allocation in made.allocations:
        todo = {allocation.name: {p.id: p.repetitions.min for p in allocation.points}}
        takes = forecast.of(made, todo)
        asks = ""
        if place.site:
            asks = f"; asks for {human_duration(60 * submission.minutes(takes.time_s, 1, place.site.limit_min))}"
        console.print(forecast.sentence(takes, allocation.nodes, word="") + asks)
    facts = Table(box=None, pad_edge=False, show_header=False)
    for name, value in (
        ("points", f"{cost.points:,}"),
        (
            "repetitions",
            f"{cost.repetitions:,}" + (" (more where an interval must become narrow)" if _adaptive(made) else ""),
        ),
        ("allocations", f"{cost.allocations}"),
        ("time", human_duration(cost.time_s)),
        ("node-hours", f"{cost.node_hours:.2f}"),
        ("written", f"up to {human_size(cost.bytes_written)}"),
        ("read", f"up to {human_size(cost.bytes_read)}"),
        ("peak space", human_size(cost.peak_bytes)),
        ("inodes", f"{cost.inodes:,}"),
        ("memory per node", f"{human_size(cost.memory_per_node_bytes)} of buffers"),
    ):
        facts.add_row(name, value)
    console.print("")
    console.print(facts)
    given = made.target["node_bandwidth"]
    console.print(
        f"[dim]bytes of timed phases: at most {human_size(given or forecast.NODE_BANDWIDTH)}/s per node"
        f" ({'target.node_bandwidth' if given else 'assumed; target.node_bandwidth sets it'}) and"
        f" {forecast.LEAST_LATENCY_S * 1e6:.0f} us per I/O[/dim]",
    )
    for sentence in [
        *_trimmed(made, cost),
        *_open_port(made, place),
        *_missing(made, place, from_spack),
        *_checked(made),
    ]:
        prose(sentence)
    if not look:
        return 0
    for sentence in trusted(made):
        prose(sentence)
    fits, said = room_for(made, cost)
    prose(f"space on the target: {said}" if fits is not False else said, sys.stderr if fits is False else None)
    return int(fits is False)


def _trimmed(made: Plan, cost: forecast.Forecast) -> list[str]:
    """That limits.time leaves something out, where it may."""
    limit = made.limits["time"]
    if limit is None or cost.time_s <= limit or made.limits["over_time"] != "trim":
        return []
    return [
        f"limits.time {human_duration(limit)}: about {human_duration(cost.time_s)} are needed; repetitions that do not"
        " fit will be missing (limits.over_time: trim)"
    ]


def _open_port(made: Plan, place: Where) -> list[str]:
    """That a tool listens without a password, where the launcher can start it."""
    count = sum(map(place.launcher.opens_port, made.points))
    if not count:
        return []
    return [
        f"open port: fio listens without a password on a free port of each node's address while the phases of"
        f" {human_count(count, 'point')} run (client_server); whoever reaches it can run commands as you"
    ]


def _missing(made: Plan, place: Where, from_spack: Collection[str] | None) -> list[str]:
    """What points lack on this machine, with this launcher. Starts nothing."""
    used = [tools()[name] for name in sorted({p.tool for p in made.points})]
    there = " where nodes lack it, too" if place.site else ""
    if from_spack is None:
        absent = [
            f"will be missing{there}: {tool.program} is not on PATH here; get it with {tool.get_it}"
            for tool in used
            if not sha256(tool.name)
        ]
    elif not from_spack:
        absent = ["tools: Spack builds them first; `snakemake tools` does that alone"]
    else:
        absent = [
            f"will be missing: {tool.program} is not among the tools that Spack has built; add it to specs"
            for tool in used
            if tool.name not in from_spack
        ]
    lacks = dict.fromkeys(lack for point in made.points if (lack := place.lacks(point)))
    return [*absent, *lacks]


def _checked(made: Plan) -> list[str]:
    """How many nodes the node check compares: each repetition is another's turn."""
    points = {id for sweep in made.sweeps if sweep["suite"] == node_check.SUITE for id in sweep["points"]}
    turns = [min(a.nodes, p.repetitions.min) for a in made.allocations for p in a.points if p.id in points]
    if not turns:
        return []
    if min(turns) > 1:
        return [f"node check: compares {min(turns)} nodes"]
    return ["node check: of one node, compared with none; docs/suites.md says how more are checked"]


def _adaptive(made: Plan) -> bool:
    return any(p.repetitions.half_width is not None and p.repetitions.max > p.repetitions.min for p in made.points)


def trusted(made: Plan) -> list[str]:
    """Whom target.trust_other_writers trusts, as far as it can be seen from here."""
    if not made.target["trust_other_writers"]:
        return []
    try:
        with Agent(DEADLINE_S) as agent:
            found = agent.call("look", made.target["directory"]).get("trusted")
    except (Refused, TargetError, TargetHangs):
        return []  # room_for says so
    if not found:
        return []
    return [
        f"target.trust_other_writers: {'; '.join(found)}, and could have any file overwritten that you may write to"
        " while tools run"
    ]


def room_for(made: Plan, cost: forecast.Forecast) -> tuple[bool | None, str]:
    """Whether a plan fits the target's space, and what was seen or is wrong; None where it cannot be seen from here."""
    try:
        with Agent(DEADLINE_S) as agent:
            facts = agent.call("identify", made.target["directory"])
            space = agent.call("space", made.target["directory"])
            quotas = agent.call("quota", made.target["directory"])
            directory = marker.directory_of(made.target["directory"], made.campaign)
            found = agent.call("owner_of", directory)
            present = agent.call("usage", Place(directory, str(found.get("uuid"))))["bytes"] if found else 0
    except (Refused, TargetError, TargetHangs) as error:
        return None, f"not checked ({error})"
    wrong = free_space.too_much(space, present, cost.peak_bytes, cost.inodes, made.limits)
    wrong = wrong or quota.too_much(quotas, max(0, cost.peak_bytes - present), cost.inodes)
    if made.target["layout"]:
        wrong = striping.unsettable(facts["fstype"]) or wrong
    if not facts["writable"]:
        return False, f"{made.target['directory']} cannot be written to by {user(os.getuid())}"
    if wrong:
        return False, f"does not fit {made.target['directory']}: {wrong}"
    return True, f"fits ({human_size(space['free_bytes'])} free)"


def csv_rows(made: Plan) -> Iterator[dict[str, Any]]:
    """One row per point, with the cost of all its repetitions."""
    for allocation in made.allocations:
        for point in allocation.points:
            cost = forecast.repetition_cost(point, made.target["node_bandwidth"]).times(point.repetitions.min)
            yield {
                "point": point.id,
                "allocation": allocation.name,
                "tool": point.tool,
                "phases": " ".join(point.phases),
                "nodes": point.nodes,
                "repetitions": point.repetitions.min,
                "sweeps": " ".join(point.sweeps),
                "phase_time_s": point.phase_time_s,
                "options": " ".join(f"{name}={value}" for name, value in point.options.items()),
                "time_s": round(cost.time_s, 1),
                "bytes_written": cost.bytes_written,
                "bytes_read": cost.bytes_read,
            }


def commands(made: Plan, launcher: Launcher) -> Iterator[tuple[str, int, list[str]]]:
    """(point, repetition, argv) of every step, as the runner starts it (with the path of the mpiexec that it finds).

    Where the launcher cannot start the point, the tool's own command. Of a tool that is started once on every node, the
    first node's.
    """
    directory = marker.directory_of(made.target["directory"], made.campaign)
    hosts = [f"NODE{k}" for k in range(1, 1 + max(point.nodes for point in made.points))]  # Slurm says which
    for point in made.points:
        tool, lacks = tools()[point.tool], launcher.lacks(point)
        for repetition in range(1, point.repetitions.min + 1):
            for step in point.steps():
                argv = tool_commands(made, point, step, repetition, directory)[0]
                if not lacks:
                    argv = launcher.argv(argv, tool.mpi, step.tasks, hosts=hosts[: point.nodes])
                yield point.id, repetition, argv
