# The programs that measure. What Spack has built is not built again: its place is named after the content of spack.yaml.

if CAMPAIGN.tools:

    # Not an input: a checkout gives spack.yaml a new time. `update`: what did not change keeps its time, and no result of
    # a job counts as older than its tools. No parameters: what is built depends on neither profile nor sweeps.
    rule tools:
        output:
            update(CAMPAIGN.tools.file),
        log:
            CAMPAIGN.tools.log,
        localrule: True
        params:
            iosweep=lambda _: IOSWEEP,
            config=lambda wildcards, output: str(ASKED.config),
            given=lambda wildcards, output: ASKED.overrides,
            root=lambda wildcards, output: CAMPAIGN.tools.root,
        message:
            "tools: with Spack, in {params.root}"
        shell:
            "{params.iosweep:q} tools build {params.config:q} {params.given:q} --works-for $PPID"
