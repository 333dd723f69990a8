"""Watches waiting jobs: cancels those that can never start, says why others wait, waits for those of earlier runs."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from iosweep.errors import Unanswered
from iosweep.hostlist import hosts
from iosweep.jobs import submission
from iosweep.plan.model import Allocation
from iosweep.slurm import query
from iosweep.slurm.query import Job
from iosweep.target.lock import Owner
from iosweep.text import printable

#: A reason counts if it lasts this many seconds: while Slurm plans, it shows other reasons for a moment.
BELIEVED_S = 5.0

#: Reasons that neither time nor the end of another job removes. From the list of
#: https://slurm.schedmd.com/job_reason_codes.html and what Slurm 22.05 showed. Not here, because they end by themselves
#: or an administrator ends them: limits of a group, a user, an account or used minutes (AssocGrp*, QOSGrp*, *PerUser,
#: *PerAccount), nodes that are down, drained or reserved (ReqNodeNotAvail), a partition that is down, a hold.
_FOREVER = re.compile(
    r"Partition(TimeLimit|NodeLimit|Config)|(Bad)?Constraints|(Assoc|QOS)Max\w*Per(Job|Node)\w*|MaxMemPerLimit|QOSMin\w*"
    r"|(Account|QOS)NotAllowed|Invalid(Account|QOS)|Job's (account|QOS) not .*|Reservation(Deleted|Invalid)"
    r"|DependencyNeverSatisfied"
)
#: Explanations of the other reasons.
_WORDS = (
    (r"None", "Slurm has not looked at it yet"),
    (r"Dependency", "another job of this campaign comes first"),
    (r"BeginTime", "it may not begin yet"),
    (r"Priority", "others come first (Priority)"),
    (r"Resources", "nodes are busy (Resources)"),
    (r"Licenses", "the license is in use"),
    (r"JobHeldUser", "it is held: `scontrol release {id}`"),
    (r"JobHeld\w*|JobHoldMaxRequeue|launch failed.*", "it is held by an administrator ({reason})"),
    (r"PartitionDown|PartitionInactive", "its partition is down ({reason}), until an administrator says otherwise"),
    (r"ReqNodeNotAvail.*", "nodes are down, drained or reserved ({reason})"),
    (r"Nodes required for job.*", "nodes that it needs are down, drained or reserved"),
    (r"Reservation", "its reservation has not begun"),
    (r"(Assoc|QOS)Grp.*|\w+Per(User|Account)\w*", "a limit of your account is reached ({reason})"),
)
#: Not reported: reasons of a moment, or reported for the preceding allocation.
_NOTHING = ("", "None", "WaitingForScheduling", "Prolog", "BeginTime", "Cleaning", "Dependency")


def remedy(reason: str) -> str | None:
    """What to change when a job waits for a reason that does not end by itself; None if it does."""
    return submission.meaning(reason) if _FOREVER.fullmatch(reason) else None


def explain(job: Job) -> str:
    """Why a job waits."""
    found = (text for pattern, text in _WORDS if re.fullmatch(pattern, job.reason))
    return next(found, "{reason}").format(id=job.id, reason=job.reason)


@dataclass
class QueueWatch:
    """Decides what to do about the jobs of one run, at each answer of Slurm. Pure: the executor does it.

    `lists`: jobs name several partitions, and squeue shows the reason of one of them.
    """

    campaign: str
    directory: str
    lists: bool = False
    #: Job -> the reason why it waits, or its state, and when that was seen first.
    _since: dict[str, tuple[str, float]] = field(default_factory=dict)
    _told: set[tuple[str, str]] = field(default_factory=set)
    _hint_given: bool = False

    def decide(self, jobs: Iterable[Job], now_s: float) -> tuple[list[tuple[Job, str]], list[Job]]:
        """Jobs that would wait forever, each with its remedy; and jobs to report, which wait or run: each reason of a
        job once. `now_s` must not go back."""
        cancel, report = [], []
        for job in jobs:
            if job.state not in ("PENDING", "RUNNING") or not allocation_of(job, self.campaign, self.directory):
                continue
            waits = job.state == "PENDING"
            state = job.reason.partition(":")[0] if waits else job.state  # lists of nodes change all the time
            if self._since.get(job.id, ("", 0))[0] != state:
                self._since[job.id] = state, now_s
            lasts = now_s - self._since[job.id][1] >= BELIEVED_S
            several = self.lists and job.reason.startswith("Partition")  # another partition may take it
            if waits and not several and (change := remedy(job.reason)):
                if lasts:
                    cancel.append((job, change))
            elif (job.id, state) not in self._told and (not waits or (lasts and state not in _NOTHING)):
                self._told.add((job.id, state))
                report.append(job)
        return cancel, report

    def sentence(self, job: Job) -> str:
        """A sentence on a job that waits or runs; for the first running job, with the command that shows more."""
        name = submission.spoken(allocation_of(job, self.campaign, self.directory) or "")
        if job.state == "RUNNING":
            until = f", until {_clock(job.ends)} at most" if job.ends else ""
            how = "" if self._hint_given else f"; `iosweep watch {self.campaign}` shows how far it is"
            self._hint_given = True
            return f"{name}: job {job.id} runs on {hosts(job.hosts)}{until}{how}"
        expected = f"; Slurm expects it to start at {_clock(job.starts)}" if job.starts else ""
        return f"{name}: job {job.id} waits: {explain(job)}{expected}"


def _clock(epoch_s: float) -> str:
    then, now = time.localtime(epoch_s), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%a %d %b %H:%M", then)


def say(text: str) -> None:
    """Print a line for the person at the terminal."""
    print(printable(f"iosweep: {text}"), file=sys.stderr, flush=True)


# Jobs of earlier runs: where Snakemake was killed, its jobs live on


def jobs_of_user(name: str = "") -> list[Job]:
    """Jobs of this user, with the real paths of their directories. `name`: as in query.jobs. Raises Unanswered."""
    return [replace(job, directory=os.path.realpath(job.directory)) for job in query.jobs(name=name)]


def allocation_of(job: Job, campaign: str, directory: str) -> str | None:
    """The allocation that a job measures; None if it is of another campaign or directory."""
    return query.allocation_of(job.comment, campaign) if job.directory == directory else None


def select_measuring(jobs: Iterable[Job], campaign: str, directories: Collection[str]) -> list[Job]:
    """Jobs that wait or run and measure a campaign from one of some directories. Pure."""
    return [
        job
        for job in jobs
        if job.alive and job.directory in directories and allocation_of(job, campaign, job.directory)
    ]


def wait_for_earlier_run(campaign: str) -> bool:
    """Wait until no job of an earlier run measures a campaign from this directory, so that nothing is measured twice.
    Returns whether there was such a job. Raises Unanswered."""
    reported, here = False, os.path.realpath(Path.cwd())
    while jobs := select_measuring(jobs_of_user(), campaign, [here]):
        if not reported:
            names = [submission.spoken(allocation_of(job, campaign, here) or "") for job in jobs]
            each = ", ".join(f"{job.id} ({name}, {job.state})" for job, name in zip(jobs, names, strict=True))
            end = f"`scancel {' '.join(job.id for job in jobs)}` ends them"
            then = "This run goes on when they are over; Ctrl-C ends the waiting."
            say(f"jobs of an earlier run still measure: {each}; {end}. {then}")
            reported = True
        time.sleep(5)
    return reported


# What `iosweep watch` asks

#: Minimum interval between questions to squeue, which the controller of a whole site answers.
ASK_EVERY_S = 15.0


class Queue:
    """The jobs of this user in Slurm. `wrong`: why they are not known."""

    def __init__(self) -> None:
        self._next_s = -math.inf
        self.jobs: list[Job] = []
        self.wrong = ""

    def update(self, holder: Owner | None) -> None:
        """Ask squeue, if the last question is old enough. `holder`: its job may be another user's."""
        if shutil.which("squeue") is None or time.monotonic() < self._next_s:
            return
        self.jobs, self.wrong, also = [], "", holder.job if holder else None
        try:
            self.jobs = [job for job in query.jobs() if job.alive]
            if also and also not in {job.id for job in self.jobs} and (other := query.job(also)) and other.alive:
                self.jobs.append(other)
        except Unanswered as error:
            # without a cluster nothing waits, unless the campaign is measured in a job of another machine's
            if also or not query.has_no_cluster(error.said):
                self.wrong = printable(str(error))
        self._next_s = time.monotonic() + ASK_EVERY_S

    def jobs_of(self, campaign: str, allocation: Allocation, results: Path) -> list[Job]:
        """Jobs that measure an allocation of a campaign, those that run last."""
        found = [
            job
            for job in self.jobs
            if query.allocation_of(job.comment, campaign) == allocation.name
            and results.resolve().is_relative_to(Path(job.directory).resolve())
        ]
        return sorted(found, key=lambda job: job.state != "PENDING")
