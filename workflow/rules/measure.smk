# One job per allocation. Its output is the manifest; manifest.py says which generation it is to be.


rule plan:
    output:
        CAMPAIGN.results / "plans" / "{digest}.json",
    log:
        CAMPAIGN.results / "logs" / "plan-{digest}.log",
    localrule: True
    params:
        iosweep=lambda _: IOSWEEP,
        config=lambda _: str(CONFIG),
    message:
        "plan: {params.config}"
    shell:
        "{params.iosweep:q} plan --write {output:q} --log {log:q} {IN_PLACE:q} -- {params.config:q}"


# Allocation -> a job, of another campaign on the file system, that its next job waits for.
AFTER = {}
# Allocation -> how many of its jobs were too short to measure anything.
TOO_SHORT = {}
# What the job asks Slurm for (submission.py). On this machine nothing is asked for.
RESOURCES = (
    {
        "nodes": lambda wildcards: CAMPAIGN.nodes(wildcards.allocation),
        "tasks": lambda wildcards: submission.tasks(
            CAMPAIGN.nodes(wildcards.allocation)
        ),
        "mpi": "iosweep",  # any: our command gets the whole allocation, where the executor would give it one CPU
        "runtime": lambda wildcards: CAMPAIGN.minutes(
            wildcards.allocation, 1 + TOO_SHORT.get(wildcards.allocation, 0)
        ),
        "slurm_extra": lambda wildcards: submission.options(
            SITE.licence, AFTER.get(wildcards.allocation)
        ),
    }
    if SITE
    else {}
)


# Only allocations with something left are submitted. A job on another machine parses this again when part of it is
# done, and is to do what it was sent for; its Snakemake must not try again inside of the job. The name of the campaign
# is a wildcard because Slurm shows the wildcards of a job, and pending.py knows them by it.
rule measure:
    input:
        plan=CAMPAIGN.plan_file,
        tools=TOOLS,
    output:
        RESULTS
        / "{campaign}"
        / "manifests"
        / "{allocation}-{digest}-{generation}.jsonl",
    log:
        RESULTS / "{campaign}" / "logs" / "{allocation}-{digest}-{generation}.log",
    wildcard_constraints:
        campaign=re.escape(CAMPAIGN.plan.campaign),
        allocation=one_of(
            CAMPAIGN.left if workflow.is_main_process else CAMPAIGN.manifests
        ),
        digest="[0-9a-f]+",
        generation="[0-9]+",
    retries: CAMPAIGN.retries if workflow.is_main_process else 0
    resources:
        **RESOURCES,
    params:
        iosweep=lambda _: IOSWEEP,
        launcher=LAUNCHER,
        scheduler=SCHEDULER,
    message:
        "measure {TEXT:{wildcards.allocation}"
        + (" {resources.runtime}" if SITE else "")
        + "}"
    shell:
        "{params.iosweep:q} {rule} {input.plan:q} --tools {input.tools:q} --allocation {wildcards.allocation:q} --manifest {output:q}"
        " --launcher {params.launcher:q} {params.scheduler:q} {ONLY_THESE:q} --log {log:q} --works-for $PPID"


# The manifest of what is measured already: nothing to submit. With the same parameters, or it would count as changed.
use rule measure as collect with:
    wildcard_constraints:
        campaign=re.escape(CAMPAIGN.plan.campaign),
        allocation=one_of(set(CAMPAIGN.manifests) - set(CAMPAIGN.left)),
        digest="[0-9a-f]+",
        generation="[0-9]+",
    localrule: True
    message:
        "collect {TEXT:{wildcards.allocation}}"
