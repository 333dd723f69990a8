# One job per allocation. Its output is the manifest, which is stale where something is left to measure.


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
        text=lambda wildcards: ATTEMPTS.text(wildcards.allocation),
    params:
        iosweep=lambda _: IOSWEEP,
        launcher=SITE.launcher,
        scheduler=SCHEDULER,
        plan=lambda wildcards, output: CAMPAIGN.plan_file,
        only=lambda wildcards, output: (["--only", ASKED.only] if ASKED.only else []),
        stale=lambda wildcards: stale(CAMPAIGN.manifest(wildcards.allocation)),
    message:
        "measure {resources.text}"
    shell:
        "{params.iosweep:q} {rule} {params.plan:q} --tools {input.tools:q} --allocation {wildcards.allocation:q} --manifest {output:q}"
        " --launcher {params.launcher:q} {params.scheduler:q} {params.only:q} --log {log:q} --works-for $PPID"
