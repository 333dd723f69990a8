"""`iosweep doctor --slurm`: what is wrong with a profile, a cluster or its nodes, before the first submission.

This module asks Slurm, and judge_slurm.py judges the answers. On the nodes, a job that asks for what the campaign's
jobs ask runs the doctor (job.py, nodes.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from iosweep.commands.doctor import job, judge_slurm, this_machine
from iosweep.commands.doctor.this_machine import SpackTools
from iosweep.commands.terminal import working
from iosweep.errors import Unanswered, Unusable
from iosweep.findings import Line, ok, show, unchecked, wrong
from iosweep.jobs import submission
from iosweep.jobs.profile import Profile, read
from iosweep.plan import forecast
from iosweep.plan.model import Plan
from iosweep.slurm import query

#: Time limits in seconds: for an answer of Slurm, and for a free node.
ANSWER_S, FREE_S = 15.0, 20.0
#: The name and the comment of the doctor's job.
_NAME = "iosweep-doctor"


def doctor(directory: Path, configuration: Path | None, wait_s: float | None, as_json: bool) -> int:
    """Print what was found; 0 if nothing is wrong, else 1. `directory`: of the profile.

    `wait_s`: for free nodes, None for a short while.
    """
    found = {name: shutil.which(name) for name in judge_slurm.COMMANDS}
    if not any(found.values()):
        seen = f"there is no Slurm here: none of {', '.join(judge_slurm.COMMANDS)} is on PATH"
        line = wrong("commands", seen, "work on a login node of the cluster; profiles/local measures this machine")
        if as_json:
            return show([line], as_json)
        print(f"{line.seen}; {line.change}", file=sys.stderr)
        return 1
    with nullcontext() if as_json else working("asking Slurm ..."):
        lines = _examine(found, directory, configuration, FREE_S if wait_s is None else wait_s)
    return show(lines, as_json)


@dataclass(frozen=True)
class _Wanted:
    """A profile, with the plan and the tools of a configuration, which are None where there is none."""

    profile: Profile
    made: Plan | None
    built: SpackTools | None

    @property
    def counts(self) -> list[int]:
        """The node counts of the configuration; those that ask for the same by the largest of them."""
        counts = sorted(a.nodes for a in self.made.allocations) if self.made else [1]
        return list({tuple(self.profile.at(count).options): count for count in counts}.values())

    @property
    def longest(self) -> forecast.Longest | None:
        """The longest repetition of the configuration."""
        return forecast.longest(self.made, {point.id for point in self.made.points}) if self.made else None


@dataclass(frozen=True)
class _Partition:
    """A partition: its line of scontrol, the limits in it, and `sinfo` by state and by node."""

    line: str
    limits: submission.Partition
    states: str
    node_list: str


def _examine(found: dict[str, str | None], directory: Path, configuration: Path | None, wait_s: float) -> list[Line]:
    version = _ask(["sbatch", "--version"]) if found["sbatch"] else None
    lines = [judge_slurm.commands(found, version or "")]
    if any(line.outcome == "wrong" for line in lines):
        return lines
    controller = judge_slurm.controller(_ping())
    chosen, of_profile = _profile(directory)
    configured, made, of_configuration = this_machine.plan(configuration)
    lines += [controller, *of_profile, of_configuration, *this_machine.working_directory(submits=True)]
    if controller.outcome == "wrong":
        return [*lines, unchecked("the rest", "the controller does not answer")]
    if chosen is None:
        return [*lines, unchecked("the rest", "without a profile it is not known what a job asks for")]
    built = this_machine.look_for_tools(configured, chosen.tools) if configured else None
    wanted = _Wanted(chosen, made, built)
    lines += _slurm(wanted)
    if any(line.outcome == "wrong" for line in lines if line.check in ("partition", "submission")):
        return [*lines, unchecked("nodes", "no job of ours can run now; see above")]
    command = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep", "doctor", "--profile", str(directory.absolute())]
    command += ["--configfile", str(configuration.absolute())] if configuration else []
    return list(dict.fromkeys(lines + _nodes(wanted, command, wait_s)))


def _slurm(wanted: _Wanted) -> list[Line]:
    """Checks by answers of Slurm."""
    settings = judge_slurm.config(_ask(["scontrol", "show", "config"]) or "")
    printed = _partitions()
    lines: list[Line] = []
    for count in wanted.counts:
        asks = wanted.profile.at(count)
        lines += [judge_slurm.partition(name or None, printed) for name in (asks.partition or "").split(",")]
        place = _partition(printed, asks.partition)
        if place:
            lines.append(judge_slurm.wall_time(asks, place.limits, wanted.longest))
            lines.append(judge_slurm.nodes(count if wanted.made else None, place.limits, place.states))
            lines.append(judge_slurm.memory(asks, settings, place.line, place.node_list))
        lines.append(_submission(asks, count, place))
        if asks.license:
            licenses = _ask(["scontrol", "--oneliner", "show", "licenses"]) or ""
            lines.append(judge_slurm.license(asks.license, licenses))
    lines += [wanted.built.line] if wanted.built else []
    return list(dict.fromkeys([*lines, judge_slurm.settings(settings)]))


def _partitions() -> list[str]:
    return (_ask(["scontrol", "--oneliner", "show", "partition"]) or "").splitlines()


def _partition(printed: Sequence[str], name: str | None) -> _Partition | None:
    """A partition, or the default one; None where there is none, or where Slurm chooses from several."""
    if (line := judge_slurm.partition_line(printed, name)) is None:
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
        return None, [wrong("profile", str(replace(p, remedy="")), p.remedy) for p in chosen.problems]
    return chosen, [ok("profile", " ".join([f"{chosen.file}:", f"launcher {chosen.launcher}", *chosen.options]))]


def _sbatch(asks: Profile, nodes: int, limit_min: int | None, log: str) -> list[str]:
    """The command of a job that asks for what the campaign's jobs ask."""
    minutes = min(filter(None, (asks.limit_min, limit_min)), default=1)
    return submission.sbatch(asks, nodes, minutes, _NAME, _NAME, log, str(Path.cwd()))


def _submission(asks: Profile, count: int, place: _Partition | None) -> Line:
    limits = place.limits if place else None
    argv = _sbatch(asks, count, limits.limit_min if limits else None, os.devnull)
    output, refused = None, ""
    try:
        output = query.ask([*argv, *submission.TRIAL], ANSWER_S, both=True)
    except Unanswered as error:
        refused = error.said or str(error)
    return judge_slurm.accepted(count, output, refused, asks, limits, place.states if place else "")


def _nodes(wanted: _Wanted, command: Sequence[str], wait_s: float) -> list[Line]:
    """Checks on the nodes, by a job like the campaign's largest. `command`: the doctor there."""
    count = max(wanted.counts)
    asks = wanted.profile.at(count)
    name = asks.partition or next((p.name for p in map(submission.partition, _partitions()) if p.default), "")
    sinfo = _ask(["sinfo", "--noheader", f"--partition={name}", "--format=%D|%T"]) or ""
    in_service, not_able = submission.usable(sinfo)
    able = min(count, in_service)  # waiting does not bring a drained node back
    if not able:
        return [unchecked("nodes", f"no node can be used now ({not_able or 'there is none'})")]
    try:
        lines = job.look(lambda log: _sbatch(asks, able, job.MINUTES, log), command, wait_s)
    except OSError as error:
        seen = f"{error.filename or Path.cwd()} cannot be written to: {error.strerror}"
        return [wrong("directory", seen, "work in a directory of yours that all nodes share")]
    if able < count and lines[0].outcome == "ok":
        lines.insert(1, unchecked("nodes", f"{count - able} of the {count} that are asked for ({not_able})"))
    return lines


def _ask(argv: Sequence[str]) -> str | None:
    """The output of a command of Slurm, None without an answer."""
    try:
        return query.ask(argv, ANSWER_S)
    except Unanswered:
        return None
