"""Outputs that others made: found in directories and archives, their tool detected, read into rows.

| module | what it does |
|---|---|
| walk.py | a file, a directory or an archive -> the files in it, or why one is skipped |
| detect.py | the content of a file -> which tool wrote it (pure) |
"""
