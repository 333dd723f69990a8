# The plan and what the store says is left, asked once.
import subprocess
import sys
from pathlib import Path

from iosweep import dag
from iosweep.config import sweep_file
from iosweep.errors import Busy, ConfigError
from iosweep.jobs import attempts, submission
from snakemake.exceptions import WorkflowError


def chosen_configuration():
    # One file is one campaign: merging two, as Snakemake does, would hide what is measured.
    files = workflow.config_settings.configfiles
    if len(files) > 1:
        raise WorkflowError("give one --configfile; a campaign is one file")
    file = Path(files[0]) if files else Path("config/sweep.yaml")
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def given_values():
    # As they are written: Snakemake's own would make a number of `campaign=007`.
    texts = workflow.config_settings.config_args or ()
    given = dict(text.split("=", 1) for text in texts)
    if unknown := sorted(set(given) - {"only", *sweep_file.GIVEN}):
        raise WorkflowError(
            "--config knows `only` (points or sweeps), `campaign` and `target` (a directory), not"
            f" {', '.join(unknown)}; everything else belongs in the configuration file"
        )
    return given


def in_profile():
    # A profile's `config:` vanishes under --config; its default-resources do not, and are known here already. Snakemake
    # adds some without a value.
    known = workflow.resource_settings.default_resources or {}
    raw = {key: known[key].raw for key in known if known[key].raw is not None}
    return {
        key: value.strip("\"'") if isinstance(value, str) else value
        for key, value in raw.items()
    }


def or_exit(function, *arguments):
    # A WorkflowError would be shown with the lines of this file that it went through.
    try:
        return function(*arguments)
    except (Busy, ConfigError) as error:
        sys.exit(f"{error}\nnothing was run")


DRY = workflow.output_settings.dryrun
GIVEN, PROFILE, RESULTS = given_values(), in_profile(), Path("results")
CONFIG, ONLY = chosen_configuration(), GIVEN.pop("only", None)
LAUNCHER = PROFILE.get("launcher", "direct")
SITE = or_exit(submission.site, PROFILE)  # None on this machine alone
SCHEDULER = ["--scheduler", "slurm"] if SITE else []
IN_PLACE = [f"--{name}={value}" for name, value in GIVEN.items()]
# Names and text are UTF-8, whatever the locale, and modules are ours, whatever lies in the working directory.
IOSWEEP = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep"]


def campaign_now():
    """The campaign, and what is left of it."""
    provider = PROFILE.get("tools", "path")
    # For -n on the machine that measures, the target has to be there.
    look = DRY and not SITE
    return dag.load(CONFIG, RESULTS, LAUNCHER, ONLY, SITE, provider, look, GIVEN)


CAMPAIGN = or_exit(campaign_now)
NAME = CAMPAIGN.results.name
for line in (*CAMPAIGN.damaged, *(CAMPAIGN.notes() if DRY else ())):
    print(f"iosweep: {line}", file=sys.stderr)
if not DRY:
    or_exit(CAMPAIGN.mend)
# The executor plugin takes it from there.
ATTEMPTS = attempts.Attempts(CAMPAIGN, campaign_now)
attempts.hand_over(ATTEMPTS)


def stale(file):
    """Whether a file is to be made again. A dry run, which removes none, shows it by a changed parameter."""
    return DRY and file in CAMPAIGN.stale


def before_anything_runs():
    if CAMPAIGN.left and not SITE:
        or_exit(dag.see_target, CONFIG, CAMPAIGN, GIVEN)
    # Held until this Snakemake ends; its own lock would stay after a kill.
    or_exit(dag.lock, CAMPAIGN.results)
    or_exit(CAMPAIGN.write_plan)


def builds_only():
    return {job.rule.name for job in workflow.dag.jobs} == {"tools"}


def report_what_is_there():
    # Without the figures, which take time: this also runs after Ctrl-C.
    if CAMPAIGN.plan_file.exists():
        for step in (
            ["tables", CAMPAIGN.plan_file],
            ["report", "--page", CAMPAIGN.results],
        ):
            if subprocess.run([*IOSWEEP, *step], check=False).returncode:
                return
        show_headline()


def end_with_the_reason(logs):
    # Here Snakemake ends: it would go on to say that a job did not complete.
    failed = [
        (job.rule.name, job.wildcards.get("allocation"), Path(job.log[0]))
        for job in workflow.scheduler.failed
    ]
    goes_on = "what was measured is stored; the same command goes on from there"
    lines = [
        *(f"complete log: {log}" for log in logs),
        *ATTEMPTS.reasons(failed),
        "the same command tries again" if builds_only() else goes_on,
    ]
    sys.exit("\n".join(f"iosweep: {line}" for line in lines))


def show_headline():
    subprocess.run([*IOSWEEP, "show", NAME], check=False)
