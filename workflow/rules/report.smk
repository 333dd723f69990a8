# Store -> tables -> report. Made again when the plan, a manifest or the code that makes them changes, or one is damaged.


# The profiles force this rule, too: of damaged tables it is a new input. (A rule with a wildcard is no target.)
rule damaged:
    output:
        temp(touch(RESULTS / "damaged.{what}")),
    localrule: True
    message:
        "damaged: tables and report are made again"


rule tables:
    input:
        CAMPAIGN.manifests,
        [RESULTS / "damaged.outputs"] if CAMPAIGN.remake else [],
    output:
        RESULTS / "results.parquet",
        RESULTS / "campaign.json",
        report(RESULTS / "results.csv", caption="../report/table.rst", category=NAME),
    log:
        RESULTS / "logs" / "tables.log",
    localrule: True
    params:
        code=code_digest(NOT_TABLES),
        digest=CAMPAIGN.plan.digest,
        plan=lambda wildcards, output: CAMPAIGN.plan_file,
    message:
        "tables: records to tables"
    shell:
        "{IOSWEEP:q} {rule} {params.plan:q} --log {log:q}"


rule report:
    input:
        rules.tables.output,
    output:
        report(RESULTS / "report.html", caption="../report/page.rst", category=NAME),
    log:
        RESULTS / "logs" / "report.log",
    localrule: True
    params:
        code=code_digest(NOT_REPORT),
        results=lambda wildcards, output: RESULTS,
    message:
        "report: {output}"
    shell:
        "{IOSWEEP:q} {rule} --page {params.results:q} --log {log:q}"


rule figures:
    input:
        rules.tables.output,
    output:
        RESULTS / "figures.done",
    log:
        RESULTS / "logs" / "figures.log",
    localrule: True
    params:
        code=code_digest(NOT_REPORT),
        results=lambda wildcards, output: RESULTS,
    message:
        "figures: SVG and PNG in {params.results}/figures"
    shell:
        "{IOSWEEP:q} report --figures {params.results:q} --log {log:q}"
