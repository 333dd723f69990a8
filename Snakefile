# A table of contents; decisions are made in workflow/iosweep/.


include: "workflow/rules/common.smk"
include: "workflow/rules/tools.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        CAMPAIGN.manifests,
        rules.tables.output,
        rules.report.output,
        rules.figures.output,
    params:
        results=lambda wildcards, input: RESULTS,
    message:
        "all: everything is in {params.results}"


onstart:
    dag.or_exit(CAMPAIGN.start)


# A report although an allocation failed, with those points missing. Also after Ctrl-C.
onerror:
    ATTEMPTS.fail(log)


onsuccess:
    CAMPAIGN.succeed()
