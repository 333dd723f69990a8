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
        "{params.iosweep:q} plan --write {output:q} -- {params.config:q} 2>&1 | tee {log:q}"


# Only allocations with something left are submitted. A job on another machine parses this again when part of it is
# done, and is to do what it was sent for.
rule measure:
    input:
        CAMPAIGN.plan_file,
    output:
        CAMPAIGN.results / "manifests" / "{allocation}-{digest}-{generation}.jsonl",
    log:
        CAMPAIGN.results / "logs" / "{allocation}-{digest}-{generation}.log",
    wildcard_constraints:
        allocation=one_of(
            CAMPAIGN.left if workflow.is_main_process else CAMPAIGN.manifests
        ),
        digest="[0-9a-f]+",
        generation="[0-9]+",
    params:
        iosweep=lambda _: IOSWEEP,
        launcher=LAUNCHER,
    message:
        "measure {TEXT:{wildcards.allocation}}"
    shell:
        "{params.iosweep:q} measure {input:q} --allocation {wildcards.allocation:q} --manifest {output:q}"
        " --launcher {params.launcher:q} {ONLY_THESE:q} --log {log:q} --works-for $PPID"


# The manifest of what is measured already: nothing to submit.
use rule measure as collect with:
    wildcard_constraints:
        allocation=one_of(set(CAMPAIGN.manifests) - set(CAMPAIGN.left)),
        digest="[0-9a-f]+",
        generation="[0-9]+",
    localrule: True
    message:
        "collect {TEXT:{wildcards.allocation}}"
