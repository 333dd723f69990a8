# Store -> tables -> report. Made again when the plan, the manifests or the code that makes them change.


rule merge:
    input:
        plan=CAMPAIGN.plan_file,
        manifests=list(CAMPAIGN.manifests.values()),
    output:
        CAMPAIGN.results / "results.parquet",
        CAMPAIGN.results / "results.csv",
        CAMPAIGN.results / "checks.parquet",
        CAMPAIGN.results / "nodes.parquet",
        CAMPAIGN.results / "campaign.json",
    log:
        CAMPAIGN.results / "logs" / "merge.log",
    localrule: True
    params:
        iosweep=lambda _: IOSWEEP,
        code=CAMPAIGN.merge_code,
    message:
        "merge: raw output to tables"
    shell:
        "{params.iosweep:q} merge {input.plan:q} 2>&1 | tee {log:q}"


rule report:
    input:
        rules.merge.output,
    output:
        CAMPAIGN.results / "report.html",
    log:
        CAMPAIGN.results / "logs" / "report.log",
    localrule: True
    params:
        iosweep=lambda _: IOSWEEP,
        code=CAMPAIGN.report_code,
        results=lambda wildcards, output: Path(output[0]).parent,
    message:
        "report: {output}"
    shell:
        "{params.iosweep:q} page {params.results:q} 2>&1 | tee {log:q}"


rule figures:
    input:
        rules.merge.output,
    output:
        touch(CAMPAIGN.results / "figures.done"),
    log:
        CAMPAIGN.results / "logs" / "figures.log",
    localrule: True
    params:
        iosweep=lambda _: IOSWEEP,
        code=CAMPAIGN.report_code,
        results=lambda wildcards, output: Path(output[0]).parent,
    message:
        "figures: SVG and PNG in {params.results}/figures"
    shell:
        "{params.iosweep:q} figures {params.results:q} 2>&1 | tee {log:q}"
