"""`iosweep doctor --slurm`: what is wrong with a profile, a cluster or its nodes, before the first submission.

This module asks Slurm. judge_slurm.py and judge_nodes.py judge the answers; ask_nodes.py runs node_probe.py on the
nodes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import iosweep
from iosweep.commands.doctor import ask_nodes, judge_nodes, judge_slurm, this_machine
from iosweep.commands.doctor.node_probe import Facts
from iosweep.commands.doctor.this_machine import SpackTools
from iosweep.commands.terminal import working
from iosweep.errors import Unanswered, Unusable
from iosweep.findings import Line, ok, show, unchecked, wrong
from iosweep.jobs import submission
from iosweep.jobs.profile import Profile, read
from iosweep.node import pinning
from iosweep.plan import forecast
from iosweep.plan.model import Plan
from iosweep.slurm import query
from iosweep.tools import tools

#: Time limits in seconds: for an answer of Slurm, and for a free node.
ANSWER_S, FREE_S = 15.0, 20.0
RESULTS = Path("results")
#: The most nodes whose answers fit into an argument of srun (128 KiB).
_NAMED = 2000
_WAIT = "try --wait 10min"


def doctor(profile: Path, configuration: Path | None, wait_s: float | None, as_json: bool) -> int:
    """Print what was found; 0 if nothing is wrong, else 1. `wait_s`: for free nodes, None for a short while."""
    found = {name: shutil.which(name) for name in judge_slurm.COMMANDS}
    if not any(found.values()):
        seen = f"there is no Slurm here: none of {', '.join(judge_slurm.COMMANDS)} is on PATH"
        line = wrong("commands", seen, "work on a login node of the cluster; profiles/local measures this machine")
        if as_json:
            return show([line], as_json)
        print(f"{line.seen}; {line.change}", file=sys.stderr)
        return 1
    with nullcontext() if as_json else working("asking Slurm ..."):
        lines = _examine(found, profile, configuration, wait_s)
    return show(lines, as_json)


@dataclass(frozen=True)
class _Wanted:
    """A profile, with the plan and the tools of a configuration; None where there is none."""

    profile: Profile
    made: Plan | None
    built: SpackTools | None
    wait_s: float | None  # for free nodes; None: for a short while

    @property
    def nodes(self) -> int | None:
        """The largest node count of the configuration."""
        return max((a.nodes for a in self.made.allocations), default=None) if self.made else None

    @property
    def asks(self) -> Profile:
        """What the profile says for that."""
        return self.profile.at(self.nodes or 1)

    @property
    def longest(self) -> forecast.Longest | None:
        """The longest repetition of the configuration."""
        return forecast.longest(self.made, {point.id for point in self.made.points}) if self.made else None

    @property
    def mpi(self) -> bool:
        """Whether a tool of the configuration uses MPI."""
        return self.made is not None and any(tools()[point.tool].mpi for point in self.made.points)


@dataclass(frozen=True)
class _Partition:
    """A partition: its line of scontrol, the limits in it, and `sinfo` by state and by node."""

    line: str
    limits: submission.Partition
    states: str
    node_list: str

    @property
    def names(self) -> list[str]:
        return [row.partition("|")[0] for row in self.node_list.splitlines()]


def _examine(
    found: dict[str, str | None], profile: Path, configuration: Path | None, wait_s: float | None
) -> list[Line]:
    version = _ask(["sbatch", "--version"]) if found["sbatch"] else None
    lines = [judge_slurm.commands(found, version or "")]
    if any(line.outcome == "wrong" for line in lines):
        return lines
    controller = judge_slurm.controller(_ping())
    chosen, of_profile = _profile(profile)
    configured, made, of_configuration = this_machine.plan(configuration)
    lines += [controller, *of_profile, of_configuration, *this_machine.working_directory(submits=True)]
    if controller.outcome == "wrong":
        return [*lines, unchecked("the rest", "the controller does not answer")]
    if chosen is None:
        return [*lines, unchecked("the rest", "without a profile it is not known what a job asks for")]
    built = this_machine.look_for_tools(configured, chosen.tools) if configured else None
    return lines + _slurm(_Wanted(chosen, made, built, wait_s))


def _slurm(wanted: _Wanted) -> list[Line]:
    """Checks by answers of Slurm, then those on its nodes."""
    chosen, made = wanted.asks, wanted.made
    settings = judge_slurm.config(_ask(["scontrol", "show", "config"]) or "")
    partitions = (_ask(["scontrol", "--oneliner", "show", "partition"]) or "").splitlines()
    lines = [judge_slurm.partition(chosen, partitions)]
    if partition := _partition(partitions, chosen.partition):
        lines.append(judge_slurm.wall_time(chosen, partition.limits, wanted.longest))
        lines.append(judge_slurm.nodes(wanted.nodes, partition.limits, partition.states))
        lines.append(_submission(chosen, wanted.nodes or 1, partition.limits, partition.states))
    license = judge_slurm.license(chosen, _ask(["scontrol", "--oneliner", "show", "licenses"]) or "")
    lines += [license] if license else []
    lines.append(_mpi(wanted))
    lines += [wanted.built.line] if wanted.built else []
    lines += [this_machine.space(made)] if made else []
    if partition:
        lines.append(judge_slurm.memory(chosen, settings, partition.line, partition.node_list))
    lines.append(judge_slurm.settings(settings))
    no_job = any(line.outcome == "wrong" for line in lines if line.check in ("partition", "submission"))
    of_nodes, answered = _nodes(wanted, partition, runs=not no_job)
    lock = made.target.lock if made else None
    alone = chosen.license.partition(":")[0] if chosen.license and license and license.outcome == "ok" else None
    return [*lines, *of_nodes, judge_nodes.exclusion(lock, alone, answered)]


def _partition(lines: Sequence[str], name: str | None) -> _Partition | None:
    if (line := judge_slurm.partition_line(lines, name)) is None:
        return None
    limits = submission.partition(line)
    sinfo = ["sinfo", "--noheader", f"--partition={limits.name}"]
    states = _ask([*sinfo, "--format=%D|%T"]) or ""
    return _Partition(line, limits, states, _ask([*sinfo, "--Node", "--format=%N|%T|%c|%m"]) or "")


def _ping() -> str:
    """The output of `scontrol ping`, also when it fails: it names the controller that is down."""
    try:
        done = subprocess.run(
            ["scontrol", "ping"], capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"scontrol ping did not answer within {ANSWER_S:g} s"
    return done.stdout + done.stderr


def _profile(directory: Path) -> tuple[Profile | None, list[Line]]:
    """The profile, None if it is of no use, and the lines about it."""
    try:
        chosen = read(directory)
    except Unusable as error:
        return None, [wrong("profile", *error.obstacle)]
    if not chosen.slurm:
        seen = f"{chosen.file} has no `executor: iosweep`"
        return None, [wrong("profile", seen, "name one for Slurm with --profile")]
    if chosen.problems:
        return chosen, [wrong("profile", str(replace(p, remedy="")), p.remedy) for p in chosen.problems]
    given = ", ".join(option.removeprefix("--").replace("=", " ", 1) for option in chosen.options)
    return chosen, [ok("profile", f"{chosen.file}: {given}" if given else chosen.file)]


def _submission(chosen: Profile, count: int, limits: submission.Partition, states: str) -> Line:
    limit = min(filter(None, (chosen.limit_min, limits.limit_min)), default=None)
    asked = submission.sbatch(
        chosen, count, limit or 1, "iosweep-doctor", "iosweep-doctor", os.devnull, str(Path.cwd())
    )
    output, refused = None, ""
    try:
        output = query.ask([*asked, *submission.TRIAL], ANSWER_S, both=True)
    except Unanswered as error:
        refused = error.said or str(error)
    return judge_slurm.accepted(count, output, refused, chosen.memory_mb, limits, states)


def _mpi(wanted: _Wanted) -> Line:
    try:
        types = judge_slurm.mpi_types(query.ask(["srun", "--mpi=list"], ANSWER_S, both=True))
    except Unanswered as error:
        return unchecked("MPI", str(error))
    return judge_slurm.mpi(wanted.profile, types, wanted.made is None or wanted.mpi)


def _nodes(wanted: _Wanted, partition: _Partition | None, runs: bool) -> tuple[list[Line], Sequence[Facts]]:
    """Checks on the nodes, and their answers. `runs`: whether a job can run now."""
    if not runs:
        return [unchecked("nodes", "no job of ours can run now; see above")], ()
    count, states = wanted.nodes or 1, partition.states if partition else ""
    in_service, not_able = submission.usable(states)
    able = min(count, in_service) if states else count  # waiting does not bring a drained node back
    if not able:
        why = f"no node of the partition can be used now ({not_able or 'it has none'})"
        return [unchecked("nodes", why)], ()
    asked = _asked(wanted, able)
    wait_s = FREE_S if wanted.wait_s is None else wanted.wait_s
    try:
        answers = ask_nodes.look(asked, wanted.asks.options, wait_s)
    except ask_nodes.NoNodes as error:
        why = f"no free node within {wait_s:.0f} s" if error.busy else str(error)
        return [unchecked("nodes", why, _WAIT if error.busy else "")], ()
    except OSError as error:
        seen = f"{error.filename or Path.cwd()} cannot be written to: {error.strerror}"
        return [wrong("directory", seen, "work in a directory of yours that all nodes share")], ()
    lines = judge_nodes.judge(asked, answers)
    if able < count:
        lines.insert(1, unchecked("nodes", f"{count - able} of the {count} that are asked for ({not_able})"))
    return lines, answers.facts


def _asked(wanted: _Wanted, count: int) -> judge_nodes.Asked:
    made, built = wanted.made, wanted.built
    asked = judge_nodes.Asked(count, _shared_places(built), version=iosweep.__version__)
    if made is None:
        return asked
    lock = made.target.lock
    return replace(
        asked,
        target=str(Path(made.target.directory).absolute()),
        lock=str(Path(lock).absolute()) if lock and Path(lock).is_dir() else None,
        programs={tool.program: tool.get_it for tool in (tools()[point.tool] for point in made.points)},
        search=built.search or "" if built else None,
        pinned=pinning.mode(made.cpus, allocated=True) in pinning.BINDS,
        strict=made.cpus.pinning == "strict",
        reserved=made.cpus.reserved,
    )


def _shared_places(built: SpackTools | None) -> list[str]:
    """The working directory, and those of the results and the tools where they are on another file system."""
    here = Path.cwd()
    places = [str(here)]
    with suppress(OSError):
        if built and built.directory and Path(built.directory).stat().st_dev != here.stat().st_dev:
            places.append(built.directory)
    with suppress(OSError):
        if RESULTS.stat().st_dev != here.stat().st_dev or RESULTS.is_symlink():
            places.append(str(RESULTS.resolve()))
    return places


def _ask(argv: Sequence[str]) -> str | None:
    """The output of a command of Slurm, None without an answer."""
    try:
        return query.ask(argv, ANSWER_S)
    except Unanswered:
        return None
