"""`iosweep doctor --slurm`: what is wrong with a profile, a cluster or its nodes, before the first submission.

This module asks Slurm, and judge_slurm.py judges the answers. On the nodes, a job that asks for what the campaign's
jobs ask runs the doctor (job.py, nodes.py).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from iosweep.commands.doctor import job, judge_slurm, this_machine
from iosweep.commands.terminal import working
from iosweep.errors import Unanswered, Unusable
from iosweep.findings import Line, ok, show, unchecked, wrong
from iosweep.jobs import pending, submission
from iosweep.jobs.profile import Profile, read
from iosweep.plan import forecast
from iosweep.plan.model import Plan
from iosweep.slurm import query
from iosweep.text import human_count
from iosweep.units import human_duration

#: Time limits in seconds: for an answer of Slurm, and for a free node.
ANSWER_S, FREE_S = 15.0, 20.0


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


class _Job(NamedTuple):
    """A job of the campaign: its nodes, the minutes that it asks for, and the longest of what it measures."""

    nodes: int
    minutes: int
    longest: forecast.Longest | None = None


def _jobs(chosen: Profile, made: Plan | None) -> list[_Job]:
    """Those of a whole campaign, the smallest first; one of a node without a configuration."""
    if made is None:
        return [_Job(1, chosen.at(1).limit_min or job.MINUTES)]
    found = []
    for name, points in forecast.planned(made).items():
        nodes = next(a.nodes for a in made.allocations if a.name == name)
        time_s = forecast.of(made, {name: points}).time_s
        minutes = submission.minutes(time_s, 1, chosen.at(nodes).limit_min)
        found.append(_Job(nodes, minutes, forecast.longest(made, points)))
    return sorted(found)


def _examine(found: dict[str, str | None], directory: Path, configuration: Path | None, wait_s: float) -> list[Line]:
    version = _ask(["sbatch", "--version"]) if found["sbatch"] else None
    lines = [judge_slurm.commands(found, version or "")]
    if any(line.outcome == "wrong" for line in lines):
        return lines
    controller = _controller()
    chosen, of_profile = _profile(directory)
    configured, made, of_configuration = this_machine.plan(configuration)
    lines += [controller, *of_profile, of_configuration, *this_machine.working_directory(submits=True)]
    if controller.outcome == "wrong":
        return [*lines, unchecked("the rest", "the controller does not answer")]
    if chosen is None:
        return [*lines, unchecked("the rest", "without a profile it is not known what a job asks for")]
    built = this_machine.look_for_tools(configured, chosen.tools) if configured else None
    jobs = _jobs(chosen, made)
    for problem in submission.too_long(made, {point.id for point in made.points}, chosen) if made else ():
        lines.append(wrong("wall time", problem.message, problem.remedy))
    lines += [*([built.line] if built else []), *_slurm(chosen, jobs)]
    if any(line.outcome == "wrong" for line in lines if line.check == "submission"):
        return [*lines, unchecked("nodes", "see submission")]
    command = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep", "doctor", "--profile", str(directory.absolute())]
    command += ["--configfile", str(configuration.absolute())] if configuration else []
    return list(dict.fromkeys(lines + _nodes(chosen, jobs[-1].nodes, command, wait_s)))


def _controller() -> Line:
    try:
        return ok("controller", query.ask(["scontrol", "ping"], ANSWER_S).strip().splitlines()[0])
    except Unanswered as error:
        change = "try again when `scontrol ping` says UP; tell the people who run the cluster"
        return wrong("controller", str(error), change)


def _slurm(chosen: Profile, jobs: Sequence[_Job]) -> list[Line]:
    """Checks by answers of Slurm."""
    settings = judge_slurm.config(_ask(["scontrol", "show", "config"]) or "")
    lines = _submissions(chosen, jobs)
    for asks in (chosen.at(one.nodes) for one in jobs):
        for place in pending.limits(asks.partition):
            sinfo = ["sinfo", "--noheader", f"--partition={place.name}", "--Node", "--format=%N|%T|%c|%m"]
            lines.append(judge_slurm.memory(asks, settings, place.said, _ask(sinfo) or ""))
    return list(dict.fromkeys([*lines, judge_slurm.settings(settings)]))


def _submissions(chosen: Profile, jobs: Sequence[_Job]) -> list[Line]:
    """Whether Slurm would take the jobs of the campaign, as the campaign itself asks before it submits them."""
    wrongs: dict[str, list[str]] = {}
    lines, fit = [], []
    for nodes, minutes, longest in jobs:
        asks = chosen.at(nodes)
        trial = pending.tried(_sbatch(asks, nodes, minutes, os.devnull), asks, nodes, minutes, longest)
        if trial.refusal:
            wrongs.setdefault(trial.refusal, []).append(submission.asks_for(nodes, minutes))
        elif trial.note:
            lines.append(unchecked("submission", trial.note))
        else:
            fit.append(f"{human_count(nodes, 'node')} for {human_duration(60 * minutes)}")
    lines += [wrong("submission", text, "") for text in submission.refusals(wrongs)]
    return [*([ok("submission", f"Slurm takes jobs of {', '.join(fit)}")] if fit else []), *lines]


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


def _sbatch(asks: Profile, nodes: int, minutes: int, log: str) -> list[str]:
    """The command of a job that asks for what the campaign's jobs ask."""
    return submission.sbatch(asks, nodes, minutes, job.NAME, job.NAME, log, str(Path.cwd()))


def _nodes(chosen: Profile, count: int, command: Sequence[str], wait_s: float) -> list[Line]:
    """Checks on the nodes, by a job like the campaign's largest. `command`: the doctor there."""
    asks = chosen.at(count)
    names = ",".join(one.name for one in pending.limits(asks.partition))
    sinfo = _ask(["sinfo", "--noheader", f"--partition={names}", "--format=%D|%T"]) or ""
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
