# The plan and what the store says is left, asked once.
import subprocess
import sys
from pathlib import Path

from iosweep import dag
from iosweep.errors import Busy, ConfigError
from iosweep.jobs import attempts


def or_exit(function, *arguments):
    # An exception would be shown with the lines of this file that it went through.
    try:
        return function(*arguments)
    except (Busy, ConfigError) as error:
        sys.exit(f"{error}\nnothing was run")
    except KeyboardInterrupt:
        sys.exit("iosweep: stopped by Ctrl-C; nothing was run")


ASKED = or_exit(dag.asked, workflow)
SITE = ASKED.site
CAMPAIGN = or_exit(ASKED.load)
NAME = CAMPAIGN.results.name
SCHEDULER = ["--scheduler", "slurm"] if SITE.slurm else []
# Names and text are UTF-8, whatever the locale, and modules are ours, whatever lies in the working directory.
IOSWEEP = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep"]

for line in (
    *CAMPAIGN.damaged,
    *(() if CAMPAIGN.left else CAMPAIGN.unmeasured()),
    *(CAMPAIGN.notes() if ASKED.dry else ()),
):
    print(f"iosweep: {line}", file=sys.stderr)
if ASKED.runs:
    or_exit(CAMPAIGN.mend)
for handler in logger.handlers:
    if handler.name == "DefaultStreamHandler":
        handler.addFilter(dag.Told())
# The executor plugin takes it from there.
ATTEMPTS = attempts.Attempts(CAMPAIGN, ASKED.load)
attempts.of_this_run = ATTEMPTS


def stale(file):
    """Whether a file is to be made again. What runs no job, and removes none, shows it by a changed parameter."""
    return not ASKED.runs and file in CAMPAIGN.stale


def before_anything_runs():
    if CAMPAIGN.left and not SITE.slurm:
        or_exit(dag.see_target, ASKED.config, CAMPAIGN, ASKED.given)
    # Held until this Snakemake ends; its own lock would stay after a kill.
    or_exit(dag.lock, CAMPAIGN.results)
    or_exit(CAMPAIGN.write_plan)


def asked_rules():
    return {job.rule.name for job in workflow.dag.jobs}


def builds_only():
    return asked_rules() == {"tools"}


def report_what_is_there():
    # Without the figures, which take time: this also runs after Ctrl-C.
    steps = ["tables", CAMPAIGN.plan_file], ["report", "--page", CAMPAIGN.results]
    return CAMPAIGN.plan_file.exists() and not any(
        subprocess.run([*IOSWEEP, *step], check=False).returncode for step in steps
    )


def end_with_the_reason(logs):
    # Here Snakemake ends: it would go on to say that a job did not complete.
    failed = [
        (job.rule.name, job.wildcards.get("allocation"), Path(job.log[0]))
        for job in workflow.scheduler.failed
    ]
    there = not builds_only() and report_what_is_there()
    measured = ATTEMPTS.measured_since(CAMPAIGN)
    if there and failed and measured:
        show_headline()
    lines = [
        *(f"complete log: {log}" for log in logs),
        *ATTEMPTS.end(failed, measured),
    ]
    exit_with(lines)


def exit_with(lines):
    sys.exit("\n".join(f"iosweep: {line}" for line in lines))


def show_headline():
    subprocess.run([*IOSWEEP, "show", NAME], check=False)
