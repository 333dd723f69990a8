# A parameter that takes `output` is a derived one for Snakemake: a change of it runs nothing again.


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
        given=lambda wildcards, output: IN_PLACE,
    message:
        "plan: {params.config}"
    shell:
        "{params.iosweep:q} plan --write {output:q} --log {log:q} {params.given:q} -- {params.config:q}"


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


# Only allocations with something left are submitted. A job runs this command and no Snakemake, so that it measures what
# it was sent for. The wildcards are in the job's comment, by which it is known (slurm/job_comment.py).
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
        allocation=one_of(CAMPAIGN.left),
        digest="[0-9a-f]+",
        generation="[0-9]+",
    retries: CAMPAIGN.retries
    resources:
        **RESOURCES,
        # For the message. A resource, because Snakemake evaluates these again for a retry, unlike parameters.
        text=lambda wildcards: text_of(wildcards.allocation),
    params:
        iosweep=lambda _: IOSWEEP,
        launcher=LAUNCHER,
        scheduler=SCHEDULER,
        only=lambda wildcards, output: ONLY_THESE,
    message:
        "measure {resources.text}"
    shell:
        "{params.iosweep:q} {rule} {input.plan:q} --tools {input.tools:q} --allocation {wildcards.allocation:q} --manifest {output:q}"
        " --launcher {params.launcher:q} {params.scheduler:q} {params.only:q} --log {log:q} --works-for $PPID"


# The manifest of what is measured already: nothing to submit. With the same parameters, or it would count as changed.
use rule measure as collect with:
    wildcard_constraints:
        campaign=re.escape(CAMPAIGN.plan.campaign),
        allocation=one_of(set(CAMPAIGN.manifests) - set(CAMPAIGN.left)),
        digest="[0-9a-f]+",
        generation="[0-9]+",
    localrule: True
    message:
        "collect {resources.text}"
