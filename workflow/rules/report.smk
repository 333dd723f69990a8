# Store -> tables -> report. Made again when the manifests or the code that makes them change, or they are stale.


rule tables:
    input:
        CAMPAIGN.manifests,
    output:
        CAMPAIGN.results / "results.parquet",
        report(
            CAMPAIGN.results / "results.csv",
            caption="../report/table.rst",
            category=NAME,
            labels={"what": "table of results"},
        ),
        CAMPAIGN.results / "checks.parquet",
        CAMPAIGN.results / "nodes.parquet",
        CAMPAIGN.results / "campaign.json",
    log:
        CAMPAIGN.results / "logs" / "tables.log",
    localrule: True
    params:
        iosweep=lambda _: IOSWEEP,
        code=CAMPAIGN.tables_code,
        digest=CAMPAIGN.plan.digest,
        plan=lambda wildcards, output: CAMPAIGN.plan_file,
        stale=stale(CAMPAIGN.results / "results.parquet"),
    message:
        "tables: raw output to tables"
    shell:
        "{params.iosweep:q} {rule} {params.plan:q} --log {log:q}"


rule report:
    input:
        rules.tables.output,
    output:
        report(
            CAMPAIGN.results / "report.html",
            caption="../report/page.rst",
            category=NAME,
            labels={"what": "report"},
        ),
    log:
        CAMPAIGN.results / "logs" / "report.log",
    localrule: True
    params:
        iosweep=lambda _: IOSWEEP,
        code=CAMPAIGN.report_code,
        results=lambda wildcards, output: CAMPAIGN.results,
    message:
        "report: {output}"
    shell:
        "{params.iosweep:q} {rule} --page {params.results:q} --log {log:q}"


rule figures:
    input:
        rules.tables.output,
    output:
        CAMPAIGN.results / "figures.done",
    log:
        CAMPAIGN.results / "logs" / "figures.log",
    localrule: True
    params:
        iosweep=lambda _: IOSWEEP,
        code=CAMPAIGN.report_code,
        results=lambda wildcards, output: CAMPAIGN.results,
    message:
        "figures: SVG and PNG in {params.results}/figures"
    shell:
        "{params.iosweep:q} report --figures {params.results:q} --log {log:q}"
