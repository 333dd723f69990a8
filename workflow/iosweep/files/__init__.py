"""How files are written so that a crash loses nothing, and read safely.

| module | what it does |
|---|---|
| documents.py | JSON with a digest: encoded; checked when it is read |
| safe_paths.py | writes that a power cut leaves whole (temporary name, fsync, rename); no link is followed |
"""
