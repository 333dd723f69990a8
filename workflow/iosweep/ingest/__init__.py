"""Outputs that others made: found in directories and archives, their tool detected, read into rows.

| module | what it does |
|---|---|
| walk.py | a file, a directory or an archive -> the files in it, or why one is skipped |
| detect.py | the content of a file -> which tool wrote it (pure) |
| documents.py | what a tool's reader says of files, as `iosweep parse` prints it (pure) |
| contents.py | the content of a file -> what its tools' readers say of it (pure) |
| documents.py | the same with verdicts, as `iosweep parse` gives it: JSON, and rows of a table (pure) |
| io500.py | IO500's own summary beside the figures of its outputs, and its score (pure) |
| collect.py | files -> ingested.zip, ingested.json, and what they hold |
| rows.py | what outputs hold -> rows of the result table, points and sweeps (pure) |
| tables.py | these -> the tables and campaign.json |
"""
