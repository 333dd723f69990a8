"""The plan for a person: `iosweep plan`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from iosweep import forecast, layout, plan, quota, room, target
from iosweep.agent import Agent, TargetError, TargetHangs
from iosweep.launch import Launcher
from iosweep.programs import sha256
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


def table(made: plan.Plan, launcher: Launcher) -> int:
    """Print the plan and what it takes; 1 if it cannot fit the target, as far as that can be seen from here."""
    cost = forecast.of(made)
    console = Console()
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
    console.print(f"[bold]{made.campaign}[/bold]  target {escape(made.target['directory'])}", highlight=False)
    console.print(points)
    console.print()
    for allocation in made.allocations:
        todo = {allocation.name: {p.id: p.repetitions.min for p in allocation.points}}
        console.print(forecast.sentence(forecast.of(made, todo), allocation.nodes, word=""), highlight=False)
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
    console.print()
    console.print(facts, highlight=False)
    given = made.target["node_bandwidth"]
    console.print(
        f"[dim]bytes of timed phases: at most {human_size(given or forecast.NODE_BANDWIDTH)}/s per node"
        f" ({'target.node_bandwidth' if given else 'assumed; target.node_bandwidth sets it'}) and"
        f" {forecast.LEAST_LATENCY_S * 1e6:.0f} us per I/O[/dim]",
        highlight=False,
    )
    for reason in _missing(made, launcher):
        print(f"will be missing: {reason}")
    return _fits(made, cost)


def _missing(made: plan.Plan, launcher: Launcher) -> list[str]:
    """What points lack on this machine, with this launcher. Starts nothing."""
    absent = [
        tool for tool in map(tools().get, sorted({p.tool for p in made.points})) if tool and not sha256(tool.name)
    ]
    lacks = [lack[1] for point in made.points if (lack := launcher.lacks(point))]
    return [f"{tool.program} is not on PATH; get it with {tool.get_it}" for tool in absent] + list(dict.fromkeys(lacks))


def _adaptive(made: plan.Plan) -> bool:
    return any(p.repetitions.half_width is not None and p.repetitions.max > p.repetitions.min for p in made.points)


def _fits(made: plan.Plan, cost: forecast.Forecast) -> int:
    """Compare with the target's space, where it can be seen from here."""
    try:
        with Agent(DEADLINE_S) as agent:
            facts = agent.call("identify", made.target["directory"])
            space = agent.call("space", made.target["directory"])
            quotas = agent.call("quota", made.target["directory"])
            directory = target.directory_of(made.target["directory"], made.campaign)
            present = agent.call("usage", directory)["bytes"]
    except (target.Refused, TargetError, TargetHangs) as error:
        print(f"space on the target: not checked ({error})")
        return 0
    wrong = room.too_much(space, present, cost.peak_bytes, cost.inodes, made.limits)
    wrong = wrong or quota.too_much(quotas, max(0, cost.peak_bytes - present), cost.inodes)
    if made.target["layout"]:
        wrong = layout.unsettable(facts["fstype"]) or wrong
    if not facts["writable"]:
        wrong = f"it cannot be written to by user id {os.getuid()}"
    if wrong:
        print(f"does not fit {made.target['directory']}: {wrong}", file=sys.stderr)
        return 1
    print(f"space on the target: fits ({human_size(space['free_bytes'])} free)")
    return 0


def csv_rows(made: plan.Plan) -> Iterator[dict[str, Any]]:
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


def commands(made: plan.Plan, launcher: Launcher) -> Iterator[tuple[str, int, list[str]]]:
    """(point, repetition, argv) of every step, as the runner starts it (with the path of the mpiexec that it finds).

    Where the launcher cannot start the point, the tool's own command.
    """
    directory = Path(target.directory_of(made.target["directory"], made.campaign))
    for point in made.points:
        tool, lacks = tools()[point.tool], launcher.lacks(point)
        for repetition in range(1, point.repetitions.min + 1):
            for step in point.steps():
                files = plan.file_set(point, step, repetition)
                seed = plan.seed_of(made.seed, point.id, repetition, step.name)
                argv = tool.argv(step, str(directory / files.directory), seed)
                yield point.id, repetition, argv if lacks else launcher.argv(argv, tool.mpi, step.tasks)
