# Store -> tables -> report. Made again when the plan, the manifests or the code that makes them change.

# Its output is new when tables, report or figures are damaged: an input that has to be made is noticed even where
# Snakemake's own records were lost with them. It stays an input from then on, or the tables would be made once more.


rule repair:
    output:
        CAMPAIGN.results / "repairs" / "{repair}",
    log:
        CAMPAIGN.results / "logs" / "repair-{repair}.log",
    wildcard_constraints:
        repair="[0-9a-f]{12}",
    localrule: True
    params:
        iosweep=lambda _: IOSWEEP,
        damage=lambda wildcards, output: CAMPAIGN.damage,
    message:
        "repair: {params.damage}"
    shell:
        "{params.iosweep:q} repair --log {log:q} {output:q}"


rule merge:
    input:
        plan=CAMPAIGN.plan_file,
        manifests=list(CAMPAIGN.manifests.values()),
        repair=[CAMPAIGN.repair] if CAMPAIGN.repair else [],
    output:
        CAMPAIGN.results / "results.parquet",
        report(
            CAMPAIGN.results / "results.csv",
            caption="../report/table.rst",
            category=CAMPAIGN.results.name,
            labels={"what": "table of results"},
        ),
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
        "{params.iosweep:q} merge {input.plan:q} --repair {input.repair:q} --log {log:q}"


rule report:
    input:
        rules.merge.output,
    output:
        report(
            CAMPAIGN.results / "report.html",
            caption="../report/page.rst",
            category=CAMPAIGN.results.name,
            labels={"what": "report"},
        ),
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
        "{params.iosweep:q} page {params.results:q} --log {log:q}"


rule figures:
    input:
        rules.merge.output,
    output:
        CAMPAIGN.results / "figures.done",
        figures_for_snakemake(),
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
        "{params.iosweep:q} figures {params.results:q} --log {log:q}"
