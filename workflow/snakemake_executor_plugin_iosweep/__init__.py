"""Snakemake's executor for allocations as batch jobs of Slurm. Snakemake finds this package by its name.

It submits allocations, watches their jobs, reports why they wait, and lets `Attempts` decide what follows a failure. A
job runs the command of its rule and nothing else: no Snakemake is started on the nodes. This module knows Snakemake's
interfaces; `iosweep.jobs` and `iosweep.slurm` ask Slurm and interpret its answers.
"""

# Without postponed annotations: Snakemake calls the types of ExecutorSettings.

import asyncio
import os
import shlex
import time
import uuid
from collections.abc import AsyncGenerator, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import SingleJobExecutorInterface as MeasureJob
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from iosweep.errors import ConfigError, Unanswered
from iosweep.jobs import attempts, pending, submission
from iosweep.jobs.attempts import Next
from iosweep.jobs.submission import Work
from iosweep.slurm import query
from iosweep.slurm.query import Job
from iosweep.store.record import Refusal

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

common_settings = CommonSettings(non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False)


@dataclass
class ExecutorSettings(ExecutorSettingsBase):  # type: ignore[misc]  # Snakemake has no types
    """Keys of a profile, which have the prefix `iosweep-` there."""

    poll_seconds: int = field(
        default=20, metadata={"help": "Longest time between two questions to Slurm's controller on the jobs' states."}
    )


#: The rule whose jobs are submitted; all others run on the login node.
RULE = "measure"
#: Seconds between two checks for manifests.
LOOK_S = 0.5
#: Pause before Slurm is asked about new jobs; it doubles up to poll_seconds.
FIRST_POLL_S = 1.0
#: A controller under load may take long to accept a job.
SUBMISSION_DEADLINE_S = 120.0
#: On NFS, a node may see the files of the login node some seconds later. $PPID in the command is slurmstepd. `exec`:
#: Slurm's signals reach the command, and no shell ends before it.
_SCRIPT = """\
#!/bin/sh
tries=0
for file in {inputs}; do
    until [ -e "$file" ] || [ "$tries" -ge 60 ]; do sleep 1; tries=$((tries + 1)); done
done
exec {command}
"""


def script(job: MeasureJob, plan: Path) -> str:
    files = " ".join(shlex.quote(str(file)) for file in (plan, *job.input))
    return _SCRIPT.format(inputs=files, command=job.shellcmd.strip())


def allocation_of(job: MeasureJob) -> str:
    return str(job.wildcards_dict["allocation"])


def _manifest(job: MeasureJob) -> Path:
    return Path(str(next(iter(job.output))))


def written(job: MeasureJob) -> bool:
    """Whether the manifest exists. The directory is read, because NFS may answer for a single file from its cache."""
    file = _manifest(job)
    try:
        return file in file.parent.iterdir()
    except FileNotFoundError:
        return False


class _Ended(SystemExit):
    """Ends Snakemake with a message alone; a WorkflowError would be shown with a traceback of this file."""

    def __init__(self, message: str):
        super().__init__(f"iosweep: {message}")


class Executor(RemoteExecutor):  # type: ignore[misc]  # Snakemake has no types
    """The executor of the profile for Slurm."""

    _unsent: dict[str, MeasureJob] = {}  # noqa: RUF012  # the base class looks for jobs before `__post_init__`

    def __post_init__(self) -> None:
        """Before any rule runs: wait for jobs of an earlier run, and try all jobs that would be submitted."""
        if attempts.current is None:
            raise _Ended("the executor iosweep runs the workflow iosweep only")
        self._attempts = attempts.current
        if not self._attempts.campaign.site.slurm:  # --default-resources took the place of all that the profile has
            lacking = 'default-resources lack scheduler="slurm" and the rest of profiles/slurm'
            raise _Ended(f"jobs go to Slurm, and {lacking}; change them in the profile. Nothing was run")
        self._campaign = self._attempts.campaign.results.name
        self._run = f"iosweep_{uuid.uuid4()}"  # the name of all its jobs: singleton serializes them by it
        self._next_s, self._pause_s, self._silent = 0.0, FIRST_POLL_S, False  # of the questions to Slurm
        #: Allocation -> job to be submitted, in order. `_refused`: allocation -> message of sbatch when it failed;
        #: Slurm may have the job nevertheless.
        self._unsent = {}
        self._refused: dict[str, str] = {}
        self._jobs: dict[str, MeasureJob] = {}  # all that were submitted, by number
        jobs = [job for job in self.dag.needrun_jobs() if job.name == RULE]
        lists = any("," in (self._work(job).site.partition or "") for job in jobs)
        self._watch = pending.QueueWatch(self._campaign, os.path.realpath(Path.cwd()), lists)
        self._explained: set[str | None] = set()
        self._next: dict[MeasureJob, Next] = {}
        if "SLURM_JOB_ID" in os.environ:  # its options would become those of our jobs
            query.forget_options()
        if not jobs:
            return
        try:
            if pending.wait_for_earlier_run(self._campaign):
                self._attempts.reload()
            trials = submission.try_jobs(
                (self._work(job), self._attempts.minutes(allocation_of(job)), self.sbatch(job))
                for job in self._in_order(jobs)
                if self._work(job).points
            )
        except Unanswered as error:
            why = "whether jobs of an earlier run still measure this campaign cannot be seen"
            raise _Ended(f"{error}; {why}") from None
        except ConfigError as error:
            raise _Ended(f"{error}\nnothing was run") from None
        except KeyboardInterrupt:
            raise _Ended("stopped by Ctrl-C; nothing was submitted") from None
        for note in trials.notes:
            pending.say(f"note: {note}")
        if trials.refusals:
            raise _Ended("\n".join([*trials.refusals, "nothing was submitted"]))
        for job in jobs:  # refusals of an earlier run
            self._attempts.store.set_refusal(allocation_of(job), None)

    def _work(self, job: MeasureJob) -> Work:
        return self._attempts.work(allocation_of(job))

    def _allocation(self, job: Job) -> str:
        return query.allocation_of(job.comment, self._campaign) or ""

    def _log(self, job: MeasureJob) -> Path:
        name = f"{self._campaign}_{allocation_of(job)}"
        return Path(".snakemake/slurm_logs", f"rule_{RULE}", name, "%j.log").absolute()

    def sbatch(self, job: MeasureJob, avoid: Collection[str] = ()) -> list[str]:
        """The command that submits a job. `avoid`: nodes that it must not get."""
        allocation, work, attempts = allocation_of(job), self._work(job), self._attempts
        return submission.sbatch(
            work.site,
            work.nodes,
            attempts.minutes(allocation),
            self._run,
            query.comment(self._campaign, allocation),
            str(self._log(job)),
            str(Path.cwd()),
            after=attempts.after(allocation),
            avoid=avoid,
        )

    def _in_order(self, jobs: Iterable[MeasureJob]) -> list[MeasureJob]:
        return sorted(jobs, key=lambda job: self._work(job).nodes)

    def run_jobs(self, jobs: Iterable[MeasureJob]) -> None:
        """Submit jobs, the smallest first: Slurm runs them in the order of their submission. An allocation with nothing
        left (a smaller plan, a job of an earlier run) needs no job."""
        for job in self._in_order(jobs):
            self.run_job_pre(job)
            if self._work(job).points:
                self.run_job(job)
            else:
                self._attempts.campaign.settle(allocation_of(job))
                self.report_job_success(SubmittedJobInfo(job))

    def run_job(self, job: MeasureJob) -> None:
        """Queue a job for the loop that watches, which submits nothing while jobs are canceled."""
        self._unsent[allocation_of(job)] = job

    def _send(self, answer: list[Job] | None) -> None:
        """Submit the unsent jobs in order. A job that sbatch failed to submit is first looked for in Slurm's answer.
        Where too many jobs are queued, one job is tried after each answer."""
        for name, job in list(self._unsent.items()):
            if refusal := self._refused.get(name):
                if answer is None:
                    return
                found = (one.id for one in answer if one.id not in self._jobs and self._allocation(one) == name)
                if number := next(found, None):
                    self._submitted(job, number)
                    continue
                if not submission.is_full(refusal):
                    del self._unsent[name], self._refused[name]
                    self._explained.add(None)
                    self._decide(job, "FAILED")
                    self.report_job_error(SubmittedJobInfo(job))
                    continue
            if not self._submit(job):
                return

    def _submit(self, job: MeasureJob) -> bool:
        """Submit a job. Returns False if sbatch failed, although Slurm may have the job."""
        name, spoken = allocation_of(job), submission.spoken(allocation_of(job))
        try:
            argv = self._tried(job)
            for file in (self._log(job), *job.output, *job.log):
                Path(file).parent.mkdir(parents=True, exist_ok=True)
            _manifest(job).unlink(missing_ok=True)
            number = query.submit(argv, script(job, self._attempts.campaign.plan_file), SUBMISSION_DEADLINE_S)
        except (OSError, Unanswered) as error:
            said, before = getattr(error, "said", "") or str(error), self._refused.get(name)
            self._refused[name] = said
            if not submission.is_full(said):
                pending.say(f"{spoken}: {said}; {submission.meaning(said, self._work(job).site)}")
                self._soon()
            elif before is None:
                pending.say(f"{spoken}: too many jobs are queued ({said}); it is submitted when others are over")
            return False
        self._submitted(job, number)
        return True

    def _submitted(self, job: MeasureJob, number: str) -> None:
        name = allocation_of(job)
        del self._unsent[name]
        self._refused.pop(name, None)
        pending.say(f"{submission.spoken(name)}: job {number} was submitted")
        self._jobs[number] = job
        self._soon()
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=number))

    def _soon(self) -> None:
        """Ask Slurm soon, and then less and less often."""
        self._next_s, self._pause_s = time.monotonic() + FIRST_POLL_S, FIRST_POLL_S

    def _tried(self, job: MeasureJob) -> list[str]:
        """The command that submits a job, without the nodes that could not work on the target if Slurm has enough other
        nodes. Raises Unanswered if too many jobs are queued: sbatch itself may wait 2 minutes for room."""
        nodes = self._attempts.bad_nodes(allocation_of(job))
        names, argv = ",".join(sorted(nodes)), self.sbatch(job, nodes)
        if nodes or allocation_of(job) in self._refused:
            try:
                query.ask([*argv, *submission.TRIAL])
            except Unanswered as error:
                if submission.is_full(error.said):
                    raise
                if nodes:
                    pending.say(f"note: the next job may get {names} again, because Slurm has too few nodes without")
                return self.sbatch(job)
            if nodes:
                pending.say(f"note: the next job is kept off {names}")
        return argv

    async def sleep(self) -> None:
        await asyncio.sleep(LOOK_S)

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report jobs that have ended; yield the others. A manifest ends a job without a question to Slurm."""
        if not (active_jobs or self._unsent):
            return
        answer = self._answer() if active_jobs or self._refused else None
        self._send(answer)
        found = {job.id: job for job in answer or ()}
        for info in active_jobs:
            number = str(info.external_jobid)
            job = found.get(number)
            state = job.state if job else None
            if written(info.job) or state == "COMPLETED":
                self.report_job_success(info)
            elif answer is None or (job and job.alive):
                yield info
            else:
                refusal = self._attempts.refusal(allocation_of(info.job))
                why = refusal.reason if refusal else ""
                # the refusal has the reason
                how = "" if state == "FAILED" else f"job {number}: {state or 'unknown to Slurm'}"
                if (why or how) and number not in self._explained:
                    text = f"{why} ({how})" if why and how else why or how
                    pending.say(f"{submission.spoken(allocation_of(info.job))}: {text}")
                    self._explained.add(number)
                self._decide(info.job, state)
                self.report_job_error(info, aux_logs=[str(self._log(info.job)).replace("%j", number)])

    def _answer(self) -> list[Job] | None:
        """The jobs of this run, from Slurm; None while it is too early to ask, or without an answer."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return None
        try:
            jobs = pending.jobs_of_user(self._run)
        except Unanswered as error:
            if not self._silent:
                pending.say(f"{error}; it will be asked again, jobs continue")
            self._silent = True
            return None
        finally:
            self._next_s = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, self.workflow.executor_settings.poll_seconds)
        self._silent = False
        end, tell = self._watch.decide(jobs, now_s)
        for job in tell:
            pending.say(self._watch.sentence(job))
        for job, change in end:  # these jobs cannot start
            name = self._allocation(job)
            why = f"{submission.spoken(name)} would wait forever ({job.reason}): {change}"
            # stored first, for the report, and so that no job follows
            refusal = Refusal(f"job {job.id} was cancelled: {why}", lasting=True, stopped=True)
            try:
                self._attempts.store.set_refusal(name, refusal)
                query.ask(["scancel", job.id])
            except (OSError, Unanswered) as error:
                pending.say(f"job {job.id} for {why}; it could not be cancelled: {error}")
            else:
                self._explained.add(job.id)
                pending.say(f"job {job.id} was cancelled: {why}")
        return jobs

    def _decide(self, job: MeasureJob, state: str | None) -> None:
        """Decide what follows a job that failed: in this thread, since `handle_job_error` blocks the scheduler."""
        self._next[job] = self._attempts.after_failure(allocation_of(job), state, job.attempt <= job.restart_times)

    def handle_job_error(self, job: MeasureJob) -> None:
        """Set the number of attempts, by which Snakemake then decides whether it tries the job again; it adds 1."""
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
        """Submit no more jobs, and cancel all by their name, since the number of a job may not be known yet."""
        self.shutdown()
        if self._jobs or self._unsent:
            try:
                query.ask(["scancel", f"--name={self._run}"], SUBMISSION_DEADLINE_S)
            except Unanswered as error:
                pending.say(f"{error}; the jobs may live on: `scancel --name={self._run}`")
