# The plan and what the store says is left, asked once.
import subprocess
import sys
from pathlib import Path

from iosweep import dag
from iosweep.yamlfile import ConfigError
from snakemake.exceptions import WorkflowError


def chosen_configuration():
    # One file is one campaign: merging two, as Snakemake does, would hide what is measured.
    files = workflow.config_settings.configfiles
    if len(files) > 1:
        raise WorkflowError("give one --configfile; a campaign is one file")
    file = Path(files[0]) if files else Path("config/sweep.yaml")
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def chosen_points():
    given = workflow.config_settings.config
    if unknown := sorted(set(given) - {"only"}):
        raise WorkflowError(
            f"--config knows `only` (points or sweeps), not {', '.join(unknown)}; the rest stands in the file"
        )
    return str(given["only"]) if "only" in given else None


def launcher():
    # A profile's `config:` vanishes under --config; its default-resources do not, and are known here already.
    resources = workflow.resource_settings.default_resources or {}
    return (
        str(resources["launcher"].raw).strip("\"'")
        if "launcher" in resources
        else "direct"
    )


def load_dag():
    try:
        return dag.load(CONFIG, Path("results"), LAUNCHER, ONLY)
    except ConfigError as error:
        raise WorkflowError(f"{error}\nnothing was run") from None


CONFIG, ONLY, LAUNCHER = chosen_configuration(), chosen_points(), launcher()
CAMPAIGN = load_dag()
TEXT = dag.Texts(CAMPAIGN)
# Not a parameter: what was measured does not depend on it, and a run without it must not do anything again.
ONLY_THESE = ["--only", ONLY] if ONLY else []
# Names and text are UTF-8, whatever the locale, and modules are ours, whatever lies in the working directory.
IOSWEEP = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep.cli"]


def one_of(allocations):
    """A wildcard's constraint; nothing is called `none`."""
    return "|".join(allocations) or "none"


def report_what_is_there():
    # Without the figures: after Ctrl-C nobody wants to wait for them.
    for step in (["merge", CAMPAIGN.plan_file], ["page", CAMPAIGN.results]):
        if CAMPAIGN.plan_file.exists():
            subprocess.run([*IOSWEEP, *step], check=False)
    show_headline()


def show_headline():
    subprocess.run([*IOSWEEP, "show", CAMPAIGN.plan.campaign], check=False)
