# A job for each allocation with something left: it runs this command and no Snakemake, so that it measures what it was
# sent for. The profiles force this rule: the manifest, its output, may be there from an earlier run.


# A parameter that takes `output` is a derived one for Snakemake: a change of it runs nothing again.
rule measure:
    input:
        tools=[CAMPAIGN.tools.file] if CAMPAIGN.tools else [],
        earlier=lambda wildcards: CAMPAIGN.earlier(wildcards.allocation),
    output:
        RESULTS / "manifests" / "{allocation}.jsonl",
    log:
        RESULTS / "logs" / "{allocation}.log",
    wildcard_constraints:
        allocation="|".join(CAMPAIGN.to_run) or "(?!)",
    retries: CAMPAIGN.retries
    resources:
        text=lambda wildcards: ATTEMPTS.text(wildcards.allocation),
    params:
        launcher=SITE.launcher,
        scheduler=["--scheduler", "slurm"] if SITE.slurm else [],
        plan=lambda wildcards, output: CAMPAIGN.plan_file,
        only=lambda wildcards, output: (
            ["--only", CAMPAIGN.only] if CAMPAIGN.only else []
        ),
    message:
        "measure {resources.text}"
    shell:
        "{IOSWEEP:q} {rule} {params.plan:q} --tools {input.tools:q} --allocation {wildcards.allocation:q} --manifest {output:q}"
        " --launcher {params.launcher:q} {params.scheduler:q} {params.only:q} --log {log:q} --works-for $PPID"
