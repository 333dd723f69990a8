# The plan and what the store says is left, asked once.
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

from iosweep import dag
from iosweep.config import sweep_file
from iosweep.jobs import profile, submission
from iosweep.errors import ConfigError
from iosweep.results.store import Store
from iosweep.slurm import query
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
        if workflow.is_main_process and profile.submits(sys.argv[1:]):
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


def sayable(function, *arguments):
    try:
        return function(*arguments)
    except ConfigError as error:
        raise WorkflowError(f"{error}\nnothing was run") from None


def or_exit(function):
    # A WorkflowError would be shown with the lines of this file that it went through.
    try:
        return function()
    except WorkflowError as error:
        sys.exit(str(error))


def asked():
    # While a Snakefile is read, only the command line's function knows what is asked for.
    frame = sys._getframe()
    while frame and frame.f_code.co_name != "args_to_api":
        frame = frame.f_back
    return frame.f_locals.get("args") if frame else None


# What Snakemake can be asked for beside a run. With -n what is left is shown.
NO_RUN = """touch unlock lint list_rules list_target_rules print_compilation dag rulegraph filegraph d3dag
    summary detailed_summary report containerize generate_unit_tests cleanup_metadata list_changes list_input_changes
    list_params_changes list_untracked archive delete_all_output delete_temp_output""".split()


def measures_here():
    # Whether this machine measures, or with -n would measure: then the target has to be there.
    args = asked()
    if SITE or not workflow.is_main_process or not args or only_tools():
        return False
    return not any(getattr(args, key, None) for key in NO_RUN)


def changes_files():
    # Whether this is a run, and not -n or a question.
    args = asked()
    return args and not any(getattr(args, key, None) for key in ["dryrun", *NO_RUN])


def only_tools():
    # Asked for is that the tools are built, and nothing that measures.
    args = asked()
    return bool(args) and list(args.targets or ()) == ["tools"]


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

if SITE and workflow.is_main_process:

    include: "slurm.smk"

    wait_for_earlier_jobs()


def campaign_now():
    if not workflow.is_main_process:
        # On a node: what the job was sent with, for the configuration may be another one by now.
        query.hand_on()
        plan_file, tools = dag.sent_files(
            getattr(asked(), "wait_for_files", None) or ()
        )
        if plan_file:
            return sayable(dag.sent, plan_file, RESULTS, LAUNCHER, ONLY, SITE, tools)
    return sayable(
        dag.load,
        CONFIG,
        RESULTS,
        LAUNCHER,
        ONLY,
        SITE,
        PROVIDER,
        measures_here(),
        GIVEN,
    )


CAMPAIGN = or_exit(campaign_now)

if workflow.is_main_process:
    for line in CAMPAIGN.damaged:
        print(f"iosweep: {line}", file=sys.stderr)
    if changes_files():
        CAMPAIGN.mend()
STORE = Store(CAMPAIGN.results)
TEXT = dag.Texts(CAMPAIGN)
# Not a parameter: what was measured does not depend on it, and a run without it must not do anything again.
BUILDS_ONLY = only_tools()
ONLY_THESE = ["--only", ONLY] if ONLY else []
# What Spack builds, for the jobs to measure with. None: they look on PATH.
TOOLS = [CAMPAIGN.tools_file] if CAMPAIGN.tools_file else []
# Names and text are UTF-8, whatever the locale, and modules are ours, whatever lies in the working directory.
IOSWEEP = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep"]


def one_of(allocations):
    """A wildcard's constraint; nothing is called `none`."""
    return "|".join(allocations) or "none"


def report_what_is_there():
    # Without the figures: after Ctrl-C nobody wants to wait for them.
    for step in (["merge", CAMPAIGN.plan_file], ["page", CAMPAIGN.results]):
        if not CAMPAIGN.plan_file.exists():
            return
        if subprocess.run([*IOSWEEP, *step], check=False).returncode:
            return
    show_headline()


def show_headline():
    subprocess.run([*IOSWEEP, "show", CAMPAIGN.plan.campaign], check=False)
