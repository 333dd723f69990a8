"""What does it cost to look at masks, and at the node, while a tool runs?

The same command of fio runs through the runner's own parts (launch.py, agent.py), with masks and all
that is read of the node, and without either, two runs to a pair, whose order alternates. And the CPU time that the
agent says it has taken for looking, at more processes than this machine could run: they sleep; and what it takes to
watch the node.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

import campaigns
from fidelity import BAND, SWEEP
from iosweep.commands import plan
from iosweep.node import pinning, procfs
from iosweep.node.facts import collect
from iosweep.node.load import Surroundings
from iosweep.node.monitor import NodeWatch
from iosweep.node.process import Completed
from iosweep.node.ranks import ExpectedProcesses, Looks
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Plan
from iosweep.programs.programs import Program
from iosweep.run.launch import Commands
from iosweep.target import identify
from iosweep.target.agent import Agent
from iosweep.tools import tools
from measure import Row, Size, interval

#: One I/O after the other: there is no queue that would hide it if a worker had to wait for its CPU.
OPTIONS = {**SWEEP["options"], "ioengine": "psync"}
SHARE = 0.01
#: Workers, and seconds that they sleep. The fewer the seconds, the dearer are the three looks that there must be.
SLEEPERS = ((2, 1), (16, 1), (16, 5), (192, 1), (192, 5))
#: Without a budget: so many workers for so short a time measure nothing.
_TOO_MANY = (192, 1)
#: Seconds for which the node is watched.
_WATCHED_S = 10


#: Children that wait until all end at once.
_SLEEP = """
import os, sys, time
waiting, ends = os.pipe()
for _ in range(int(sys.argv[1])):
    if not os.fork():
        os.close(ends)
        os.read(waiting, 1)
        os._exit(0)
time.sleep(float(sys.argv[2]))
"""


def run(size: Size, work: Path) -> Iterator[Row]:
    """A row for each length of phase, and for each number of workers."""
    for phase_time, pairs in (("1s", 2 * size.fidelity_rounds), ("5s", size.long_pairs)):
        if pairs:
            yield _pairs(work, phase_time, pairs)
    with Agent() as agent:
        for count, time_s in SLEEPERS[: size.sleepers]:
            yield _share(agent, count, time_s, size.rounds)
        for cpus in ((), tuple(map(str, sorted(os.sched_getaffinity(0))))):
            yield _watching(work, cpus, size.rounds)


def _pairs(work: Path, phase_time: str, pairs: int) -> Row:
    sweep = {**SWEEP, "axes": {"queue_depth": [1]}, "options": OPTIONS, "phase_time": phase_time, "repetitions": pairs}
    made = campaigns.planned(work, f"sampling-{phase_time}", [sweep])
    once = campaigns.planned(work, made.campaign, [{**sweep, "repetitions": 1}])
    campaigns.measure(once, work / "results" / made.campaign, campaigns.Silent())  # prepares the files
    ratios, costs, looks = [], [], []
    with Agent() as agent, _Blind() as blind:
        plain, looked = _commands(made, blind, work), _commands(made, agent, work)
        for _, number, argv in plan.commands(made, LAUNCHERS["direct"]):
            found = {}
            for commands in (plain, looked) if number % 2 else (looked, plain):
                done = _run(commands, made, argv)
                found[commands is looked] = json.loads(done.stdout)["jobs"][0]["read"]["iops"]
                if done.cpus:
                    (seen,) = done.cpus.values()
                    costs.append(seen.cost_s / seen.wall_s)
                    looks.append(seen.looks)
            ratios.append(found[True] / found[False])
    assert len(costs) == pairs, "one of each pair is looked at"
    ratio, low, high = interval(ratios)
    return Row(
        "sampling", "IOPS looked at / not", f"{pairs} pairs of {phase_time}, at least {min(looks)} looks",
        f"95 % CI {low:.3f} to {high:.3f}; {max(costs):.2%} of a CPU at most", ratio=f"{ratio:.3f}",
        budget=f"{BAND[0]} to {BAND[1]}", met=BAND[0] <= low and high <= BAND[1],
    )  # fmt: skip


class _Blind(Agent):
    """An agent that watches neither the node nor the ranks."""

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float,
        directory: Path | None = None,
        cpus: Collection[int] | None = None,
        *_: Any,
        **__: Any,
    ) -> Completed:
        return super().run(argv, timeout_s, directory, cpus)


def _commands(made: Plan, agent: Agent, work: Path) -> Commands:
    """Starts commands, and reads masks unless the agent is blind."""
    directory = made.targets[""].directory
    facts = collect(agent.call(identify.identify, directory), agent.call(identify.read_space, directory))
    fio = Program(shutil.which("fio") or "fio", "", "", ())
    started = Commands(agent, LAUNCHERS["direct"], work / "scratch", None, {"fio": fio})
    settings = structs.replace(made.cpus, pinning="verify")
    return replace(started, pinning=pinning.decide(settings, {facts.host: facts}, slurm=False))


def _run(commands: Commands, made: Plan, argv: list[str]) -> Completed:
    assert commands.pinning
    (point,) = made.points
    (step,) = point.steps
    done, _ = commands.run(tools()["fio"], [argv], step.tasks, 60, tuple(commands.pinning.nodes), step)
    if done.exit_code:
        raise RuntimeError(f"exit code {done.exit_code} of {' '.join(argv)}\n{done.stderr.decode()}")
    return done


def _share(agent: Agent, count: int, time_s: int, rounds: int) -> Row:
    """What the agent takes to look at so many processes."""
    argv = [sys.executable, "-c", _SLEEP, str(count), str(time_s)]
    wanted = ExpectedProcesses(sys.executable, count, ranks=False, time_s=float(time_s))
    seen: list[Looks] = []
    for _ in range(rounds):
        done = agent.run(argv, 60 + time_s, expected=wanted, around=Surroundings())
        seen += done.cpus.values()
    shares = sorted(one.cost_s / one.wall_s for one in seen)
    middle = shares[len(shares) // 2]
    judged = (count, time_s) != _TOO_MANY
    return Row(
        "sampling", f"CPU of the agent that looks, {count} workers", f"{time_s} s, {rounds}×",
        f"{middle:.2%} of a CPU, {min(one.looks for one in seen)} looks",
        budget=f"≤ {SHARE:.0%}" if judged else "", met=middle <= SHARE if judged else None,
    )  # fmt: skip


def _watching(work: Path, cpus: tuple[str, ...], rounds: int) -> Row:
    """What it takes to watch this node, with ranks that are bound to some CPUs, while nothing else is done."""
    place = procfs.mount_at(str(work), procfs.read_mounts())
    target = identify.counters_of(place.point, place.fstype)
    shares = []
    for _ in range(rounds):
        used_s, began = time.process_time(), time.monotonic()
        watch = NodeWatch(Surroundings(place.fstype, place.point, bound=cpus), target)
        time.sleep(_WATCHED_S)
        watch.end()
        shares.append((time.process_time() - used_s) / (time.monotonic() - began))
    middle = sorted(shares)[len(shares) // 2]
    bound = f", {len(cpus)} CPUs bound" if cpus else ""
    return Row(
        "sampling", f"CPU of watching the node{bound}", f"{_WATCHED_S} s, {len(procfs.pids())} processes, {rounds}×",
        f"{middle:.2%} of a CPU", budget=f"≤ {SHARE:.0%}", met=middle <= SHARE,
    )  # fmt: skip
