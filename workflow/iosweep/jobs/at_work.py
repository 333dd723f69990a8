"""Which jobs work on a campaign, from squeue."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path

from iosweep.errors import Unanswered
from iosweep.jobs import pending
from iosweep.plan.model import Allocation
from iosweep.slurm import query
from iosweep.slurm.poller import Poller
from iosweep.target.lock import Owner
from iosweep.text import printable

#: Minimum interval between questions to squeue, which the controller of a whole site answers.
ASK_EVERY_S = 15.0
#: Time to wait for its first answer.
FIRST_ANSWER_S = 10.0


class Queue:
    """The answers of squeue, asked in the background: the clock on the screen must not stop."""

    def __init__(self, every_s: float = ASK_EVERY_S):
        self._every_s, self._poller = every_s, Poller()
        self._asked: float | None = None
        self.jobs: list[query.Job] | None = None  # None: not known
        self.wrong = ""

    def look(self, holder: Owner | None) -> None:
        """Update `jobs` if the last question is old enough. `holder`: its job may be another user's."""
        if shutil.which("squeue") is None:
            return
        in_job = bool(holder and holder.job)
        self._take(self._poller.answer(), in_job)
        now, asked = time.monotonic(), self._asked
        if not self._poller.asking and (asked is None or now - asked > self._every_s):
            self._asked = now
            self._poller.ask(partial(_alive, holder.job if holder else None))
        if asked is None:
            self.wrong = "squeue has not answered yet"
            self._take(self._poller.answer(FIRST_ANSWER_S), in_job)

    def _take(self, answer: list[query.Job] | Unanswered | None, in_job: bool) -> None:
        if isinstance(answer, Unanswered):
            # without a cluster nothing waits, unless the campaign is measured in a job of another machine's
            expected = query.has_no_cluster(answer.said) and not in_job
            self.jobs, self.wrong = None, "" if expected else printable(str(answer))
        elif answer is not None:
            self.jobs, self.wrong = answer, ""

    def jobs_of(self, campaign: str, allocation: Allocation, results: Path) -> list[query.Job]:
        """Jobs that measure an allocation of a campaign, those that run last."""
        found = [
            job
            for job in self.jobs or ()
            if query.allocation_of(job.comment, campaign) == allocation.name
            and results.resolve().is_relative_to(Path(job.directory).resolve())
        ]
        return sorted(found, key=lambda job: job.state != "PENDING")


def _alive(also: str | None) -> list[query.Job]:
    """Jobs of this user that have not ended, and one that may be another user's. Raises Unanswered."""
    jobs = query.jobs()
    if also and also not in {job.id for job in jobs} and (other := query.job(also)):
        jobs.append(other)
    return [job for job in jobs if job.alive]


def why(job: query.Job) -> str:
    """Why a job waits, in plain words where there are any."""
    return printable(pending.words(job))
