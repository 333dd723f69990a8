"""`iosweep doctor --slurm`: before the first submission, what would be wrong with it.

site.py and nodes.py judge what Slurm and the nodes say, look.py and probe.py go to the nodes; what is asked of
Slurm is asked here.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import iosweep
from iosweep.commands.doctor import campaign, look, nodes, site, spack_tools
from iosweep.commands.doctor.spack_tools import SpackTools
from iosweep.errors import Unanswered
from iosweep.findings import Line, ok, show, unchecked, wrong
from iosweep.jobs import submission
from iosweep.jobs.profile import KEYS, Profile, Unreadable, read
from iosweep.node import cpu_probe, pinning
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.plan.model import Plan
from iosweep.slurm import query
from iosweep.tools import tools

#: So long is waited for an answer of Slurm's, and for a node that is free.
ANSWER_S, FREE_S = 15.0, 20.0
RESULTS = Path("results")
#: Nodes of which the answers fit into an argument of srun (128 KiB).
_NAMED = 2000


def doctor(profile: Path, configuration: Path | None, wait_s: float | None, as_json: bool) -> int:
    """Print what was found; 0 if nothing is wrong, else 1. `wait_s`: for free nodes, None for a short while."""
    found = {name: shutil.which(name) for name in (*site.COMMANDS, "sacct")}
    if not any(found.values()):
        told = f"there is no Slurm here: none of {', '.join(site.COMMANDS)} is on PATH"
        lines = [wrong("commands", told, "work on a login node of the cluster; profiles/local measures this machine")]
    else:
        console = Console(stderr=True)
        with console.status("asking Slurm") if console.is_terminal and not as_json else nullcontext():
            lines = _examine(found, profile, configuration, wait_s)
    if not any(found.values()) and not as_json:
        print(f"{lines[0].seen}; {lines[0].change}", file=sys.stderr)
        return 1
    return show(lines, as_json)


def _examine(
    found: dict[str, str | None], profile: Path, configuration: Path | None, wait_s: float | None
) -> list[Line]:
    version = _ask(["sbatch", "--version"]) if found["sbatch"] else None
    lines = [site.commands(found, version or "")]
    if any(line.outcome == "wrong" for line in lines):
        return lines
    began = time.monotonic()
    lines.append(site.controller(_ping(), time.monotonic() - began))
    chosen = _profile(profile, lines)
    configured, made, line_of_it = campaign.plan(configuration)
    lines += [line_of_it, *campaign.working_directory(submits=True)]
    if lines[1].outcome == "wrong":
        return [*lines, unchecked("the rest", "the controller does not answer")]
    if chosen is None:
        return [*lines, unchecked("the rest", "without a profile it is not known what a job asks for")]
    if unknown := site.keys(chosen, _options() if chosen.keys - KEYS else KEYS):
        lines = [*(line for line in lines if (line.check, line.outcome) != ("profile", "ok")), *unknown]
    count = max((a.nodes for a in made.allocations), default=None) if made else None
    settings = site.config(_ask(["scontrol", "show", "config"]) or "")
    partitions = (_ask(["scontrol", "--oneliner", "show", "partition"]) or "").splitlines()
    line = site.partition_line(partitions, chosen.partition)
    states = ""
    lines += site.partition(chosen, partitions, _groups(), os.getuid() == 0, socket.gethostname())
    if line is not None:
        limits = submission.partition(line)
        states = _ask(["sinfo", "--noheader", f"--partition={limits.name}", "--format=%D|%T"]) or ""
        node_list = _ask(["sinfo", "--noheader", "--Node", f"--partition={limits.name}", "--format=%N|%T|%c|%m"]) or ""
        lines += [site.wall_time(chosen, limits, _longest_min(chosen, made)), site.nodes(count, limits, states)]
    lines.append(site.account(chosen, settings, _associations(settings)))
    if chosen.reservation:
        told = _ask(["scontrol", "--oneliner", "show", "reservation", chosen.reservation])
        lines += filter(None, [site.reservation(chosen, told, _user(), time.time())])
    licence = site.licence(chosen, _ask(["scontrol", "--oneliner", "show", "licenses"]) or "")
    lines += [licence] if licence else []
    later = any(line.check == "reservation" and line.outcome == "warning" for line in lines)
    if line is not None and not later:
        lines.append(_submission(chosen, count or 1, limits, states))
    lines.append(_mpi(chosen, made))
    built = spack_tools.look(configured, chosen.tools) if configured else None
    lines += [built.line] if built else []
    lines += [campaign.space(made)] if made else []
    if line is not None:
        lines.append(site.memory(chosen, settings, line, node_list))
    lines += site.settings(settings)
    names = [row.partition("|")[0] for row in node_list.splitlines()] if line is not None else []
    return lines + _nodes(chosen, made, count or 1, lines, licence, states, names, wait_s, later, built)


def _ping() -> str:
    """What `scontrol ping` prints, also when it fails: which controller is down."""
    try:
        done = subprocess.run(
            ["scontrol", "ping"], capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"scontrol ping did not answer within {ANSWER_S:g} s"
    return done.stdout + done.stderr


def _profile(directory: Path, lines: list[Line]) -> Profile | None:
    try:
        chosen = read(directory)
    except Unreadable as error:
        said, _, change = str(error).partition("; ")
        lines.append(wrong("profile", said, change))
        return None
    if not chosen.slurm:
        lines.append(wrong("profile", f"{chosen.file} has no `executor: iosweep`", "name one for Slurm with --profile"))
        return None
    for problem in chosen.problems:
        seen, _, change = str(problem).partition("; ")
        lines.append(wrong("profile", seen, change))
    if chosen.problems:
        return chosen
    given = [f"{name} {value}" for name, value in (("partition", chosen.partition), ("account", chosen.account),
             ("reservation", chosen.reservation), ("license", chosen.licence)) if value]  # fmt: skip
    lines.append(ok("profile", chosen.file + (f": {', '.join(given)}" if given else "")))
    return chosen


def _submission(chosen: Profile, count: int, limits: submission.Partition, states: str) -> Line:
    limit = min(filter(None, (chosen.limit_min, limits.limit_min)), default=None)
    argv = [
        *("sbatch", "--test-only", f"--nodes={count}", f"--ntasks={submission.tasks(count)}", "--exclusive"),
        *("--overcommit", *chosen.options, *([f"--licenses={chosen.licence}"] if chosen.licence else [])),
        *([f"--time={limit}"] if limit else []),
        *([f"--mem={chosen.memory_mb}"] if chosen.memory_mb else []),
        "--wrap=true",
    ]
    if other := submission.other_cluster(argv, os.environ):
        seen, _, change = other.partition("; ")
        return wrong("submission", seen, change)
    said, refused = None, ""
    try:
        said = query.ask(argv, ANSWER_S, both=True)
    except Unanswered as error:
        refused = error.said or str(error)
    return site.accepted(count, said, refused, chosen.memory_mb, time.time(), limits, states)


def _longest_min(chosen: Profile, made: Plan | None) -> int | None:
    """What the longest job asks for at first; None without a configuration."""
    from iosweep.plan import forecast

    if made is None:
        return None
    left = ({a.name: {p.id: p.repetitions.min for p in a.points}} for a in made.allocations)
    return max(submission.minutes(forecast.of(made, todo).time_s, 1, chosen.limit_min) for todo in left)


def _options() -> frozenset[str]:
    """What Snakemake has options for, and so a profile keys; none where it does not say."""
    try:
        said = query.ask([sys.executable, "-m", "snakemake", "--help"], ANSWER_S)
    except Unanswered:
        return frozenset()
    return frozenset(re.findall(r"--([a-z][a-z-]+)", said))


def _mpi(chosen: Profile, made: Plan | None) -> Line:
    try:
        types = site.mpi_types(query.ask(["srun", "--mpi=list"], ANSWER_S, both=True))
    except Unanswered as error:
        return unchecked("MPI", str(error))
    return site.mpi(chosen, types, made is None or _needs_mpi(made))


def _needs_mpi(made: Plan) -> bool:
    return any(tools()[point.tool].mpi for point in made.points)


def _mpi_on_node(chosen: Profile, wait_s: float) -> Line | None:
    """A type that srun offers may lack its library, and only a node tells. None if it does not."""
    launcher = SLURM_LAUNCHERS.get(chosen.launcher)
    if launcher is None or launcher.pmi is None:
        return None
    job = [f"--immediate={max(1, round(wait_s))}", "--nodes=1", "--ntasks=1", *look.LITTLE, *chosen.options]
    try:
        query.ask(["srun", *job, f"--mpi={launcher.pmi}", "true"], wait_s + ANSWER_S)
    except Unanswered as error:
        return site.no_mpi(chosen, launcher.pmi, error.said)
    return None


def _nodes(
    chosen: Profile,
    made: Plan | None,
    count: int,
    lines: Sequence[Line],
    licence: Line | None,
    states: str,
    names: Sequence[str],
    wait_s: float | None,
    later: bool,
    built: SpackTools | None,
) -> list[Line]:
    """What is seen from the nodes. Where too few are free now, those that are free are looked at."""
    lock = made.target["lock"] if made else None
    free = sum(int(n) for n, _, state in (s.partition("|") for s in states.split()) if state in ("idle", "mixed"))
    in_service, not_able = submission.usable(states)
    able = min(count, in_service) if states else count  # waiting does not bring a drained node back
    looked = free if wait_s is None and 0 < free < able else able
    asked = nodes.Asked(
        looked,
        _shared_places(built),
        target=str(Path(made.target["directory"]).absolute()) if made else None,
        lock=str(Path(lock).absolute()) if lock and Path(lock).is_dir() else None,
        lock_configured=bool(lock),
        programs={t.program: t.get_it for t in (tools()[p.tool] for p in made.points)} if made else {},
        search=built.search or "" if built else None,
        uid=os.getuid(),
        version=iosweep.__version__,
        pinned=made is not None and pinning.mode(made.cpus, allocated=True) in pinning.BINDS,
        strict=made is not None and made.cpus["pinning"] == "strict",
        reserved=made.cpus["reserved"] if made else None,
    )
    if asked.pinned and len(names) <= _NAMED:  # asked here, and not by every node
        asked = replace(asked, slurm=cpu_probe.controller(names, query.ask))
    needs_mpi = made is not None and _needs_mpi(made)
    if later or any(line.outcome == "wrong" for line in lines if line.check in ("partition", "account", "reservation")):
        return [unchecked("nodes", "no job of ours can run now; see above"), nodes.exclusion(asked, licence, ())]
    if not able:
        why = f"no node of the partition can be used now ({not_able or 'it has none'})"
        return [unchecked("nodes", why), nodes.exclusion(asked, licence, ())]
    try:
        answers = look.look(asked, chosen.options, FREE_S if wait_s is None else wait_s)
    except look.NoNodes as error:
        busy = "busy" in str(error) or "not available now" in str(error)
        why = f"no free node within {FREE_S if wait_s is None else wait_s:.0f} s" if busy else str(error)
        return [unchecked("nodes", why, "try --wait 10min" if busy else ""), nodes.exclusion(asked, licence, ())]
    except OSError as error:
        seen = f"{error.filename or Path.cwd()} cannot be written to: {error.strerror}"
        return [wrong("directory", seen, "work in a directory of yours that all nodes share")]
    judged = nodes.judge(asked, answers)
    if needs_mpi and judged[0].outcome == "ok" and (line := _mpi_on_node(chosen, FREE_S if wait_s is None else wait_s)):
        judged.append(line)
    if looked < count:
        others = f"{count - looked} of the {count} nodes that the configuration asks for"
        busy = able > looked
        why = "no more are free now" if busy else f"no more can be used now ({not_able})"
        judged.insert(1, unchecked("nodes", f"{others}: {why}", "try --wait 10min" if busy else ""))
    return [*judged, nodes.exclusion(asked, licence, answers.facts)]


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


def _associations(settings: dict[str, str]) -> str | None:
    kind = settings.get("AccountingStorageType", "none")
    if kind.endswith("none") or not shutil.which("sacctmgr"):
        return None
    where = [f"user={_user()}", *([f"cluster={name}"] if (name := settings.get("ClusterName")) else [])]
    return _ask(
        [
            "sacctmgr",
            "--noheader",
            "--parsable2",
            "show",
            "associations",
            *where,
            "format=account,partition,defaultaccount",
        ]
    )


def _ask(argv: Sequence[str]) -> str | None:
    """What a command of Slurm's prints, None without an answer."""
    try:
        return query.ask(argv, ANSWER_S)
    except Unanswered:
        return None


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _groups() -> list[str]:
    found = []
    for group in os.getgroups():
        with suppress(KeyError):
            found.append(grp.getgrgid(group).gr_name)
    return found
