# The programs that measure. What Spack has built is not built again: its place is named after the content of spack.yaml.

if CAMPAIGN.tools:

    # spack.yaml is no input: a checkout gives it a new time. `update`: what did not change keeps its time, and no result
    # of a job counts as older than its tools. What is built depends on neither profile nor sweeps.
    rule tools:
        output:
            update(CAMPAIGN.tools.file),
        log:
            CAMPAIGN.tools.log,
        localrule: True
        params:
            config=lambda wildcards, output: str(CAMPAIGN.file),
            given=lambda wildcards, output: CAMPAIGN.overrides,
            root=lambda wildcards, output: CAMPAIGN.tools.root,
        message:
            "tools: with Spack, in {params.root}"
        shell:
            "{IOSWEEP:q} {rule} {params.config:q} {params.given:q} --works-for $PPID"
