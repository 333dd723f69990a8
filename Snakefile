# A table of contents: configuration, includes, targets. What is decided is decided in workflow/iosweep/.


include: "workflow/rules/common.smk"
include: "workflow/rules/tools.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/report.smk"


# The manifests as well as the report: were the report alone asked for, one made after a failed allocation would
# count as done, and the next run would not take the allocation up again.
rule all:
    default_target: True
    input:
        CAMPAIGN.manifests,
        rules.tables.output,
        rules.report.output,
        rules.figures.output,
    params:
        results=lambda wildcards, input: CAMPAIGN.results,
    message:
        "all: everything is in {params.results}"


onstart:
    before_anything_runs()


# A report although an allocation failed, with those points missing. Also after Ctrl-C.
onerror:
    end_with_the_reason(log)


# Not of older tables, as after `--until measure`.
onsuccess:
    if "tables" in asked_rules():
        show_headline()
    # A sweep that is missing as a whole is no success, as where its tool is not there.
    if unmeasured := CAMPAIGN.unmeasured():
        exit_with(unmeasured)
