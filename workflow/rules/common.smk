# The plan and what the store says is left, asked once.
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

from iosweep import dag
from iosweep.config import sweep_file
from iosweep.jobs import attempts, profile, submission
from iosweep.errors import Busy, ConfigError
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


def in_profile(key):
    # A profile's `config:` vanishes under --config; its default-resources do not, and are known here already.
    resources = workflow.resource_settings.default_resources or {}
    if key not in resources:
        return None
    raw = resources[key].raw
    return raw.strip("\"'") if isinstance(raw, str) else raw


def chosen_site():
    if (scheduler := in_profile("scheduler")) is None:
        # --default-resources on the command line takes the place of all that the profile has there.
        if profile.submits(sys.argv[1:]):
            raise WorkflowError(
                'jobs go to Slurm, and default-resources lack scheduler="slurm" and the rest of profiles/slurm;'
                " change them in the profile. Nothing was run"
            )
        return None
    if scheduler != "slurm":
        raise WorkflowError(
            f"profile: scheduler: `{scheduler}` is unknown (known: slurm)"
        )
    known = workflow.resource_settings.default_resources
    # Snakemake adds these without a value.
    given = {key: in_profile(key) for key in known if known[key].raw is not None}
    return submission.site(given, partial(profile.place, sys.argv[1:]))


def chosen_provider():
    provider = in_profile("tools") or "path"
    if provider not in submission.PROVIDERS:
        raise WorkflowError(
            f"profile: tools: `{provider}` is unknown (known: {', '.join(submission.PROVIDERS)})"
        )
    return provider


def figures_for_snakemake():
    # Which figures there are is known once they are drawn. Only `snakemake --report`, which runs nothing, needs to know.
    if not any(word.split("=")[0] == "--report" for word in sys.argv[1:]):
        return []
    files = sorted((CAMPAIGN.results / "figures").glob("*.svg"))
    # On a line of its own `report` would be the directive of that name.
    shown = partial(report, caption="../report/figure.rst", category=NAME)
    return [
        shown(file, subcategory="figures", labels={"what": file.stem}) for file in files
    ]


def sayable(function, *arguments):
    try:
        return function(*arguments)
    except (Busy, ConfigError) as error:
        raise WorkflowError(f"{error}\nnothing was run") from None


def or_exit(function):
    # A WorkflowError would be shown with the lines of this file that it went through.
    try:
        return function()
    except WorkflowError as error:
        sys.exit(str(error))


GIVEN = given_values()
CONFIG, ONLY, LAUNCHER, PROVIDER = (
    chosen_configuration(),
    GIVEN.pop("only", None),
    in_profile("launcher") or "direct",
    chosen_provider(),
)
RESULTS = Path("results")
SITE = sayable(chosen_site)  # None on this machine alone
SCHEDULER = ["--scheduler", "slurm"] if SITE else []
IN_PLACE = [f"--{name}={value}" for name, value in GIVEN.items()]
# For -n on the machine that measures, the target has to be there.
LOOK = not SITE and workflow.output_settings.dryrun and "tools" not in sys.argv[1:]


def campaign_now():
    """The campaign, and what is left of it."""
    return dag.load(
        CONFIG, RESULTS, LAUNCHER, ONLY, SITE, PROVIDER, look=LOOK, given=GIVEN
    )


CAMPAIGN = or_exit(lambda: sayable(campaign_now))

for line in CAMPAIGN.damaged:
    print(f"iosweep: {line}", file=sys.stderr)
if workflow.output_settings.dryrun:
    for line in dag.criteria_lines(CAMPAIGN.plan, LOOK):
        print(f"iosweep: {line}", file=sys.stderr)
    # The nodes decide: they may see another file system there. On one machine this has refused already.
    if SITE and (line := dag.no_room(CAMPAIGN)):
        print(f"iosweep: {line}", file=sys.stderr)
if not workflow.output_settings.dryrun and not profile.asks(sys.argv[1:]):
    or_exit(lambda: sayable(CAMPAIGN.restore))
# The executor plugin takes it from there.
ATTEMPTS = attempts.Attempts(CAMPAIGN, campaign_now)
attempts.hand_over(ATTEMPTS)
# Not a parameter: what was measured does not depend on it, and a run without it must not do anything again.
ONLY_THESE = ["--only", ONLY] if ONLY else []
# What Spack builds, for the jobs to measure with. None: they look on PATH.
TOOLS = [CAMPAIGN.tools_file] if CAMPAIGN.tools_file else []
# Names and text are UTF-8, whatever the locale, and modules are ours, whatever lies in the working directory.
#: Of what `snakemake --report` shows.
NAME = CAMPAIGN.results.name
IOSWEEP = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep"]


def text_of(allocation):
    """What is left of an allocation, and what its next job asks for."""
    minutes = ATTEMPTS.minutes(allocation) if SITE else None
    asks = minutes if allocation in CAMPAIGN.left else None
    return ATTEMPTS.campaign.text(allocation, asks)


def one_of(allocations):
    """A wildcard's constraint; nothing is called `none`."""
    return "|".join(allocations) or "none"


def before_anything_runs():
    if SITE and workflow.executor_plugin.name != "iosweep":
        raise WorkflowError("profile: scheduler=slurm goes with `executor: iosweep`")
    if not SITE and any(
        job.rule.name == "measure" for job in workflow.dag.needrun_jobs()
    ):
        or_exit(lambda: sayable(dag.see_target, CONFIG, CAMPAIGN, GIVEN))
    # Held until this Snakemake ends; its own lock would stay after a kill.
    or_exit(lambda: sayable(dag.lock, CAMPAIGN.results))


def builds_only():
    return {job.rule.name for job in workflow.dag.jobs} == {"tools"}


def report_what_is_there():
    # Without the figures, which take time: this also runs after Ctrl-C.
    for step in (["merge", CAMPAIGN.plan_file], ["page", CAMPAIGN.results]):
        if not CAMPAIGN.plan_file.exists():
            return
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
    subprocess.run([*IOSWEEP, "show", CAMPAIGN.plan.campaign], check=False)


def figures_for_snakemake():
    # Which figures there are is known once they are drawn. Only `snakemake --report`, which runs nothing, needs to know.
    if not any(word.split("=")[0] == "--report" for word in sys.argv[1:]):
        return []
    files = sorted((CAMPAIGN.results / "figures").glob("*.svg"))
    shown = report  # at the start of a line it would be the directive of that name
    kind = {"caption": "../report/figure.rst", "category": CAMPAIGN.results.name}
    return [
        shown(file, **kind, subcategory="figures", labels={"what": file.stem})
        for file in files
    ]
