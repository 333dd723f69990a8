"""What is on disk: the store of a campaign, its documents and records.

| module | what it does |
|---|---|
| record.py | the record of a repetition, in three depths |
| store.py | results/<campaign>/ -> records and documents; stores a repetition |
| campaign_documents.py | the types of refusals, missing points, builds, data sets, target.json and spent.json |
| manifest.py | what an allocation hands to Snakemake (pure, but for writing it) |
| ingested.py | the documents of a campaign that others measured |
"""
