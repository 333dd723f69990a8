"""What is on disk: the store of a campaign, its documents and records.

| module | what it does |
|---|---|
| store.py | results/<campaign>/ -> records and documents; commits a repetition |
| record.py, committed.py | the record of a repetition; the part of it that decides whether it counts |
| campaign_documents.py | the types of refusals, missing points, builds, data sets, target.json and spent.json |
| manifest.py | what an allocation hands to Snakemake (pure, but for writing it) |
| ingested.py | the documents of a campaign that others measured |
"""
