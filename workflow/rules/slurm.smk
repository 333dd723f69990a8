# What is done on the login node around the jobs: earlier ones waited for, each tried before it is submitted, and those
# that can never start ended. Submitting, asking for states and cancelling is the executor's.
import asyncio
import contextlib
import os
import shlex
import shutil
import time
from functools import partial

from iosweep import config as configuration
from iosweep import pending, slurm
from snakemake.logging import logger
from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.validation import validate_slurm_extra
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry
from snakemake_interface_logger_plugins.common import LogEvent

# What Snakemake can be asked for beside a run.
NO_RUN = """dryrun touch unlock lint list_rules list_target_rules print_compilation dag rulegraph filegraph d3dag
    summary detailed_summary report containerize generate_unit_tests cleanup_metadata list_changes list_input_changes
    list_params_changes list_untracked archive delete_all_output delete_temp_output""".split()


def runs():
    # While a Snakefile is read, only the command line's function knows what is asked for.
    frame = sys._getframe()
    while frame and frame.f_code.co_name != "args_to_api":
        frame = frame.f_back
    asked = frame.f_locals.get("args") if frame else None
    return asked and not any(getattr(asked, key, None) for key in NO_RUN)


def wait_for_earlier_jobs():
    # Before the store is asked what is left. A lock that is still there is what Snakemake will refuse to run by.
    if Path(".snakemake/locks").is_dir() and any(Path(".snakemake/locks").iterdir()):
        return
    if not shutil.which("squeue") or not runs():
        return
    try:
        pending.wait(configuration.read(CONFIG).campaign)
    except slurm.Unanswered as error:
        raise WorkflowError(
            f"{error}; whether jobs of an earlier run still measure this campaign cannot be seen"
        ) from None
    except KeyboardInterrupt:
        raise WorkflowError("stopped by Ctrl-C; nothing was submitted") from None


def submitted():
    """Jobs for Slurm, by allocation."""
    return {
        job.wildcards.allocation: job
        for job in workflow.dag.needrun_jobs()
        if job.rule.name == "measure"
    }


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


# Allocation -> jobs of others that one of its jobs has waited for; job -> how Slurm says it ended.
WAITED, ENDED = {}, {}


class Executor(SlurmExecutor):
    """The executor of the plugin, with less looking up and waiting."""

    def get_account_arg(self, job):
        yield account_of(job)

    @property
    def _failed_nodes(self):
        # It would keep all jobs off every node of one that lost a node. Slurm starts nothing on a node that is down.
        named = workflow.executor_settings.exclude_failed_nodes or ""
        return {node for node in named.split(",") if node}

    @_failed_nodes.setter
    def _failed_nodes(self, nodes):
        pass

    async def sleep(self):
        # Between two looks at the jobs' states. Left to itself it sleeps for up to 180 s, which is longer than some sites
        # remember a job that ended (three times the first look's time it insists on, or it asks sacct), and sleeps on
        # when all is over or Ctrl-C was pressed.
        first_s = workflow.executor_settings.init_seconds_before_status_checks
        sleeps_s = min(self.next_seconds_between_status_checks, 3 * first_s)
        end = time.monotonic() + sleeps_s
        while self.wait and (left_s := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, 0.3))

    def report_job_error(self, job_info, msg=None, **kwargs):
        # What it says is a page, of which this is what counts: TIMEOUT, CANCELLED, NODE_FAIL.
        found = re.search(r"status is: '(\w+)'", msg or "")
        if found and found[1] != "FAILED":
            ENDED[job_info.job] = f" (job {job_info.external_jobid}: {found[1]})"
        super().report_job_error(job_info, msg, **kwargs)

    def handle_job_error(self, job):
        # Snakemake decides next whether to try it again.
        super().handle_job_error(job)
        if not (refusal := refusal_of(job)):
            return
        allocation = job.wildcards.allocation
        if not pending.told(refusal["reason"]):
            why = refusal["reason"] + ENDED.pop(job, "")
            pending.say(f"{submission.spoken(allocation)}: {why}")
        if refusal.get("lasting"):
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
        except slurm.Unanswered as error:
            raise WorkflowError(f"{error}; nothing was submitted") from None


def prepare(jobs):
    executor = workflow.scheduler.get_executor(next(iter(jobs.values())))
    if not isinstance(executor, Executor):
        raise WorkflowError("profile: scheduler=slurm goes with `executor: slurm`")
    if left := pending.earlier(CAMPAIGN.plan.campaign):
        raise WorkflowError(pending.waiting(left, CAMPAIGN.plan.campaign))
    # Ctrl-C before its first look: its thread sleeps on, and Snakemake would wait for it. It is a daemon, and ends with us.
    executor.wait_thread.join = partial(executor.wait_thread.join, 1)
    wrong = []
    for job in jobs.values():
        partition = executor.get_partition_arg(job)
        asked = job.resources.nodes, job.resources.runtime
        if why := pending.refused(sbatch(job, partition), *asked, partition):
            job_asks = submission.asks_for(*asked)
            wrong.append(f"Slurm would not run the job that {job_asks}: {why}")
    if wrong:
        raise WorkflowError("\n".join([*wrong, "nothing was submitted"]))
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
    # That no memory is asked for is on purpose, and a job that said why it failed needs no page on that.
    if getattr(record, "event", None) == LogEvent.JOB_ERROR:
        return record.jobid not in jobs or not refusal_of(jobs[record.jobid])
    return not str(record.msg).startswith("No job memory information")
