# One job per allocation. Its output is the manifest, which is stale where something is left to measure.


def text_of(allocation):
    """What is left of an allocation, and what its next job asks for."""
    asks = SITE and allocation in CAMPAIGN.left
    return ATTEMPTS.campaign.text(
        allocation, ATTEMPTS.minutes(allocation) if asks else None
    )


# What the job asks Slurm for (submission.py). On this machine nothing is asked for.
RESOURCES = (
    {
        "nodes": lambda wildcards: CAMPAIGN.nodes(wildcards.allocation),
        "tasks": lambda wildcards: submission.tasks(
            CAMPAIGN.nodes(wildcards.allocation)
        ),
        "runtime": lambda wildcards: ATTEMPTS.minutes(wildcards.allocation),
        "slurm_extra": lambda wildcards: ATTEMPTS.options(
            wildcards.allocation, SITE.license
        ),
    }
    if SITE
    else {}
)


# A job runs this command and no Snakemake, so that it measures what it was sent for. A parameter that takes `output` is
# a derived one for Snakemake: a change of it runs nothing again.
rule measure:
    input:
        tools=[CAMPAIGN.tools.file] if CAMPAIGN.tools else [],
    output:
        CAMPAIGN.results / "manifests" / "{allocation}.jsonl",
    log:
        CAMPAIGN.results / "logs" / "{allocation}.log",
    wildcard_constraints:
        allocation="|".join(a.name for a in CAMPAIGN.plan.allocations),
    retries: CAMPAIGN.retries
    resources:
        **RESOURCES,
        # For the message. A resource, because Snakemake evaluates these again for a retry, unlike parameters.
        text=lambda wildcards: text_of(wildcards.allocation),
    params:
        iosweep=lambda _: IOSWEEP,
        launcher=LAUNCHER,
        scheduler=SCHEDULER,
        plan=lambda wildcards, output: CAMPAIGN.plan_file,
        only=lambda wildcards, output: ["--only", ONLY] if ONLY else [],
        stale=lambda wildcards: stale(CAMPAIGN.manifest(wildcards.allocation)),
    message:
        "measure {resources.text}"
    shell:
        "{params.iosweep:q} {rule} {params.plan:q} --tools {input.tools:q} --allocation {wildcards.allocation:q} --manifest {output:q}"
        " --launcher {params.launcher:q} {params.scheduler:q} {params.only:q} --log {log:q} --works-for $PPID"
