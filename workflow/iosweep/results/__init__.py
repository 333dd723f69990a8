"""What is on disk: the store, what remains to be measured, checks and verdicts, and the merged tables.

| module | what it does |
|---|---|
| store.py | results/<campaign>/ -> results and documents; commits a repetition |
| record.py, committed.py | the record of a repetition; the part of it that decides whether it counts |
| campaign_documents.py | the types of refusals, missing points, data sets, target.json and spent.json |
| build_files.py | build documents, with Spack's files beside them |
| raw_output.py | the archive of a repetition's raw output |
| campaign_lock.py | one process at a time measures a campaign |
| target_file.py | target.json: where the campaign is on the target |
| manifest.py | what an allocation hands to Snakemake (pure, but for writing it) |
| ramps.py, knee.py | how far an axis is climbed, and where it bends (pure) |
| winners.py, confirming.py | the best point of a phase, and the repetitions that confirm it (pure) |
| remaining.py | plan and store -> repetitions that are left (pure) |
| statistics.py, outliers.py | confidence intervals; nodes that differ from the others (pure) |
| between_sessions.py | how sessions of one system differ, and changes beyond that (pure) |
| time_to_go.py, time_limit.py | how long the rest takes; whether limits.time leaves time for it (pure) |
| checks/, verdict.py, reasons.py | raw output and record -> findings -> verdict and its reasons (pure) |
| columns.py | the columns of the tables |
| judging.py, origins.py | the stored repetitions of a point -> its rows, and which nodes and jobs they come from |
| judging_processes.py | the same of many points, by several processes |
| row_blocks.py | rows of many points as Arrow has them, and as bytes |
| row_cache.py, unchanged.py | judged/: rows of the last merge, and whether they are still right |
| judged_points.py | points with their rows, from there or judged now |
| rows.py, repeated.py, compared.py | what all repetitions show together, rows of those that are missing |
| merge.py | store -> tables and campaign.json |
| campaign_tables.py, table_writer.py, safe_csv.py | rows -> the files of all tables |
| merged_tables.py, table_values.py, campaign_form.py | tables and campaign.json -> rows; damage in them |
| change_points.py | when a figure changed for good in a row of nights (pure) |
| temporary_files.py | removes what killed writers left |
"""
