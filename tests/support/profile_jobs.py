"""What Snakemake makes of configurations with profiles, as JSON on stdout: a dry run of each in one process.

    profile_jobs.py SNAKEFILE PROFILE... -- CONFIGURATION...

The jobs of each pair: rule, message, resources; for Slurm also the command that submits it.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

from snakemake.api import SnakemakeApi
from snakemake.cli import parse_args
from snakemake.settings.types import ConfigSettings, OutputSettings, Quietness, ResourceSettings
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from iosweep.jobs import attempts, submission


def jobs(snakefile: str, profile: str, configuration: str) -> list[dict]:
    _, asked = parse_args(["--profile", profile, "--dry-run"])
    given = {"default_resources": asked.default_resources, "overwrite_resources": asked.set_resources}
    resources = ResourceSettings(cores=asked.cores, nodes=asked.jobs, **given)
    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        found = api.workflow(
            resources,
            ConfigSettings(configfiles=[Path(configuration)]),
            snakefile=Path(snakefile),
        )
        found.dag().execute_workflow(executor=asked.executor, pseudo_executor="dryrun")
        workflow = found._workflow
        ExecutorPluginRegistry().get_plugin(asked.executor).get_settings(asked)
        jobs_of_slurm = attempts.current if asked.executor == "iosweep" else None
        return [
            {
                "rule": job.rule.name,
                "message": job.message,
                "retries": job.restart_times,
                "command": sbatch(job, jobs_of_slurm) if jobs_of_slurm and job.rule.name == "measure" else None,
            }
            for job in workflow.dag.jobs
        ]


def sbatch(job, of_run: attempts.Attempts) -> list[str]:
    name = job.wildcards.allocation
    work = of_run.work(name)
    return submission.sbatch(
        work.site, work.nodes, of_run.minutes(name), "iosweep", "iosweep", "%j.log", str(Path.cwd())
    )


if __name__ == "__main__":
    snakefile, *rest = sys.argv[1:]
    cut = rest.index("--")
    with contextlib.redirect_stdout(sys.stderr):
        made = {c: {p: jobs(snakefile, p, c) for p in rest[:cut]} for c in rest[cut + 1 :]}
    print(json.dumps(made, default=str))
    sys.stdout.flush()
    os._exit(0)
