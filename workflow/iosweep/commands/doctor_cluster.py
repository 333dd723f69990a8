"""`iosweep doctor --slurm`: check a profile, a cluster and its nodes before the first submission.

Slurm is asked the questions that a run asks before it submits. Then one job like the campaign's largest runs the doctor
on its nodes (doctor.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec

from iosweep.commands import doctor
from iosweep.commands.doctor import Line, ok, show, unchecked, warning, wrong
from iosweep.commands.terminal import working
from iosweep.errors import Unanswered, Unusable
from iosweep.hostlist import hosts
from iosweep.jobs import pending, submission
from iosweep.jobs.profile import Profile, read
from iosweep.slurm import query
from iosweep.units import human_size

#: Commands of Slurm that are needed.
COMMANDS = ("sbatch", "srun", "squeue", "scontrol", "sinfo", "scancel")
#: Time limits in seconds: for an answer of Slurm, and for a free node.
ANSWER_S, FREE_S = 15.0, 20.0
_SHARED = "the checkout with its .venv, and the working directory, must be the same on all nodes"
#: With a smaller share of a node's memory, the page cache of a job is smaller than the node's.
WHOLE = 0.9


def examine(directory: Path, configuration: Path | None, wait_s: float | None, as_json: bool) -> int:
    """Print the lines. Returns 1 if something is wrong, else 0. `directory`: of the profile.

    `wait_s`: for free nodes, None for a short while.
    """
    with nullcontext() if as_json else working("asking Slurm ..."):
        lines = _examine(directory, configuration, FREE_S if wait_s is None else wait_s)
    return show(list(dict.fromkeys(lines)), as_json)


def _examine(directory: Path, configuration: Path | None, wait_s: float) -> Iterator[Line]:
    if absent := [name for name in COMMANDS if not shutil.which(name)]:
        change = "put Slurm's bin directory on PATH, or work on a login node; profiles/local measures this machine"
        yield wrong("commands", f"{', '.join(absent)} not on PATH", change)
        return
    yield ok("commands", f"{(_ask(['sbatch', '--version']) or 'Slurm').strip()}: {', '.join(COMMANDS)}")
    try:
        yield ok("controller", query.ask(["scontrol", "ping"], ANSWER_S).strip().splitlines()[0])
    except Unanswered as error:
        change = "try again when `scontrol ping` says UP; tell the people who run the cluster"
        yield wrong("controller", str(error), change)
        yield unchecked("the rest", "the controller does not answer")
        return
    profile, lines = _profile(directory)
    config, plan, of_configuration = doctor.plan(configuration)
    yield from (*lines, of_configuration, *doctor.working_directory(submits=True))
    if profile is None:
        yield unchecked("the rest", "without a profile it is not known what a job asks for")
        return
    works = sorted(submission.planned_work(plan, profile), key=lambda work: work.nodes) if plan else []
    yield from (wrong("wall time", one.message, one.remedy) for work in works if (one := work.problem))
    if config:
        yield from doctor.spack_tools(config, profile.tools)[0]
    yield from (submissions := _submissions(works))
    settings = slurm_settings(_ask(["scontrol", "show", "config"]) or "")
    for place in submission.limits(profile.partition):
        sinfo = ["sinfo", "--noheader", f"--partition={place['PartitionName']}", "--Node", "--format=%N|%T|%c|%m"]
        yield judge_memory(profile, settings, place, _ask(sinfo) or "")
    if any(line.outcome == "wrong" for line in submissions):
        yield unchecked("nodes", "see submission")
        return
    command = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep", "doctor", "--profile", str(directory.absolute())]
    command += ["--configfile", str(configuration.absolute())] if configuration else []
    yield from _nodes(profile, works[-1].nodes if works else 1, command, wait_s)


def _ask(argv: Sequence[str]) -> str | None:
    """The output of a command of Slurm, None without an answer."""
    try:
        return query.ask(argv, ANSWER_S)
    except Unanswered:
        return None


def _profile(directory: Path) -> tuple[Profile | None, list[Line]]:
    """The profile, None if it cannot be used, and the lines about it."""
    try:
        profile = read(directory)
    except Unusable as error:
        return None, [wrong("profile", error.obstacle.what, error.obstacle.remedy)]
    if not profile.slurm:
        seen = f"{profile.file} has no `executor: iosweep`"
        return None, [wrong("profile", seen, "name one for Slurm with --profile")]
    if profile.problems:
        return None, [wrong("profile", str(replace(p, remedy="")), p.remedy) for p in profile.problems]
    return profile, [ok("profile", " ".join([f"{profile.file}:", f"launcher {profile.launcher}", *profile.options]))]


def _submissions(works: Sequence[submission.Work]) -> list[Line]:
    """Whether Slurm would take the jobs of the campaign, tried as a run tries them."""
    trials = submission.try_jobs(
        (work, work.minutes(), _sbatch(work.site, work.nodes, work.minutes(), os.devnull)) for work in works
    )
    lines = [ok("submission", f"Slurm takes jobs of {', '.join(trials.fit)}")] if trials.fit else []
    lines += [unchecked("submission", note) for note in trials.notes]
    return lines + [wrong("submission", refusal, "") for refusal in trials.refusals]


def _sbatch(asks: Profile, nodes: int, minutes: int, log: str) -> list[str]:
    """The command of a job with the resources of the campaign's jobs."""
    return submission.sbatch(asks, nodes, minutes, NAME, NAME, log, str(Path.cwd()))


def slurm_settings(text: str) -> dict[str, str]:
    """`scontrol show config` as a mapping; also the keys of its section on cgroups."""
    return {m[1]: query.given(m[2]) for m in re.finditer(r"^(\S+)\s*= ?(.*)$", text, re.MULTILINE)}


def judge_memory(asks: Profile, settings: Mapping[str, str], partition: Mapping[str, str], node_list: str) -> Line:
    """A job's share of a node's memory. `node_list`: `sinfo --Node --format=%N|%T|%c|%m` of the partition. Pure."""
    nodes = [row.split("|") for row in node_list.splitlines() if row.count("|") >= 3]
    sizes = [(int(cpus), int(mb)) for _, _, cpus, mb in (row[:4] for row in nodes) if cpus.isdigit() and mb.isdigit()]
    if not sizes:
        return unchecked("memory", "sinfo shows no nodes of the partition")
    cpus, mb = min(sizes, key=lambda size: size[1])
    whole = f"{human_size(mb << 20)} of a node"
    if "MEMORY" not in settings.get("SelectTypeParameters", "").upper():
        return ok("memory", f"Slurm does not manage memory: a job has all {whole}")
    given = (asks.memory_mb, f"mem_mb {asks.memory_mb} in the profile") if asks.memory_mb else None
    for key, count in (("DefMemPerNode", 1), ("DefMemPerCPU", cpus)):
        values = (partition.get(key, ""), settings.get(key, ""))  # the partition's value comes first
        if given is None and (value := next((v for v in values if v.isdigit() and int(v)), None)):
            given = int(value) * count, f"{key} {value} MB"
    if given is None or given[0] >= mb * WHOLE:
        return ok("memory", f"a job has all {whole}" + (f" ({given[1]})" if given else ""))
    enforced = settings.get("ConstrainRAMSpace", "no").lower() == "yes"
    caches = "the page cache counts, so caches are smaller than the node's"
    effect = caches if enforced else "it may be killed if it takes more"
    seen = f"a job has {human_size(given[0] << 20)} of the {whole} ({given[1]}); {effect}"
    caps = (partition.get("MaxMemPerNode", ""), settings.get("MaxMemPerNode", ""))
    most = min(mb, next((int(cap) for cap in caps if cap.isdigit() and int(cap)), mb))
    change = "the site allows no more" if most == given[0] else f"set mem_mb={most} in the profile"
    return warning("memory", seen, change)


# The job on the nodes

#: Its name, unique: it is cancelled by its name, because the number is unknown if sbatch does not answer.
NAME = f"iosweep-doctor-{uuid.uuid4()}"
#: Its time limit in minutes, seconds for its work, and between two questions to Slurm.
MINUTES, WORK_S, ASK_S = 5, 240.0, 1.0
#: The file of its output, in a directory that is removed.
LOG = "job.log"


def _nodes(profile: Profile, count: int, command: Sequence[str], wait_s: float) -> list[Line]:
    """Checks on the nodes, by a job like the campaign's largest. `command`: the doctor there."""
    try:
        in_service, not_able = submission.usable(
            ",".join(partition["PartitionName"] for partition in submission.limits(profile.partition))
        )
    except Unanswered as error:
        return [unchecked("nodes", str(error))]
    able = min(count, in_service)  # a drained node does not come back by waiting
    if not able:
        return [unchecked("nodes", f"no node can be used now ({not_able or 'there is none'})")]
    try:
        lines = run_on_nodes(lambda log: _sbatch(profile, able, MINUTES, log), command, wait_s)
    except OSError as error:
        seen = f"{error.filename or Path.cwd()} cannot be written to: {error.strerror}"
        return [wrong("directory", seen, "work in a directory of yours that all nodes share")]
    if able < count and any(line.check == "nodes" and line.outcome == "ok" for line in lines):
        lines.append(unchecked("nodes", f"{count - able} of the {count} that are asked for ({not_able})"))
    return lines


def run_on_nodes(sbatch: Callable[[str], Sequence[str]], command: Sequence[str], wait_s: float) -> list[Line]:
    """Run the doctor in a job and return its lines. `sbatch`: path of the log -> the command that submits it.

    `wait_s`: for free nodes; then the job is cancelled. Raises OSError if the working directory cannot be written to.
    """
    with tempfile.TemporaryDirectory(prefix=doctor.PREFIX, dir=Path.cwd(), ignore_cleanup_errors=True) as place:
        log = Path(place) / LOG
        log.write_text("\n")  # a full disk is seen here
        try:
            number = query.submit(sbatch(str(log)), f"#!/bin/sh\nexec {shlex.join([*command, '--lines'])}\n")
            end = time.monotonic() + wait_s
            while (job := query.job(number)) and job.alive and job.state != "COMPLETING":
                late_s = time.monotonic() - end
                if job.state == "PENDING" and late_s > 0:
                    if change := pending.remedy(job.reason) or pending.too_many_nodes(job):
                        return [wrong("nodes", f"a job like the campaign's would wait forever ({job.reason})", change)]
                    why = f"no free nodes within {wait_s:.0f} s: {pending.explain(job)}"
                    return [unchecked("nodes", why, "try --wait 10min")]
                if late_s > WORK_S:
                    return [wrong("nodes", f"job {number} on {hosts(job.hosts)} does not end", _SHARED)]
                time.sleep(ASK_S)
        except Unanswered as error:
            change = "ask again when other jobs of yours are over" if submission.is_full(error.said) else ""
            return [unchecked("nodes", str(error), change)]
        finally:
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--quiet", f"--name={NAME}"])
        printed = log.read_text(encoding="utf-8", errors="replace").split("\n")
        if json := next((line for line in printed if line.startswith('[{"check"')), None):
            return msgspec.json.decode(json, type=list[Line])
        where = f" on {hosts(job.hosts)}" if job and job.hosts else ""
        last = next(filter(None, reversed(printed)), "it printed nothing")
        return [wrong("nodes", f"the job{where} did not reach its end: {last}", _SHARED)]
