"""What is on disk: the store of a campaign, its documents and records.

| module | what it does |
|---|---|
| record.py | the documents of a campaign: the record of a repetition in three depths, and the small ones |
| store.py | results/<campaign>/ -> records and documents; stores a repetition; writes manifests for Snakemake |
| ingested.py | the documents of a campaign that others measured |
"""
