# What is done on the login node around the jobs: earlier ones waited for, each tried before it is submitted, and those
# that can never start ended. Submitting, asking for states and cancelling is the executor's.
import asyncio
import contextlib
import os
import shlex
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from iosweep.jobs import pending
from snakemake.logging import logger
from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.validation import validate_slurm_extra
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry
from snakemake_interface_logger_plugins.common import LogEvent


def wait_for_earlier_jobs():
    # Before the store is asked what is left. A lock that is still there is what Snakemake will refuse to run by.
    if Path(".snakemake/locks").is_dir() and any(Path(".snakemake/locks").iterdir()):
        return
    if not shutil.which("squeue") or not changes_files() or only_tools():
        return
    named = sayable(sweep_file.read, CONFIG, GIVEN).campaign
    try:
        pending.wait(named)
    except query.Unanswered as error:
        raise WorkflowError(
            f"{error}; whether jobs of an earlier run still measure this campaign cannot be seen"
        ) from None
    except KeyboardInterrupt:
        raise WorkflowError("stopped by Ctrl-C; nothing was submitted") from None


def submitted():
    """Jobs for Slurm, by allocation; as the plan has them, for Snakemake's are a set."""
    jobs = {
        job.wildcards.allocation: job
        for job in workflow.dag.needrun_jobs()
        if job.rule.name == "measure"
    }
    names = [allocation.name for allocation in CAMPAIGN.plan.allocations]
    return {name: jobs[name] for name in names if name in jobs}


def account_of(job):
    return sayable(submission.account, job.resources.get("slurm_account"))


def sbatch(job, partition):
    """The command that the executor submits a job with, but for names and script."""
    validate_slurm_extra(job)
    names = {"run_uuid": "iosweep", "comment_str": "iosweep", "slurm_logfile": "%j.log"}
    where = {
        "account": account_of(job),
        "partition": partition,
        "workdir": str(Path.cwd()),
    }
    return shlex.split(
        get_submit_command(job, names | where, workflow.executor_settings)
    )


def avoided(job, partition):
    """Nodes that a job is kept off, as far as Slurm has enough without them."""
    if not (nodes := AVOID.get(job.wildcards.get("allocation"))):
        return frozenset()
    names = ",".join(sorted(nodes))
    command = [*sbatch(job, partition), f"--exclude={names}"]
    try:
        query.ask([*command, "--test-only", "--wrap", "true"])
    except query.Unanswered:
        pending.say(
            f"note: the next job may get {names} again, because Slurm has too few nodes without"
        )
        return frozenset()
    pending.say(f"note: the next job is kept off {names}")
    return frozenset(nodes)


# Allocation -> jobs of others that one of its jobs has waited for; job -> its number and how Slurm says it ended;
# allocation -> nodes that could not work on the target in a job of it; allocation -> why its last job failed.
WAITED, ENDED, AVOID, FAILED = {}, {}, {}, {}


class Executor(SlurmExecutor):
    """The executor of the plugin, with less looking up and waiting."""

    silent = False  # whether Slurm did not answer at the last look
    avoided = frozenset()  # nodes that the job that is being submitted is kept off

    def __post_init__(self, test_mode=False):
        super().__post_init__(test_mode)
        self._job_submission_executor = ThreadPoolExecutor(1)  # one after the other

    def run_jobs(self, jobs):
        # Slurm measures them in the order in which they come; Snakemake's are a set.
        super().run_jobs(sorted(jobs, key=lambda job: job.resources.nodes))

    def run_job(self, job):
        # In the one thread that submits.
        self.avoided = avoided(job, self.get_partition_arg(job))
        super().run_job(job)
        self.avoided = frozenset()

    def get_account_arg(self, job):
        yield account_of(job)

    @property
    def _failed_nodes(self):
        # It would keep all jobs off every node of one that lost a node. Slurm starts nothing on a node that is down.
        # What our own jobs name is kept off that node.
        named = workflow.executor_settings.exclude_failed_nodes or ""
        return {node for node in named.split(",") if node} | self.avoided

    @_failed_nodes.setter
    def _failed_nodes(self, nodes):
        pass

    async def check_active_jobs(self, active_jobs):
        # The executor's own forgets all jobs when Slurm does not answer, and Snakemake waits for them forever; or it
        # asks sacct, whether there is accounting or not, and does not see that a job was cancelled.
        states, ended, was_silent = {}, False, self.silent
        try:
            states = query.states(self.run_uuid) if active_jobs else {}
            self.silent = False
        except query.Unanswered as error:
            self.silent = True
            if not was_silent:
                pending.say(f"{error}; it is asked again, jobs go on meanwhile")
        for info in active_jobs:
            state = states.get(info.external_jobid)
            if self.silent or state in query.ALIVE:
                yield info
                continue
            ended = True
            # Slurm may have forgotten it by now: the manifest says that all was well.
            there = all(Path(file).exists() for file in info.job.output)
            if state == "COMPLETED" or (state is None and there):
                self.report_job_success(info)
            else:
                if state != "FAILED":  # that has reasons of its own
                    ENDED[info.job] = info.external_jobid, state
                log = info.aux.get("slurm_logfile")
                self.report_job_error(info, aux_logs=[str(log)] if log else [])
        first_s = workflow.executor_settings.init_seconds_before_status_checks
        every_s = min(self.next_seconds_between_status_checks + 10, 3 * first_s)
        again_s = every_s if active_jobs and not ended else first_s
        self.next_seconds_between_status_checks = again_s

    async def sleep(self):
        # Between two looks at the jobs' states: not on when all is over, or Ctrl-C was pressed.
        end = time.monotonic() + self.next_seconds_between_status_checks
        while self.wait and (left_s := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, 0.3))

    def handle_job_error(self, job):
        # Snakemake decides next whether to try it again.
        super().handle_job_error(job)
        allocation, refusal = job.wildcards.allocation, refusal_of(job) or {}
        why, how = refusal.get("reason", ""), ""
        number, state = ENDED.pop(job, ("", "FAILED"))
        if number:
            how = f"job {number}: {state or 'unknown to Slurm'}"
        if (why or how) and not pending.told(why):
            both = f"{why} ({how})" if why and how else why or how
            pending.say(f"{submission.spoken(allocation)}: {both}")
        again = submission.repeated(
            refusal, FAILED.get(allocation, {}), CAMPAIGN.nodes(allocation)
        )
        FAILED[allocation] = refusal
        if refusal.get("lasting") or again:
            job.attempt = job.restart_times + 1
        elif job.attempt <= job.restart_times:
            STORE.set_refusal(allocation, None)  # the next job has reasons of its own
            after = AFTER[allocation] = refusal.get("after")
            before_s = CAMPAIGN.left_s.get(allocation, 0.0)
            look_again()
            # To wait for another job, or to have measured something, is no failure. Once for each: Slurm may not know
            # that job (another cluster's), or it has ended and left its lock; then nothing is waited for.
            waits = after and after not in WAITED.setdefault(allocation, set())
            if waits or CAMPAIGN.left_s.get(allocation, 0.0) < before_s:
                job.attempt -= 1
            elif submission.too_short(state, refusal):
                TOO_SHORT[allocation] = TOO_SHORT.get(allocation, 0) + 1
            bad = submission.avoidable(refusal.get("nodes"))
            AVOID.setdefault(allocation, set()).update(bad)
            WAITED.setdefault(allocation, set()).add(after)


ExecutorPluginRegistry().get_plugin("slurm").executor = Executor


def refusal_of(job):
    return STORE.documents("refusals").get(job.wildcards.allocation)


def look_again():
    # What is left for the next job of an allocation, unless the configuration is another one by now.
    global CAMPAIGN
    with contextlib.suppress(WorkflowError):
        now = campaign_now()
        if now.plan_file == CAMPAIGN.plan_file:
            CAMPAIGN = TEXT.dag = now


def before_the_first_submission():
    if jobs := submitted():
        try:
            prepare(jobs)
        except query.Unanswered as error:
            raise WorkflowError(f"{error}; nothing was submitted") from None


def prepare(jobs):
    executor = workflow.scheduler.get_executor(next(iter(jobs.values())))
    if not isinstance(executor, Executor):
        raise WorkflowError("profile: scheduler=slurm goes with `executor: slurm`")
    if left := pending.earlier(CAMPAIGN.plan.campaign):
        raise WorkflowError(pending.waiting(left, CAMPAIGN.plan.campaign))
    # Ctrl-C before its first look: its thread sleeps on, and Snakemake would wait for it. It is a daemon, and ends with us.
    executor.wait_thread.join = partial(executor.wait_thread.join, 1)
    wrong = {}
    for job in jobs.values():
        partition = executor.get_partition_arg(job)
        asked = job.resources.nodes, job.resources.runtime
        if why := pending.refused(sbatch(job, partition), *asked, partition):
            wrong.setdefault(why, []).append(submission.asks_for(*asked))
    if wrong:
        lines = [
            f"Slurm would not run the job that {' or the one that '.join(asks)}: {why}"
            for why, asks in wrong.items()
        ]
        raise WorkflowError("\n".join([*lines, "nothing was submitted"]))
    for allocation in jobs:
        STORE.set_refusal(allocation, None)  # of a run before this one
    by_id = {workflow.dag.jobid(job): job for job in jobs.values()}
    logger.addFilter(partial(worth_telling, by_id))
    every = workflow.executor_settings.init_seconds_before_status_checks
    subprocess.Popen(
        [*IOSWEEP, "pending", str(CAMPAIGN.results)]
        + ["--works-for", str(os.getpid()), "--every", str(every)]
    )


def worth_telling(jobs, record):
    # That no memory is asked for is on purpose, and a job of which it is said why it failed needs no page on that.
    if getattr(record, "event", None) == LogEvent.JOB_ERROR:
        job = jobs.get(record.jobid)
        return not job or not (refusal_of(job) or job in ENDED)
    return not str(record.msg).startswith("No job memory information")
