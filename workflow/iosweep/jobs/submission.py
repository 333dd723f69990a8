"""What an allocation asks Slurm for, whether Slurm would run that, and what its refusals mean."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from iosweep.config.sweeps import Config
from iosweep.errors import Obstacle, Problem, Unanswered
from iosweep.jobs.profile import Profile, slurm_minutes, spelt
from iosweep.plan import forecast
from iosweep.plan.forecast import Longest
from iosweep.plan.model import Allocation, Plan
from iosweep.slurm import query
from iosweep.text import human_count, printable
from iosweep.units import human_duration

#: Factor on the forecast, which does not know how slowly data sets are written and how many repetitions an interval
#: takes, and extra minutes of a job. A much longer request would wait longer: small jobs fill gaps.
MARGIN, BESIDES_MIN = 1.5, 5
#: Jobs of an allocation beyond those that the forecast needs. After one that was too short, the next asks for more.
SPARE_JOBS = 3
#: The runner stops this long before the job's time limit, to clean up and to write the manifest.
JOB_RESERVE_S = 10.0
#: Options with which sbatch tries what it would submit, and submits nothing.
TRIAL = ("--test-only", "--wrap", "true")

# What a job is for, and its wall time


@dataclass(frozen=True)
class Work:
    """The work of a job: what it measures of an allocation, and the time that it requests. `points`: point ->
    repetitions to come, empty if nothing is left; `site`: the profile for so many nodes."""

    plan: Plan
    allocation: Allocation
    points: Mapping[str, int]
    site: Profile

    @cached_property
    def cost(self) -> forecast.Forecast:
        return forecast.forecast_of(self.plan, {self.allocation.name: self.points})

    @cached_property
    def longest(self) -> Longest | None:
        """Its longest repetition, which is measured in one job."""
        return forecast.longest(self.plan, self.points)

    @property
    def nodes(self) -> int:
        return self.allocation.nodes

    def minutes(self, attempt: int = 1) -> int:
        """The wall time that its job requests. `attempt`: 1, and 1 more for each earlier job that was too short to
        measure anything."""
        return minutes(self.cost.time_s, attempt, self.site.limit_min)

    @property
    def retries(self) -> int:
        """How many more jobs it may take after the first one."""
        limit_min = self.site.limit_min
        return SPARE_JOBS + (0 if limit_min is None else math.ceil(minutes(self.cost.time_s, 1, None) / limit_min) - 1)

    @property
    def problem(self) -> Problem | None:
        """Why the profile's runtime is too short for it, or None."""
        if self.longest is None or not (why := no_fit(self.longest, self.site.limit_min)):
            return None
        what = f"{why} ({self.longest.point})"
        return Problem(self.site.file, 0, "default-resources.runtime", what, "raise it, or shorten the phases")

    def text(self, asked_min: int | None = None) -> str:
        """`2 nodes: 24 points, 72 repetitions left, 3 h 10 min, 4.1 TiB written`

        With the minutes that a job asks for: `...; asks for 2 nodes for 4 h 50 min`.
        """
        text = forecast.sentence(self.cost, self.allocation.title)
        return text if asked_min is None else f"{text}; {asks_for(self.nodes, asked_min)}"


def planned_work(plan: Plan, site: Profile) -> list[Work]:
    """The work of a whole campaign, by its plan alone."""
    planned = forecast.planned(plan)
    return [
        Work(plan, allocation, planned.get(allocation.name, {}), site.at(allocation.nodes))
        for allocation in plan.allocations
    ]


def minutes(time_s: float, attempt: int, limit_min: int | None) -> int:
    """The wall time that a job requests for a forecast of `time_s`."""
    asked = math.ceil(time_s / 60 * MARGIN + BESIDES_MIN) * attempt
    return asked if limit_min is None else min(asked, limit_min)


def no_fit(longest: Longest | None, limit_min: int | None) -> str | None:
    """Why a repetition does not fit a job of this wall time, or None."""
    if longest is None or limit_min is None or longest.time_s + JOB_RESERVE_S <= 60 * limit_min:
        return None
    whole = longest.phase_s + JOB_RESERVE_S <= 60 * limit_min
    what, time_s = ("repetition", longest.time_s) if whole else ("phase", longest.phase_s)
    return f"a {what} of {human_duration(time_s)} does not fit a job of {human_duration(60 * limit_min)}"


# The command


def sbatch(
    asks: Profile,
    nodes: int,
    minutes: int,
    name: str,
    comment: str,
    log: str,
    directory: str,
    *,
    after: str | None = None,
    avoid: Collection[str] = (),
) -> list[str]:
    """The command that submits a job, which reads its script from stdin. Pure; with TRIAL it asks for the same.

    `asks`: the profile. `name`: shared by all jobs of a run, which run one after the
    other. `log`: file of the job's output. `after`: number of a job that must
    end first. `avoid`: nodes that it must not get.
    """
    exclude = ",".join(filter(None, (asks.given.get("exclude"), *sorted(avoid))))  # type: ignore[arg-type]
    asks = replace(asks, given={**asks.given, "exclude": exclude})
    first = f",afterany:{after}" if after and after.isdigit() else ""
    return [
        *("sbatch", "--parsable", "--job-name", name, "--output", log, "--export=ALL"),
        *("--comment", f"{comment} {asks.given.get('comment') or ''}".strip()),
        *(f"--time={minutes}", f"--nodes={nodes}", f"--ntasks={nodes}", "--exclusive", "--overcommit"),
        *("--no-requeue", f"--dependency=singleton{first}", f"--chdir={directory}", *asks.options),
    ]


def asks_for(nodes: int, asked_min: int) -> str:
    """`asks for 2 nodes for 35 min`"""
    return f"asks for {human_count(nodes, 'node')} for {human_duration(asked_min * 60)}"


def spoken(allocation: str) -> str:
    """An allocation in a sentence: 2 nodes."""
    return allocation.replace("-", " ")


# Before anything is submitted


class Trials(NamedTuple):
    """Results of trying jobs before they are submitted. `refusals`: sentences on jobs that Slurm would not take or
    would let wait forever, with a remedy; `notes`: nodes that a job will wait for; `fit`: requests of the others."""

    refusals: list[str]
    notes: list[str]
    fit: list[str]


def try_jobs(jobs: Iterable[tuple[Work, int, Sequence[str]]]) -> Trials:
    """Try jobs: by the limits of their partitions, then with `sbatch --test-only`. `jobs`: (work, minutes, command)."""
    refused: dict[str, list[str]] = {}
    trials = Trials([], [], [])
    if why := federated():
        return Trials([why], [], [])
    for work, asked_min, sbatch in jobs:
        refusal, note = _tried(work, asked_min, sbatch)
        if refusal:
            refused.setdefault(refusal, []).append(asks_for(work.nodes, asked_min))
        elif note:
            trials.notes.append(note)
        else:
            trials.fit.append(f"{human_count(work.nodes, 'node')} for {human_duration(60 * asked_min)}")
    for why, asks in refused.items():
        trials.refusals.append(f"Slurm would not run the job that {' or the one that '.join(asks)}: {why}")
    return trials


def _tried(work: Work, asked_min: int, sbatch: Sequence[str]) -> tuple[str | None, str | None]:
    """Why a job would be refused; or which nodes it will wait for."""
    nodes, partitions = work.nodes, limits(work.site.partition)
    if partitions and all(wrong := [beyond(nodes, asked_min, work.longest, one) or "" for one in partitions]):
        return "; or: ".join(wrong), None
    try:
        query.ask([*sbatch, *TRIAL])
    except Unanswered as error:
        said = error.said or str(error)
        if is_full(said):  # the job is submitted later
            return None, None
        for one in partitions if query.is_without_nodes(said) else ():
            with contextlib.suppress(Unanswered):
                able, not_able = usable(one["PartitionName"])
                if able < nodes <= _most_nodes(one):  # the others may be back when it is its turn
                    have = f"of {human_count(nodes, 'node')} asked for, the partition {one['PartitionName']} has {able}"
                    return None, f"{have} that can be used ({not_able}); the job waits for the others"
        return f"{said}; {meaning(said, work.site)}", None
    return None, None


def federated() -> str | None:
    """Why jobs are not submitted, with a remedy, if the cluster belongs to a federation; else None."""
    if "SLURM_CLUSTERS" in os.environ:
        return None
    try:
        printed = query.ask(["scontrol", "show", "federation"])
    except Unanswered:
        return None
    if not (match := re.search(r"^Federation: *(\S+)\nSelf: *([^:\s]+)", printed, re.MULTILINE)):
        return None
    why = f"the cluster belongs to the federation {match[1]}: a job may run on another of its clusters, unseen here"
    return f"{why}; `export SLURM_CLUSTERS={match[2]}` keeps jobs on this one"


def limits(names: str | None) -> list[dict[str, str]]:
    """scontrol's description of the partitions of a profile, or of the default ones. Unknown partitions are left out:
    sbatch reports them."""
    names = names or os.environ.get("SBATCH_PARTITION")
    try:
        printed = query.ask(["scontrol", "--all", "--oneliner", "show", "partition"])
    except Unanswered:
        return []
    known = [query.fields(line) for line in printed.splitlines() if line.strip()]
    if names:
        return [one for one in known if one["PartitionName"] in names.split(",")]
    return [one for one in known if one.get("Default") == "YES"]


def usable(partition: str) -> tuple[int, str]:
    """How many nodes can be used now or when they are free, and which cannot: `1 down, 2 drained`. Raises
    Unanswered."""
    printed = query.ask(["sinfo", "--noheader", f"--partition={partition}", "--format=%D|%T"])
    able, not_able = 0, []
    for line in printed.split():
        count, _, state = line.partition("|")
        if not count.isdigit():  # `CLUSTER: name`, with SLURM_CLUSTERS
            continue
        if re.match(r"down|drain|fail|maint|unknown|err|future|inval|no_respond|block", state) or state.endswith("*"):
            not_able.append(f"{count} {state}")
        else:
            able += int(count)
    return able, ", ".join(not_able)


def _most_nodes(partition: Mapping[str, str]) -> int:
    total, most = int(partition.get("TotalNodes", 0)), partition.get("MaxNodes", "")
    return min(total, int(most)) if most.isdigit() else total


def beyond(nodes: int, asked_min: int, longest: Longest | None, partition: Mapping[str, str]) -> str | None:
    """Why a job would wait forever in a partition, with a remedy; None if it can start. Not every Slurm refuses such a
    job (EnforcePartLimits)."""
    the_partition = f"the partition {partition['PartitionName']}"
    state, shared = partition.get("State", "UP"), partition.get("OverSubscribe", "NO")
    least, most = int(partition.get("MinNodes", 0)), _most_nodes(partition)
    limit_min = slurm_minutes(partition.get("MaxTime", ""))
    if state != "UP":
        return f"{the_partition} is {state}; {_ELSEWHERE}, or wait until it is UP"
    if shared.startswith("FORCE"):
        shares = f"shares nodes whatever a job asks for (OverSubscribe={shared}): others would disturb"
        return f"{the_partition} {shares}; {_ELSEWHERE}"
    if nodes < least:
        return f"{the_partition} gives a job {human_count(least, 'node')} at least; {_MORE}"
    if nodes > most:
        return f"{the_partition} gives a job {human_count(most, 'node')} at most; {_FEWER}"
    if limit_min is not None and asked_min > limit_min:
        change = f"set runtime={spelt(limit_min)} in the profile; what takes longer goes on in another job"
        if why := no_fit(longest, limit_min):
            change = f"{why}: shorten it in the configuration, or {_ELSEWHERE}"
        return f"{the_partition} allows {human_duration(limit_min * 60)} at most; {change}"
    return None


# Why Slurm refuses a job, or lets it wait

_ELSEWHERE = "take another slurm_partition in the profile"
_FEWER = f"ask for fewer nodes in the configuration (axes: nodes), or {_ELSEWHERE}"
_MORE = f"ask for more nodes in the configuration (axes: nodes), or {_ELSEWHERE}"
#: What sbatch (slurm_strerror) or squeue (job_state_reason_string) says, and what to do then. The first that fits
#: counts. `accounting/QOS policy` says nothing: the policy is named before it.
_MEANINGS = (
    (
        r"time ?limit\b|MaxWall",
        "set runtime in the profile to what is allowed; the rest goes on in another job",
    ),
    (r"QOSMin|MinNode", f"{_MORE}, or another qos"),
    (r"memory|MaxMem\w*Per", "set mem_mb in the profile to what a job may have of a node (0: what the site gives)"),
    (r"(Max|Grp)Node|node config|PartitionConfig|Constraints", _FEWER),
    (r"node ?count|NodeLimit", f"ask for another number of nodes in the configuration (axes: nodes), or {_ELSEWHERE}"),
    (r"(Max|Grp)\w+Per[A-Z]", "your account or QOS allows a job less than that"),
    (r"account(?!ing)", "set slurm_account in the profile to one of yours (`sacctmgr show associations user=$USER`)"),
    ("reservation", "see `scontrol show reservations` for reservation in the profile"),
    ("license", "set licenses in the profile to some that `scontrol show licenses` has, and to no more than there are"),
    (r"qos(?! policy)", "see `sacctmgr show qos` for qos in the profile"),
    ("feature|constraint", "set constraint in the profile to features that `sinfo --format=%f` has"),
    (r"\bgres\b", "set gres in the profile to what `sinfo --format=%G` has, and gpus to no more than that"),
    ("node name", "see nodelist and exclude in the profile (`sinfo --Node`)"),
    ("wckey", "set wckey in the profile to one of yours (`sacctmgr show wckey`)"),
    ("invalid (--|numeric)", "correct that key in the profile"),
    ("invalid partition", f"{_ELSEWHERE}: `sinfo` shows them"),
    ("partition", _ELSEWHERE),
    ("controller", "is Slurm's controller up (`scontrol ping`)?"),
    ("dependency", "it depends on a job that failed"),
)


#: Keys of the profile that leave a job fewer nodes.
_NARROW = ("mem_mb", "mem_mb_per_cpu", "constraint", "gres", "gpus", "exclude", "nodelist", "reservation")


def is_full(said: str) -> bool:
    """Whether sbatch refuses a job because too many are queued: of a user, an account, a QOS, or all (MaxJobCount)."""
    return bool(re.search("SubmitJob|MaxJobCount|job queue full|temporarily (unable|unavailable|disabled)", said))


def meaning(said: str, asks: Profile | None = None) -> str:
    """The remedy when sbatch refuses a job, or a job waits. `asks`: the profile."""
    fits = (change for line in reversed(said.split("; ")) for part, change in _MEANINGS if re.search(part, line, re.I))
    change = next(fits, "ask the people who run the cluster")
    if asks and query.is_without_nodes(said) and (narrow := [key for key in _NARROW if asks.given.get(key)]):
        return f"{', '.join(narrow)} in the profile may leave no nodes (`sinfo --format='%n %c %m %f %G'`); or {change}"
    return change


# Problems of a plan


def problems(config: Config, plan: Plan, works: Iterable[Work]) -> list[Problem]:
    """Why a plan cannot be measured, by its configuration and profile alone."""
    over = forecast.over_limits(plan, config.documents[0])
    return over + [problem for work in works if (problem := work.problem)]


def working_directory(path: str, submits: bool) -> Obstacle | None:
    """Why Snakemake cannot work in a directory, or None. `submits`: it sends jobs to Slurm. Pure.

    Slurm replaces patterns that begin with % in the paths of its log files, which are below the working directory.
    """
    if submits and (strange := next((c for c in path if c in '$`"\\%'), None)):
        why = f"the character {strange}, which jobs cannot take"
    elif "{" in path or "}" in path:
        why = "braces, which Snakemake takes for a pattern"
    elif not path.isprintable():
        why = "characters that cannot be printed"
    else:
        return None
    return Obstacle(f"the working directory {printable(path)} has {why}", "run it in another")
