"""The files of a campaign's results: the store, its records and documents.

| module | what it does |
|---|---|
| record.py | types of documents: the record of a repetition at three depths, and the small documents |
| store.py | results/<campaign>/: commits, supersedes and reads records; detects another target; manifests |
| ingested.py | the documents of an ingested campaign |
"""
