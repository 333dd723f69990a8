"""What is on disk: the store, what remains to be measured, checks and verdicts, and the merged tables.

| module | what it does |
|---|---|
| store.py | results/<campaign>/ -> results and documents; commits a repetition |
| record.py, committed.py | the record of a repetition; the part of it that decides whether it counts |
| campaign_documents.py | the types of refusals, missing points, data sets, target.json and spent.json |
| build_files.py | build documents, with Spack's files beside them |
| manifest.py | what an allocation hands to Snakemake (pure, but for writing it) |
| ramps.py, knee.py | how far an axis is climbed, and where it bends (pure) |
| best.py | the best point of a phase, and the repetitions that confirm it (pure) |
| remaining.py | plan and store -> repetitions that are left (pure) |
| statistics.py, outliers.py | confidence intervals; nodes that differ from the others (pure) |
| time_to_go.py | how long the rest takes (pure) |
| checks/, reasons.py | raw output and record -> findings -> reasons (pure) |
| columns.py | the columns of the tables |
| judging.py | raw output and record -> rows with verdict, of a phase and of a point |
| node_rates.py, series.py | rates of nodes and workers, and over time (pure) |
| origins.py | which nodes, CPUs and jobs rows come from |
| merge.py | store -> tables and campaign.json, with rows for what is missing |
| table_writer.py | rows -> the files of all tables |
| merged_tables.py, campaign_form.py | tables and campaign.json -> rows; damage in them |
| change_points.py | when a figure changed for good in a row of nights (pure) |
"""
