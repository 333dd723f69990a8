"""Submits allocations, watches their jobs, reports why they wait, and lets `Attempts` decide what follows a failure.

A job runs the command of its rule and nothing else: no Snakemake is started on the nodes.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
import uuid
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from iosweep.errors import ConfigError, Unanswered
from iosweep.jobs import attempts, pending, submission
from iosweep.jobs.attempts import Next
from iosweep.slurm import query
from iosweep.slurm.poller import Poller
from iosweep.slurm.query import Job

#: The rule whose jobs are submitted; all others run on the login node.
RULE = "measure"
#: Seconds between two looks for manifests.
LOOK_S = 0.5
#: Pause before Slurm is asked about new jobs; it doubles up to poll_seconds.
FIRST_POLL_S = 1.0
#: A controller under load may take long to accept a job.
SUBMISSION_DEADLINE_S = 120.0
#: The files that the login node has written may be seen later on a node: seconds on NFS. $PPID in the command is
#: slurmstepd. `exec`: Slurm's signals are for the command, and no shell ends before it.
_SCRIPT = """\
#!/bin/sh
tries=0
for file in {inputs}; do
    until [ -e "$file" ] || [ "$tries" -ge 60 ]; do sleep 1; tries=$((tries + 1)); done
done
exec {command}
"""


class MeasureJob(Protocol):
    """What is used of a job of Snakemake's."""

    attempt: int
    restart_times: int

    @property
    def name(self) -> str: ...

    @property
    def wildcards_dict(self) -> Mapping[str, str]: ...

    @property
    def input(self) -> Iterable[str]: ...

    @property
    def output(self) -> Iterable[str]: ...

    @property
    def log(self) -> Iterable[str]: ...

    @property
    def shellcmd(self) -> str: ...


def script(job: MeasureJob, plan: Path) -> str:
    files = " ".join(shlex.quote(str(file)) for file in (plan, *job.input))
    return _SCRIPT.format(inputs=files, command=job.shellcmd.strip())


def allocation_of(job: MeasureJob) -> str:
    return job.wildcards_dict["allocation"]


def _manifest(job: MeasureJob) -> Path:
    return Path(str(next(iter(job.output))))


def written(job: MeasureJob) -> bool:
    """Whether the manifest is there. The directory is read: NFS may answer a question for one file from its cache."""
    file = _manifest(job)
    try:
        return file in file.parent.iterdir()
    except FileNotFoundError:
        return False


class _Ended(SystemExit):
    """Ends Snakemake with a message. It would show a WorkflowError with the lines of this file that it went through."""

    def __init__(self, message: str):
        super().__init__(f"iosweep: {message}")


class Executor(RemoteExecutor):  # type: ignore[misc]  # Snakemake has no types
    """The executor of the profile for Slurm."""

    def __post_init__(self) -> None:
        """Before any rule runs: wait for jobs of an earlier run, and try what would be submitted."""
        found = attempts.handed_over()
        if found is None:
            raise _Ended("the executor iosweep runs the workflow iosweep only")
        if not found.campaign.site.slurm:  # --default-resources took the place of all that the profile has there
            lacking = 'default-resources lack scheduler="slurm" and the rest of profiles/slurm'
            raise _Ended(f"jobs go to Slurm, and {lacking}; change them in the profile. Nothing was run")
        self._attempts = found
        self._campaign = found.campaign.results.name
        self._run = f"iosweep_{uuid.uuid4()}"  # the name of all its jobs: singleton serializes them by it
        self._poller, self._next_s, self._pause_s, self._silent = Poller(), 0.0, FIRST_POLL_S, False
        self._about: frozenset[str] = frozenset()  # jobs that were submitted before Slurm was asked
        jobs = [job for job in self.dag.needrun_jobs() if job.name == RULE]
        lists = any("," in (found.asks(allocation_of(job))[0].partition or "") for job in jobs)
        self._watch = pending.Watch(self._campaign, os.path.realpath(Path.cwd()), lists)
        self._live: dict[str, MeasureJob] = {}
        self._explained: set[str | None] = set()
        self._next: dict[MeasureJob, Next] = {}
        if "SLURM_JOB_ID" in os.environ:  # its options would become those of our jobs
            query.forget_options()
        if jobs:
            try:
                self._prepare(jobs)
            except ConfigError as error:
                raise _Ended(f"{error}\nnothing was run") from None
            except KeyboardInterrupt:
                raise _Ended("stopped by Ctrl-C; nothing was submitted") from None

    def _prepare(self, jobs: Iterable[MeasureJob]) -> None:
        try:
            waited = pending.wait(self._campaign)
        except Unanswered as error:
            why = "whether jobs of an earlier run still measure this campaign cannot be seen"
            raise _Ended(f"{error}; {why}") from None
        if waited:
            self._attempts.look_again()
        wrong: dict[str, list[str]] = {}
        for job in self._in_order(jobs):
            asks, nodes, minutes = self._attempts.asks(allocation_of(job))
            longest = self._attempts.campaign.longest(allocation_of(job))
            if self._attempts.left(allocation_of(job)) and (
                refusal := pending.refused(self.sbatch(job), asks, nodes, minutes, longest)
            ):
                wrong.setdefault(refusal, []).append(submission.asks_for(nodes, minutes))
        if wrong:
            lines = [f"Slurm would not run the job that {' or the one that '.join(a)}: {w}" for w, a in wrong.items()]
            raise _Ended("\n".join([*lines, "nothing was submitted"]))
        self._attempts.begin(map(allocation_of, jobs))

    def sbatch(self, job: MeasureJob, avoid: Collection[str] = ()) -> list[str]:
        """The command that submits a job. `avoid`: nodes that it must not get."""
        allocation = allocation_of(job)
        log = Path(".snakemake/slurm_logs", f"rule_{RULE}", f"{self._campaign}_{allocation}", "%j.log")
        comment, out = query.comment(self._campaign, allocation), str(log.absolute())
        least, after = self._attempts.least_minutes(allocation), self._attempts.after(allocation)
        return submission.sbatch(
            *self._attempts.asks(allocation), self._run, comment, out, str(Path.cwd()),
            least=least, after=after, avoid=avoid,
        )  # fmt: skip

    def _in_order(self, jobs: Iterable[MeasureJob]) -> list[MeasureJob]:
        return sorted(jobs, key=lambda job: self._attempts.campaign.nodes(allocation_of(job)))

    def run_jobs(self, jobs: Iterable[MeasureJob]) -> None:
        """Submit jobs, the smallest first: Slurm runs them in the order of their submission. Where nothing is left (a
        smaller plan, a job of an earlier run) there is no job."""
        for job in self._in_order(jobs):
            self.run_job_pre(job)
            if self._attempts.left(allocation_of(job)):
                self.run_job(job)
            else:
                self._attempts.campaign.settle(allocation_of(job))
                self.report_job_success(SubmittedJobInfo(job))

    def run_job(self, job: MeasureJob) -> None:
        argv = self._keep_off(job)
        try:
            for file in (argv[argv.index("--output") + 1], *job.output, *job.log):
                Path(file).parent.mkdir(parents=True, exist_ok=True)
            _manifest(job).unlink(missing_ok=True)
            printed = query.ask(argv, SUBMISSION_DEADLINE_S, script=script(job, self._attempts.campaign.plan_file))
            number = printed.strip().partition(";")[0]
            if not number.isdigit():
                raise Unanswered(f"sbatch printed `{number}` in place of the number of a job")
        except (OSError, Unanswered) as error:
            said = str(error)
            pending.say(f"{submission.spoken(allocation_of(job))}: {said}; {submission.meaning(said)}")
            self._explained.add(None)
            self._decide(job, "FAILED")
            self.report_job_error(SubmittedJobInfo(job))
            return
        pending.say(f"{submission.spoken(allocation_of(job))}: job {number} was submitted")
        self._live[number] = job
        self._next_s, self._pause_s = time.monotonic() + FIRST_POLL_S, FIRST_POLL_S
        log = Path(argv[argv.index("--output") + 1].replace("%j", number))
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=number, aux={"log": str(log)}))

    def _keep_off(self, job: MeasureJob) -> list[str]:
        """The command, without the nodes that could not work on the target, as far as Slurm has enough others."""
        if not (nodes := self._attempts.bad_nodes(allocation_of(job))):
            return self.sbatch(job)
        names, without = ",".join(sorted(nodes)), self.sbatch(job, nodes)
        try:
            query.ask([*without, *submission.TRIAL])
        except Unanswered:
            pending.say(f"note: the next job may get {names} again, because Slurm has too few nodes without")
            return self.sbatch(job)
        pending.say(f"note: the next job is kept off {names}")
        return without

    async def sleep(self) -> None:
        await asyncio.sleep(LOOK_S)

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report jobs that have ended; yield the others. A manifest ends a job without a question to Slurm."""
        answer = self._answer() if active_jobs else None
        states = {job.id: job.state for job in answer or ()}
        for info in active_jobs:
            number = str(info.external_jobid)
            state = states.get(number)
            judged = answer is not None and number in self._about
            if written(info.job) or state == "COMPLETED":
                self._live.pop(number, None)
                self.report_job_success(info)
            elif not judged or state in query.ALIVE:
                yield info
            else:
                self._live.pop(number, None)
                self._tell(info, state)
                self._decide(info.job, state)
                self.report_job_error(info, aux_logs=[info.aux["log"]])

    def _answer(self) -> list[Job] | None:
        """The jobs of this run, once Slurm has answered; asks again after a while."""
        now_s = time.monotonic()
        if not self._poller.asking and now_s >= self._next_s:
            self._about = frozenset(self._live)
            self._poller.ask(partial(pending.own, self._run))
        jobs = self._poller.answer()
        if jobs is None:
            return None
        self._next_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, self.workflow.executor_settings.poll_seconds)
        if isinstance(jobs, Unanswered):
            if not self._silent:
                pending.say(f"{jobs}; it will be asked again, jobs continue")
            self._silent = True
            return None
        self._silent = False
        end, tell = self._watch.look(jobs, now_s)
        for job in tell:
            pending.say(self._watch.sentence(job))
        for job, why in end:
            self._give_up(job, why)
        return jobs

    def _give_up(self, job: Job, why: str) -> None:
        """Cancel a job that cannot start. First the reason, for the report, and so that it is not tried again."""
        try:
            self._attempts.give_up(allocation_of(self._live[job.id]), f"job {job.id} was cancelled: {why}")
            query.ask(["scancel", job.id])
        except (KeyError, OSError, Unanswered) as error:
            pending.say(f"job {job.id} for {why}; it could not be cancelled: {error}")
        else:
            self._explained.add(job.id)
            pending.say(f"job {job.id} was cancelled: {why}")

    def _tell(self, info: SubmittedJobInfo, state: str | None) -> None:
        """Why a job failed, in a sentence, where that is known."""
        number, allocation = str(info.external_jobid), allocation_of(info.job)
        refusal = self._attempts.refusal(allocation)
        why = refusal.reason if refusal else ""
        how = "" if state == "FAILED" else f"job {number}: {state or 'unknown to Slurm'}"  # which has its own reason
        if (why or how) and number not in self._explained:
            pending.say(f"{submission.spoken(allocation)}: " + (f"{why} ({how})" if why and how else why or how))
            self._explained.add(number)

    def _decide(self, job: MeasureJob, state: str | None) -> None:
        """What follows a job that failed. Here, because Snakemake's scheduler waits in `handle_job_error`."""
        self._next[job] = self._attempts.failed(allocation_of(job), state, job.attempt <= job.restart_times)

    def handle_job_error(self, job: MeasureJob) -> None:
        """Have Snakemake try a failed job again, or not: it decides by the number of attempts next, and adds 1."""
        super().handle_job_error(job)
        after = self._next.pop(job, Next.RETRY)
        if after is Next.NONE:
            job.attempt = job.restart_times + 1
        elif after is Next.FREE:
            job.attempt -= 1

    def print_job_error(self, job_info: SubmittedJobInfo, msg: str | None = None, **kwargs: object) -> None:
        """Print Snakemake's page about a failed job, unless the reason was already printed."""
        if job_info.external_jobid not in self._explained:
            super().print_job_error(job_info, msg, **kwargs)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel all jobs. The base class's list lacks those that are looked at in this moment."""
        if numbers := sorted(self._live):
            try:
                query.ask(["scancel", *numbers], SUBMISSION_DEADLINE_S)
            except Unanswered as error:
                pending.say(f"{error}; the jobs may live on: `scancel {' '.join(numbers)}`")
